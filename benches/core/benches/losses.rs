//! The loss with its gradient for 4096 × 512 tokens, and each objective as a ratio to the plain clipped one, measured in turn in one run.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a bench stops where something is wrong")]

use std::time::Instant;

use burn::Tensor;
use burn::tensor::{Device, TensorData};
use grpo_core::{
    Batch, GroupId, GrpoConfig, Objective, OldLogProbs, RatioLevel, Recipe, Reduction, Row, Scores, StepStats, VespoShape, WeightCap,
    grpo_loss,
};
use grpo_core::{ClipRange, DualClip};

const ROWS: usize = 4096;
const WIDTH: usize = 512;

fn noise(seed: u64) -> Vec<f32> {
    (0..(ROWS * WIDTH) as u64).map(|i| -((grpo_core::group_seed(seed, 0, i) >> 40) as f32 / (1u32 << 24) as f32) * 3.0).collect()
}

fn main() {
    let device = grpo_flex::device().expect("flex opens");
    let prompt = [0u32];
    let tokens = vec![1u32; WIDTH];
    let rows: Vec<Row<'_>> = (0..ROWS)
        .map(|i| Row {
            prompt: 0,
            group: GroupId(i as u64 / 8),
            tokens: &tokens[..WIDTH - i % 64],
            mask: vec![true; WIDTH - i % 64],
            advantages: vec![(i % 8) as f64 - 3.5; WIDTH - i % 64],
        })
        .collect();
    let mut batch = Batch::from_rows(&[&prompt], &rows, 1.0, &device).unwrap();
    let old = noise(1);
    let new: Vec<f32> = old.iter().zip(noise(2)).map(|(o, n)| o + 0.1 * n).collect();
    batch.set_old(OldLogProbs::new(tensor(old, &device)).unwrap()).unwrap();
    let step = StepStats::of([&batch]);
    let log_probs = tensor(new, &device.clone().autodiff());

    let clip = ClipRange::symmetric(0.2);
    let with = |objective| GrpoConfig { objective, ..GrpoConfig::default() };
    let mut configs: Vec<(&str, GrpoConfig)> = vec![
        ("clipped", with(Objective::clipped(clip))),
        ("clipped, ratio cap", with(Objective::Clipped { clip, dual: DualClip::RatioCap(4.0) })),
        ("clipped, loss cap", with(Objective::Clipped { clip, dual: DualClip::LossCap(3.0) })),
        ("importance sampling", with(Objective::ImportanceSampling)),
        ("reinforce", with(Objective::Reinforce)),
        ("cispo", with(Objective::Cispo { cap: WeightCap(5.0) })),
        ("cispo, two-sided", with(Objective::CispoTwoSided { clip })),
        ("sapo", with(Objective::Sapo { positive: 1.0, negative: 1.05 })),
        ("vespo", with(Objective::Vespo { positive: VespoShape { k: 2.0, lambda: 3.0 }, negative: VespoShape { k: 3.0, lambda: 2.0 } })),
        ("dppo-tv", with(Objective::DppoTv { range: clip, cap: WeightCap(3.0) })),
        ("dppo-kl", with(Objective::DppoKl { range: clip, cap: WeightCap(3.0) })),
        ("threshold mask", with(Objective::ThresholdMask { threshold: 0.1 })),
        ("dro", with(Objective::Dro { beta: 0.5 })),
        ("fipo", with(Objective::Fipo { clip, half_life: 32.0, weight_low: 1.0, weight_high: 1.2, safety: 4.0 })),
        ("gspo", Recipe::gspo().config),
        ("gspo-token", GrpoConfig { ratio: RatioLevel::SequenceToken, ..Recipe::gspo().config }),
        ("luspo", Recipe::luspo().config),
        ("gmpo", GrpoConfig { reduction: Reduction::SequenceMean, ..with(Objective::Gmpo { low: 0.4, high: 0.4, length_epsilon: 0.0 }) }),
        ("real", GrpoConfig { reduction: Reduction::PromptTokenMean, ..with(Objective::Real { temperature: 0.5 }) }),
    ];
    for (_, config) in &mut configs {
        config.updates_per_rollout = 2;
    }
    let run = |config: &GrpoConfig| {
        let leaf = log_probs.clone().require_grad();
        let started = Instant::now();
        let output = grpo_loss(&Scores::new(leaf.clone()), &batch, &step, config).unwrap();
        let gradient = leaf.grad(&output.loss.backward()).unwrap();
        assert!(gradient.sum().into_scalar::<f32>().is_finite());
        started.elapsed().as_secs_f64()
    };
    println!("loss with gradient, {ROWS} x {WIDTH} tokens, flex, f32; medians of 5, each beside a plain clipped one");
    run(&configs[0].1);
    for (name, config) in &configs {
        let pairs: Vec<(f64, f64)> = (0..5).map(|_| (run(&configs[0].1), run(config))).collect();
        let ratio = median(pairs.iter().map(|(plain, this)| this / plain).collect());
        println!("{name:22} {:7.1} ms   {ratio:5.2} x clipped", 1e3 * median(pairs.iter().map(|(_, this)| *this).collect()));
    }
}

fn tensor(values: Vec<f32>, device: &Device) -> Tensor<2> {
    Tensor::from_data(TensorData::new(values, [ROWS, WIDTH]), device)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
