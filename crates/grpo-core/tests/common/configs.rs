//! Every objective at every ratio level it takes, every reduction, every KL form, every correction: by name.

use grpo_core::{
    Addition, ClipRange, CountedRows, Divergence, DualClip, EntropySettings, GrpoConfig, KlEstimator, KlGradient, KlPenalty, KlPlace,
    Objective, OffPolicy, OldSource, OutOfBounds, RatioLevel, Reduction, Rejection, RejectionLevel, SamplerWeight, SequenceMask,
    VespoShape, WeightCap, WeightLevel, WeightNormalisation,
};

/// A configuration with its name.
pub type Named = (String, GrpoConfig);

pub const CLIP: ClipRange = ClipRange { low: 0.2, high: 0.28 };
pub const LEVELS: [RatioLevel; 4] = [RatioLevel::Token, RatioLevel::Sequence, RatioLevel::SequenceToken, RatioLevel::SequenceSum];
pub const REDUCTIONS: [Reduction; 7] = [
    Reduction::SequenceMean,
    Reduction::TokenMean,
    Reduction::MicroBatchTokenMean,
    Reduction::PromptTokenMean,
    Reduction::ConstantLength(9),
    Reduction::SequenceSum,
    Reduction::TokenSum,
];

/// Every arm of [`Objective`], more than once where a setting is a branch of its own.
pub fn objectives() -> Vec<Objective> {
    let (positive, negative) = (VespoShape { k: 2.0, lambda: 3.0 }, VespoShape { k: 3.0, lambda: 2.0 });
    vec![
        Objective::clipped(CLIP),
        Objective::Clipped { clip: CLIP, dual: DualClip::RatioCap(1.6) },
        Objective::Clipped { clip: CLIP, dual: DualClip::LossCap(1.4) },
        Objective::ImportanceSampling,
        Objective::Reinforce,
        Objective::Cispo { cap: WeightCap(1.25) },
        Objective::CispoTwoSided { clip: CLIP },
        Objective::Gmpo { low: 0.3, high: 0.4, length_epsilon: 1e-8 },
        Objective::Sapo { positive: 1.0, negative: 1.05 },
        Objective::Vespo { positive, negative },
        Objective::DppoTv { range: ClipRange { low: 0.05, high: 0.08 }, cap: WeightCap(1.3) },
        Objective::DppoKl { range: ClipRange { low: 0.01, high: 0.02 }, cap: WeightCap(1.3) },
        Objective::ThresholdMask { threshold: 0.1 },
        Objective::Dro { beta: 0.7 },
        Objective::ClipCov { clip: CLIP, fraction: 1.0, low: 0.1, high: 1.0, seed: 5 },
        Objective::KlCov { fraction: 0.3, coefficient: 0.8 },
        Objective::Fipo { clip: CLIP, half_life: 3.0, weight_low: 0.9, weight_high: 1.2, safety: 1.5 },
        Objective::Real { temperature: 0.5 },
    ]
}

/// The reduction that the objective demands, or `wanted`.
pub fn fitting(objective: Objective, wanted: Reduction) -> Reduction {
    match objective {
        Objective::Gmpo { .. } => Reduction::SequenceMean,
        Objective::Real { .. } => Reduction::PromptTokenMean,
        _ => wanted,
    }
}

pub fn with(objective: Objective) -> GrpoConfig {
    GrpoConfig { objective, reduction: fitting(objective, Reduction::TokenMean), ..GrpoConfig::default() }
}

/// Every objective at every level, with every reduction, where the pair is allowed.
pub fn policy_terms() -> Vec<Named> {
    let mut all = Vec::new();
    for objective in objectives() {
        for ratio in LEVELS {
            for reduction in REDUCTIONS {
                let config = GrpoConfig { objective, ratio, reduction, ..GrpoConfig::default() };
                if config.validate().is_ok() {
                    all.push((format!("{objective:?}, {ratio:?}, {reduction:?}"), config));
                }
            }
        }
    }
    let rows = GrpoConfig { reduction: Reduction::SequenceMean, counted_rows: CountedRows::NonEmpty, ..GrpoConfig::default() };
    all.push(("non-empty rows".to_owned(), rows.clone()));
    all.push(("length epsilon".to_owned(), GrpoConfig { length_epsilon: 0.5, ..rows }));
    for bound in [None, Some(0.3)] {
        for ratio in LEVELS {
            let reduction = if ratio == RatioLevel::SequenceSum { Reduction::SequenceMean } else { Reduction::TokenMean };
            let objective = Objective::ImportanceSampling;
            let config = GrpoConfig { log_ratio_bound: bound, ratio, reduction, objective, ..GrpoConfig::default() };
            all.push((format!("bound {bound:?}, {ratio:?}"), config));
        }
        all.push((format!("bound {bound:?}, GMPO"), GrpoConfig { log_ratio_bound: bound, ..with(objectives()[7]) }));
    }
    all
}

