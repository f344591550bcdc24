//! Both paths against plain f64 loops, against dense tensors under autodiff, and against central differences.
//!
//! Built without a backend feature, `linear_row_stats` takes the plain path here, and everything must hold all the same.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::num::NonZeroUsize;

use burn::tensor::{DType, Device, FloatDType, Int, Tensor, TensorData};
use grpo_kernels::{Ask, KernelError, LinearRows, RowRequest, RowStats, linear_row_stats, plain_row_stats};
use proptest::prelude::*;

type Path = fn(LinearRows, Tensor<1, Int>, &RowRequest) -> Result<RowStats, KernelError>;
const PATHS: [(&str, Path); 2] = [("linear", linear_row_stats), ("plain", plain_row_stats)];

/// Numbers a test is made of, on the host in f64.
#[derive(Debug, Clone)]
struct Case {
    rows: usize,
    width: usize,
    reference_width: usize,
    chunk: usize,
    temperature: f64,
    hidden: Vec<f64>,
    weight: Vec<f64>,
    reference_hidden: Vec<f64>,
    reference_weight: Vec<f64>,
    targets: Vec<usize>,
    /// Gradients of a loss with respect to log-prob, entropy and KL of each row.
    upstream: [Vec<f64>; 3],
}

impl Case {
    fn new(rows: usize, width: usize, vocab: usize, chunk: usize, temperature: f64, seed: u64) -> Self {
        let mut state = seed.wrapping_mul(2).wrapping_add(1);
        let mut uniform = |n: usize, bound: f64| -> Vec<f64> {
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                ((state >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0) * bound
            };
            // Rounded to f32, so that both precisions start from the same numbers.
            (0..n).map(|_| f64::from(next() as f32)).collect()
        };
        let reference_width = width + 2;
        let hidden = uniform(rows * width, 1.5);
        let weight = uniform(vocab * width, 1.0);
        let reference_hidden = uniform(rows * reference_width, 1.5);
        let reference_weight = uniform(vocab * reference_width, 1.0);
        let upstream = [uniform(rows, 1.0), uniform(rows, 1.0), uniform(rows, 1.0)];
        // Both edges of the vocabulary, and repeats of them.
        let drawn = uniform(rows, 1.0);
        let target = |row: usize| match row % 3 {
            0 => 0,
            1 => vocab - 1,
            _ => (((drawn[row] + 1.0) / 2.0 * vocab as f64) as usize).min(vocab - 1),
        };
        let targets = (0..rows).map(target).collect();
        Self { rows, width, reference_width, chunk, temperature, hidden, weight, reference_hidden, reference_weight, targets, upstream }
    }

    fn tensor(&self, values: &[f64], width: usize, device: &Device, dtype: DType) -> Tensor<2> {
        let data = TensorData::new(values.to_vec(), [values.len() / width, width]);
        Tensor::from_data(data, (device, dtype))
    }

    fn policy(&self, device: &Device, dtype: DType) -> LinearRows {
        LinearRows {
            hidden: self.tensor(&self.hidden, self.width, device, dtype),
            weight: self.tensor(&self.weight, self.width, device, dtype),
        }
    }

    fn reference(&self, device: &Device, dtype: DType) -> LinearRows {
        LinearRows {
            hidden: self.tensor(&self.reference_hidden, self.reference_width, device, dtype),
            weight: self.tensor(&self.reference_weight, self.reference_width, device, dtype),
        }
    }

    fn targets(&self, device: &Device) -> Tensor<1, Int> {
        let targets: Vec<i64> = self.targets.iter().map(|&target| target as i64).collect();
        Tensor::from_data(targets.as_slice(), device)
    }

    fn request(&self, dtype: DType, entropy: Ask, kl: Ask) -> RowRequest {
        RowRequest::new(self.temperature)
            .with_chunk_rows(NonZeroUsize::new(self.chunk).unwrap())
            .with_entropy(entropy)
            .with_kl(self.reference(&Device::flex(), dtype), kl)
    }

    fn upstream(&self, index: usize, device: &Device, dtype: DType) -> Tensor<1> {
        Tensor::from_data(TensorData::new(self.upstream[index].clone(), [self.rows]), (device, dtype))
    }

    /// Σ over rows and statistics of upstream times statistic, of those that are differentiable.
    fn loss(&self, stats: RowStats, device: &Device) -> Tensor<1> {
        let dtype = stats.log_probs.dtype();
        let mut loss = (stats.log_probs * self.upstream(0, device, dtype)).sum();
        for (index, statistic) in [(1, stats.entropies), (2, stats.kl)] {
            if let Some(statistic) = statistic {
                loss = loss + (statistic * self.upstream(index, device, dtype)).sum();
            }
        }
        loss
    }
}

