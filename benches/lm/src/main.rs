//! What a GRPO step of a language model of 135 M parameters costs: seconds on the clock, CPU seconds, peak memory. On any backend that is compiled in.
//!
//! `cargo run --release -p grpo-bench-lm` runs every case, each in a process of its own so that peaks do not mix. Weights are random and of
//! SmolLM2-135M's sizes, so nothing is downloaded; `--model FILE` takes real ones. Per case: one warm-up step, then `--steps` measured ones;
//! printed is the median, and the lowest in brackets (the figure that other programs on the machine disturb least).

mod process;

use std::process::Command;

use burn::optim::{AdamWConfig, ModuleOptimizer};
use burn::tensor::{Tensor, TensorData};
use clap::{Parser, ValueEnum};
use grpo_core::{Batch, BoxError, GroupId, GrpoConfig, Row, Sample, SampleRequest, Sampler as _, SamplingParams, StepStats, gradients};
use grpo_lm::config::ModelConfig;
use grpo_lm::{Checkpoint, Decoder, LmSampler, LoraConfig};
use process::{Moment, Spent, memory};

#[derive(Parser)]
#[command(about = "Times sampling and updates of a language model of 135 M parameters")]
struct Args {
    /// One case, in this process. Without it: all, each in its own.
    #[arg(long)]
    case: Option<Case>,
    /// A GGUF file or a Hugging Face folder instead of random weights.
    #[arg(long)]
    model: Option<std::path::PathBuf>,
    /// Measured steps.
    #[arg(long, default_value_t = 3)]
    steps: usize,
    /// What computes: flex, ndarray, tch …; each but flex needs the Cargo feature of its name.
    #[arg(long, default_value = "flex")]
    device: String,
    /// Do not update: sample only.
    #[arg(long)]
    generation_only: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Case {
    /// 8 prompts of 25 tokens, 8 completions of 5 tokens each, LoRA of rank 16.
    ShortLora,
    /// The same, all weights.
    ShortFull,
    /// 2 prompts of 45 tokens, 8 completions of 64 tokens each, LoRA of rank 16.
    LongLora,
    /// The same, all weights.
    LongFull,
    /// A step of the example digit-sum: 96 prompts of 8 tokens, 8 completions of 4 tokens each, a model of two blocks, all weights.
    DigitSum,
    /// No model: the product of two matrices of 1024 by 1024, ten times.
    Product,
}

impl Case {
    const ALL: [(Self, &str); 6] = [
        (Self::ShortLora, "short-lora"),
        (Self::ShortFull, "short-full"),
        (Self::LongLora, "long-lora"),
        (Self::LongFull, "long-full"),
        (Self::DigitSum, "digit-sum"),
        (Self::Product, "product"),
    ];

    /// Prompts, tokens of each, completions of each, tokens of each.
    fn shape(self) -> [usize; 4] {
        match self {
            Self::ShortLora | Self::ShortFull => [8, 25, 8, 5],
            Self::LongLora | Self::LongFull => [2, 45, 8, 64],
            Self::DigitSum => [96, 8, 8, 4],
            Self::Product => [0; 4],
        }
    }

