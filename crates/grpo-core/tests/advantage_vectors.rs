//! Golden numbers of other systems: every case of the three advantage files, through the public entry point.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a broken test file should stop the test")]

use grpo_core::{
    AdvantageInput, Advantages, AfterSum, Ddof, Estimator, Gae, GroupId, Lambda, NormaliseThenSum, Opo, PassAtK, ReinforcePlusPlus,
    ReinforcePlusPlusBaseline, Rloo, Scale, Schedule, Singleton, Standardise, Uninformative,
};
use serde_json::Value;

fn file(name: &str) -> Value {
    let path = format!("{}/../../testdata/vectors/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))).unwrap()
}

fn numbers(v: &Value) -> Vec<f64> {
    v.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

fn options(v: &Value) -> Vec<Option<f64>> {
    v.as_array().unwrap().iter().map(Value::as_f64).collect()
}

fn matrix(v: &Value) -> Vec<Vec<f64>> {
    v.as_array().unwrap().iter().map(numbers).collect()
}

fn groups(case: &Value) -> Vec<GroupId> {
    let (p, g) = (case["num_groups"].as_u64().unwrap(), case["group_size"].as_u64().unwrap());
    (0..p * g).map(|row| GroupId(1000 - row / g)).collect()
}

fn scale(params: &Value) -> Scale {
    serde_json::from_value(params["scale"].clone()).unwrap()
}

fn ddof(params: &Value) -> Ddof {
    if params["ddof"] == 0 { Ddof::Population } else { Ddof::Sample }
}

fn singleton(params: &Value) -> Singleton {
    match params["singleton"].as_str() {
        Some("zero") => Singleton::Zero,
        Some("raw") => Singleton::Raw,
        _ => Singleton::Refuse,
    }
}

fn standardise(params: &Value) -> Estimator {
    let epsilon = params["eps"].as_f64().unwrap();
    Estimator::Standardise(Standardise { scale: scale(params), ddof: ddof(params), epsilon, singleton: singleton(params) })
}

fn close(what: &str, got: &[f64], want: &[f64]) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= 1e-9 * w.abs().max(1.0), "{what}, row {i}: {g}, expected {w}");
    }
}

fn per_completion(advantages: Advantages) -> Vec<f64> {
    let Advantages::PerCompletion(rows) = advantages else { panic!("expected one advantage a completion") };
    rows
}

#[test]
fn advantages_of_one_reward_agree_with_other_systems() {
    let mut checked = 0;
    for case in file("advantages.json")["cases"].as_array().unwrap() {
        let rewards = options(&case["rewards"]);
        for expected in case["expected"].as_array().unwrap() {
            let params = &expected["params"];
            let estimator = match expected["method"].as_str().unwrap() {
                "grpo" => standardise(params),
                "dr_grpo" => Estimator::Standardise(Standardise { singleton: singleton(params), ..Standardise::dr_grpo() }),
                "rloo" => Estimator::Rloo(Rloo { singleton: singleton(params) }),
                "pass_at_k" => Estimator::PassAtK(PassAtK {
                    scale: if params["normalize_by_std"] == true { Scale::Group } else { Scale::None },
                    ddof: ddof(params),
                    epsilon: params["eps"].as_f64().unwrap(),
                    singleton: Singleton::Refuse,
                }),
                other => panic!("unknown method {other}"),
            };
            let what = format!("{} {} {params}", case["name"], expected["method"]);
            let got = per_completion(estimator.advantages(&rewards, &groups(case)).unwrap());
            close(&what, &got, &numbers(&expected["advantages"]));
            checked += 1;
        }
    }
    assert_eq!(checked, 12 * 7 + 11 * 7 + 6);
}

#[test]
fn advantages_of_several_rewards_agree_with_other_systems() {
    let mut checked = 0;
    for case in file("advantages_multi.json")["cases"].as_array().unwrap() {
        let rows: Vec<Vec<Option<f64>>> = case["rewards"].as_array().unwrap().iter().map(options).collect();
        let weights = numbers(&case["weights"]);
        for expected in case["expected"].as_array().unwrap() {
            let params = &expected["params"];
            let got = match expected["aggregation"].as_str().unwrap() {
                "sum_then_normalize" => {
                    let total = |row: &Vec<Option<f64>>| {
                        row.iter().zip(&weights).filter_map(|(r, w)| r.map(|r| r * w)).fold(None, |sum, r| Some(sum.unwrap_or(0.0) + r))
                    };
                    let totals: Vec<_> = rows.iter().map(total).collect();
                    standardise(params).advantages(&totals, &groups(case))
                }
                "normalize_then_sum" => {
                    let columns: Vec<Vec<_>> = (0..weights.len()).map(|f| rows.iter().map(|row| row[f]).collect()).collect();
                    let estimator = Estimator::NormaliseThenSum(NormaliseThenSum {
                        ddof: ddof(params),
                        epsilon: params["eps"].as_f64().unwrap(),
                        after: AfterSum::Standardise,
                        singleton: Singleton::Refuse,
                    });
                    estimator.estimate(&AdvantageInput::new(groups(case)).with_functions(columns, &weights))
                }
                other => panic!("unknown aggregation {other}"),
            };
            close(&format!("{} {expected}", case["name"]), &per_completion(got.unwrap()), &numbers(&expected["advantages"]));
            checked += 1;
        }
    }
    assert_eq!(checked, 12);
}

