//! Tensors of one dtype on one device, from host numbers and back.

use burn::Tensor;
use burn::tensor::{DType, Device, Gradients, TensorData};
use grpo_core::{Batch, GroupId, Row, to_host};

use super::Stop;
use crate::cases::Matrix;

/// Where tensor checks run.
pub(crate) struct Bench<'a> {
    pub device: &'a Device,
    pub dtype: DType,
}

impl Bench<'_> {
    /// Numbers that autodiff tracks.
    pub(crate) fn leaf<const D: usize>(&self, values: &[f64], shape: [usize; D]) -> Tensor<D> {
        self.on(values, shape, &self.device.clone().autodiff()).require_grad()
    }

    /// Numbers that it does not.
    pub(crate) fn constant<const D: usize>(&self, values: &[f64], shape: [usize; D]) -> Tensor<D> {
        self.on(values, shape, &self.device.clone().inner())
    }

    fn on<const D: usize>(&self, values: &[f64], shape: [usize; D], device: &Device) -> Tensor<D> {
        let data = match self.dtype {
            // A device without f64 need not be able to read it.
            DType::F64 => TensorData::new(values.to_vec(), shape),
            _ => TensorData::new(values.iter().map(|&v| v as f32).collect(), shape),
        };
        Tensor::from_data(data, (device, self.dtype))
    }

    pub(crate) fn constant_matrix(&self, matrix: &Matrix) -> Tensor<2> {
        self.constant(&matrix.data, matrix.shape())
    }

    /// A batch of completions with this mask and these token advantages, its tokens all 0 unless given.
    pub(crate) fn batch(
        &self,
        mask: &Matrix,
        group_size: usize,
        advantage: impl Fn(usize, usize) -> f64,
        token: impl Fn(usize, usize) -> u32,
        temperature: f64,
    ) -> Result<Batch, Stop> {
        let tokens: Vec<Vec<u32>> = (0..mask.rows).map(|row| (0..mask.cols).map(|col| token(row, col)).collect()).collect();
        let row = |row: usize| Row {
            prompt: 0,
            group: GroupId((row / group_size) as u64),
            tokens: &tokens[row],
            mask: mask.row(row).iter().map(|m| *m != 0.0).collect(),
            advantages: (0..mask.cols).map(|col| advantage(row, col)).collect(),
        };
        let rows: Vec<Row<'_>> = (0..mask.rows).map(row).collect();
        Ok(Batch::from_rows(&[&[0]], &rows, temperature, self.device)?)
    }
}

/// The gradient at a leaf; zeros where nothing flowed.
pub(crate) fn gradient_at<const D: usize>(leaf: &Tensor<D>, gradients: &Gradients) -> Result<Vec<f64>, Stop> {
    match leaf.grad(gradients) {
        Some(gradient) => Ok(to_host(gradient, "gradient")?),
        None => Ok(vec![0.0; leaf.dims().iter().product()]),
    }
}
