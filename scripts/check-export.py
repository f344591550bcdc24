#!/usr/bin/env python3
"""Loads an exported model folder with `transformers` and compares it with reference numbers.

    python scripts/check-export.py FOLDER --reference FILE.json [--peft ADAPTER --peft-reference FILE.json] [--dtype float32]

FOLDER     config.json, *.safetensors, tokenizer.json ...: what AutoModelForCausalLM and AutoTokenizer read. Nothing is downloaded.
reference  JSON as in testdata/vectors/smollm2_reference.json and testdata/tiny-models/*/reference.json: `tolerance`, and `cases` with
           name, text, ids and any of logits_first8, logits_last, logsumexp, entropy, argmax, logp_next, greedy_ids_32, greedy_text.
--peft     a PEFT adapter folder; compared with --peft-reference on top of FOLDER. With the adapter switched off the numbers of
           --reference must come back.

A missing key of a case is skipped. The last line is `N passed, N failed, N skipped`; exit status 1 on any failure or when nothing passed.
Tolerances are absolute: those of the reference file (`float32_logits_abs`, `float32_logp_abs`) or --tolerance.
Needs torch, transformers, and peft for --peft.
"""
import argparse, contextlib, json, os, pathlib, sys, traceback, warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
warnings.filterwarnings("ignore")
import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

COUNT = {"passed": 0, "failed": 0, "skipped": 0}


def report(what, status, note=""):
    COUNT[status] += 1
    if status != "passed" or note:
        print(f"{status:7} {what}{': ' if note else ''}{note}", flush=True)


def check(what, function):
    """Runs one check: `function` returns None (passed), a string (what is wrong) or raises."""
    try:
        wrong = function()
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}"
    report(what, "failed" if wrong else "passed", wrong or "")


def close(got, want, tol):
    want = torch.tensor(want, dtype=torch.float64)
    if got.shape != want.shape:
        return f"shape {list(got.shape)}, expected {list(want.shape)}"
    if not got.numel():
        return None
    off = torch.nan_to_num((got - want).abs(), nan=float("inf"))
    at = [int(i) for i in torch.unravel_index(off.argmax(), off.shape)]
    return None if off.max() <= tol else f"off by {off.max():.3g} at {at} (got {got[tuple(at)]:.9g}, expected {want[tuple(at)]:.9g}, tolerance {tol:g})"


def same(got, want):
    if list(got) == list(want):
        return None
    at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
    return f"differs from position {at} on: got {list(got)[at:at + 6]}, expected {list(want)[at:at + 6]} (lengths {len(got)}, {len(want)})"


@torch.no_grad()
def logits_of(model, ids):
    return model(input_ids=torch.tensor([ids])).logits[0].double()


def greedy(model, ids, steps):
    """Greedy tokens, each from a fresh pass over the whole sequence; does not stop at end tokens."""
    out = []
    for _ in range(steps):
        out.append(int(logits_of(model, ids + out)[-1].argmax()))
    return out


def check_case(label, case, model, tokenizer, tol):
    ids = case["ids"]
    if "text" in case:
        check(f"{label}/ids", lambda: same(tokenizer(case["text"]).input_ids, ids))
    else:
        report(f"{label}/ids", "skipped")
    try:
        logits = logits_of(model, ids)
    except Exception as error:
        return report(f"{label}/forward", "failed", f"{type(error).__name__}: {error}")
    logp = logits.log_softmax(-1)
    values = {
        "logits_first8": (lambda: logits[:, :8], tol["logits"]),
        "logits_last": (lambda: logits[-1], tol["logits"]),
        "logsumexp": (lambda: logits.logsumexp(-1), tol["logits"]),
        "entropy": (lambda: -(logp.exp() * logp).nan_to_num(0.0).sum(-1), tol["logp"]),
        "logp_next": (lambda: logp[:-1].gather(1, torch.tensor(ids[1:], dtype=torch.long)[:, None])[:, 0], tol["logp"]),
    }
    for key, (got, t) in values.items():
        if key in case:
            check(f"{label}/{key}", lambda: close(got(), case[key], t))
        else:
            report(f"{label}/{key}", "skipped")
    if "argmax" in case:  # a tie within the tolerance counts as equal
        want = torch.tensor(case["argmax"])
        check(f"{label}/argmax", lambda: close(logits.gather(1, want[:, None])[:, 0] - logits.max(-1).values, [0.0] * len(want), 2 * tol["logits"]))
    else:
        report(f"{label}/argmax", "skipped")
    if "greedy_ids_32" in case:
        want = case["greedy_ids_32"]
        noise = min(tol["logits"], case.get("max_abs_f32_logit_deviation", tol["logits"]))
        if case.get("greedy_min_top2_gap", 1.0) > 4 * noise:
            check(f"{label}/greedy_ids_32", lambda: same(greedy(model, ids, len(want)), want))
        else:
            report(f"{label}/greedy_ids_32", "skipped", "the best two logits are too close for this tolerance")
        if "greedy_text" in case:
            got = tokenizer.decode(want)
            check(f"{label}/greedy_text", lambda: None if got == case["greedy_text"] else f"got {got!r}, expected {case['greedy_text']!r}")


