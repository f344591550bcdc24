//! KL to the reference outside the loss: in the rewards, or in the advantages.

use super::Advantages;
use crate::error::{Error, Result};

/// Log-ratios log π − log π_ref that can be read: of the masks' shape, finite where a token counts.
fn check(log_ratios: &[Vec<f64>], masks: &[Vec<bool>], coefficient: f64) -> Result<()> {
    if !coefficient.is_finite() || coefficient < 0.0 {
        return Err(Error::config("KL coefficient", coefficient, "finite and at least 0"));
    }
    Error::check_shape("log-ratios", &[log_ratios.len()], &[masks.len()])?;
    for (row, (ratios, mask)) in log_ratios.iter().zip(masks).enumerate() {
        Error::check_shape("log-ratios of a completion", &[ratios.len()], &[mask.len()])?;
        if let Some(t) = ratios.iter().zip(mask).position(|(x, m)| *m && !x.is_finite()) {
            return Err(Error::invalid("log-ratio", format!("completion {row}, token {t} has {}, must be finite", ratios[t])));
        }
    }
    Ok(())
}

/// Token rewards with the KL penalty in them: −β · (log π − log π_ref) at each token of the loss, and the outcome at the last one.
///
/// The policy gradient of these rewards is that of the reverse KL: k1 has its place here, not in the loss.
/// A missing outcome has no reward at all: hand `outcomes` to [`with_rewards`](crate::AdvantageInput::with_rewards) as well.
///
/// ```
/// use grpo_core::kl_in_rewards;
/// let rewards = kl_in_rewards(&[Some(1.0)], &[vec![0.5, 9.0, -0.25]], &[vec![true, false, true]], 0.1)?;
/// assert_eq!(rewards, [[-0.05, 0.0, 1.025]]);
/// # Ok::<(), grpo_core::Error>(())
/// ```
///
/// # Errors
/// Shapes that do not fit, numbers that are not finite, a coefficient below 0.
///
/// # Source
/// arXiv 1909.08593; `use_kl_in_reward` of verl, the reward of REINFORCE++ (arXiv 2501.03262).
pub fn kl_in_rewards(outcomes: &[Option<f64>], log_ratios: &[Vec<f64>], masks: &[Vec<bool>], coefficient: f64) -> Result<Vec<Vec<f64>>> {
    check(log_ratios, masks, coefficient)?;
    Error::check_shape("outcomes", &[outcomes.len()], &[masks.len()])?;
    if let Some(row) = outcomes.iter().position(|outcome| outcome.is_some_and(|r| !r.is_finite())) {
        return Err(Error::invalid("outcome", format!("completion {row} has {:?}, must be finite or missing", outcomes[row])));
    }
    let row = |((outcome, ratios), mask): ((&Option<f64>, &Vec<f64>), &Vec<bool>)| {
        let mut rewards: Vec<f64> = ratios.iter().zip(mask).map(|(x, m)| if *m { -coefficient * x } else { 0.0 }).collect();
        if let Some(last) = mask.iter().rposition(|m| *m) {
            rewards[last] += outcome.unwrap_or(0.0);
        }
        rewards
    };
    Ok(outcomes.iter().zip(log_ratios).zip(masks).map(row).collect())
}

/// Advantages with the KL penalty in them: Â_t + β · (mean k1 − k1_t), k1 = log π − log π_ref, the mean over all tokens of the loss.
///
/// # Errors
/// Shapes that do not fit, numbers that are not finite, a coefficient below 0.
///
/// # Source
/// The `kl_penalty_coef` of tinker-cookbook (undiscounted).
pub fn kl_in_advantages(advantages: &Advantages, log_ratios: &[Vec<f64>], masks: &[Vec<bool>], coefficient: f64) -> Result<Advantages> {
    check(log_ratios, masks, coefficient)?;
    let mut rows = advantages.per_token(masks)?;
    for (row, (values, mask)) in rows.iter().zip(masks).enumerate() {
        if let Some((t, (bad, _))) = values.iter().zip(mask).enumerate().find(|(_, (a, m))| **m && !a.is_finite()) {
            return Err(Error::invalid("advantage", format!("completion {row}, token {t} has {bad}, must be finite")));
        }
    }
    let counted: Vec<f64> = log_ratios.iter().zip(masks).flat_map(|(r, m)| r.iter().zip(m).filter(|(_, m)| **m).map(|(x, _)| *x)).collect();
    let mean = counted.iter().sum::<f64>() / counted.len().max(1) as f64;
    for ((row, ratios), mask) in rows.iter_mut().zip(log_ratios).zip(masks) {
        row.iter_mut().zip(ratios).zip(mask).filter(|(_, m)| **m).for_each(|((a, x), _)| *a += coefficient * (mean - x));
    }
    Ok(Advantages::PerToken(rows))
}
