//! The trainer: what a run is made of.

use burn::module::Module;
use grpo_core::{Completion, Policy, Prompt, Rewards, Sampler, TokenId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::config::TrainConfig;
use crate::episode::Environment;
use crate::error::{Error, Result};
use crate::evaluate::AnswerOf;
use crate::observe::{Observer, RunEnd};
use crate::optimizer::Optimizer;
use crate::prompts::PromptSource;
use crate::run::Run;
use crate::stop::StopFlag;

/// Whether a run goes on from a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Resume {
    /// It begins. A folder that has checkpoints already is an error: they would be overwritten.
    #[default]
    Fresh,
    /// It goes on from the newest checkpoint that is whole. Without one it is an error.
    Newest,
    /// It goes on if there is a checkpoint, and begins if there is none, with a warning. Where all are damaged it is an error.
    NewestIfAny,
}

/// How a run ended, and the policy: it comes back however that was, so that an error loses nothing.
#[derive(Debug)]
pub struct Outcome<P> {
    /// The policy as it is now.
    pub policy: P,
    /// How the run ended.
    pub end: Result<RunEnd>,
}

/// The task of a prompt, as a trainer takes it: it is saved with rollouts that are still being trained on.
pub trait Task: Clone + Send + Sync + Serialize + DeserializeOwned {}
impl<T: Clone + Send + Sync + Serialize + DeserializeOwned> Task for T {}

/// Trains a policy: [`grpo_core`]'s loop, with checkpoints, evaluation, and observers.
///
/// `T` is the task of the prompts and `P` the policy: any [`Policy`] that is a burn module, on an autodiff device. Parameters that do not
/// require gradients are taken to be the same whenever the run goes on; they are not saved, but checked.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use grpo_core::testing::Table;
/// use grpo_core::{Completion, FinishReason, LogProbKind, Prompt, Rewards, Sample, SampleRequest, SamplingParams, Sampler, from_fn, stream};
/// use grpo_train::{Drawn, Outcome, TrainConfig, Trainer};
/// use rand::RngExt;
/// struct Draw; // a sampler for a table of logits: one token each
/// impl Sampler<Table> for Draw {
///     fn sample(&mut self, policy: &Table, asked: &[SampleRequest<'_>], params: &SamplingParams) -> Result<Vec<Vec<Sample>>, grpo_core::BoxError> {
///         let z: Vec<f32> = policy.logits.val().into_data().iter::<f32>().collect();
///         let total: f32 = z.iter().map(|z| z.exp()).sum();
///         let one = |seed, k| {
///             let (mut u, mut token) = (stream(seed, k).random::<f32>() * total, 0);
///             while u > z[token].exp() && token + 1 < z.len() { u -= z[token].exp(); token += 1; }
///             Sample { tokens: vec![token as u32], log_probs: vec![(z[token].exp() / total).ln()], log_prob_kind: LogProbKind::Tempered,
///                 temperature: params.temperature, finish: FinishReason::Length, text: String::new(), policy_version: None }
///         };
///         Ok(asked.iter().map(|r| (0..r.samples).map(|k| one(r.seed, k)).collect()).collect())
///     }
/// }
/// let policy = Table::new(4, &burn::tensor::Device::flex().autodiff());
/// let third = from_fn("third", |_: &(), c: &Completion| Ok(f64::from(u8::from(c.tokens[0] == 2)).into()));
/// let config = TrainConfig::from_toml("steps = 30\n[learning_rate.constant]\npeak = 0.2")?;
/// let prompts = Drawn::new(|_, count| vec![Prompt::new(vec![0], ()); count]);
/// let mut trainer = Trainer::new(config, Draw, Rewards::new().with(1.0, third), prompts);
/// let Outcome { policy, end } = trainer.run(policy);
/// end?;
/// let logits: Vec<f32> = policy.logits.val().into_data().iter::<f32>().collect();
/// assert!(logits[2] > logits[0] + 2.0, "{logits:?}"); // the rewarded token is preferred by now
/// # Ok(()) }
/// ```
pub struct Trainer<T, P> {
    pub(crate) config: TrainConfig,
    pub(crate) sampler: Box<dyn Sampler<P>>,
    pub(crate) rewards: Rewards<T>,
    pub(crate) prompts: Box<dyn PromptSource<T>>,
    pub(crate) optimizer: Optimizer,
    pub(crate) environment: Option<Box<dyn Environment<T>>>,
    pub(crate) held_out: Vec<Prompt<T>>,
    pub(crate) answer: Option<AnswerOf<T>>,
    pub(crate) decode: Option<Decode>,
    pub(crate) observers: Vec<Box<dyn Observer>>,
    pub(crate) stop: StopFlag,
    pub(crate) resume: Resume,
    pub(crate) settings: Map<String, Value>,
}

/// Tokens to text, for those who watch.
pub(crate) type Decode = Box<dyn Fn(&[TokenId]) -> String + Send>;

impl<T: Task, P: Policy + Module> Trainer<T, P> {
    /// What a run cannot do without. Everything else has a default.
    pub fn new(
        config: TrainConfig,
        sampler: impl Sampler<P> + 'static,
        rewards: Rewards<T>,
        prompts: impl PromptSource<T> + 'static,
    ) -> Self {
        Self {
            optimizer: config.optimizer.init(),
            config,
            sampler: Box::new(sampler),
            rewards,
            prompts: Box::new(prompts),
            environment: None,
            held_out: Vec::new(),
            answer: None,
            decode: None,
            observers: Vec::new(),
            stop: StopFlag::new(),
            resume: Resume::default(),
            settings: Map::new(),
        }
    }

