//! Properties over random groups: uneven, shuffled, with missing rewards.

use proptest::prelude::*;

use super::*;

/// Rows of uneven groups in random order: (group, reward). Every group has at least two rows.
fn rows(reward: impl Strategy<Value = Option<f64>> + Clone) -> impl Strategy<Value = Vec<(u64, Option<f64>)>> {
    let group = prop::collection::vec(reward, 2..6);
    prop::collection::vec(group, 1..5)
        .prop_map(|groups| {
            groups.into_iter().enumerate().flat_map(|(g, rs)| rs.into_iter().map(move |r| (g as u64, r))).collect::<Vec<_>>()
        })
        .prop_shuffle()
}

fn present() -> impl Strategy<Value = Option<f64>> + Clone {
    (-40..40i32).prop_map(|r| Some(f64::from(r) * 0.1)) // not dyadic on purpose
}

fn maybe() -> impl Strategy<Value = Option<f64>> + Clone {
    prop::option::weighted(0.7, (-40..40i32).prop_map(|r| f64::from(r) * 0.1))
}

/// Everything an estimator may ask for, from rows: lengths, holes, values and probabilities follow from a row's own number, so that
/// a row keeps them wherever it stands.
fn input(rows: &[(usize, u64, Option<f64>)]) -> AdvantageInput<'static> {
    let noise = |row: usize, t: usize, salt: usize| ((row * 31 + t * 17 + salt * 7) % 23) as f64 / 23.0;
    let mask = |&(row, ..): &(usize, u64, Option<f64>)| (0..row % 4).map(|t| (row + t) % 3 != 1).collect::<Vec<bool>>();
    let per_token = |salt: usize| -> Vec<Vec<f64>> {
        let junk = |row: &(usize, u64, Option<f64>)| {
            mask(row).iter().enumerate().map(|(t, m)| if *m { noise(row.0, t, salt) } else { f64::NAN }).collect::<Vec<f64>>()
        };
        rows.iter().map(junk).collect()
    };
    let functions = vec![rows.iter().map(|r| r.2).collect(), rows.iter().map(|r| r.2.map(|v| (v * 3.0).sin())).collect()];
    let steps = rows.iter().map(|r| r.2.map(|v| (0..mask(r).len()).map(|t| (t, v + noise(r.0, t, 5))).collect())).collect::<Vec<_>>();
    AdvantageInput::new(rows.iter().map(|r| GroupId(r.1)).collect::<Vec<_>>())
        .with_rewards(rows.iter().map(|r| r.2).collect::<Vec<_>>())
        .with_functions(functions, vec![1.0, 0.5])
        .with_masks(rows.iter().map(mask).collect::<Vec<_>>())
        .with_values(per_token(1))
        .with_baselines(rows.iter().map(|r| noise(r.0, 0, 2)).collect::<Vec<_>>())
        .with_steps(steps)
        .with_probabilities(per_token(3), per_token(4))
}

/// One row of numbers a completion, whatever the estimator gives.
fn rows_of(advantages: Advantages) -> Vec<Vec<f64>> {
    match advantages {
        Advantages::PerCompletion(rows) => rows.into_iter().map(|a| vec![a]).collect(),
        Advantages::PerToken(rows) => rows,
    }
}

fn same(a: &[Vec<f64>], b: &[Vec<f64>]) -> bool {
    a.len() == b.len()
        && a.iter().zip(b).all(|(a, b)| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-9 * b.abs().max(1.0)))
}

