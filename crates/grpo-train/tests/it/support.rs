//! A policy small enough to train in no time, with everything a trainer may meet: a trained and a frozen parameter, several tokens, an end token.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use burn::Tensor;
use burn::module::{Module, Param};
use burn::tensor::{Device, Int, TensorData};
use grpo_core::{
    BoxError, CausalLogits, Completion, FinishReason, LogProbKind, Policy, Prompt, Reward, RewardFn, Rewards, Sample, SampleRequest,
    Sampler, SamplingParams, Schedule, ScoreRequest, Scores, TokenBatch, score_from_logits, stream,
};
use grpo_train::observe::{GroupRecord, Observer, RunEnd, RunInfo, StepRecord};
use grpo_train::{CheckpointConfig, Outcome, Resume, Shuffled, TrainConfig, Trainer};
use rand::RngExt;
use serde::{Deserialize, Serialize};

/// V. The last token ends a completion.
pub const V: usize = 7;
pub const END: u32 = V as u32 - 1;

/// log-probabilities of the next token given the last one: [V, V], plus a bias that is not trained.
#[derive(Module, Debug)]
pub struct Bigram {
    pub table: Param<Tensor<2>>,
    pub bias: Param<Tensor<1>>,
}

impl Bigram {
    pub fn new(device: &Device) -> Self {
        Self::with_bias(device, 0.1)
    }

    pub fn with_bias(device: &Device, bias: f32) -> Self {
        let values: Vec<f32> = (0..V * V).map(|i| ((i * 37 % 11) as f32 - 5.0) / 10.0).collect();
        let table = Tensor::from_data(TensorData::new(values, [V, V]), device);
        let bias = Tensor::from_data(TensorData::new(vec![bias; V], [V]), device);
        Self { table: Param::from_tensor(table), bias: Param::from_tensor(bias).set_require_grad(false) }
    }

    pub fn values(&self) -> Vec<u32> {
        self.table.val().into_data().iter::<f32>().map(f32::to_bits).collect()
    }
}

pub fn policy() -> Bigram {
    Bigram::new(&Device::flex().autodiff())
}

impl CausalLogits for Bigram {
    fn logits(&self, tokens: Tensor<2, Int>) -> Result<Tensor<3>, BoxError> {
        let [rows, width] = tokens.dims();
        let logits = self.table.val().select(0, tokens.reshape([rows * width])) + self.bias.val().unsqueeze();
        Ok(logits.reshape([rows, width, V]))
    }
    fn device(&self) -> Device {
        self.table.val().device()
    }
}

impl Policy for Bigram {
    fn score(&self, batch: &TokenBatch, ask: &ScoreRequest<'_>) -> Result<Scores, BoxError> {
        score_from_logits(self, batch, ask)
    }
}

/// Draws on the host.
#[derive(Default)]
pub struct HostSampler;

impl Sampler<Bigram> for HostSampler {
    fn sample(&mut self, policy: &Bigram, requests: &[SampleRequest<'_>], params: &SamplingParams) -> Result<Vec<Vec<Sample>>, BoxError> {
        let table: Vec<f64> = policy.table.val().into_data().iter::<f64>().collect();
        let one = |request: &SampleRequest<'_>, k: usize| {
            let mut rng = stream(request.seed, k);
            let (mut last, mut tokens, mut log_probs) = (request.prefix[request.prefix.len() - 1] as usize, vec![], vec![]);
            while tokens.len() < params.max_tokens && tokens.last() != Some(&END) {
                let temperature = if params.temperature == 0.0 { 1.0 } else { params.temperature };
                let weights: Vec<f64> = table[last * V..(last + 1) * V].iter().map(|z| (z / temperature).exp()).collect();
                let total: f64 = weights.iter().sum();
                let next = if params.temperature == 0.0 {
                    (0..V).max_by(|&a, &b| weights[a].total_cmp(&weights[b])).unwrap()
                } else {
                    let mut u = rng.random::<f64>() * total;
                    (0..V - 1)
                        .find(|&v| {
                            u -= weights[v];
                            u < 0.0
                        })
                        .unwrap_or(V - 1)
                };
                tokens.push(next as u32);
                log_probs.push((weights[next] / total).ln() as f32);
                last = next;
            }
            let finish = if tokens.last() == Some(&END) { FinishReason::EndToken } else { FinishReason::Length };
            Sample {
                tokens,
                log_probs,
                log_prob_kind: LogProbKind::Tempered,
                temperature: params.temperature,
                finish,
                text: String::new(),
                policy_version: None,
            }
        };
        Ok(requests.iter().map(|r| (0..r.samples).map(|k| one(r, k)).collect()).collect())
    }
}

/// After `first`, the tokens first + 1, first + 2, then the end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Count {
    pub first: u32,
}

pub struct Places;

impl RewardFn<Count> for Places {
    fn name(&self) -> &str {
        "places"
    }
    fn score(&self, task: &Count, completion: &Completion) -> Result<Reward, BoxError> {
        let wanted = [(task.first + 1) % 6, (task.first + 2) % 6, END];
        Ok((wanted.iter().zip(&completion.tokens).filter(|(a, b)| a == b).count() as f64 / 3.0).into())
    }
}

