//! Batches: how groups are cut into them, and what is set on them later.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use common::Data;
use common::models::group;
use grpo_core::{
    Advantages, Batch, Error, Group, LogProbKind, OldLogProbs, Reference, ReferenceLogProbs, SamplerLogProbs, StepStats, to_host,
};

use burn::Tensor;
use burn::tensor::{DType, Device, TensorData};

fn tensor(values: &[f64], shape: [usize; 2]) -> Tensor<2> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape), (&Device::flex(), DType::F64))
}

fn groups() -> Vec<Group<()>> {
    vec![
        group(5, &[0], (), &[&[1, 2, 3], &[1]]),
        group(2, &[0, 1], (), &[&[4], &[4], &[4, 5]]),
        group(9, &[7], (), &[&[6; 10]]),
        group(1, &[7], (), &[&[6], &[6]]),
    ]
}

fn advantages() -> Advantages {
    Advantages::PerCompletion((1..=8).map(f64::from).collect())
}

#[test]
fn splitting_cuts_between_groups_and_loses_and_mixes_nothing() {
    for (limit, shapes) in
        [(1, vec![[2, 3], [3, 2], [1, 10], [2, 1]]), (15, vec![[5, 3], [1, 10], [2, 1]]), (30, vec![[5, 3], [3, 10]]), (999, vec![[8, 10]])]
    {
        let batches = Batch::split(&groups(), &advantages(), limit, 0, &Device::flex()).unwrap();
        assert_eq!(batches.iter().map(Batch::shape).collect::<Vec<_>>(), shapes, "at most {limit} tokens");
        let ids: Vec<u64> = batches.iter().flat_map(|b| b.groups().iter().map(|g| g.0)).collect();
        assert_eq!(ids, [5, 5, 2, 2, 2, 9, 1, 1]);
        let firsts: Vec<f64> =
            batches.iter().flat_map(|b| b.advantages_host().chunks(b.shape()[1]).map(|row| row[0]).collect::<Vec<_>>()).collect();
        assert_eq!(firsts, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        let prompts: Vec<Vec<u32>> = batches
            .iter()
            .flat_map(|b| b.tokens().prompt_of().iter().map(|&p| b.tokens().prompts().row(p).to_vec()).collect::<Vec<_>>())
            .collect();
        assert_eq!(prompts, [vec![0], vec![0], vec![0, 1], vec![0, 1], vec![0, 1], vec![7], vec![7], vec![7]]);
        let step = StepStats::of(&batches);
        assert_eq!((step.completions, step.tokens, step.micro_batches, step.group_tokens.len()), (8, 20, batches.len(), 4));
    }
    assert!(Batch::split(&groups(), &Advantages::PerCompletion(vec![0.0; 7]), 9, 0, &Device::flex()).is_err());
}

#[test]
fn two_groups_of_one_id_are_refused_wherever_groups_are_read() {
    let twice = [group(5, &[0], 1.0, &[&[1]]), group(5, &[1], 1.0, &[&[2]])];
    let a = Advantages::PerCompletion(vec![1.0, -1.0]);
    let rewards = grpo_core::Rewards::new().with(1.0, grpo_core::from_fn("one", |_: &f64, _: &grpo_core::Completion| Ok(1.0.into())));
    for error in [
        Batch::new(&twice, &a, 0, &Device::flex()).unwrap_err(),
        Batch::split(&twice, &a, 1, 0, &Device::flex()).unwrap_err(),
        rewards.score(&twice).unwrap_err(),
    ] {
        assert!(error.to_string().contains("group id") && error.to_string().contains("5 stands twice"), "{error}");
    }
}

/// Fault A46, once more: a completion may be changed after it was made.
#[test]
fn too_few_sampler_log_probs_are_refused_and_not_read_as_certainty() {
    let mut groups = groups();
    groups[0].completions[0].sampler_log_probs.pop();
    let error = Batch::new(&groups, &advantages(), 0, &Device::flex()).unwrap_err().to_string();
    assert!(error.contains("sampler log-probs") && error.contains("[2]") && error.contains("[3]"), "{error}");
}

#[test]
fn an_ignored_completion_has_no_chosen_tokens_either() {
    let mut batch = Batch::new(&groups()[..1], &Advantages::PerCompletion(vec![1.0, -1.0]), 0, &Device::flex()).unwrap();
    batch.choose(&[vec![true; 3], vec![true]]).unwrap();
    batch.ignore(&[true, false]).unwrap();
    assert_eq!(batch.chosen_host().unwrap(), [false, false, false, true, false, false]);
    assert_eq!(batch.chosen().unwrap().float().sum().into_scalar::<f32>(), 1.0);
    assert_eq!(StepStats::of([&batch]).chosen, 1);
}

#[test]
fn advantages_of_tokens_stand_at_their_tokens() {
    let rows = Advantages::PerToken(vec![vec![1.0, 2.0, 3.0], vec![4.0]]);
    let batch = Batch::new(&groups()[..1], &rows, 0, &Device::flex()).unwrap();
    assert_eq!(batch.advantages_host(), [1.0, 2.0, 3.0, 4.0, 0.0, 0.0]);
    assert_eq!(to_host(batch.advantages(), "advantages").unwrap(), batch.advantages_host());
    let short = Advantages::PerToken(vec![vec![1.0, 2.0], vec![4.0]]);
    assert!(matches!(Batch::new(&groups()[..1], &short, 0, &Device::flex()), Err(Error::Shape { .. })));
}

#[test]
fn advantages_that_are_set_later_reach_tokens_of_the_loss_only() {
    let mut batch = Batch::new(&groups()[..1], &Advantages::PerCompletion(vec![1.0, 2.0]), 0, &Device::flex()).unwrap();
    batch.ignore(&[false, true]).unwrap();
    batch.set_advantages(&Advantages::PerToken(vec![vec![5.0, 6.0, 7.0], vec![f64::NAN]])).unwrap();
    assert_eq!(batch.advantages_host(), [5.0, 6.0, 7.0, 0.0, 0.0, 0.0]);
    assert_eq!(to_host(batch.advantages(), "advantages").unwrap(), batch.advantages_host());
    let error = batch.set_advantages(&Advantages::PerCompletion(vec![f64::INFINITY, 0.0])).unwrap_err().to_string();
    assert!(error.contains("completion 0") && error.contains("inf"), "{error}");
    assert!(batch.set_advantages(&Advantages::PerCompletion(vec![0.0])).is_err());
    assert_eq!(batch.advantages_host()[0], 5.0, "an error changes nothing");
}

#[test]
fn log_ratios_to_the_reference_are_old_minus_reference_at_tokens_of_the_loss() {
    let mut batch = Batch::new(&groups()[..1], &Advantages::PerCompletion(vec![1.0, 2.0]), 0, &Device::flex()).unwrap();
    assert!(batch.log_ratios_to_reference().unwrap_err().to_string().contains("score_old"));
    let junk = f64::NAN;
    batch.set_old(OldLogProbs::new(tensor(&[-1.0, -2.0, -3.0, -1.0, junk, junk], [2, 3])).unwrap()).unwrap();
    assert!(batch.log_ratios_to_reference().unwrap_err().to_string().contains("score_reference"));
    let reference = tensor(&[-1.5, -2.0, -1.0, -4.0, junk, junk], [2, 3]);
    batch.set_reference(Reference::LogProbs(ReferenceLogProbs::new(reference).unwrap())).unwrap();
    assert_eq!(batch.log_ratios_to_reference().unwrap(), [vec![0.5, 0.0, -2.0], vec![3.0]]);
    batch.ignore(&[true, false]).unwrap();
    assert_eq!(batch.log_ratios_to_reference().unwrap(), [vec![0.0; 3], vec![3.0]]);
}

#[test]
fn the_oldest_completion_makes_the_staleness() {
    let mut all = groups();
    all.iter_mut().flat_map(|g| &mut g.completions).for_each(|c| c.policy_version = 7);
    all[1].completions[2].policy_version = 4;
    assert_eq!(Batch::new(&all, &advantages(), 7, &Device::flex()).unwrap().staleness(), 3);
    assert_eq!(Batch::new(&all[..1], &Advantages::PerCompletion(vec![0.0; 2]), 7, &Device::flex()).unwrap().staleness(), 0);
}

#[test]
fn sampler_log_probs_come_with_the_rollout_and_may_be_replaced() {
    let mut batch = Batch::new(&groups()[..1], &Advantages::PerCompletion(vec![1.0, 2.0]), 0, &Device::flex()).unwrap();
    let of = |batch: &Batch| to_host(batch.sampler_log_probs(grpo_core::AcceptedKind::Tempered).unwrap(), "sampler").unwrap();
    assert_eq!(of(&batch), [-0.5, -0.5, -0.5, -0.5, 0.0, 0.0]);
    batch.set_sampler(SamplerLogProbs::new(tensor(&[-2.0; 6], [2, 3])).unwrap(), LogProbKind::Tempered).unwrap();
    assert_eq!(of(&batch), [-2.0; 6]);
    assert!(batch.set_sampler(SamplerLogProbs::new(tensor(&[-2.0; 4], [2, 2])).unwrap(), LogProbKind::Tempered).is_err());
    let from_rows = Data::of_ratios(&[1.0], 1.0).batch(&[0]);
    assert_eq!(from_rows.groups().len(), 1);
}
