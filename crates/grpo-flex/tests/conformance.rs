//! This backend behaves as the library needs.

use burn::tensor::DType;

#[test]
fn every_operation_the_library_relies_on_behaves_as_it_must() {
    let report = grpo_conformance::suite(&grpo_flex::device().unwrap());
    assert_eq!(report.failed(), 0, "{report}");
    assert_eq!(report.skipped(), 0, "{report}");
    assert!(report.passed() > 0);
}

#[test]
fn both_wide_float_types_compute() {
    let capabilities = grpo_flex::probe(&grpo_flex::device().unwrap());
    assert_eq!(capabilities.name, "flex");
    assert_eq!(capabilities.floats[..2], [DType::F64, DType::F32]);
}
