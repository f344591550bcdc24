//! Advantages of a million rewards in groups of eight.
#![allow(missing_docs, clippy::unwrap_used, reason = "a bench stops where something is wrong")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use grpo_core::{Estimator, GroupId, Rloo, Standardise};

fn advantages(c: &mut Criterion) {
    let n = 1_000_000;
    let rewards: Vec<Option<f64>> = (0..n as u64).map(|i| Some((i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as f64 / 16.0)).collect();
    let groups: Vec<GroupId> = (0..n as u64).map(|i| GroupId(i / 8)).collect();
    let mut group = c.benchmark_group("advantages of 1,000,000 rewards in groups of 8");
    group.throughput(Throughput::Elements(n as u64)).sample_size(10);
    for (name, estimator) in [
        ("grpo", Estimator::Standardise(Standardise::default())),
        ("dr_grpo", Estimator::dr_grpo()),
        ("lite_ppo", Estimator::lite_ppo()),
        ("rloo", Estimator::Rloo(Rloo::default())),
    ] {
        group.bench_function(name, |b| b.iter(|| estimator.advantages(&rewards, &groups).unwrap()));
    }
    group.finish();
}

criterion_group!(benches, advantages);
criterion_main!(benches);
