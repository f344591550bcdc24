//! Hand-worked values, properties, and faults that other systems had.

mod faults;
mod properties;
mod worked;

use super::*;

/// Every estimator of one number a completion that needs rewards only.
fn scalar_estimators() -> Vec<Estimator> {
    vec![
        Estimator::default(),
        Estimator::Standardise(Standardise { ddof: Ddof::Population, epsilon: 0.0, ..Standardise::default() }),
        Estimator::dr_grpo(),
        Estimator::lite_ppo(),
        Estimator::MaxRl(MaxRl::default()),
        Estimator::Rloo(Rloo::default()),
        Estimator::LeaveOneOut(LeaveOneOut::default()),
        Estimator::PassAtK(PassAtK::default()),
        Estimator::PassAtK(PassAtK { scale: Scale::None, ..PassAtK::default() }),
        Estimator::Gpg(Gpg::default()),
        Estimator::Gpg(Gpg { share: GpgShare::NonZeroRewards, ..Gpg::default() }),
    ]
}

/// Every other one, set so that groups of one are refused where that is a choice.
fn other_estimators() -> Vec<Estimator> {
    vec![
        Estimator::Opo(Opo::default()),
        Estimator::RoleEma(RoleEma::default()),
        Estimator::Raw,
        Estimator::NormaliseThenSum(NormaliseThenSum::default()),
        Estimator::NormaliseThenSum(NormaliseThenSum { after: AfterSum::Whiten(Whitening::default()), ..NormaliseThenSum::default() }),
        Estimator::NormaliseThenSum(NormaliseThenSum { after: AfterSum::Nothing, ..NormaliseThenSum::default() }),
        Estimator::ReinforcePlusPlus(ReinforcePlusPlus { gamma: 0.9, ..ReinforcePlusPlus::default() }),
        Estimator::ReinforcePlusPlusBaseline(ReinforcePlusPlusBaseline::default()),
        Estimator::ReMax,
        Estimator::OptimalTokenBaseline(OptimalTokenBaseline::default()),
        Estimator::Gae(Gae { gamma: 0.95, lambda: Lambda::LengthAdaptive(0.3), ..Gae::default() }),
        Estimator::Process(Process::default()),
    ]
}

/// One group of these rewards.
fn one(estimator: &Estimator, rewards: &[f64]) -> Vec<f64> {
    some(estimator, &rewards.iter().copied().map(Some).collect::<Vec<_>>())
}

/// One group of rewards that may be missing.
fn some(estimator: &Estimator, rewards: &[Option<f64>]) -> Vec<f64> {
    grouped(estimator, rewards, &vec![0; rewards.len()])
}

fn grouped(estimator: &Estimator, rewards: &[Option<f64>], groups: &[u64]) -> Vec<f64> {
    let groups: Vec<GroupId> = groups.iter().copied().map(GroupId).collect();
    match estimator.advantages(rewards, &groups).unwrap() {
        Advantages::PerCompletion(rows) => rows,
        Advantages::PerToken(_) => panic!("one advantage a completion is expected"),
    }
}

fn tokens(estimator: &Estimator, input: &AdvantageInput<'_>) -> Vec<Vec<f64>> {
    match estimator.estimate(input).unwrap() {
        Advantages::PerToken(rows) => rows,
        Advantages::PerCompletion(_) => panic!("one advantage a token is expected"),
    }
}

#[track_caller]
fn close(got: &[f64], want: &[f64]) {
    assert_eq!(got.len(), want.len(), "{got:?}, expected {want:?}");
    let fits = |(g, w): (&f64, &f64)| (g - w).abs() <= 1e-12 * w.abs().max(1.0);
    assert!(got.iter().zip(want).all(fits), "{got:?}, expected {want:?}");
}

#[track_caller]
fn close_rows(got: &[Vec<f64>], want: &[Vec<f64>]) {
    assert_eq!(got.len(), want.len());
    got.iter().zip(want).for_each(|(g, w)| close(g, w));
}
