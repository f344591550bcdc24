//! The configuration: what it refuses and how it says so, its JSON, its default.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use common::configs::{self, CLIP, every, objectives};
use grpo_core::{
    Addition, ClipRange, CountedRows, Divergence, DualClip, EntropySettings, Estimator, GrpoConfig, KlEstimator, KlGradient, KlPenalty,
    KlPlace, Objective, OffPolicy, OldSource, OutOfBounds, RatioLevel, Reduction, Rejection, RejectionLevel, SamplerWeight, SequenceMask,
    Standardise, VespoShape, WeightCap, WeightLevel, WeightNormalisation, ZeroGradient,
};

/// The message names the field, and says what is in the way.
#[track_caller]
fn refused(config: GrpoConfig, words: &[&str]) {
    let error = config.validate().expect_err(&format!("{words:?}")).to_string();
    for word in words {
        assert!(error.contains(word), "`{error}` does not say {word}");
    }
}

fn objective(objective: Objective) -> GrpoConfig {
    GrpoConfig { objective, ..GrpoConfig::default() }
}

fn kl(kl: KlPenalty) -> GrpoConfig {
    GrpoConfig { kl: Some(kl), ..GrpoConfig::default() }
}

fn off(off_policy: OffPolicy) -> GrpoConfig {
    GrpoConfig { off_policy, ..GrpoConfig::default() }
}

const WEIGHT: SamplerWeight =
    SamplerWeight { level: WeightLevel::Token, outside: OutOfBounds::Truncate, low: 0.5, high: 2.0, normalise: WeightNormalisation::None };
const REJECTION: Rejection = Rejection { divergence: Divergence::K3, over: RejectionLevel::Token, low: Some(0.0), high: 0.1 };

