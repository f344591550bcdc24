//! Rotary positions in the split-halves form of Hugging Face's weights.

use burn::Tensor;
use burn::tensor::{DType, Device, TensorData};

use crate::config::ModelConfig;

/// The angles of R rows: what turns a head at each row's position.
#[derive(Debug, Clone)]
pub(crate) struct Angles {
    /// `[R, 1, d/2]`
    cos: Tensor<3>,
    /// `[R, 1, d/2]`
    sin: Tensor<3>,
    /// The same for queries, which carry the scale 1/√d of attention.
    query_cos: Tensor<3>,
    query_sin: Tensor<3>,
}

/// The frequency of each of the d/2 pairs, in turns of one radian per position.
///
/// f(i) = θ^(−2i/d), divided by what the scaling says.
pub(crate) fn frequencies(config: &ModelConfig) -> Vec<f64> {
    let d = config.head_dim;
    (0..d / 2)
        .map(|pair| {
            let plain = config.rope_theta.powf(-2.0 * pair as f64 / d as f64);
            plain / config.rope_scaling.divisor(plain)
        })
        .collect()
}

impl Angles {
    /// The angles of rows at these positions. Computed in f64 on the host: at position 8,000 an angle in f32 is off by 5e-4.
    pub(crate) fn new(config: &ModelConfig, positions: &[usize], device: &Device, dtype: DType) -> Self {
        let frequencies = frequencies(config);
        let highest = positions.iter().copied().max().unwrap_or(0);
        // Rows share positions: each position's angles are computed once.
        let mut table: Vec<Option<Vec<(f64, f64)>>> = vec![None; highest + 1];
        let half = frequencies.len();
        let (mut cos, mut sin) = (Vec::with_capacity(positions.len() * half), Vec::with_capacity(positions.len() * half));
        for &position in positions {
            let angles = table[position].get_or_insert_with(|| frequencies.iter().map(|f| (position as f64 * f).sin_cos()).collect());
            sin.extend(angles.iter().map(|a| a.0));
            cos.extend(angles.iter().map(|a| a.1));
        }
        let scale = (config.head_dim as f64).sqrt().recip();
        let upload = |values: Vec<f64>| -> Tensor<3> {
            Tensor::from_data(TensorData::new(values, [positions.len(), 1, half]), (device, dtype)) // [R, 1, d/2]
        };
        let scaled = |values: &[f64]| values.iter().map(|v| v * scale).collect();
        let (query_cos, query_sin) = (upload(scaled(&cos)), upload(scaled(&sin)));
        Self { cos: upload(cos), sin: upload(sin), query_cos, query_sin }
    }

    /// Turns keys `[R, heads, d]`.
    pub(crate) fn turn(&self, keys: Tensor<3>) -> Tensor<3> {
        rotate(keys, &self.cos, &self.sin)
    }

    /// Turns queries `[R, heads, d]` and divides them by √d.
    pub(crate) fn turn_queries(&self, queries: Tensor<3>) -> Tensor<3> {
        rotate(queries, &self.query_cos, &self.query_sin)
    }
}

/// (x₁, x₂) to (x₁·cos − x₂·sin, x₂·cos + x₁·sin), where x₁ and x₂ are the halves of a head.
fn rotate(x: Tensor<3>, cos: &Tensor<3>, sin: &Tensor<3>) -> Tensor<3> {
    let half = x.dims()[2] / 2;
    let first = x.clone().narrow(2, 0, half); // [R, heads, d/2]
    let second = x.narrow(2, half, half); // [R, heads, d/2]
    let turned_first = first.clone() * cos.clone() - second.clone() * sin.clone(); // [R, heads, d/2]
    let turned_second = second * cos.clone() + first * sin.clone(); // [R, heads, d/2]
    Tensor::cat(vec![turned_first, turned_second], 2) // [R, heads, d]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RopeScaling;

    fn config(head_dim: usize, rope_theta: f64) -> ModelConfig {
        ModelConfig { head_dim, rope_theta, ..ModelConfig::default() }
    }

    #[test]
    fn halves_are_paired_and_turn_by_position_times_frequency() {
        let device = Device::flex();
        // d = 4, θ = 100: frequencies 1 and 0.1. Pairs are (x0, x2) and (x1, x3).
        let angles = Angles::new(&config(4, 100.0), &[0, 3], &device, DType::F64);
        let x = Tensor::<3>::from_data(TensorData::new(vec![1f64, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0], [2, 1, 4]), (&device, DType::F64));
        let y: Vec<f64> = angles.turn(x.clone()).into_data().try_to_vec().unwrap();
        let (s0, c0) = 3f64.sin_cos();
        let (s1, c1) = 0.3f64.sin_cos();
        let expected = [1.0, 2.0, 3.0, 4.0, c0 - 3.0 * s0, 2.0 * c1 - 4.0 * s1, 3.0 * c0 + s0, 4.0 * c1 + 2.0 * s1];
        for (given, expected) in y.iter().zip(expected) {
            approx::assert_relative_eq!(*given, expected, epsilon = 1e-12);
        }
        // Queries are the same halved: 1/√4.
        let q: Vec<f64> = angles.turn_queries(x).into_data().try_to_vec().unwrap();
        for (given, expected) in q.iter().zip(expected) {
            approx::assert_relative_eq!(*given, expected / 2.0, epsilon = 1e-12);
        }
    }

    #[test]
    fn scaling_divides_the_frequencies() {
        let linear = ModelConfig { rope_scaling: RopeScaling::Linear { factor: 4.0 }, ..config(4, 100.0) };
        let f = frequencies(&linear);
        approx::assert_relative_eq!(f[0], 0.25, epsilon = 1e-15);
        approx::assert_relative_eq!(f[1], 0.025, epsilon = 1e-15);
    }
}
