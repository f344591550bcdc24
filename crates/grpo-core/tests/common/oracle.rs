//! The loss once more, in plain f64, a token at a time: slow, and written from the formulas rather than from the tensor path.
//!
//! Log-probabilities come twice: `new` is what a derivative is taken by, `frozen` stands wherever the formula says "no gradient through
//! this". Both are the same numbers when a value is wanted.

use grpo_core::{
    Addition, ClipRange, CountedRows, Divergence, DualClip, GrpoConfig, KlEstimator, KlGradient, Objective, OldSource, OutOfBounds,
    RatioLevel, Reduction, RejectionLevel, WeightLevel, WeightNormalisation,
};

use super::{Data, Ragged, entropy};

/// The loss of a step, cut into micro-batches `parts`.
pub fn loss(data: &Data, config: &GrpoConfig, parts: &[Vec<usize>], new: &Ragged, frozen: &Ragged) -> f64 {
    Step::new(data, config, frozen).loss(parts, new)
}

/// ∂loss/∂log π of every token by central differences, with what is frozen held; and the one-sided ones, for kinks.
pub fn differences(data: &Data, config: &GrpoConfig, parts: &[Vec<usize>], i: usize, t: usize, h: f64) -> (f64, f64, f64) {
    let step = Step::new(data, config, &data.new);
    let at = |by: f64| {
        let mut new = data.new.clone();
        new[i][t] += by;
        step.loss(parts, &new)
    };
    let (below, here, above) = (at(-h), at(0.0), at(h));
    ((above - below) / (2.0 * h), (here - below) / h, (above - here) / h)
}

struct Step<'a> {
    data: &'a Data,
    config: &'a GrpoConfig,
    frozen: &'a Ragged,
    old: Ragged,
    /// Tokens that count, row by row.
    tokens: Vec<Vec<usize>>,
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.fold((0.0, 0), |(sum, n), v| (sum + v, n + 1));
    if n == 0 { 0.0 } else { sum / f64::from(n) }
}

fn clip(v: f64, range: ClipRange) -> f64 {
    v.max(1.0 - range.low).min(1.0 + range.high)
}

impl<'a> Step<'a> {
    fn new(data: &'a Data, config: &'a GrpoConfig, frozen: &'a Ragged) -> Self {
        let old = match config.off_policy.old {
            OldSource::Sampler => data.sampler.clone(),
            _ => data.old.clone().unwrap_or_else(|| frozen.clone()),
        };
        let tokens = data.mask.iter().map(|row| (0..row.len()).filter(|&t| row[t]).collect()).collect();
        Self { data, config, frozen, old, tokens }
    }

    fn all(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.tokens.iter().enumerate().flat_map(|(i, row)| row.iter().map(move |&t| (i, t)))
    }

    fn x(&self, lp: &Ragged, i: usize, t: usize) -> f64 {
        lp[i][t] - self.old[i][t]
    }

    fn bounded(&self, x: f64) -> f64 {
        self.config.log_ratio_bound.map_or(x, |b| {
            if x > b {
                b
            } else if x < -b {
                -b
            } else {
                x
            }
        })
    }

    fn token_ratio(&self, lp: &Ragged, i: usize, t: usize) -> f64 {
        self.bounded(self.x(lp, i, t)).exp()
    }

    fn row_x(&self, lp: &Ragged, i: usize) -> f64 {
        self.tokens[i].iter().map(|&t| self.x(lp, i, t)).sum()
    }

    /// The ratio at the level of the configuration, `new` differentiated.
    fn ratio(&self, new: &Ragged, i: usize, t: usize) -> f64 {
        let n = self.tokens[i].len() as f64;
        let x = match self.config.ratio {
            RatioLevel::Token => self.x(new, i, t),
            RatioLevel::Sequence => self.row_x(new, i) / n,
            RatioLevel::SequenceToken => self.row_x(self.frozen, i) / n + new[i][t] - self.frozen[i][t],
            RatioLevel::SequenceSum => self.row_x(new, i),
            _ => unreachable!(),
        };
        self.bounded(x).exp()
    }

