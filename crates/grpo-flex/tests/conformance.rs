//! This backend behaves as the library needs.

use burn::tensor::DType;
use grpo_conformance::{Exclusion, Fate, Suite};

/// What this backend does not pass, and why. A case that fails here although nobody excluded it, or passes although somebody did, fails the test.
const EXCLUSIONS: &[Exclusion] = &[Exclusion {
    case: "burn differentiates a division by a scalar in the tensor's own type",
    dtypes: &[DType::F64],
    fate: Fate::Fails,
    reason: "burn keeps the scalar in 32 bits for the backward pass; the library multiplies with the reciprocal",
}];

#[test]
fn every_operation_the_library_relies_on_behaves_as_it_must() {
    let device = grpo_flex::device().unwrap();
    let report = Suite::without(EXCLUSIONS).run(&device, &[DType::F32, DType::F64]);
    println!("{report}\nconformance flex: {} passed, {} excluded, {} failed", report.passed(), report.skipped(), report.failed());
    assert!(report.is_green(), "{report}");
}

#[test]
fn every_float_type_computes() {
    let capabilities = grpo_flex::probe(&grpo_flex::device().unwrap());
    assert_eq!(capabilities.name, "flex");
    assert_eq!(capabilities.floats, [DType::F64, DType::F32, DType::F16, DType::BF16]);
}
