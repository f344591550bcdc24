//! Hand-worked values: one small sum a setting, in f64, the working beside it.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use common::configs::{CLIP, with};
use common::{Data, close};
use grpo_core::{ClipRange, DualClip, GrpoConfig, Objective, RatioLevel, Reduction, VespoShape, WeightCap};

/// The loss of one completion with these ratios; old log-probs are −1, so log π = ln ρ − 1.
fn of_ratios(objective: Objective, ratios: &[f64], advantage: f64) -> f64 {
    Data::of_ratios(ratios, advantage).run(&with(objective)).loss
}

/// The loss of one token with these probabilities.
fn of_probabilities(objective: Objective, old: f64, new: f64, advantage: f64) -> f64 {
    let mut data = Data::rows(&[&[new.ln()]], &[advantage]);
    data.old = Some(vec![vec![old.ln()]]);
    data.run(&with(objective)).loss
}

#[track_caller]
fn is(value: f64, wanted: f64) {
    close(value, wanted, 1e-12, "value");
}

#[test]
fn the_clipped_surrogate_takes_the_minimum_of_the_products() {
    let clipped = Objective::clipped(CLIP); // 0.8 to 1.28
    is(of_ratios(clipped, &[1.5], 1.0), -1.28); // −min(1.5, 1.28)
    is(of_ratios(clipped, &[1.5], -1.0), 1.5); // −min(−1.5, −1.28)
    is(of_ratios(clipped, &[0.5], 1.0), -0.5); // −min(0.5, 0.8)
    is(of_ratios(clipped, &[0.5], -1.0), 0.8); // −min(−0.5, −0.8)
    is(of_ratios(clipped, &[1.1, 1.2], 2.0), -2.3); // inside: −2 · (1.1 + 1.2) / 2
}

#[test]
fn the_dual_clip_bounds_what_clipping_does_not() {
    let dual = |dual| Objective::Clipped { clip: CLIP, dual };
    is(of_ratios(dual(DualClip::None), &[5.0], -1.0), 5.0);
    is(of_ratios(dual(DualClip::RatioCap(4.0)), &[5.0], -1.0), 4.0); // −min(4 · −1, 1.28 · −1)
    is(of_ratios(dual(DualClip::RatioCap(4.0)), &[5.0], 1.0), -1.28); // rewarded tokens are clipped as ever
    is(of_ratios(dual(DualClip::LossCap(3.0)), &[5.0], -2.0), 6.0); // min(10, 3 · 2)
    is(of_ratios(dual(DualClip::LossCap(3.0)), &[2.0], -2.0), 4.0); // min(4, 6)
    is(of_ratios(dual(DualClip::LossCap(1.1)), &[1.5], 1.0), -1.28); // only where Â < 0
    for cap in [DualClip::RatioCap(4.0), DualClip::LossCap(3.0)] {
        assert_eq!(Data::of_ratios(&[5.0], -1.0).run(&with(dual(cap))).gradient[0][0], 0.0, "{cap:?}");
    }
}

#[test]
fn importance_sampling_and_reinforce_are_unbounded() {
    is(of_ratios(Objective::ImportanceSampling, &[5.0], 2.0), -10.0);
    is(Data::rows(&[&[-1.5]], &[2.0]).run(&with(Objective::Reinforce)).loss, 3.0); // −2 · −1.5
}

#[test]
fn cispo_caps_the_weight_and_keeps_the_gradient() {
    let cispo = Objective::Cispo { cap: WeightCap(2.0) };
    is(of_ratios(cispo, &[3.0], 1.0), -2.0 * (3f64.ln() - 1.0)); // −min(3, 2) · log π
    is(of_ratios(cispo, &[0.5], 1.0), -0.5 * (0.5f64.ln() - 1.0)); // no lower bound
    is(Data::of_ratios(&[3.0], 1.0).run(&with(cispo)).gradient[0][0], -2.0); // −weight · Â
    let two_sided = Objective::CispoTwoSided { clip: CLIP };
    is(of_ratios(two_sided, &[3.0], 1.0), -1.28 * (3f64.ln() - 1.0));
    is(of_ratios(two_sided, &[0.5], -1.0), 0.8 * (0.5f64.ln() - 1.0));
}

