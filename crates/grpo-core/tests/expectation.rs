//! On a policy whose completions can all be enumerated: what a gradient is in expectation, against finite differences of what it should be.
//!
//! Two tokens over a vocabulary of three: nine completions. Expectations are sums over them with their exact probabilities.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use burn::Tensor;
use burn::tensor::{DType, Device, Int, TensorData};
use common::configs::objectives;
use common::{close, configs};
use grpo_core::{
    Batch, ClipRange, EntropySettings, GroupId, GrpoConfig, KlEstimator, KlGradient, KlPenalty, KlPlace, Objective, OldLogProbs,
    RatioLevel, Reduction, Reference, ReferenceLogProbs, Row, Scores, StepStats, grpo_loss, log_softmax_at, to_host,
};

const V: usize = 3;

/// Logits of the first token, then of the second for each first one: row 0 and rows 1 to 3.
type Logits = [[f64; V]; 1 + V];

const POLICY: Logits = [[0.3, -0.7, 0.2], [1.0, 0.1, -0.4], [-0.3, 0.8, 0.5], [0.0, -1.2, 0.6]];
const OLD: Logits = [[0.1, -0.2, 0.4], [0.8, 0.4, -0.1], [-0.6, 0.9, 0.1], [0.3, -0.9, 0.2]];
const REFERENCE: Logits = [[-0.5, 0.6, 0.3], [0.2, 0.9, -0.8], [0.7, -0.4, 0.6], [-0.9, 0.5, 0.4]];
/// The advantage of each completion.
const ADVANTAGES: [[f64; V]; V] = [[1.0, -0.5, 0.2], [-1.5, 0.7, 2.0], [0.4, -0.9, -0.1]];

fn completions() -> impl Iterator<Item = (usize, usize)> {
    (0..V).flat_map(|a| (0..V).map(move |b| (a, b)))
}

fn log_softmax(z: [f64; V]) -> [f64; V] {
    let sum = z.iter().map(|z| z.exp()).sum::<f64>().ln();
    z.map(|z| z - sum)
}

/// log π of both tokens of a completion.
fn log_probs(z: &Logits, a: usize, b: usize) -> [f64; 2] {
    [log_softmax(z[0])[a], log_softmax(z[1 + a])[b]]
}

fn probability(z: &Logits, a: usize, b: usize) -> f64 {
    log_probs(z, a, b).iter().sum::<f64>().exp()
}

/// ∇f at the policy's logits by central differences.
fn gradient_of(f: impl Fn(&Logits) -> f64) -> Vec<f64> {
    let at = |place: usize, by: f64| {
        let mut z = POLICY;
        z[place / V][place % V] += by;
        f(&z)
    };
    (0..V * (1 + V)).map(|place| (at(place, 1e-5) - at(place, -1e-5)) / 2e-5).collect()
}

/// The tensor path's gradient by the logits, in expectation over completions drawn from `drawn_from`.
fn expected_gradient(config: &GrpoConfig, drawn_from: &Logits, old: Option<&Logits>, advantage: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    let device = Device::flex();
    let tensor = |lp: [f64; 2]| Tensor::<2>::from_data(TensorData::new(lp.to_vec(), [1, 2]), (&device, DType::F64));
    let mut sum = vec![0.0; V * (1 + V)];
    for (a, b) in completions() {
        let flat: Vec<f64> = POLICY.concat();
        let leaf = Tensor::<2>::from_data(TensorData::new(flat, [1 + V, V]), (&device, DType::F64)).autodiff().require_grad();
        let rows = log_softmax_at(leaf.clone(), 1.0); // [1 + V, V]
        let places = TensorData::new(vec![a as i64, ((1 + a) * V + b) as i64], [2]);
        let scored = rows.clone().reshape([V * (1 + V)]).select(0, Tensor::<1, Int>::from_data(places, &device)).reshape([1, 2]); // [1, 2]
        let mut scores = Scores::new(scored);
        let used = Tensor::<1, Int>::from_data(TensorData::new(vec![0, 1 + a as i64], [2]), &device);
        let rows = rows.select(0, used); // [2, V]
        let reference = log_softmax(REFERENCE[0]).into_iter().chain(log_softmax(REFERENCE[1 + a])).collect::<Vec<_>>();
        let reference = Tensor::<2>::from_data(TensorData::new(reference, [2, V]), (&device, DType::F64));
        scores.kl = Some((rows.clone().exp() * (rows.clone() - reference)).sum_dim(1).reshape([1, 2]));
        scores.entropies = Some((rows.clone().exp() * rows).sum_dim(1).reshape([1, 2]).neg());
        let row = Row { prompt: 0, group: GroupId(0), tokens: &[1, 1], mask: vec![true; 2], advantages: vec![advantage(a, b); 2] };
        let mut batch = Batch::from_rows(&[&[0]], &[row], 1.0, &device).unwrap();
        if let Some(old) = old {
            batch.set_old(OldLogProbs::new(tensor(log_probs(old, a, b))).unwrap()).unwrap();
        }
        batch.set_reference(Reference::LogProbs(ReferenceLogProbs::new(tensor(log_probs(&REFERENCE, a, b))).unwrap())).unwrap();
        let mut stats = StepStats::of([&batch]);
        if config.needs_step() {
            stats.observe(&batch, &scores, config).unwrap();
            stats.finish(config);
        }
        let loss = grpo_loss(&scores, &batch, &stats, config).unwrap().loss;
        let gradient = to_host(leaf.grad(&loss.backward()).unwrap(), "gradient").unwrap();
        sum.iter_mut().zip(gradient).for_each(|(sum, g)| *sum += probability(drawn_from, a, b) * g);
    }
    sum
}

