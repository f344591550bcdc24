//! Hand-made groups.

use super::*;
use crate::error::Error;
use crate::group::{Completion, GroupId, Prompt, Sample};
use crate::reward::from_fn;
use crate::score::{RewardTable, Rewards};
use crate::shaping::{Overlong, OverlongPenalty};
use crate::token::{FinishReason, LogProbKind};
use crate::{Advantages, Estimator, Metrics};

/// A group whose task holds the raw rewards, by place; the second number is the length of each completion.
fn group(id: u64, raw: &[(f64, usize)]) -> Group<Vec<f64>> {
    let completion = |(index, &(_, tokens)): (usize, &(f64, usize))| {
        let sample = Sample {
            tokens: vec![index as u32; tokens],
            log_probs: vec![-0.5; tokens],
            log_prob_kind: LogProbKind::Tempered,
            temperature: 1.0,
            finish: if tokens >= 25 { FinishReason::Length } else { FinishReason::EndToken },
            text: String::new(),
            policy_version: None,
        };
        Completion::from_sample(sample, 0).unwrap()
    };
    let completions = raw.iter().enumerate().map(completion).collect();
    Group::new(GroupId(id), Prompt::new(vec![1], raw.iter().map(|r| r.0).collect()), completions).unwrap()
}

/// The raw reward of a completion: its first token says which of the task's numbers it is.
fn raw() -> impl crate::RewardFn<Vec<f64>> {
    from_fn("raw", |task: &Vec<f64>, c: &Completion| Ok(task[c.tokens[0] as usize].into()))
}

fn table(groups: &[Group<Vec<f64>>]) -> RewardTable {
    Rewards::new().with(1.0, raw()).score(groups).unwrap()
}

fn pairs(raw: &[f64]) -> Vec<(f64, usize)> {
    raw.iter().map(|r| (*r, 3)).collect()
}

/// Known fault A37.
#[test]
fn a_group_of_wrong_answers_with_a_length_penalty_has_no_spread() {
    let groups = vec![group(4, &[(0.0, 10), (0.0, 22), (0.0, 25), (0.0, 30)])];
    let line = OverlongPenalty { max_len: 25, buffer: 5, penalty: 0.5, beyond: Overlong::Uncapped };
    let table = Rewards::new().with(1.0, raw()).with(1.0, line).score(&groups).unwrap();
    let shaped: Vec<f64> = table.totals().into_iter().flatten().collect();
    assert!(shaped.iter().zip([0.0, -0.2, -0.5, -1.0]).all(|(got, want)| (got - want).abs() < 1e-12), "{shaped:?}");
    let by_raw = GroupFilter { raw: RawReward::Functions(vec!["raw".into()]), ..GroupFilter::default() };
    let selection = by_raw.apply(groups.clone(), &table).unwrap();
    assert_eq!((selection.groups.len(), selection.counts.no_spread), (0, 1));
    let by_total = GroupFilter::default().apply(groups, &table).unwrap();
    assert_eq!(by_total.counts.kept, 1, "which is the fault");
}

/// Trap 29: the mean says nothing of the spread.
#[test]
fn a_constant_half_is_dropped_and_mixed_rewards_with_any_mean_are_kept() {
    let filter = GroupFilter::default();
    assert_eq!(filter.judge(&[Some(0.5); 4]), Some(Dropped::NoSpread));
    assert_eq!(filter.judge(&[Some(1.5), Some(0.5)]), None, "its mean is 1");
    assert_eq!(filter.judge(&[Some(-1.0), Some(1.0)]), None, "its mean is 0");
    assert_eq!(filter.judge(&[Some(0.1 + 0.2), Some(0.3)]), Some(Dropped::NoSpread));
    let coarse = GroupFilter { spread_above: Some(0.1), ..GroupFilter::default() };
    assert_eq!(coarse.judge(&[Some(0.05), Some(0.1)]), Some(Dropped::NoSpread));
    assert_eq!(filter.judge(&[None, None]), Some(Dropped::Unrewarded));
    assert_eq!(filter.judge(&[Some(1.0), None]), Some(Dropped::Single));
}

