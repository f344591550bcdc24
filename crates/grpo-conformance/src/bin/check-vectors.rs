//! Checks a folder of golden vectors on the reference and on a device.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use grpo_conformance::{Precision, Report, Vectors, open};

/// Checks golden vectors on the plain reference and on tensors of a device. Exit 1 if anything fails or nothing ran.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The folder that holds the JSON files.
    dir: PathBuf,
    /// What computes: flex, ndarray, tch, tch:cuda:0, wgpu …
    #[arg(long, default_value = "flex")]
    device: String,
    /// The float type of the tensors. `both` leaves out what the device does not compute.
    #[arg(long, value_enum, default_value_t = Dtype::Both)]
    dtype: Dtype,
}

#[derive(Clone, Copy, ValueEnum)]
enum Dtype {
    F32,
    F64,
    Both,
}

fn run(arguments: &Arguments) -> grpo_conformance::Result<Report> {
    let device = open(&arguments.device)?;
    let precisions: &[Precision] = match arguments.dtype {
        Dtype::F32 => &[Precision::F32],
        Dtype::F64 => &[Precision::F64],
        Dtype::Both => &[],
    };
    Vectors::read(&arguments.dir)?.check(&device, precisions)
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(report) => {
            println!("{report}");
            if report.is_green() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
