//! Terms that are one a completion; they stand at each of its tokens.

use burn::Tensor;
use burn::tensor::Bool;

use super::PolicyTerm;
use super::weighted::weighted;
use crate::config::VespoShape;
use crate::loss::terms::{Event, Terms};

/// ℓ = −Ā exp(Σ_t q_t / (L + ε)), q = sgn(Â) min(sgn(Â) x, sgn(Â) clip(x, −low, high)), Ā the mean of Â over the completion.
///
/// # Source
/// GMPO (arXiv 2507.20673); verl's `geo_mean`.
pub fn gmpo(terms: &Terms, low: f64, high: f64, length_epsilon: f64) -> PolicyTerm {
    let x = terms.token.log.clone(); // [N, Tc]
    let inside = x.clone().clamp(-low, high); // [N, Tc]
    let lengths = terms.mask.clone().sum_dim(1); // [N, 1]
    // A row without tokens has no mean; its sum is 0 whatever it is divided by.
    let divisor = (lengths.clone() + length_epsilon).mask_fill(lengths.equal_elem(0.0), 1.0); // [N, 1]
    let mean = terms.advantages.clone().sum_dim(1) / divisor.clone(); // [N, 1]
    let up = terms.advantages.clone().greater_elem(0.0); // [N, Tc]
    let down = terms.advantages.clone().lower_elem(0.0); // [N, Tc]
    let q = x.clone().zeros_like(); // [N, Tc], where Â = 0
    let q = q.mask_where(up.clone(), x.clone().min_pair(inside.clone())).mask_where(down.clone(), x.clone().max_pair(inside)); // [N, Tc]
    let ratio = (q.clone().sum_dim(1) / divisor).exp(); // [N, 1]
    let cut = q.inner().not_equal(x.inner()).bool_and(up.clone().bool_or(down.clone())); // [N, Tc]
    PolicyTerm::new(terms.spread((mean * ratio).neg()))
        .with(terms, "clip_ratio/low_mean", cut.clone().bool_and(down))
        .with(terms, "clip_ratio/high_mean", cut.clone().bool_and(up))
        .with(terms, "clip_ratio/region_mean", cut)
}

/// ℓ = −sg(φ) Â log π, φ = exp(λ + k w − λ e^w), w = Σ_t x_t (each within ± 20, the sum within [ln 1e-8, 20]). φ(0) = 1.
///
/// # Source
/// VESPO (arXiv 2602.10693); bounds as in TRL.
pub fn vespo(terms: &Terms, positive: VespoShape, negative: VespoShape) -> PolicyTerm {
    let x = terms.token.raw.clone().inner().clamp(-20.0, 20.0); // [N, Tc]
    let w = x.sum_dim(1).clamp(1e-8f64.ln(), 20.0); // [N, 1]
    // λ + k w − λ e^w ≤ k ln(k/λ) − k + λ: the exponent is bounded above, and e^w by e^20.
    let phi = |shape: VespoShape| (w.clone() * shape.k + shape.lambda - w.clone().exp() * shape.lambda).exp(); // [N, 1]
    let choose = |at: Tensor<2, Bool>, width: usize| {
        let wide = |rows: Tensor<2>| rows.expand([at.dims()[0], width]);
        wide(phi(negative)).mask_where(at.clone(), wide(phi(positive)))
    };
    let weight = choose(terms.advantages.clone().greater_equal_elem(0.0), terms.mask.dims()[1]); // [N, Tc]
    let of_rows = choose(terms.row_mean(terms.advantages.clone()).greater_equal_elem(0.0), 1); // [N, 1]
    let mut term = PolicyTerm::new(weighted(terms, weight));
    term.events.push(Event::of_completions("vespo/phi_seq_mean", of_rows));
    term
}
