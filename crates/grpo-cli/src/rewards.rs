//! Reward functions by name.

use grpo_core::{Completion, Rewards};
use grpo_rewards::answer::{ExactAnswer, Extract, LineAnswer, NumericAnswer, Thoughts, gold_text};
use grpo_rewards::format::{Format, Pattern};
use grpo_rewards::math::{MathAnswer, Search};

use crate::config::{Answers, Config, RewardConfig, RewardKind};
use crate::data::Task;
use crate::failure::Failure;

/// The reward functions of the settings.
pub fn build(config: &Config) -> Result<Rewards<Task>, Failure> {
    config.rewards.iter().try_fold(Rewards::new(), with)
}

fn with(rewards: Rewards<Task>, reward: &RewardConfig) -> Result<Rewards<Task>, Failure> {
    let weight = reward.weight;
    Ok(match reward.kind {
        RewardKind::Line => rewards.with(weight, LineAnswer),
        RewardKind::Exact => rewards.with(weight, ExactAnswer::new(extract(reward))),
        RewardKind::Numeric => rewards.with(weight, NumericAnswer::new(extract(reward))),
        RewardKind::Math => rewards.with(weight, MathAnswer::new(search(reward))),
        RewardKind::Format => match reward.tags.clone() {
            Some(tags) => rewards.with(weight, Format::tags(tags)),
            None => rewards.with(weight, Format::think_answer()),
        },
        RewardKind::Pattern => rewards.with(weight, Pattern::new(reward.pattern.as_deref().unwrap_or_default()).map_err(Failure::input)?),
        RewardKind::Code => rewards.with(weight, code::reward()?),
    })
}

/// Where `exact` and `numeric` find an answer. A number is the last one unless told otherwise.
fn extract(reward: &RewardConfig) -> Extract {
    match (&reward.from, reward.kind) {
        (Some(Answers::Boxed), _) => Extract::Boxed,
        (Some(Answers::Hash), _) => Extract::Hash,
        (Some(Answers::LastNumber), _) | (None, RewardKind::Numeric) => Extract::LastNumber,
        (Some(Answers::Tag(name)), _) => Extract::tag(name.clone()),
        _ => Extract::Whole,
    }
}

/// Where `math` finds an answer.
fn search(reward: &RewardConfig) -> Search {
    match &reward.from {
        Some(Answers::Boxed) => Search::Boxed,
        Some(Answers::Tag(name)) => Search::Tag(name.clone().into()),
        Some(Answers::Whole) => Search::Whole,
        _ => Search::Anywhere,
    }
}

/// What a completion answers, for the majority vote: as the first reward that looks for an answer finds it.
pub fn answers(config: &Config) -> impl Fn(&Task, &Completion) -> Option<String> + Send + use<> {
    let first = config.rewards.iter().find(|reward| !matches!(reward.kind, RewardKind::Format | RewardKind::Pattern)).cloned();
    move |_, completion| {
        let Some(reward) = &first else { return Some(completion.text.trim().to_owned()) };
        let text = Thoughts::default().cut(&completion.text)?;
        let found = match (reward.kind, &reward.from) {
            (RewardKind::Line, _) => Some(text.trim_start_matches([' ', '\t']).lines().next().unwrap_or_default()),
            (RewardKind::Math, None | Some(Answers::Anywhere)) => Extract::Boxed.from(text).or_else(|| Extract::LastNumber.from(text)),
            _ => extract(reward).from(text),
        };
        found.map(|answer| answer.trim().to_owned())
    }
}

/// What a completion looks like that a reward should find right, if that can be said: for `grpo check`.
pub fn right_answer(config: &Config, task: &Task) -> Option<String> {
    let gold = gold_text(&task.answer);
    let reward = config.rewards.iter().find(|reward| !matches!(reward.kind, RewardKind::Format | RewardKind::Pattern))?;
    let answer = match &reward.from {
        // The answer of a question that tests judge, if it has one, is a solution.
        None if reward.kind == RewardKind::Code && task.answer.is_empty() => return None,
        None if reward.kind == RewardKind::Code => format!("```python\n{}\n```", task.answer),
        Some(Answers::Boxed) => format!("\\boxed{{{gold}}}"),
        Some(Answers::Hash) => format!("#### {gold}"),
        Some(Answers::Tag(name)) => format!("<{name}>{gold}</{name}>"),
        _ => gold.to_owned(),
    };
    let wants_thoughts = config.rewards.iter().any(|reward| reward.kind == RewardKind::Format && reward.tags.is_none());
    Some(if wants_thoughts { format!("<think>so</think>\n{answer}") } else { answer })
}

/// The reward of code, where there is a sandbox.
#[cfg(target_os = "linux")]
mod code {
    use grpo_core::{BoxError, Completion, Reward, RewardFn};
    use grpo_rewards::code::{Check, CodeReward, CodeTask, Language, Launcher, Limits, Sandbox};

    use super::{Failure, Task};

    /// Runs the tests of a task in a sandbox.
    pub struct Tests(CodeReward);

    pub fn reward() -> Result<Tests, Failure> {
        let sandbox = Sandbox::new(Launcher::ThisProgram, Limits::default(), &[]).map_err(Failure::input)?;
        Ok(Tests(CodeReward::new(sandbox, Language::python().map_err(Failure::input)?)))
    }

    impl RewardFn<Task> for Tests {
        fn name(&self) -> &str {
            "code"
        }
        fn score(&self, task: &Task, completion: &Completion) -> Result<Reward, BoxError> {
            let checks = CodeTask { checks: task.tests.iter().cloned().map(Check::Script).collect() };
            Ok(self.0.judge(&checks, &completion.text)?)
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod code {
    use super::Failure;

    pub fn reward() -> Result<grpo_rewards::answer::LineAnswer, Failure> {
        Err(Failure::input("reward code: its sandbox needs Linux"))
    }
}