fn log_softmax(hidden: &[f64], weight: &[f64], width: usize, temperature: f64) -> Vec<f64> {
    let dot = |row: &[f64]| row.iter().zip(hidden).map(|(w, h)| w * h).sum::<f64>() / temperature;
    let logits: Vec<f64> = weight.chunks(width).map(dot).collect();
    let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let log_sum = logits.iter().map(|z| (z - max).exp()).sum::<f64>().ln() + max;
    logits.iter().map(|z| z - log_sum).collect()
}

/// The three statistics by loops over f64, no tensors.
fn by_hand(case: &Case) -> [Vec<f64>; 3] {
    let mut stats = [Vec::new(), Vec::new(), Vec::new()];
    for row in 0..case.rows {
        let hidden = &case.hidden[row * case.width..][..case.width];
        let log_p = log_softmax(hidden, &case.weight, case.width, case.temperature);
        let hidden = &case.reference_hidden[row * case.reference_width..][..case.reference_width];
        let log_q = log_softmax(hidden, &case.reference_weight, case.reference_width, case.temperature);
        stats[0].push(log_p[case.targets[row]]);
        stats[1].push(-log_p.iter().map(|l| l.exp() * l).sum::<f64>());
        stats[2].push(log_p.iter().zip(&log_q).map(|(p, q)| p.exp() * (p - q)).sum::<f64>());
    }
    stats
}

fn loss_by_hand(case: &Case) -> f64 {
    let weighted = |(values, upstream): (&Vec<f64>, &Vec<f64>)| -> f64 { values.iter().zip(upstream).map(|(v, u)| v * u).sum() };
    by_hand(case).iter().zip(&case.upstream).map(weighted).sum()
}

fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.cast(FloatDType::F64).into_data().try_to_vec::<f64>().unwrap()
}

fn worst(got: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(got.len(), expected.len());
    let error = |(g, e): (&f64, &f64)| (g - e).abs() / e.abs().max(1.0);
    // Not f64::max, which would drop a NaN.
    got.iter().zip(expected).map(error).fold(0.0, |worst, error| if error <= worst { worst } else { error })
}

fn close(what: &str, got: &[f64], expected: &[f64], tolerance: f64) {
    let worst = worst(got, expected);
    assert!(worst <= tolerance, "{what}: off by {worst:e}, allowed {tolerance:e}");
}

/// Gradients of hidden states and weight for the case's loss.
fn gradients(case: &Case, path: Path, dtype: DType, entropy: Ask, kl: Ask) -> [Vec<f64>; 2] {
    let device = Device::flex().autodiff();
    let LinearRows { hidden, weight } = case.policy(&device, dtype);
    let (hidden, weight) = (hidden.require_grad(), weight.require_grad());
    let rows = LinearRows { hidden: hidden.clone(), weight: weight.clone() };
    let stats = path(rows, case.targets(&device), &case.request(dtype, entropy, kl)).unwrap();
    let grads = case.loss(stats, &device).backward();
    [numbers(hidden.grad(&grads).unwrap()), numbers(weight.grad(&grads).unwrap())]
}

