//! This backend behaves as the library needs.

use burn::tensor::{DType, DeviceKind};
use grpo_conformance::{Exclusion, Suite};

/// What this backend does not pass, and why. A case that fails here although nobody excluded it, or passes although somebody did, fails the test.
const EXCLUSIONS: &[Exclusion] = &[];

#[test]
fn every_operation_the_library_relies_on_behaves_as_it_must() {
    let device = grpo_wgpu::device(DeviceKind::DefaultDevice).unwrap();
    let report = Suite::without(EXCLUSIONS).run(&device, &[DType::F32, DType::F64]);
    println!("{report}\nconformance wgpu: {} passed, {} excluded, {} failed", report.passed(), report.skipped(), report.failed());
    assert!(report.is_green(), "{report}");
}

#[test]
fn the_adapter_says_who_it_is_and_computes_in_32_bits_and_not_in_64() {
    let capabilities = grpo_wgpu::probe(&grpo_wgpu::device(DeviceKind::DefaultDevice).unwrap());
    assert_eq!(capabilities.name, "wgpu");
    assert!(!capabilities.adapter.is_empty());
    assert!(capabilities.floats.contains(&DType::F32) && !capabilities.floats.contains(&DType::F64), "{capabilities:?}");
}

#[test]
fn an_adapter_that_is_not_there_is_an_error() {
    let error = grpo_wgpu::device(DeviceKind::DiscreteGpu(99)).unwrap_err().to_string();
    assert!(error.starts_with("device wgpu cannot be opened: "), "{error}");
}