    fn loss(&self, parts: &[Vec<usize>], new: &Ragged) -> f64 {
        let (config, data) = (self.config, self.data);
        let mut total = 0.0;
        for (i, t) in self.all() {
            let mut l = self.policy(new, i, t) * self.kept(i, t) * self.correction(i, t);
            if let Some(kl) = config.kl.filter(|kl| kl.coefficient > 0.0) {
                l += kl.coefficient * self.kl(new, i, t, kl.estimator, kl.gradient, kl.value_bound);
            }
            for addition in &config.additions {
                if let Addition::SquaredDrift { coefficient } = addition {
                    l += coefficient * self.x(new, i, t).powi(2);
                }
            }
            total += l / self.divisor(parts, i);
        }
        if config.entropy.bonus != 0.0 {
            total -= config.entropy.bonus * mean(self.all().map(|(i, t)| entropy(data.entropies[i][t], new[i][t])));
        }
        for addition in &config.additions {
            if let Addition::CrossEntropy { coefficient } = addition {
                let chosen = (0..new.len()).flat_map(|i| (0..new[i].len()).map(move |t| (i, t))).filter(|&(i, t)| data.chosen[i][t]);
                total += coefficient * mean(chosen.map(|(i, t)| -new[i][t]));
            }
        }
        total
    }

    /// What a token's loss is divided by.
    fn divisor(&self, parts: &[Vec<usize>], i: usize) -> f64 {
        let size = |rows: &mut dyn Iterator<Item = usize>| rows.map(|row| self.tokens[row].len()).sum::<usize>() as f64;
        let group = self.data.groups[i];
        let rows = match self.config.counted_rows {
            CountedRows::All => self.tokens.len(),
            CountedRows::NonEmpty => self.tokens.iter().filter(|row| !row.is_empty()).count(),
        } as f64;
        match self.config.reduction {
            Reduction::SequenceMean => rows * (self.tokens[i].len() as f64 + self.config.length_epsilon),
            Reduction::TokenMean => size(&mut (0..self.tokens.len())),
            Reduction::MicroBatchTokenMean => {
                let part = parts.iter().find(|rows| rows.contains(&i)).unwrap();
                parts.len() as f64 * size(&mut part.iter().copied())
            }
            Reduction::PromptTokenMean => {
                let members = &mut (0..self.tokens.len()).filter(|&row| self.data.groups[row] == group);
                self.groups(false) * size(members)
            }
            Reduction::ConstantLength(length) => rows * length as f64,
            Reduction::SequenceSum => rows,
            Reduction::TokenSum => 1.0,
            _ => unreachable!(),
        }
    }

    /// How many groups have a token of the loss; or a rewarded completion with one, and another.
    fn groups(&self, mixed: bool) -> f64 {
        let mut ids = self.data.groups.clone();
        ids.sort_unstable();
        ids.dedup();
        let rewarded = |id: u64| {
            let members = (0..self.tokens.len()).filter(move |&i| self.data.groups[i] == id && !self.tokens[i].is_empty());
            members.map(|i| mean(self.tokens[i].iter().map(|&t| self.data.advantages[i][t])) > 0.0).collect::<Vec<_>>()
        };
        let counts = |id: &&u64| {
            let rewarded = rewarded(**id);
            if mixed { rewarded.contains(&true) && rewarded.contains(&false) } else { !rewarded.is_empty() }
        };
        ids.iter().filter(counts).count() as f64
    }

