//! Chunk arithmetic on the flex backend in f32: each row is read once or twice while it is in the cache, rows in parallel, no second `[c, V]` buffer.
//!
//! burn-flex computes `exp` one element at a time on one core, which alone costs a third of the matrix product that made the logits.

use burn::backend::{
    Flex, TensorMetadata,
    tensor::{FloatTensor, IntTensor},
};
use burn::tensor::{DType, TensorData};
use rayon::prelude::*;

use super::chunk::{ChunkKernel, Columns, KlColumns, Upstream, Want, columns, gradient};

impl ChunkKernel for Flex {
    fn chunk_columns(
        logits: FloatTensor<Flex>,
        reference: Option<FloatTensor<Flex>>,
        targets: IntTensor<Flex>,
        entropy: Want,
    ) -> Columns<Flex> {
        let vocab = logits.shape()[1];
        let rows = match (f32_slice(&logits), reference.as_ref().map(f32_slice), target_indices(&targets, vocab)) {
            (Some(z), None, Some(y)) => forward_rows(z, None, &y, vocab, entropy),
            (Some(z), Some(Some(r)), Some(y)) => forward_rows(z, Some(r), &y, vocab, entropy),
            _ => return columns::<Flex>(logits, reference, targets, entropy),
        };
        let column = |value: fn(&Row) -> f32| to_column(rows.iter().map(value).collect());
        Columns {
            log_prob: column(|row| row.log_prob),
            log_sum: column(|row| row.log_sum),
            entropy: (entropy == Want::Yes).then(|| column(|row| row.entropy)),
            kl: reference.is_some().then(|| KlColumns { kl: column(|row| row.kl), reference_log_sum: column(|row| row.reference_log_sum) }),
        }
    }

    fn chunk_gradient(
        mut logits: FloatTensor<Flex>,
        reference: Option<FloatTensor<Flex>>,
        targets: IntTensor<Flex>,
        saved: &Columns<Flex>,
        upstream: Upstream<Flex>,
    ) -> FloatTensor<Flex> {
        let vocab = logits.shape()[1];
        let lines = match (f32_slice(&logits), target_indices(&targets, vocab)) {
            (Some(_), Some(targets)) => Line::of_rows(&targets, saved, &upstream),
            _ => None,
        };
        let reference_slice = reference.as_ref().map(f32_slice);
        let done = match (lines, reference_slice, f32_slice_mut(&mut logits)) {
            (Some(lines), None, Some(z)) => backward_rows(z, None, &lines, vocab),
            (Some(lines), Some(Some(r)), Some(z)) => backward_rows(z, Some(r), &lines, vocab),
            _ => Pass::Skipped,
        };
        match done {
            Pass::Done => logits,
            Pass::Skipped => gradient::<Flex>(logits, reference, targets, saved, upstream),
        }
    }
}

enum Pass {
    Done,
    Skipped,
}

pub(super) fn f32_slice(tensor: &FloatTensor<Flex>) -> Option<&[f32]> {
    (tensor.dtype() == DType::F32).then(|| tensor.as_slice::<f32>()).flatten()
}

/// The elements, if nobody else holds the buffer and it holds nothing else.
pub(super) fn f32_slice_mut(tensor: &mut FloatTensor<Flex>) -> Option<&mut [f32]> {
    let whole = tensor.layout().contiguous_offsets() == Some((0, tensor.layout().num_elements()));
    if tensor.dtype() == DType::F32 && whole { tensor.try_storage_mut::<f32>() } else { None }
}

/// The targets as indices, if all are in the vocabulary; else the general path reports the stray one as burn does.
fn target_indices(targets: &IntTensor<Flex>, vocab: usize) -> Option<Vec<usize>> {
    let data = targets.clone().into_data();
    data.iter::<i64>().map(|target| usize::try_from(target).ok().filter(|&target| target < vocab)).collect()
}

fn to_column(values: Vec<f32>) -> FloatTensor<Flex> {
    let rows = values.len();
    FloatTensor::<Flex>::from_data(TensorData::new(values, [rows, 1]))
}

