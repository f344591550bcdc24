//! What the tests of the loss share: a step as plain numbers, its way through the tensor path, and an oracle that knows no tensors.
#![allow(dead_code, reason = "each test file uses its part of this")]

pub mod configs;
pub mod models;
pub mod oracle;

use burn::Tensor;
use burn::tensor::{DType, Device, TensorData};
use grpo_core::{
    Batch, GroupId, GrpoConfig, LogProbKind, Metrics, OldLogProbs, Reference, ReferenceLogProbs, Row, SamplerLogProbs, Scores, StepStats,
    grpo_loss, to_host,
};

/// Rows of unequal length.
pub type Ragged<T = f64> = Vec<Vec<T>>;

/// One optimiser step as plain numbers. What stands at places that neither count nor are chosen is junk.
#[derive(Debug, Clone)]
pub struct Data {
    pub groups: Vec<u64>,
    pub mask: Ragged<bool>,
    pub chosen: Ragged<bool>,
    pub advantages: Ragged,
    pub new: Ragged,
    /// `None`: no optimiser step happened since sampling.
    pub old: Option<Ragged>,
    pub sampler: Ragged,
    pub reference: Ragged,
    /// The part of an entropy that does not depend on the log-probability: see [`entropy`].
    pub entropies: Ragged,
    /// What stands at padding.
    pub junk: f64,
    pub dtype: DType,
}

/// What came out of the tensor path.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub loss: f64,
    /// ∂loss/∂log π, padding cut off.
    pub gradient: Ragged,
    pub metrics: Metrics,
}

/// A stand-in for the entropy at a token, and for its exact KL: functions of log π, so that gradients flow.
pub fn entropy(base: f64, lp: f64) -> f64 {
    base + 0.1 * lp * lp
}

/// A small generator: the same numbers on every machine.
#[derive(Debug, Clone)]
pub struct Dice(pub u64);

impl Dice {
    /// In [0, 1).
    pub fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.unit() * n as f64) as usize
    }
}

const JUNK: [f64; 5] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e30, -1e30];

impl Data {
    /// Random log-probabilities and advantages on ragged masks with holes: row i belongs to `groups[i]`, has `lengths[i]` tokens.
    pub fn random(seed: u64, groups: &[u64], lengths: &[usize]) -> Self {
        let mut data = Self::sound(seed, groups, lengths);
        data.litter();
        data
    }

    /// The same without junk.
    fn sound(seed: u64, groups: &[u64], lengths: &[usize]) -> Self {
        let mut dice = Dice(seed);
        let mut ragged =
            |low: f64, high: f64| -> Ragged { lengths.iter().map(|&len| (0..len).map(|_| dice.between(low, high)).collect()).collect() };
        let (new, entropies) = (ragged(-3.0, -0.05), ragged(0.1, 2.0));
        let near = |from: &Ragged, by: Ragged| -> Ragged {
            from.iter().zip(by).map(|(a, b)| a.iter().zip(b).map(|(a, b)| (a + b).min(-0.01)).collect()).collect()
        };
        let old = near(&new, ragged(-0.6, 0.6));
        let sampler = near(&old, ragged(-0.8, 0.8));
        let reference = near(&new, ragged(-1.0, 1.0));
        let draws = ragged(0.0, 1.0);
        let mask: Ragged<bool> = draws.iter().map(|row| row.iter().map(|&u| u < 0.8).collect()).collect();
        let chosen = draws.iter().map(|row| row.iter().map(|&u| !(0.3..=0.9).contains(&u)).collect()).collect();
        let advantages = lengths.iter().map(|&len| vec![dice.between(-2.0, 2.0); len]).collect();
        Self {
            groups: groups.to_vec(),
            mask,
            chosen,
            advantages,
            new,
            old: Some(old),
            sampler,
            reference,
            entropies,
            junk: f64::NAN,
            dtype: DType::F64,
        }
    }

    /// Two uneven groups of two and three completions of unequal length, with holes and one row without a token of the loss.
    pub fn ragged(seed: u64) -> Self {
        let mut data = Self::sound(seed, &[7, 7, 3, 3, 3], &[4, 7, 3, 5, 2]);
        data.mask[2] = vec![false; 3];
        data.mask[0][0] = true;
        data.mask[1][6] = true;
        data.mask[3][1] = true;
        data.mask[4][0] = true;
        data.litter();
        data
    }

