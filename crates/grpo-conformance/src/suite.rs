//! Behaviours of single operations that the library relies on. A backend that has them computes the library right; the golden vectors
//! then check the formulas.

use burn::Tensor;
use burn::tensor::{Bool, DType, Device, Int, TensorData};
use grpo_core::loss::StepStats;
use grpo_core::{GrpoConfig, KlPenalty, OldLogProbs, Reference, ReferenceLogProbs, Scores, log_softmax_at, to_host};

use crate::cases::Matrix;
use crate::compare::Compare;
use crate::report::{Checked, Column, Report};
use crate::runner::{Bench, Step, Stop, judge, leaf_gradient, losses_run};

type Behaviour = fn(&Bench<'_>, &mut Compare) -> Step;

const BEHAVIOURS: &[(&str, Behaviour)] = &[
    ("gather with repeated indices adds up gradients", gather_adds_up),
    ("select with repeated indices adds up gradients", select_adds_up),
    ("expand adds up gradients", expand_adds_up),
    ("a mask before exp keeps value and gradient finite", mask_before_exp),
    ("clamp has no gradient beyond its bounds", clamp_cuts),
    ("the smaller of a pair alone has the gradient", min_pair_chooses),
    ("where a mask chooses, only the chosen side has the gradient", mask_where_chooses),
    ("a detached value has no gradient", detach_holds),
    ("comparisons with infinity and NaN", comparisons),
    ("log-softmax of huge logits does not overflow", huge_logits),
    ("log-softmax of illegal actions has finite gradients", illegal_actions),
    ("a matrix product with a transpose has the gradient of its formula", transposed_product),
    ("a cast keeps the gradient", cast_keeps),
    ("junk under the mask reaches neither loss nor gradient", junk_under_the_mask),
    ("a batch in which nothing counts has loss 0 with a gradient of 0", nothing_counts),
];

/// Runs every behaviour on a device, in each of f32 and f64 that it computes.
pub fn suite(device: &Device) -> Report {
    let mut report = Report::default();
    for (column, dtype, tolerance) in [(Column::F32, DType::F32, 1e-5), (Column::F64, DType::F64, 1e-12)] {
        if !device.supports_dtype(dtype) {
            report.notes.push(format!("the device does not compute {column}"));
            continue;
        }
        let bench = Bench { device, dtype };
        for (name, behaviour) in BEHAVIOURS {
            let (outcome, _) = judge(tolerance, &|seen: &mut Compare| behaviour(&bench, seen));
            report.checks.push(Checked { file: "operations".to_owned(), name: (*name).to_owned(), column, outcome });
        }
    }
    report
}

fn int<const D: usize>(bench: &Bench<'_>, values: &[i64], shape: [usize; D]) -> Tensor<D, Int> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape), &bench.device.clone().inner())
}

fn bools<const D: usize>(bench: &Bench<'_>, values: &[bool], shape: [usize; D]) -> Tensor<D, Bool> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape), &bench.device.clone().inner())
}

/// The gradient of Σ `out` at `leaf`.
fn slope<const D: usize, const E: usize>(out: Tensor<E>, leaf: &Tensor<D>) -> Result<Vec<f64>, Stop> {
    let gradients = out.sum().backward();
    leaf_gradient(leaf, &gradients)
}

fn gather_adds_up(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let x: Tensor<2> = bench.leaf(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3]);
    let out = x.clone().gather(1, int(bench, &[2, 2, 0, 1, 1, 1], [2, 3])); // [2, 3]
    seen.vector("value", &to_host(out.clone(), "value")?, &[3.0, 3.0, 1.0, 5.0, 5.0, 5.0]);
    seen.vector("gradient", &slope(out, &x)?, &[1.0, 0.0, 2.0, 0.0, 3.0, 0.0]);
    Ok(())
}

fn select_adds_up(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let x: Tensor<2> = bench.leaf(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [3, 2]);
    let out = x.clone().select(0, int(bench, &[2, 0, 2], [3])); // [3, 2]
    seen.vector("value", &to_host(out.clone(), "value")?, &[5.0, 6.0, 1.0, 2.0, 5.0, 6.0]);
    seen.vector("gradient", &slope(out, &x)?, &[1.0, 1.0, 0.0, 0.0, 2.0, 2.0]);
    Ok(())
}

fn expand_adds_up(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let x: Tensor<2> = bench.leaf(&[1.0, -2.0], [2, 1]);
    let weights = bench.constant(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3]);
    seen.vector("gradient", &slope(x.clone().expand([2, 3]) * weights, &x)?, &[6.0, 15.0]);
    Ok(())
}