fn from_column(column: &FloatTensor<Flex>) -> Option<Vec<f32>> {
    column.clone().into_data().try_to_vec::<f32>().ok()
}

#[derive(Debug, Clone, Copy, Default)]
struct Row {
    log_prob: f32,
    log_sum: f32,
    entropy: f32,
    kl: f32,
    reference_log_sum: f32,
}

fn forward_rows(logits: &[f32], reference: Option<&[f32]>, targets: &[usize], vocab: usize, entropy: Want) -> Vec<Row> {
    let rows = logits.par_chunks_exact(vocab).zip(targets);
    match reference {
        None => rows.map(|(z, &target)| forward_row(z, None, target, entropy)).collect(),
        Some(reference) => {
            rows.zip(reference.par_chunks_exact(vocab)).map(|((z, &target), r)| forward_row(z, Some(r), target, entropy)).collect()
        }
    }
}

/// All sums are over logits minus the row's largest, so no exponential exceeds 1 and the largest is 1.
fn forward_row(z: &[f32], reference: Option<&[f32]>, target: usize, entropy: Want) -> Row {
    let (max, log_sum) = max_and_log_sum(z);
    let mut row = Row { log_prob: z[target] - max - log_sum as f32, log_sum: (f64::from(max) + log_sum) as f32, ..Row::default() };
    if entropy == Want::Yes {
        // exp is 0 where it underflows, and the logit is finite there, so 0·log 0 is 0.
        let weighted = sum_terms(z, z, |z, _| exp(z - max) * (z - max));
        row.entropy = (log_sum - weighted / log_sum.exp()) as f32;
    }
    if let Some(r) = reference {
        let (reference_max, reference_log_sum) = max_and_log_sum(r);
        let (l, m) = (log_sum as f32, reference_log_sum as f32);
        // Both normalisers enter before the sum: equal rows then give exactly 0 in every term.
        let weighted = sum_terms(z, r, |z, r| exp(z - max) * ((z - max - l) - (r - reference_max - m)));
        row.kl = (weighted / log_sum.exp()) as f32;
        row.reference_log_sum = (f64::from(reference_max) + reference_log_sum) as f32;
    }
    row
}

/// The largest logit, and the log of the sum of exp(z − largest).
fn max_and_log_sum(z: &[f32]) -> (f32, f64) {
    let (whole, rest) = z.as_chunks::<LANES>();
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for part in whole {
        for (lane, &z) in lanes.iter_mut().zip(part) {
            *lane = if z > *lane { z } else { *lane };
        }
    }
    let max = lanes.iter().chain(rest).copied().fold(f32::NEG_INFINITY, f32::max);
    (max, sum_terms(z, z, |z, _| exp(z - max)).ln())
}

/// What one row brings to its gradient p·(slope·log p + constant − kl·log q) + target_gradient·1[y].
#[derive(Debug, Clone, Copy)]
struct Line {
    target: usize,
    target_gradient: f32,
    log_sum: f32,
    constant: f32,
    slope: f32,
    kl: f32,
    reference_log_sum: f32,
}

impl Line {
    /// The coefficients, derived where the general path derives them too. `None` if a column is not f32.
    fn of_rows(targets: &[usize], saved: &Columns<Flex>, upstream: &Upstream<Flex>) -> Option<Vec<Self>> {
        let rows = targets.len();
        let column = |column: Option<&FloatTensor<Flex>>| match column {
            Some(column) => from_column(column),
            None => Some(vec![0.0; rows]),
        };
        let (g_log_prob, log_sum) = (column(Some(&upstream.log_prob))?, column(Some(&saved.log_sum))?);
        let (g_entropy, entropy) = (column(upstream.entropy.as_ref())?, column(saved.entropy.as_ref())?);
        let g_kl = column(upstream.kl.as_ref())?;
        let kl = column(saved.kl.as_ref().map(|kl| &kl.kl))?;
        let reference_log_sum = column(saved.kl.as_ref().map(|kl| &kl.reference_log_sum))?;
        let line = |row: usize| Self {
            target: targets[row],
            target_gradient: g_log_prob[row],
            log_sum: log_sum[row],
            constant: -g_log_prob[row] - g_entropy[row] * entropy[row] - g_kl[row] * kl[row],
            slope: g_kl[row] - g_entropy[row],
            kl: g_kl[row],
            reference_log_sum: reference_log_sum[row],
        };
        Some((0..rows).map(line).collect())
    }
}