#[test]
fn gmpo_is_the_geometric_mean_of_ratios_clipped_against_the_advantage() {
    let gmpo = Objective::Gmpo { low: 0.4, high: 0.5, length_epsilon: 0.0 };
    let mut data = Data::rows(&[&[0.0, -2.0]], &[1.0]);
    data.old = Some(vec![vec![-1.0, -1.0]]); // x = 1, −1
    is(data.run(&with(gmpo)).loss, -(-0.25f64).exp()); // q = 0.5, −1: mean −0.25
    data.advantages = vec![vec![-1.0; 2]];
    is(data.run(&with(gmpo)).loss, 0.3f64.exp()); // q = 1, −0.4: mean 0.3
    let padded = Objective::Gmpo { low: 0.4, high: 0.5, length_epsilon: 2.0 };
    is(data.run(&with(padded)).loss, 0.5 * 0.15f64.exp()); // 0.6 / 4, and Ā = −2 / 4
}

#[test]
fn sapo_gates_softly_with_a_temperature_by_sign() {
    let sapo = Objective::Sapo { positive: 1.0, negative: 2.0 };
    is(of_ratios(sapo, &[1.0 + 3f64.ln()], 1.0), -3.0); // 4 σ(ln 3) = 4 · 0.75
    is(of_ratios(sapo, &[1.0 + 3f64.ln() / 2.0], -1.0), 1.5); // 4/2 · 0.75
    is(of_ratios(sapo, &[1.0], 1.0), -2.0); // 2 Â / τ: the value at ratio 1 means nothing
    is(Data::of_ratios(&[1.0], -1.0).run(&with(sapo)).gradient[0][0], 1.0); // and the gradient is −Â
}

#[test]
fn vespo_weighs_by_the_whole_sequence() {
    let vespo = Objective::Vespo { positive: VespoShape { k: 2.0, lambda: 3.0 }, negative: VespoShape { k: 3.0, lambda: 2.0 } };
    // w = ln 2: φ = e^(3 + 2 ln 2 − 6) = 4 e^−3, log π = ln 2 − 1.
    is(of_ratios(vespo, &[2.0], 1.0), 4.0 * (-3f64).exp() * (1.0 - 2f64.ln()));
    // φ = e^(2 + 3 ln 2 − 4) = 8 e^−2.
    is(of_ratios(vespo, &[2.0], -1.0), 8.0 * (-2f64).exp() * (2f64.ln() - 1.0));
    // Two tokens: w = ln 2 + ln 0.5 = 0, φ = 1, Σ log π = −2, mean −1.
    is(of_ratios(vespo, &[2.0, 0.5], 1.0), 1.0);
}

#[test]
fn dppo_masks_moves_that_went_far_enough_already() {
    let range = ClipRange { low: 0.2, high: 0.2 };
    let tv = Objective::DppoTv { range, cap: WeightCap(1.5) };
    is(of_probabilities(tv, 0.25, 0.5, 1.0), 0.0); // + 0.25 > 0.2
    is(of_probabilities(tv, 0.25, 0.5, -1.0), 1.5 * 0.5f64.ln()); // on its way back; weight min(2, 1.5)
    is(of_probabilities(tv, 0.5, 0.25, 1.0), -0.5 * 0.25f64.ln());
    is(of_probabilities(tv, 0.5, 0.25, -1.0), 0.0); // − 0.25 < −0.2
    let range = ClipRange { low: 0.1, high: 0.3 };
    let kl = Objective::DppoKl { range, cap: WeightCap(1.5) };
    // D(½, 0.9) = ½ ln(¼ / 0.09) = 0.511; D(½, 0.75) = ½ ln(¼ / 0.1875) = 0.144.
    is(of_probabilities(kl, 0.5, 0.9, 1.0), 0.0);
    is(of_probabilities(kl, 0.5, 0.75, 1.0), -1.5 * 0.75f64.ln());
    is(of_probabilities(kl, 0.5, 0.9, -1.0), 1.5 * 0.9f64.ln()); // on its way back
    is(of_probabilities(kl, 0.5, 0.25, -1.0), 0.0); // 0.144 > low = 0.1
    is(of_probabilities(kl, 0.5, 0.25, 1.0), -0.5 * 0.25f64.ln());
}

