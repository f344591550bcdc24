//! The reward function: how a task and a completion become a row of tokens.

use grpo_core::{BoxError, Completion, Reward, RewardFn, TokenId};

use super::model::RewardModel;
use crate::chat::{GenerationPrompt, Message};
use crate::error::{Error, Result};

/// What makes the row of one completion.
type Row<T> = Box<dyn Fn(&RewardModel, &T, &Completion) -> Result<Vec<TokenId>> + Send + Sync>;

/// A reward model's score as a reward. A group is one batch, and what its rows begin with, the prompt, is computed once.
///
/// A reward sees the task, not the prompt's tokens: say how the two make the text that the model was trained to judge.
/// [`chat`](Self::chat) is the usual one. Text and chat take the model's special tokens out of what the completion says
/// ([`without_special`](crate::Tokenizer::without_special)): a policy that writes `<|im_end|>` in ordinary letters cannot put words into another
/// role's mouth.
///
/// The score has the scale that the model has, without bounds; [`Clip`](https://docs.rs/grpo-rewards) and advantages scaled by the group's spread
/// are the remedies. A completion that does not fit into the model's context is an error, as a broken grader's: keep prompt and completion
/// shorter than that.
pub struct ModelReward<T: ?Sized> {
    name: String,
    model: RewardModel,
    row: Row<T>,
}

impl<T: ?Sized> ModelReward<T> {
    /// For a model that shares the policy's tokenizer: the tokens of the prompt, which the task must know, and those of the completion, with its
    /// end token, as they are. Nothing is decoded.
    ///
    /// ```
    /// # use grpo_core::{Completion, FinishReason, LogProbKind, RewardFn, Sample};
    /// # use grpo_lm::{Decoder, ModelConfig, ModelReward, RewardModel, checkpoint::HostTensor};
    /// struct Task { prompt: Vec<u32> }
    ///
    /// # let decoder = Decoder::random(&ModelConfig::default(), 7, &grpo_flex::device()?)?;
    /// # let model = RewardModel::new(&decoder, HostTensor { shape: vec![1, 64], data: vec![0.1; 64] })?;
    /// # let sample = Sample { tokens: vec![5, 7], log_probs: vec![-0.1, -0.2], log_prob_kind: LogProbKind::Tempered,
    /// #     temperature: 1.0, finish: FinishReason::EndToken, text: "hi".into(), policy_version: None };
    /// # let completion = Completion::from_sample(sample, 0)?;
    /// let expected = model.scores(&[vec![1, 2, 5, 7]])?;
    /// let liked = ModelReward::tokens("liked", model, |task: &Task| task.prompt.clone())?;
    /// assert_eq!(liked.score(&Task { prompt: vec![1, 2] }, &completion)?, expected[0].into());
    /// # Ok::<(), grpo_core::BoxError>(())
    /// ```
    ///
    /// # Errors
    /// A model of several labels, none chosen.
    pub fn tokens(
        name: impl Into<String>,
        model: RewardModel,
        prompt: impl Fn(&T) -> Vec<TokenId> + Send + Sync + 'static,
    ) -> Result<Self> {
        Self::new(name, model, move |_, task, completion| {
            if completion.tokens.is_empty() {
                return Err(Error::input("completion", "has no token, must have at least one"));
            }
            let mut row = prompt(task);
            row.extend(&completion.tokens);
            Ok(row)
        })
    }

    /// The text that the model's own tokenizer reads.
    ///
    /// # Errors
    /// A model of several labels, none chosen; one without a tokenizer.
    pub fn text(
        name: impl Into<String>,
        model: RewardModel,
        text: impl Fn(&T, &Completion) -> String + Send + Sync + 'static,
    ) -> Result<Self> {
        model.tokenizer()?;
        Self::new(name, model, move |model, task, completion| {
            let tokenizer = model.tokenizer()?;
            tokenizer.encode(&text(task, &harmless(model, completion)?))
        })
    }

    /// A finished conversation, in the model's own chat template and tokenizer.
    ///
    /// # Errors
    /// A model of several labels, none chosen; one without a tokenizer or a chat template.
    pub fn chat(
        name: impl Into<String>,
        model: RewardModel,
        conversation: impl Fn(&T, &Completion) -> Vec<Message> + Send + Sync + 'static,
    ) -> Result<Self> {
        model.tokenizer().and(model.chat_template().map(drop))?;
        Self::new(name, model, move |model, task, completion| {
            let messages = conversation(task, &harmless(model, completion)?);
            model.tokenizer()?.encode(&model.chat_template()?.render(&messages, GenerationPrompt::Omit)?)
        })
    }

    fn new(
        name: impl Into<String>,
        model: RewardModel,
        row: impl Fn(&RewardModel, &T, &Completion) -> Result<Vec<TokenId>> + Send + Sync + 'static,
    ) -> Result<Self> {
        model.output()?;
        Ok(Self { name: name.into(), model, row: Box::new(row) })
    }
}

/// A completion whose text cannot be taken for a turn of its own.
fn harmless(model: &RewardModel, completion: &Completion) -> Result<Completion> {
    let mut harmless = completion.clone();
    harmless.text = model.tokenizer()?.without_special(&completion.text).into_owned();
    Ok(harmless)
}

impl<T: ?Sized> RewardFn<T> for ModelReward<T> {
    fn name(&self) -> &str {
        &self.name
    }

    fn score(&self, task: &T, completion: &Completion) -> Result<Reward, BoxError> {
        let row = (self.row)(&self.model, task, completion)?;
        let scores = self.model.scores(&[row])?;
        Ok(scores.first().copied().ok_or("no score")?.into())
    }

    fn score_group(&self, task: &T, group: &[Completion]) -> Result<Vec<Reward>, BoxError> {
        let rows: Vec<_> = group.iter().map(|completion| (self.row)(&self.model, task, completion)).collect::<Result<_>>()?;
        Ok(self.model.scores(&rows)?.into_iter().map(Reward::from).collect())
    }
}
