//! What of a batch takes part, and with which advantage: changed after it was made.

use burn::Tensor;
use burn::tensor::TensorData;

use super::{Batch, host_f64};
use crate::advantage::Advantages;
use crate::error::{Error, Result};

impl Batch {
    /// Takes whole completions out of the loss, chosen tokens included, numerator and denominator: `true` entries of `[N]`. Count the
    /// step ([`StepStats`](crate::StepStats)) afterwards. They still were part of their group's baseline.
    ///
    /// # Errors
    /// Another number of entries than completions.
    pub fn ignore(&mut self, completions: &[bool]) -> Result<()> {
        let [n, width] = self.shape();
        Error::check_shape("ignored completions", &[completions.len()], &[n])?;
        for (row, _) in completions.iter().enumerate().filter(|(_, ignore)| **ignore) {
            self.mask_host[row * width..(row + 1) * width].fill(false);
            self.advantages_host[row * width..(row + 1) * width].fill(0.0);
            if let Some((chosen, _)) = &mut self.chosen {
                chosen[row * width..(row + 1) * width].fill(false);
            }
        }
        let device = self.mask.device();
        self.mask = Tensor::from_data(TensorData::new(self.mask_host.clone(), [n, width]), &device); // [N, Tc]
        self.advantages = host_f64(&self.advantages_host, [n, width], &device); // [N, Tc]
        if let Some((chosen, on_device)) = &mut self.chosen {
            *on_device = Tensor::from_data(TensorData::new(chosen.clone(), [n, width]), &device); // [N, Tc]
        }
        Ok(())
    }

    /// Sets advantages anew, one entry a completion: what [`kl_in_advantages`](crate::kl_in_advantages) gives, for instance.
    ///
    /// # Errors
    /// Another number of completions or tokens, a value of a token of the loss that is not finite.
    pub fn set_advantages(&mut self, advantages: &Advantages) -> Result<()> {
        let [n, width] = self.shape();
        Error::check_shape("advantages", &[advantages.len()], &[n])?;
        let mut values = vec![0.0; n * width];
        for (row, &len) in self.tokens.completions().lengths().iter().enumerate() {
            for (t, advantage) in advantages.row(row, len)?.into_iter().enumerate().filter(|(t, _)| self.mask_host[row * width + t]) {
                if !advantage.is_finite() {
                    return Err(Error::invalid("advantage", format!("completion {row}, token {t} has {advantage}, must be finite")));
                }
                values[row * width + t] = advantage;
            }
        }
        self.advantages = host_f64(&values, [n, width], &self.mask.device()); // [N, Tc]
        self.advantages_host = values;
        Ok(())
    }

    /// Chooses the tokens of [`Addition::CrossEntropy`](crate::Addition::CrossEntropy): one entry a token, completion after completion, unpadded.
    /// They need not be tokens of the loss: an environment's answers may be learnt, too.
    ///
    /// # Errors
    /// Lists whose lengths do not fit the completions.
    pub fn choose(&mut self, tokens: &[Vec<bool>]) -> Result<()> {
        let [n, width] = self.shape();
        Error::check_shape("chosen completions", &[tokens.len()], &[n])?;
        let mut chosen = vec![false; n * width];
        for (row, (tokens, place)) in tokens.iter().zip(chosen.chunks_mut(width)).enumerate() {
            Error::check_shape("chosen tokens of a completion", &[tokens.len()], &[self.tokens.completions().lengths()[row]])?;
            place[..tokens.len()].copy_from_slice(tokens);
        }
        let device = self.mask.device();
        let on_device = Tensor::from_data(TensorData::new(chosen.clone(), [n, width]), &device); // [N, Tc]
        self.chosen = Some((chosen, on_device));
        Ok(())
    }
}
