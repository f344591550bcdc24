//! From the parameters of a convention to settings of the library: support for one more loss is one more arm here.

use grpo_core::{
    ClipRange, CountedRows, DualClip, EntropySettings, GrpoConfig, KlEstimator, KlGradient, KlPenalty, Objective, OffPolicy, OldSource,
    RatioLevel, Reduction, SequenceMask, StepStats, VespoShape, WeightCap,
};

use super::Stop;
use crate::cases::{Aggregate, Level, LossType, PolicyLoss, TrlParams, VerlParams};
use crate::reference::need;

/// The settings that make a loss of the convention `trl`.
pub(crate) fn trl(p: &TrlParams) -> Result<GrpoConfig, Stop> {
    let objective = match p.loss_type {
        LossType::Grpo | LossType::Bnpo | LossType::Dapo | LossType::DrGrpo | LossType::Luspo => Objective::Clipped {
            clip: ClipRange { low: need(p.epsilon_low, "epsilon_low")?, high: need(p.epsilon_high, "epsilon_high")? },
            dual: p.delta.map_or(DualClip::None, DualClip::RatioCap),
        },
        LossType::Cispo => Objective::Cispo { cap: WeightCap(need(p.epsilon_high, "epsilon_high")?) },
        LossType::Sapo => Objective::Sapo {
            positive: need(p.sapo_temperature_pos, "sapo_temperature_pos")?,
            negative: need(p.sapo_temperature_neg, "sapo_temperature_neg")?,
        },
        LossType::Vespo => Objective::Vespo {
            positive: VespoShape { k: need(p.vespo_k_pos, "vespo_k_pos")?, lambda: need(p.vespo_lambda_pos, "vespo_lambda_pos")? },
            negative: VespoShape { k: need(p.vespo_k_neg, "vespo_k_neg")?, lambda: need(p.vespo_lambda_neg, "vespo_lambda_neg")? },
        },
    };
    let reduction = match p.loss_type {
        LossType::Grpo | LossType::Sapo => Reduction::SequenceMean,
        LossType::Bnpo => Reduction::MicroBatchTokenMean,
        LossType::Dapo | LossType::Cispo | LossType::Vespo => Reduction::TokenMean,
        LossType::DrGrpo => Reduction::ConstantLength(whole(need(p.max_completion_length, "max_completion_length")?)?),
        LossType::Luspo => Reduction::SequenceSum,
    };
    let gradient = if p.use_bias_correction_kl { KlGradient::RatioWeighted } else { KlGradient::Plain };
    Ok(GrpoConfig {
        ratio: match p.importance_sampling_level {
            Level::Token => RatioLevel::Token,
            Level::Sequence => RatioLevel::Sequence,
        },
        objective,
        reduction,
        kl: p.beta.map(|beta| KlPenalty { estimator: KlEstimator::K3, gradient, ..KlPenalty::new(beta) }),
        entropy: EntropySettings { bonus: p.entropy_coef.unwrap_or(0.0), top_fraction: p.top_entropy_quantile },
        off_policy: OffPolicy {
            sequence_mask: p.off_policy_mask_threshold.map(|limit| SequenceMask { limit, from: OldSource::Trainer }),
            ..OffPolicy::default()
        },
        log_ratio_bound: None,
        ..GrpoConfig::default()
    })
}

/// The step that a `trl` loss is a part of: `gradient_accumulation_steps` micro-batches like this one, `num_items_in_batch` tokens.
pub(crate) fn trl_step(p: &TrlParams, step: &mut StepStats) -> Result<(), Stop> {
    let accumulation = whole(p.gradient_accumulation_steps.unwrap_or(1.0))?;
    step.completions *= accumulation;
    step.micro_batches *= accumulation;
    if matches!(p.loss_type, LossType::Dapo | LossType::Cispo | LossType::Vespo) {
        step.tokens = whole(need(p.num_items_in_batch, "num_items_in_batch")?)?;
    }
    Ok(())
}

/// The settings that make a loss of the convention `verl`, of completions of `cols` columns.
pub(crate) fn verl(kind: PolicyLoss, p: &VerlParams, cols: usize) -> Result<GrpoConfig, Stop> {
    let clip = || -> Result<ClipRange, Stop> {
        Ok(ClipRange { low: need(p.clip_ratio_low, "clip_ratio_low")?, high: need(p.clip_ratio_high, "clip_ratio_high")? })
    };
    let objective = match kind {
        PolicyLoss::Vanilla => Objective::Clipped { clip: clip()?, dual: DualClip::LossCap(need(p.clip_ratio_c, "clip_ratio_c")?) },
        PolicyLoss::Gspo => Objective::clipped(clip()?),
        PolicyLoss::Sapo => Objective::Sapo { positive: need(p.tau_pos, "tau_pos")?, negative: need(p.tau_neg, "tau_neg")? },
        PolicyLoss::Cispo => Objective::CispoTwoSided { clip: clip()? },
        PolicyLoss::GeoMean => {
            let ClipRange { low, high } = clip()?;
            Objective::Gmpo { low, high, length_epsilon: TINY }
        }
        PolicyLoss::Gpg => Objective::Reinforce,
        PolicyLoss::Dro => Objective::Dro { beta: need(p.dro_beta, "dro_beta")? },
    };
    let (reduction, counted_rows, length_epsilon) = match p.loss_agg_mode {
        Aggregate::TokenMean => (Reduction::TokenMean, CountedRows::All, 0.0),
        Aggregate::TokenSum => (Reduction::TokenSum, CountedRows::All, 0.0),
        Aggregate::SeqMeanTokenSum => (Reduction::SequenceSum, CountedRows::NonEmpty, 0.0),
        Aggregate::SeqMeanTokenMean => (Reduction::SequenceMean, CountedRows::NonEmpty, TINY),
        Aggregate::SeqMeanTokenSumNorm => {
            let length = p.loss_scale_factor.map_or(Ok(cols), whole)?;
            (Reduction::ConstantLength(length), CountedRows::NonEmpty, 0.0)
        }
        Aggregate::Sequences => (Reduction::SequenceMean, CountedRows::All, 0.0),
    };
    Ok(GrpoConfig {
        ratio: if kind == PolicyLoss::Gspo { RatioLevel::SequenceToken } else { RatioLevel::Token },
        objective,
        reduction,
        counted_rows,
        length_epsilon,
        // gspo bounds its exponent to 10, geo_mean bounds nothing, the others bound x to ± 20.
        log_ratio_bound: match kind {
            PolicyLoss::Gspo => Some(10.0),
            PolicyLoss::GeoMean => None,
            _ => Some(20.0),
        },
        ..GrpoConfig::default()
    })
}

/// verl adds this to counts that it divides by.
pub(crate) const TINY: f64 = 1e-8;

fn whole(value: f64) -> Result<usize, Stop> {
    if value >= 1.0 && value.fract() == 0.0 {
        Ok(value as usize)
    } else {
        Err(Stop::Unsupported(format!("a length or count of {value}, which is no whole number above 0")))
    }
}
