//! Root-mean-square norm.

use burn::Tensor;
use burn::module::{Module, Param};

/// y = x / √(mean(x²) + ε) · w over the last dimension.
///
/// It stays in the element type of x: nothing is cast on the way.
#[derive(Module, Debug)]
pub(crate) struct RmsNorm {
    /// `[H]`
    pub(crate) weight: Param<Tensor<1>>,
    epsilon: f64,
}

impl RmsNorm {
    pub(crate) fn new(weight: Tensor<1>, epsilon: f64) -> Self {
        Self { weight: Param::from_tensor(weight), epsilon }
    }

    /// `[.., H]` to `[.., H]`.
    pub(crate) fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let mean_square = x.clone().square().mean_dim(D - 1); // [.., 1]
        let scale = mean_square.add_scalar(self.epsilon).sqrt().recip(); // [.., 1]
        x * scale * self.weight.val().unsqueeze() // [.., H]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn a_row_is_divided_by_its_root_mean_square() {
        let device = Device::flex();
        let norm = RmsNorm::new(Tensor::from_floats([1.0, 2.0], &device), 0.5);
        // mean(3², 4²) = 12.5, plus 0.5 is 13.
        let y = norm.forward(Tensor::<2>::from_floats([[3.0, 4.0]], &device));
        let y: Vec<f32> = y.into_data().try_to_vec().unwrap();
        let root = 13f32.sqrt();
        approx::assert_relative_eq!(y[0], 3.0 / root, epsilon = 1e-6);
        approx::assert_relative_eq!(y[1], 8.0 / root, epsilon = 1e-6);
    }
}
