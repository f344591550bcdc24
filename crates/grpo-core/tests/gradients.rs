//! Every gradient against central differences of an independent oracle, in f64, on random ragged masks with junk under them.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use common::configs::{CLIP, Named, corrections, kl_forms, objectives, policy_terms, with};
use common::{Data, Dice, close, oracle};
use grpo_core::{ClipRange, GrpoConfig, KlPenalty, Objective, RatioLevel};

/// The tensor path has the oracle's value, and at every token the oracle's derivative; at a kink, one between both sides.
#[track_caller]
fn check(name: &str, data: &Data, config: &GrpoConfig, parts: &[Vec<usize>]) {
    let outcome = data.run_in(config, parts);
    let value = oracle::loss(data, config, parts, &data.new, &data.new);
    close(outcome.loss, value, 1e-12, &format!("{name}: loss"));
    for (i, row) in outcome.gradient.iter().enumerate() {
        for (t, &gradient) in row.iter().enumerate() {
            if !data.mask[i][t] && !data.chosen[i][t] {
                assert_eq!(gradient, 0.0, "{name}: row {i}, token {t} is masked");
                continue;
            }
            let (central, below, above) = oracle::differences(data, config, parts, i, t, 1e-6);
            let at = format!("{name}: gradient of row {i}, token {t}");
            if (below - above).abs() < 1e-4 {
                close(gradient, central, 1e-7, &at);
            } else {
                let (low, high) = (below.min(above) - 1e-4, below.max(above) + 1e-4);
                assert!((low..=high).contains(&gradient), "{at}: {gradient}, a kink between {below} and {above}");
            }
        }
    }
}

fn check_all(configs: Vec<Named>, seed: u64) {
    for (k, (name, config)) in configs.iter().enumerate() {
        let data = Data::ragged(seed + k as u64);
        check(name, &data, config, &data.whole());
        // Advantages of each token their own.
        let mut varied = data.clone();
        let mut dice = Dice(seed + k as u64);
        varied.advantages.iter_mut().flatten().filter(|a| a.abs() < 3.0).for_each(|a| *a = dice.between(-2.0, 2.0));
        check(&format!("{name}, token advantages"), &varied, config, &data.whole());
        // Each row by itself where that is allowed, else each group.
        let parts = if matches!(config.objective, Objective::Real { .. }) {
            vec![vec![0, 1], vec![2, 3, 4]]
        } else {
            vec![vec![0], vec![1], vec![2], vec![3, 4]]
        };
        check(&format!("{name}, cut"), &data, config, &parts);
    }
}

#[test]
fn policy_terms_have_the_derivative_of_their_formula() {
    check_all(policy_terms(), 100);
}

#[test]
fn kl_forms_have_the_derivative_of_their_formula() {
    check_all(kl_forms(), 300);
}

#[test]
fn corrections_masks_and_additions_have_the_derivative_of_their_formula() {
    check_all(corrections(), 500);
}

#[test]
fn without_old_log_probs_the_ratio_is_one_and_has_a_gradient() {
    for (k, (name, config)) in policy_terms().iter().enumerate() {
        let data = Data { old: None, ..Data::ragged(700 + k as u64) };
        check(name, &data, config, &data.whole());
    }
}

/// Log-ratios exactly at, just inside and just outside both clip edges and 1, for rewarded and punished completions.
#[test]
fn at_both_clip_edges_the_gradient_is_that_of_a_side() {
    // Widths that make the edges of the clip range representable: then e^x can hit them exactly.
    let (down, up) = (0.8f64.ln(), 1.28f64.ln());
    let clip = ClipRange { low: 1.0 - down.exp(), high: up.exp() - 1.0 };
    assert_eq!((1.0 - clip.low, 1.0 + clip.high), (down.exp(), up.exp()));
    let x = [down, down - 1e-3, down + 1e-3, 0.0, up, up - 1e-3, up + 1e-3];
    for a in [1.5, -1.5, 0.0] {
        let mut data = Data::rows(&[&x.map(|x| x - 1.0)], &[a]);
        data.old = Some(vec![vec![-1.0; x.len()]]);
        for objective in [Objective::clipped(clip), Objective::CispoTwoSided { clip }, Objective::ImportanceSampling] {
            for ratio in [RatioLevel::Token, RatioLevel::SequenceToken, RatioLevel::Sequence] {
                let config = GrpoConfig { ratio, ..with(objective) };
                check(&format!("{objective:?}, {ratio:?}, advantage {a}"), &data, &config, &data.whole());
            }
        }
        let gmpo = with(Objective::Gmpo { low: -down, high: up, length_epsilon: 0.0 });
        check(&format!("GMPO, advantage {a}"), &data, &gmpo, &data.whole());
    }
}