#[test]
fn the_threshold_mask_is_symmetric() {
    let mask = Objective::ThresholdMask { threshold: 0.1 };
    for advantage in [1.0, -1.0] {
        is(of_probabilities(mask, 0.5, 0.75, advantage), 0.0);
        is(of_probabilities(mask, 0.5, 0.25, advantage), 0.0);
        is(of_probabilities(mask, 0.5, 0.55, advantage), -1.1 * advantage);
    }
}

#[test]
fn dro_adds_a_squared_drift() {
    let mut data = Data::rows(&[&[-0.5]], &[1.0]);
    data.old = Some(vec![vec![-1.0]]);
    is(data.run(&with(Objective::Dro { beta: 2.0 })).loss, 0.75); // −(−0.5 − ½ · 2 · 0.25)
}

/// Two rows of two tokens, Â = ±1, log π = −1, −3: mean log π is −2, so c = Â (log π + 2) is 1, −1 and −1, 1.
fn covariances() -> Data {
    Data::rows(&[&[-1.0, -3.0], &[-1.0, -3.0]], &[1.0, -1.0])
}

#[test]
fn clip_cov_takes_out_unclipped_tokens_of_high_covariance() {
    let clip_cov = |fraction| Objective::ClipCov { clip: CLIP, fraction, low: 0.5, high: 2.0, seed: 1 };
    let all = covariances().run(&with(clip_cov(1.0)));
    assert_eq!(all.gradient, [[0.0, -0.25], [0.25, 0.0]]); // both candidates are out
    assert_eq!(all.metrics.get("clip_cov_ratio"), Some(0.5));
    let one = covariances().run(&with(clip_cov(0.25))); // ⌊0.25 · 4⌋ = 1 of the two
    assert_eq!(one.metrics.get("clip_cov_ratio"), Some(0.25));
    assert!((one.gradient[0][0] == 0.0) != (one.gradient[1][1] == 0.0));
    let at_least_one = covariances().run(&with(clip_cov(0.01)));
    assert_eq!(at_least_one.metrics.get("clip_cov_ratio"), Some(0.25));
    let mut clipped = covariances();
    clipped.old = Some(vec![vec![-2.0, -3.0], vec![-1.0, -2.0]]); // ratios e and e^−1 at the candidates: clipped, so not taken out
    assert_eq!(clipped.run(&with(clip_cov(1.0))).metrics.get("clip_cov_ratio"), Some(0.0));
}

#[test]
fn kl_cov_holds_the_tokens_of_highest_covariance() {
    let mut data = covariances();
    data.new[1][0] = -2.0; // mean log π −2.25; c = 1.25, −0.75, −0.25, 0.75
    let mut old = data.new.clone();
    old[0][0] -= 0.5;
    data.old = Some(old);
    let run = data.run(&with(Objective::KlCov { fraction: 0.25, coefficient: 2.0 }));
    is(run.loss, (-0.5f64.exp() + 2.0 * 0.5 - 1.0 + 1.0 + 1.0) / 4.0);
    assert_eq!(run.metrics.get("kl_cov_ratio"), Some(0.25));
    let at_ratio_one = covariances().run(&with(Objective::KlCov { fraction: 1.0, coefficient: 2.0 }));
    assert_eq!(at_ratio_one.gradient, [[-0.25, -0.25], [0.25, 0.25]]); // |x| has derivative 0 at 0
}

