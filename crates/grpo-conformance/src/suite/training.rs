//! Steps: the optimiser, seeds, 16-bit training.

use burn::Tensor;
use burn::module::{Module, Param};
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::{DType, Distribution};
use grpo_core::{log_softmax_at, to_host};

use super::tools::{int, seeded};
use super::{Behaviour, Compare, all, half};
use crate::runner::{Bench, Step, Stop};

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    all("two steps of AdamW", adamw),
    all("a seed gives the same numbers again [B15]", seeds),
    half("a model of 16 bits learns and stays finite [B43]", learns),
];

#[derive(Module, Debug)]
struct Weights {
    values: Param<Tensor<1>>,
}

/// m̂ / (√v̂ + ε) by hand, with decay.
fn adamw(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    const START: [f64; 3] = [0.5, -0.25, 1.0];
    const SLOPES: [f64; 3] = [0.5, -2.0, 0.25];
    let (rate, decay, epsilon) = (0.125, 0.25, 1e-4);
    let (first, second) = (0.9, 0.999);
    let mut module = Weights { values: Param::from_tensor(bench.leaf(&START, [3])) };
    let config = AdamWConfig::new().with_beta_1(first as f32).with_beta_2(second as f32).with_epsilon(epsilon as f32);
    let mut optimizer = config.with_weight_decay(decay as f32).init();
    let (mut want, mut m, mut v) = (START, [0.0; 3], [0.0; 3]);
    for step in 1..=2 {
        // Σ slope · w², so that the second gradient is another one.
        let loss = (module.values.val().square() * bench.constant(&SLOPES, [3])).sum();
        let gradients = GradientsParams::from_grads(loss.backward(), &module);
        module = optimizer.step(rate, module, gradients);
        for i in 0..3 {
            let g = 2.0 * SLOPES[i] * want[i];
            m[i] = first * m[i] + (1.0 - first) * g;
            v[i] = second * v[i] + (1.0 - second) * g * g;
            let (m_hat, v_hat): (f64, f64) = (m[i] / (1.0 - first.powi(step)), v[i] / (1.0 - second.powi(step)));
            want[i] = want[i] * (1.0 - rate * decay) - rate * m_hat / (v_hat.sqrt() + epsilon);
        }
    }
    // burn takes the optimiser's scalars in 32 bits.
    seen.loosen(1e-6);
    seen.vector("weights", &to_host(module.values.val().inner(), "weights")?, &want);
    Ok(())
}

fn seeds(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let device = bench.device.clone().inner();
    let draw = |seed| {
        device.seed(seed);
        to_host(Tensor::<1>::random([64], Distribution::Uniform(0.0, 1.0), (&device, bench.dtype)), "draws")
    };
    let (first, again, other) = (draw(42)?, draw(42)?, draw(43)?);
    seen.number("the same again", f64::from(u8::from(first == again)), 1.0);
    seen.number("another seed, another row", f64::from(u8::from(first != other)), 1.0);
    seen.number("from 0 to 1", f64::from(u8::from(first.iter().all(|x| (0.0..=1.0).contains(x)))), 1.0);
    Ok(())
}

/// Weights and products of 16 bits; log-softmax and loss of 32.
fn learns(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let mut module = Weights { values: Param::from_tensor(bench.leaf(&seeded(1, 8 * 5), [40])) };
    let mut optimizer = AdamWConfig::new().with_epsilon(1e-4).init();
    let x: Tensor<2> = bench.constant(&seeded(2, 16 * 8), [16, 8]);
    let targets = int(bench, &(0..16).map(|i| i % 5).collect::<Vec<_>>(), [16, 1]);
    let mut losses = Vec::new();
    for _ in 0..100 {
        let logits = x.clone().matmul(module.values.val().reshape([8, 5])).cast(DType::F32); // [16, 5]
        let loss = log_softmax_at(logits, 1.0).gather(1, targets.clone()).mean().neg();
        losses.extend(to_host(loss.clone(), "loss")?);
        let gradients = GradientsParams::from_grads(loss.backward(), &module);
        module = optimizer.step(0.05, module, gradients);
    }
    let (Some(first), Some(last)) = (losses.first(), losses.last()) else { return Err(Stop::Broken("no loss".to_owned())) };
    seen.number("the loss fell by half", f64::from(u8::from(*last < 0.5 * first)), 1.0);
    seen.number("weights are 16 bits", f64::from(u8::from(module.values.val().dtype() == bench.dtype)), 1.0);
    let weights = to_host(module.values.val().inner(), "weights")?;
    seen.number("weights are finite", f64::from(u8::from(weights.iter().all(|w| w.is_finite()))), 1.0);
    Ok(())
}