    fn policy(&self, new: &Ragged, i: usize, t: usize) -> f64 {
        let (a, lp, sg) = (self.data.advantages[i][t], new[i][t], self.frozen[i][t]);
        let (rho, held) = (self.ratio(new, i, t), self.ratio(self.frozen, i, t));
        let (pi, pi_old) = (sg.exp(), self.old[i][t].exp());
        match self.config.objective {
            Objective::Clipped { clip: range, dual } => match dual {
                DualClip::None => self.ppo(rho, a, range),
                DualClip::RatioCap(cap) => -(rho.min(cap) * a).min(clip(rho, range) * a),
                DualClip::LossCap(cap) => {
                    let l = self.ppo(rho, a, range);
                    if a < 0.0 { l.min(-cap * a) } else { l }
                }
                _ => unreachable!(),
            },
            Objective::ImportanceSampling => -rho * a,
            Objective::Reinforce => -a * lp,
            Objective::Cispo { cap } => -held.min(cap.0) * a * lp,
            Objective::CispoTwoSided { clip: range } => -clip(held, range) * a * lp,
            Objective::Gmpo { low, high, length_epsilon } => {
                let n = self.tokens[i].len() as f64 + length_epsilon;
                let mean_a = self.tokens[i].iter().map(|&k| self.data.advantages[i][k]).sum::<f64>() / n;
                let q = self.tokens[i].iter().map(|&k| {
                    let x = self.bounded(self.x(new, i, k));
                    let inside = x.max(-low).min(high);
                    if self.data.advantages[i][k] > 0.0 { x.min(inside) } else { x.max(inside) }
                });
                -mean_a * (q.sum::<f64>() / n).exp()
            }
            Objective::Sapo { positive, negative } => {
                let tau = if a > 0.0 { positive } else { negative };
                -4.0 / tau * a / (1.0 + (-tau * (rho - 1.0)).exp())
            }
            Objective::Vespo { positive, negative } => {
                let shape = if a >= 0.0 { positive } else { negative };
                let sum: f64 = self.tokens[i].iter().map(|&k| self.x(self.frozen, i, k).clamp(-20.0, 20.0)).sum();
                let w = sum.max(1e-8f64.ln()).min(20.0);
                -(shape.lambda + shape.k * w - shape.lambda * w.exp()).exp() * a * lp
            }
            Objective::DppoTv { range, cap } => {
                let out = if a > 0.0 { pi - pi_old > range.high } else { pi - pi_old < -range.low };
                if out { 0.0 } else { -held.min(cap.0) * a * lp }
            }
            Objective::DppoKl { range, cap } => {
                let d = pi_old * (pi_old / pi).ln() + (1.0 - pi_old) * ((1.0 - pi_old + 1e-8) / (1.0 - pi + 1e-8)).ln();
                let out = if a > 0.0 { d > range.high && pi > pi_old } else { d > range.low && pi < pi_old };
                if out { 0.0 } else { -held.min(cap.0) * a * lp }
            }
            Objective::ThresholdMask { threshold } => {
                if (pi - pi_old).abs() > threshold {
                    0.0
                } else {
                    -rho * a
                }
            }
            Objective::Dro { beta } => -(a * lp - beta / 2.0 * self.x(new, i, t).powi(2)),
            Objective::ClipCov { clip: range, low, high, .. } => {
                // Of a share of 1, every candidate is taken out.
                let c = self.covariance(i, t);
                let clipped = (held < 1.0 - range.low && a < 0.0) || (held > 1.0 + range.high && a > 0.0);
                if !clipped && c > low && c < high { 0.0 } else { self.ppo(rho, a, range) }
            }
            Objective::KlCov { fraction, coefficient } => {
                let mut all: Vec<f64> = self.all().map(|(i, t)| self.covariance(i, t)).collect();
                all.sort_by(|a, b| b.partial_cmp(a).unwrap());
                let n = ((fraction * all.len() as f64) as usize).max(1);
                let held = if self.covariance(i, t) >= all[n - 1] { 1.0 } else { 0.0 };
                -rho * a + held * coefficient * self.bounded(self.x(new, i, t)).abs()
            }
            Objective::Fipo { clip: range, half_life, weight_low, weight_high, safety } => {
                let unsafe_ = |k: usize| self.token_ratio(self.frozen, i, k) > safety;
                let future = self.tokens[i]
                    .iter()
                    .filter(|&&k| k >= t && !unsafe_(k))
                    .map(|&k| 0.5f64.powf((k - t) as f64 / half_life) * self.bounded(self.x(self.frozen, i, k)));
                let mut f = future.sum::<f64>().exp().max(weight_low).min(weight_high);
                if a < 0.0 && unsafe_(t) {
                    f = f.clamp(0.8, 1.0);
                }
                self.ppo(rho, a, range) * f
            }
            Objective::Real { temperature } => {
                let members = (0..new.len()).filter(|&j| self.data.groups[j] == self.data.groups[i] && !self.tokens[j].is_empty());
                let (mut lower, mut upper) = (vec![], vec![]);
                for j in members {
                    let s = mean(self.tokens[j].iter().map(|&k| self.bounded(self.x(new, j, k))));
                    let a = mean(self.tokens[j].iter().map(|&k| self.data.advantages[j][k]));
                    if a > 0.0 { upper.push((-s / temperature).exp()) } else { lower.push((s / temperature).exp()) }
                }
                let mixed = !lower.is_empty() && !upper.is_empty();
                let share = self.groups(false) / self.groups(true);
                if mixed { share * ((1.0 + lower.iter().sum::<f64>()).ln() + (1.0 + upper.iter().sum::<f64>()).ln()) } else { 0.0 }
            }
            _ => unreachable!(),
        }
    }

    fn ppo(&self, rho: f64, a: f64, range: ClipRange) -> f64 {
        (-rho * a).max(-clip(rho, range) * a)
    }

    fn covariance(&self, i: usize, t: usize) -> f64 {
        let a = mean(self.all().map(|(i, t)| self.data.advantages[i][t]));
        let lp = mean(self.all().map(|(i, t)| self.frozen[i][t]));
        (self.data.advantages[i][t] - a) * (self.frozen[i][t] - lp)
    }

