//! The model: rows of tokens to scores.

use std::path::Path;

use burn::Tensor;
use burn::tensor::Device;
use grpo_core::TokenId;

use crate::chat::ChatTemplate;
use crate::checkpoint::{Classifier, HostTensor};
use crate::decoder::{Decoder, upload};
use crate::error::{Error, Result};
use crate::tokenizer::Tokenizer;

/// What of a classifier's logits z is the reward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Output {
    /// z of one label: for a regression, and the only one that makes sense where there is one label.
    Logit(usize),
    /// log softmax(z) of one label: for a classifier of several, whose logits mean nothing apart from each other. At most 0.
    LogProb(usize),
}

/// A sequence classifier on a decoder, read for rewards: score = w · h, with h the final hidden state of a row's last token and w a row of
/// `score.weight`.
///
/// The last token is the last one that is not the padding token of `config.json`. Where padding and end token are the same, the end token is
/// not read: so does `transformers`. Nothing here is ever tracked by autodiff.
///
/// ```no_run
/// use grpo_core::Rewards;
/// use grpo_lm::{ModelReward, RewardModel, chat::Message};
///
/// let model = RewardModel::open("models/Skywork-Reward-V2-Qwen3-0.6B", &grpo_flex::device()?)?;
/// let helpful = ModelReward::chat("helpful", model, |question: &String, completion| {
///     vec![Message::new("user", question), Message::new("assistant", &completion.text)]
/// })?;
/// let rewards = Rewards::<String>::new().with(1.0, helpful);
/// # Ok::<(), grpo_core::BoxError>(())
/// ```
///
/// # Source
/// `GenericForSequenceClassification` of `transformers`.
#[derive(Debug, Clone)]
pub struct RewardModel {
    decoder: Decoder,
    /// `[L, H]`
    score: Tensor<2>,
    labels: Vec<String>,
    output: Option<Output>,
    pad_token: Option<TokenId>,
    tokenizer: Option<Tokenizer>,
    chat_template: Option<ChatTemplate>,
}

impl RewardModel {
    /// Reads a Hugging Face folder of `LlamaForSequenceClassification`, `Qwen2ForSequenceClassification` or
    /// `Qwen3ForSequenceClassification`.
    ///
    /// # Errors
    /// As [`Checkpoint::open`](crate::Checkpoint::open); another head, as that of a model that generates; a `score.weight` that is missing or
    /// has not one row for each label of `id2label`.
    pub fn open(folder: impl AsRef<Path>, device: &Device) -> Result<Self> {
        let Classifier { body, score, labels, pad_token } = Classifier::open(folder.as_ref())?;
        let mut model = Self::new(&Decoder::from_checkpoint(&body, device)?, score)?;
        model.labels = labels;
        model.pad_token = pad_token;
        model.tokenizer = body.tokenizer;
        model.chat_template = body.chat_template;
        Ok(model)
    }

    /// A decoder, as it is now, and a head of shape `[labels, hidden]`. Every token counts: nothing is taken for padding.
    ///
    /// ```
    /// use grpo_lm::{Decoder, ModelConfig, RewardModel, checkpoint::HostTensor};
    ///
    /// let decoder = Decoder::random(&ModelConfig::default(), 7, &grpo_flex::device()?)?;
    /// let head = HostTensor { shape: vec![1, 64], data: vec![0.1; 64] };
    /// let model = RewardModel::new(&decoder, head)?;
    /// // In one batch, what they begin with computed once.
    /// let together = model.scores(&[vec![1, 2, 3], vec![1, 2, 4, 5]])?;
    /// let alone = model.scores(&[vec![1, 2, 4, 5]])?;
    /// assert!((together[1] - alone[0]).abs() < 1e-5);
    /// # Ok::<(), grpo_core::BoxError>(())
    /// ```
    ///
    /// # Errors
    /// A head of another width than the decoder, without a row, or with another number of values than its shape says.
    pub fn new(decoder: &Decoder, head: HostTensor) -> Result<Self> {
        let decoder = decoder.snapshot();
        let width = decoder.config().hidden_size;
        let labels = match head.shape.as_slice() {
            [labels, hidden] if *labels > 0 && *hidden == width && labels.checked_mul(width) == Some(head.data.len()) => *labels,
            shape => {
                let problem = format!("{} values of shape {shape:?}, must be [labels, {width}] with at least one label", head.data.len());
                return Err(Error::input("reward head", problem));
            }
        };
        Ok(Self {
            score: upload(head.data, [labels, width], &decoder.device()),
            decoder,
            labels: (0..labels).map(|id| format!("LABEL_{id}")).collect(),
            output: (labels == 1).then_some(Output::Logit(0)),
            pad_token: None,
            tokenizer: None,
            chat_template: None,
        })
    }

