//! The first half of the straight line: prompts → rollout → rewards → advantages → batches.

use burn::module::Module;
use grpo_core::{
    AdvantageInput, Advantages, Estimator, Group, KlPlace, Metrics, Policy, ReplayBuffer, RewardTable, RolloutPlan, SelectionCounts,
    kl_in_advantages, kl_in_rewards, refill, rollout,
};
use serde_json::Value;

use crate::batches::Batches;
use crate::episode::rollout_episodes;
use crate::error::{Error, Result};
use crate::run::Run;
use crate::state::{Kept, Pending};
use crate::trainer::Task;

/// What a round of sampling came to.
pub(crate) enum Collected<T> {
    /// Something to train on.
    Rollout(Box<Pending<T>>, Batches),
    /// Groups, but none that is worth training on.
    Nothing,
    /// No prompt is left.
    UsedUp,
}

/// Where a run stood before a rollout.
pub(crate) struct Undo<T> {
    prompts: Value,
    draws: u64,
    replay: Option<ReplayBuffer<Kept<T>>>,
}

/// Groups that were judged, for those who watch.
pub(crate) type Seen<T> = Vec<(Vec<Group<T>>, RewardTable)>;

impl<T: Task, P: Policy + Module> Run<'_, T, P> {
    /// Samples and judges a rollout. If it fails, the run is where it was.
    pub(crate) fn collect(&mut self, policy: &P) -> Result<Collected<T>> {
        let prompts = self.trainer.prompts.state().map_err(Error::Prompts)?;
        self.undo = Some(Undo { prompts, draws: self.state.draws, replay: self.state.replay.clone() });
        let collected = self.try_collect(policy);
        if collected.is_err() {
            self.undo()?;
        }
        collected
    }

    /// Goes back to before the rollout, if no step was taken on it yet.
    pub(crate) fn undo(&mut self) -> Result<()> {
        let Some(Undo { prompts, draws, replay }) = self.undo.take() else { return Ok(()) };
        (self.state.draws, self.state.replay) = (draws, replay);
        (self.state.pending, self.batches, self.metrics) = (None, None, Metrics::default());
        self.trainer.prompts.restore(prompts).map_err(Error::Prompts)
    }

    fn try_collect(&mut self, policy: &P) -> Result<Collected<T>> {
        let frozen = policy.valid();
        let mut metrics = Metrics::default();
        let mut seen = Seen::new();
        let (groups, table, counts) = self.groups(&frozen, &mut metrics, &mut seen)?;
        if let Some(counts) = counts {
            metrics.merge(&counts.metrics());
        }
        let used_up = counts.map_or(groups.is_empty(), |counts| counts.seen == 0);
        if used_up {
            return Ok(Collected::UsedUp);
        }
        let fresh = groups.len();
        let (groups, table) = self.replayed(groups, table)?;
        if groups.is_empty() {
            self.told(&seen, None)?;
            self.metrics = metrics;
            return Ok(Collected::Nothing);
        }
        let advantages = self.advantages(&frozen, &groups, &table)?;
        let mut pending = Pending { groups, fresh, advantages, done: 0, version: self.state.step };
        let mut batches = self.batches(&pending, &frozen, None)?;
        self.kl_outside_the_loss(&mut pending, &table, &mut batches)?;
        if !self.trainer.observers.is_empty() && seen.is_empty() {
            let fresh = pending.groups.get(..fresh).unwrap_or_default().to_vec();
            seen.push((fresh, table));
        }
        self.told(&seen, Some(&pending))?;
        self.metrics = metrics;
        Ok(Collected::Rollout(Box::new(pending), batches))
    }

    /// Groups with their rewards: all that are drawn, or, where there is a filter, as many as pass it.
    fn groups(
        &mut self,
        frozen: &P,
        metrics: &mut Metrics,
        seen: &mut Seen<T>,
    ) -> Result<(Vec<Group<T>>, RewardTable, Option<SelectionCounts>)> {
        let Some(selection) = self.trainer.config.selection.clone() else {
            let (groups, table) = self.draw(frozen, self.trainer.config.prompts, metrics)?;
            return Ok((groups, table, None));
        };
        let watched = !self.trainer.observers.is_empty();
        // The core's errors are not ours: ours waits here.
        let mut ours = None;
        let selected = refill(self.trainer.config.refill(&selection), &selection.filter, |_, missing| {
            let (groups, table) = self.draw(frozen, missing, metrics).map_err(|error| match error {
                Error::Core(error) => error,
                other => {
                    ours = Some(other);
                    grpo_core::Error::invalid("groups", "could not be drawn")
                }
            })?;
            if watched {
                seen.push((groups.clone(), table.clone()));
            }
            Ok((groups, table))
        });
        match (selected, ours) {
            (_, Some(error)) => Err(error),
            (selected, None) => {
                let selected = selected?;
                Ok((selected.groups, selected.rewards, Some(selected.counts)))
            }
        }
    }

    /// One round of sampling: prompts → rollout → rewards.
    fn draw(&mut self, frozen: &P, count: usize, metrics: &mut Metrics) -> Result<(Vec<Group<T>>, RewardTable)> {
        let trainer = &mut *self.trainer;
        let prompts = trainer.prompts.next(count).map_err(Error::Prompts)?;
        let plan = RolloutPlan {
            group_size: trainer.config.group_size,
            params: trainer.config.sampling.clone(),
            seed: trainer.config.seed,
            step: self.state.draws,
            policy_version: self.state.step,
        };
        self.state.draws += 1;
        let groups = self.clock.time("rollout", || match (prompts.is_empty(), &mut trainer.environment) {
            (true, _) => Ok(Vec::new()),
            (false, None) => Ok(rollout(frozen, &mut trainer.sampler, prompts, &plan)?),
            (false, Some(environment)) => {
                rollout_episodes(frozen, &mut trainer.sampler, environment.as_mut(), prompts, &plan, &trainer.config.episodes)
            }
        })?;
        let table = self.clock.time("rewards", || trainer.rewards.score(&groups))?;
        trainer.prompts.judged(&groups, &table);
        metrics.merge(&Metrics::of_rollout(&groups, &table));
        Ok((groups, table))
    }

    /// Adds groups of earlier rollouts, and keeps the new ones for later ones.
    fn replayed(&mut self, mut groups: Vec<Group<T>>, mut table: RewardTable) -> Result<(Vec<Group<T>>, RewardTable)> {
        let (Some(buffer), Some(config)) = (&mut self.state.replay, self.trainer.config.replay) else { return Ok((groups, table)) };
        let step = self.state.step;
        if let Some(age) = config.max_age {
            let version = |kept: &Kept<T>| kept.group.completions.iter().map(|c| c.policy_version).min().unwrap_or(0);
            buffer.retain(|kept| step.saturating_sub(version(kept)) <= age);
        }
        let new: Vec<Kept<T>> = groups.iter().map(|group| Kept { group: group.clone(), rewards: table.of_group(group.id) }).collect();
        for kept in buffer.sample(config.groups) {
            groups.push(kept.group.clone());
            table.append(kept.rewards.clone())?;
        }
        buffer.extend(new);
        Ok((groups, table))
    }

    /// How much better each completion is than its group.
    fn advantages(&mut self, frozen: &P, groups: &[Group<T>], table: &RewardTable) -> Result<Advantages> {
        let mut input = AdvantageInput::from_rollout(groups, table)?;
        if self.trainer.config.grpo.estimator == Estimator::ReMax {
            input = input.with_baselines(self.greedy_rewards(frozen, groups)?);
        }
        Ok(self.trainer.config.grpo.estimator.estimate(&input)?)
    }

    /// The reward of each prompt's greedy answer, one entry a completion. An answer without a reward is an error: a baseline of 0 would be made up.
    fn greedy_rewards(&mut self, frozen: &P, groups: &[Group<T>]) -> Result<Vec<f64>> {
        let trainer = &mut *self.trainer;
        let params = trainer.config.sampling.clone().greedy();
        let plan =
            RolloutPlan { group_size: 1, params, seed: trainer.config.seed, step: self.state.draws, policy_version: self.state.step };
        let prompts = groups.iter().map(|g| g.prompt.clone()).collect();
        let greedy = self.clock.time("rollout", || match &mut trainer.environment {
            None => Ok(rollout(frozen, &mut trainer.sampler, prompts, &plan)?),
            Some(environment) => {
                rollout_episodes(frozen, &mut trainer.sampler, environment.as_mut(), prompts, &plan, &trainer.config.episodes)
            }
        })?;
        let totals = self.clock.time("rewards", || trainer.rewards.score(&greedy))?.totals();
        let mut baselines = Vec::new();
        for (group, total) in groups.iter().zip(totals) {
            let total = total
                .ok_or_else(|| Error::invalid("baseline of re_max", format!("group {}: its greedy answer has no reward", group.id.0)))?;
            baselines.extend(std::iter::repeat_n(total, group.completions.len()));
        }
        Ok(baselines)
    }

    /// Tensors, with what the policy and the reference say of them before the first update.
    pub(crate) fn batches(&mut self, pending: &Pending<T>, frozen: &P, saved: Option<Vec<u8>>) -> Result<Batches> {
        let (config, device, reference) = (&self.trainer.config, &self.device, self.reference.as_ref());
        self.clock.time("score", || {
            let mut batches = Batches::new(pending, config, saved, device)?;
            batches.score(frozen, reference, &config.loss())?;
            Ok(batches)
        })
    }

    /// A KL that acts in rewards or advantages: it needs the old and the reference's log-probabilities, so it comes after them. The loss
    /// measures it.
    fn kl_outside_the_loss(&self, pending: &mut Pending<T>, table: &RewardTable, batches: &mut Batches) -> Result<()> {
        let config = self.grpo();
        let Some(kl) = config.kl_outside_loss() else { return Ok(()) };
        let ratios: Vec<Vec<f64>> =
            batches.iter().map(grpo_core::Batch::log_ratios_to_reference).collect::<grpo_core::Result<Vec<_>>>()?.concat();
        let masks: Vec<Vec<bool>> = pending.groups.iter().flat_map(|g| &g.completions).map(|c| c.policy_mask()).collect();
        let advantages = if kl.place == KlPlace::Reward {
            let rewards = kl_in_rewards(&table.totals(), &ratios, &masks, kl.coefficient)?;
            let input = AdvantageInput::from_rollout(&pending.groups, table)?.with_token_rewards(rewards);
            config.estimator.estimate(&input)?
        } else {
            kl_in_advantages(&pending.advantages, &ratios, &masks, kl.coefficient)?
        };
        pending.advantages = advantages;
        let mut row = 0;
        for batch in batches.iter_mut() {
            let [n, _] = batch.shape();
            batch.set_advantages(&pending.advantages.slice(row..row + n))?;
            row += n;
        }
        Ok(())
    }
}