pub fn rewards() -> Rewards<Count> {
    Rewards::new().with(1.0, Places)
}

/// Five prompts: an epoch of them ends within a rollout of three.
pub fn prompts() -> Shuffled<Count> {
    Shuffled::new((0..5).map(|first| Prompt::new(vec![first], Count { first })).collect(), 3).unwrap()
}

pub fn config(folder: Option<&Path>) -> TrainConfig {
    TrainConfig {
        steps: 12,
        prompts: 3,
        group_size: 4,
        micro_tokens: 24,
        sampling: SamplingParams { max_tokens: 3, end_tokens: vec![END], ..SamplingParams::default() },
        learning_rate: Schedule::Linear { peak: 0.1, end: 0.01, warmup_steps: 2, total_steps: 12 },
        checkpoints: folder.map(|folder| CheckpointConfig { every: 1, keep_last: 100, ..CheckpointConfig::new(folder) }),
        ..TrainConfig::default()
    }
}

pub fn trainer(config: TrainConfig) -> Trainer<Count, Bigram> {
    Trainer::new(config, HostSampler, rewards(), prompts())
}

/// What a run said: everything but seconds, by step. A resumed run drops what comes again, as a file would.
#[derive(Clone, Default)]
pub struct Diary(pub Arc<Mutex<Pages>>);

#[derive(Default, Debug, Clone, PartialEq)]
pub struct Pages {
    pub steps: BTreeMap<u64, Vec<(String, u64)>>,
    pub groups: BTreeMap<u64, String>,
    pub evaluations: BTreeMap<u64, Vec<(String, u64)>>,
    pub starts: Vec<u64>,
    pub end: Option<RunEnd>,
}

fn bits(metrics: &grpo_core::Metrics) -> Vec<(String, u64)> {
    metrics.iter().map(|(name, value)| (name.to_owned(), value.to_bits())).collect()
}

impl Diary {
    pub fn pages(&self) -> Pages {
        self.0.lock().unwrap().clone()
    }
    /// Without what differs when a run was interrupted.
    pub fn told(&self) -> Pages {
        Pages { starts: vec![], ..self.pages() }
    }
    pub fn metric(&self, step: u64, name: &str) -> Option<f64> {
        self.pages().steps.get(&step)?.iter().find(|(n, _)| n == name).map(|(_, bits)| f64::from_bits(*bits))
    }
}

impl Observer for Diary {
    fn name(&self) -> &str {
        "diary"
    }
    fn on_start(&mut self, run: &RunInfo) -> grpo_train::Result<()> {
        self.0.lock().unwrap().starts.push(run.first_step);
        Ok(())
    }
    fn on_resume(&mut self, step: u64) -> grpo_train::Result<()> {
        let mut pages = self.0.lock().unwrap();
        pages.steps.retain(|&s, _| s < step);
        pages.groups.retain(|&s, _| s < step);
        pages.evaluations.retain(|&s, _| s <= step);
        Ok(())
    }
    fn on_groups(&mut self, step: u64, groups: &[GroupRecord<'_>]) -> grpo_train::Result<()> {
        self.0.lock().unwrap().groups.insert(step, format!("{groups:?}"));
        Ok(())
    }
    fn on_step(&mut self, record: &StepRecord) -> grpo_train::Result<()> {
        let again = self.0.lock().unwrap().steps.insert(record.step, bits(&record.metrics));
        assert!(again.is_none(), "step {} was told twice", record.step);
        Ok(())
    }
    fn on_evaluation(&mut self, step: u64, metrics: &grpo_core::Metrics) -> grpo_train::Result<()> {
        self.0.lock().unwrap().evaluations.insert(step, bits(metrics));
        Ok(())
    }
    fn on_end(&mut self, _step: u64, end: RunEnd) -> grpo_train::Result<()> {
        self.0.lock().unwrap().end = Some(end);
        Ok(())
    }
}

/// Asks for a stop after a step.
pub struct StopAt(pub u64, pub grpo_train::StopFlag);

impl Observer for StopAt {
    fn name(&self) -> &str {
        "stop"
    }
    fn on_step(&mut self, record: &StepRecord) -> grpo_train::Result<()> {
        if record.step + 1 == self.0 {
            self.1.stop();
        }
        Ok(())
    }
}

/// Runs to the end, or until it is asked to stop after a step.
pub fn run(config: TrainConfig, resume: Resume, diary: &Diary, policy: Bigram, stop: Option<u64>) -> Outcome<Bigram> {
    let flag = grpo_train::StopFlag::new();
    let mut trainer = trainer(config).with_observer(diary.clone()).with_resume(resume).with_stop(flag.clone());
    if let Some(step) = stop {
        trainer = trainer.with_observer(StopAt(step, flag));
    }
    trainer.with_held_out(held_out()).run(policy)
}

pub fn held_out() -> Vec<Prompt<Count>> {
    (0..6).map(|first| Prompt::new(vec![first], Count { first })).collect()
}