    /// Rows that all count, with these numbers. Old, sampler and reference are the new ones until set.
    pub fn rows(new: &[&[f64]], advantages: &[f64]) -> Self {
        let new: Ragged = new.iter().map(|row| row.to_vec()).collect();
        let like = |value: f64| -> Ragged { new.iter().map(|row| vec![value; row.len()]).collect() };
        Self {
            groups: vec![0; new.len()],
            mask: new.iter().map(|row| vec![true; row.len()]).collect(),
            chosen: new.iter().map(|row| vec![false; row.len()]).collect(),
            advantages: new.iter().zip(advantages).map(|(row, &a)| vec![a; row.len()]).collect(),
            old: Some(new.clone()),
            sampler: new.clone(),
            reference: new.clone(),
            entropies: like(1.0),
            new,
            junk: f64::NAN,
            dtype: DType::F64,
        }
    }

    /// One completion whose old log-probabilities are −1 and whose ratios are these.
    pub fn of_ratios(ratios: &[f64], advantage: f64) -> Self {
        let new: Vec<f64> = ratios.iter().map(|r| r.ln() - 1.0).collect();
        let mut data = Self::rows(&[&new], &[advantage]);
        data.old = Some(vec![vec![-1.0; ratios.len()]]);
        data
    }

    /// Puts absurd values at every place that is read by nothing.
    pub fn litter(&mut self) {
        let mut turn = 0;
        for i in 0..self.mask.len() {
            for t in (0..self.mask[i].len()).filter(|&t| !self.mask[i][t]).collect::<Vec<_>>() {
                let mut next = || {
                    turn += 1;
                    JUNK[turn % JUNK.len()]
                };
                self.advantages[i][t] = next();
                self.sampler[i][t] = next();
                self.reference[i][t] = next();
                self.entropies[i][t] = next();
                if let Some(old) = &mut self.old {
                    old[i][t] = next();
                }
                if !self.chosen[i][t] {
                    self.new[i][t] = next();
                }
            }
        }
        self.junk = JUNK[turn % JUNK.len()];
    }

    /// The same with `more` masked tokens behind every row.
    pub fn padded(&self, more: usize) -> Self {
        let mut data = self.clone();
        fn longer<T: Clone>(rows: &mut Ragged<T>, more: usize, with: T) {
            rows.iter_mut().for_each(|row| row.extend(vec![with.clone(); more]));
        }
        longer(&mut data.mask, more, false);
        longer(&mut data.chosen, more, false);
        for rows in [&mut data.advantages, &mut data.new, &mut data.sampler, &mut data.reference, &mut data.entropies] {
            longer(rows, more, 1e30);
        }
        if let Some(old) = &mut data.old {
            longer(old, more, -1e30);
        }
        data
    }

    /// The rows in another order.
    pub fn permuted(&self, order: &[usize]) -> Self {
        fn pick<T: Clone>(rows: &[T], order: &[usize]) -> Vec<T> {
            order.iter().map(|&i| rows[i].clone()).collect()
        }
        Self {
            groups: pick(&self.groups, order),
            mask: pick(&self.mask, order),
            chosen: pick(&self.chosen, order),
            advantages: pick(&self.advantages, order),
            new: pick(&self.new, order),
            old: self.old.as_ref().map(|old| pick(old, order)),
            sampler: pick(&self.sampler, order),
            reference: pick(&self.reference, order),
            entropies: pick(&self.entropies, order),
            ..*self
        }
    }

    /// All rows in one micro-batch.
    pub fn whole(&self) -> Vec<Vec<usize>> {
        vec![(0..self.groups.len()).collect()]
    }

    fn tensor(&self, values: &Ragged, rows: &[usize], width: usize) -> Tensor<2> {
        let padded: Vec<f64> = rows
            .iter()
            .flat_map(|&i| values[i].iter().copied().chain(std::iter::repeat(self.junk)).take(width).collect::<Vec<_>>())
            .collect();
        Tensor::from_data(TensorData::new(padded, [rows.len(), width]), (&Device::flex(), self.dtype))
    }

    fn width(&self, rows: &[usize]) -> usize {
        rows.iter().map(|&i| self.mask[i].len()).max().unwrap_or(0)
    }

