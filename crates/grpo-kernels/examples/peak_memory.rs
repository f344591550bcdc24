//! How much memory and time one forward and backward pass over row statistics takes, one process per configuration.
//!
//! Without arguments: a table over rows and vocabulary, in which the excess column is the peak minus what must be there anyway: the weight, the hidden
//! states, and the gradients of both. What is left is one chunk's logits and a second `[V, H]` while a chunk's part is added; it must not grow with rows × V. With arguments: one configuration,
//! `peak_memory <fused|plain> <rows> <vocabulary> <log-probs|entropy|kl> <both|hidden|none>`, where the last says what autodiff tracks.
//! Linux only: the peak is VmHWM of /proc/self/status.

use std::{error::Error, process::Command, time::Instant};

use burn::tensor::{Device, Distribution, Int, Tensor};
use grpo_kernels::{Ask, LinearRows, RowRequest, RowStats, linear_row_stats, plain_row_stats};

const HIDDEN: usize = 576;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.as_slice() {
        [] => table(),
        [path, rows, vocab, ask, tracked] => one(path, rows.parse()?, vocab.parse()?, ask, tracked),
        _ => Err("expected no arguments, or: path rows vocabulary statistic tracked".into()),
    }
}

fn table() -> Result<(), Box<dyn Error>> {
    println!("path rows vocabulary statistic tracked | forward s, backward s | peak MiB, excess MiB, logits of all rows MiB");
    for path in ["fused", "plain"] {
        for vocab in [12_288, 49_152] {
            for rows in [320, 640, 1280, 2560] {
                run(&[path, &rows.to_string(), &vocab.to_string(), "log-probs", "both"])?;
            }
        }
    }
    for (rows, ask, tracked) in [
        (2560, "log-probs", "hidden"),
        (320, "entropy", "hidden"),
        (2560, "entropy", "hidden"),
        (320, "kl", "hidden"),
        (2560, "kl", "hidden"),
    ] {
        run(&["fused", &rows.to_string(), "49152", ask, tracked])?;
    }
    Ok(())
}

fn run(args: &[&str]) -> Result<(), Box<dyn Error>> {
    let status = Command::new(std::env::current_exe()?).args(args).status()?;
    if status.success() { Ok(()) } else { Err(format!("{args:?} failed: {status}").into()) }
}

fn one(path: &str, rows: usize, vocab: usize, ask: &str, tracked: &str) -> Result<(), Box<dyn Error>> {
    let device = Device::flex();
    let autodiff = if tracked == "none" { device.clone() } else { device.clone().autodiff() };
    let normal = |shape: [usize; 2], std: f64, device: &Device| Tensor::<2>::random(shape, Distribution::Normal(0.0, std), device);
    let mut hidden = normal([rows, HIDDEN], 1.0, &autodiff);
    let mut weight = normal([vocab, HIDDEN], 0.05, &autodiff);
    if tracked != "none" {
        hidden = hidden.require_grad();
    }
    if tracked == "both" {
        weight = weight.require_grad();
    }
    let targets: Vec<i64> = (0..rows).map(|row| ((row * 7919) % vocab) as i64).collect();
    let targets = Tensor::<1, Int>::from_data(targets.as_slice(), &device);
    let mut request = RowRequest::new(0.9);
    if ask == "entropy" {
        request = request.with_entropy(Ask::Gradient);
    }
    if ask == "kl" {
        let reference = LinearRows { hidden: normal([rows, HIDDEN], 1.0, &device), weight: weight.clone().inner() };
        request = request.with_kl(reference, Ask::Gradient);
    }
    let before = peak_mib()?;
    let start = Instant::now();
    let compute = if path == "plain" { plain_row_stats } else { linear_row_stats };
    let RowStats { log_probs, entropies, kl } = compute(LinearRows { hidden: hidden.clone(), weight: weight.clone() }, targets, &request)?;
    let mut loss = log_probs.mean();
    for more in [entropies, kl].into_iter().flatten() {
        loss = loss + more.mean();
    }
    let value: f32 = loss.clone().into_scalar();
    let forward = start.elapsed().as_secs_f64();
    let start = Instant::now();
    if tracked != "none" {
        let gradients = loss.backward();
        if hidden.grad(&gradients).is_none() || (tracked == "both") != weight.grad(&gradients).is_some() {
            return Err("a gradient is missing, or one is there that was not asked for".into());
        }
    }
    let backward = start.elapsed().as_secs_f64();
    let mib = |numbers: usize| (numbers * 4) as f64 / f64::from(1 << 20);
    // What is there before already holds the weight and the hidden states.
    let weight_gradients = if tracked == "both" { 1 } else { 0 };
    let needed = mib(weight_gradients * vocab * HIDDEN + rows * HIDDEN);
    let peak = peak_mib()?;
    println!(
        "{path} {rows} {vocab} {ask} {tracked} | {forward:.2}, {backward:.2} | {peak:.0}, {:.0}, {:.0} (loss {value:.4})",
        peak - before - needed,
        mib(rows * vocab)
    );
    Ok(())
}

fn peak_mib() -> Result<f64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM in /proc/self/status")?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib / 1024.0)
}