#[test]
fn the_accuracy_range_counts_right_answers_and_includes_its_ends() {
    let filter =
        GroupFilter { spread_above: None, accuracy: Some(Accuracy { right_from: 1.0, low: 0.25, high: 0.5 }), ..GroupFilter::default() };
    let judge = |right: usize| filter.judge(&(0..4).map(|i| Some(if i < right { 1.2 } else { 0.2 })).collect::<Vec<_>>());
    assert_eq!([0, 1, 2, 3].map(judge), [Some(Dropped::TooHard), None, None, Some(Dropped::TooEasy)]);
    let upside_down = GroupFilter { accuracy: Some(Accuracy { right_from: 1.0, low: 0.6, high: 0.5 }), ..GroupFilter::default() };
    assert!(upside_down.validate().is_err());
}

#[test]
fn a_selection_carries_its_rewards_and_counts_what_it_left_out() {
    let groups = vec![group(1, &pairs(&[1.0, 1.0])), group(9, &pairs(&[1.0, 0.0, 0.0])), group(3, &pairs(&[0.25, 0.5]))];
    let all = table(&groups);
    let selection = GroupFilter::default().apply(groups.clone(), &all).unwrap();
    assert_eq!(selection.groups, groups[1..]);
    assert_eq!(selection.rewards, table(&groups[1..]));
    assert_eq!((selection.counts.seen, selection.counts.kept, selection.counts.no_spread), (3, 2, 1));
    let metrics = selection.counts.metrics();
    assert_eq!((metrics.get("groups/kept"), metrics.get("groups/dropped/no_spread")), (Some(2.0), Some(1.0)));
    // The advantages of what is kept are those it had.
    let of = |t: &RewardTable| Estimator::default().advantages(&t.totals(), &t.groups).unwrap();
    let (Advantages::PerCompletion(kept), Advantages::PerCompletion(before)) = (of(&selection.rewards), of(&all)) else { panic!() };
    assert_eq!(kept, before[2..]);
    assert!(GroupFilter::default().apply(groups[..2].to_vec(), &all).is_err(), "a table of other groups");
    let unknown = GroupFilter { raw: RawReward::Functions(vec!["row".into()]), ..GroupFilter::default() };
    assert_eq!(unknown.apply(groups, &all).unwrap_err().to_string(), "raw reward: there is no function `row`, must be one of [\"raw\"]");
}

/// Trap 28 and 24: dead groups are counted, and groups are dropped whole.
#[test]
fn refilling_goes_on_until_there_are_enough_or_the_cap_is_reached() {
    let mut asked = Vec::new();
    let mut draw = |round: usize, missing: usize| {
        asked.push((round, missing));
        let id = |k: u64| 10 * round as u64 + k;
        let groups = vec![group(id(0), &pairs(&[1.0, 0.0])), group(id(1), &pairs(&[0.0, 0.0])), group(id(2), &pairs(&[0.0, 1.0, 1.0]))];
        let table = table(&groups);
        Ok((groups, table))
    };
    let filter = GroupFilter::default();
    let full = refill(Refill { groups: 3, max_rounds: 5 }, &filter, &mut draw).unwrap();
    assert_eq!(full.groups.iter().map(|g| g.id.0).collect::<Vec<_>>(), [0, 2, 10]);
    assert_eq!(full.rewards.totals().len(), 2 + 3 + 2);
    assert_eq!(full.rewards, table(&full.groups));
    let counts = full.counts;
    assert_eq!((counts.seen, counts.kept, counts.no_spread, counts.surplus, counts.rounds, counts.short), (6, 3, 2, 1, 2, 0));
    let capped = refill(Refill { groups: 7, max_rounds: 2 }, &filter, &mut draw).unwrap();
    assert_eq!((capped.groups.len(), capped.counts.short, capped.counts.rounds), (4, 3, 2));
    assert_eq!(asked, [(0, 3), (1, 1), (0, 7), (1, 5)]);
}