    /// A micro-batch of these rows.
    pub fn batch(&self, rows: &[usize]) -> Batch {
        let tokens: Vec<Vec<u32>> = self.mask.iter().map(|row| vec![1; row.len()]).collect();
        let made: Vec<Row<'_>> = rows
            .iter()
            .map(|&i| Row {
                prompt: 0,
                group: GroupId(self.groups[i]),
                tokens: &tokens[i],
                mask: self.mask[i].clone(),
                advantages: self.advantages[i].clone(),
            })
            .collect();
        let mut batch = Batch::from_rows(&[&[0]], &made, 1.0, &Device::flex()).unwrap();
        let width = self.width(rows);
        if let Some(old) = &self.old {
            batch.set_old(OldLogProbs::new(self.tensor(old, rows, width)).unwrap()).unwrap();
        }
        let sampler = SamplerLogProbs::new(self.tensor(&self.sampler, rows, width)).unwrap();
        batch.set_sampler(sampler, LogProbKind::Tempered).unwrap();
        let reference = ReferenceLogProbs::new(self.tensor(&self.reference, rows, width)).unwrap();
        batch.set_reference(Reference::LogProbs(reference)).unwrap();
        batch.choose(&rows.iter().map(|&i| self.chosen[i].clone()).collect::<Vec<_>>()).unwrap();
        batch
    }

    /// Scores of these rows, and the leaf that receives their gradient.
    pub fn scores(&self, rows: &[usize]) -> (Scores, Tensor<2>) {
        let width = self.width(rows);
        let leaf = self.tensor(&self.new, rows, width).autodiff().require_grad();
        let mut scores = Scores::new(leaf.clone());
        // The square would make 0 · ∞ of junk in its own backward pass; the junk of what follows is the loss's to mask.
        let junk = leaf.clone().inner().is_finite().bool_not().bool_or(leaf.clone().inner().abs().greater_elem(1e20)); // [N, Tc]
        let square = leaf.clone().mask_fill(junk, 0.0).square() * 0.1; // [N, Tc]
        let entropies = self.tensor(&self.entropies, rows, width); // [N, Tc]
        scores.kl = Some(square.clone() + entropies.clone().mask_fill(entropies.clone().abs().lower_elem(1e20), 0.0));
        scores.entropies = Some(square + entropies);
        (scores, leaf)
    }

    /// The stats of these micro-batches, observed where the configuration needs it.
    pub fn stats(&self, parts: &[Vec<usize>], config: &GrpoConfig) -> StepStats {
        let batches: Vec<Batch> = parts.iter().map(|rows| self.batch(rows)).collect();
        let mut stats = StepStats::of(&batches);
        if config.needs_step() {
            for (rows, batch) in parts.iter().zip(&batches) {
                stats.observe(batch, &self.scores(rows).0, config).unwrap();
            }
            stats.finish(config);
        }
        stats
    }

    /// One step in one micro-batch.
    pub fn run(&self, config: &GrpoConfig) -> Outcome {
        self.run_in(config, &self.whole())
    }

    /// One step in several micro-batches.
    pub fn run_in(&self, config: &GrpoConfig, parts: &[Vec<usize>]) -> Outcome {
        let stats = self.stats(parts, config);
        self.run_with(config, parts, &stats)
    }

    /// These micro-batches of a step whose stats are known.
    pub fn run_with(&self, config: &GrpoConfig, parts: &[Vec<usize>], stats: &StepStats) -> Outcome {
        let mut outcome =
            Outcome { loss: 0.0, gradient: self.mask.iter().map(|row| vec![0.0; row.len()]).collect(), metrics: Metrics::default() };
        for rows in parts {
            let (scores, leaf) = self.scores(rows);
            let output = grpo_loss(&scores, &self.batch(rows), stats, config).unwrap();
            outcome.loss += to_host(output.loss.clone(), "loss").unwrap()[0];
            let gradient = to_host(leaf.grad(&output.loss.backward()).unwrap(), "gradient").unwrap();
            for (&i, row) in rows.iter().zip(gradient.chunks(self.width(rows))) {
                let (inside, padding) = row.split_at(self.mask[i].len());
                outcome.gradient[i] = inside.to_vec();
                assert!(padding.iter().all(|g| *g == 0.0), "padding has a gradient: {padding:?}");
            }
            outcome.metrics.merge(&output.metrics().unwrap());
        }
        outcome
    }
}

/// |a − b| ≤ tolerance · max(1, |b|).
#[track_caller]
pub fn close(a: f64, b: f64, tolerance: f64, what: &str) {
    assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "{what}: {a} is not {b}");
}

/// The same for each entry.
#[track_caller]
pub fn all_close(a: &Ragged, b: &Ragged, tolerance: f64, what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        for (t, (&x, &y)) in a.iter().zip(b).enumerate() {
            close(x, y, tolerance, &format!("{what}, row {i}, token {t}"));
        }
    }
}
