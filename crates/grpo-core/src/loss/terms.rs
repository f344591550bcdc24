//! What every objective reads: the tensors of a micro-batch, masked once.

use burn::Tensor;
use burn::tensor::{Bool, DType, Device};

use super::ratio::{LogRatio, at_level, log_ratio};
use crate::batch::{Batch, host_f64};
use crate::config::{GrpoConfig, OldSource, RatioLevel};
use crate::error::{Error, Result};
use crate::metrics::Normaliser;
use crate::policy::Scores;

/// Something that is counted on the way, for a metric: its mean is taken over tokens of the loss, or over completions.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Event {
    /// The metric's name.
    pub name: &'static str,
    /// `[N, Tc]` over tokens, `[N, 1]` over completions; 1 or 0 for a share.
    pub values: Tensor<2>,
    /// What the mean is over.
    pub over: Normaliser,
}

impl Event {
    /// A mean over the tokens of the loss.
    pub fn of_tokens(name: &'static str, values: Tensor<2>) -> Self {
        Self { name, values, over: Normaliser::Token }
    }

    /// A mean over completions, also those without a token.
    pub fn of_completions(name: &'static str, values: Tensor<2>) -> Self {
        Self { name, values, over: Normaliser::Completion }
    }
}

/// A micro-batch on its way through the loss. Everything is `[N, Tc]` unless said; 0 at masked places.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Terms {
    /// log π_θ; tracked if the scores are.
    pub log_probs: Tensor<2>,
    /// log π_old; a constant.
    pub old: Tensor<2>,
    /// x and ρ of each token.
    pub token: LogRatio,
    /// x and ρ at the ratio level of the configuration.
    pub level: LogRatio,
    /// Â; a constant.
    pub advantages: Tensor<2>,
    /// 1 where a token takes part, else 0.
    pub mask: Tensor<2>,
    /// The places that do not take part.
    pub ignored: Tensor<2, Bool>,
    /// `[N, 1]`: max(L_i, 1).
    pub lengths: Tensor<2>,
    /// What `level` is a ratio of.
    pub ratio: RatioLevel,
}

/// At least 32 bits: e^12 leaves 16, and a ratio that is infinite has no gradient.
pub(crate) fn precision(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 | DType::Flex32 => DType::F32,
        wide => wide,
    }
}

impl Terms {
    /// Masks and bounds.
    ///
    /// # Errors
    /// Scores of another shape, old or sampler log-probabilities that are needed and missing.
    pub fn new(new: &Scores, batch: &Batch, config: &GrpoConfig) -> Result<Self> {
        Error::check_shape("new log-probs", &new.log_probs.dims(), &batch.shape())?;
        let dtype = precision(new.log_probs.dtype());
        let ignored = batch.mask().bool_not(); // [N, Tc]
        // Masked before anything is computed: a NaN or an infinity there must reach neither value nor gradient.
        let masked = |t: Tensor<2>| t.cast(dtype).mask_fill(ignored.clone(), 0.0); // [N, Tc]
        let log_probs = masked(new.log_probs.clone());
        let old = match config.off_policy.old {
            OldSource::Sampler => masked(batch.sampler_log_probs(config.off_policy.accept)?),
            OldSource::Trainer => match batch.old() {
                Some(old) => masked(old.tensor()),
                None => log_probs.clone().inner(),
            },
        };
        let mask = batch.mask().float().cast(dtype); // [N, Tc]
        let lengths = mask.clone().sum_dim(1).clamp_min(1.0); // [N, 1]
        let x = log_probs.clone() - old.clone(); // [N, Tc]
        let level = log_ratio(at_level(config.ratio, x.clone(), &lengths).mask_fill(ignored.clone(), 0.0), config.log_ratio_bound);
        let advantages = batch.advantages().cast(dtype);
        Ok(Self {
            token: log_ratio(x, config.log_ratio_bound),
            level,
            log_probs,
            old,
            advantages,
            mask,
            ignored,
            lengths,
            ratio: config.ratio,
        })
    }

    /// The float type everything runs in: that of the log-probabilities, at least 32 bits.
    pub fn dtype(&self) -> DType {
        self.log_probs.dtype()
    }

    /// The device, without autodiff.
    pub fn device(&self) -> Device {
        self.log_probs.device().inner()
    }

    /// Host numbers, `[rows, columns]`, on the device.
    pub fn constant(&self, values: &[f64], shape: [usize; 2]) -> Tensor<2> {
        host_f64(values, shape, &self.device()).cast(self.dtype())
    }

    /// What happens to a ratio: a share of tokens, or of completions where there is one ratio a completion.
    pub fn ratio_event(&self, name: &'static str, at: Tensor<2, Bool>) -> Event {
        let at = self.indicator(at);
        match self.ratio {
            RatioLevel::Token | RatioLevel::SequenceToken => Event::of_tokens(name, at),
            RatioLevel::Sequence | RatioLevel::SequenceSum => {
                Event::of_completions(name, at.mask_fill(self.ignored.clone(), 0.0).max_dim(1)) // [N, 1]
            }
        }
    }

    /// 1 where true, else 0.
    pub fn indicator(&self, at: Tensor<2, Bool>) -> Tensor<2> {
        at.float().cast(self.dtype())
    }

    /// `[N, 1]`: the mean over each row's tokens; 0 of a row without any.
    pub fn row_mean(&self, values: Tensor<2>) -> Tensor<2> {
        values.mask_fill(self.ignored.clone(), 0.0).sum_dim(1) / self.lengths.clone()
    }

    /// Takes one number a row, `[N, 1]`, to each of its places, `[N, Tc]`.
    pub fn spread(&self, rows: Tensor<2>) -> Tensor<2> {
        rows.expand(self.mask.dims())
    }
}
