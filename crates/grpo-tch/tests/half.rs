//! The same in 16 bits, in a process of its own: what a device computes by default is settled once in a process.

use burn::tensor::DType;
use grpo_conformance::{Exclusion, Suite};

/// What this backend does not pass in 16 bits, and why.
const EXCLUSIONS: &[Exclusion] = &[];

#[test]
fn every_operation_of_a_16_bit_model_behaves_as_it_must() {
    let device = grpo_tch::device(grpo_tch::On::Cpu).unwrap();
    let report = Suite::without(EXCLUSIONS).run(&device, &[DType::F16, DType::BF16]);
    println!("{report}\nconformance tch, 16 bits: {} passed, {} excluded, {} failed", report.passed(), report.skipped(), report.failed());
    assert!(report.is_green(), "{report}");
}
