//! Reading a prompt once is the flattened computation, in values and in gradients.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use burn::Tensor;
use burn::module::{Module as _, ModuleMapper, Param};
use burn::tensor::{DType, Device};
use common::*;
use grpo_core::{Padded, Policy as _, ReferenceRows, ScoreRequest, TokenBatch};

#[test]
fn values_and_every_gradient_equal_the_flattened_computation() {
    let device = Device::flex().autodiff();
    for config in families() {
        for (batch, temperature) in [(even(), 1.0), (ragged(), 0.7), (twins(), 0.7)] {
            let what = format!("{:?}", config.architecture);
            let decoder = decoder(&config, &device);
            let shared = log_probs(&decoder, &batch, temperature);
            let flat = flattened(&decoder, &batch, temperature);
            let real = places(&batch);
            let pick = |v: Vec<f64>| v.iter().zip(&real).filter(|(_, r)| **r).map(|(v, _)| *v).collect::<Vec<_>>();
            close(&pick(values(shared.clone())), &pick(values(flat.clone())), 1e-5, &what);
            let shared = gradients(&decoder, weighted(shared, &batch));
            let flat = gradients(&decoder, weighted(flat, &batch));
            assert_eq!(shared.len(), flat.len());
            assert!(shared.len() >= 20);
            for (name, gradient) in &shared {
                close(gradient, &flat[name], 1e-5, &format!("{what} {name}"));
            }
        }
    }
}

#[test]
fn padded_places_hold_zero_and_padding_changes_nothing() {
    let decoder = decoder(&llama(), &Device::flex());
    let batch = ragged();
    let given = values(log_probs(&decoder, &batch, 1.0));
    for (value, real) in given.iter().zip(places(&batch)) {
        assert_eq!(*value != 0.0, real);
    }
    // Wider: one long prompt and one long completion more.
    let mut prompts: Vec<_> = (0..4).map(|p| batch.prompts().row(p).to_vec()).collect();
    prompts.push(tokens(9, 30));
    let mut completions: Vec<_> = (0..7).map(|n| batch.completions().row(n).to_vec()).collect();
    completions.push(tokens(8, 20));
    let of = [batch.prompt_of(), &[4]].concat();
    let wide = TokenBatch::new(Padded::new(&prompts).unwrap(), Padded::new(&completions).unwrap(), of).unwrap();
    let wide = values(log_probs(&decoder, &wide, 1.0));
    for n in 0..7 {
        let length = batch.completions().lengths()[n];
        let width = batch.completions().width();
        close(&wide[n * 20..n * 20 + length], &given[n * width..n * width + length], 1e-5, "wide");
    }
}

#[test]
fn batched_is_alone() {
    let device = Device::flex();
    let (decoder, other) = (decoder(&families()[2], &device), decoder(&llama(), &device));
    let all = |batch: &TokenBatch| {
        let rows = other.score(batch, &ScoreRequest::at(1.0).with_rows()).unwrap().rows.unwrap();
        let scores = decoder.score(batch, &ScoreRequest::at(1.0).with_entropies().with_kl_to(&rows)).unwrap();
        [scores.log_probs, scores.entropies.unwrap(), scores.kl.unwrap()].map(values)
    };
    for batch in [ragged(), twins()] {
        let together = all(&batch);
        let width = batch.completions().width();
        for n in 0..batch.completions().rows() {
            let prompt = Padded::new(&[batch.prompts().row(batch.prompt_of()[n])]).unwrap();
            let one = TokenBatch::new(prompt, Padded::new(&[batch.completions().row(n)]).unwrap(), vec![0]).unwrap();
            for (together, alone) in together.iter().zip(all(&one)) {
                close(&together[n * width..n * width + alone.len()], &alone, 1e-5, "alone");
            }
        }
    }
}

#[test]
fn kl_to_its_own_snapshot_is_exactly_zero_and_gradients_are_clean() {
    let device = Device::flex().autodiff();
    let both = || [decoder(&llama(), &device), with_lora(&llama(), &device)];
    for (decoder, batch) in both().into_iter().zip([ragged(), ragged()]).chain(both().into_iter().zip([twins(), twins()])) {
        let reference = decoder.snapshot();
        let ask = ScoreRequest::at(0.8).with_rows().with_entropies();
        let reference = reference.score(&batch, &ask).unwrap();
        let rows = reference.rows.unwrap();
        assert!(matches!(&rows, ReferenceRows::Hidden { hidden, .. } if !hidden.is_tracked()));
        let scores = decoder.score(&batch, &ScoreRequest::at(0.8).with_kl_to(&rows)).unwrap();
        assert!(values(scores.kl.clone().unwrap()).iter().all(|&kl| kl == 0.0));
        assert_eq!(values(scores.log_probs.clone()), values(reference.log_probs));
        let gradients = gradients(&decoder, scores.kl.unwrap().sum());
        assert!(gradients.values().flatten().all(|g| g.abs() < 1e-6));
    }
}

