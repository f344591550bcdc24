//! What other policies said of the batch: the old one, the sampler, the reference. Constants, each of its own type.

use burn::Tensor;

use super::Batch;
use crate::config::{AcceptedKind, KlEstimator};
use crate::error::{Error, Result};
use crate::policy::{Policy, ReferenceRows, ScoreRequest};
use crate::read::to_host;
use crate::token::LogProbKind;

macro_rules! frozen_log_probs {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $name(Tensor<2>);

        impl $name {
            /// Takes log-probabilities `[N, Tc]`.
            ///
            /// # Errors
            /// A tensor that autodiff tracks: it would receive a gradient that belongs to nobody.
            pub fn new(log_probs: Tensor<2>) -> Result<Self> {
                if log_probs.is_tracked() {
                    return Err(Error::Tracking { what: $what, tracked: false, hint: "score with `policy.valid()` or detach it" });
                }
                Ok(Self(log_probs.inner()))
            }

            /// The values, `[N, Tc]`.
            pub fn tensor(&self) -> Tensor<2> {
                self.0.clone()
            }
        }
    };
}

frozen_log_probs!(
    /// log π_old: of the policy as it was when it sampled, scored by the trainer. The denominator of the importance ratio.
    OldLogProbs,
    "old log-probs"
);
frozen_log_probs!(
    /// log π_sampler: what the sampler recorded. For corrections, and for bypass; never silently a denominator.
    SamplerLogProbs,
    "sampler log-probs"
);
frozen_log_probs!(
    /// log π_ref: of the reference that KL holds the policy to.
    ReferenceLogProbs,
    "reference log-probs"
);

/// What the reference says of a batch.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "one a batch: nothing to gain from a box")]
pub enum Reference {
    /// One number a token: for the estimators k1, k2, k3.
    LogProbs(ReferenceLogProbs),
    /// Whole rows: for the exact KL.
    Rows(ReferenceRows),
}

impl Batch {
    /// Scores the batch with the policy as it is now and keeps that as [`OldLogProbs`]: once per rollout, before the first update.
    ///
    /// # Errors
    /// A policy that fails, tracked scores (use `policy.valid()`), a wrong shape.
    pub fn score_old<P: Policy + ?Sized>(&mut self, policy: &P) -> Result<()> {
        let scores = policy.score(&self.tokens, &ScoreRequest::at(self.temperature)).map_err(Error::Policy)?;
        self.set_old(OldLogProbs::new(scores.log_probs)?)
    }

    /// Sets old log-probabilities that were scored elsewhere.
    ///
    /// # Errors
    /// A shape other than `[N, Tc]`.
    pub fn set_old(&mut self, old: OldLogProbs) -> Result<()> {
        Error::check_shape("old log-probs", &old.0.dims(), &self.shape())?;
        self.old = Some(old);
        Ok(())
    }

    /// Scores the batch with the reference and keeps what `kl` needs of it.
    ///
    /// # Errors
    /// A reference that fails, tracked scores, a wrong shape, a reference that cannot give rows where the exact KL is wanted.
    pub fn score_reference<P: Policy + ?Sized>(&mut self, reference: &P, kl: KlEstimator) -> Result<()> {
        let ask = ScoreRequest::at(self.temperature);
        if kl == KlEstimator::Exact {
            let scores = reference.score(&self.tokens, &ask.with_rows()).map_err(Error::Policy)?;
            let rows = scores.rows.ok_or_else(|| Error::invalid("reference", "gave no rows, which the exact KL needs"))?;
            self.set_reference(Reference::Rows(rows))
        } else {
            let scores = reference.score(&self.tokens, &ask).map_err(Error::Policy)?;
            self.set_reference(Reference::LogProbs(ReferenceLogProbs::new(scores.log_probs)?))
        }
    }

    /// Sets what a reference said elsewhere.
    ///
    /// # Errors
    /// A shape that does not fit, tracked rows.
    pub fn set_reference(&mut self, reference: Reference) -> Result<()> {
        let [n, width] = self.shape();
        let (given, tracked) = match &reference {
            Reference::LogProbs(lp) => (lp.0.dims(), false),
            Reference::Rows(ReferenceRows::LogProbs(rows)) => ([rows.dims()[0], rows.dims()[1]], rows.is_tracked()),
            Reference::Rows(ReferenceRows::Hidden { hidden, head }) => {
                ([hidden.dims()[0], hidden.dims()[1]], hidden.is_tracked() || head.is_tracked())
            }
        };
        Error::check_shape("reference", &given, &[n, width])?;
        if tracked {
            return Err(Error::Tracking { what: "reference rows", tracked: false, hint: "score with `reference.valid()`" });
        }
        self.reference = Some(reference);
        Ok(())
    }

    /// Sets sampler log-probabilities that were recorded elsewhere.
    ///
    /// # Errors
    /// A shape other than `[N, Tc]`.
    pub fn set_sampler(&mut self, sampler: SamplerLogProbs, kind: LogProbKind) -> Result<()> {
        Error::check_shape("sampler log-probs", &sampler.0.dims(), &self.shape())?;
        self.sampler = Some((sampler, kind));
        Ok(())
    }

    /// log π_sampler, `[N, Tc]`, if it is of an accepted kind. Raw ones are, where the temperature is 1.
    ///
    /// # Errors
    /// None recorded; a renormalised or untempered kind that was not accepted by name.
    pub fn sampler_log_probs(&self, accept: AcceptedKind) -> Result<Tensor<2>> {
        let Some((log_probs, kind)) = &self.sampler else {
            return Err(Error::invalid("sampler log-probs", "missing, though a correction needs them: call Batch::set_sampler"));
        };
        let fits = *kind == LogProbKind::Tempered || (*kind == LogProbKind::Raw && self.temperature == 1.0);
        if fits || accept == AcceptedKind::Any {
            return Ok(log_probs.tensor());
        }
        Err(Error::invalid(
            "sampler log-probs",
            format!("are {kind:?}, must be over the full support at temperature {} (or set off_policy.accept = any)", self.temperature),
        ))
    }

    /// log π_old − log π_ref of each token on the host, completion after completion, unpadded; 0 where a token does not take part.
    /// For KL outside the loss: [`kl_in_rewards`](crate::kl_in_rewards), [`kl_in_advantages`](crate::kl_in_advantages).
    ///
    /// # Errors
    /// No old or no reference log-probabilities; a device that failed.
    pub fn log_ratios_to_reference(&self) -> Result<Vec<Vec<f64>>> {
        let Some(old) = &self.old else {
            return Err(Error::invalid("old log-probs", "missing, though KL acts outside the loss: call Batch::score_old"));
        };
        let Some(Reference::LogProbs(reference)) = &self.reference else {
            return Err(Error::invalid("reference log-probs", "missing, though KL acts outside the loss: call Batch::score_reference"));
        };
        let d = (old.tensor() - reference.tensor().cast(old.0.dtype())).mask_fill(self.mask.clone().bool_not(), 0.0); // [N, Tc]
        let d = to_host(d, "log-ratios to the reference")?;
        let rows = d.chunks(self.shape()[1]).zip(self.tokens.completions().lengths());
        Ok(rows.map(|(row, &len)| row[..len].to_vec()).collect())
    }
}