/// The same from dense logits and burn's own derivatives, in f64.
fn dense_gradients(case: &Case) -> [Vec<f64>; 2] {
    let (device, dtype) = (Device::flex().autodiff(), DType::F64);
    let LinearRows { hidden, weight } = case.policy(&device, dtype);
    let (hidden, weight) = (hidden.require_grad(), weight.require_grad());
    let log_softmax = |hidden: Tensor<2>, weight: Tensor<2>| {
        // Times, not divided by: burn-autodiff 0.22.1 rounds the derivative of a division by a scalar to f32.
        let logits = hidden.matmul(weight.transpose()) * case.temperature.recip(); // [R, V]
        logits.clone() - (logits.clone() - logits.clone().max_dim(1).detach()).exp().sum_dim(1).log() - logits.max_dim(1).detach()
    };
    let log_p = log_softmax(hidden.clone(), weight.clone()); // [R, V]
    let reference = case.reference(&device, dtype);
    let log_q = log_softmax(reference.hidden, reference.weight); // [R, V]
    let p = log_p.clone().exp(); // [R, V]
    let stats = RowStats {
        log_probs: log_p.clone().gather(1, case.targets(&device).unsqueeze_dim::<2>(1)).squeeze_dim(1),
        entropies: Some((p.clone() * log_p.clone()).sum_dim(1).neg().squeeze_dim(1)),
        kl: Some((p * (log_p - log_q)).sum_dim(1).squeeze_dim(1)),
    };
    let grads = case.loss(stats, &device).backward();
    [numbers(hidden.grad(&grads).unwrap()), numbers(weight.grad(&grads).unwrap())]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn values_and_gradients_are_those_of_dense_logits_at_any_chunk_size(
        rows in 1usize..14, width in 1usize..9, vocab in prop_oneof![4 => 1usize..140, 1 => 1000usize..2300], chunk in 1usize..17, temperature in 0.3f64..3.0, seed: u64,
    ) {
        let case = Case::new(rows, width, vocab, chunk, temperature, seed);
        let (expected, expected_gradients) = (by_hand(&case), dense_gradients(&case));
        for (name, path) in PATHS {
            for (dtype, tolerance) in [(DType::F32, 1e-5), (DType::F64, 1e-12)] {
                let device = Device::flex();
                let request = case.request(dtype, Ask::Value, Ask::Value);
                let stats = path(case.policy(&device, dtype), case.targets(&device), &request).unwrap();
                close(&format!("{name} log-probs {dtype:?}"), &numbers(stats.log_probs), &expected[0], tolerance);
                close(&format!("{name} entropies {dtype:?}"), &numbers(stats.entropies.unwrap()), &expected[1], tolerance);
                close(&format!("{name} KL {dtype:?}"), &numbers(stats.kl.unwrap()), &expected[2], tolerance);
                let got = gradients(&case, path, dtype, Ask::Gradient, Ask::Gradient);
                close(&format!("{name} hidden gradient {dtype:?}"), &got[0], &expected_gradients[0], tolerance);
                close(&format!("{name} weight gradient {dtype:?}"), &got[1], &expected_gradients[1], tolerance);
            }
        }
    }
}

#[test]
fn gradients_are_central_differences_of_loops_over_f64() {
    let case = Case::new(5, 4, 23, 2, 0.7, 11);
    for (name, path) in PATHS {
        let got = gradients(&case, path, DType::F64, Ask::Gradient, Ask::Gradient);
        let step = 1e-5;
        let difference = |nudge: &dyn Fn(&mut Case, f64)| {
            let at = |by: f64| {
                let mut moved = case.clone();
                nudge(&mut moved, by);
                loss_by_hand(&moved)
            };
            (at(step) - at(-step)) / (2.0 * step)
        };
        let hidden: Vec<f64> = (0..case.hidden.len()).map(|i| difference(&|case, by| case.hidden[i] += by)).collect();
        let weight: Vec<f64> = (0..case.weight.len()).map(|i| difference(&|case, by| case.weight[i] += by)).collect();
        close(&format!("{name} hidden"), &got[0], &hidden, 1e-7);
        close(&format!("{name} weight"), &got[1], &weight, 1e-7);
    }
}

#[test]
fn only_what_was_asked_for_brings_a_gradient() {
    // Watching a statistic must not change the gradient of the others.
    let mut case = Case::new(7, 3, 40, 3, 1.3, 5);
    for (name, path) in PATHS {
        for dtype in [DType::F32, DType::F64] {
            let only = gradients(&case, path, dtype, Ask::No, Ask::No);
            let watched = gradients(&case, path, dtype, Ask::Value, Ask::Value);
            let entropy = gradients(&case, path, dtype, Ask::Gradient, Ask::Value);
            let kl = gradients(&case, path, dtype, Ask::Value, Ask::Gradient);
            let all = gradients(&case, path, dtype, Ask::Gradient, Ask::Gradient);
            for parent in 0..2 {
                close(&format!("{name} watched"), &watched[parent], &only[parent], 1e-6);
                let sum: Vec<f64> = (0..only[parent].len()).map(|i| entropy[parent][i] + kl[parent][i] - only[parent][i]).collect();
                close(&format!("{name} sum of parts"), &sum, &all[parent], 1e-5);
                assert!(worst(&entropy[parent], &only[parent]) > 1e-3 && worst(&kl[parent], &only[parent]) > 1e-3);
            }
        }
    }
    // And each alone is right, not only their sum.
    case.upstream[2] = vec![0.0; case.rows];
    close("entropy alone", &gradients(&case, linear_row_stats, DType::F32, Ask::Gradient, Ask::No)[0], &dense_gradients(&case)[0], 1e-5);
}

