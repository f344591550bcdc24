//! Hand-worked values, one test an estimator.

use super::*;

const EXACT: Standardise = Standardise { scale: Scale::Group, ddof: Ddof::Sample, epsilon: 0.0, singleton: Singleton::Refuse };

/// Known fault A34: each scaling by name.
#[test]
fn three_wrong_and_one_right_answer_under_each_scaling() {
    let rewards = [0.0, 0.0, 0.0, 1.0];
    close(&one(&Estimator::dr_grpo(), &rewards), &[-0.25, -0.25, -0.25, 0.75]);
    close(&one(&Estimator::Standardise(EXACT), &rewards), &[-0.5, -0.5, -0.5, 1.5]);
    let population = Estimator::Standardise(Standardise { ddof: Ddof::Population, ..EXACT });
    let third = 1.0 / 3.0f64.sqrt();
    close(&one(&population, &rewards), &[-third, -third, -third, 3.0 * third]);
    let batch = Estimator::Standardise(Standardise { scale: Scale::Batch, ..EXACT });
    // All eight: mean 0.5, squares 2, std √(2/7).
    let two = [0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0].map(Some);
    let std = (2.0f64 / 7.0).sqrt();
    close(&grouped(&batch, &two, &[1, 1, 1, 1, 2, 2, 2, 2]), &[-0.25, -0.25, -0.25, 0.75, 0.25, 0.25, 0.25, -0.75].map(|a| a / std));
}

#[test]
fn a_pair_gets_plus_and_minus_one_over_root_two_whatever_the_gap() {
    for gap in [1e-9, 0.3, 1.0, 1e9] {
        let half = std::f64::consts::FRAC_1_SQRT_2;
        close(&one(&Estimator::Standardise(EXACT), &[2.0 + gap, 2.0]), &[half, -half]);
        let population = Estimator::Standardise(Standardise { ddof: Ddof::Population, ..EXACT });
        close(&one(&population, &[2.0 + gap, 2.0]), &[1.0, -1.0]);
    }
}

#[test]
fn maxrl_divides_by_the_mean() {
    close(&one(&Estimator::MaxRl(MaxRl::default()), &[1.0, 0.0, 0.0, 0.0]), &[3.0, -1.0, -1.0, -1.0]);
    close(&one(&Estimator::MaxRl(MaxRl::default()), &[-1.0, 0.0]), &[0.0, 0.0]);
    close(&one(&Estimator::MaxRl(MaxRl::default()), &[1e100, -1e100, 1e-300]), &[0.0; 3]);
}

#[test]
fn rloo_compares_with_the_mean_of_the_others() {
    close(&one(&Estimator::Rloo(Rloo::default()), &[4.0, 1.0, 2.0, 3.0]), &[2.0, -2.0, -2.0 / 3.0, 2.0 / 3.0]);
}

#[test]
fn leave_one_out_takes_mean_and_spread_from_the_same_others() {
    let exact = Estimator::LeaveOneOut(LeaveOneOut { epsilon: 0.0, ..LeaveOneOut::default() });
    // First: others 1 and 3, mean 2, std √2. Second: 5 and 3, mean 4, std √2. Third: 5 and 1, mean 3, std √8.
    close(&one(&exact, &[5.0, 1.0, 3.0]), &[3.0 / 2.0f64.sqrt(), -3.0 / 2.0f64.sqrt(), 0.0]);
    close(&one(&exact, &[1.0, 0.0]), &[1.0, -1.0]);
}

#[test]
fn pass_at_k_pays_the_best_for_its_lead_and_nobody_else() {
    let raw = Estimator::PassAtK(PassAtK { scale: Scale::None, ..PassAtK::default() });
    close(&one(&raw, &[0.2, 0.9, 0.5]), &[0.0, 0.4, 0.0]);
    close(&one(&raw, &[0.9, 0.9, 0.5]), &[0.0; 3]);
    let scaled = Estimator::PassAtK(PassAtK { epsilon: 0.0, ..PassAtK::default() });
    close(&one(&scaled, &[0.0, 2.0, 1.0]), &[0.0, 1.0, 0.0]);
    let error = Estimator::PassAtK(PassAtK { scale: Scale::Batch, ..PassAtK::default() }).validate().unwrap_err();
    assert_eq!(error.to_string(), "pass_at_k scale = batch, must be group or none");
}

#[test]
fn gpg_makes_up_for_what_teaches_nothing() {
    let rewards = [1.0, 0.0, 0.0, 0.0].map(Some);
    // Groups [1, 0] and [0, 0]: half of the completions have a gradient; one reward of four is not 0.
    close(&grouped(&Estimator::Gpg(Gpg::default()), &rewards, &[1, 1, 2, 2]), &[1.0, -1.0, 0.0, 0.0]);
    let verl = Estimator::Gpg(Gpg { share: GpgShare::NonZeroRewards, norm: 2.0, ..Gpg::default() });
    close(&grouped(&verl, &rewards, &[1, 1, 2, 2]), &[1.0, -1.0, 0.0, 0.0]);
}

