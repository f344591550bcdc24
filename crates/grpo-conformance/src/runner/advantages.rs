//! advantages.json, advantages_multi.json, advantages_token.json

use grpo_core::{
    AdvantageInput, Advantages, AfterSum, Completion, Estimator, FinishReason, Gae, Group, GroupId, Lambda, LogProbKind, NormaliseThenSum,
    Opo, PassAtK, Prompt, ReinforcePlusPlus, ReinforcePlusPlusBaseline, Reward, Rewards, Rloo, Sample, Standardise, Uninformative,
    discounted_returns, from_fn,
};

use super::{Check, Golden, Library, Step, Stop};
use crate::cases::{
    Aggregation, Ddof, Matrix, Method, MultiCase, MultiParams, ScalarCase, ScalarParams, Scale, Singleton, TokenCase, TokenMethod,
    TokenParams, fits,
};
use crate::compare::Compare;
use crate::reference::{advantages as plain, token_advantages as plain_tokens};

pub(crate) fn ddof(ddof: Ddof) -> grpo_core::Ddof {
    if ddof.0 == 0 { grpo_core::Ddof::Population } else { grpo_core::Ddof::Sample }
}

fn scale(scale: Scale) -> grpo_core::Scale {
    match scale {
        Scale::Group => grpo_core::Scale::Group,
        Scale::Batch => grpo_core::Scale::Batch,
        Scale::None => grpo_core::Scale::None,
    }
}

fn singleton(singleton: Singleton) -> grpo_core::Singleton {
    match singleton {
        Singleton::NotApplicable => grpo_core::Singleton::Refuse,
        Singleton::Zero => grpo_core::Singleton::Zero,
        Singleton::Raw => grpo_core::Singleton::Raw,
    }
}

fn groups(rows: usize, group_size: usize) -> Vec<GroupId> {
    (0..rows).map(|row| GroupId((row / group_size) as u64)).collect()
}

pub(crate) fn per_completion(advantages: Advantages) -> Result<Vec<f64>, Stop> {
    match advantages {
        Advantages::PerCompletion(rows) => Ok(rows),
        other => Err(Stop::Broken(format!("one advantage a completion was expected, got {other:?}"))),
    }
}

/// The library's estimator for a method, as JSON names it.
fn estimator(method: Method, p: &ScalarParams) -> Estimator {
    let standardise = Standardise { scale: scale(p.scale), ddof: ddof(p.ddof), epsilon: p.eps, singleton: singleton(p.singleton) };
    match method {
        Method::Grpo => Estimator::Standardise(standardise),
        Method::DrGrpo => Estimator::Standardise(Standardise { singleton: singleton(p.singleton), ..Standardise::centred() }),
        Method::Rloo => Estimator::Rloo(Rloo { singleton: singleton(p.singleton) }),
        Method::PassAtK => Estimator::PassAtK(PassAtK {
            scale: if p.normalize_by_std { grpo_core::Scale::Group } else { grpo_core::Scale::None },
            ddof: ddof(p.ddof),
            epsilon: p.eps,
            singleton: singleton(p.singleton),
        }),
    }
}

impl Golden for ScalarCase {
    fn validate(&self) -> Result<(), String> {
        ScalarCase::validate(self)?;
        self.expected.iter().try_for_each(|result| fits("advantages", result.advantages.len(), self.rewards.len()))
    }

    fn checks(&self) -> Vec<Check<'_>> {
        let label = |method, p: &ScalarParams| {
            format!("{method:?} {:?} ddof {} eps {:e} {:?} by_std {}", p.scale, p.ddof.0, p.eps, p.singleton, p.normalize_by_std)
        };
        self.expected
            .iter()
            .map(|result| Check {
                variant: label(result.method, &result.params),
                reference: Box::new(move |seen| {
                    let got = plain::scalar(result.method, &result.params, &self.rewards, self.group_size);
                    seen.vector("advantages", &got, &result.advantages);
                    Ok(())
                }),
                library: Library::Host(Box::new(move |seen| {
                    let rewards: Vec<Option<f64>> = self.rewards.iter().map(|&r| Some(r)).collect();
                    let ids = groups(rewards.len(), self.group_size);
                    let got = per_completion(estimator(result.method, &result.params).advantages(&rewards, &ids)?)?;
                    seen.vector("advantages", &got, &result.advantages);
                    Ok(())
                })),
            })
            .collect()
    }
}

