//! The settings of the policy term.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The clip range of the importance ratio: ρ is clipped to [1 − low, 1 + high]. Both are widths relative to 1, not bounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClipRange {
    /// How far below 1, between 0 and 1.
    pub low: f64,
    /// How far above 1, at least 0.
    pub high: f64,
}

impl ClipRange {
    /// The same width on both sides.
    pub fn symmetric(width: f64) -> Self {
        Self { low: width, high: width }
    }

    fn validate(self) -> Result<()> {
        share_or_0("clip range low", self.low)?;
        at_least_0("clip range high", self.high)
    }
}

/// An absolute cap on a weight that multiplies −Â log π: a bound, not a width. A cap below 1 would weaken on-policy tokens and is refused.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WeightCap(pub f64);

impl WeightCap {
    fn validate(self, field: &'static str) -> Result<()> {
        if !(self.0.is_finite() && self.0 >= 1.0) {
            return Err(Error::config(field, self.0, "finite and at least 1: it is a cap, not a width"));
        }
        Ok(())
    }
}

/// What bounds the surrogate −ρ Â where clipping does not: for Â < 0 above 1 + high.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DualClip {
    /// Only the clip range: unbounded for Â < 0.
    #[default]
    None,
    /// ρ ← min(ρ, δ) in the unclipped branch, δ > 1 + high (INTELLECT-2, arXiv 2505.07291; TRL's `delta`).
    RatioCap(f64),
    /// For Â < 0: ℓ ← min(ℓ, −c Â), c > 1 (arXiv 1912.09729; verl's `clip_ratio_c`).
    LossCap(f64),
}

/// The policy term ℓ of one token; minimised. ρ and x = log ρ are at the [`RatioLevel`](crate::RatioLevel), sg is "no gradient through this".
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Objective {
    /// −min(ρ Â, clip(ρ, 1 − low, 1 + high) Â). PPO, GRPO, DAPO, Dr. GRPO; GSPO and LUSPO with a ratio of the sequence.
    Clipped {
        /// The clip range.
        clip: ClipRange,
        /// What bounds it for Â < 0.
        #[serde(default)]
        dual: DualClip,
    },
    /// −ρ Â: importance sampling without any bound.
    ImportanceSampling,
    /// −Â log π: REINFORCE, and GPG's policy term (arXiv 2504.02546).
    Reinforce,
    /// −sg(min(ρ, cap)) Â log π: every token keeps a gradient (CISPO, arXiv 2506.13585, one-sided as in TRL).
    Cispo {
        /// The cap.
        cap: WeightCap,
    },
    /// −sg(clip(ρ, 1 − low, 1 + high)) Â log π (CISPO, two-sided as in verl).
    CispoTwoSided {
        /// The clip range.
        clip: ClipRange,
    },
    /// −Â exp(mean_t q), q = sgn(Â) min(sgn(Â) x, sgn(Â) clip(x, −low, high)): the geometric mean of clipped ratios (GMPO, arXiv 2507.20673). The widths are of log ρ.
    Gmpo {
        /// Width of log ρ below 0.
        low: f64,
        /// Width of log ρ above 0.
        high: f64,
        /// Added to the number of tokens that the mean divides by: 0, or 1e-8 as verl has it.
        length_epsilon: f64,
    },
    /// −(4/τ) σ(τ (ρ − 1)) Â with τ by the sign of Â: a soft gate in place of a clip (SAPO, arXiv 2511.20347).
    Sapo {
        /// τ where Â > 0.
        positive: f64,
        /// τ elsewhere.
        negative: f64,
    },
    /// −sg(φ) Â log π, φ = exp(λ + k w − λ e^w), w = Σ_t x of the row: a soft trust region on the whole sequence (VESPO, arXiv 2602.10693).
    Vespo {
        /// k and λ where Â ≥ 0.
        positive: VespoShape,
        /// k and λ where Â < 0.
        negative: VespoShape,
    },
    /// −sg(min(ρ, cap)) Â log π where the move is allowed, else 0; not allowed is π − π_old beyond the range in the direction of Â (DPPO-TV, arXiv 2602.04879).
    DppoTv {
        /// `low` and `high` bound π − π_old, a difference of probabilities.
        range: ClipRange,
        /// The cap.
        cap: WeightCap,
    },
    /// The same with the binary KL(π_old ‖ π) in place of the difference (DPPO-KL, arXiv 2602.04879).
    DppoKl {
        /// The largest divergence: `low` where Â ≤ 0, `high` where Â > 0.
        range: ClipRange,
        /// The cap.
        cap: WeightCap,
    },
    /// −ρ Â where |π − π_old| ≤ threshold, else 0: a symmetric mask (prime-rl's `ipo`).
    ThresholdMask {
        /// The largest difference of probabilities.
        threshold: f64,
    },
    /// −(Â log π − (β/2) x²): direct reward optimisation (arXiv 2405.19107; verl's `dro`).
    Dro {
        /// β > 0.
        beta: f64,
    },
    /// [`Clipped`](Self::Clipped), with a random few of the unclipped tokens of high covariance taken out (Clip-Cov, arXiv 2505.22617).
    ClipCov {
        /// The clip range.
        clip: ClipRange,
        /// Share of the step's tokens that is taken out, at least one.
        fraction: f64,
        /// Covariances strictly between these are candidates.
        low: f64,
        /// See `low`.
        high: f64,
        /// The seed of the choice.
        seed: u64,
    },
    /// −ρ Â, plus κ |x| at the tokens of highest covariance (KL-Cov, arXiv 2505.22617).
    KlCov {
        /// Share of the step's tokens that is held, at least one.
        fraction: f64,
        /// κ.
        coefficient: f64,
    },
    /// [`Clipped`](Self::Clipped) × sg(clip(exp(Σ_{k ≥ t} γ^{k−t} x_k), low, high)): tokens weigh by what follows (FIPO, arXiv 2603.19835).
    Fipo {
        /// The clip range.
        clip: ClipRange,
        /// Tokens until a later log-ratio counts half: γ = 2^(−1/half_life).
        half_life: f64,
        /// Bounds of the weight, with 1 between them.
        weight_low: f64,
        /// See `weight_low`.
        weight_high: f64,
        /// At least 1. Tokens with ρ above this stay out of the sum; and where Â < 0 their own weight lies in [0.8, 1].
        safety: f64,
    },
    /// log(1 + Σ_{Â ≤ 0} e^{s/τ}) + log(1 + Σ_{Â > 0} e^{−s/τ}) per group, s = mean_t x: a ranking, not a ratio (REAL, arXiv 2602.05630). The mean is over groups that have both signs.
    Real {
        /// τ > 0.
        temperature: f64,
    },
}