#[test]
fn kl_cov_holds_no_more_than_its_share_of_equal_covariances() {
    let held = |new: &[f64], advantages: &[f64], fraction| {
        let mut data = Data::rows(&[new], &[0.0]);
        data.advantages = vec![advantages.to_vec()];
        data.run(&with(Objective::KlCov { fraction, coefficient: 1.0 })).metrics.get("kl_cov_ratio").unwrap()
    };
    assert_eq!(held(&[-1.0, -2.0, -3.0, -4.0], &[1.0; 4], 0.5), 0.0, "all are 0");
    assert_eq!(held(&[-1.0, -2.0, -3.0, -4.0], &[1.0; 4], 1.0), 1.0);
    // c = 0.75 · 1.5 and three times 0.25 · 0.5: the second place is shared by three.
    assert_eq!(held(&[-1.0, -3.0, -3.0, -3.0], &[1.0, 0.0, 0.0, 0.0], 0.5), 0.25);
}

#[test]
fn kl_cov_holds_exactly_its_share_in_32_bits_too() {
    for seed in 0..40 {
        let mut data = Data::random(seed, &[0, 0, 1, 1], &[9, 7, 8, 6]);
        data.dtype = burn::tensor::DType::F32;
        let tokens = data.mask.iter().flatten().filter(|m| **m).count() as f64;
        let run = data.run(&with(Objective::KlCov { fraction: 0.2, coefficient: 1.0 }));
        close(run.metrics.get("kl_cov_ratio").unwrap(), (0.2 * tokens).floor() / tokens, 1e-6, &format!("seed {seed}"));
    }
}

#[test]
fn fipo_weighs_by_what_follows() {
    let fipo = |safety| Objective::Fipo { clip: CLIP, half_life: 1.0, weight_low: 0.9, weight_high: 1.19, safety };
    let e = f64::exp;
    // x = 0.1 three times, γ = ½: sums 0.175, 0.15, 0.1; e^0.175 = 1.1912 is cut to 1.19.
    is(of_ratios(fipo(4.0), &[e(0.1); 3], 1.0), -e(0.1) * (1.19 + e(0.15) + e(0.1)) / 3.0);
    // ρ = 2 is above the safety of 1.5: out of the sum, and where Â < 0 its weight, 1.1, lies in [0.8, 1].
    is(of_ratios(fipo(1.5), &[2.0, e(0.2)], -1.0), (2.0 * 1.0 + e(0.2) * 1.19) / 2.0);
    is(of_ratios(fipo(1.5), &[2.0, e(0.2)], 1.0), -(1.28 * e(0.1) + e(0.2) * 1.19) / 2.0);
}

#[test]
fn real_ranks_within_the_group() {
    let real = Objective::Real { temperature: 1.0 };
    let mut data = Data::rows(&[&[2f64.ln() - 3.0], &[-3.0]], &[1.0, -1.0]);
    data.old = Some(vec![vec![-3.0], vec![-3.0]]); // s = ln 2 and 0
    is(data.run(&with(real)).loss, 3f64.ln()); // ln(1 + e^0) + ln(1 + e^−ln 2) = ln 2 + ln 1.5
    let outcome = data.run(&with(real));
    is(outcome.gradient[0][0], -1.0 / 3.0); // −½ / 1.5
    is(outcome.gradient[1][0], 0.5); // 1 / 2
    data.advantages = vec![vec![1.0], vec![0.5]];
    is(data.run(&with(real)).loss, 0.0); // one sign: nothing to rank
    // The mean is over groups that are ranked.
    let mut two = Data::rows(&[&[2f64.ln() - 3.0], &[-3.0], &[-1.0]], &[1.0, -1.0, 1.0]);
    two.groups = vec![1, 1, 2];
    two.old = Some(vec![vec![-3.0], vec![-3.0], vec![-1.0]]);
    is(two.run(&with(real)).loss, 3f64.ln());
    // At s = 0 the slope is ½ / τ on either side, to all digits of 64 bits.
    let mut level = Data::rows(&[&[-3.0], &[-3.0]], &[1.0, -1.0]);
    level.old = Some(level.new.clone());
    let slopes = level.run(&with(Objective::Real { temperature: 0.3 })).gradient;
    is(slopes[0][0], -0.5 / 0.3);
    is(slopes[1][0], 0.5 / 0.3);
    let sharp = Objective::Real { temperature: 0.01 };
    data.advantages = vec![vec![-1.0], vec![1.0]];
    data.dtype = burn::tensor::DType::F32;
    close(data.run(&with(sharp)).loss, 100.0 * 2f64.ln() + 2f64.ln(), 1e-6, "e^69 · e^… must not leave 32 bits");
    data.new[0][0] = 17.0;
    close(data.run(&with(sharp)).loss, 2000.0 + 2f64.ln(), 1e-6, "ln(1 + e^2000)"); // x = 20, the bound
}

