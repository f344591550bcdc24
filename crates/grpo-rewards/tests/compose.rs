//! Rewards made of rewards.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic)] // Helpers of tests, too, say what they expect.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use grpo_core::{
    BoxError, Completion, FinishReason, Group, GroupId, LogProbKind, OnRewardError, Prompt, Reward, RewardFn, Rewards, Sample, from_fn,
};
use grpo_rewards::answer::LineAnswer;
use grpo_rewards::compose::{Cached, Clipped, Deadline, Gate, Parallel, Product, Sum, Watched, summaries};
use grpo_rewards::preference::{BradleyTerry, Pairs, PairwiseReward, Preferred, Ranking, RankingReward};

fn completion(text: &str) -> Completion {
    let sample = Sample {
        tokens: vec![1; text.len().max(1)],
        log_probs: vec![0.0; text.len().max(1)],
        log_prob_kind: LogProbKind::Tempered,
        temperature: 1.0,
        finish: FinishReason::EndToken,
        text: text.to_owned(),
        policy_version: None,
    };
    Completion::from_sample(sample, 0).unwrap()
}

fn fixed(name: &str, reward: Reward) -> impl RewardFn<String> + use<> {
    from_fn(name, move |_: &String, _: &Completion| Ok(reward.clone()))
}

fn outcome(function: &impl RewardFn<String>, text: &str) -> Reward {
    function.score(&"42".to_owned(), &completion(text)).unwrap()
}

#[test]
fn sums_leave_out_what_does_not_apply_and_products_end_with_it() {
    let sum = Sum::new("sum").with(2.0, fixed("a", 1.0.into())).unwrap().with(5.0, fixed("b", Reward::NotApplicable)).unwrap();
    assert_eq!(outcome(&sum, ""), Reward::Outcome(2.0));
    assert_eq!(outcome(&Sum::<String>::new("none"), ""), Reward::NotApplicable);
    let steps = Sum::new("steps").with(1.0, fixed("s", Reward::Steps(vec![(0, 0.5), (1, 0.25)]))).unwrap();
    assert_eq!(outcome(&steps, "ab"), Reward::Outcome(0.75));
    let product = Product::new("product").with(fixed("a", 0.5.into())).with(fixed("b", 0.5.into()));
    assert_eq!(outcome(&product, ""), Reward::Outcome(0.25));
    assert_eq!(outcome(&product.with(fixed("c", Reward::NotApplicable)), ""), Reward::NotApplicable);
}

#[test]
fn a_gate_opens_for_right_answers_only() {
    let gate = Gate::new(LineAnswer, 1.0, fixed("form", 0.3.into())).otherwise(-1.0).unwrap();
    assert_eq!(outcome(&gate, "42"), Reward::Outcome(0.3));
    assert_eq!(outcome(&gate, "41"), Reward::Outcome(-1.0));
    assert_eq!(gate.score(&String::new(), &completion("42")).unwrap(), Reward::NotApplicable);
}

#[test]
fn clipping_keeps_bounds_and_checks_them() {
    assert_eq!(outcome(&Clipped::new(fixed("a", 7.0.into()), -1.0, 1.0).unwrap(), ""), Reward::Outcome(1.0));
    assert!(Clipped::new(fixed("a", 7.0.into()), 1.0, -1.0).is_err());
}

#[test]
fn group_functions_see_the_group_through_wrappers() {
    let longest = RankingReward::new("longest", |_: &String, group: &[Completion]| {
        let mut order: Vec<usize> = (0..group.len()).collect();
        order.sort_by_key(|i| std::cmp::Reverse(group[*i].text.len()));
        Ok(Ranking::new(order.into_iter().map(|i| vec![i]).collect(), group.len())?)
    });
    let sum = Sum::new("sum").with(2.0, Clipped::new(Watched::new(longest), 0.0, 0.5).unwrap()).unwrap();
    let group = [completion("a"), completion("ccc"), completion("bb")];
    assert_eq!(sum.score_group(&String::new(), &group).unwrap(), [Reward::Outcome(0.0), Reward::Outcome(1.0), Reward::Outcome(1.0)]);
}

