//! What observers are told of groups.

use std::borrow::Cow;
use std::collections::HashMap;

use burn::module::Module;
use grpo_core::{Completion, Group, GroupId, Policy, RewardTable};

use crate::collect::Seen;
use crate::error::Result;
use crate::observe::{CompletionRecord, GroupRecord};
use crate::run::Run;
use crate::state::Pending;
use crate::trainer::{Decode, Task};

impl<T: Task, P: Policy + Module> Run<'_, T, P> {
    /// Tells observers of the groups of a rollout, also of those that were left out. Without observers nothing is written out.
    pub(crate) fn told(&mut self, seen: &Seen<T>, pending: Option<&Pending<T>>) -> Result<()> {
        if self.trainer.observers.is_empty() || seen.is_empty() {
            return Ok(());
        }
        let advantages = pending.map(by_group).unwrap_or_default();
        let decode = self.trainer.decode.take();
        let records: Vec<GroupRecord<'_>> =
            seen.iter().flat_map(|(groups, table)| records(groups, table, &advantages, decode.as_ref())).collect();
        let step = self.state.step;
        let told = self.trainer.observed(|observer| observer.on_groups(step, &records));
        drop(records);
        self.trainer.decode = decode;
        told
    }
}

/// The advantages of each new group's completions.
fn by_group<T>(pending: &Pending<T>) -> HashMap<GroupId, Vec<f64>> {
    let mut means = pending.advantages.means().into_iter();
    pending.groups.iter().take(pending.fresh).map(|group| (group.id, means.by_ref().take(group.completions.len()).collect())).collect()
}

fn records<'a, T>(
    groups: &'a [Group<T>],
    table: &'a RewardTable,
    advantages: &HashMap<GroupId, Vec<f64>>,
    decode: Option<&Decode>,
) -> Vec<GroupRecord<'a>> {
    let columns: Vec<Vec<Option<f64>>> = (0..table.names.len()).map(|function| table.column(function)).collect();
    let (totals, mut row) = (table.totals(), 0);
    let mut records = Vec::with_capacity(groups.len());
    for group in groups {
        let mine = advantages.get(&group.id);
        let mut completions = Vec::with_capacity(group.completions.len());
        for (place, completion) in group.completions.iter().enumerate() {
            completions.push(CompletionRecord {
                text: text_of(completion, decode),
                tokens: completion.tokens.len(),
                finish: completion.finish,
                rewards: table
                    .names
                    .iter()
                    .zip(&columns)
                    .map(|(name, column)| (name.as_str(), column.get(row).copied().flatten()))
                    .collect(),
                total: totals.get(row).copied().flatten(),
                advantage: mine.and_then(|mine| mine.get(place).copied()),
            });
            row += 1;
        }
        let prompt = decode.map_or_else(|| format!("{:?}", group.prompt.tokens), |decode| decode(&group.prompt.tokens));
        records.push(GroupRecord { id: group.id, prompt: Cow::Owned(prompt), completions });
    }
    records
}

fn text_of<'a>(completion: &'a Completion, decode: Option<&Decode>) -> Cow<'a, str> {
    match decode {
        _ if !completion.text.is_empty() => Cow::Borrowed(&completion.text),
        Some(decode) => Cow::Owned(decode(&completion.tokens)),
        None => Cow::Owned(format!("{:?}", completion.tokens)),
    }
}
