//! Faults that other systems had, each with its small input.

use super::*;

/// Trap 13, B7: one generation and a sample standard deviation.
#[test]
fn a_group_of_one_is_an_error_by_name_and_never_nan() {
    for estimator in scalar_estimators() {
        let error = estimator.advantages(&[Some(1.0)], &[GroupId(9)]).unwrap_err().to_string();
        assert_eq!(error, "group: group 9 has one completion, must have at least two (or set singleton to zero or raw)", "{estimator:?}");
    }
    let zero = Estimator::Standardise(Standardise { singleton: Singleton::Zero, ..Standardise::default() });
    assert_eq!(one(&zero, &[3.0]), [0.0]);
    let raw = Estimator::Standardise(Standardise { singleton: Singleton::Raw, epsilon: 0.5, ..Standardise::default() });
    assert_eq!(one(&raw, &[3.0]), [2.0]);
}

/// Trap 14.
#[test]
fn one_right_answer_of_four_under_leave_one_out_is_one_not_a_million() {
    let a = one(&Estimator::LeaveOneOut(LeaveOneOut::default()), &[1.0, 0.0, 0.0, 0.0]);
    assert_eq!(a[0], 1.0);
    assert!(a[1..].iter().all(|a| (a + (1.0 / 3.0) / (1.0f64 / 3.0).sqrt()).abs() < 1e-5), "{a:?}");
}

/// Trap 15: rewards of 0.95 in single precision left a variance of 2e-7.
#[test]
fn seven_equal_rewards_and_one_zero_stay_in_the_range_that_algebra_gives() {
    let rewards = [0.0, 0.95, 0.95, 0.95, 0.95, 0.95, 0.95, 0.95];
    for estimator in scalar_estimators() {
        assert!(one(&estimator, &rewards).iter().all(|a| a.abs() < 8.0), "{estimator:?}");
    }
}

/// Traps 15 and 16.
#[test]
fn rewards_that_are_equal_but_for_rounding_give_exactly_zero() {
    for estimator in scalar_estimators() {
        assert_eq!(one(&estimator, &[0.1 + 0.2, 0.3, 0.3, 0.15 * 2.0]), [0.0; 4], "{estimator:?}");
    }
}

/// Known fault A02.
#[test]
fn the_only_rewarded_completion_of_a_group_gets_zero() {
    for estimator in scalar_estimators() {
        assert_eq!(some(&estimator, &[Some(1.0), None, None, None]), [0.0; 4], "{estimator:?}");
    }
}

/// Trap 19.
#[test]
fn a_completion_without_rewards_leaves_the_others_as_if_it_were_not_there() {
    for estimator in scalar_estimators() {
        let with = grouped(&estimator, &[Some(1.0), None, Some(0.0), Some(0.5)], &[1; 4]);
        let without = grouped(&estimator, &[Some(1.0), Some(0.0), Some(0.5)], &[1; 3]);
        assert_eq!(with, [without[0], 0.0, without[1], without[2]], "{estimator:?}");
    }
}

/// Known fault A05: a spread over the batch, none within the groups.
#[test]
fn groups_that_differ_only_from_each_other_teach_nothing() {
    let rewards = [5.0, 5.0, -5.0, -5.0].map(Some);
    for estimator in scalar_estimators() {
        assert_eq!(grouped(&estimator, &rewards, &[1, 1, 2, 2]), [0.0; 4], "{estimator:?}");
    }
    assert!(Spread::of(&[5.0, 5.0, -5.0, -5.0], Ddof::Sample).std > 5.0);
}

/// Known fault A32.
#[test]
fn whitening_leaves_padding_at_exactly_zero() {
    let scores = Advantages::PerToken(vec![vec![1.0, 2.0, 0.0]]);
    let Advantages::PerToken(white) = scores.whiten(&Whitening::default(), &[vec![true, true, false]]).unwrap() else { panic!() };
    assert_eq!(white[0][2], 0.0);
    assert!((white[0][1] - std::f64::consts::FRAC_1_SQRT_2).abs() < 1e-6 && (white[0][0] + white[0][1]).abs() < 1e-6);
}

/// Known fault A33.
#[test]
fn whitening_each_completion_by_itself_mixes_no_rows() {
    let rows = Advantages::PerToken(vec![vec![1.0, 2.0, 3.0], vec![10.0, 20.0, f64::NAN]]);
    let own = Whitening { over: WhitenOver::EachCompletion, ddof: Ddof::Population, epsilon: 0.0, count_epsilon: 0.0 };
    let Advantages::PerToken(white) = rows.whiten(&own, &[vec![true; 3], vec![true, true, false]]).unwrap() else { panic!() };
    close_rows(&white, &[vec![-1.5f64.sqrt(), 0.0, 1.5f64.sqrt()], vec![-1.0, 1.0, 0.0]]);
}

/// Known fault A36: 0 is a score.
#[test]
fn a_reward_of_zero_is_not_a_missing_one() {
    assert_eq!(some(&Estimator::dr_grpo(), &[Some(0.0), Some(1.0), None]), [-0.5, 0.5, 0.0]);
}

/// Traps 23 and 25: groups are ids, not positions, and two draws of a prompt are two groups.
#[test]
fn rows_of_a_group_may_lie_anywhere_and_groups_may_be_uneven() {
    let rewards = [1.0, 10.0, 0.0, 20.0, 30.0].map(Some);
    assert_eq!(grouped(&Estimator::dr_grpo(), &rewards, &[5, 3, 5, 3, 3]), [0.5, -10.0, -0.5, 0.0, 10.0]);
}

