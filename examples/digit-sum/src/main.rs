//! Experiment.
mod model;
use burn::module::AutodiffModule;
use burn::optim::AdamWConfig;
use burn::tensor::{Device, Int, Tensor, TensorData};
use grpo_core::*;
use model::{Sizes, Transformer, env};
use rand::RngExt;
use std::time::Instant;

const END: u32 = 12;
#[derive(Clone)]
struct Problem {
    prompt: Vec<u32>,
    answer: Vec<u32>,
}
fn problems(task: &str) -> Vec<Problem> {
    let mut all = Vec::new();
    let d = |n: u32, k: u32| n / 10u32.pow(k) % 10;
    match task {
        "add" => {
            for a in 0..100u32 {
                for b in 0..100 {
                    let c = a + b;
                    all.push(Problem { prompt: vec![d(a, 1), d(a, 0), 10, d(b, 1), d(b, 0), 11], answer: vec![d(c, 0), d(c, 1), d(c, 2), END] });
                }
            }
        }
        "sort" => {
            for n in 0..100000u32 {
                let p: Vec<u32> = (0..5).map(|k| d(n, 4 - k)).collect();
                let mut a = p.clone();
                a.sort();
                a.push(END);
                all.push(Problem { prompt: [p, vec![11]].concat(), answer: a });
            }
        }
        "pair" => {
            for n in 0..10000u32 {
                let p: Vec<u32> = (0..4).map(|k| d(n, 3 - k)).collect();
                let a = vec![(p[0] + p[1]) % 10, (p[1] + p[2]) % 10, (p[2] + p[3]) % 10, END];
                all.push(Problem { prompt: [p, vec![11]].concat(), answer: a });
            }
        }
        "sum" => {
            // sum of digits, running
            for n in 0..10000u32 {
                let p: Vec<u32> = (0..4).map(|k| d(n, 3 - k)).collect();
                let s: u32 = p.iter().sum();
                all.push(Problem { prompt: [p, vec![11]].concat(), answer: vec![s / 10, s % 10, END] });
            }
        }
        _ => {}
    }
    all
}