#[test]
fn an_untracked_parent_gets_no_gradient_and_the_other_the_same_as_before() {
    let case = Case::new(9, 5, 33, 4, 0.8, 3);
    let device = Device::flex().autodiff();
    for (name, path) in PATHS {
        let both = gradients(&case, path, DType::F32, Ask::Gradient, Ask::Gradient);
        let request = case.request(DType::F32, Ask::Gradient, Ask::Gradient);
        let LinearRows { hidden, weight } = case.policy(&device, DType::F32);

        let tracked = hidden.clone().require_grad();
        let stats = path(LinearRows { hidden: tracked.clone(), weight: weight.clone() }, case.targets(&device), &request).unwrap();
        let grads = case.loss(stats, &device).backward();
        assert_eq!(numbers(tracked.grad(&grads).unwrap()), both[0], "{name}: frozen weight");
        assert!(weight.grad(&grads).is_none());

        let tracked = weight.require_grad();
        // A frozen part may even live on the plain device.
        let rows = LinearRows { hidden: hidden.inner(), weight: tracked.clone() };
        let stats = path(rows, case.targets(&device), &request).unwrap();
        let grads = case.loss(stats, &device).backward();
        assert_eq!(numbers(tracked.grad(&grads).unwrap()), both[1], "{name}: frozen hidden states");
    }
}

#[test]
fn scoring_and_training_give_the_same_bits() {
    let case = Case::new(11, 6, 129, 4, 0.9, 8);
    let request = case.request(DType::F32, Ask::Gradient, Ask::Gradient);
    for (name, path) in PATHS {
        let (plain, autodiff) = (Device::flex(), Device::flex().autodiff());
        let scored = path(case.policy(&plain, DType::F32), case.targets(&plain), &request).unwrap();
        let LinearRows { hidden, weight } = case.policy(&autodiff, DType::F32);
        let rows = LinearRows { hidden: hidden.require_grad(), weight: weight.require_grad() };
        let trained = path(rows, case.targets(&autodiff), &request).unwrap();
        assert!(trained.log_probs.is_tracked() && !scored.log_probs.is_tracked(), "{name}");
        assert_eq!(numbers(scored.log_probs), numbers(trained.log_probs), "{name}");
        assert_eq!(numbers(scored.entropies.unwrap()), numbers(trained.entropies.unwrap()), "{name}");
        assert_eq!(numbers(scored.kl.unwrap()), numbers(trained.kl.unwrap()), "{name}");
    }
}

#[test]
fn a_watched_statistic_is_detached_and_the_reference_is_a_constant() {
    let case = Case::new(4, 3, 20, 3, 1.0, 2);
    let device = Device::flex().autodiff();
    for (name, path) in PATHS {
        let reference = case.reference(&device, DType::F32);
        let reference = LinearRows { hidden: reference.hidden.require_grad(), weight: reference.weight.require_grad() };
        let request = RowRequest::new(1.0).with_entropy(Ask::Value).with_kl(reference.clone(), Ask::Gradient);
        let LinearRows { hidden, weight } = case.policy(&device, DType::F32);
        let rows = LinearRows { hidden: hidden.require_grad(), weight };
        let stats = path(rows, case.targets(&device), &request).unwrap();
        assert!(!stats.entropies.as_ref().unwrap().is_tracked(), "{name}");
        assert!(stats.kl.as_ref().unwrap().is_tracked(), "{name}");
        let grads = case.loss(stats, &device).backward();
        assert!(reference.hidden.grad(&grads).is_none() && reference.weight.grad(&grads).is_none(), "{name}");
    }
}

#[test]
fn equal_rows_have_a_divergence_of_exactly_zero_and_no_gradient_from_it() {
    let case = Case::new(6, 4, 50, 4, 0.6, 21);
    let device = Device::flex().autodiff();
    for (name, path) in PATHS {
        for dtype in [DType::F32, DType::F64] {
            let rows = case.policy(&device, dtype);
            let request = RowRequest::new(0.6).with_kl(case.policy(&device, dtype), Ask::Gradient);
            let hidden = rows.hidden.require_grad();
            let stats = path(LinearRows { hidden: hidden.clone(), weight: rows.weight }, case.targets(&device), &request).unwrap();
            let kl = stats.kl.unwrap();
            assert_eq!(numbers(kl.clone()), vec![0.0; case.rows], "{name} {dtype:?}");
            let gradient = numbers(hidden.grad(&kl.sum().backward()).unwrap());
            close(&format!("{name} {dtype:?}"), &gradient, &vec![0.0; gradient.len()], 1e-6);
        }
    }
}