/// Trap 8, fault A56: one ratio for the sequence, at each of its tokens.
#[test]
fn the_ratio_of_a_sequence_is_the_geometric_mean_or_the_product() {
    let data = Data::of_ratios(&[0.2f64.exp(), 0.4f64.exp()], 1.0);
    let at = |ratio| data.run(&GrpoConfig { ratio, ..with(Objective::ImportanceSampling) });
    is(at(RatioLevel::Token).loss, -(0.2f64.exp() + 0.4f64.exp()) / 2.0);
    is(at(RatioLevel::Sequence).loss, -1.349_858_807_576_003);
    is(at(RatioLevel::SequenceToken).loss, -1.349_858_807_576_003);
    let product =
        data.run(&GrpoConfig { ratio: RatioLevel::SequenceSum, reduction: Reduction::SequenceMean, ..with(Objective::ImportanceSampling) });
    is(product.loss, -0.6f64.exp());
    product.gradient[0].iter().for_each(|g| is(*g, -0.6f64.exp()));
    // Both tokens of the mean share its gradient, s/2 · ½ each from two terms; sequence-token gives each token s · ½.
    at(RatioLevel::Sequence).gradient[0].iter().for_each(|g| is(*g, -(0.3f64.exp()) / 2.0));
    let token = at(RatioLevel::SequenceToken).gradient;
    token[0].iter().for_each(|g| is(*g, -(0.3f64.exp()) / 2.0));
}

#[test]
fn sequence_token_ratios_have_the_value_of_the_sequence_to_the_last_bit() {
    for seed in 0..20 {
        let mut data = Data::random(seed, &[0, 0], &[5, 3]);
        data.dtype = burn::tensor::DType::F32;
        let at = |ratio| data.run(&GrpoConfig { ratio, ..with(Objective::ImportanceSampling) }).loss;
        assert_eq!(at(RatioLevel::SequenceToken), at(RatioLevel::Sequence));
    }
}

/// Fault A08: five tokens of loss 2 and one of loss 10.
#[test]
fn each_reduction_weighs_tokens_as_it_says() {
    let mut data = Data::rows(&[&[-1.0; 5], &[-1.0]], &[2.0, 10.0]);
    data.groups = vec![1, 2];
    let reduced = |reduction| data.run(&GrpoConfig { reduction, ..with(Objective::Reinforce) }).loss;
    is(reduced(Reduction::SequenceMean), 6.0); // (2 + 10) / 2
    is(reduced(Reduction::TokenMean), 20.0 / 6.0);
    is(reduced(Reduction::PromptTokenMean), 6.0); // one completion a prompt
    is(reduced(Reduction::ConstantLength(4)), 2.5); // 20 / (2 · 4)
    is(reduced(Reduction::SequenceSum), 10.0); // (10 + 10) / 2, not divided by the length
    is(reduced(Reduction::TokenSum), 20.0);
    let local = GrpoConfig { reduction: Reduction::MicroBatchTokenMean, ..with(Objective::Reinforce) };
    is(data.run(&local).loss, 20.0 / 6.0);
    is(data.run_in(&local, &[vec![0], vec![1]]).loss, 6.0); // it depends on the cut, and says so
}