#[test]
fn comparisons_order_a_group() {
    let longer =
        PairwiseReward::new("longer", Pairs::Ring(1), BradleyTerry::new(0.1).unwrap(), |_: &String, a: &Completion, b: &Completion| {
            Ok(if a.text.len() > b.text.len() { Preferred::First } else { Preferred::Second })
        });
    let group: Vec<Completion> = ["a", "bb", "ccc", "dddd"].map(completion).to_vec();
    let strengths: Vec<f64> = longer
        .score_group(&String::new(), &group)
        .unwrap()
        .into_iter()
        .map(|r| if let Reward::Outcome(s) = r { s } else { f64::NAN })
        .collect();
    assert!(strengths.windows(2).all(|w| w[0] < w[1]), "{strengths:?}");
    assert_eq!(longer.score_group(&String::new(), &group[..1]).unwrap(), [Reward::NotApplicable]);
}

#[test]
fn a_cache_remembers_texts_of_one_task_and_forgets_failures() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let slow = from_fn("slow", |_: &String, c: &Completion| {
        CALLS.fetch_add(1, Ordering::SeqCst);
        if c.text.is_empty() { Err::<Reward, BoxError>("broken".into()) } else { Ok(1.0.into()) }
    });
    let cached = Cached::new(slow, 2).unwrap();
    for (task, text) in [("1", "x"), ("1", "x"), ("2", "x"), ("1", "x")] {
        cached.score(&task.to_owned(), &completion(text)).unwrap();
    }
    assert_eq!((CALLS.load(Ordering::SeqCst), cached.counts().hits), (2, 2));
    assert!(cached.score(&"1".to_owned(), &completion("")).is_err());
    assert!(cached.score(&"1".to_owned(), &completion("")).is_err());
    assert_eq!(CALLS.load(Ordering::SeqCst), 4);
    assert!(Cached::<String, _>::new(LineAnswer, 0).is_err());
}

#[test]
fn failures_are_contained_named_and_counted() {
    let watched = Watched::new(from_fn("brittle", |_: &String, c: &Completion| match c.text.as_str() {
        "panic" => panic!("on purpose"),
        "error" => Err("broken".into()),
        "none" => Ok(Reward::NotApplicable),
        _ => Ok(1.0.into()),
    }));
    let group = |texts: &[&str]| {
        vec![Group::new(GroupId(3), Prompt::new(vec![1], "42".to_owned()), texts.iter().map(|t| completion(t)).collect()).unwrap()]
    };
    let rewards = Rewards::new().with(1.0, watched.clone()).on_error(OnRewardError::Missing);
    let table = rewards.score(&group(&["ok", "panic", "error", "none"])).unwrap();
    assert_eq!(table.totals(), [Some(1.0), None, None, None]);
    assert_eq!(table.failures, 2);
    let line = &summaries(&table)[0];
    assert_eq!((line.name.as_str(), line.applied, line.not_applicable, line.mean), ("brittle", 1, 3, Some(1.0)));
    let counts = watched.counts();
    assert!(counts.panics >= 1 && counts.errors >= 1 && counts.not_applicable >= 1, "{counts:?}");
    let stop = Rewards::new().with(1.0, watched).score(&group(&["ok", "panic"])).unwrap_err().to_string();
    assert_eq!(stop, "reward `brittle`, group 3, completion 1: panicked: on purpose");
}

#[test]
fn a_function_that_hangs_is_late_and_then_refused() {
    let hangs = from_fn("hangs", |_: &String, c: &Completion| {
        if c.text == "hang" {
            std::thread::sleep(Duration::from_millis(400));
        }
        Ok(1.0.into())
    });
    let bounded = Deadline::new(hangs, Duration::from_millis(50), 1).unwrap();
    assert_eq!(outcome(&bounded, "quick"), Reward::Outcome(1.0));
    let late = bounded.score(&String::new(), &completion("hang")).unwrap_err().to_string();
    assert_eq!(late, "took longer than 50ms");
    assert_eq!(bounded.late(), 1);
    assert!(bounded.score(&String::new(), &completion("quick")).unwrap_err().to_string().contains("still running"));
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(bounded.late(), 0);
    assert_eq!(outcome(&bounded, "quick"), Reward::Outcome(1.0));
}

#[test]
fn parallel_keeps_the_order() {
    let slow_first = from_fn("slow", |_: &String, c: &Completion| {
        std::thread::sleep(Duration::from_millis(20_u64.saturating_sub(c.text.len() as u64)));
        Ok((c.text.len() as f64).into())
    });
    let group: Vec<Completion> = (1..9).map(|n| completion(&"x".repeat(n))).collect();
    let rewards = Parallel::new(slow_first).score_group(&String::new(), &group).unwrap();
    assert_eq!(rewards, (1..9).map(|n| Reward::Outcome(f64::from(n))).collect::<Vec<_>>());
}