#[track_caller]
fn same(a: &[f64], b: &[f64], what: &str) {
    a.iter().zip(b).enumerate().for_each(|(k, (a, b))| close(*a, *b, 1e-8, &format!("{what}, logit {k}")));
}

/// J = E[Â], what a policy gradient ascends.
/// Σ over prefixes drawn from `prefixes` of ½ Σ_v |p_v − q_v|.
fn total_variation(prefixes: &Logits, p: &Logits, q: &Logits) -> f64 {
    let at = |p: [f64; V], q: [f64; V]| {
        let (p, q) = (log_softmax(p), log_softmax(q));
        p.iter().zip(q).map(|(p, q)| (p.exp() - q.exp()).abs() / 2.0).sum::<f64>()
    };
    at(p[0], q[0]) + (0..V).map(|a| log_softmax(prefixes[0])[a].exp() * at(p[1 + a], q[1 + a])).sum::<f64>()
}

fn objective(z: &Logits) -> f64 {
    completions().map(|(a, b)| probability(z, a, b) * ADVANTAGES[a][b]).sum()
}

/// Σ over places of the KL between next-token distributions, with prefixes drawn from `prefixes`, whose distribution is held.
fn kl(prefixes: &Logits, p: &Logits, q: &Logits) -> f64 {
    let at = |p: [f64; V], q: [f64; V]| {
        let (p, q) = (log_softmax(p), log_softmax(q));
        p.iter().zip(q).map(|(p, q)| p.exp() * (p - q)).sum::<f64>()
    };
    at(p[0], q[0]) + (0..V).map(|a| log_softmax(prefixes[0])[a].exp() * at(p[1 + a], q[1 + a])).sum::<f64>()
}

#[test]
fn on_policy_every_objective_follows_the_policy_gradient() {
    let ascent = gradient_of(objective);
    for objective in objectives() {
        // A ranking needs two completions; Clip-Cov takes tokens out; of one completion alone, covariances are 0 anyway.
        if matches!(objective, Objective::Real { .. } | Objective::ClipCov { .. } | Objective::KlCov { .. }) {
            continue;
        }
        for ratio in configs::LEVELS {
            let one_a_completion = ratio == RatioLevel::SequenceSum;
            let reduction = configs::fitting(objective, if one_a_completion { Reduction::SequenceMean } else { Reduction::SequenceSum });
            let config = GrpoConfig { objective, ratio, reduction, ..GrpoConfig::default() };
            if config.validate().is_err() {
                continue;
            }
            // −∇J, up to a known factor: what is one a token, and the geometric mean, is halved by the mean over two tokens.
            let factor = match (objective, ratio) {
                (Objective::Gmpo { .. }, _) => 0.5,
                (Objective::Cispo { .. } | Objective::CispoTwoSided { .. }, RatioLevel::SequenceSum) => 0.5,
                _ => 1.0,
            };
            let gradient = expected_gradient(&config, &POLICY, None, |a, b| ADVANTAGES[a][b]);
            let wanted: Vec<f64> = ascent.iter().map(|g| -factor * g).collect();
            same(&gradient, &wanted, &format!("{objective:?}, {ratio:?}"));
        }
    }
}

#[test]
fn off_policy_the_product_of_ratios_still_follows_the_policy_gradient() {
    let ascent = gradient_of(objective);
    let config = GrpoConfig {
        objective: Objective::ImportanceSampling,
        ratio: RatioLevel::SequenceSum,
        reduction: Reduction::SequenceMean,
        ..GrpoConfig::default()
    };
    let gradient = expected_gradient(&config, &OLD, Some(&OLD), |a, b| ADVANTAGES[a][b]);
    same(&gradient, &ascent.iter().map(|g| -g).collect::<Vec<_>>(), "importance sampling");
    // A clip range that cuts is biased: that is what it is for.
    let clipped = GrpoConfig { objective: Objective::clipped(ClipRange::symmetric(0.05)), ..config };
    let gradient = expected_gradient(&clipped, &OLD, Some(&OLD), |a, b| ADVANTAGES[a][b]);
    assert!(gradient.iter().zip(&ascent).any(|(g, a)| (g + a).abs() > 1e-3));
}

/// A baseline changes nothing in expectation.
#[test]
fn a_constant_advantage_has_no_expected_gradient() {
    let config = GrpoConfig { reduction: Reduction::TokenSum, ..GrpoConfig::default() };
    same(&expected_gradient(&config, &POLICY, None, |_, _| 3.0), &[0.0; 12], "constant advantage");
}