fn mask_before_exp(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let x: Tensor<2> = bench.leaf(&[0.5, 1e4, f64::INFINITY, f64::NAN], [1, 4]);
    let out = x.clone().mask_fill(bools(bench, &[false, true, true, true], [1, 4]), 0.0).exp(); // [1, 4]
    seen.vector("value", &to_host(out.clone(), "value")?, &[0.5f64.exp(), 1.0, 1.0, 1.0]);
    seen.vector("gradient", &slope(out, &x)?, &[0.5f64.exp(), 0.0, 0.0, 0.0]);
    Ok(())
}

fn clamp_cuts(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let x: Tensor<1> = bench.leaf(&[-3.0, -0.5, 0.5, 3.0], [4]);
    seen.vector("two-sided", &slope(x.clone().clamp(-1.0, 1.0), &x)?, &[0.0, 1.0, 1.0, 0.0]);
    let x: Tensor<1> = bench.leaf(&[-3.0, -0.5, 0.5, 3.0], [4]);
    seen.vector("one-sided", &slope(x.clone().clamp_max(1.0), &x)?, &[1.0, 1.0, 1.0, 0.0]);
    Ok(())
}

fn min_pair_chooses(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let x: Tensor<1> = bench.leaf(&[1.0, 5.0], [2]);
    let out = (x.clone() * 2.0).min_pair(x.clone() + 3.0); // [2]
    seen.vector("value", &to_host(out.clone(), "value")?, &[2.0, 8.0]);
    seen.vector("gradient", &slope(out, &x)?, &[2.0, 1.0]);
    // At a tie the two sides share it, however they do: here both have slope 1.
    let x: Tensor<1> = bench.leaf(&[1.0], [1]);
    seen.vector("tie", &slope(x.clone().min_pair(x.clone().clamp(0.5, 1.5)), &x)?, &[1.0]);
    Ok(())
}

fn mask_where_chooses(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let (x, y): (Tensor<1>, Tensor<1>) = (bench.leaf(&[1.0, 2.0], [2]), bench.leaf(&[f64::NAN, 4.0], [2]));
    let out = x.clone().mask_where(bools(bench, &[false, true], [2]), y.clone()); // [2]
    seen.vector("value", &to_host(out.clone(), "value")?, &[1.0, 4.0]);
    let gradients = out.sum().backward();
    seen.vector("gradient where false", &leaf_gradient(&x, &gradients)?, &[1.0, 0.0]);
    seen.vector("gradient where true", &leaf_gradient(&y, &gradients)?, &[0.0, 1.0]);
    Ok(())
}

fn detach_holds(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let x: Tensor<1> = bench.leaf(&[2.0, 3.0], [2]);
    seen.vector("detach", &slope(x.clone() * x.clone().detach(), &x)?, &[2.0, 3.0]);
    let x: Tensor<1> = bench.leaf(&[2.0, 3.0], [2]);
    seen.vector("inner", &slope(x.clone() * x.clone().inner(), &x)?, &[2.0, 3.0]);
    Ok(())
}

fn comparisons(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let x = bench.constant(&[f64::NEG_INFINITY, -1.0, 0.0, f64::INFINITY, f64::NAN], [5]);
    let ones = |at: Tensor<1, Bool>| to_host(at.float().cast(bench.dtype), "comparison");
    seen.vector("is -inf", &ones(x.clone().equal_elem(f64::NEG_INFINITY))?, &[1.0, 0.0, 0.0, 0.0, 0.0]);
    seen.vector("below 0", &ones(x.clone().lower_elem(0.0))?, &[1.0, 1.0, 0.0, 0.0, 0.0]);
    seen.vector("above 0", &ones(x.clone().greater_elem(0.0))?, &[0.0, 0.0, 0.0, 1.0, 0.0]);
    seen.vector("not below 0", &ones(x.lower_elem(0.0).bool_not())?, &[0.0, 0.0, 1.0, 1.0, 1.0]);
    Ok(())
}

fn huge_logits(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let z: Tensor<2> = bench.leaf(&[1e4, 1e4, -1e4, 1e4], [2, 2]);
    let log_probs = log_softmax_at(z.clone(), 1.0); // [2, 2]
    let half = 0.5f64.ln();
    seen.vector("value", &to_host(log_probs.clone(), "value")?, &[half, half, -2e4, 0.0]);
    let first = bench.constant(&[1.0, 0.0, 1.0, 0.0], [2, 2]);
    seen.vector("gradient", &slope(log_probs * first, &z)?, &[0.5, -0.5, 1.0, -1.0]);
    Ok(())
}

fn illegal_actions(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let z: Tensor<2> = bench.leaf(&[0.0, f64::NEG_INFINITY, 3f64.ln()], [1, 3]);
    let log_probs = log_softmax_at(z.clone(), 1.0); // [1, 3]
    let probs = log_probs.clone().exp();
    seen.vector("probabilities", &to_host(probs, "probabilities")?, &[0.25, 0.0, 0.75]);
    let chosen = log_probs.gather(1, int(bench, &[2], [1, 1])); // [1, 1]
    seen.vector("gradient", &slope(chosen, &z)?, &[-0.25, 0.0, 0.25]);
    Ok(())
}