    fn is_lora(self) -> bool {
        matches!(self, Self::ShortLora | Self::LongLora)
    }
}

fn main() -> Result<(), BoxError> {
    let args = Args::parse();
    match args.case {
        Some(case) => run(case, &args),
        None => {
            println!("{HEADER}");
            Case::ALL.into_iter().try_for_each(|(_, name)| {
                let status = Command::new(std::env::current_exe()?).args(std::env::args().skip(1)).args(["--case", name]).status()?;
                if status.success() { Ok(()) } else { Err(format!("{name} failed: {status}").into()) }
            })
        }
    }
}

const HEADER: &str = "case        part        wall s          CPU s           | resident MiB after a step each | peak MiB";

fn run(case: Case, args: &Args) -> Result<(), BoxError> {
    if case == Case::Product {
        return product(args);
    }
    let mut policy = load(case, args)?;
    let mut optimizer = AdamWConfig::new().with_epsilon(1e-8).with_weight_decay(0.0).init();
    let [p, tp, g, tc] = case.shape();
    let vocabulary = policy.config().vocab_size;
    let prompts: Vec<Vec<u32>> =
        (0..p).map(|i| (0..tp).map(|t| ((i * 977 + t * t * 31 + t * 7 + 11) % vocabulary) as u32).collect()).collect();
    let params = SamplingParams { max_tokens: tc, ..SamplingParams::default() };

    let (mut sampling, mut updates, mut resident) = (Vec::new(), Vec::new(), Vec::new());
    for step in 0..=args.steps {
        let start = Moment::now()?;
        let samples = sample(&policy, &prompts, g, step as u64, &params)?;
        let sampled = start.spent()?;
        let start = Moment::now()?;
        if !args.generation_only {
            policy = update(policy, &mut optimizer, &prompts, &samples)?;
        }
        let updated = start.spent()?;
        // The first step pays for what is made once: thread pools, optimiser state, pages.
        if step > 0 {
            sampling.push(sampled);
            updates.push(updated);
            resident.push(format!("{:.0}", memory("VmRSS")?));
        }
    }
    let name = Case::ALL.into_iter().find(|(c, _)| *c == case).map_or("", |(_, name)| name);
    let (resident, peak) = (resident.join(" "), memory("VmHWM")?);
    println!("{name:<11} generation  {}", line(&sampling));
    println!("{name:<11} update      {} | {resident} | {peak:.0}", line(&updates));
    Ok(())
}

/// Tens of products, each ten read back once: a device may compute behind the program's back.
fn product(args: &Args) -> Result<(), BoxError> {
    let device = grpo_device::open(&args.device)?;
    let numbers = |seed: usize| (0..1024 * 1024).map(|i| ((i * 7 + seed) % 19) as f32 * 0.05 - 0.45).collect::<Vec<_>>();
    let matrix = |seed| Tensor::<2>::from_data(TensorData::new(numbers(seed), [1024, 1024]), &device);
    let (left, right) = (matrix(1), matrix(2));
    let mut spent = Vec::new();
    for step in 0..=args.steps {
        let start = Moment::now()?;
        for _ in 0..9 {
            drop(left.clone().matmul(right.clone()));
        }
        grpo_core::to_host(left.clone().matmul(right.clone()).slice([0..1, 0..1]), "product")?;
        if step > 0 {
            spent.push(start.spent()?);
        }
    }
    println!("product     ten         {} | {:.0}", line(&spent), memory("VmHWM")?);
    Ok(())
}

fn load(case: Case, args: &Args) -> Result<Decoder, BoxError> {
    let device = grpo_device::open(&args.device)?.autodiff();
    let decoder = match &args.model {
        Some(path) => Decoder::from_checkpoint(&Checkpoint::open(path)?, &device)?,
        None if case == Case::DigitSum => Decoder::random(&digit_sum(), 1, &device)?,
        None => Decoder::random(&smollm2_135m(), 1, &device)?,
    };
    Ok(if case.is_lora() { decoder.with_lora(&LoraConfig::default())? } else { decoder })
}

fn digit_sum() -> ModelConfig {
    ModelConfig { vocab_size: 13, max_position_embeddings: 12, rope_theta: 100.0, tie_word_embeddings: false, ..ModelConfig::default() }
}

fn smollm2_135m() -> ModelConfig {
    ModelConfig {
        vocab_size: 49_152,
        hidden_size: 576,
        intermediate_size: 1536,
        num_hidden_layers: 30,
        num_attention_heads: 9,
        num_key_value_heads: 3,
        head_dim: 64,
        max_position_embeddings: 8192,
        rope_theta: 100_000.0,
        ..ModelConfig::default()
    }
}

fn sample(policy: &Decoder, prompts: &[Vec<u32>], g: usize, step: u64, params: &SamplingParams) -> Result<Vec<Vec<Sample>>, BoxError> {
    let requests: Vec<SampleRequest<'_>> =
        (0..).zip(prompts).map(|(i, prefix)| SampleRequest { group: GroupId(i), prefix, samples: g, seed: step * 1000 + i }).collect();
    LmSampler::new().sample(policy, &requests, params)
}

fn update(policy: Decoder, optimizer: &mut ModuleOptimizer, prompts: &[Vec<u32>], samples: &[Vec<Sample>]) -> Result<Decoder, BoxError> {
    let prompts: Vec<&[u32]> = prompts.iter().map(Vec::as_slice).collect();
    let rows: Vec<Row<'_>> = samples
        .iter()
        .enumerate()
        .flat_map(|(prompt, group)| group.iter().enumerate().map(move |(member, sample)| (prompt, member, sample)))
        .map(|(prompt, member, sample)| Row {
            prompt,
            group: GroupId(prompt as u64),
            tokens: &sample.tokens,
            mask: vec![true; sample.tokens.len()],
            advantages: vec![if member % 2 == 0 { 1.0 } else { -1.0 }; sample.tokens.len()],
        })
        .collect();
    let batches = [Batch::from_rows(&prompts, &rows, 1.0, &policy.device())?];
    let update = gradients(&policy, &batches, &StepStats::of(&batches), &GrpoConfig::default())?;
    Ok(update.apply(optimizer, 1e-5, policy))
}

/// The median and the lowest, of the clock and of the CPU.
fn line(all: &[Spent]) -> String {
    let of = |value: fn(&Spent) -> f64| {
        let mut values: Vec<f64> = all.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        let at = |i: usize| values.get(i).copied().unwrap_or(f64::NAN);
        format!("{:>6.2} ({:>6.2})", at(values.len() / 2), at(0))
    };
    format!("{} {}", of(|s| s.wall), of(|s| s.cpu))
}