#[test]
fn a_distribution_so_sharp_that_the_rest_underflows_stays_finite() {
    let mut case = Case::new(4, 3, 37, 3, 1.0, 4);
    // Logits of thousands: every probability but one is 0 in f32 and in f64.
    case.hidden.iter_mut().for_each(|h| *h *= 1e4);
    let (expected, expected_gradients) = (by_hand(&case), dense_gradients(&case));
    for (name, path) in PATHS {
        let device = Device::flex();
        let request = case.request(DType::F32, Ask::Value, Ask::Value);
        let stats = path(case.policy(&device, DType::F32), case.targets(&device), &request).unwrap();
        close(name, &numbers(stats.log_probs), &expected[0], 1e-5);
        close(name, &numbers(stats.entropies.unwrap()), &expected[1], 1e-5);
        close(name, &numbers(stats.kl.unwrap()), &expected[2], 1e-5);
        let got = gradients(&case, path, DType::F32, Ask::Gradient, Ask::Gradient);
        close(name, &got[0], &expected_gradients[0], 1e-5);
    }
}

#[test]
fn half_precision_rows_have_statistics_in_f32_and_gradients_in_their_own_type() {
    let case = Case::new(5, 4, 30, 2, 1.0, 6);
    let device = Device::flex().autodiff();
    let expected = by_hand(&case);
    for (name, path) in PATHS {
        let LinearRows { hidden, weight } = case.policy(&device, DType::BF16);
        let hidden = hidden.require_grad();
        let request = case.request(DType::BF16, Ask::Gradient, Ask::Gradient);
        let stats = path(LinearRows { hidden: hidden.clone(), weight }, case.targets(&device), &request).unwrap();
        assert_eq!(stats.log_probs.dtype(), DType::F32, "{name}");
        close(name, &numbers(stats.log_probs.clone()), &expected[0], 0.03);
        close(name, &numbers(stats.kl.clone().unwrap()), &expected[2], 0.03);
        let gradient = hidden.grad(&case.loss(stats, &device).backward()).unwrap();
        assert_eq!(gradient.dtype(), DType::BF16, "{name}");
        close(name, &numbers(gradient), &dense_gradients(&case)[0], 0.03);
    }
}

#[test]
fn what_does_not_fit_together_is_an_error_that_says_so() {
    let device = Device::flex();
    let zeros = |r: usize, c: usize| Tensor::<2>::zeros([r, c], &device);
    let rows = |r, h, v, w| LinearRows { hidden: zeros(r, h), weight: zeros(v, w) };
    let targets = |r: usize| Tensor::<1, Int>::zeros([r], &device);
    let say = |rows: LinearRows, r: usize, request: RowRequest| {
        let messages = PATHS.map(|(_, path)| path(rows.clone(), targets(r), &request).unwrap_err().to_string());
        assert_eq!(messages[0], messages[1]);
        messages[0].clone()
    };
    let plain = || RowRequest::new(1.0);
    let with = |reference| plain().with_kl(reference, Ask::Value);
    assert_eq!(say(rows(2, 3, 5, 4), 2, plain()), "width of weight = 4, must be 3: the width of its hidden states");
    assert_eq!(say(rows(2, 3, 5, 3), 1, plain()), "number of targets = 1, must be 2: one target a row");
    assert_eq!(say(rows(0, 3, 5, 3), 0, plain()), "rows R = 0, must be at least 1");
    assert_eq!(say(rows(2, 3, 0, 3), 2, plain()), "vocabulary V = 0, must be at least 1");
    assert_eq!(say(rows(2, 0, 5, 0), 2, plain()), "hidden width H = 0, must be at least 1");
    assert_eq!(say(rows(2, 3, 5, 3), 2, with(rows(1, 3, 5, 3))), "reference rows = 1, must be 2: one reference row a policy row");
    assert_eq!(
        say(rows(2, 3, 5, 3), 2, with(rows(2, 3, 6, 3))),
        "reference vocabulary = 6, must be 5: policy and reference share a vocabulary"
    );
    assert_eq!(
        say(rows(2, 3, 5, 3), 2, with(rows(2, 7, 5, 3))),
        "width of reference weight = 3, must be 7: the width of its hidden states"
    );
    for temperature in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let message = say(rows(2, 3, 5, 3), 2, RowRequest::new(temperature));
        assert_eq!(message, format!("temperature = {temperature}, must be finite and greater than 0"));
    }
    let mixed = LinearRows { hidden: zeros(2, 3), weight: zeros(5, 3).cast(FloatDType::F64) };
    assert_eq!(say(mixed, 2, plain()), "weight has element type F64, must be F32, the type of its hidden states");
}
