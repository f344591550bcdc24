//! Lists of reward functions: what fails is named or counted, never a 0; order and weights stay.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use common::models::group;
use grpo_core::{BoxError, Completion, Error, Group, GroupId, Metrics, OnRewardError, Reward, RewardFn, RewardTable, Rewards, from_fn};

/// Two groups; what a completion is worth is its first token, and its task is added.
fn groups() -> Vec<Group<f64>> {
    vec![group(10, &[0], 100.0, &[&[1], &[2, 9], &[3]]), group(4, &[0], 200.0, &[&[4], &[5]])]
}

fn value(task: &f64, c: &Completion) -> Result<Reward, BoxError> {
    Ok((task + f64::from(c.tokens[0])).into())
}

fn rewards() -> Rewards<f64> {
    Rewards::new().with(1.0, from_fn("value", value))
}

/// A function that does `what` at token 2 and is sound elsewhere.
fn at_two(what: impl Fn() -> Result<Reward, BoxError> + Send + Sync + 'static) -> impl RewardFn<f64> {
    from_fn("fragile", move |task: &f64, c| if c.tokens[0] == 2 { what() } else { value(task, c) })
}

#[track_caller]
fn fails(function: impl RewardFn<f64> + 'static, says: &str) {
    let error = rewards().with(1.0, function).score(&groups()).unwrap_err();
    let Error::Reward { name, group, completion, source } = &error else { panic!("{error}") };
    assert_eq!((name.as_str(), *group, *completion), ("fragile", 10, 1));
    assert!(source.to_string().contains(says), "{source}");
    assert!(error.to_string().contains("fragile") && error.to_string().contains("10"), "{error}");
}

/// Trap 22: whatever goes wrong stops, and says where.
#[test]
fn a_failure_names_the_function_the_group_and_the_completion() {
    fails(at_two(|| Err("no such file".into())), "no such file");
    fails(at_two(|| panic!("index out of bounds")), "index out of bounds");
    fails(at_two(|| panic!("{} of {}", 3, 2)), "3 of 2");
    fails(at_two(|| Ok(f64::NAN.into())), "NaN");
    fails(at_two(|| Ok(f64::NEG_INFINITY.into())), "finite");
    fails(at_two(|| Ok(Reward::Steps(vec![(0, f64::INFINITY)]))), "finite");
    fails(at_two(|| Ok(Reward::Steps(vec![(2, 1.0)]))), "past the last of 2");
    fails(at_two(|| Ok(Reward::Steps(vec![(1, 1.0), (0, 1.0)]))), "order");
    fails(at_two(|| Ok(Reward::Steps(vec![(0, 1.0), (0, 1.0)]))), "order");
}

/// Judges whole groups: drops the last reward of a group of three.
struct Short;
impl RewardFn<f64> for Short {
    fn name(&self) -> &str {
        "short"
    }
    fn score(&self, task: &f64, c: &Completion) -> Result<Reward, BoxError> {
        value(task, c)
    }
    fn score_group(&self, task: &f64, group: &[Completion]) -> Result<Vec<Reward>, BoxError> {
        group.iter().take(2).map(|c| value(task, c)).collect()
    }
}

/// Trap 20, fault A42: a wrong number of rewards is never spread or shifted.
#[test]
fn a_wrong_number_of_rewards_is_an_error_that_names_the_function() {
    let error = rewards().with(1.0, Short).score(&groups()).unwrap_err().to_string();
    assert!(error.contains("short") && error.contains("2 rewards for 3"), "{error}");
    let table = rewards().with(1.0, Short).on_error(OnRewardError::Missing).score(&groups()).unwrap();
    assert_eq!(table.column(1), [None, None, None, Some(204.0), Some(205.0)]);
    assert_eq!(table.failures, 3);
}

#[test]
fn a_group_that_was_emptied_has_no_rewards_and_no_failure() {
    let mut groups = groups();
    groups[0].completions.clear();
    let strict = Rewards::new().with(1.0, Short);
    let table = strict.score(&groups).unwrap();
    assert_eq!(table.totals(), [Some(204.0), Some(205.0)]);
    let failing = || Rewards::new().with(1.0, from_fn("broken", |_: &f64, _: &Completion| Err("no".into())));
    let table = failing().on_error(OnRewardError::Missing).score(&groups).unwrap();
    assert_eq!(table.failures, 2);
}

#[test]
fn a_failure_may_count_as_missing_and_is_never_zero() {
    for what in [|| Err("broken".into()), || panic!("broken"), || Ok(f64::NAN.into())] as [fn() -> Result<Reward, BoxError>; 3] {
        let table = Rewards::new().with(1.0, at_two(what)).on_error(OnRewardError::Missing).score(&groups()).unwrap();
        assert_eq!(table.totals(), [Some(101.0), None, Some(103.0), Some(204.0), Some(205.0)]);
        assert_eq!(table.failures, 1);
        assert_eq!(Metrics::of_rollout(&groups(), &table).get("rewards/failures"), Some(1.0));
        // Where another function applies, the rest still counts.
        let table = rewards().with(1.0, at_two(what)).on_error(OnRewardError::Missing).score(&groups()).unwrap();
        assert_eq!(table.totals()[..2], [Some(202.0), Some(102.0)]);
    }
}

