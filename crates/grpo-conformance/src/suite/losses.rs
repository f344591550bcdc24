//! What must hold of any loss, whatever stands under the mask. The golden vectors have the losses themselves.

use burn::Tensor;
use grpo_core::loss::StepStats;
use grpo_core::{GrpoConfig, KlPenalty, OldLogProbs, Reference, ReferenceLogProbs, Scores};

use super::{Behaviour, Compare, wide};
use crate::cases::Matrix;
use crate::runner::{Bench, Step, Stop, losses_run};

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    wide("junk under the mask reaches neither loss nor gradient", junk_under_the_mask),
    wide("a batch in which nothing counts has loss 0 with a gradient of 0", nothing_counts),
];

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