    /// Another optimiser than the configuration's.
    pub fn with_optimizer(mut self, optimizer: Optimizer) -> Self {
        self.optimizer = optimizer;
        self
    }

    /// Completions become episodes: this environment answers them.
    pub fn with_environment(mut self, environment: impl Environment<T> + 'static) -> Self {
        self.environment = Some(Box::new(environment));
        self
    }

    /// Prompts that are not trained on, answered before, during and after the run: see [`EvaluationConfig`](crate::EvaluationConfig).
    pub fn with_held_out(mut self, prompts: Vec<Prompt<T>>) -> Self {
        self.held_out = prompts;
        self
    }

    /// What a completion answers, for the majority vote. Without it, its whole text.
    pub fn with_answers(mut self, answer: impl Fn(&T, &Completion) -> Option<String> + Send + 'static) -> Self {
        self.answer = Some(Box::new(answer));
        self
    }

    /// How tokens become text for observers: prompts, and completions whose sampler gives no text.
    pub fn with_decoder(mut self, decode: impl Fn(&[TokenId]) -> String + Send + 'static) -> Self {
        self.decode = Some(Box::new(decode));
        self
    }

    /// Adds someone who watches.
    pub fn with_observer(mut self, observer: impl Observer + 'static) -> Self {
        self.observers.push(Box::new(observer));
        self
    }

    /// The flag that asks the run to finish its step, save and end.
    pub fn with_stop(mut self, stop: StopFlag) -> Self {
        self.stop = stop;
        self
    }

    /// Whether the run goes on from a checkpoint. `policy` of [`run`](Self::run) is then any policy of the same shape, such as a new one.
    pub fn with_resume(mut self, resume: Resume) -> Self {
        self.resume = resume;
        self
    }

    /// A setting that the configuration does not know, such as how prompts are written or what a reward looks at. It is shown with the
    /// configuration, and a run that goes on must have it as it was.
    pub fn with_setting(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.settings.insert(name.into(), value.into());
        self
    }

    /// The configuration.
    pub fn config(&self) -> &TrainConfig {
        &self.config
    }

    /// Trains the policy until the last step, or until something ends it before.
    ///
    /// The end is an error, and the policy what it was after the last whole step, if: the configuration contradicts itself; user code (a
    /// reward, the sampler, the policy, a source, an observer) fails; too many gradients in a row are not finite; a checkpoint cannot be
    /// read or written. What fails within a step is as if that step had not begun: a checkpoint of the steps before it is saved, and the run
    /// can go on from there.
    pub fn run(&mut self, policy: P) -> Outcome<P> {
        let (mut run, mut policy) = match Run::start(self, &policy) {
            Ok((run, Some(loaded))) => (run, loaded),
            Ok((run, None)) => (run, policy),
            Err(error) => return Outcome { policy, end: Err(error) },
        };
        if let Some(end) = run.nothing_left() {
            return Outcome { policy, end: Ok(end) };
        }
        let end = loop {
            match run.settle(&policy) {
                Ok(None) => {}
                Ok(Some(end)) => break Ok(end),
                Err(error) => {
                    run.rescue(&policy);
                    break Err(error);
                }
            }
            match run.update(&policy) {
                Ok(Some(update)) => {
                    // The one thing that takes the policy cannot fail.
                    policy = run.apply(update, policy);
                    match run.after(&policy) {
                        Ok(None) => {}
                        Ok(Some(end)) => break Ok(end),
                        Err(error) => {
                            run.rescue(&policy);
                            break Err(error);
                        }
                    }
                }
                Ok(None) => break run.finish(&policy),
                Err(error) => {
                    run.rescue(&policy);
                    break Err(error);
                }
            }
        };
        Outcome { policy, end }
    }
}

impl<T, P> std::fmt::Debug for Trainer<T, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trainer").field("config", &self.config).field("rewards", &"…").finish_non_exhaustive()
    }
}

impl<T, P> Trainer<T, P> {
    /// All that a run which goes on must have as it was: the configuration, names and weights of the rewards, and what was told besides.
    ///
    /// # Errors
    /// A setting told besides that has the name of another one.
    pub(crate) fn settings(&self) -> Result<Value> {
        let mut settings = serde_json::to_value(&self.config).map_err(|e| Error::invalid("configuration", e.to_string()))?;
        if let Value::Object(settings) = &mut settings {
            let rewards: Vec<_> = self.rewards.names().into_iter().zip(self.rewards.weights()).collect();
            settings.insert("rewards".to_owned(), json!(rewards));
            if let Some(name) = self.settings.keys().find(|name| settings.contains_key(*name)) {
                return Err(Error::invalid("setting", format!("`{name}` is the name of another one")));
            }
            settings.extend(self.settings.clone());
        }
        Ok(settings)
    }

    /// An observer's error, with its name.
    pub(crate) fn observed(&mut self, mut tell: impl FnMut(&mut dyn Observer) -> Result<()>) -> Result<()> {
        self.observers.iter_mut().try_for_each(|observer| {
            tell(observer.as_mut()).map_err(|error| Error::Observer { name: observer.name().to_owned(), source: error.into() })
        })
    }
}