struct Draw;
impl Sampler<Transformer> for Draw {
    fn sample(&mut self, policy: &Transformer, requests: &[SampleRequest<'_>], params: &SamplingParams) -> std::result::Result<Vec<Vec<Sample>>, BoxError> {
        let device = policy.device();
        let g = requests[0].samples;
        let (p, n) = (requests.len(), requests.len() * g);
        let prompts = Padded::new(&requests.iter().map(|r| r.prefix).collect::<Vec<_>>())?;
        let (first, memories) = policy.read(prompts.to_tensor(&device));
        let v = first.dims()[2];
        let mut logits = first.unsqueeze_dim::<4>(1).expand([p, g, 1, v]).reshape([n, 1, v]);
        let mut rngs: Vec<_> = requests.iter().flat_map(|r| (0..g).map(|k| stream(r.seed, k))).collect();
        let mut out: Vec<(Vec<u32>, Vec<f32>, bool)> = vec![(vec![], vec![], false); n];
        let mut past = vec![None; policy.layers()];
        let greedy = params.temperature == 0.0;
        for k in 0..params.max_tokens {
            let lp = to_host(log_softmax_at(logits.clone(), if greedy { 1.0 } else { params.temperature }), "lp")?;
            let mut next = Vec::with_capacity(n);
            for (i, (tokens, lps, done)) in out.iter_mut().enumerate() {
                if *done {
                    next.push(0);
                    continue;
                }
                let row = &lp[i * v..(i + 1) * v];
                let t = if greedy {
                    (0..v).fold(0, |b, j| if row[j] > row[b] { j } else { b })
                } else {
                    let mut left: f64 = rngs[i].random();
                    row.iter().position(|l| { left -= l.exp(); left < 0.0 }).unwrap_or(v - 1)
                };
                tokens.push(t as u32);
                lps.push(row[t] as f32);
                *done = params.end_tokens.contains(&(t as u32));
                next.push(t as i64);
            }
            if k + 1 < params.max_tokens {
                let t = Tensor::<2, Int>::from_data(TensorData::new(next, [n, 1]), &device);
                (logits, past) = policy.go_on(t, &memories, past);
            }
        }
        let mut it = out.into_iter();
        Ok((0..p).map(|_| it.by_ref().take(g).map(|(tokens, log_probs, done)| Sample { tokens, log_probs, log_prob_kind: LogProbKind::Tempered, temperature: params.temperature, finish: if done { FinishReason::EndToken } else { FinishReason::Length }, text: String::new(), policy_version: None }).collect()).collect())
    }
}

fn accuracy(policy: &Transformer, held: &[Problem]) -> f64 {
    let prompts = held.iter().map(|p| Prompt::new(p.prompt.clone(), p.clone())).collect();
    let plan = RolloutPlan { group_size: 1, params: SamplingParams { max_tokens: held[0].answer.len(), end_tokens: vec![END], ..Default::default() }.greedy(), seed: 0, step: 0, policy_version: 0 };
    let groups = rollout(policy, &mut Draw, prompts, &plan).unwrap();
    groups.iter().filter(|g| g.completions[0].tokens == g.prompt.task.answer).count() as f64 / groups.len() as f64
}

fn main() -> std::result::Result<(), BoxError> {
    let seed: u64 = env("SEED", 1);
    let task: String = env("TASK", "add".to_string());
    let (p, g, lr): (usize, usize, f64) = (env("P", 64), env("G", 16), env("LR", 2e-3));
    let steps: u64 = env("STEPS", 400);
    let device = Device::flex();
    let mut all = problems(&task);
    let mut rng = stream(seed, usize::MAX - 1);
    for i in (1..all.len()).rev() {
        let j = rng.random_range(0..=i);
        all.swap(i, j);
    }
    let held = all.split_off(all.len() - 1000);
    let width = env("W", 64);
    let sizes = Sizes { vocabulary: 13, positions: held[0].prompt.len() + held[0].answer.len(), width, heads: env("H", 4), layers: env("L", 2) };
    let mut policy = Transformer::new(sizes, seed, &device.clone().autodiff());
    let config = GrpoConfig { reduction: Reduction::TokenMean, max_grad_norm: Some(env("GN", 1.0)), ..Default::default() };
    let mut optimizer = AdamWConfig::new().with_beta_2(env("B2", 0.95)).with_epsilon(1e-8).with_weight_decay(env("WD", 0.0)).init();
    let ex: f64 = env("EX", 0.0);
    let rewards = Rewards::<Problem>::new()
        .with(1.0, from_fn("digits", |p: &Problem, c: &Completion| Ok((p.answer.iter().zip(&c.tokens).filter(|(a, b)| a == b).count() as f64 / p.answer.len() as f64).into())))
        .with(ex, from_fn("exact", |p: &Problem, c: &Completion| Ok(f64::from(u8::from(p.answer == c.tokens)).into())));
    let t0 = Instant::now();
    let mut ts = [0.0; 4];
    println!("before {}", accuracy(&policy.valid(), &held));
    for step in 0..steps {
        let t = Instant::now();
        let prompts: Vec<_> = (0..p).map(|_| { let q = &all[rng.random_range(0..all.len())]; Prompt::new(q.prompt.clone(), q.clone()) }).collect();
        let params = SamplingParams { max_tokens: held[0].answer.len(), end_tokens: vec![END], ..Default::default() };
        let groups = rollout(&policy.valid(), &mut Draw, prompts, &RolloutPlan { group_size: g, params, seed, step, policy_version: step })?;
        ts[0] += t.elapsed().as_secs_f64();
        let t = Instant::now();
        let table = rewards.score(&groups)?;
        let adv = config.estimator.advantages(&table.totals(), &table.groups)?;
        let batches = Batch::split(&groups, &adv, env("MB", 1 << 20), step, &device)?;
        ts[1] += t.elapsed().as_secs_f64();
        let t = Instant::now();
        let update = gradients(&policy, &batches, &StepStats::of(&batches), &config)?;
        ts[2] += t.elapsed().as_secs_f64();
        let t = Instant::now();
        let mut m = update.metrics.clone();
        let warm = ((step + 1) as f64 / 20.0).min(1.0);
        let decay = 1.0 - 0.9 * step as f64 / steps as f64;
        policy = update.apply(&mut optimizer, lr * warm * decay, policy);
        ts[3] += t.elapsed().as_secs_f64();
        m.merge(&Metrics::of_rollout(&groups, &table));
        if step % env("EVERY", 25) == 0 || step + 1 == steps {
            let f = |n| m.get(n).unwrap_or(f64::NAN);
            println!("{step:4} {:6.1}s reward {:.3} exact {:.3} H {:.3} gn {:.2} zero {:.2} acc {:.3} {:.1?}", t0.elapsed().as_secs_f64(), f("reward"), f("rewards/exact/mean"), f("entropy"), f("grad_norm"), f("frac_reward_zero_std"), accuracy(&policy.valid(), &held), ts);
        }
    }
    Ok(())
}
