//! Compares a language model with reference numbers.
//!
//! ```text
//! cargo run --release -p check-model -- --model models/SmolLM2-135M-Instruct.Q4_1.gguf --reference testdata/vectors/smollm2_reference.json
//! cargo run --release -p check-model -- --model testdata/tiny-models/qwen3 --reference testdata/tiny-models/qwen3/reference.json
//! ```
//!
//! One line a prompt, with the largest differences, and a line for each check that fails. A quantity that the reference does not give
//! for a prompt is skipped. With `--lora` the adapter is checked beside the matrices and multiplied into them; with `--export` the model is
//! written as a Hugging Face folder, read back, and checked again. `--device` says what computes. Exit status 1 on any failure, or when nothing was checked.

mod compare;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use burn::tensor::Device;
use clap::Parser;
use compare::{Reference, Tally};
use grpo_core::BoxError;
use grpo_lm::export::{WeightType, read_peft, write_hf_folder};
use grpo_lm::{Checkpoint, Decoder};

/// Compares a language model with reference numbers.
#[derive(Parser, Debug)]
struct Args {
    /// A Hugging Face folder or a GGUF file.
    #[arg(long, value_name = "PATH")]
    model: PathBuf,
    /// Numbers in the form of testdata/vectors/smollm2_reference.json.
    #[arg(long, value_name = "FILE")]
    reference: PathBuf,
    /// A LoRA adapter in PEFT's form that the numbers were made with.
    #[arg(long, value_name = "DIR")]
    lora: Option<PathBuf>,
    /// Also write the model to this folder, read it back, and check that.
    #[arg(long, value_name = "DIR")]
    export: Option<PathBuf>,
    /// What computes: flex, ndarray, tch, tch:cuda:0, wgpu …; each but flex needs the Cargo feature of its name.
    #[arg(long, value_name = "DEVICE", default_value = "flex")]
    device: String,
    /// Only so many prompts, from the first on: on software Vulkan one takes minutes.
    #[arg(long, value_name = "N", value_parser = at_least_1)]
    prompts: Option<usize>,
}

fn at_least_1(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| *n >= 1).ok_or_else(|| "must be a whole number of at least 1".to_owned())
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(tally) => {
            println!("{tally}");
            if tally.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<Tally, BoxError> {
    let reference = Reference::read(&args.reference)?.first(args.prompts);
    let device = grpo_device::open(&args.device)?;
    let mut tally = Tally::default();
    let (mut checkpoint, decoder) = load(&args.model, &device)?;
    let model = match &args.lora {
        None => {
            reference.check("model", &checkpoint, &decoder, &mut tally)?;
            decoder
        }
        Some(folder) => {
            let adapted = decoder.load_lora(&read_peft(folder)?)?;
            reference.check("model with adapter", &checkpoint, &adapted, &mut tally)?;
            let merged = adapted.merged();
            reference.check("model with adapter merged", &checkpoint, &merged, &mut tally)?;
            merged
        }
    };
    if let Some(folder) = &args.export {
        checkpoint.tensors = model.to_host_tensors()?;
        write_hf_folder(folder, &checkpoint, WeightType::F32)?;
        drop((checkpoint, model));
        let (checkpoint, decoder) = load(folder, &device)?;
        reference.check("exported folder", &checkpoint, &decoder, &mut tally)?;
    }
    Ok(tally)
}

/// A model on the device. The checkpoint keeps everything but the weights, which would be there twice.
fn load(path: &Path, device: &Device) -> Result<(Checkpoint, Decoder), BoxError> {
    let mut checkpoint = Checkpoint::open(path)?;
    let decoder = Decoder::from_checkpoint(&checkpoint, device)?;
    checkpoint.tensors.clear();
    Ok((checkpoint, decoder))
}