fn backward_rows(logits: &mut [f32], reference: Option<&[f32]>, lines: &[Line], vocab: usize) -> Pass {
    let rows = logits.par_chunks_exact_mut(vocab).zip(lines);
    match reference {
        None => rows.for_each(|(z, line)| {
            let Line { log_sum, constant, slope, .. } = *line;
            if slope == 0.0 {
                z.iter_mut().for_each(|z| *z = exp(*z - log_sum) * constant);
            } else {
                z.iter_mut().for_each(|z| *z = exp(*z - log_sum) * (slope * (*z - log_sum) + constant));
            }
            z[line.target] += line.target_gradient;
        }),
        Some(reference) => rows.zip(reference.par_chunks_exact(vocab)).for_each(|((z, line), r)| {
            let Line { log_sum, constant, slope, kl, reference_log_sum, .. } = *line;
            for (z, r) in z.iter_mut().zip(r) {
                let log_p = *z - log_sum;
                *z = exp(log_p) * (slope * log_p + constant - kl * (r - reference_log_sum));
            }
            z[line.target] += line.target_gradient;
        }),
    }
    Pass::Done
}

/// Independent sums, so that the compiler may use vector instructions.
const LANES: usize = 16;
/// Sums of this many terms are taken in f32, sums of those in f64: a row of 10⁵ terms then loses no more digits than one of 10².
const BLOCK: usize = 64 * LANES;

/// Σ term(aᵢ, bᵢ).
fn sum_terms(a: &[f32], b: &[f32], term: impl Fn(f32, f32) -> f32) -> f64 {
    a.chunks(BLOCK)
        .zip(b.chunks(BLOCK))
        .map(|(a, b)| {
            let ((whole_a, rest_a), (whole_b, rest_b)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
            let mut lanes = [0.0f32; LANES];
            for (a, b) in whole_a.iter().zip(whole_b) {
                for ((lane, &a), &b) in lanes.iter_mut().zip(a).zip(b) {
                    *lane += term(a, b);
                }
            }
            let rest = rest_a.iter().zip(rest_b).map(|(&a, &b)| term(a, b));
            lanes.into_iter().chain(rest).map(f64::from).sum::<f64>()
        })
        .sum()
}

/// eˣ for x up to about 80, within 3 units in the last place, as straight arithmetic that vectorises; 0 where eˣ is below the normal numbers.
///
/// x = n·ln 2 + r with integer n and |r| ≤ ln 2 / 2; eʳ is its Taylor polynomial of degree 7 (remainder below 6·10⁻⁹), 2ⁿ is written into the exponent.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    /// 1.5·2²³: adding it rounds to an integer and leaves that integer in the low bits.
    const ROUND: f32 = 12_582_912.0;
    /// ln 2 in two parts; the first is 355/512, whose 9 significant bits make n times it exact.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    /// ln of the smallest normal number, rounded up.
    const LOWEST: f32 = -87.33;
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    let high = 1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0 + r * (1.0 / 5040.0)));
    let power = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6.0 + r * high)));
    let scale = f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0f32.to_bits()));
    if x < LOWEST { 0.0 } else { power * scale }
}

#[cfg(test)]
mod tests {
    use super::exp;

    #[test]
    fn exp_agrees_with_the_standard_library_to_three_units_in_the_last_place() {
        let mut worst = 0.0f64;
        for step in 0..2_000_000 {
            let x = -87.3 + step as f32 * 5e-5; // up to 12.7
            let (got, expected) = (f64::from(exp(x)), f64::from(x).exp());
            worst = worst.max(((got - expected) / expected).abs());
        }
        assert!(worst < 3.0 * f64::from(f32::EPSILON) / 2.0, "worst relative error {worst:e}");
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-100.0), 0.0);
        assert_eq!(exp(-1e30), 0.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert!(exp(f32::NAN).is_nan());
    }
}
