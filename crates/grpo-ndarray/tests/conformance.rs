//! This backend behaves as the library needs.

use burn::tensor::DType;
use grpo_conformance::{Exclusion, Fate, Suite};

/// What this backend does not pass, and why. A case that fails here although nobody excluded it, or passes although somebody did, fails the test.
const EXCLUSIONS: &[Exclusion] = &[
    Exclusion {
        case: "burn differentiates a division by a scalar in the tensor's own type",
        dtypes: &[DType::F64],
        fate: Fate::Fails,
        reason: "burn keeps the scalar in 32 bits for the backward pass; the library multiplies with the reciprocal",
    },
    Exclusion {
        case: "burn computes the sigmoid in the tensor's own type",
        dtypes: &[DType::F64],
        fate: Fate::Fails,
        reason: "burn computes it in 32 bits; the library composes it",
    },
];

#[test]
fn every_operation_the_library_relies_on_behaves_as_it_must() {
    let device = grpo_ndarray::device().unwrap();
    let report = Suite::without(EXCLUSIONS).run(&device, &[DType::F32, DType::F64]);
    println!("{report}\nconformance ndarray: {} passed, {} excluded, {} failed", report.passed(), report.skipped(), report.failed());
    assert!(report.is_green(), "{report}");
}

#[test]
fn both_wide_float_types_compute_and_no_16_bit_one() {
    let capabilities = grpo_ndarray::probe(&grpo_ndarray::device().unwrap());
    assert_eq!(capabilities.name, "ndarray");
    assert_eq!(capabilities.floats, [DType::F64, DType::F32]);
}