#[test]
fn just_outside_the_clip_range_only_the_punished_side_keeps_its_gradient() {
    for (ratio, advantage, alive) in
        [(1.281, 1.0, false), (1.279, 1.0, true), (1.281, -1.0, true), (0.799, -1.0, false), (0.801, -1.0, true), (0.799, 1.0, true)]
    {
        let data = Data::of_ratios(&[ratio], advantage);
        let gradient = data.run(&with(Objective::clipped(CLIP))).gradient[0][0];
        close(gradient, if alive { -advantage * ratio } else { 0.0 }, 1e-12, &format!("ratio {ratio}, advantage {advantage}"));
    }
}

/// Trap 1, trap 2, rule 1 of the losses: at ratio 1 all agree on the gradient, and it is that of REINFORCE, not 0, though the loss may be 0.
#[test]
fn at_ratio_one_every_objective_has_the_gradient_of_reinforce() {
    let mut data = Data::ragged(900);
    data.old = None;
    // Advantages that add up to 0 over the tokens, as centred ones of equal lengths do.
    let tokens: f64 = data.mask.iter().flatten().filter(|m| **m).count() as f64;
    let mean = data.mask.iter().flatten().zip(data.advantages.iter().flatten()).filter(|(m, _)| **m).map(|(_, a)| a).sum::<f64>() / tokens;
    data.advantages.iter_mut().flatten().for_each(|a| *a -= mean);
    let wanted = data.run(&with(Objective::Reinforce)).gradient;
    assert!(wanted.iter().flatten().any(|g| g.abs() > 0.01));
    for objective in objectives() {
        // These have their own: a ranking, tokens taken out, one mean advantage a completion.
        if matches!(objective, Objective::Real { .. } | Objective::ClipCov { .. } | Objective::Gmpo { .. }) {
            continue;
        }
        let outcome = data.run(&with(objective));
        common::all_close(&outcome.gradient, &wanted, 1e-12, &format!("{objective:?}"));
        if matches!(objective, Objective::Clipped { .. } | Objective::ImportanceSampling) {
            close(outcome.loss, 0.0, 1e-12, "the loss of centred advantages");
        }
    }
}

#[test]
fn at_ratio_one_ratios_of_the_sequence_spread_the_advantage_over_the_completion() {
    let mut data = Data::ragged(901);
    data.old = None;
    let wanted = data.run(&with(Objective::Reinforce)).gradient;
    for ratio in [RatioLevel::Sequence, RatioLevel::SequenceToken] {
        let config = GrpoConfig { ratio, ..with(Objective::clipped(CLIP)) };
        common::all_close(&data.run(&config).gradient, &wanted, 1e-12, &format!("{ratio:?}"));
    }
}

/// Trap 5: no variant falls through into another.
#[test]
fn away_from_ratio_one_objectives_differ_from_each_other() {
    let data = Data::random(902, &[0, 0, 1, 1, 1, 2, 2], &[19, 18, 13, 17, 12, 15, 26]);
    let runs: Vec<_> = objectives().into_iter().map(|o| (o, data.run(&with(o)).gradient)).collect();
    for (k, (one, a)) in runs.iter().enumerate() {
        for (other, b) in &runs[k + 1..] {
            let apart = a.iter().flatten().zip(b.iter().flatten()).any(|(a, b)| (a - b).abs() > 1e-6);
            assert!(apart, "{one:?} and {other:?} have the same gradient");
        }
    }
}

/// Traps 31 to 33, faults A24, A25, C23: bounded before `exp`, so that value and gradient stay finite.
#[test]
fn enormous_log_ratios_have_a_finite_loss_and_gradient_in_every_precision() {
    use burn::tensor::DType;
    for dtype in [DType::F64, DType::F32, DType::BF16, DType::F16] {
        for x in [1000.0, -1000.0, 199.0, -199.0, 99.0, -99.0] {
            let (new, old) = if x > 0.0 { (-1.0, -1.0 - x) } else { (-1.0 + x, -1.0) };
            for a in [1.0, -1.0] {
                let mut data = Data::rows(&[&[new, -0.5], &[-0.7]], &[a, -a]);
                data.dtype = dtype;
                data.old = Some(vec![vec![old, -0.5], vec![-0.7]]);
                data.reference = vec![vec![old, -0.5], vec![-0.7]];
                for objective in objectives() {
                    let mut config = with(objective);
                    config.kl = Some(KlPenalty::new(0.1));
                    let outcome = data.run(&config);
                    assert!(outcome.loss.is_finite(), "{objective:?}, x = {x}, advantage {a}, {dtype:?}: loss {}", outcome.loss);
                    let gradient = &outcome.gradient;
                    assert!(
                        gradient.iter().flatten().all(|g| g.is_finite()),
                        "{objective:?}, x = {x}, advantage {a}, {dtype:?}: {gradient:?}"
                    );
                }
            }
        }
    }
}