    /// Whether the top-entropy mask keeps the token's policy term.
    fn kept(&self, i: usize, t: usize) -> f64 {
        let Some(fraction) = self.config.entropy.top_fraction.filter(|f| *f < 1.0) else { return 1.0 };
        let of = |(i, t): (usize, usize)| entropy(self.data.entropies[i][t], self.frozen[i][t]);
        let mut all: Vec<f64> = self.all().map(of).collect();
        all.sort_by(|a, b| a.partial_cmp(b).unwrap());
        let place = (1.0 - fraction) * (all.len() - 1) as f64;
        let (k, rest) = (place.floor() as usize, place.fract());
        let threshold = if rest == 0.0 { all[k] } else { all[k] * (1.0 - rest) + all[k + 1] * rest };
        f64::from(u8::from(of((i, t)) >= threshold))
    }

    /// log π_old − log π_sampler.
    fn mismatch(&self, i: usize, t: usize) -> f64 {
        self.old[i][t] - self.data.sampler[i][t]
    }

    fn weight(&self, i: usize, t: usize) -> f64 {
        let Some(weight) = self.config.off_policy.weight else { return 1.0 };
        let sum: f64 = self.tokens[i].iter().map(|&k| self.mismatch(i, k)).sum();
        let w = match weight.level {
            WeightLevel::Token => self.mismatch(i, t),
            WeightLevel::SequenceProduct => sum,
            WeightLevel::SequenceGeometric => sum / self.tokens[i].len() as f64,
            _ => unreachable!(),
        }
        .exp();
        match weight.outside {
            OutOfBounds::Truncate => w.max(weight.low).min(weight.high),
            OutOfBounds::Mask => {
                if w < weight.low || w > weight.high {
                    0.0
                } else {
                    w
                }
            }
            _ => unreachable!(),
        }
    }

    fn correction(&self, i: usize, t: usize) -> f64 {
        let off = &self.config.off_policy;
        let mut factor = self.weight(i, t);
        if off.weight.is_some_and(|w| w.normalise == WeightNormalisation::StepMean) {
            factor /= mean(self.all().map(|(i, t)| self.weight(i, t)));
        }
        if let Some(rule) = off.rejection {
            let of = |k: usize| {
                let x = self.mismatch(i, k);
                match rule.divergence {
                    Divergence::K1 => -x,
                    Divergence::K2 => x * x / 2.0,
                    Divergence::K3 => x.exp_m1() - x,
                    _ => unreachable!(),
                }
            };
            let row = || self.tokens[i].iter().map(|&k| of(k));
            let d = match rule.over {
                RejectionLevel::Token => of(t),
                RejectionLevel::SequenceMean => mean(row()),
                RejectionLevel::SequenceSum => row().sum(),
                RejectionLevel::SequenceMax => row().fold(f64::NEG_INFINITY, f64::max),
                _ => unreachable!(),
            };
            if d > rule.high || rule.low.is_some_and(|low| d < low) {
                factor = 0.0;
            }
        }
        if let Some(mask) = off.sequence_mask {
            let drift = mean(self.tokens[i].iter().map(|&k| match mask.from {
                OldSource::Sampler => self.data.sampler[i][k] - self.frozen[i][k],
                OldSource::Trainer => -self.x(self.frozen, i, k),
                _ => unreachable!(),
            }));
            if self.data.advantages[i][t] < 0.0 && drift > mask.limit {
                factor = 0.0;
            }
        }
        factor
    }

    fn kl(&self, new: &Ragged, i: usize, t: usize, estimator: KlEstimator, gradient: KlGradient, value_bound: Option<f64>) -> f64 {
        let value = |lp: f64| {
            let d = self.bounded(self.data.reference[i][t] - lp);
            let value = match estimator {
                KlEstimator::K1 => -d,
                KlEstimator::K2 => d * d / 2.0,
                KlEstimator::K3 => d.exp_m1() - d,
                KlEstimator::Abs => d.abs(),
                _ => return entropy(0.0, lp),
            };
            value_bound.map_or(value, |b| value.max(-b).min(b))
        };
        let k2 = |lp: f64| (self.data.reference[i][t] - lp).powi(2) / 2.0;
        match gradient {
            KlGradient::Plain => value(new[i][t]),
            KlGradient::RatioWeighted => {
                // Beyond a bound a constant: the ratio alone would push away from the reference.
                let d = self.data.reference[i][t] - self.frozen[i][t];
                let full = if estimator == KlEstimator::K1 { -d } else { self.bounded(d).exp_m1() - self.bounded(d) };
                let cut = self.bounded(d) != d || value_bound.is_some_and(|b| full.abs() > b);
                value(new[i][t]) * self.token_ratio(if cut { self.frozen } else { new }, i, t)
            }
            KlGradient::StraightThrough => value(self.frozen[i][t]) + k2(new[i][t]) - k2(self.frozen[i][t]),
            _ => unreachable!(),
        }
    }
}
