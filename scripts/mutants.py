#!/usr/bin/env python3
"""Breaks grpo-core on purpose, one small change at a time, and asks its tests whether they notice.

Works on a copy of the workspace with a target folder of its own; this tree stays as it is. Each mutant is tried against the test file
that should see it, then, if that is silent, against all tests of the crate. Prints a table; exits 1 if a mutant survives, 2 if a
mutant's text is no longer there (exactly once) or does not compile.

    scripts/mutants.py                 all mutants
    scripts/mutants.py clip epsilon    those whose name has one of these words
    scripts/mutants.py --from "REAL"   from the first whose name begins so
    CARGO=... scripts/mutants.py       another cargo
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CRATE = "crates/grpo-core"
CARGO = os.environ.get("CARGO", "cargo")

L, O, A = "loss/", "loss/objective/", "advantage/"

# Name, file below src, what stands there, what it becomes, the test that should notice ("lib": the unit tests).
MUTANTS = [
    # Signs.
    ("surrogate: sign", O + "clipped.rs", "let mut loss = surrogate.neg();", "let mut loss = surrogate.clone();", "objectives"),
    ("importance sampling: sign", O + "weighted.rs", "PolicyTerm::new((terms.level.ratio.clone() * terms.advantages.clone()).neg())",
     "PolicyTerm::new(terms.level.ratio.clone() * terms.advantages.clone())", "objectives"),
    ("weighted terms: sign", O + "weighted.rs", "(terms.log_probs.clone() * (weight * terms.advantages.clone())).neg()",
     "terms.log_probs.clone() * (weight * terms.advantages.clone())", "objectives"),
    ("log-ratio: old minus new", L + "terms.rs", "let x = log_probs.clone() - old.clone();", "let x = old.clone() - log_probs.clone();", "objectives"),
    ("KL: policy minus reference", L + "kl.rs", "log_ratio(reference - log_probs, bound)", "log_ratio(log_probs - reference, bound)", "terms"),
    ("KL: subtracted from the loss", L + "mod.rs", "per_token + kl.value * penalty.coefficient", "per_token - kl.value * penalty.coefficient", "terms"),
    ("k1: sign", L + "kl.rs", "KlEstimator::K1 => d.log.clone().neg()", "KlEstimator::K1 => d.log.clone()", "terms"),
    ("entropy bonus: sign", L + "mod.rs", "loss = loss - entropies.sum()", "loss = loss + entropies.sum()", "terms"),
    ("cross-entropy: sign", L + "mod.rs", "loss = loss - picked.sum()", "loss = loss + picked.sum()", "terms"),
    ("sampler weight: inverted", L + "correction.rs", "let x = terms.old.clone() - sampler;", "let x = sampler - terms.old.clone();", "terms"),
    ("off-policy mask: the rewarded ones", L + "correction.rs", "terms.advantages.clone().lower_elem(0.0)", "terms.advantages.clone().greater_elem(0.0)", "terms"),
    ("DRO: drift subtracted", O + "weighted.rs", "PolicyTerm::new(drift - terms.advantages", "PolicyTerm::new(drift.neg() - terms.advantages", "objectives"),
    # Minimum and maximum, low and high.
    ("surrogate: maximum", O + "clipped.rs", ".min_pair(inside * a.clone())", ".max_pair(inside * a.clone())", "objectives"),
    ("surrogate: minimum of the ratios", O + "clipped.rs", "(capped.clone() * a.clone()).min_pair(inside * a.clone())",
     "capped.clone().min_pair(inside) * a.clone()", "objectives"),
    ("clip range: low and high swapped", O + "clipped.rs", "ratio.clone().clamp(1.0 - clip.low, 1.0 + clip.high)",
     "ratio.clone().clamp(1.0 - clip.high, 1.0 + clip.low)", "objectives"),
    ("dual clip: maximum", O + "clipped.rs", "loss.min_pair(ceiling)", "loss.max_pair(ceiling)", "objectives"),
    ("dual clip: both signs", O + "clipped.rs", "loss.clone().mask_where(negative, loss.min_pair(ceiling))", "loss.min_pair(ceiling)", "objectives"),
    ("dual clip: cap in both branches", O + "clipped.rs", "DualClip::RatioCap(cap) => ratio.clone().clamp_max(cap),", "DualClip::RatioCap(cap) => ratio.clone().clamp_max(cap - 1.0),", "objectives"),
    ("clip counts: swapped", O + "clipped.rs", 'with(terms, "clip_ratio/low_mean", low)', 'with(terms, "clip_ratio/low_mean", region.clone())', "terms"),
    ("CISPO: lower bound in place of the upper", O + "weighted.rs", "weighted(terms, ratio.clamp_max(cap.0))", "weighted(terms, ratio.clamp_min(cap.0))", "objectives"),
    ("two-sided CISPO: swapped", O + "weighted.rs", "let weight = ratio.clone().clamp(1.0 - clip.low, 1.0 + clip.high);",
     "let weight = ratio.clone().clamp(1.0 - clip.high, 1.0 + clip.low);", "gradients"),
    ("GMPO: low and high swapped", O + "sequence.rs", "x.clone().clamp(-low, high)", "x.clone().clamp(-high, low)", "objectives"),
    ("SAPO: temperatures swapped", O + "clipped.rs", "up * (positive - negative) + negative", "up * (negative - positive) + positive", "objectives"),
    ("VESPO: shapes swapped", O + "sequence.rs", "wide(phi(negative)).mask_where(at.clone(), wide(phi(positive)))", "wide(phi(positive)).mask_where(at.clone(), wide(phi(negative)))", "objectives"),
    ("DPPO-TV: low and high swapped", O + "weighted.rs", "moved.clone().greater_elem(range.high)", "moved.clone().greater_elem(range.low)", "gradients"),
    ("DPPO-KL: low and high swapped", O + "weighted.rs", "divergence.greater_elem(range.low)", "divergence.greater_elem(range.high)", "objectives"),
    ("DPPO-KL: moves back masked, too", O + "weighted.rs", "up.clone().bool_and(p.clone().greater(old.clone()))", "up.clone()", "gradients"),
    ("threshold mask: one side", O + "weighted.rs", "probability_change(terms).abs().greater_elem(threshold)", "probability_change(terms).greater_elem(threshold)", "objectives"),
    ("REAL: signs swapped", O + "group.rs", "log_sum(s.clone(), lower) + log_sum(s.neg(), upper)", "log_sum(s.clone(), upper) + log_sum(s.neg(), lower)", "objectives"),
    ("REAL: a slope of 32 bits", O + "group.rs", "terms.row_mean(terms.token.log.clone()) * temperature.recip()", "terms.row_mean(terms.token.log.clone()) / temperature", "objectives"),
    ("REAL: from e^s itself", O + "group.rs", "let top = s.clone().inner().max_dim(1).clamp_min(0.0);", "let top = s.clone().inner().max_dim(1) * 0.0;", "objectives"),
    ("REAL: groups may be cut", O + "group.rs", "if here != all {", "if here > all {", "invariance"),
    ("KL-Cov: the lowest", O + "covariance.rs", "greater_equal_elem(cov.threshold)", "lower_equal_elem(cov.threshold)", "objectives"),
    ("KL-Cov: threshold on the last held", L + "stats.rs", "|last| (last + next) / 2.0", "|last| *last", "objectives"),
    ("KL-Cov: more than its share of equal ones", L + "stats.rs", "held.iter().rev().find(|c| **c > next)", "held.iter().rev().find(|c| **c >= next)", "objectives"),
    ("Clip-Cov: clipped tokens, too", O + "covariance.rs", "out.bool_and(region.equal_elem(0.0))", "out.bool_or(region.equal_elem(9.0))", "objectives"),
    ("Clip-Cov: draws all", L + "stats.rs", "if take == 0 { -1.0 } else { draws[take - 1] }", "if take == 0 { -1.0 } else { draws[draws.len() - 1] }", "objectives"),
    ("FIPO: what came before", O + "future.rs", "Tensor::cat(vec![later, nothing], 1)", "Tensor::cat(vec![nothing, later], 1)", "objectives"),
    ("FIPO: reach not doubled", O + "future.rs", "reach *= 2;", "reach += 1;", "gradients"),
    ("FIPO: unsafe tokens in the sum", O + "future.rs", "inner().mask_fill(unsafe_.clone(), 0.0)", "inner().mask_fill(unsafe_.clone(), 0.6931471805599453)", "objectives"),
    ("sampler weight: bounds swapped", L + "correction.rs", "raw.clone().clamp(weight.low, weight.high)", "raw.clone().clamp(1.0 / weight.high, 1.0 / weight.low.max(1e-9))", "terms"),
    ("rejection: keeps what diverges", L + "correction.rs", "let high = divergence.clone().greater_elem(rule.high);", "let high = divergence.clone().lower_elem(rule.high);", "terms"),
    ("top entropy: the lowest", L + "mod.rs", "greater_equal_elem(step.entropy_threshold()?)", "lower_equal_elem(step.entropy_threshold()?)", "terms"),
    # Masks.
    ("terms: mask dropped", L + "terms.rs", "let masked = |t: Tensor<2>| t.cast(dtype).mask_fill(ignored.clone(), 0.0);", "let masked = |t: Tensor<2>| t.cast(dtype);", "gradients"),
    ("weights: mask dropped", L + "reduce.rs", "if counts { w } else { 0.0 }", "if counts || w.is_finite() { w } else { 0.0 }", "traps"),
    ("entropy: mask dropped", L + "mod.rs", "let entropies = entropies(new)?.mask_fill(terms.ignored.clone(), 0.0);", "let entropies = entropies(new)?;", "terms"),
    ("metrics: mask dropped", L + "mod.rs", "values.inner().mask_fill(self.terms.ignored.clone(), 0.0).sum()", "values.inner().sum()", "terms"),
    ("reference: mask dropped", L + "kl.rs", "let reference = reference.tensor().cast(terms.dtype()).mask_fill(terms.ignored.clone(), 0.0);", "let reference = reference.tensor().cast(terms.dtype());", "traps"),
    ("sampler: mask dropped", L + "correction.rs", "sampler.cast(terms.dtype()).mask_fill(terms.ignored.clone(), 0.0)",
     "sampler.cast(terms.dtype())", "gradients"),
    ("observations: mask dropped", L + "stats.rs", ".filter(|&(_, &m)| m).map(|(v, _)| v)", ".filter(|&(v, _)| v.is_finite()).map(|(v, _)| v)", "terms"),
    ("ignored rows stay in the mask", "batch/choice.rs", "self.mask_host[row * width..(row + 1) * width].fill(false);", "", "traps"),
    # Stop gradients.
    ("sequence-token: value detached only", L + "ratio.rs", "let mean = (x.clone().inner().sum_dim(1)", "let mean = (x.clone().sum_dim(1)", "gradients"),
    ("CISPO: weight tracked", O + "weighted.rs", "let ratio = terms.level.ratio.clone().inner();\n    let cut = ratio.clone().greater_elem(cap.0)",
     "let ratio = terms.level.ratio.clone();\n    let cut = ratio.clone().inner().greater_elem(cap.0)", "gradients"),
    ("sequence-token: rounded by its path", L + "ratio.rs", "mean + (x.clone() - x.inner())", "mean + x.clone() - x.inner()", "objectives"),
    ("straight-through: value tracked", L + "kl.rs", "value.inner() + (path.clone() - path.inner())", "value + (path.clone() - path.inner())", "terms"),
    ("straight-through: rounded by its path", L + "kl.rs", "value.inner() + (path.clone() - path.inner())", "value.inner() + path.clone() - path.inner()", "terms"),
    ("KL: weighted by a constant ratio", L + "kl.rs", "value * ratio.clone().mask_where(cut, ratio.clone().inner())", "value * ratio.clone().inner()", "terms"),
    ("KL: pushes away beyond the bound", L + "kl.rs", "let cut = bounded.clone().greater_elem(0.5);", "let cut = bounded.clone().greater_elem(9.5);", "terms"),
    ("no old log-probs: no gradient", L + "terms.rs", "None => log_probs.clone().inner(),", "None => log_probs.clone(),", "gradients"),
    ("FIPO: weight tracked", O + "future.rs", "let x = terms.token.log.clone().inner()", "let x = terms.token.log.clone()", "gradients"),
    # Bounds before exp.
    ("ratio: bounded after exp", L + "ratio.rs", "ratio: log.clone().exp(), bounded", "ratio: x.clone().exp().clamp((-bound).exp(), bound.exp()), bounded", "gradients"),
    ("GMPO: unbounded", O + "sequence.rs", "let x = terms.token.log.clone();", "let x = terms.token.raw.clone();", "gradients"),
    ("16 bits stay 16 bits", L + "terms.rs", "DType::F16 | DType::BF16 | DType::Flex32 => DType::F32,", "DType::Flex32 => DType::F32,", "gradients"),
    ("entropies keep their type", L + "mod.rs", "Ok(entropies.cast(precision(scores.log_probs.dtype())))", "Ok(entropies)", "traps"),
    ("exact KL keeps its type", L + "kl.rs", "let value = value.cast(terms.dtype());", "", "traps"),
    # Metrics.
    ("largest value: at least 0", L + "mod.rs", "f64::from(f32::MIN)).max()", "0.0).max()", "terms"),
    ("largest value: of no token", L + "mod.rs", "(Normaliser::Max | Normaliser::Min, _) if count == 0 => {}", "(Normaliser::Max | Normaliser::Min, _) if count == usize::MAX => {}", "invariance"),
    ("raw ratios: bounded", L + "mod.rs", 'sums.maximum("importance_ratio/max", terms.token.raw.clone().inner().clamp(-60.0, 60.0).exp());',
     'sums.maximum("importance_ratio/max", terms.token.ratio.clone());', "terms"),
    ("effective sample size: of the sum", L + "mod.rs", "weights.square().sum()", "weights.sum()", "terms"),
    ("effective sample size: mean of shares", "metrics.rs", "entry.squares += squares;", "entry.squares = squares;", "terms"),
    ("drift: always from the trainer", L + "correction.rs", "OldSource::Sampler => batch.sampler_log_probs(settings.accept)?.cast(terms.dtype()),", "OldSource::Sampler => terms.old.clone(),", "terms"),
    ("global norm: in the first type", "grad.rs", "if sums.iter().any(|sum| sum.dtype() == DType::F64)", "if sums.iter().all(|sum| sum.dtype() == DType::F64)", "step"),
    ("global norm: squares in sixteen bits", "grad.rs", "let gradient = gradient.cast(wide);", "let _ = wide;", "step"),
    # Reductions and step-wide counts.
    ("sequence mean: not divided by the length", L + "reduce.rs", "1.0 / (n * (len as f64 + config.length_epsilon))", "1.0 / n", "objectives"),
    ("sequence sum: divided by the length", L + "reduce.rs", "Reduction::SequenceSum => 1.0 / n,", "Reduction::SequenceSum => 1.0 / (n * len as f64),", "objectives"),
    ("token mean: of the micro-batch", L + "reduce.rs", "Reduction::TokenMean => 1.0 / step.tokens as f64,", "Reduction::TokenMean => 1.0 / here as f64,", "invariance"),
    ("every loss divided by the micro-batches", L + "reduce.rs", "if counts { w } else { 0.0 }", "if counts { w / step.micro_batches as f64 } else { 0.0 }", "invariance"),
    ("prompt mean: over all groups", L + "reduce.rs", "(step.group_tokens.len() * group_tokens(row))", "(step.completions * group_tokens(row))", "objectives"),
    ("counted rows: swapped", L + "reduce.rs", "CountedRows::All => step.completions,\n        CountedRows::NonEmpty => step.non_empty,",
     "CountedRows::All => step.non_empty,\n        CountedRows::NonEmpty => step.completions,", "terms"),
    ("entropy bonus: over the micro-batch", L + "mod.rs", "config.entropy.bonus / step.tokens as f64", "config.entropy.bonus / batch.token_counts().iter().sum::<usize>() as f64", "invariance"),
    ("merge: a share's threshold stays", L + "stats.rs", "(mine.entropy_threshold, mine.mean_weight, mine.covariance) = (None, None, None);", "", "step"),
    ("stats of another step pass", L + "stats.rs", "if counted && here.completions", "if counted || here.completions", "step"),
    ("REAL: mean over dead groups, too", O + "group.rs", "step.mixed_groups.len().max(1)", "step.group_tokens.len().max(1)", "objectives"),
    ("Clip-Cov: draws by position", L + "stats.rs", "group_seed(seed, 0, u64::from(token))", "seed.wrapping_add(u64::from(token) * 0 + row as u64)", "invariance"),
    ("merge: one share's tokens lost", L + "stats.rs", "self.tokens += other.tokens;", "self.tokens = self.tokens.max(other.tokens);", "invariance"),
    ("merge: entropies lost", L + "stats.rs", "mine.entropies.extend(theirs.entropies);", "drop(theirs.entropies);", "invariance"),
    ("row mean: at least one token dropped", L + "terms.rs", "mask.clone().sum_dim(1).clamp_min(1.0)", "mask.clone().sum_dim(1).clamp_min(2.0)", "objectives"),
    ("mean weight: not 1 where all are 0", L + "stats.rs", ".filter(|mean| *mean > 0.0).or(Some(1.0))", "", "terms"),
    # The step.
    ("accumulation: the last micro-batch", "grad.rs", "(Some(a), Some(b)) => a + b,", "(Some(_), Some(b)) => b,", "step"),
    ("accumulation: parameters that one lacks", "grad.rs", "(Some(one), None) | (None, Some(one)) => one,", "(Some(one), None) => one,\n                (None, Some(_)) => return,", "step"),
    ("global norm: never clips", "grad.rs", "factor: max / (total + 1e-6)", "factor: 1.0 + 0.0 * max", "step"),
    ("global norm: sum for the root of squares", "grad.rs", "total = total.hypot(pair[0] * pair[1].sqrt());", "total += pair[0] * pair[1].sqrt();", "step"),
    ("global norm: squares overflow", "grad.rs", "let largest = gradient.clone().abs().max();", "let largest = gradient.clone().abs().max() * 0.0 + 1.0;", "step"),
    ("bad gradients are applied", "step.rs", "norm.value.is_none_or(|norm| norm == 0.0)", "norm.value == Some(0.0)", "step"),
    ("empty steps are taken", "step.rs", "norm.value.is_none_or(|norm| norm == 0.0)", "norm.value.is_none()", "step"),
    ("advantages set under the mask", "batch/choice.rs", ".filter(|(t, _)| self.mask_host[row * width + t])", "", "batch"),
    ("stale rollouts pass", "batch/mod.rs", "(0, 0..=1) => return Ok(()),", "(_, 0..=1) => return Ok(()),", "step"),
    ("staleness limit: off by one", "batch/mod.rs", "&& self.staleness > limit", "&& self.staleness > limit + 1", "step"),
    ("raw log-probs at any temperature", "batch/scored.rs", "(*kind == LogProbKind::Raw && self.temperature == 1.0)", "*kind == LogProbKind::Raw", "traps"),
    ("logits: one place off", "causal.rs", "prompts.lengths()[p] + k - 1", "prompts.lengths()[p] + k", "traps"),
    ("temperature: multiplied", "causal.rs", "logits * temperature.recip()", "logits * temperature", "traps"),
    # Host side.
    ("ddof: swapped", A + "spread.rs", "Self::Sample => 1,", "Self::Sample => 0,", "lib"),
    ("spread: rounding counts", A + "spread.rs", "high - low <= 4.0 * f64::EPSILON", "high - low <= 0.0 * f64::EPSILON", "lib"),
    ("advantage: epsilon inside the root", A + "standardise.rs", "Scale::Group | Scale::Batch => std + self.epsilon,", "Scale::Group | Scale::Batch => (std * std + self.epsilon).sqrt(),", "lib"),
    ("advantage: epsilon moved", A + "standardise.rs", "ddof: Ddof::Sample, epsilon: 1e-4", "ddof: Ddof::Sample, epsilon: 1e-6", "lib"),
    ("advantage: not centred", A + "standardise.rs", "(reward - mean) / divisor", "reward / divisor", "lib"),
    ("RLOO: mean of all", A + "groups.rs", "group.n() / (group.n() - 1.0)", "1.0", "lib"),
    ("rewards: weights dropped", "score.rs", "outcome(r).map(|r| r * w)", "outcome(r).map(|r| r * w.signum())", "rewards"),
    ("rewards: a metric counts", "score.rs", "let terms = row.iter().zip(&self.weights).filter(|&(_, &w)| w != 0.0);", "let terms = row.iter().zip(&self.weights);", "rewards"),
    ("rewards: failures are 0", "score.rs", "failures += 1;\n                        row.push(Reward::NotApplicable);", "failures += 1;\n                        row.push(Reward::Outcome(0.0));", "rewards"),
    ("config: misspelt keys pass", "config/objective.rs", '#[serde(rename_all = "snake_case", deny_unknown_fields)]', '#[serde(rename_all = "snake_case")]', "config"),
    ("config: cap below 1", "config/objective.rs", "self.0 >= 1.0)", "self.0 >= 0.0)", "config"),
    ("config: beta = 0 asks a reference", "config/mod.rs", "self.kl.is_some_and(|kl| kl.coefficient != 0.0)", "self.kl.is_some()", "config"),
]


def copy_workspace(to: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        source = ROOT / name
        if source.is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, to / name)


def seed_target(to: Path) -> None:
    """Hard links to what is compiled of other packages; our own are left out, so that nothing shared is ever written."""
    built = ROOT / "target" / "release"
    for folder in ("deps", "build", ".fingerprint"):
        for source in sorted((built / folder).rglob("*")):
            below = source.relative_to(built)
            if "grpo" in below.parts[1] or not source.is_file():
                continue
            (to / below).parent.mkdir(parents=True, exist_ok=True)
            if folder == "deps":
                os.link(source, to / below)
            else:
                shutil.copy2(source, to / below)


def run(copy: Path, target: Path, which: list[str]) -> tuple[str, str]:
    """'passed', 'killed' with the test's name, or 'broken' with what the compiler said."""
    # Compiling is most of the work: our own crate with little optimisation, its dependencies as they are.
    quick = ["--config", "profile.release.package.grpo-core.opt-level=1"]
    command = [CARGO, "nextest", "run", "--release", "--offline", *quick, "-p", "grpo-core", "--no-tests", "fail", *which]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, env={**os.environ, "CARGO_TARGET_DIR": str(target)})
    failed = re.findall(r"^\s+(?:FAIL|SIG\w+|ABORT|TIMEOUT) \[.*?\] (?:\(.*?\) )?(.+)$", done.stderr, re.M)
    if failed:
        return "killed", failed[0].removeprefix("grpo-core").removeprefix("::").strip()
    if done.returncode == 0:
        return "passed", ""
    return "broken", done.stderr[-3000:]