#[test]
fn opo_weighs_the_mean_by_length() {
    let input = AdvantageInput::new(vec![GroupId(1); 2]).with_rewards(vec![Some(1.0), Some(0.0)]).with_lengths(&[1, 3]);
    let Advantages::PerCompletion(a) = Estimator::Opo(Opo::default()).estimate(&input).unwrap() else { panic!() };
    close(&a, &[0.75, -0.25]);
    assert_eq!(a[0] + 3.0 * a[1], 0.0);
}

#[test]
fn role_baselines_move_by_role_and_survive_a_checkpoint() {
    let mut roles = RoleEma::default().state().unwrap();
    let rewards = [Some(1.0), Some(-1.0), None];
    let baselines = roles.observe(&rewards, &[7, 8, 7]).unwrap();
    close(&baselines, &[0.05, -0.05, 0.05]);
    let input = AdvantageInput::new(vec![GroupId(1); 3]).with_rewards(&rewards).with_baselines(&baselines);
    let Advantages::PerCompletion(a) = Estimator::RoleEma(RoleEma::default()).estimate(&input).unwrap() else { panic!() };
    close(&a, &[0.95, -0.95, 0.0]);
    let saved: RoleBaselines = serde_json::from_str(&serde_json::to_string(&roles).unwrap()).unwrap();
    assert_eq!(saved, roles);
    close(&[roles.get(8), roles.get(99)], &[-0.05, 0.0]);
    let before = roles.clone();
    assert!(roles.observe(&[Some(1.0), Some(f64::NAN)], &[7, 7]).is_err());
    assert_eq!(roles, before, "a broken reward is not half taken in");
}

#[test]
fn reinforce_plus_plus_whitens_discounted_returns_over_the_batch() {
    let input = AdvantageInput::new(vec![GroupId(1), GroupId(2)])
        .with_token_rewards(vec![vec![0.0, 2.0], vec![f64::NAN, 1.0]])
        .with_masks(vec![vec![true, true], vec![false, true]]);
    let plain = ReinforcePlusPlus { gamma: 0.5, whiten: None };
    close_rows(&tokens(&Estimator::ReinforcePlusPlus(plain), &input), &[vec![1.0, 2.0], vec![0.0, 1.0]]);
    // Returns 1, 2, 1: mean 4/3, population variance 2/9.
    let whiten = Whitening { ddof: Ddof::Population, epsilon: 0.0, count_epsilon: 0.0, over: WhitenOver::Tokens };
    let got = tokens(&Estimator::ReinforcePlusPlus(ReinforcePlusPlus { whiten: Some(whiten), ..plain }), &input);
    let low = -1.0 / 2.0f64.sqrt();
    close_rows(&got, &[vec![low, -2.0 * low], vec![0.0, low]]);
}

#[test]
fn reinforce_plus_plus_baseline_moves_an_uninformative_group_only_to_the_letter() {
    let input = AdvantageInput::new([1, 1, 2, 2].map(GroupId).to_vec())
        .with_rewards([1.0, 0.0, 5.0, 5.0].map(Some).to_vec())
        .with_lengths(&[3, 1, 1, 1]);
    let unshifted = ReinforcePlusPlusBaseline { whiten: None, ..ReinforcePlusPlusBaseline::default() };
    let rows = |e| tokens(&Estimator::ReinforcePlusPlusBaseline(e), &input);
    close_rows(&rows(unshifted), &[vec![0.5; 3], vec![-0.5], vec![0.0], vec![0.0]]);
    assert_eq!(rows(ReinforcePlusPlusBaseline::default())[2..], [[0.0], [0.0]]);
    let letter = rows(ReinforcePlusPlusBaseline { uninformative: Uninformative::Shifted, ..ReinforcePlusPlusBaseline::default() });
    // Tokens 0.5 × 3, −0.5, 0, 0: mean 1/6, so a 0 becomes negative.
    assert!(letter[2][0] < -0.3, "{letter:?}");
    assert_eq!(letter[0], rows(ReinforcePlusPlusBaseline::default())[0]);
}

#[test]
fn remax_subtracts_the_greedy_answer() {
    let input = AdvantageInput::new(vec![GroupId(1), GroupId(1)])
        .with_rewards(vec![Some(1.0), None])
        .with_lengths(&[2, 2])
        .with_baselines(vec![0.25, 0.25]);
    close_rows(&tokens(&Estimator::ReMax, &input), &[vec![0.75, 0.75], vec![0.0, 0.0]]);
}