fn kl_gradient(estimator: KlEstimator, gradient: KlGradient, drawn_from: &Logits, old: Option<&Logits>) -> Vec<f64> {
    let kl = KlPenalty { coefficient: 1.0, estimator, gradient, place: KlPlace::Loss, value_bound: None };
    let config = GrpoConfig { kl: Some(kl), reduction: Reduction::TokenSum, ..GrpoConfig::default() };
    expected_gradient(&config, drawn_from, old, |_, _| 0.0)
}

/// Trap 36: an estimator's value is one thing, its gradient another.
#[test]
fn on_policy_each_kl_form_has_the_expected_gradient_that_is_documented() {
    use {KlEstimator as E, KlGradient as G};
    let reverse = gradient_of(|z| kl(&POLICY, z, &REFERENCE));
    let forward = gradient_of(|z| kl(&POLICY, &REFERENCE, z));
    assert!(reverse.iter().zip(&forward).any(|(r, f)| (r - f).abs() > 1e-2), "the test can tell them apart");
    let variation = gradient_of(|z| 2.0 * total_variation(&POLICY, z, &REFERENCE));
    let table = [
        (E::Abs, G::Plain, &variation),
        (E::Abs, G::StraightThrough, &reverse),
        (E::K2, G::Plain, &reverse),
        (E::K3, G::Plain, &forward),
        (E::K1, G::RatioWeighted, &reverse),
        (E::K3, G::RatioWeighted, &reverse),
        (E::K1, G::StraightThrough, &reverse),
        (E::K2, G::StraightThrough, &reverse),
        (E::K3, G::StraightThrough, &reverse),
        (E::Exact, G::Plain, &reverse),
    ];
    for (estimator, gradient, wanted) in table {
        same(&kl_gradient(estimator, gradient, &POLICY, None), wanted, &format!("{estimator:?}, {gradient:?}"));
    }
}

#[test]
fn off_policy_the_ratio_weighted_forms_and_the_exact_kl_still_have_the_gradient_of_the_reverse_kl() {
    use {KlEstimator as E, KlGradient as G};
    let reverse = gradient_of(|z| kl(&OLD, z, &REFERENCE));
    for (estimator, gradient) in [(E::K1, G::RatioWeighted), (E::K3, G::RatioWeighted), (E::Exact, G::Plain)] {
        same(&kl_gradient(estimator, gradient, &OLD, Some(&OLD)), &reverse, &format!("{estimator:?}, {gradient:?}"));
    }
    let plain = kl_gradient(E::K2, G::Plain, &OLD, Some(&OLD));
    assert!(plain.iter().zip(&reverse).any(|(p, r)| (p - r).abs() > 1e-3), "the plain forms do not");
}

/// k1 as a plain loss pulls nowhere; the configuration refuses it, the estimator itself is there to see it.
#[test]
fn k1_as_a_plain_loss_has_no_expected_gradient_and_is_refused() {
    let kl = KlPenalty { estimator: KlEstimator::K1, gradient: KlGradient::Plain, ..KlPenalty::new(1.0) };
    assert!(GrpoConfig { kl: Some(kl), ..GrpoConfig::default() }.validate().is_err());
    let device = Device::flex();
    let mut sum = vec![0.0; V];
    for token in 0..V {
        let z = Tensor::<2>::from_data(TensorData::new(POLICY[0].to_vec(), [1, V]), (&device, DType::F64)).autodiff().require_grad();
        let lp = log_softmax_at(z.clone(), 1.0).slice([0..1, token..token + 1]); // [1, 1]
        let reference = lp.clone().inner() * 0.0 + log_softmax(REFERENCE[0])[token];
        let ratio = lp.clone() * 0.0 + 1.0;
        let value = grpo_core::loss::kl_estimate(&kl, lp, reference, &ratio, None).unwrap().value;
        let gradient = to_host(z.grad(&value.sum().backward()).unwrap(), "gradient").unwrap();
        assert!(gradient.iter().any(|g| g.abs() > 0.1));
        sum.iter_mut().zip(gradient).for_each(|(s, g)| *s += log_softmax(POLICY[0])[token].exp() * g);
    }
    same(&sum, &[0.0; V], "k1");
}

#[test]
fn the_entropy_bonus_climbs_the_entropy() {
    let entropy = |z: &Logits| {
        let h = |z: [f64; V]| -log_softmax(z).iter().map(|lp| lp.exp() * lp).sum::<f64>();
        // The mean over both places; the prefix is held.
        (h(z[0]) + (0..V).map(|a| log_softmax(POLICY[0])[a].exp() * h(z[1 + a])).sum::<f64>()) / 2.0
    };
    let config = GrpoConfig { entropy: EntropySettings { bonus: 0.4, top_fraction: None }, ..GrpoConfig::default() };
    let wanted: Vec<f64> = gradient_of(entropy).iter().map(|g| -0.4 * g).collect();
    same(&expected_gradient(&config, &POLICY, None, |_, _| 0.0), &wanted, "entropy");
}