/// k and λ of VESPO's φ(w) = exp(λ + k w − λ e^w).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VespoShape {
    /// k ≥ 0.
    pub k: f64,
    /// λ ≥ 1e-4.
    pub lambda: f64,
}

impl Objective {
    /// The plain clipped surrogate.
    pub fn clipped(clip: ClipRange) -> Self {
        Self::Clipped { clip, dual: DualClip::None }
    }

    /// Whether the whole step must be seen before its first micro-batch: covariances are of the step.
    pub fn needs_step(&self) -> bool {
        matches!(self, Self::ClipCov { .. } | Self::KlCov { .. })
    }

    pub(crate) fn validate(&self) -> Result<()> {
        match *self {
            Self::ImportanceSampling | Self::Reinforce => Ok(()),
            Self::Clipped { clip, dual } => {
                clip.validate()?;
                match dual {
                    DualClip::None => Ok(()),
                    DualClip::RatioCap(cap) if cap > 1.0 + clip.high && cap.is_finite() => Ok(()),
                    DualClip::RatioCap(cap) => {
                        Err(Error::config("dual clip ratio_cap", cap, "above 1 + clip range high: below it, it would cut rewarded tokens"))
                    }
                    DualClip::LossCap(cap) if cap > 1.0 && cap.is_finite() => Ok(()),
                    DualClip::LossCap(cap) => Err(Error::config("dual clip loss_cap", cap, "above 1")),
                }
            }
            Self::Cispo { cap } => cap.validate("CISPO cap"),
            Self::CispoTwoSided { clip } => clip.validate(),
            Self::Gmpo { low, high, length_epsilon } => {
                at_least_0("GMPO low", low)?;
                at_least_0("GMPO high", high)?;
                at_least_0("GMPO length_epsilon", length_epsilon)
            }
            Self::Sapo { positive, negative } => {
                above_0("SAPO positive temperature", positive)?;
                above_0("SAPO negative temperature", negative)
            }
            Self::Vespo { positive, negative } => {
                for shape in [positive, negative] {
                    at_least_0("VESPO k", shape.k)?;
                    if !(shape.lambda.is_finite() && shape.lambda >= 1e-4) {
                        return Err(Error::config("VESPO lambda", shape.lambda, "finite and at least 1e-4"));
                    }
                }
                Ok(())
            }
            Self::DppoTv { range, cap } | Self::DppoKl { range, cap } => {
                range.validate()?;
                cap.validate("DPPO cap")
            }
            Self::ThresholdMask { threshold } => above_0("threshold", threshold),
            Self::Dro { beta } => above_0("DRO beta", beta),
            Self::ClipCov { clip, fraction, low, high, .. } => {
                clip.validate()?;
                share("Clip-Cov fraction", fraction)?;
                if low.is_finite() && low < high {
                    Ok(())
                } else {
                    Err(Error::config("Clip-Cov low", low, "finite and below Clip-Cov high"))
                }
            }
            Self::KlCov { fraction, coefficient } => {
                share("KL-Cov fraction", fraction)?;
                at_least_0("KL-Cov coefficient", coefficient)
            }
            Self::Fipo { clip, half_life, weight_low, weight_high, safety } => {
                clip.validate()?;
                above_0("FIPO half_life", half_life)?;
                share_or_0("FIPO weight_low", weight_low)?;
                for (field, value) in [("FIPO weight_high", weight_high), ("FIPO safety", safety)] {
                    if !(value.is_finite() && value >= 1.0) {
                        return Err(Error::config(field, value, "finite and at least 1: a token that did not move keeps its weight"));
                    }
                }
                Ok(())
            }
            Self::Real { temperature } => above_0("REAL temperature", temperature),
        }
    }
}

pub(super) fn above_0(field: &'static str, value: f64) -> Result<()> {
    if value.is_finite() && value > 0.0 { Ok(()) } else { Err(Error::config(field, value, "finite and above 0")) }
}

pub(super) fn at_least_0(field: &'static str, value: f64) -> Result<()> {
    if value.is_finite() && value >= 0.0 { Ok(()) } else { Err(Error::config(field, value, "finite and at least 0")) }
}

pub(super) fn share_or_0(field: &'static str, value: f64) -> Result<()> {
    if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(Error::config(field, value, "at least 0 and at most 1")) }
}

pub(super) fn share(field: &'static str, value: f64) -> Result<()> {
    if value > 0.0 && value <= 1.0 { Ok(()) } else { Err(Error::config(field, value, "above 0 and at most 1")) }
}
