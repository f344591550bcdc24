//! Weights and masks for samplers that differ from the policy, and for policies that moved on. All are constants that multiply the policy term.

use burn::Tensor;
use burn::tensor::Bool;

use super::stats::StepStats;
use super::terms::{Event, Terms};
use crate::batch::Batch;
use crate::config::{
    Divergence, OffPolicy, OldSource, OutOfBounds, Rejection, RejectionLevel, SamplerWeight, WeightLevel, WeightNormalisation,
};
use crate::error::Result;
use crate::metrics::Normaliser;

/// What multiplies the policy term, and what it saw: `[N, Tc]` each.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Correction {
    /// The factor of each token; `None` where nothing is asked for.
    pub factor: Option<Tensor<2>>,
    /// Quantities for metrics, by name.
    pub events: Vec<Event>,
}

/// The factor of each token: sampler weight × rejection × off-policy sequence mask. How far sampler and trainer are apart is measured
/// wherever the sampler's log-probabilities can be read.
///
/// # Errors
/// Sampler log-probabilities that are missing or of a kind that is not accepted; weights normalised by a step that was not observed.
pub fn correction(settings: &OffPolicy, terms: &Terms, batch: &Batch, step: &StepStats) -> Result<Correction> {
    let mut events = Vec::new();
    let mut factor: Option<Tensor<2>> = None;
    let multiply = |factor: &mut Option<Tensor<2>>, by: Tensor<2>| *factor = Some(factor.take().map_or(by.clone(), |f| f * by));
    let sampler = match batch.sampler_log_probs(settings.accept) {
        Err(problem) if settings.weight.is_some() || settings.rejection.is_some() => return Err(problem),
        sampler => sampler.ok().filter(|_| settings.old == OldSource::Trainer),
    };
    if let Some(sampler) = sampler {
        let sampler = sampler.cast(terms.dtype()).mask_fill(terms.ignored.clone(), 0.0); // [N, Tc]
        let x = terms.old.clone() - sampler; // [N, Tc]
        events.push(Event::of_tokens("sampling/sampling_logp_difference/mean", x.clone().abs()));
        events.push(Event { name: "sampling/sampling_logp_difference/max", values: x.clone().abs(), over: Normaliser::Max });
        if let Some(weight) = &settings.weight {
            let (raw, mut bounded) = sampler_weight(weight, terms, x.clone()); // [N, Tc]
            events.push(Event { name: "sampling/importance_sampling_ratio/min", values: raw.clone(), over: Normaliser::Min });
            events.push(Event { name: "sampling/importance_sampling_ratio/max", values: raw.clone(), over: Normaliser::Max });
            events.push(Event::of_tokens("sampling/importance_sampling_ratio/mean", raw));
            if weight.normalise == WeightNormalisation::StepMean {
                bounded = bounded / step.mean_weight()?;
            }
            events.push(Event::of_tokens("sampling/importance_sampling_ratio/bounded_mean", bounded.clone()));
            events.push(Event { name: "sampling/effective_sample_size", values: bounded.clone(), over: Normaliser::EffectiveShare });
            multiply(&mut factor, bounded);
        }
        if let Some(rule) = &settings.rejection {
            let out = rejected(rule, terms, x); // [N, Tc]
            events.push(Event::of_tokens("sampling/rejected_ratio", terms.indicator(out.clone())));
            multiply(&mut factor, terms.indicator(out.bool_not()));
        }
    }
    if let Some(mask) = settings.sequence_mask {
        let from = match mask.from {
            OldSource::Trainer => terms.old.clone(),
            OldSource::Sampler => batch.sampler_log_probs(settings.accept)?.cast(terms.dtype()),
        };
        let drift = terms.spread(terms.row_mean(from - terms.log_probs.clone().inner())); // [N, Tc]
        let out = drift.greater_elem(mask.limit).bool_and(terms.advantages.clone().lower_elem(0.0)); // [N, Tc]
        events.push(Event::of_tokens("off_policy_mask_ratio", terms.indicator(out.clone())));
        multiply(&mut factor, terms.indicator(out.bool_not()));
    }
    Ok(Correction { factor, events })
}

/// w = e^x before and after its bounds; x = log π_old − log π_sampler, 0 at masked places, bounded to ± 20 before `exp`.
pub(super) fn sampler_weight(weight: &SamplerWeight, terms: &Terms, x: Tensor<2>) -> (Tensor<2>, Tensor<2>) {
    let x = match weight.level {
        WeightLevel::Token => x,
        WeightLevel::SequenceProduct => terms.spread(x.sum_dim(1)),
        WeightLevel::SequenceGeometric => terms.spread(terms.row_mean(x)),
    };
    let raw = x.clamp(-20.0, 20.0).exp(); // [N, Tc]
    let bounded = match weight.outside {
        OutOfBounds::Truncate => raw.clone().clamp(weight.low, weight.high),
        OutOfBounds::Mask => {
            let out = raw.clone().lower_elem(weight.low).bool_or(raw.clone().greater_elem(weight.high)); // [N, Tc]
            raw.clone().mask_fill(out, 0.0)
        }
    };
    (raw, bounded)
}

fn rejected(rule: &Rejection, terms: &Terms, x: Tensor<2>) -> Tensor<2, Bool> {
    let divergence = match rule.divergence {
        Divergence::K1 => x.neg(),
        Divergence::K2 => x.square() / 2.0,
        Divergence::K3 => x.clone().clamp(-20.0, 20.0).exp() - x - 1.0,
    }; // [N, Tc]
    let divergence = match rule.over {
        RejectionLevel::Token => divergence,
        RejectionLevel::SequenceMean => terms.spread(terms.row_mean(divergence)),
        RejectionLevel::SequenceSum => terms.spread(divergence.mask_fill(terms.ignored.clone(), 0.0).sum_dim(1)),
        RejectionLevel::SequenceMax => {
            let lowest = f64::from(f32::MIN); // a masked token is no maximum
            terms.spread(divergence.mask_fill(terms.ignored.clone(), lowest).max_dim(1))
        }
    };
    let high = divergence.clone().greater_elem(rule.high);
    rule.low.map_or(high.clone(), |low| high.bool_or(divergence.lower_elem(low)))
}
