#!/usr/bin/env python3
"""Makes testdata/tiny-reward-models: random sequence classifiers of a few kB and the scores that `transformers` gives.

    python scripts/make-tiny-reward-models.py [--out testdata]

Needs what `make-tiny-checkpoints.py` needs, whose sizes, tokenizers and float64 arithmetic these models share. Every row is scored alone and
in a padded batch; both must agree before anything is written.
"""
import argparse, importlib.util, json, pathlib, shutil, tempfile

import torch, transformers
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

spec = importlib.util.spec_from_file_location("tiny", pathlib.Path(__file__).with_name("make-tiny-checkpoints.py"))
tiny = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tiny)

MODELS = {
    # The end token pads, too, as in many repositories: the score is then not read at the end token.
    "llama": ("llama-scaled-rope", {"pad_token_id": 2, "id2label": {"0": "LABEL_0"}}),
    "qwen2": ("qwen2", {"pad_token_id": 0, "id2label": {"0": "LABEL_0"}, "problem_type": "regression"}),
    "qwen3": ("qwen3", {"id2label": {"0": "wrong", "1": "right", "2": "unclear"}, "label2id": {"wrong": 0, "right": 1, "unclear": 2}}),
}
QUESTION = "12 + 9 = ?"
ANSWERS = ["21", "it is 21, the sum of 12 and 9", "I think 22", "x"]


def write(path, reference):
    cases = ",\n".join(json.dumps(case, ensure_ascii=False) for case in reference.pop("cases"))
    path.write_text(json.dumps(reference)[:-1] + ', "cases": [\n' + cases + "\n]}\n")


@torch.no_grad()
def reference(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    load = lambda: AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    single, model = load().eval(), tiny.exact(load())
    config = model.config
    end = config.eos_token_id if isinstance(config.eos_token_id, int) else config.eos_token_id[-1]
    prompt = tokenizer(QUESTION).input_ids
    rows = [(f"answer {i}", prompt + tokenizer(a, add_special_tokens=False).input_ids + [end]) for i, a in enumerate(ANSWERS)]
    rows += [("cut", prompt + rows[1][1][len(prompt):-4]), ("one token", [7]), ("nothing but padding", [config.pad_token_id] * 3)]
    rows += [("padding within", prompt + [config.pad_token_id] + rows[0][1][len(prompt):] + [config.pad_token_id])]
    cases = [{"name": name, "ids": ids} for name, ids in rows]
    if tokenizer.chat_template:
        for i, answer in enumerate(ANSWERS):
            messages = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": answer}]
            text = tokenizer.apply_chat_template(messages, tokenize=False)
            cases.append({"name": f"chat {i}", "question": QUESTION, "answer": answer, "ids": tokenizer(text, add_special_tokens=False).input_ids})
    for case in cases:
        ids = torch.tensor([case["ids"]])
        case["logits"] = model(ids).logits[0].tolist()
        deviation = (single(ids).logits[0].double() - torch.tensor(case["logits"], dtype=torch.float64)).abs().max().item()
        assert deviation < 5e-6, deviation
    width = max(len(case["ids"]) for case in cases)
    padded = torch.tensor([case["ids"] + [config.pad_token_id] * (width - len(case["ids"])) for case in cases])
    mask = torch.tensor([[1] * len(case["ids"]) + [0] * (width - len(case["ids"])) for case in cases])
    together = model(padded, attention_mask=mask).logits
    torch.testing.assert_close(together, torch.tensor([case["logits"] for case in cases], dtype=torch.float64), atol=1e-6, rtol=0)  # its softmax is float32
    oracle = f"transformers {transformers.__version__} {type(model).__name__}, torch {torch.__version__.split('+')[0]}, float64"
    return {"format": 1, "oracle": oracle, "tolerance": 1e-5, "prompt": prompt, "cases": cases}


def make(name, base, extra, folder):
    source = tiny.MODELS[base]
    config = source["config"] | extra
    config["architectures"] = [c.replace("CausalLM", "SequenceClassification") for c in config["architectures"]]
    folder.mkdir(parents=True)
    tiny.make_tokenizer(source, folder)
    tiny.write_json(folder / "config.json", config)
    model = AutoModelForSequenceClassification.from_config(AutoConfig.from_pretrained(folder))
    tiny.random_weights(model, 5, config["tie_word_embeddings"])
    model.score.weight.data *= 0.4  # scores of about 1
    with tempfile.TemporaryDirectory() as tmp:  # only the weights: configs stay as written above
        model.to(source["dtype"]).save_pretrained(tmp)
        shutil.copy(pathlib.Path(tmp) / "model.safetensors", folder)
    result = reference(folder)
    print(name, [[round(z, 3) for z in case["logits"]] for case in result["cases"]])
    write(folder / "reference.json", result)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("testdata"))
    args = p.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    shutil.rmtree(args.out / "tiny-reward-models", ignore_errors=True)
    for name, (base, extra) in MODELS.items():
        make(name, base, extra, args.out / "tiny-reward-models" / name)


if __name__ == "__main__":
    main()
