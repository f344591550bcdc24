//! Gradients of a whole module: sums, the global norm, and the guard against values that are not finite.

use burn::Tensor;
use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::DType;

use crate::error::Result;
use crate::loss::precision;
use crate::read::to_host;

/// Adds `more` to `sum`, parameter by parameter.
pub(crate) fn accumulate<M: Module>(module: &M, mut sum: GradientsParams, mut more: GradientsParams) -> GradientsParams {
    if sum.is_empty() {
        return more;
    }
    struct Add<'a>(&'a mut GradientsParams, &'a mut GradientsParams);
    impl ModuleVisitor for Add<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let total = match (self.0.remove::<D>(param.id), self.1.remove::<D>(param.id)) {
                (Some(a), Some(b)) => a + b,
                (Some(one), None) | (None, Some(one)) => one,
                (None, None) => return,
            };
            self.0.register(param.id, total);
        }
    }
    module.visit(&mut Add(&mut sum, &mut more));
    sum
}

/// The global norm of a module's gradients.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct GlobalNorm {
    /// √Σ g², over all parameters, before clipping; `None` if some gradient is not finite.
    pub value: Option<f64>,
    /// The path of the first parameter whose gradient is NaN or infinite.
    pub non_finite: Option<String>,
}

/// Scales all gradients by min(1, max / (norm + 1e-6)), so that their direction stays: burn's own clipping is per tensor and turns it.
///
/// Gradients that are not finite are left alone and named.
///
/// # Errors
/// A device that failed.
pub fn clip_global_norm<M: Module>(module: &M, gradients: &mut GradientsParams, max: Option<f64>) -> Result<GlobalNorm> {
    let mut squares = Squares { gradients, path: Vec::new(), names: Vec::new(), sums: Vec::new() };
    module.visit(&mut squares);
    let Squares { names, sums, .. } = squares;
    if sums.is_empty() {
        return Ok(GlobalNorm { value: Some(0.0), non_finite: None });
    }
    // Parameters may be of several float types: the norm is taken in the widest.
    let widest = if sums.iter().any(|sum| sum.dtype() == DType::F64) { DType::F64 } else { DType::F32 };
    let sums = to_host(Tensor::cat(sums.into_iter().map(|sum| sum.cast(widest)).collect(), 0), "gradient norms")?; // [largest, Σ (g / largest)²] a parameter
    let mut total = 0.0f64;
    for (name, pair) in names.into_iter().zip(sums.chunks(2)) {
        if !pair[0].is_finite() || !pair[1].is_finite() {
            return Ok(GlobalNorm { value: None, non_finite: Some(name) });
        }
        total = total.hypot(pair[0] * pair[1].sqrt());
    }
    if let Some(max) = max
        && total > max
    {
        module.visit(&mut Scale { gradients, factor: max / (total + 1e-6) });
    }
    Ok(GlobalNorm { value: Some(total), non_finite: None })
}

struct Squares<'a> {
    gradients: &'a GradientsParams,
    path: Vec<String>,
    names: Vec<String>,
    sums: Vec<Tensor<1>>,
}

impl ModuleVisitor for Squares<'_> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }
    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.get::<D>(param.id) {
            let wide = precision(gradient.dtype());
            let gradient = gradient.cast(wide);
            // Scaled by the largest entry, so that squares neither overflow nor vanish in 32 bits; the floor serves a gradient of zeros.
            let largest = gradient.clone().abs().max(); // [1]
            let unit = gradient / largest.clone().clamp_min(f64::from(f32::MIN_POSITIVE)).unsqueeze();
            self.names.push(self.path.join("."));
            self.sums.push(Tensor::cat(vec![largest, unit.square().sum()], 0)); // [2]
        }
    }
}

struct Scale<'a> {
    gradients: &'a mut GradientsParams,
    factor: f64,
}

impl ModuleVisitor for Scale<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.remove::<D>(param.id) {
            self.gradients.register(param.id, gradient * self.factor);
        }
    }
}