/// Every KL estimator × gradient form that is allowed in the loss.
pub fn kl_forms() -> Vec<Named> {
    let mut all = Vec::new();
    for estimator in [KlEstimator::K1, KlEstimator::K2, KlEstimator::K3, KlEstimator::Abs, KlEstimator::Exact] {
        for gradient in [KlGradient::Plain, KlGradient::RatioWeighted, KlGradient::StraightThrough] {
            for value_bound in [None, Some(0.05), Some(0.25)] {
                let kl = KlPenalty { coefficient: 0.7, estimator, gradient, place: KlPlace::Loss, value_bound };
                let config = GrpoConfig { kl: Some(kl), ..GrpoConfig::default() };
                if config.validate().is_ok() {
                    all.push((format!("{estimator:?}, {gradient:?}, bound {value_bound:?}"), config));
                }
            }
        }
    }
    all
}

/// Every correction, mask and addition.
pub fn corrections() -> Vec<Named> {
    let mut all: Vec<Named> = Vec::new();
    let off = |off_policy: OffPolicy| GrpoConfig { off_policy, ..GrpoConfig::default() };
    for level in [WeightLevel::Token, WeightLevel::SequenceProduct, WeightLevel::SequenceGeometric] {
        for outside in [OutOfBounds::Truncate, OutOfBounds::Mask] {
            for normalise in [WeightNormalisation::None, WeightNormalisation::StepMean] {
                let weight = SamplerWeight { level, outside, low: 0.7, high: 1.3, normalise };
                let config = off(OffPolicy { weight: Some(weight), ..OffPolicy::default() });
                all.push((format!("{level:?}, {outside:?}, {normalise:?}"), config));
            }
        }
    }
    for over in [RejectionLevel::Token, RejectionLevel::SequenceMean, RejectionLevel::SequenceSum, RejectionLevel::SequenceMax] {
        for (divergence, low, high) in [(Divergence::K1, Some(-0.3), 0.2), (Divergence::K2, None, 0.1), (Divergence::K3, None, 0.2)] {
            let rejection = Rejection { divergence, over, low, high };
            all.push((format!("{over:?}, {divergence:?}"), off(OffPolicy { rejection: Some(rejection), ..OffPolicy::default() })));
        }
    }
    all.push((
        "sequence mask".to_owned(),
        off(OffPolicy { sequence_mask: Some(SequenceMask { limit: 0.02, from: OldSource::Trainer }), ..OffPolicy::default() }),
    ));
    all.push(("bypass".to_owned(), off(OffPolicy { old: grpo_core::OldSource::Sampler, ..OffPolicy::default() })));
    let entropy = |bonus: f64, top_fraction: Option<f64>| GrpoConfig {
        entropy: EntropySettings { bonus, top_fraction },
        kl: Some(KlPenalty::new(0.3)),
        ..GrpoConfig::default()
    };
    all.push(("entropy bonus".to_owned(), entropy(0.6, None)));
    all.push(("top entropy".to_owned(), entropy(0.0, Some(0.4))));
    let added = |addition| GrpoConfig { additions: vec![addition], ..GrpoConfig::default() };
    all.push(("cross-entropy".to_owned(), added(Addition::CrossEntropy { coefficient: 0.4 })));
    all.push(("squared drift".to_owned(), added(Addition::SquaredDrift { coefficient: 0.4 })));
    let everything = GrpoConfig {
        kl: Some(KlPenalty::new(0.3)),
        entropy: EntropySettings { bonus: 0.2, top_fraction: Some(0.6) },
        off_policy: OffPolicy {
            weight: Some(SamplerWeight {
                level: WeightLevel::Token,
                outside: OutOfBounds::Truncate,
                low: 0.5,
                high: 1.5,
                normalise: WeightNormalisation::StepMean,
            }),
            sequence_mask: Some(SequenceMask { limit: 0.02, from: OldSource::Sampler }),
            ..OffPolicy::default()
        },
        additions: vec![Addition::CrossEntropy { coefficient: 0.4 }, Addition::SquaredDrift { coefficient: 0.4 }],
        ..GrpoConfig::default()
    };
    all.push(("everything at once".to_owned(), everything));
    all
}

/// All of it.
pub fn every() -> Vec<Named> {
    [policy_terms(), kl_forms(), corrections()].concat()
}