#[test]
fn the_optimal_token_baseline_weighs_returns_by_gradient_so_far() {
    let input = AdvantageInput::new(vec![GroupId(1), GroupId(1)])
        .with_rewards(vec![Some(1.0), Some(0.0)])
        .with_lengths(&[2, 1])
        .with_probabilities(vec![vec![0.5, 0.5], vec![0.75]], vec![vec![0.5, 0.5], vec![0.625]]);
    let exact = Estimator::OptimalTokenBaseline(OptimalTokenBaseline { epsilon: 0.0, ..OptimalTokenBaseline::default() });
    // W at the first place: 1 − 1 + 0.5 = 0.5 and 1 − 1.5 + 0.625 = 0.125. Baseline 0.5 / 0.625 = 0.8. At the second, one return only.
    close_rows(&tokens(&exact, &input), &[vec![0.2, 0.0], vec![-0.8]]);
    let weighed = input.with_ratios(vec![vec![1.0, 1.0], vec![2.0]]);
    close_rows(&tokens(&exact, &weighed), &[vec![0.5, 0.0], vec![-0.5]]);
}

#[test]
fn gae_passes_over_what_the_policy_did_not_write() {
    let gae = Gae { gamma: 0.5, lambda: Lambda::Fixed(0.5), value_lambda: Some(Lambda::Fixed(1.0)), whiten: None };
    let input = AdvantageInput::new(vec![GroupId(1)])
        .with_token_rewards(vec![vec![0.0, f64::NAN, 1.0]])
        .with_masks(vec![vec![true, false, true]])
        .with_values(vec![vec![0.2, f64::INFINITY, 0.6]]);
    // δ of the last: 1 − 0.6 = 0.4. δ of the first: 0.5 · 0.6 − 0.2 = 0.1; Â = 0.1 + 0.25 · 0.4.
    close_rows(&tokens(&Estimator::Gae(gae), &input), &[vec![0.2, 0.0, 0.4]]);
    // Targets with λ = 1: Â = 0.1 + 0.5 · 0.4 = 0.3; V + Â = 0.5 and 1, which is the discounted return.
    close_rows(&gae.value_targets(&input).unwrap(), &[vec![0.5, 0.0, 1.0]]);
}

/// DeepSeekMath 4.1.3.
#[test]
fn process_supervision_sums_the_normalised_steps_that_are_still_to_end() {
    let input = AdvantageInput::new(vec![GroupId(1), GroupId(1)])
        .with_masks(vec![vec![true; 4], vec![true, false, true]])
        .with_steps(vec![Some(vec![(1, 1.0), (3, 0.0)]), Some(vec![(0, 1.0), (2, 2.0)])]);
    // All four step rewards together: mean 1, population std √0.5.
    let exact = Estimator::Process(Process { ddof: Ddof::Population, epsilon: 0.0, ..Process::default() });
    let s = 2.0f64.sqrt();
    close_rows(&tokens(&exact, &input), &[vec![-s, -s, -s, -s], vec![s, 0.0, s]]);
    let far = AdvantageInput::new(vec![GroupId(1); 2]).with_lengths(&[2, 2]).with_steps(vec![None, Some(vec![(2, 1.0)])]);
    let error = exact.estimate(&far).unwrap_err().to_string();
    assert_eq!(error, "steps: completion 1 has a step that ends at token 2, must be below 2");
}

#[test]
fn one_step_a_completion_is_outcome_supervision() {
    let rewards = [0.3, 0.9, 0.1, 0.9];
    let steps: Vec<StepRewards> = rewards.iter().map(|r| Some(vec![(2, *r)])).collect();
    let input = AdvantageInput::new(vec![GroupId(1); 4]).with_lengths(&[3; 4]).with_steps(steps);
    let outcome = one(&Estimator::default(), &rewards);
    close_rows(&tokens(&Estimator::Process(Process::default()), &input), &outcome.iter().map(|a| vec![*a; 3]).collect::<Vec<_>>());
}

#[test]
fn normalise_then_sum_keeps_the_signal_of_rewards_whose_sum_is_constant() {
    let columns = vec![vec![Some(1.0), Some(0.0)], vec![Some(0.0), Some(1.0)]];
    let input = AdvantageInput::new(vec![GroupId(1); 2]).with_functions(columns, vec![1.0, 3.0]);
    let exact = NormaliseThenSum { epsilon: 0.0, after: AfterSum::Nothing, ..NormaliseThenSum::default() };
    let Advantages::PerCompletion(a) = Estimator::NormaliseThenSum(exact).estimate(&input).unwrap() else { panic!() };
    let half = std::f64::consts::FRAC_1_SQRT_2;
    close(&a, &[-2.0 * half, 2.0 * half]);
    // The other order of the two: [1, 3] is not constant under weights 1 and 3, but under equal ones it is.
    assert_eq!(one(&Estimator::default(), &[1.0, 1.0]), [0.0, 0.0]);
}