fn transposed_product(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let h: Tensor<2> = bench.leaf(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3]);
    let w: Tensor<2> = bench.leaf(&[0.5, -1.0, 2.0, 1.0, 0.0, -3.0], [2, 3]);
    let out = h.clone().matmul(w.clone().transpose()); // [2, 2]
    seen.vector("value", &to_host(out.clone(), "value")?, &[4.5, -8.0, 9.0, -14.0]);
    let gradients = (out * bench.constant(&[1.0, 0.0, 0.0, 2.0], [2, 2])).sum().backward();
    seen.vector("gradient of the left", &leaf_gradient(&h, &gradients)?, &[0.5, -1.0, 2.0, 2.0, 0.0, -6.0]);
    seen.vector("gradient of the right", &leaf_gradient(&w, &gradients)?, &[1.0, 2.0, 3.0, 8.0, 10.0, 12.0]);
    Ok(())
}

fn cast_keeps(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let x: Tensor<1> = bench.leaf(&[1.5, -2.0], [2]);
    let out = x.clone().cast(DType::F32) * 3.0; // [2]
    seen.vector("value", &to_host(out.clone(), "value")?, &[4.5, -6.0]);
    seen.vector("gradient", &slope(out, &x)?, &[3.0, 3.0]);
    Ok(())
}

/// Loss and gradient of three completions whose middle token, and whose second row, do not count; `junk` stands there.
fn loss_with_junk(bench: &Bench<'_>, junk: f64, mask: &[f64]) -> Result<(f64, Vec<f64>), Stop> {
    let mask = Matrix { rows: 3, cols: 3, data: mask.to_vec() };
    let fill = |values: [f64; 9]| -> Vec<f64> { values.iter().zip(&mask.data).map(|(v, m)| if *m == 0.0 { junk } else { *v }).collect() };
    let new = fill([-1.0, -0.3, -0.7, -0.2, -0.1, -0.9, -1.5, -0.4, -0.8]);
    let old = fill([-1.3, -0.3, -0.6, -0.2, -0.1, -0.9, -1.4, -0.4, -0.9]);
    let reference = fill([-1.1, -0.3, -0.9, -0.2, -0.1, -0.9, -1.0, -0.4, -0.8]);
    let advantages = fill([1.0, 1.0, 1.0, -0.5, -0.5, -0.5, -0.7, -0.7, -0.7]);
    let mut batch = bench.batch(&mask, 3, |row, col| advantages[row * 3 + col], |_, _| 0, 1.0)?;
    batch.set_old(OldLogProbs::new(bench.constant(&old, [3, 3]))?)?;
    batch.set_reference(Reference::LogProbs(ReferenceLogProbs::new(bench.constant(&reference, [3, 3]))?))?;
    let config = GrpoConfig { kl: Some(KlPenalty::new(0.1)), ..GrpoConfig::default() };
    let leaf: Tensor<2> = bench.leaf(&new, [3, 3]);
    let mut scores = Scores::new(leaf.clone());
    scores.entropies = Some(bench.constant(&fill([0.5; 9]), [3, 3]));
    let ran = losses_run(&scores, &batch, &StepStats::of([&batch]), &config, &leaf)?;
    for (name, value) in ran.metrics.iter() {
        if !value.is_finite() {
            return Err(Stop::Broken(format!("metric `{name}` is {value} with {junk} under the mask")));
        }
    }
    Ok((ran.loss, ran.gradient))
}

fn junk_under_the_mask(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let mask = [1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0];
    let (loss, gradient) = loss_with_junk(bench, 0.0, &mask)?;
    for junk in [-777.0, 1e30, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
        let (other, other_gradient) = loss_with_junk(bench, junk, &mask)?;
        seen.number(&format!("loss with {junk}"), other, loss);
        seen.vector(&format!("gradient with {junk}"), &other_gradient, &gradient);
        for (i, _) in mask.iter().enumerate().filter(|(_, m)| **m == 0.0) {
            seen.number(&format!("gradient under the mask with {junk}"), other_gradient[i], 0.0);
        }
    }
    seen.number("some token has a gradient", f64::from(u8::from(gradient.iter().any(|g| *g != 0.0))), 1.0);
    Ok(())
}

fn nothing_counts(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let (loss, gradient) = loss_with_junk(bench, f64::NAN, &[0.0; 9])?;
    seen.number("loss", loss, 0.0);
    seen.vector("gradient", &gradient, &[0.0; 9]);
    Ok(())
}