def main() -> int:
    words = sys.argv[1:]
    if words[:1] == ["--from"]:
        start = next(k for k, mutant in enumerate(MUTANTS) if mutant[0].startswith(words[1]))
        chosen = MUTANTS[start:]
    else:
        chosen = [m for m in MUTANTS if not words or any(word.lower() in m[0].lower() for word in words)]
    texts = {}
    for name, file, old, new, _ in MUTANTS:
        text = texts.setdefault(file, (ROOT / CRATE / "src" / file).read_text())
        if text.count(old) != 1 or old == new:
            print(f"mutant `{name}`: its text stands {text.count(old)} times in {file}, must be once", file=sys.stderr)
            return 2
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy, target = Path(folder) / "workspace", Path(folder) / "target"
        copy_workspace(copy)
        seed_target(target / "release")
        state, detail = run(copy, target, [])
        if state != "passed":
            print(f"the tests do not pass without a mutant: {detail}", file=sys.stderr)
            return 2
        survivors, broken = 0, 0
        print("| mutant | killed by |\n|---|---|", flush=True)
        for name, file, old, new, hint in chosen:
            path = copy / CRATE / "src" / file
            path.write_text(texts[file].replace(old, new))
            state, detail = run(copy, target, ["--lib"] if hint == "lib" else ["--test", hint])
            if state == "passed":
                state, detail = run(copy, target, [])
            path.write_text(texts[file])
            if state == "broken":
                print(detail, file=sys.stderr)
                detail, broken = "**does not compile**", broken + 1
            elif state == "passed":
                detail, survivors = "**nobody**", survivors + 1
            print(f"| {name} | {detail} |", flush=True)
        print(f"\n{len(chosen)} mutants, {survivors} survived", flush=True)
        return 2 if broken else int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main())
