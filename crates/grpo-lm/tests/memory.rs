//! Sampling keeps nothing: alone in its process, so that resident memory is its own. Linux only.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use burn::tensor::Device;
use common::*;
use grpo_core::{GroupId, SampleRequest, Sampler as _, SamplingParams};
use grpo_lm::LmSampler;

fn resident_kib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse().unwrap()
}

#[test]
fn a_thousand_samplings_of_a_policy_under_autodiff_keep_no_memory() {
    let device = Device::flex().autodiff();
    let params = SamplingParams { max_tokens: 3, ..SamplingParams::default() };
    let prompt = tokens(1, 4);
    for policy in [decoder(&llama(), &device), with_lora(&llama(), &device)] {
        let sample = |calls: u64| {
            for seed in 0..calls {
                let request = [SampleRequest { group: GroupId(0), prefix: &prompt, samples: 2, seed }];
                LmSampler::new().sample(&policy, &request, &params).unwrap();
            }
        };
        sample(100);
        let warm = resident_kib();
        sample(1000);
        let growth = resident_kib() / warm - 1.0;
        assert!(growth < 0.05, "resident memory grew by {:.1} %", 100.0 * growth);
    }
}