#[test]
fn raw_rewards_pass_and_missing_ones_are_nothing() {
    assert_eq!(some(&Estimator::Raw, &[Some(2.5), None]), [2.5, 0.0]);
}

#[test]
fn kl_goes_into_rewards_or_advantages() {
    let masks = [vec![true, true], vec![false, true]];
    let x = [vec![0.5, -0.5], vec![f64::NAN, 1.5]];
    let rewards = kl_in_rewards(&[Some(1.0), None], &x, &masks, 0.2).unwrap();
    close_rows(&rewards, &[vec![-0.1, 1.1], vec![0.0, -0.3]]);
    // The mean of 0.5, −0.5, 1.5 is 0.5.
    let with = kl_in_advantages(&Advantages::PerCompletion(vec![1.0, -1.0]), &x, &masks, 0.2).unwrap();
    close_rows(&with.per_token(&masks).unwrap(), &[vec![1.0, 1.2], vec![0.0, -1.2]]);
    assert!(kl_in_rewards(&[Some(1.0)], &[vec![f64::NAN]], &[vec![true]], 0.1).is_err());
    let error = kl_in_rewards(&[Some(f64::INFINITY)], &[vec![0.1]], &[vec![true]], 0.1).unwrap_err().to_string();
    assert!(error.contains("outcome") && error.contains("completion 0"), "{error}");
    let error = kl_in_advantages(&Advantages::PerCompletion(vec![f64::NAN]), &[vec![0.1]], &[vec![true]], 0.1).unwrap_err().to_string();
    assert!(error.contains("advantage") && error.contains("completion 0"), "{error}");
}

#[test]
fn clipping_counts_what_it_cuts() {
    let (clipped, beyond) = Advantages::PerToken(vec![vec![0.5, -3.0], vec![7.0]]).clip(2.0).unwrap();
    assert_eq!((clipped, beyond), (Advantages::PerToken(vec![vec![0.5, -2.0], vec![2.0]]), 2));
    assert!(Advantages::PerCompletion(vec![1.0]).clip(0.0).is_err());
}

#[test]
fn whitening_by_completions_ignores_lengths_and_by_tokens_does_not() {
    let advantages = Advantages::PerCompletion(vec![1.0, -1.0]);
    let masks = [vec![true; 3], vec![true]];
    let plain = Whitening { ddof: Ddof::Population, epsilon: 0.0, count_epsilon: 0.0, over: WhitenOver::Completions };
    assert_eq!(advantages.whiten(&plain, &masks).unwrap(), Advantages::PerCompletion(vec![1.0, -1.0]));
    let Advantages::PerCompletion(by_tokens) = advantages.whiten(&Whitening { over: WhitenOver::Tokens, ..plain }, &masks).unwrap() else {
        panic!()
    };
    // Tokens 1, 1, 1, −1: mean 0.5, variance 0.75.
    close(&by_tokens, &[0.5 / 0.75f64.sqrt(), -1.5 / 0.75f64.sqrt()]);
}

#[test]
fn the_optimal_token_baseline_adds_up_what_came_before() {
    let input = AdvantageInput::new(vec![GroupId(1), GroupId(1)])
        .with_token_rewards(vec![vec![0.0, 1.0], vec![1.0, 0.0]])
        .with_lengths(&[2, 2])
        .with_probabilities(vec![vec![0.5, 0.5], vec![0.75, 1.0]], vec![vec![0.5, 0.5], vec![0.625, 1.0]]);
    let exact = Estimator::OptimalTokenBaseline(OptimalTokenBaseline { epsilon: 0.0, ..OptimalTokenBaseline::default() });
    // Both returns are 1 at the first place. At the second W is 0.5 + 0.5 and 0.125 + 0: baseline 1 / 1.125.
    close_rows(&tokens(&exact, &input), &[vec![0.0, 1.0 / 9.0], vec![0.0, -8.0 / 9.0]]);
}

#[test]
fn the_length_adaptive_lambda_never_leaves_zero_to_one() {
    let lambda = Lambda::LengthAdaptive(0.05);
    close(&[lambda.at(0), lambda.at(10), lambda.at(20), lambda.at(40), lambda.at(200)], &[0.0, 0.0, 0.0, 0.5, 0.9]);
}

#[test]
fn whitening_may_add_to_its_counts() {
    let whiten = Whitening { epsilon: 0.0, count_epsilon: 1.0, ..Whitening::default() };
    // Mean 4 / 3; raw variance (1/9 + 25/9) / 3; times 2 / 1.
    let std = (52.0f64 / 27.0).sqrt();
    close(&whiten.values(&[1.0, 3.0]), &[-1.0 / 3.0 / std, 5.0 / 3.0 / std]);
}