def check_reference(path, label, model, tokenizer, override):
    reference = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    if not reference.get("cases"):
        return report(f"{label}", "failed", f"{path} has no cases")
    given = reference.get("tolerance", {})
    tol = {"logits": override or given.get("float32_logits_abs", 2e-3), "logp": override or given.get("float32_logp_abs", 1e-3)}
    for case in reference["cases"]:
        check_case(f"{label}/{case['name']}", case, model, tokenizer, tol)
    eos = reference.get("eos_token_ids") or ([reference["eos_token_id"]] if "eos_token_id" in reference else None)
    if eos is None:
        return report(f"{label}/end tokens", "skipped")
    have = model.generation_config.eos_token_id
    have = have if isinstance(have, list) else [have]
    check(f"{label}/end tokens", lambda: None if set(eos) == set(have) else f"got {have}, expected {eos}")


def load(folder, dtype):
    model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True, output_loading_info=True)
    bad = {k: sorted(map(str, v)) for k, v in info.items() if k in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs") and v}
    report("weights", "failed" if bad else "passed", json.dumps(bad) if bad else "")
    return model.eval()


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("--reference", type=pathlib.Path, required=True)
    p.add_argument("--peft", type=pathlib.Path, help="folder of a PEFT adapter")
    p.add_argument("--peft-reference", type=pathlib.Path, help="numbers with the adapter applied")
    p.add_argument("--dtype", choices=["float32", "float64"], default="float32", help="arithmetic to compare in")
    p.add_argument("--tolerance", type=float, help="absolute, in place of those in the reference file")
    args = p.parse_args()
    if bool(args.peft) != bool(args.peft_reference):
        p.error("--peft and --peft-reference go together")
    for path in filter(None, [args.folder, args.reference, args.peft, args.peft_reference]):
        if not path.exists():
            p.error(f"{path} does not exist")
    with contextlib.suppress(Exception):
        transformers.logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(args.folder, local_files_only=True)
        model = load(args.folder, getattr(torch, args.dtype))
        check_reference(args.reference, "base", model, tokenizer, args.tolerance)
        if args.peft:
            import peft
            # Every adapter tensor of the model must be in the file and the other way round: PEFT itself only warns.
            from safetensors import safe_open
            model = peft.PeftModel.from_pretrained(model, str(args.peft)).eval()
            with safe_open(str(args.peft / "adapter_model.safetensors"), "pt") as f:
                in_file, expected = set(f.keys()), set(peft.get_peft_model_state_dict(model))
            check("adapter tensors", lambda: None if in_file == expected else f"only in the file {sorted(in_file - expected)}, missing {sorted(expected - in_file)}")
            check_reference(args.peft_reference, "peft", model, tokenizer, args.tolerance)
            with model.disable_adapter():
                check_reference(args.reference, "adapter off", model, tokenizer, args.tolerance)
    except Exception:
        traceback.print_exc()
        report("loading", "failed", "see above")
    print(f"{COUNT['passed']} passed, {COUNT['failed']} failed, {COUNT['skipped']} skipped")
    sys.exit(1 if COUNT["failed"] or not COUNT["passed"] else 0)


if __name__ == "__main__":
    main()
