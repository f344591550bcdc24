//! A decoder as a policy: completion tokens scored, prompts read once.

use burn::Tensor;
use burn::tensor::Device;
use grpo_core::{BoxError, Policy, ReferenceRows, ScoreRequest, Scores, TokenBatch, Want};
use grpo_kernels::{Ask, LinearRows, RowRequest, linear_row_stats};

use crate::decoder::{Decoder, index};
use crate::error::{Error, Result};

impl Policy for Decoder {
    /// Log-probabilities, entropies and exact KL of completion tokens. Places after a completion's end hold 0.
    ///
    /// The rows it gives are [`ReferenceRows::Hidden`], and it takes no others.
    fn score(&self, batch: &TokenBatch, ask: &ScoreRequest<'_>) -> Result<Scores, BoxError> {
        Ok(score(self, batch, ask)?)
    }
}

fn score(decoder: &Decoder, batch: &TokenBatch, ask: &ScoreRequest<'_>) -> Result<Scores> {
    let (n, tc) = (batch.completions().rows(), batch.completions().width());
    let plan = decoder.plan(batch)?;
    let device = decoder.device();
    let hidden = decoder.hidden(&plan); // [M, H]
    let head = decoder.head(); // [V, H]

    let mut request = RowRequest::new(ask.temperature);
    match ask.entropies {
        Want::No => {}
        Want::Value => request = request.with_entropy(Ask::Value),
        Want::Gradient => request = request.with_entropy(Ask::Gradient),
    }
    if let Some(reference) = ask.kl_to {
        let rows = reference_rows(reference, [n, tc], &plan.places, &device)?;
        request = request.with_kl(rows, Ask::Gradient);
    }
    let rows = LinearRows { hidden: hidden.clone(), weight: head.clone() };
    let stats = linear_row_stats(rows, index(plan.targets.clone(), &device), &request)?;

    let table = |values: Tensor<1>| plan.spread(values).reshape([n, tc]); // [N, Tc]
    let mut scores = Scores::new(table(stats.log_probs));
    scores.entropies = stats.entropies.map(table);
    scores.kl = stats.kl.map(table);
    if ask.rows != Want::No {
        let width = hidden.dims()[1];
        let hidden = plan.spread(hidden).reshape([n, tc, width]); // [N, Tc, H]
        scores.rows = Some(ReferenceRows::Hidden { hidden, head });
    }
    Ok(scores)
}

/// The reference's hidden states for each of the M tokens.
fn reference_rows(reference: &ReferenceRows, [n, tc]: [usize; 2], places: &[i64], device: &Device) -> Result<LinearRows> {
    let ReferenceRows::Hidden { hidden, head } = reference else {
        return Err(Error::input(
            "reference rows",
            "log-probabilities, must be hidden states and an output matrix, as a decoder's rows are",
        ));
    };
    let [given_n, given_tc, width] = hidden.dims();
    if [given_n, given_tc] != [n, tc] {
        return Err(Error::input("reference rows", format!("of {given_n} completions and {given_tc} tokens, must be of {n} and {tc}")));
    }
    let hidden = hidden.clone().reshape([n * tc, width]); // [N·Tc, H]
    let hidden = if places.len() == n * tc { hidden } else { hidden.select(0, index(places.to_vec(), device)) }; // [M, H]
    Ok(LinearRows { hidden, weight: head.clone() })
}
