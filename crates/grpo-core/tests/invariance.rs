//! What must change nothing: the order of rows, the cut into micro-batches and ranks, padding, junk. And identities between settings.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use common::configs::{Named, REDUCTIONS, every, objectives, with};
use common::{Data, Dice, Outcome, Ragged, all_close, close};
use grpo_core::{ClipRange, GrpoConfig, KlPenalty, Normaliser, Objective, RatioLevel, Reduction, StepStats, to_host};
use proptest::prelude::*;

/// A step of a few uneven groups with holes and rows without tokens.
fn step(seed: u64) -> Data {
    let mut dice = Dice(seed ^ 0xabcd);
    let groups: Vec<u64> = (0..4u64).flat_map(|g| vec![g * 5 + 1; 1 + dice.below(3)]).collect();
    let lengths: Vec<usize> = groups.iter().map(|_| 1 + dice.below(7)).collect();
    let mut data = Data::random(seed, &groups, &lengths);
    // Somewhere a completion that is cut off, and masked whole.
    let empty = dice.below(groups.len());
    if data.mask.iter().enumerate().any(|(i, row)| i != empty && row.contains(&true)) {
        data.mask[empty].fill(false);
        data.litter();
    }
    data
}

/// Parts of whole groups, or of any rows.
fn cut(data: &Data, config: &GrpoConfig, seed: u64) -> Vec<Vec<usize>> {
    let mut dice = Dice(seed);
    let whole_groups = matches!(config.objective, Objective::Real { .. });
    let mut parts = vec![vec![]; 1 + dice.below(4)];
    let mut last: Option<(u64, usize)> = None;
    for row in 0..data.groups.len() {
        let part = match last {
            Some((group, part)) if whole_groups && group == data.groups[row] => part,
            _ => dice.below(parts.len()),
        };
        last = Some((data.groups[row], part));
        parts[part].push(row);
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[track_caller]
fn same(a: &Outcome, b: &Outcome, what: &str) {
    close(a.loss, b.loss, 1e-10, &format!("{what}: loss"));
    all_close(&a.gradient, &b.gradient, 1e-10, &format!("{what}: gradient"));
}

fn pick(index: usize) -> Named {
    let mut all = every();
    // The oracle knows only the share that takes out every candidate; here the draw itself is at stake.
    let drawn = Objective::ClipCov { clip: ClipRange::symmetric(0.2), fraction: 0.2, low: -9.0, high: 9.0, seed: 3 };
    all.extend((0..9).map(|_| ("drawn".to_owned(), with(drawn))));
    all[index % all.len()].clone()
}

/// The one reduction that depends on the cut, by design.
fn local(config: &GrpoConfig) -> bool {
    config.reduction == Reduction::MicroBatchTokenMean
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Trap 23: groups are told by their ids, wherever their rows stand.
    #[test]
    fn the_order_of_rows_changes_nothing(seed in 0u64..1_000_000, index in 0usize..100_000) {
        let (name, config) = pick(index);
        let data = step(seed);
        let mut order: Vec<usize> = (0..data.groups.len()).collect();
        let mut dice = Dice(seed + 1);
        (1..order.len()).rev().for_each(|k| order.swap(k, dice.below(k + 1)));
        let base = data.run(&config);
        let moved = data.permuted(&order).run(&config);
        close(moved.loss, base.loss, 1e-10, &name);
        let back: Ragged = order.iter().map(|&i| base.gradient[i].clone()).collect();
        all_close(&moved.gradient, &back, 1e-10, &name);
    }

    /// Traps 56 to 58, faults A10 and A55: of any sizes, also micro-batches without a token of the loss.
    #[test]
    fn the_cut_into_micro_batches_changes_nothing(seed in 0u64..1_000_000, index in 0usize..100_000) {
        let (name, config) = pick(index);
        prop_assume!(!local(&config));
        let data = step(seed);
        let parts = cut(&data, &config, seed);
        let (base, split) = (data.run(&config), data.run_in(&config, &parts));
        same(&split, &base, &format!("{name} in {parts:?}"));
        for (metric, value) in base.metrics.iter() {
            close(split.metrics.get(metric).unwrap(), value, 1e-10, &format!("{name}: {metric}"));
        }
    }

    /// Trap 59: each rank counts and observes its own share; the shares are merged.
    #[test]
    fn one_two_or_four_ranks_make_the_same_step(seed in 0u64..1_000_000, index in 0usize..100_000, log_ranks in 0usize..3) {
        let (name, config) = pick(index);
        prop_assume!(!local(&config));
        let data = step(seed);
        let parts = cut(&data, &config, seed + 2);
        let ranks = 1 << log_ranks;
        let shares: Vec<Vec<Vec<usize>>> = (0..ranks).map(|r| parts.iter().skip(r).step_by(ranks).cloned().collect()).collect();
        let mut stats = shares.iter().map(|share| data.stats(share, &config)).fold(StepStats::default(), StepStats::merge);
        stats.finish(&config);
        let base = data.run(&config);
        let runs: Vec<Outcome> = shares.iter().map(|share| data.run_with(&config, share, &stats)).collect();
        close(runs.iter().map(|run| run.loss).sum(), base.loss, 1e-10, &name);
        let mut sum = runs[0].gradient.clone();
        for run in &runs[1..] {
            sum.iter_mut().flatten().zip(run.gradient.iter().flatten()).for_each(|(a, b)| *a += b);
        }
        all_close(&sum, &base.gradient, 1e-10, &name);
    }

    /// Traps 50 and 53 to 54: what stands under the mask and how much of it is there reaches neither loss nor gradient nor metrics.
    #[test]
    fn padding_and_what_stands_there_change_nothing(seed in 0u64..1_000_000, index in 0usize..100_000, more in 1usize..9) {
        let (name, config) = pick(index);
        let data = step(seed);
        let base = data.run(&config);
        let mut padded = data.padded(more);
        padded.junk = -7.0;
        // Other junk than before: finite everywhere, 0 in the row's own holes.
        for (i, row) in data.mask.iter().enumerate() {
            for t in (0..row.len()).filter(|&t| !row[t]) {
                padded.advantages[i][t] = 0.0;
                padded.reference[i][t] = 0.0;
                padded.sampler[i][t] = 5.0;
                padded.entropies[i][t] = 99.0;
                if let Some(old) = &mut padded.old {
                    old[i][t] = 0.0;
                }
                if !data.chosen[i][t] {
                    padded.new[i][t] = 0.0;
                }
            }
        }
        let run = padded.run(&config);
        close(run.loss, base.loss, 1e-10, &name);
        for ((long, short), mask) in run.gradient.iter().zip(&base.gradient).zip(&data.mask) {
            all_close(&vec![long[..mask.len()].to_vec()], &vec![short.clone()], 1e-10, &name);
            prop_assert!(long[mask.len()..].iter().all(|g| *g == 0.0));
        }
        for (metric, value) in base.metrics.iter() {
            close(run.metrics.get(metric).unwrap(), value, 1e-10, &format!("{name}: {metric}"));
        }
    }
}

/// Clip-Cov draws by group and place: the order of groups and a cut between them choose the same tokens.
#[test]
fn the_draw_of_clip_cov_does_not_depend_on_the_cut_or_the_order_of_groups() {
    let objective = Objective::ClipCov { clip: ClipRange::symmetric(9e9), fraction: 0.2, low: -9.0, high: 9.0, seed: 3 };
    // The width has no lower part that could clip: all tokens are candidates.
    let objective = match objective {
        Objective::ClipCov { fraction, low, high, seed, .. } => {
            Objective::ClipCov { clip: ClipRange { low: 1.0, high: 9e9 }, fraction, low, high, seed }
        }
        other => other,
    };
    let data = Data::random(4, &[1, 1, 2, 2, 3], &[5, 6, 4, 7, 5]);
    let base = data.run(&with(objective));
    assert!(base.metrics.get("clip_cov_ratio").unwrap() > 0.0);
    same(&data.run_in(&with(objective), &[vec![0, 1], vec![2, 3, 4]]), &base, "cut");
    let order = [4, 2, 3, 0, 1];
    let moved = data.permuted(&order).run(&with(objective));
    all_close(&moved.gradient, &order.iter().map(|&i| base.gradient[i].clone()).collect(), 1e-10, "order");
    let Objective::ClipCov { clip, fraction, low, high, .. } = objective else { unreachable!() };
    let other = data.run(&with(Objective::ClipCov { clip, fraction, low, high, seed: 4 }));
    assert_ne!(
        other.gradient.iter().flatten().map(|g| *g == 0.0).collect::<Vec<_>>(),
        base.gradient.iter().flatten().map(|g| *g == 0.0).collect::<Vec<_>>()
    );
}

#[test]
fn real_refuses_a_group_that_is_cut() {
    let data = Data::random(4, &[1, 1, 2], &[5, 6, 4]);
    let config = with(Objective::Real { temperature: 0.5 });
    let (parts, rows) = (vec![vec![0], vec![1, 2]], vec![0]);
    let error = grpo_core::grpo_loss(&data.scores(&rows).0, &data.batch(&rows), &data.stats(&parts, &config), &config).unwrap_err();
    assert!(error.to_string().contains("group 1"), "{error}");
}

/// Equal lengths without holes.
fn even(seed: u64) -> Data {
    let mut data = Data::random(seed, &[1, 1, 2, 2], &[5; 4]);
    let full = Data::random(seed + 1, &[1, 1, 2, 2], &[5; 4]);
    data.mask = vec![vec![true; 5]; 4];
    // Where junk stood, sound values of another draw, or of the same place of a row that has one.
    for i in 0..4 {
        for t in 0..5 {
            let sound = |v: f64| v.is_finite() && v.abs() < 1e20;
            let or = |v: f64, other: f64| {
                if sound(v) {
                    v
                } else if sound(other) {
                    other
                } else {
                    -1.0
                }
            };
            data.new[i][t] = or(data.new[i][t], full.new[i][t]);
            data.old.as_mut().unwrap()[i][t] = or(data.old.as_ref().unwrap()[i][t], data.new[i][t] - 0.1);
            data.reference[i][t] = or(data.reference[i][t], full.reference[i][t]);
            data.advantages[i][t] = or(data.advantages[i][t], full.advantages[i][t]);
        }
    }
    data
}

#[test]
fn of_equal_lengths_all_means_agree() {
    let data = even(11);
    for objective in objectives() {
        let at = |reduction| GrpoConfig { reduction, kl: Some(KlPenalty::new(0.1)), ..with(objective) };
        if at(Reduction::TokenMean).validate().is_err() {
            continue;
        }
        let base = data.run(&at(Reduction::TokenMean));
        for reduction in [Reduction::SequenceMean, Reduction::PromptTokenMean, Reduction::MicroBatchTokenMean, Reduction::ConstantLength(5)]
        {
            same(&data.run(&at(reduction)), &base, &format!("{objective:?}, {reduction:?}"));
        }
    }
}

#[test]
fn of_a_constant_log_ratio_all_ratio_levels_but_the_sum_agree() {
    let mut data = Data::ragged(12);
    let old: Ragged = data.new.iter().map(|row| row.iter().map(|lp| lp - 0.15).collect()).collect();
    data.old = Some(old);
    for (objective, reduction) in objectives().into_iter().zip(REDUCTIONS.into_iter().cycle()) {
        let at = |ratio| GrpoConfig { ratio, reduction, ..with(objective) };
        if at(RatioLevel::Sequence).validate().is_err() {
            continue;
        }
        let base = data.run(&at(RatioLevel::Token));
        close(data.run(&at(RatioLevel::Sequence)).loss, base.loss, 1e-12, &format!("{objective:?}"));
        same(&data.run(&at(RatioLevel::SequenceToken)), &base, &format!("{objective:?}"));
    }
}

#[test]
fn a_clip_range_that_never_cuts_is_importance_sampling() {
    let data = Data::ragged(13);
    let wide = Objective::clipped(ClipRange { low: 1.0, high: 1e9 });
    for ratio in [RatioLevel::Token, RatioLevel::Sequence, RatioLevel::SequenceSum] {
        let at = |objective| GrpoConfig { ratio, reduction: Reduction::SequenceMean, ..with(objective) };
        same(&data.run(&at(wide)), &data.run(&at(Objective::ImportanceSampling)), &format!("{ratio:?}"));
    }
}

#[test]
fn sequence_and_sequence_token_ratios_have_one_gradient_where_the_advantage_is_constant() {
    let data = Data::ragged(14);
    let at = |ratio| GrpoConfig { ratio, reduction: Reduction::SequenceMean, ..GrpoConfig::default() };
    same(&data.run(&at(RatioLevel::SequenceToken)), &data.run(&at(RatioLevel::Sequence)), "GSPO");
}

/// Traps 48 and 79, fault A31: the loss is 0, with a graph; no metric is NaN.
#[test]
fn without_any_token_the_loss_is_zero_with_a_graph_and_a_gradient_of_zeros() {
    for (name, config) in every() {
        let mut data = Data::ragged(15);
        data.mask.iter_mut().for_each(|row| row.fill(false));
        data.chosen.iter_mut().for_each(|row| row.fill(false));
        data.litter();
        let rows: Vec<usize> = (0..data.groups.len()).collect();
        let (scores, leaf) = data.scores(&rows);
        let output = grpo_core::grpo_loss(&scores, &data.batch(&rows), &data.stats(&data.whole(), &config), &config).unwrap();
        assert!(output.loss.is_tracked(), "{name}");
        assert_eq!(to_host(output.loss.clone(), "loss").unwrap(), [0.0], "{name}");
        let gradient = to_host(leaf.grad(&output.loss.backward()).unwrap(), "gradient").unwrap();
        assert!(gradient.iter().all(|g| *g == 0.0), "{name}: {gradient:?}");
        let metrics = output.metrics().unwrap();
        for (metric, value) in metrics.iter() {
            // Of no token there is no mean and no maximum: such metrics are absent.
            let over = metrics.normaliser(metric).unwrap();
            assert!(
                value.is_finite() && matches!(over, Normaliser::Step | Normaliser::Completion),
                "{name}: {metric} = {value} over {over:?}"
            );
        }
    }
}