#[test]
fn everything_the_tests_use_is_allowed() {
    for (name, config) in every() {
        config.validate().unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// Trap 62 and its kin: two fields that contradict each other are both named.
#[test]
fn contradictory_pairs_are_refused_by_both_names() {
    for ratio in [RatioLevel::Sequence, RatioLevel::SequenceToken, RatioLevel::SequenceSum] {
        refused(
            GrpoConfig { ratio, reduction: Reduction::TokenSum, ..GrpoConfig::default() },
            &["reduction", "token_sum", "ratio of the sequence"],
        );
        refused(GrpoConfig { ratio, ..objective(Objective::Reinforce) }, &["ratio", "reinforce"]);
        for own in objectives().into_iter().filter(|o| {
            use Objective as O;
            matches!(o, O::Gmpo { .. } | O::Vespo { .. } | O::Real { .. } | O::DppoTv { .. } | O::DppoKl { .. } | O::ThresholdMask { .. })
                || matches!(o, O::Dro { .. } | O::Fipo { .. } | O::KlCov { .. } | O::ClipCov { .. })
        }) {
            refused(GrpoConfig { ratio, ..configs::with(own) }, &["ratio", "objective"]);
        }
    }
    for reduction in configs::REDUCTIONS {
        if reduction != Reduction::SequenceMean {
            let gmpo = Objective::Gmpo { low: 0.4, high: 0.4, length_epsilon: 0.0 };
            refused(GrpoConfig { reduction, ..objective(gmpo) }, &["reduction", "gmpo", "sequence_mean"]);
        }
        if reduction != Reduction::PromptTokenMean {
            let real = Objective::Real { temperature: 0.5 };
            refused(GrpoConfig { reduction, ..objective(real) }, &["reduction", "real", "prompt_token_mean"]);
        }
    }
    let penalty = |estimator, gradient, place| KlPenalty { coefficient: 0.1, estimator, gradient, place, value_bound: None };
    refused(kl(penalty(KlEstimator::K1, KlGradient::Plain, KlPlace::Loss)), &["KL estimator", "k1", "gradient plain", "ratio_weighted"]);
    for gradient in [KlGradient::RatioWeighted, KlGradient::StraightThrough] {
        refused(kl(penalty(KlEstimator::Exact, gradient, KlPlace::Loss)), &["KL gradient", "exact", "plain"]);
    }
    for estimator in [KlEstimator::K2, KlEstimator::Abs] {
        refused(kl(penalty(estimator, KlGradient::RatioWeighted, KlPlace::Loss)), &["KL gradient", "ratio_weighted", "k2 or abs", "plain"]);
    }
    refused(kl(KlPenalty { value_bound: Some(1.0), ..KlPenalty::exact(0.1) }), &["KL value_bound", "exact"]);
    for place in [KlPlace::Reward, KlPlace::Advantage] {
        let bounded = KlPenalty { value_bound: Some(1.0), ..penalty(KlEstimator::K1, KlGradient::Plain, place) };
        refused(kl(bounded), &["KL value_bound", "KL place"]);
        for estimator in [KlEstimator::K2, KlEstimator::K3, KlEstimator::Abs, KlEstimator::Exact] {
            refused(kl(penalty(estimator, KlGradient::Plain, place)), &["KL estimator", "k1", "KL place"]);
        }
        assert!(kl(penalty(KlEstimator::K1, KlGradient::Plain, place)).validate().is_ok(), "outside the loss k1 is what it is");
    }
    let bypass = OffPolicy { old: OldSource::Sampler, ..OffPolicy::default() };
    refused(off(OffPolicy { weight: Some(WEIGHT), ..bypass }), &["sampler weight", "old = sampler"]);
    refused(off(OffPolicy { rejection: Some(REJECTION), ..bypass }), &["rejection", "old = sampler"]);
    for reduction in configs::REDUCTIONS.into_iter().filter(|r| *r != Reduction::SequenceMean) {
        let product = GrpoConfig { ratio: RatioLevel::SequenceSum, reduction, ..GrpoConfig::default() };
        refused(product, &["reduction", "sequence_sum", "sequence_mean"]);
    }
    let real = configs::with(Objective::Real { temperature: 0.5 });
    let mask = SequenceMask { limit: 0.1, from: OldSource::Trainer };
    for off_policy in [
        OffPolicy { weight: Some(WEIGHT), ..OffPolicy::default() },
        OffPolicy { rejection: Some(REJECTION), ..OffPolicy::default() },
        OffPolicy { sequence_mask: Some(mask), ..OffPolicy::default() },
    ] {
        refused(GrpoConfig { off_policy, ..real.clone() }, &["off_policy", "real"]);
    }
    let entropy = EntropySettings { bonus: 0.0, top_fraction: Some(0.2) };
    refused(GrpoConfig { entropy, ..real }, &["top_fraction", "real"]);
    let vespo = objectives().into_iter().find(|o| matches!(o, Objective::Vespo { .. })).unwrap();
    let off_policy = OffPolicy { weight: Some(WEIGHT), ..OffPolicy::default() };
    refused(GrpoConfig { off_policy, ..objective(vespo) }, &["off_policy weight", "vespo", "old = sampler"]);
    let twice = vec![Addition::CrossEntropy { coefficient: 0.1 }, Addition::CrossEntropy { coefficient: 0.2 }];
    refused(GrpoConfig { additions: twice, ..GrpoConfig::default() }, &["additions", "cross_entropy twice"]);
    let dual = |dual| objective(Objective::Clipped { clip: CLIP, dual });
    refused(dual(DualClip::RatioCap(1.28)), &["ratio_cap", "1.28", "clip range high"]);
    assert!(dual(DualClip::RatioCap(1.29)).validate().is_ok());
}

/// Trap 6: a relative width and an absolute cap are not the same thing.
#[test]
fn a_cap_below_one_is_refused() {
    for cap in [0.2, 0.999, f64::NAN, f64::INFINITY] {
        refused(objective(Objective::Cispo { cap: WeightCap(cap) }), &["CISPO cap", "at least 1"]);
        let (range, cap) = (ClipRange::symmetric(0.2), WeightCap(cap));
        refused(objective(Objective::DppoTv { range, cap }), &["DPPO cap"]);
        refused(objective(Objective::DppoKl { range, cap }), &["DPPO cap"]);
    }
    assert!(objective(Objective::Cispo { cap: WeightCap(1.0) }).validate().is_ok());
}

#[test]
fn numbers_out_of_range_are_refused_by_name() {
    let bad = [-0.1, f64::NAN, f64::INFINITY];
    let shape = VespoShape { k: 1.0, lambda: 1.0 };
    for v in bad {
        let wide = ClipRange { low: 0.2, high: v };
        refused(objective(Objective::clipped(wide)), &["clip range high"]);
        refused(objective(Objective::clipped(ClipRange { low: v, high: 0.2 })), &["clip range low"]);
        refused(objective(Objective::CispoTwoSided { clip: wide }), &["clip range high"]);
        refused(objective(Objective::ClipCov { clip: wide, fraction: 0.1, low: 0.0, high: 1.0, seed: 0 }), &["clip range high"]);
        refused(
            objective(Objective::Fipo { clip: wide, half_life: 1.0, weight_low: 1.0, weight_high: 1.0, safety: 4.0 }),
            &["clip range high"],
        );
        refused(
            objective(Objective::Fipo { clip: CLIP, half_life: v, weight_low: 1.0, weight_high: 1.0, safety: 4.0 }),
            &["FIPO half_life"],
        );
        refused(
            objective(Objective::Fipo { clip: CLIP, half_life: 1.0, weight_low: v, weight_high: 1.0, safety: 4.0 }),
            &["FIPO weight_low"],
        );
        refused(
            objective(Objective::Fipo { clip: CLIP, half_life: 1.0, weight_low: 1.0, weight_high: v, safety: 4.0 }),
            &["FIPO weight_high"],
        );
        refused(objective(Objective::Fipo { clip: CLIP, half_life: 1.0, weight_low: 1.0, weight_high: 1.0, safety: v }), &["FIPO safety"]);
        refused(objective(Objective::Gmpo { low: v, high: 0.4, length_epsilon: 0.0 }), &["GMPO low"]);
        refused(objective(Objective::Gmpo { low: 0.4, high: v, length_epsilon: 0.0 }), &["GMPO high"]);
        refused(objective(Objective::Gmpo { low: 0.4, high: 0.4, length_epsilon: v }), &["GMPO length_epsilon"]);
        refused(objective(Objective::Sapo { positive: v, negative: 1.0 }), &["SAPO positive"]);
        refused(objective(Objective::Sapo { positive: 1.0, negative: v }), &["SAPO negative"]);
        refused(objective(Objective::Vespo { positive: VespoShape { k: v, ..shape }, negative: shape }), &["VESPO k"]);
        refused(objective(Objective::Vespo { positive: shape, negative: VespoShape { lambda: v, ..shape } }), &["VESPO lambda"]);
        refused(objective(Objective::ThresholdMask { threshold: v }), &["threshold"]);
        refused(objective(Objective::Dro { beta: v }), &["DRO beta"]);
        refused(objective(Objective::KlCov { fraction: v, coefficient: 1.0 }), &["KL-Cov fraction"]);
        refused(objective(Objective::KlCov { fraction: 0.1, coefficient: v }), &["KL-Cov coefficient"]);
        refused(objective(Objective::ClipCov { clip: CLIP, fraction: v, low: 0.0, high: 1.0, seed: 0 }), &["Clip-Cov fraction"]);
        refused(objective(Objective::Real { temperature: v }), &["REAL temperature"]);
        refused(kl(KlPenalty::new(v)), &["KL coefficient"]);
        refused(kl(KlPenalty { value_bound: Some(v), ..KlPenalty::new(0.1) }), &["KL value_bound"]);
        refused(GrpoConfig { log_ratio_bound: Some(v), ..GrpoConfig::default() }, &["log_ratio_bound", "at most 80"]);
        refused(off(OffPolicy { weight: Some(SamplerWeight { low: v, ..WEIGHT }), ..OffPolicy::default() }), &["sampler weight low"]);
        refused(
            off(OffPolicy { weight: Some(SamplerWeight { high: v, ..WEIGHT }), ..OffPolicy::default() }),
            &["sampler weight high", "low"],
        );
        refused(off(OffPolicy { rejection: Some(Rejection { high: v, ..REJECTION }), ..OffPolicy::default() }), &["rejection high"]);
        refused(
            off(OffPolicy { sequence_mask: Some(SequenceMask { limit: v, from: OldSource::Trainer }), ..OffPolicy::default() }),
            &["sequence_mask"],
        );
        refused(GrpoConfig { length_epsilon: v, ..GrpoConfig::default() }, &["length_epsilon"]);
        refused(GrpoConfig { log_ratio_bound: Some(v), ..GrpoConfig::default() }, &["log_ratio_bound"]);
        refused(GrpoConfig { max_grad_norm: Some(v), ..GrpoConfig::default() }, &["max_grad_norm"]);
        for addition in [Addition::CrossEntropy { coefficient: v }, Addition::SquaredDrift { coefficient: v }] {
            refused(GrpoConfig { additions: vec![addition], ..GrpoConfig::default() }, &["coefficient"]);
        }
        let entropy = EntropySettings { bonus: 0.0, top_fraction: Some(v) };
        refused(GrpoConfig { entropy, ..GrpoConfig::default() }, &["top_fraction"]);
    }
    refused(GrpoConfig { log_ratio_bound: Some(80.1), ..GrpoConfig::default() }, &["log_ratio_bound", "at most 80"]);
    // What did not move keeps its weight, and what did not diverge is kept.
    let weight = |low, high| off(OffPolicy { weight: Some(SamplerWeight { low, high, ..WEIGHT }), ..OffPolicy::default() });
    refused(weight(0.0, 0.9), &["sampler weight high", "0.9", "at least 1"]);
    refused(weight(1.1, 2.0), &["sampler weight low", "1.1", "at most 1"]);
    refused(weight(1.0, 1.0), &["sampler weight high", "above sampler weight low"]);
    let rejection = Rejection { low: Some(0.01), ..REJECTION };
    refused(off(OffPolicy { rejection: Some(rejection), ..OffPolicy::default() }), &["rejection low", "0.01", "at most 0"]);
    let fipo = |weight_low, weight_high, safety| objective(Objective::Fipo { clip: CLIP, half_life: 1.0, weight_low, weight_high, safety });
    refused(fipo(1.1, 1.2, 4.0), &["FIPO weight_low", "at most 1"]);
    refused(fipo(0.8, 0.9, 4.0), &["FIPO weight_high", "at least 1"]);
    refused(fipo(1.0, 1.2, 0.5), &["FIPO safety", "at least 1"]);
    let dual = |dual| objective(Objective::Clipped { clip: CLIP, dual });
    refused(dual(DualClip::LossCap(1.0)), &["loss_cap", "above 1"]);
    refused(objective(Objective::clipped(ClipRange { low: 1.1, high: 0.2 })), &["clip range low", "1.1", "at most 1"]);
    refused(objective(Objective::ClipCov { clip: CLIP, fraction: 0.1, low: 2.0, high: 1.0, seed: 0 }), &["Clip-Cov low", "Clip-Cov high"]);
    refused(GrpoConfig { reduction: Reduction::ConstantLength(0), ..GrpoConfig::default() }, &["constant_length", "at least 1"]);
    refused(GrpoConfig { updates_per_rollout: 0, ..GrpoConfig::default() }, &["updates_per_rollout"]);
    let entropy = EntropySettings { bonus: f64::NAN, top_fraction: None };
    refused(GrpoConfig { entropy, ..GrpoConfig::default() }, &["entropy bonus"]);
    let estimator = Estimator::Standardise(Standardise { epsilon: f64::NAN, ..Standardise::default() });
    refused(GrpoConfig { estimator, ..GrpoConfig::default() }, &["epsilon"]);
}

/// The loss and the step check the configuration again: a field may have been set since.
#[test]
fn the_loss_refuses_a_configuration_that_is_out_of_range() {
    let data = common::Data::of_ratios(&[1.0], 1.0);
    let config = GrpoConfig { updates_per_rollout: 0, ..GrpoConfig::default() };
    let step = grpo_core::StepStats::of([&data.batch(&[0])]);
    assert!(grpo_core::grpo_loss(&data.scores(&[0]).0, &data.batch(&[0]), &step, &config).is_err());
}

#[test]
fn every_configuration_survives_json() {
    let mut all: Vec<GrpoConfig> = every().into_iter().map(|(_, config)| config).collect();
    all.extend([GrpoConfig::default(), GrpoConfig::deepseek_math()]);
    for place in [KlPlace::Reward, KlPlace::Advantage] {
        all.push(kl(KlPenalty { place, estimator: KlEstimator::K1, ..KlPenalty::new(0.1) }));
    }
    all.push(off(OffPolicy { max_staleness: Some(3), accept: grpo_core::AcceptedKind::Any, ..OffPolicy::default() }));
    for config in all {
        let json = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<GrpoConfig>(&json).unwrap(), config, "{json}");
    }
}

#[test]
fn what_json_leaves_out_is_the_default() {
    assert_eq!(serde_json::from_str::<GrpoConfig>("{}").unwrap(), GrpoConfig::default());
    let config: GrpoConfig =
        serde_json::from_str(r#"{"reduction": "sequence_mean", "kl": {"coefficient": 0.1, "estimator": "k3"}}"#).unwrap();
    assert_eq!(config, GrpoConfig { reduction: Reduction::SequenceMean, kl: Some(KlPenalty::new(0.1)), ..GrpoConfig::default() });
    for estimator in ["k1", "k2", "k3", "abs", "exact"] {
        let json = format!(r#"{{"kl": {{"coefficient": 0.1, "estimator": "{estimator}"}}}}"#);
        serde_json::from_str::<GrpoConfig>(&json).unwrap_or_else(|error| panic!("{json}: {error}"));
    }
    let mask: GrpoConfig = serde_json::from_str(r#"{"off_policy": {"sequence_mask": {"limit": 0.1}}}"#).unwrap();
    assert_eq!(mask.off_policy.sequence_mask.unwrap().from, OldSource::Sampler);
    let clipped: GrpoConfig = serde_json::from_str(r#"{"objective": {"clipped": {"clip": {"low": 0.2, "high": 0.2}}}}"#).unwrap();
    assert_eq!(clipped, GrpoConfig::default());
    let constant: GrpoConfig = serde_json::from_str(r#"{"reduction": {"constant_length": 512}}"#).unwrap();
    assert_eq!(constant.reduction, Reduction::ConstantLength(512));
}

#[test]
fn a_file_with_settings_that_contradict_each_other_is_refused_when_it_is_read() {
    for (json, words) in [
        (r#"{"updates_per_rollout": 0}"#, "updates_per_rollout"),
        (r#"{"ratio": "sequence", "reduction": "token_sum"}"#, "token_sum"),
        (r#"{"kl": {"coefficient": 0.1, "estimator": "k2", "gradient": "ratio_weighted"}}"#, "k2 or abs"),
    ] {
        let error = serde_json::from_str::<GrpoConfig>(json).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

/// Trap 7 and trap 15 of the wish list: a misspelt key is an error at every depth, and not a default.
#[test]
fn unknown_keys_are_refused_at_every_depth() {
    let whole = GrpoConfig {
        kl: Some(KlPenalty::new(0.1)),
        off_policy: OffPolicy { weight: Some(WEIGHT), rejection: Some(REJECTION), ..OffPolicy::default() },
        additions: vec![Addition::CrossEntropy { coefficient: 0.1 }],
        ..GrpoConfig::default()
    };
    let mut seen = 0;
    let mut documents: Vec<serde_json::Value> = objectives().into_iter().map(|o| serde_json::to_value(objective(o)).unwrap()).collect();
    documents.push(serde_json::to_value(whole).unwrap());
    for document in documents {
        for path in objects(&document, String::new()) {
            let mut spoilt = document.clone();
            let object = spoilt.pointer_mut(&path).unwrap().as_object_mut().unwrap();
            object.insert("clip_ratoi".to_owned(), 0.1.into());
            let error = serde_json::from_value::<GrpoConfig>(spoilt.clone());
            assert!(error.is_err(), "a misspelt key passes at `{path}` of {spoilt}");
            seen += 1;
        }
    }
    assert!(seen > 60, "{seen}");
}

/// The paths of all objects.
fn objects(value: &serde_json::Value, path: String) -> Vec<String> {
    match value {
        serde_json::Value::Object(map) => {
            let inner = map.iter().flat_map(|(key, value)| objects(value, format!("{path}/{key}")));
            std::iter::once(path.clone()).chain(inner).collect()
        }
        serde_json::Value::Array(list) => list.iter().enumerate().flat_map(|(k, v)| objects(v, format!("{path}/{k}"))).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn the_default_is_what_it_says() {
    let GrpoConfig {
        estimator,
        ratio,
        objective,
        kl,
        entropy,
        off_policy,
        additions,
        reduction,
        counted_rows,
        length_epsilon,
        log_ratio_bound,
        updates_per_rollout,
        max_grad_norm,
        zero_gradient,
    } = GrpoConfig::default();
    assert_eq!(estimator, Estimator::Standardise(Standardise::default()));
    assert_eq!((ratio, objective), (RatioLevel::Token, Objective::clipped(ClipRange { low: 0.2, high: 0.2 })));
    assert_eq!((kl, additions.len()), (None, 0));
    assert_eq!(entropy, EntropySettings { bonus: 0.0, top_fraction: None });
    assert_eq!(off_policy, OffPolicy::default());
    assert_eq!((reduction, counted_rows, length_epsilon), (Reduction::TokenMean, CountedRows::All, 0.0));
    assert_eq!((log_ratio_bound, updates_per_rollout, max_grad_norm), (Some(20.0), 1, Some(1.0)));
    assert_eq!(zero_gradient, ZeroGradient::Skip);
    let OffPolicy { old, weight, rejection, sequence_mask, max_staleness, accept } = off_policy;
    assert_eq!((old, weight, rejection), (OldSource::Trainer, None, None));
    assert_eq!((sequence_mask, max_staleness, accept), (None, None, grpo_core::AcceptedKind::Tempered));
}

#[test]
fn what_is_asked_for_follows_from_the_settings() {
    let config = GrpoConfig::default();
    assert!(!config.needs_reference() && !config.needs_step() && config.kl_in_loss().is_none());
    let reward = kl(KlPenalty { place: KlPlace::Reward, ..KlPenalty::new(0.1) });
    assert!(reward.needs_reference() && reward.kl_in_loss().is_none(), "a KL in the reward has no term in the loss");
    assert!(!kl(KlPenalty::new(0.0)).needs_reference());
    assert!(kl(KlPenalty::new(0.1)).kl_in_loss().is_some());
    let top = |fraction| GrpoConfig { entropy: EntropySettings { bonus: 0.0, top_fraction: Some(fraction) }, ..GrpoConfig::default() };
    assert!(top(0.2).needs_step() && !top(1.0).needs_step());
    assert!(
        off(OffPolicy { weight: Some(SamplerWeight { normalise: WeightNormalisation::StepMean, ..WEIGHT }), ..OffPolicy::default() })
            .needs_step()
    );
    assert!(!off(OffPolicy { weight: Some(WEIGHT), ..OffPolicy::default() }).needs_step());
    assert!(configs::with(Objective::KlCov { fraction: 0.1, coefficient: 1.0 }).needs_step());
}