impl Golden for MultiCase {
    fn validate(&self) -> Result<(), String> {
        MultiCase::validate(self)?;
        self.expected.iter().try_for_each(|result| fits("advantages", result.advantages.len(), self.rewards.len()))
    }

    fn checks(&self) -> Vec<Check<'_>> {
        self.expected
            .iter()
            .map(|result| Check {
                variant: format!("{:?} {:?}", result.aggregation, result.params.scale),
                reference: Box::new(move |seen| {
                    seen.vector("advantages", &plain::multi(result.aggregation, &result.params, self), &result.advantages);
                    Ok(())
                }),
                library: Library::Host(Box::new(move |seen| {
                    seen.vector("advantages", &self.on_host(result.aggregation, &result.params)?, &result.advantages);
                    Ok(())
                })),
            })
            .collect()
    }
}

/// What each function says of each completion of a group.
type Said = Vec<Vec<Option<f64>>>;

impl MultiCase {
    /// The whole way that a user goes: reward functions, their table, an estimator.
    fn on_host(&self, aggregation: Aggregation, p: &MultiParams) -> Result<Vec<f64>, Stop> {
        let groups = self.rollout()?;
        let rewards = self.weights.iter().enumerate().fold(Rewards::<Said>::new(), |rewards, (f, &weight)| {
            let said = move |rows: &Said, completion: &Completion| {
                let row = completion.tokens.first().and_then(|&t| rows.get(t as usize));
                Ok(row.and_then(|row| row[f]).map_or(Reward::NotApplicable, Reward::Outcome))
            };
            rewards.with(weight, from_fn(format!("f{f}"), said))
        });
        let table = rewards.score(&groups)?;
        let advantages = match aggregation {
            Aggregation::SumThenNormalize => {
                let standardise =
                    Standardise { scale: scale(p.scale), ddof: ddof(p.ddof), epsilon: p.eps, singleton: grpo_core::Singleton::Refuse };
                Estimator::Standardise(standardise).advantages(&table.totals(), &table.groups)?
            }
            Aggregation::NormalizeThenSum => {
                let settings =
                    NormaliseThenSum { ddof: ddof(p.ddof), epsilon: p.eps, after: AfterSum::Standardise, ..NormaliseThenSum::default() };
                Estimator::NormaliseThenSum(settings).estimate(&AdvantageInput::from_rollout(&groups, &table)?)?
            }
        };
        per_completion(advantages)
    }

    /// Groups whose completions are one token, their place in the group; the task is what each function will say.
    fn rollout(&self) -> Result<Vec<Group<Said>>, Stop> {
        let group = |(id, rows): (usize, &[Vec<Option<f64>>])| {
            let sample = |k: usize| Sample {
                tokens: vec![u32::try_from(k).unwrap_or(u32::MAX)],
                log_probs: vec![-1.0],
                log_prob_kind: LogProbKind::Tempered,
                temperature: 1.0,
                finish: FinishReason::EndToken,
                text: String::new(),
                policy_version: None,
            };
            let completions = (0..rows.len()).map(|k| Completion::from_sample(sample(k), 0)).collect::<Result<Vec<_>, _>>()?;
            Ok(Group::new(GroupId(id as u64), Prompt::new(vec![0], rows.to_vec()), completions)?)
        };
        self.rewards.chunks(self.group_size).enumerate().map(group).collect()
    }
}

impl Golden for TokenCase {
    fn validate(&self) -> Result<(), String> {
        TokenCase::validate(self)?;
        let matrices = self.expected.iter().flat_map(|r| [&r.advantages, &r.advantages_raw, &r.advantages_whitened, &r.returns]);
        matrices.flatten().try_for_each(|matrix| self.mask.same_shape("an expected matrix", matrix))
    }

    fn checks(&self) -> Vec<Check<'_>> {
        self.expected
            .iter()
            .map(|result| {
                let wanted = [&result.advantages, &result.advantages_raw, &result.advantages_whitened, &result.returns];
                let names = ["advantages", "advantages_raw", "advantages_whitened", "returns"];
                let compare = move |got: [Option<Vec<f64>>; 4], seen: &mut Compare| -> Step {
                    for ((name, want), got) in names.iter().zip(wanted).zip(got) {
                        if let Some(want) = want {
                            let got = got.ok_or_else(|| format!("nothing gives {name}"))?;
                            seen.matrix(name, self.mask.cols, &got, &want.data);
                        }
                    }
                    Ok(())
                };
                Check {
                    variant: format!("{:?}", result.method),
                    reference: Box::new(move |seen| compare(self.on_reference(result.method, &result.params), seen)),
                    library: Library::Host(Box::new(move |seen| compare(self.on_host(result.method, &result.params)?, seen))),
                }
            })
            .collect()
    }
}