#[test]
fn answers_keep_the_order_of_groups_and_completions() {
    let table = rewards().score(&groups()).unwrap();
    assert_eq!(table.totals(), [101.0, 102.0, 103.0, 204.0, 205.0].map(Some));
    assert_eq!(table.groups, [10, 10, 10, 4, 4].map(GroupId));
    let many: Vec<Group<f64>> = (0..200).map(|g| group(g, &[0], g as f64 * 10.0, &[&[1], &[2]])).collect();
    let totals = rewards().score(&many).unwrap().totals();
    assert!(totals.chunks(2).enumerate().all(|(g, pair)| pair == [Some(g as f64 * 10.0 + 1.0), Some(g as f64 * 10.0 + 2.0)]));
}

/// Faults A35, A36: the logged reward is the trained one; 0.0 is a reward.
#[test]
fn the_total_is_the_weighted_sum_and_is_what_is_logged() {
    let constant = |name: &str, r: f64| from_fn(name, move |_: &f64, _: &Completion| Ok(r.into()));
    let table = Rewards::new().with(0.5, constant("one", 1.0)).with(2.0, constant("zero", 0.0)).score(&groups()).unwrap();
    assert_eq!(table.totals(), [Some(0.5); 5]);
    let metrics = Metrics::of_rollout(&groups(), &table);
    assert_eq!(
        [metrics.get("reward"), metrics.get("rewards/one/mean"), metrics.get("rewards/zero/mean")],
        [Some(0.5), Some(1.0), Some(0.0)]
    );
    let table = Rewards::new().with(1.0, constant("zero", 0.0)).with(0.0, constant("other", 0.7)).score(&groups()).unwrap();
    assert_eq!(table.totals(), [Some(0.0); 5], "0.0 is not replaced by another score");
}

#[test]
fn a_weight_of_zero_makes_a_metric_and_nothing_else() {
    let length = || from_fn("length", |_: &f64, c: &Completion| Ok((c.tokens.len() as f64).into()));
    let table = rewards().with(0.0, length()).score(&groups()).unwrap();
    assert_eq!(table.totals(), rewards().score(&groups()).unwrap().totals());
    assert_eq!(Metrics::of_rollout(&groups(), &table).get("rewards/length/mean"), Some(1.2));
    common::close(Metrics::of_rollout(&groups(), &table).get("rewards/length/std").unwrap(), 0.2f64.sqrt(), 1e-12, "of 1, 2, 1, 1, 1");
    let table = Rewards::new().with(0.0, length()).score(&groups()).unwrap();
    assert_eq!(table.totals(), [None; 5], "a metric alone is no reward");
}

#[test]
fn what_does_not_apply_stays_out_of_sums_and_means() {
    let even =
        || from_fn("even", |_: &f64, c: &Completion| Ok(if c.tokens[0].is_multiple_of(2) { 10.0.into() } else { Reward::NotApplicable }));
    let table = Rewards::new().with(1.0, even()).score(&groups()).unwrap();
    assert_eq!(table.totals(), [None, Some(10.0), None, Some(10.0), None]);
    assert_eq!(table.failures, 0);
    let metrics = Metrics::of_rollout(&groups(), &table);
    assert_eq!((metrics.get("reward"), metrics.get("rewards/even/mean"), metrics.get("rewards/failures")), (Some(10.0), Some(10.0), None));
    assert_eq!(metrics.get("frac_reward_zero_std"), Some(1.0), "one reward a group has no spread, and no NaN");
    assert_eq!(rewards().with(1.0, even()).score(&groups()).unwrap().totals()[..2], [Some(101.0), Some(112.0)]);
}

#[test]
fn step_rewards_enter_a_total_by_their_sum() {
    let steps = from_fn("steps", |_: &f64, c: &Completion| Ok(Reward::Steps((0..c.tokens.len()).map(|t| (t, 0.25)).collect())));
    let table = Rewards::new().with(2.0, steps).score(&groups()).unwrap();
    assert_eq!(table.totals(), [0.5, 1.0, 0.5, 0.5, 0.5].map(Some));
}

#[test]
fn no_function_or_a_weight_that_is_not_finite_is_refused() {
    assert!(Rewards::<f64>::new().score(&groups()).unwrap_err().to_string().contains("at least one"));
    for weight in [f64::NAN, f64::INFINITY] {
        let error = Rewards::new().with(weight, from_fn("value", value)).score(&groups()).unwrap_err().to_string();
        assert!(error.contains("value") && error.contains("finite"), "{error}");
    }
}

#[test]
fn functions_go_by_reference_and_box_and_judge_groups_as_they_say() {
    struct Best;
    impl RewardFn<f64> for Best {
        fn name(&self) -> &str {
            "best"
        }
        fn score(&self, _: &f64, _: &Completion) -> Result<Reward, BoxError> {
            Err("only groups".into())
        }
        fn score_group(&self, _: &f64, group: &[Completion]) -> Result<Vec<Reward>, BoxError> {
            let best = group.iter().map(|c| c.tokens[0]).max();
            Ok(group.iter().map(|c| f64::from(u8::from(Some(c.tokens[0]) == best)).into()).collect())
        }
    }
    let boxed: Box<dyn RewardFn<f64>> = Box::new(Best);
    let table: RewardTable = Rewards::new().with(1.0, boxed).with(1.0, std::sync::Arc::new(Best)).score(&groups()).unwrap();
    assert_eq!(table.totals(), [0.0, 0.0, 2.0, 0.0, 2.0].map(Some));
    assert_eq!(table.names, ["best", "best"]);
}
