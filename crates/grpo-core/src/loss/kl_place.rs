//! KL outside the loss: as a reward of each token, or as a correction of its advantage. Both are constants.

use burn::Tensor;

use super::kl::kl_estimate;
use crate::batch::{Batch, Reference};
use crate::config::{KlGradient, KlPenalty, KlPlace};
use crate::error::{Error, Result};
use crate::read::to_host;

/// −β · KL of each token of each completion, `[N][L]`, 0 where a token does not take part: to be added to token rewards, before advantages.
///
/// Estimated at the old policy, which drew the tokens. The sum over a completion is what an outcome reward loses.
///
/// # Errors
/// A penalty whose place is not `reward`; no old or no reference log-probabilities in the batch; a device that failed.
///
/// # Source
/// InstructGPT (arXiv 2203.02155); DeepSeekMath (arXiv 2402.03300) eq. 2.
pub fn kl_rewards(batch: &Batch, penalty: &KlPenalty, bound: Option<f64>) -> Result<Vec<Vec<f64>>> {
    expect_place(penalty, KlPlace::Reward)?;
    let width = batch.shape()[1];
    let kl = host_kl(batch, penalty, bound)?;
    let rows = kl.chunks(width).zip(batch.tokens().completions().lengths());
    Ok(rows.map(|(row, &len)| row[..len].iter().map(|kl| -penalty.coefficient * kl).collect()).collect())
}

/// Adds β · (mean KL − KL_t) to each token's advantage, the mean over all tokens of the step: it pulls to the reference and adds up to 0.
///
/// # Errors
/// As [`kl_rewards`], with place `advantage`.
pub fn kl_advantages(batches: &mut [Batch], penalty: &KlPenalty, bound: Option<f64>) -> Result<()> {
    expect_place(penalty, KlPlace::Advantage)?;
    let kls = batches.iter().map(|batch| host_kl(batch, penalty, bound)).collect::<Result<Vec<_>>>()?;
    let tokens: usize = batches.iter().map(|b| b.token_counts().iter().sum::<usize>()).sum();
    let mean = kls.iter().flatten().sum::<f64>() / tokens.max(1) as f64;
    for (batch, kl) in batches.iter_mut().zip(kls) {
        let shift: Vec<f64> = kl.iter().map(|kl| penalty.coefficient * (mean - kl)).collect();
        batch.add_to_advantages(&shift)?;
    }
    Ok(())
}

fn expect_place(penalty: &KlPenalty, place: KlPlace) -> Result<()> {
    if penalty.place == place {
        return Ok(());
    }
    let allowed = if place == KlPlace::Reward { "reward" } else { "advantage" };
    Err(Error::config("KL place", format!("{:?}", penalty.place).to_lowercase(), allowed))
}

/// The estimate at the old policy, `[N · Tc]`, 0 at masked places.
fn host_kl(batch: &Batch, penalty: &KlPenalty, bound: Option<f64>) -> Result<Vec<f64>> {
    let Some(old) = batch.old() else {
        return Err(Error::invalid("old log-probs", "missing, though KL acts outside the loss: call Batch::score_old"));
    };
    let Some(Reference::LogProbs(reference)) = batch.reference() else {
        return Err(Error::invalid("reference log-probs", "missing, though KL acts outside the loss: call Batch::score_reference"));
    };
    let ignored = batch.mask().bool_not();
    let masked = |t: Tensor<2>| t.mask_fill(ignored.clone(), 0.0); // [N, Tc]
    let plain = KlPenalty { gradient: KlGradient::Plain, ..*penalty };
    let log_probs = masked(old.tensor());
    let term = kl_estimate(&plain, log_probs.clone(), masked(reference.tensor()).cast(log_probs.dtype()), &log_probs, bound);
    to_host(term.value, "KL to the reference")
}
