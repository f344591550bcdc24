//! Metrics of each reward function over a rollout.

use grpo_core::RewardTable;

/// What one function's rewards look like over a rollout.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// The function's name.
    pub name: String,
    /// The completions it applied to.
    pub applied: usize,
    /// The completions it did not apply to, failures that counted as missing among them.
    pub not_applicable: usize,
    /// The mean of its rewards, without weight; `None` where it applied to nothing.
    pub mean: Option<f64>,
    /// Their standard deviation, with n in the denominator.
    pub std: Option<f64>,
    /// The lowest.
    pub low: Option<f64>,
    /// The highest.
    pub high: Option<f64>,
}

/// One summary a function, in the table's order.
///
/// ```
/// use grpo_rewards::compose::summaries;
/// # use grpo_core::*;
/// # let sample = |text: &str| Completion::from_sample(Sample { tokens: vec![1], log_probs: vec![0.0], log_prob_kind: LogProbKind::Tempered, temperature: 1.0,
/// #     finish: FinishReason::EndToken, text: text.into(), policy_version: None }, 0).unwrap();
/// # let group = Group::new(GroupId(0), Prompt::new(vec![1], "2".to_owned()), vec![sample("2"), sample("3")])?;
/// let table = Rewards::<String>::new().with(2.0, grpo_rewards::answer::LineAnswer).score(&[group])?;
/// let line = &summaries(&table)[0];
/// assert_eq!((line.name.as_str(), line.mean, line.applied), ("line_answer", Some(0.5), 2));
/// # Ok::<(), grpo_core::Error>(())
/// ```
pub fn summaries(table: &RewardTable) -> Vec<Summary> {
    let one = |(index, name): (usize, &String)| {
        let column = table.column(index);
        let values: Vec<f64> = column.iter().flatten().copied().collect();
        let n = values.len() as f64;
        let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / n);
        Summary {
            name: name.clone(),
            applied: values.len(),
            not_applicable: column.len() - values.len(),
            mean,
            std: mean.map(|mean| (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt()),
            low: values.iter().copied().reduce(f64::min),
            high: values.iter().copied().reduce(f64::max),
        }
    };
    table.names.iter().enumerate().map(one).collect()
}
