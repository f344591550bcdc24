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
        case: "burn's attention hides the keys that a boolean mask names",
        dtypes: &[],
        fate: Fate::Fails,
        reason: "burn-tch hands the mask over the wrong way round; the library composes attention",
    },
    Exclusion {
        case: "burn's attention caps scores softly",
        dtypes: &[],
        fate: Fate::Fails,
        reason: "burn-tch leaves the cap out; the library composes attention",
    },
    Exclusion {
        case: "burn's causal attention ends at the last key",
        dtypes: &[],
        fate: Fate::Fails,
        reason: "LibTorch aligns the first query with the first key; the library composes attention",
    },
];

#[test]
fn every_operation_the_library_relies_on_behaves_as_it_must() {
    let device = grpo_tch::device(grpo_tch::On::Cpu).unwrap();
    let report = Suite::without(EXCLUSIONS).run(&device, &[DType::F32, DType::F64]);
    println!("{report}\nconformance tch: {} passed, {} excluded, {} failed", report.passed(), report.skipped(), report.failed());
    assert!(report.is_green(), "{report}");
}

#[test]
fn every_float_type_computes() {
    let capabilities = grpo_tch::probe(&grpo_tch::device(grpo_tch::On::Cpu).unwrap());
    assert_eq!(capabilities.name, "tch");
    assert_eq!(capabilities.floats, [DType::F64, DType::F32, DType::F16, DType::BF16]);
}

#[test]
fn a_gpu_that_is_not_there_is_an_error_that_says_how_many_there_are() {
    let error = grpo_tch::device(grpo_tch::On::Cuda(99)).unwrap_err().to_string();
    assert!(error.starts_with("device tch:cuda:99 cannot be opened: LibTorch sees "), "{error}");
}