/// Trap 18: one function under GDPO is GRPO, whitened.
#[test]
fn normalise_then_sum_of_one_function_is_whitened_grpo() {
    let rewards = [1.0, 0.0, 0.25, 3.0, 2.0, 2.5].map(Some).to_vec();
    let groups = [1, 1, 1, 2, 2, 2].map(GroupId).to_vec();
    let gdpo = Estimator::NormaliseThenSum(NormaliseThenSum::default());
    let input = AdvantageInput::new(&groups).with_functions(vec![rewards.clone()], vec![1.0]);
    let Advantages::PerCompletion(got) = gdpo.estimate(&input).unwrap() else { panic!() };
    let Advantages::PerCompletion(grpo) = Estimator::default().advantages(&rewards, &groups).unwrap() else { panic!() };
    let std = Spread::of(&grpo, Ddof::Sample).std;
    close(&got, &grpo.iter().map(|a| a / (std + 1e-4)).collect::<Vec<_>>());
}

/// Trap 18: missing rewards stay out of their own function only.
#[test]
fn a_function_that_does_not_apply_leaves_the_others_alone() {
    let columns = vec![vec![Some(1.0), None, Some(0.0)], vec![None, None, Some(4.0)]];
    let exact = NormaliseThenSum { epsilon: 0.0, after: AfterSum::Nothing, ..NormaliseThenSum::default() };
    let input = AdvantageInput::new(vec![GroupId(1); 3]).with_functions(columns, vec![1.0, 1.0]);
    let Advantages::PerCompletion(got) = Estimator::NormaliseThenSum(exact).estimate(&input).unwrap() else { panic!() };
    let half = std::f64::consts::FRAC_1_SQRT_2;
    close(&got, &[half, 0.0, -half]);
}

/// Trap 20: a list of another length is never broadcast.
#[test]
fn lists_of_other_lengths_are_refused_by_name() {
    let two = [GroupId(1), GroupId(1)];
    assert!(Estimator::default().advantages(&[Some(1.0)], &two).is_err());
    let short = AdvantageInput::new(&two).with_rewards(vec![Some(1.0), Some(0.0)]).with_masks(vec![vec![true]]);
    assert_eq!(Estimator::Opo(Opo::default()).estimate(&short).unwrap_err().to_string(), "masks has shape [1], expected [2]");
    let ragged = AdvantageInput::new(&two)
        .with_rewards(vec![Some(1.0), Some(0.0)])
        .with_lengths(&[2, 2])
        .with_values(vec![vec![0.0; 2], vec![0.0; 3]]);
    assert!(Estimator::Gae(Gae::default()).estimate(&ragged).unwrap_err().to_string().starts_with("values"));
}

#[test]
fn an_estimator_without_its_input_names_what_is_missing() {
    let bare = AdvantageInput::new(vec![GroupId(1); 2]);
    for estimator in scalar_estimators().into_iter().chain(other_estimators()) {
        let error = estimator.estimate(&bare).unwrap_err().to_string();
        assert!(error.contains("missing, and this estimator needs them: call AdvantageInput::with_"), "{estimator:?}: {error}");
    }
    let error = Estimator::Gae(Gae::default()).estimate(&bare.with_rewards(vec![None; 2]).with_lengths(&[1, 1])).unwrap_err();
    assert_eq!(error.to_string(), "advantage input: values are missing, and this estimator needs them: call AdvantageInput::with_values");
}

/// B7: a reward that is no number names its row.
#[test]
fn rewards_that_are_not_finite_or_absurd_are_refused() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e101] {
        let error = Estimator::default().advantages(&[Some(1.0), Some(bad)], &[GroupId(1); 2]).unwrap_err().to_string();
        assert!(error.starts_with("reward: completion 1 has"), "{error}");
    }
}

/// Trap 26: the text of a configuration names its estimator, and unknown keys are refused.
#[test]
fn estimators_are_named_in_text_and_unknown_keys_are_refused() {
    for estimator in scalar_estimators().into_iter().chain(other_estimators()) {
        let text = serde_json::to_string(&estimator).unwrap();
        assert_eq!(serde_json::from_str::<Estimator>(&text).unwrap(), estimator, "{text}");
    }
    let read = |text| serde_json::from_str::<Estimator>(text);
    assert_eq!(read(r#"{"rloo": {}}"#).unwrap(), Estimator::Rloo(Rloo::default()));
    assert_eq!(read(r#""re_max""#).unwrap(), Estimator::ReMax);
    for bad in [r#"{"rloo": {"epsilon": 1}}"#, r#"{"grpo": {}}"#, r#"{"gae": {"lamda": 1}}"#, r#"{"standardise": {"eps": 1}}"#] {
        assert!(read(bad).is_err(), "{bad}");
    }
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let bad = [
        (Estimator::Standardise(Standardise { epsilon: -1.0, ..Standardise::default() }), "advantage epsilon"),
        (Estimator::Gae(Gae { gamma: 1.5, ..Gae::default() }), "gae gamma"),
        (Estimator::Gae(Gae { lambda: Lambda::LengthAdaptive(0.0), ..Gae::default() }), "gae lambda"),
        (Estimator::Gpg(Gpg { norm: 0.0, ..Gpg::default() }), "gpg norm"),
        (Estimator::RoleEma(RoleEma { decay: f64::NAN }), "role_ema decay"),
        (Estimator::NormaliseThenSum(NormaliseThenSum { singleton: Singleton::Raw, ..NormaliseThenSum::default() }), "normalise_then_sum"),
    ];
    for (estimator, name) in bad {
        assert!(estimator.validate().unwrap_err().to_string().starts_with(name));
    }
}