/// Trap 25: the same id twice would merge two draws into one group.
#[test]
fn a_group_id_that_comes_back_in_a_later_round_is_refused() {
    let draw = |_: usize, _: usize| {
        let groups = vec![group(5, &pairs(&[1.0, 0.0]))];
        let table = table(&groups);
        Ok((groups, table))
    };
    let error = refill(Refill { groups: 2, max_rounds: 3 }, &GroupFilter::default(), draw).unwrap_err();
    assert_eq!(error.to_string(), "group id: 5 was drawn before: must be unique over all rounds");
}

#[test]
fn refilling_ends_when_there_are_no_more_prompts_and_passes_errors_on() {
    let dry = |_: usize, _: usize| {
        let groups: Vec<Group<Vec<f64>>> = Vec::new();
        let table = table(&groups);
        Ok((groups, table))
    };
    let selection = refill(Refill { groups: 2, max_rounds: 100 }, &GroupFilter::default(), dry).unwrap();
    assert_eq!((selection.counts.rounds, selection.counts.short), (1, 2));
    let fails = |_: usize, _: usize| Err::<(Vec<Group<()>>, RewardTable), _>(Error::invalid("prompts", "are broken"));
    assert!(refill(Refill { groups: 1, max_rounds: 1 }, &GroupFilter::default(), fails).is_err());
    assert!(Refill { groups: 0, max_rounds: 1 }.validate().is_err() && Refill { groups: 1, max_rounds: 0 }.validate().is_err());
}

/// Trap 80: replay without replacement.
#[test]
fn a_draw_from_the_replay_buffer_never_holds_an_entry_twice() {
    let mut buffer = ReplayBuffer::new(10, 7).unwrap();
    buffer.extend(0..25);
    assert_eq!(buffer.iter().copied().collect::<Vec<_>>(), (15..25).collect::<Vec<_>>(), "the oldest made room");
    let mut first_places = [0usize; 10];
    for _ in 0..2000 {
        let drawn: Vec<i32> = buffer.sample(4).into_iter().copied().collect();
        let mut distinct = drawn.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 4);
        first_places[(drawn[0] - 15) as usize] += 1;
    }
    assert!(first_places.iter().all(|n| (140..260).contains(n)), "each is equally likely: {first_places:?}");
    assert_eq!(buffer.sample(99).len(), 10);
}

#[test]
fn a_saved_replay_buffer_goes_on_as_if_never_stopped() {
    let mut whole = ReplayBuffer::new(8, 3).unwrap();
    whole.extend(0..8);
    let _ = whole.sample(2);
    let mut split: ReplayBuffer<i32> = serde_json::from_str(&serde_json::to_string(&whole).unwrap()).unwrap();
    assert_eq!(whole.take(3), split.take(3));
    whole.push(100);
    split.push(100);
    assert_eq!(whole.take(6), split.take(6));
    assert!(whole.is_empty() && split.is_empty());
    whole.extend([1, 2, 3]);
    whole.retain(|e| e % 2 == 1);
    assert_eq!(whole.len(), 2);
    assert!(ReplayBuffer::<i32>::new(0, 1).is_err());
}

#[test]
fn truncated_completions_are_found_and_stay_in_their_group() {
    let groups = vec![group(1, &[(1.0, 3), (0.0, 30)]), group(2, &[(0.0, 26), (1.0, 4)])];
    assert_eq!(truncated(&groups), [false, true, true, false]);
    let all = table(&groups);
    assert_eq!(Metrics::of_rollout(&groups, &all).get("completions/clipped_ratio"), Some(0.5));
    assert_eq!(all.totals().iter().flatten().count(), 4, "their rewards still enter the baseline");
}