/// Advantages, raw ones, whitened ones, returns: what a method has of these.
type Four = [Option<Vec<f64>>; 4];

impl TokenCase {
    fn on_reference(&self, method: TokenMethod, p: &TokenParams) -> Four {
        let some = |matrix: Matrix| Some(matrix.data);
        match method {
            TokenMethod::Gae => {
                let (raw, returns) = plain_tokens::gae(self, p);
                [None, some(raw.clone()), some(plain_tokens::whiten(&self.mask, &raw)), some(returns)]
            }
            TokenMethod::ReinforcePlusPlus => {
                let returns = plain_tokens::returns(self, p.gamma);
                [some(plain_tokens::whiten(&self.mask, &returns)), None, None, some(returns)]
            }
            TokenMethod::ReinforcePlusPlusBaseline => [some(plain_tokens::reinforce_baseline(self, p)), None, None, None],
            TokenMethod::Opo => [some(plain_tokens::opo(self)), None, None, None],
            TokenMethod::Remax => {
                let (advantages, returns) = plain_tokens::remax(self);
                [some(advantages), None, None, some(returns)]
            }
            TokenMethod::GrpoToken => [some(plain_tokens::grpo(self, p)), None, None, None],
        }
    }

    fn on_host(&self, method: TokenMethod, p: &TokenParams) -> Result<Four, Stop> {
        let rows = |matrix: &Matrix| -> Vec<Vec<f64>> { (0..matrix.rows).map(|row| matrix.row(row).to_vec()).collect() };
        let masks: Vec<Vec<bool>> = rows(&self.mask).iter().map(|row| row.iter().map(|m| *m != 0.0).collect()).collect();
        let rewards = rows(&self.token_rewards);
        let input = AdvantageInput::new(groups(self.mask.rows, self.group_size))
            .with_masks(masks.clone())
            .with_token_rewards(rewards.clone())
            .with_values(rows(&self.values))
            .with_baselines(self.remax_baseline.clone());
        let tokens =
            |estimator: Estimator| -> Result<Option<Vec<f64>>, Stop> { Ok(Some(estimator.estimate(&input)?.per_token(&masks)?.concat())) };
        Ok(match method {
            TokenMethod::Gae => {
                let gae = Gae { gamma: p.gamma, lambda: Lambda::Fixed(p.lambda), ..Gae::default() };
                let raw = Estimator::Gae(Gae { whiten: None, ..gae });
                let targets = gae.value_targets(&input)?.concat();
                [None, tokens(raw)?, tokens(Estimator::Gae(gae))?, Some(targets)]
            }
            TokenMethod::ReinforcePlusPlus => {
                let whitened = ReinforcePlusPlus { gamma: p.gamma, ..ReinforcePlusPlus::default() };
                let returns = Estimator::ReinforcePlusPlus(ReinforcePlusPlus { whiten: None, ..whitened });
                [tokens(Estimator::ReinforcePlusPlus(whitened))?, None, None, tokens(returns)?]
            }
            TokenMethod::ReinforcePlusPlusBaseline => {
                let settings = ReinforcePlusPlusBaseline {
                    uninformative: Uninformative::Shifted,
                    singleton: singleton(p.singleton),
                    ..ReinforcePlusPlusBaseline::default()
                };
                [tokens(Estimator::ReinforcePlusPlusBaseline(settings))?, None, None, None]
            }
            // The file has groups of one, and no parameter for them: they keep their reward.
            TokenMethod::Opo => [tokens(Estimator::Opo(Opo { singleton: grpo_core::Singleton::Raw }))?, None, None, None],
            TokenMethod::Remax => {
                let returns = rewards.iter().zip(&masks).flat_map(|(r, m)| discounted_returns(r, m, 1.0)).collect();
                [tokens(Estimator::ReMax)?, None, None, Some(returns)]
            }
            TokenMethod::GrpoToken => {
                let params = ScalarParams { scale: p.scale, eps: p.eps, ddof: p.ddof, singleton: p.singleton, normalize_by_std: false };
                [tokens(estimator(Method::Grpo, &params))?, None, None, None]
            }
        })
    }
}