#[test]
fn advantages_of_tokens_agree_with_other_systems() {
    let mut checked = 0;
    for case in file("advantages_token.json")["cases"].as_array().unwrap() {
        let masks: Vec<Vec<bool>> = matrix(&case["mask"]).iter().map(|row| row.iter().map(|m| *m == 1.0).collect()).collect();
        let input = AdvantageInput::new(groups(case))
            .with_masks(&masks)
            .with_token_rewards(matrix(&case["token_rewards"]))
            .with_values(matrix(&case["values"]))
            .with_baselines(numbers(&case["remax_baseline"]));
        for expected in case["expected"].as_array().unwrap() {
            let params = &expected["params"];
            let gamma = params["gamma"].as_f64().unwrap_or(1.0);
            let what = format!("{} {} {params}", case["name"], expected["method"]);
            let mut check = |estimator: Estimator, field: &str| {
                let got = estimator.estimate(&input).unwrap().per_token(&masks).unwrap();
                for (row, (got, want)) in got.iter().zip(matrix(&expected[field])).enumerate() {
                    close(&format!("{what} {field} {row}"), got, &want);
                    let under = got.iter().zip(&masks[row]).filter(|(_, m)| !**m);
                    assert!(under.into_iter().all(|(a, _)| *a == 0.0), "{what}: not exactly 0 under the mask");
                }
                checked += 1;
            };
            match expected["method"].as_str().unwrap() {
                "gae" => {
                    let lambda = Lambda::Fixed(params["lambda"].as_f64().unwrap());
                    let gae = Gae { gamma, lambda, ..Gae::default() };
                    check(Estimator::Gae(Gae { whiten: None, ..gae }), "advantages_raw");
                    check(Estimator::Gae(gae), "advantages_whitened");
                    for (row, (got, want)) in gae.value_targets(&input).unwrap().iter().zip(matrix(&expected["returns"])).enumerate() {
                        close(&format!("{what} returns {row}"), got, &want);
                    }
                }
                "reinforce_plus_plus" => {
                    let estimator = ReinforcePlusPlus { gamma, ..ReinforcePlusPlus::default() };
                    check(Estimator::ReinforcePlusPlus(ReinforcePlusPlus { whiten: None, ..estimator }), "returns");
                    check(Estimator::ReinforcePlusPlus(estimator), "advantages");
                }
                "reinforce_plus_plus_baseline" => {
                    let singleton = singleton(params);
                    let estimator = ReinforcePlusPlusBaseline { singleton, ..ReinforcePlusPlusBaseline::default() };
                    check(Estimator::ReinforcePlusPlusBaseline(estimator), "advantages");
                    let letter = ReinforcePlusPlusBaseline { uninformative: Uninformative::Shifted, ..estimator };
                    check(Estimator::ReinforcePlusPlusBaseline(letter), "advantages");
                }
                "opo" => check(Estimator::Opo(Opo { singleton: Singleton::Raw }), "advantages"),
                "remax" => {
                    let plain = ReinforcePlusPlus { gamma: 1.0, whiten: None };
                    check(Estimator::ReinforcePlusPlus(plain), "returns");
                    check(Estimator::ReMax, "advantages");
                }
                "grpo_token" => check(standardise(params), "advantages"),
                other => panic!("unknown method {other}"),
            }
        }
    }
    assert_eq!(checked, 4 * (2 + 2 + 2 + 1 + 2 + 1));
}

#[test]
fn learning_rates_agree_with_other_systems() {
    let optim = file("optim.json");
    let schedules = optim["schedules"].as_array().unwrap();
    for case in schedules {
        let peak = case["lr"].as_f64().unwrap();
        let (warmup_steps, total_steps) = (case["warmup_steps"].as_u64().unwrap(), case["total_steps"].as_u64().unwrap());
        let schedule = match case["kind"].as_str().unwrap() {
            "cosine" => Schedule::Cosine { peak, end: 0.0, warmup_steps, total_steps },
            "linear" => Schedule::Linear { peak, end: 0.0, warmup_steps, total_steps },
            "constant_with_warmup" => Schedule::Constant { peak, warmup_steps },
            other => panic!("unknown schedule {other}"),
        };
        for (step, want) in numbers(&case["lr_at_step"]).into_iter().enumerate() {
            let got = schedule.at(step as u64);
            assert!((got - want).abs() <= 1e-12 * peak, "{} step {step}: {got}, expected {want}", case["name"]);
        }
    }
    assert_eq!(schedules.len(), 3);
}