    /// Chooses what the reward is. With several labels there is no default.
    ///
    /// # Errors
    /// A label that there is not.
    pub fn with_output(mut self, output: Output) -> Result<Self> {
        let (Output::Logit(label) | Output::LogProb(label)) = output;
        if label >= self.labels.len() {
            let problem = format!("{label}, must be below {}: {}", self.labels.len(), self.labels.join(", "));
            return Err(Error::input("label of the reward model", problem));
        }
        self.output = Some(output);
        Ok(self)
    }

    /// Sets the tokenizer, where the folder has none or another is meant.
    #[must_use]
    pub fn with_tokenizer(mut self, tokenizer: Tokenizer) -> Self {
        self.tokenizer = Some(tokenizer);
        self
    }

    /// Sets the chat template, where the folder has none or another is meant.
    #[must_use]
    pub fn with_chat_template(mut self, template: ChatTemplate) -> Self {
        self.chat_template = Some(template);
        self
    }

    /// The names of the labels, from `id2label`.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// What the reward is, where that is clear.
    ///
    /// # Errors
    /// Several labels, and none chosen.
    pub fn output(&self) -> Result<Output> {
        self.output.ok_or_else(|| {
            let problem = format!("has {}: {}; choose by with_output", self.labels.len(), self.labels.join(", "));
            Error::input("reward model with several labels", problem)
        })
    }

    pub(crate) fn tokenizer(&self) -> Result<&Tokenizer> {
        self.tokenizer.as_ref().ok_or_else(|| Error::input("reward model", "has no tokenizer; set one by with_tokenizer"))
    }

    pub(crate) fn chat_template(&self) -> Result<&ChatTemplate> {
        self.chat_template.as_ref().ok_or_else(|| Error::input("reward model", "has no chat template; set one by with_chat_template"))
    }

    /// The scores of rows of tokens, in one batch. What all rows begin with is computed once.
    ///
    /// # Errors
    /// Several labels and none chosen; no row, a row without a token or longer than the context; a token without an embedding.
    pub fn scores(&self, rows: &[Vec<TokenId>]) -> Result<Vec<f64>> {
        let output = self.output()?;
        let rows: Vec<&[TokenId]> = rows.iter().map(|row| self.without_padding(row)).collect();
        let hidden = self.decoder.last_hidden(&rows)?; // [N, H]
        let logits = hidden.matmul(self.score.clone().transpose()); // [N, L]
        let logits: Vec<f64> =
            logits.try_into_vec_as().map_err(|error| Error::Device { what: "scores".into(), problem: error.to_string() })?;
        Ok(logits.chunks(self.labels.len()).map(|z| read(z, output)).collect())
    }

    /// Up to the last token that does not pad; the first, if all do.
    fn without_padding<'a>(&self, row: &'a [TokenId]) -> &'a [TokenId] {
        let end = row.iter().rposition(|&token| Some(token) != self.pad_token).map_or(1, |last| last + 1);
        &row[..end.min(row.len())]
    }
}

/// The reward in the logits of one row. A label beyond them was refused when it was chosen.
fn read(z: &[f64], output: Output) -> f64 {
    let logit = |label: usize| z.get(label).copied().unwrap_or(f64::NAN);
    match output {
        Output::Logit(label) => logit(label),
        Output::LogProb(label) => {
            let high = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            logit(label) - high - z.iter().map(|z| (z - high).exp()).sum::<f64>().ln()
        }
    }
}
