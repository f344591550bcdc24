//! The nouns: rows in, what is asked about them, statistics out, and the check that they fit together.

use std::num::NonZeroUsize;

use burn::tensor::{Device, Int, Tensor};

use crate::error::KernelError;

/// Logits of one chunk are held to about this many bytes when the caller does not say how many rows a chunk has.
/// Large enough that the matrix products run at full speed, small beside the weights of a model with such a vocabulary.
const CHUNK_BYTES: usize = 48 << 20;

/// Logits not yet computed: row r has the logits `weight · hidden_r` over the vocabulary, V numbers that nobody holds for all rows at once.
#[derive(Debug, Clone)]
pub struct LinearRows {
    /// The last hidden states, `[R, H]`.
    pub hidden: Tensor<2>,
    /// The output head, one row a vocabulary entry, `[V, H]`.
    pub weight: Tensor<2>,
}

/// Whether a statistic is computed, and whether gradients flow through it.
///
/// A backward pass recomputes only what [`Ask::Gradient`] needs, so a statistic that is merely watched should be asked for as [`Ask::Value`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ask {
    /// Not computed.
    #[default]
    No,
    /// Computed, and returned detached from the graph.
    Value,
    /// Computed and differentiable.
    Gradient,
}

/// What is asked about every row besides the log-probability of its target.
#[derive(Debug, Clone)]
pub struct RowRequest {
    pub(crate) temperature: f64,
    pub(crate) entropy: Ask,
    pub(crate) kl: Ask,
    pub(crate) reference: Option<LinearRows>,
    pub(crate) chunk_rows: Option<NonZeroUsize>,
}

impl RowRequest {
    /// Log-probabilities only, of logits divided by `temperature` (finite, greater than 0; 1 leaves them as they are).
    #[must_use]
    pub fn new(temperature: f64) -> Self {
        Self { temperature, entropy: Ask::No, kl: Ask::No, reference: None, chunk_rows: None }
    }

    /// Also asks for the entropy of each row's distribution.
    #[must_use]
    pub fn with_entropy(mut self, ask: Ask) -> Self {
        self.entropy = ask;
        self
    }

    /// Also asks for the exact divergence KL(policy ‖ reference) of each row, over the whole vocabulary and at the same temperature.
    ///
    /// The reference is a constant: gradients never flow into it, even if its tensors are tracked. Its hidden width may differ from the policy's.
    #[must_use]
    pub fn with_kl(mut self, reference: LinearRows, ask: Ask) -> Self {
        self.reference = (ask != Ask::No).then_some(reference);
        self.kl = ask;
        self
    }

    /// How many rows have their logits in memory at once. The default holds about 48 MiB of logits, at least one row.
    #[must_use]
    pub fn with_chunk_rows(mut self, rows: NonZeroUsize) -> Self {
        self.chunk_rows = Some(rows);
        self
    }
}

/// What was asked about R rows. Every tensor is `[R]`, in nats, at least f32 even where the rows are half precision.
#[derive(Debug, Clone)]
pub struct RowStats {
    /// log p(target), `[R]`, at most 0.
    pub log_probs: Tensor<1>,
    /// −Σ p log p, `[R]`, from 0 to log V. Present if asked for.
    pub entropies: Option<Tensor<1>>,
    /// Σ p (log p − log q), `[R]`, at least 0 up to rounding. Present if asked for.
    pub kl: Option<Tensor<1>>,
}

/// A checked request in plain numbers, which is what the operation carries from forward to backward.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// 1 / temperature.
    pub scale: f64,
    pub chunk_rows: usize,
    pub entropy: Ask,
    pub kl: Ask,
}

impl Plan {
    /// Checks everything that burn would panic on, except the values of the targets: reading those would wait for the device.
    pub(crate) fn new(rows: &LinearRows, targets: &Tensor<1, Int>, request: &RowRequest) -> Result<Self, KernelError> {
        let temperature = request.temperature;
        if !(temperature.is_finite() && temperature > 0.0) {
            return Err(KernelError::Temperature { given: temperature });
        }
        let [r, h] = rows.hidden.dims();
        let [v, _] = rows.weight.dims();
        for (name, size) in [("rows R", r), ("hidden width H", h), ("vocabulary V", v)] {
            if size == 0 {
                return Err(KernelError::Empty { name });
            }
        }
        let device = rows.hidden.device();
        check_head("weight", rows, &device)?;
        same("number of targets", targets.dims()[0], r, "one target a row")?;
        on_device("targets", &targets.device(), &device)?;
        if let Some(reference) = &request.reference {
            let [reference_r, reference_h] = reference.hidden.dims();
            same("reference rows", reference_r, r, "one reference row a policy row")?;
            same("reference vocabulary", reference.weight.dims()[0], v, "policy and reference share a vocabulary")?;
            if reference_h == 0 {
                return Err(KernelError::Empty { name: "reference hidden width" });
            }
            on_device("reference hidden states", &reference.hidden.device(), &device)?;
            check_head("reference weight", reference, &device)?;
        }
        let auto = (CHUNK_BYTES / (v * rows.hidden.dtype().size().max(4))).max(1);
        let chunk_rows = request.chunk_rows.map_or(auto, NonZeroUsize::get).min(r);
        Ok(Self { scale: temperature.recip(), chunk_rows, entropy: request.entropy, kl: request.kl })
    }

    /// The row ranges of the chunks of `rows` rows, in order.
    pub(crate) fn chunks(self, rows: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
        (0..rows).step_by(self.chunk_rows).map(move |start| start..(start + self.chunk_rows).min(rows))
    }
}

fn check_head(name: &'static str, rows: &LinearRows, device: &Device) -> Result<(), KernelError> {
    same(name_of_width(name), rows.weight.dims()[1], rows.hidden.dims()[1], "the width of its hidden states")?;
    on_device(name, &rows.weight.device(), device)?;
    let (given, expected) = (rows.weight.dtype(), rows.hidden.dtype());
    if given == expected {
        Ok(())
    } else {
        Err(KernelError::ElementType { name, given: format!("{given:?}"), expected: format!("{expected:?}") })
    }
}

fn name_of_width(name: &'static str) -> &'static str {
    if name == "weight" { "width of weight" } else { "width of reference weight" }
}

fn same(name: &'static str, given: usize, expected: usize, rule: &'static str) -> Result<(), KernelError> {
    if given == expected { Ok(()) } else { Err(KernelError::Mismatch { name, given, expected, rule }) }
}

fn on_device(name: &'static str, given: &Device, expected: &Device) -> Result<(), KernelError> {
    if given == expected {
        Ok(())
    } else {
        Err(KernelError::Device { name, given: format!("{given:?}"), expected: format!("{expected:?}") })
    }
}
