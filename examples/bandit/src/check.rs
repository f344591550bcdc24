//! Replays reference numbers: PyTorch's loss, KL, gradient and logits over the 20 updates of a group, in f64.

use std::path::Path;

use burn::optim::SgdConfig;
use burn::tensor::{DType, Device, Tensor, TensorData};
use grpo_core::testing::Table;
use grpo_core::{Batch, BoxError, ClipRange, Ddof, Estimator, GroupId, KlEstimator, Row, Standardise, StepStats, gradients, to_host};
use serde::Deserialize;

const TOLERANCE: f64 = 1e-9;

#[derive(Deserialize)]
struct File {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    params: Params,
    logits: Vec<f64>,
    ref_logits: Vec<f64>,
    tokens: Vec<u32>,
    rewards: Vec<f64>,
    advantages: Vec<f64>,
    steps: Vec<Step>,
    final_probability_of_good: f64,
}

#[derive(Deserialize)]
struct Params {
    lr: f64,
    clip_low: f64,
    clip_high: f64,
    beta: f64,
    good_token: usize,
    ddof: usize,
    eps: f64,
}

#[derive(Deserialize)]
struct Step {
    loss: f64,
    kl: f64,
    grad: Vec<f64>,
    logits_after: Vec<f64>,
}

/// The largest differences seen, |got − want| / max(1, |want|).
#[derive(Debug, Default)]
struct Largest {
    advantage: f64,
    loss: f64,
    kl: f64,
    gradient: f64,
    logits: f64,
    probability: f64,
}

/// Replays every case of `file`, prints the largest differences, and fails above 1e-9.
pub fn run(file: &Path, device: &Device) -> Result<(), BoxError> {
    if !grpo_device::computes(device, DType::F64) {
        return Err("the reference numbers are f64, which this device does not compute".into());
    }
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let file: File = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", file.display()))?;
    let (mut failed, mut updates) = (0, 0);
    for (index, case) in file.cases.iter().enumerate() {
        let d = replay(case, device)?;
        updates += case.steps.len();
        let ok = [d.advantage, d.loss, d.kl, d.gradient, d.logits, d.probability].iter().all(|d| *d <= TOLERANCE);
        failed += usize::from(!ok);
        println!(
            "case {index}: {} updates, largest differences: advantage {:.1e}, loss {:.1e}, KL {:.1e}, gradient {:.1e}, logits {:.1e}: {}",
            case.steps.len(),
            d.advantage,
            d.loss,
            d.kl,
            d.gradient,
            d.logits,
            if ok { "passed" } else { "FAILED" },
        );
    }
    println!("{} passed, {failed} failed, {updates} updates", file.cases.len() - failed);
    if failed > 0 || updates == 0 {
        Err(format!("{failed} cases differ by more than {TOLERANCE:e}, {updates} updates").into())
    } else {
        Ok(())
    }
}

fn replay(case: &Case, device: &Device) -> Result<Largest, BoxError> {
    let p = &case.params;
    let mut policy = Table::from_logits(logits(&case.logits, &device.clone().autodiff()));
    let reference = Table::from_logits(logits(&case.ref_logits, device));
    let mut config = crate::config(ClipRange { low: p.clip_low, high: p.clip_high }, p.beta);
    let ddof = if p.ddof == 0 { Ddof::Population } else { Ddof::Sample };
    config.estimator = Estimator::Standardise(Standardise { ddof, epsilon: p.eps, ..Standardise::default() });

    let rewards: Vec<Option<f64>> = case.rewards.iter().copied().map(Some).collect();
    let grpo_core::Advantages::PerCompletion(advantages) = config.estimator.advantages(&rewards, &vec![GroupId(0); rewards.len()])? else {
        return Err("advantages are per token".into());
    };
    let rows: Vec<Row<'_>> = case
        .tokens
        .chunks(1)
        .zip(&advantages)
        .map(|(tokens, &advantage)| Row { prompt: 0, group: GroupId(0), tokens, mask: vec![true], advantages: vec![advantage] })
        .collect();
    let mut batch = Batch::from_rows(&[&[0]], &rows, 1.0, device)?;
    batch.score_old(&crate::frozen(&policy))?;
    batch.score_reference(&reference, KlEstimator::Exact)?;
    let batches = [batch];
    let stats = StepStats::of(&batches);

    let mut largest = Largest { advantage: difference(&advantages, &case.advantages)?, ..Largest::default() };
    let mut optimizer = SgdConfig::new().init();
    for step in &case.steps {
        let update = gradients(&policy, &batches, &stats, &config)?;
        let metric = |name| update.metrics.get(name).unwrap_or(f64::NAN);
        largest.loss = worse(largest.loss, difference(&[metric("loss")], &[step.loss])?);
        // With β = 0 the loss asks for no KL; the numbers have it all the same.
        let kl = update.metrics.get("kl").map_or_else(|| crate::kl(&policy, &reference), Ok)?;
        largest.kl = worse(largest.kl, difference(&[kl], &[step.kl])?);
        let gradient = update.gradients().get::<1>(policy.logits.id).ok_or("the logits have no gradient")?; // [V]
        largest.gradient = worse(largest.gradient, difference(&to_host(gradient, "gradient")?, &step.grad)?);
        policy = update.apply(&mut optimizer, p.lr, policy);
        let after = to_host(policy.logits.val().inner(), "logits")?;
        largest.logits = worse(largest.logits, difference(&after, &step.logits_after)?);
    }
    let probability = crate::probabilities(&policy)?[p.good_token];
    largest.probability = difference(&[probability], &[case.final_probability_of_good])?;
    Ok(largest)
}

fn logits(values: &[f64], device: &Device) -> Tensor<1> {
    Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), (device, DType::F64)) // [V]
}

fn difference(got: &[f64], want: &[f64]) -> Result<f64, BoxError> {
    grpo_core::Error::check_shape("reference numbers", &[want.len()], &[got.len()])?;
    Ok(got.iter().zip(want).map(|(g, w)| (g - w).abs() / w.abs().max(1.0)).fold(0.0, worse))
}

/// The larger one; NaN is worse than any number.
fn worse(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}