#[test]
fn entropy_and_kl_are_those_of_the_logits() {
    let (policy, other) = (decoder(&llama(), &Device::flex()), decoder(&families()[2], &Device::flex()));
    let batch = even();
    let temperature = 1.3;
    let rows = other.score(&batch, &ScoreRequest::at(temperature).with_rows()).unwrap().rows.unwrap();
    let scores = policy.score(&batch, &ScoreRequest::at(temperature).with_entropies().with_kl_to(&rows)).unwrap();
    let (entropies, kls) = (values(scores.entropies.unwrap()), values(scores.kl.unwrap()));
    let row = [batch.prompts().row(0), batch.completions().row(1)].concat();
    let softmax = |d: &grpo_lm::Decoder| -> Vec<f64> {
        // The row that predicts the completion's second token: row 1, place 1.
        let all = values(d.logits(&Padded::new(std::slice::from_ref(&row)).unwrap()).unwrap());
        let z = &all[6 * 37..7 * 37];
        let e: Vec<f64> = z.iter().map(|z| (z / temperature).exp()).collect();
        e.iter().map(|x| x / e.iter().sum::<f64>()).collect()
    };
    let (p, q) = (softmax(&policy), softmax(&other));
    let entropy: f64 = p.iter().map(|p| -p * p.ln()).sum();
    let kl: f64 = p.iter().zip(&q).map(|(p, q)| p * (p / q).ln()).sum();
    let place = batch.completions().width() + 1;
    close(&[entropies[place], kls[place]], &[entropy, kl], 1e-5, "row 1, place 1");
}

/// Changes the element type of every parameter.
struct Cast(DType);
impl ModuleMapper for Cast {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (id, tensor, mapper) = param.consume();
        let tensor = Tensor::from_inner(tensor.inner().cast(self.0)).require_grad();
        Param::from_mapped_value(id, tensor, mapper)
    }
}

/// Adds a step to one number of one parameter.
struct Nudge(usize, usize, f64, usize);
impl ModuleMapper for Nudge {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let number = self.3;
        self.3 += 1;
        if number != self.0 {
            return param;
        }
        let (id, tensor, mapper) = param.consume();
        let shape = tensor.dims();
        let mut data = values(tensor.clone());
        let place = self.1 % data.len();
        data[place] += self.2;
        let tensor = Tensor::from_data(burn::tensor::TensorData::new(data, shape), (&tensor.device(), DType::F64));
        Param::from_mapped_value(id, tensor.require_grad(), mapper)
    }
}

#[test]
fn gradients_are_central_differences_in_f64() {
    let device = Device::flex().autodiff();
    for config in families() {
        let decoder = decoder(&config, &device).map(&mut Cast(DType::F64));
        let batch = ragged();
        let loss = |d: &grpo_lm::Decoder| weighted(log_probs(d, &batch, 0.7), &batch);
        let tracked = gradients(&decoder, loss(&decoder));
        let names: Vec<String> = order(&decoder);
        let h = 1e-5;
        for (number, name) in names.iter().enumerate() {
            for place in [0, 5, 77] {
                let at = |h: f64| scalar(loss(&decoder.clone().map(&mut Nudge(number, place, h, 0))));
                let numeric = (at(h) - at(-h)) / (2.0 * h);
                let given = tracked[name][place % tracked[name].len()];
                assert!((numeric - given).abs() < 1e-8, "{name} at {place}: {given}, by differences {numeric}");
            }
        }
    }
}

/// The parameters' names in the order in which modules are walked.
fn order(decoder: &grpo_lm::Decoder) -> Vec<String> {
    struct Names(Vec<String>, Vec<String>);
    impl burn::module::ModuleVisitor for Names {
        fn enter_module(&mut self, name: &str, _: &str) {
            self.0.push(name.to_owned());
        }
        fn exit_module(&mut self, _: &str, _: &str) {
            self.0.pop();
        }
        fn visit_float<const D: usize>(&mut self, _: &Param<Tensor<D>>) {
            self.1.push(self.0.join("."));
        }
    }
    let mut names = Names(Vec::new(), Vec::new());
    decoder.visit(&mut names);
    names.1
}

#[test]
fn what_does_not_fit_is_an_error_that_names_it() {
    let decoder = decoder(&llama(), &Device::flex());
    let message = |prompt: Vec<u32>, completion: Vec<u32>| {
        let batch = TokenBatch::new(Padded::new(&[prompt]).unwrap(), Padded::new(&[vec![1], completion]).unwrap(), vec![0, 0]).unwrap();
        decoder.score(&batch, &ScoreRequest::at(1.0)).unwrap_err().to_string()
    };
    assert_eq!(
        message(vec![1; 90], vec![1; 7]),
        "completion: row 1 has 90 prompt and 7 completion tokens, 97 in all, must be at most the context of 96"
    );
    assert_eq!(message(vec![1, 37], vec![2]), "prompt: row 0 has token 37, must be below the vocabulary's 37");
    let batch = even();
    let rows = ReferenceRows::LogProbs(Tensor::zeros([6, 4, 37], &Device::flex()));
    assert!(decoder.score(&batch, &ScoreRequest::at(1.0).with_kl_to(&rows)).is_err());
    assert!(decoder.score(&batch, &ScoreRequest::at(0.0)).unwrap_err().to_string().contains("temperature = 0"));
}