proptest! {
    #[test]
    fn permuting_rows_permutes_advantages_of_every_estimator(rows in rows(maybe()), seed in any::<u64>()) {
        let numbered: Vec<_> = rows.iter().enumerate().map(|(i, (g, r))| (i, *g, *r)).collect();
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|i| (*i as u64 + 1).wrapping_mul(seed | 1) % 1009);
        let permuted: Vec<_> = order.iter().map(|&i| numbered[i]).collect();
        for estimator in scalar_estimators().into_iter().chain(other_estimators()) {
            let straight = rows_of(estimator.estimate(&input(&numbered)).unwrap());
            let moved = rows_of(estimator.estimate(&input(&permuted)).unwrap());
            let expected: Vec<Vec<f64>> = order.iter().map(|&i| straight[i].clone()).collect();
            prop_assert!(same(&moved, &expected), "{estimator:?}");
        }
    }

    #[test]
    fn no_estimator_gives_nan_and_masked_places_and_missing_rewards_get_exactly_zero(rows in rows(maybe())) {
        let numbered: Vec<_> = rows.iter().enumerate().map(|(i, (g, r))| (i, *g, *r)).collect();
        let input = input(&numbered);
        let masks = input.masks.clone().unwrap();
        for estimator in scalar_estimators().into_iter().chain(other_estimators()) {
            let advantages = estimator.estimate(&input).unwrap();
            let tokens = advantages.per_token(&masks).unwrap();
            for (i, row) in tokens.iter().enumerate() {
                prop_assert!(row.iter().all(|a| a.is_finite()), "{estimator:?}");
                prop_assert!(row.iter().zip(&masks[i]).all(|(a, m)| *m || *a == 0.0), "{estimator:?}");
                prop_assert!(rows[i].1.is_some() || row.iter().all(|a| *a == 0.0), "{estimator:?}");
            }
        }
    }

    #[test]
    fn centred_estimators_sum_to_zero_over_each_group(rows in rows(maybe())) {
        let (groups, rewards): (Vec<u64>, Vec<_>) = rows.into_iter().unzip();
        let centred = [
            Estimator::default(), Estimator::dr_grpo(), Estimator::lite_ppo(), Estimator::Rloo(Rloo::default()),
            Estimator::MaxRl(MaxRl::default()), Estimator::Gpg(Gpg::default()),
        ];
        for estimator in centred {
            let advantages = grouped(&estimator, &rewards, &groups);
            for (_, rows) in rows_by_group(&groups.iter().copied().map(GroupId).collect::<Vec<_>>()) {
                let size: f64 = rows.iter().map(|&r| advantages[r].abs()).sum();
                let sum: f64 = rows.iter().map(|&r| advantages[r]).sum();
                prop_assert!(sum.abs() <= 1e-12 * size.max(1e-3), "{estimator:?}: {sum}");
            }
        }
    }

    #[test]
    fn rloo_is_n_over_n_minus_one_times_dr_grpo(rows in rows(present())) {
        let (groups, rewards): (Vec<u64>, Vec<_>) = rows.into_iter().unzip();
        let rloo = grouped(&Estimator::Rloo(Rloo::default()), &rewards, &groups);
        let dr = grouped(&Estimator::dr_grpo(), &rewards, &groups);
        for (row, group) in groups.iter().enumerate() {
            let n = groups.iter().filter(|g| *g == group).count() as f64;
            let others = groups.iter().zip(&rewards).enumerate().filter(|(j, (g, _))| *j != row && *g == group);
            let mean = others.map(|(_, (_, r))| r.unwrap()).sum::<f64>() / (n - 1.0);
            prop_assert!((rloo[row] - n / (n - 1.0) * dr[row]).abs() < 1e-12);
            prop_assert!((rloo[row] - (rewards[row].unwrap() - mean)).abs() < 1e-12);
        }
    }

    #[test]
    fn a_constant_however_it_was_rounded_gives_exactly_zero(tenths in -1000..1000i32, n in 2usize..9, ulps in prop::collection::vec(-1..=1i8, 9)) {
        let constant = f64::from(tenths) * 0.1;
        let nudge = |u: i8| match u { 1 => constant.next_up(), -1 => constant.next_down(), _ => constant };
        let rewards: Vec<f64> = ulps[..n].iter().map(|u| if constant == 0.0 { 0.0 } else { nudge(*u) }).collect();
        for estimator in scalar_estimators() {
            prop_assert_eq!(one(&estimator, &rewards), vec![0.0; n], "{:?}", estimator);
        }
        let numbered: Vec<_> = rewards.iter().enumerate().map(|(i, r)| (i, 0, Some(*r))).collect();
        for estimator in [Estimator::Opo(Opo::default()), Estimator::OptimalTokenBaseline(OptimalTokenBaseline::default()),
            Estimator::ReinforcePlusPlusBaseline(ReinforcePlusPlusBaseline::default())] {
            let rows = rows_of(estimator.estimate(&input(&numbered)).unwrap());
            prop_assert!(rows.iter().flatten().all(|a| *a == 0.0), "{estimator:?}");
        }
    }

    #[test]
    fn standardised_advantages_do_not_know_shift_or_scale(rows in rows(present()), shift in -1e6..1e6f64, scale in 1e-3..1e3f64) {
        let (groups, rewards): (Vec<u64>, Vec<_>) = rows.into_iter().unzip();
        let moved: Vec<_> = rewards.iter().map(|r| r.map(|r| r * scale + shift)).collect();
        let exact = Standardise { epsilon: 0.0, ..Standardise::default() };
        for scaling in [Scale::Group, Scale::Batch] {
            let estimator = Estimator::Standardise(Standardise { scale: scaling, ..exact });
            let (a, b) = (grouped(&estimator, &rewards, &groups), grouped(&estimator, &moved, &groups));
            prop_assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-5), "{a:?} {b:?}");
        }
        let (a, b) = (grouped(&Estimator::dr_grpo(), &rewards, &groups), grouped(&Estimator::dr_grpo(), &moved, &groups));
        prop_assert!(a.iter().zip(&b).all(|(a, b)| (a * scale - b).abs() < 1e-8));
    }

    #[test]
    fn any_finite_rewards_give_finite_advantages(rewards in prop::collection::vec(prop_oneof![
        -1e100..1e100f64, Just(0.0), Just(1e100), Just(-1e100), Just(5e-324), Just(1e-300), -1.0..1.0f64], 2..7)) {
        for estimator in scalar_estimators() {
            prop_assert!(one(&estimator, &rewards).iter().all(|a| a.is_finite()), "{estimator:?}");
        }
    }

    #[test]
    fn gae_with_unit_lambda_is_the_return_less_the_value(rows in rows(present()), gamma in 0.0..1.0f64) {
        let numbered: Vec<_> = rows.iter().enumerate().map(|(i, (g, r))| (i, *g, *r)).collect();
        let input = input(&numbered);
        let gae = Gae { gamma, whiten: None, ..Gae::default() };
        let returns = tokens(&Estimator::ReinforcePlusPlus(ReinforcePlusPlus { gamma, whiten: None }), &input);
        prop_assert!(same(&gae.value_targets(&input).unwrap(), &returns));
    }

    #[test]
    fn whitened_values_have_mean_zero_and_unit_variance(values in prop::collection::vec(-1e3..1e3f64, 2..40)) {
        let exact = Whitening { epsilon: 0.0, count_epsilon: 0.0, ..Whitening::default() };
        let white = exact.values(&values);
        let spread = Spread::of(&white, Ddof::Sample);
        prop_assert!(spread.mean.abs() < 1e-9 && (spread.std - 1.0).abs() < 1e-9);
    }
}
