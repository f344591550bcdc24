#!/usr/bin/env python3
"""Makes testdata/tiny-models and testdata/tiny-peft: random checkpoints of a few kB and what `transformers` says about them.

    python scripts/make-tiny-checkpoints.py [--out testdata]

Needs torch, transformers, peft, safetensors and tokenizers. Everything is seeded. The seeds in MODELS were picked with `--search N`, so
that every greedy choice has a clear winner and some completions end in an end token.

Reference numbers are float64: `transformers` rounds to float32 inside RMSNorm and the rotary table even in a float64 model, so those two
are replaced here by the same formulas in float64. The rotary frequencies stay the float32 ones that `transformers` computes.
Before anything is written, each norm, bias and (Llama) the rotary scaling is taken away in turn: the logits must notice.
"""
import argparse, json, pathlib, shutil, tempfile, types

import peft, tokenizers, torch, transformers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

GREEDY = 32
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
MERGES = ["t h", "th e", "Ġ the", "i n", "a n", "an d", "Ġ and", "o u", "e r", "u m", "Ġ =", "Ġ +", "1 2"]
# The splitting patterns of the Llama 3 and Qwen2 tokenizers; they differ in how many digits stay together.
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LONG = "3 + 4 = 7\n12 + 9 = 21\n the ABC and xyz: {\"Q\": [0.5, -1]}; it's ~99% OK?! JKLMNOP #VW @RST <u> e^2/h | under_score & $5"
TEXTS = {
    "two_tokens": "ab",
    "sum": "12 + 9 =",
    "words": "the sum of 7 and 5 is another number",
    "lines": "3 + 4 = 7\n\n12 + 9 = 21\n  ",
    "marks": "it's (x*y) < [z] ~ \"Q\"; {1.5%}?!",
    "long": LONG,  # cut to 48 tokens
}
CHAT = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "7 + 5?"}]

MODELS = {
    "llama-scaled-rope": {
        "seed": 19,
        "config": {  # written the way Llama 3.x repositories are
            "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 0, "eos_token_id": [1, 2],
            "head_dim": 12, "hidden_act": "silu", "hidden_size": 48, "initializer_range": 0.02, "intermediate_size": 64,
            "max_position_embeddings": 256, "mlp_bias": False, "model_type": "llama", "num_attention_heads": 4, "num_hidden_layers": 2,
            "num_key_value_heads": 2, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
            "rope_scaling": {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 32, "rope_type": "llama3"},
            "rope_theta": 100.0, "tie_word_embeddings": False, "torch_dtype": "float32", "use_cache": True, "vocab_size": 112,
        },
        "generation": {"bos_token_id": 0, "do_sample": True, "eos_token_id": [1, 2], "temperature": 0.6, "top_p": 0.9},
        "specials": ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"], "digits": "{1,3}", "shard": "100KB", "dtype": torch.float32,
    },
    "qwen2": {
        "seed": 20,
        "config": {  # written the way Qwen2.5 repositories are
            "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 0, "eos_token_id": 2, "hidden_act": "silu",
            "hidden_size": 40, "initializer_range": 0.02, "intermediate_size": 56, "max_position_embeddings": 128, "max_window_layers": 2,
            "model_type": "qwen2", "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-06,
            "rope_theta": 10000.0, "sliding_window": 128, "tie_word_embeddings": True, "torch_dtype": "float32", "use_cache": True,
            "use_sliding_window": False, "vocab_size": 120,
        },
        "generation": {"bos_token_id": 0, "do_sample": True, "eos_token_id": [2, 0], "pad_token_id": 0, "repetition_penalty": 1.1, "temperature": 0.7, "top_k": 20, "top_p": 0.8},
        "specials": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], "digits": "", "template": "config", "dtype": torch.float32,
    },
    "qwen3": {
        "seed": 8,
        "config": {  # written the way transformers 5 saves one: dtype, rope_parameters, layer_types
            "architectures": ["Qwen3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": None, "dtype": "bfloat16",
            "eos_token_id": 2, "head_dim": 16, "hidden_act": "silu", "hidden_size": 32, "initializer_range": 0.02, "intermediate_size": 72,
            "layer_types": ["full_attention"] * 3, "max_position_embeddings": 128, "max_window_layers": 3, "model_type": "qwen3",
            "num_attention_heads": 4, "num_hidden_layers": 3, "num_key_value_heads": 2, "pad_token_id": 0, "rms_norm_eps": 1e-06,
            "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}, "sliding_window": None, "tie_word_embeddings": False,
            "use_cache": True, "use_sliding_window": False, "vocab_size": 112,
        },
        "generation": {"eos_token_id": 2, "pad_token_id": 0},
        "specials": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], "digits": None, "template": "file", "dtype": torch.bfloat16,
    },
}


def make_tokenizer(spec, folder):
    """Byte-level BPE over the printable ASCII characters and the newline, with a few merges; bytes outside of these are dropped."""
    specials, digits = spec["specials"], spec["digits"]
    units = specials + [chr(c) for c in range(33, 127)] + ["Ġ", "Ċ"] + [m.replace(" ", "") for m in MERGES]
    t = tokenizers.Tokenizer(models.BPE(vocab={u: i for i, u in enumerate(units)}, merges=[tuple(m.split(" ")) for m in MERGES]))
    if digits is None:  # as in SmolLM2: each digit alone, then the GPT-2 pattern
        t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    else:
        t.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(SPLIT.replace("DIGITS", digits)), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    if digits == "":
        t.normalizer = normalizers.NFC()
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in specials])
    config = {"added_tokens_decoder": {str(i): {"content": s, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True} for i, s in enumerate(specials)}}
    if digits == "{1,3}":  # as in Llama 3: the post-processor puts the begin token in front
        t.post_processor = processors.Sequence([t.post_processor, processors.TemplateProcessing(
            single=f"{specials[0]} $A", pair=f"{specials[0]} $A {specials[0]} $B", special_tokens=[(specials[0], 0)])])
        config |= {"bos_token": specials[0], "eos_token": specials[2]}
    else:
        config |= {"bos_token": None, "eos_token": specials[2], "pad_token": specials[0]}
    if spec.get("template") == "config":
        config["chat_template"] = CHATML
    elif spec.get("template") == "file":
        (folder / "chat_template.jinja").write_text(CHATML)
    config |= {"clean_up_tokenization_spaces": False, "model_max_length": spec["config"]["max_position_embeddings"], "tokenizer_class": "PreTrainedTokenizerFast"}
    t.save(str(folder / "tokenizer.json"))
    write_json(folder / "tokenizer_config.json", config)


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def random_weights(model, seed, tied):
    """Weights large enough for every part to matter: peaked attention, norms well away from 1, biases well away from 0."""
    g = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=g)
        if name.endswith("norm.weight"):
            p.data = 1 + 0.3 * noise
        elif name.endswith("bias"):
            p.data = 0.7 * noise
        elif "embed_tokens" in name:
            p.data = noise * (0.5 if tied else 1.0)
        else:
            p.data = noise * ((2.0 if "q_proj" in name or "k_proj" in name or "lm_head" in name else 1.3) / p.shape[1] ** 0.5)


def exact(model):
    """The model in float64 throughout (see the note at the top)."""
    def norm(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))

    def rotary(self, x, position_ids):
        angle = position_ids[..., None].double() * self.inv_freq.double()
        angle = torch.cat((angle, angle), dim=-1)
        return angle.cos() * self.attention_scaling, angle.sin() * self.attention_scaling

    model = model.double().eval()
    for m in model.modules():
        if type(m).__name__.endswith("RMSNorm"):
            m.forward = types.MethodType(norm, m)
        elif type(m).__name__.endswith("RotaryEmbedding"):
            m.forward = types.MethodType(rotary, m)
    return model


def load(folder, dtype, adapter=None, **kw):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **kw).eval()
    return peft.PeftModel.from_pretrained(model, adapter).eval() if adapter else model


def logits(model, ids):
    return model(torch.tensor([ids])).logits[0].double()


def rounded(t, digits=10):
    return [rounded(x, digits) for x in t] if t.dim() else round(t.item(), digits)


def one_case(name, text, ids, m64, m32, tokenizer):
    full = logits(m64, ids)
    logp = full.log_softmax(-1)
    single = logits(m32, ids)
    out, gap = [], float("inf")
    for _ in range(GREEDY):
        best = logits(m64, ids + out)[-1].topk(2)
        gap = min(gap, (best.values[0] - best.values[1]).item())
        out.append(best.indices[0].item())
    stopped = m32.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), max_new_tokens=GREEDY, do_sample=False,
                           temperature=None, top_p=None, top_k=None, repetition_penalty=1.0, pad_token_id=0)[0, len(ids):].tolist()
    assert stopped == out[: len(stopped)], (name, stopped, out)
    nxt = torch.tensor(ids[1:], dtype=torch.long)[:, None]
    return {
        "name": name, "text": text, "ids": ids,
        "logits_first8": rounded(full[:, :8]), "logsumexp": rounded(full.logsumexp(-1)), "argmax": full.argmax(-1).tolist(),
        "entropy": rounded(-(logp.exp() * logp).sum(-1)), "logp_next": rounded(logp[:-1].gather(1, nxt)[:, 0]), "logits_last": rounded(full[-1]),
        "max_abs_f32_logit_deviation": (single - full).abs().max().item(),
        "max_abs_f32_logp_deviation": (single.log_softmax(-1) - logp).abs().max().item(),
        "greedy_ids_32": out, "greedy_text": tokenizer.decode(out), "greedy_min_top2_gap": gap, "greedy_ids_generate_f32_until_eos": stopped,
    }


def texts_for(tokenizer, bos):
    texts = {"one_token": "" if bos else "a"} | TEXTS
    if tokenizer.chat_template:
        texts["chat"] = tokenizer.apply_chat_template(CHAT, tokenize=False, add_generation_prompt=True)
    result = {}
    for name, text in texts.items():
        while len(ids := tokenizer(text).input_ids) > 48:
            text = text[:-1]
        result[name] = (text, ids)
    return result


@torch.no_grad()
def reference(folder, about, adapter=None):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    m32 = load(folder, torch.float32, adapter)
    m64 = exact(load(folder, torch.float32, adapter))  # bfloat16 files are widened exactly
    eos = m32.generation_config.eos_token_id
    eos = eos if isinstance(eos, list) else [eos]
    add_bos = tokenizer("a").input_ids[0] == tokenizer.bos_token_id
    ref = {
        "format": 1, "about": about,
        "oracle": f"transformers {transformers.__version__} {m32.config.architectures[0]}, torch {torch.__version__.split('+')[0]}" + (f", peft {peft.__version__}" if adapter else ""),
        "tolerance": {"float32_logits_abs": 1e-4, "float32_logp_abs": 1e-4}, "add_bos": add_bos, "eos_token_id": eos[0], "eos_token_ids": eos,
    }
    if tokenizer.chat_template:
        ref["chat_messages"] = CHAT
    ref["cases"] = [one_case(n, t, i, m64, m32, tokenizer) for n, (t, i) in texts_for(tokenizer, add_bos).items()]
    return ref


def save_reference(path, ref):
    head = {k: v for k, v in ref.items() if k != "cases"}
    cases = ",\n".join(json.dumps(c, separators=(",", ":"), ensure_ascii=False) for c in ref["cases"])
    path.write_text(json.dumps(head, separators=(",", ":"))[:-1] + ',"cases":[\n' + cases + "\n]}\n")


@torch.no_grad()
def must_notice(folder):
    """Takes away each norm, bias and the rotary scaling: a loader that forgets one must fail on the reference logits."""
    ids = AutoTokenizer.from_pretrained(folder)(LONG).input_ids[:48]
    model = load(folder, torch.float32)
    full = logits(model, ids)
    least = ("", float("inf"))
    for name, p in model.named_parameters():
        if name.endswith(("norm.weight", "bias")):
            kept = p.data
            p.data = torch.full_like(kept, 0.0 if name.endswith("bias") else 1.0)
            least = min(least, (name, (logits(model, ids) - full).abs().max().item()), key=lambda x: x[1])
            p.data = kept
    config = AutoConfig.from_pretrained(folder)
    if config.rope_parameters["rope_type"] != "default":
        config.rope_parameters = {"rope_type": "default", "rope_theta": config.rope_parameters["rope_theta"]}
        change = (logits(load(folder, torch.float32, config=config), ids) - full).abs()
        print(f"   without rotary scaling: logits move by up to {change.max():.2f}, at the last position by {change[-1].max():.2f}")
        assert change[-1].max() > 0.1
    print(f"   least noticed when missing: {least[0]}, {least[1]:.3f}")
    assert least[1] > 0.1, least


def make_model(name, spec, folder, seed):
    folder.mkdir(parents=True)
    make_tokenizer(spec, folder)
    write_json(folder / "config.json", spec["config"])
    write_json(folder / "generation_config.json", spec["generation"])
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
    random_weights(model, seed, spec["config"]["tie_word_embeddings"])
    with tempfile.TemporaryDirectory() as tmp:  # only the weights: configs stay as written above
        model.to(spec["dtype"]).save_pretrained(tmp, max_shard_size=spec.get("shard", "1GB"))
        for f in pathlib.Path(tmp).glob("*.safetensors*"):
            shutil.copy(f, folder)
    store = "bfloat16" if spec["dtype"] == torch.bfloat16 else "float32"
    ref = reference(folder, f"tiny random {name} checkpoint, seed {seed}, weights stored in {store}; logits computed in float64")
    save_reference(folder / "reference.json", ref)
    return ref


def make_adapter(base, folder):
    g = torch.Generator().manual_seed(7)
    model = load(base, torch.float32)
    model.config._name_or_path = ""
    model = peft.get_peft_model(model, peft.LoraConfig(
        r=4, lora_alpha=8, lora_dropout=0.0, task_type="CAUSAL_LM", base_model_name_or_path="llama-scaled-rope",
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]))
    for name, p in model.named_parameters():
        if "lora_" in name:  # B would start at zero
            p.data = torch.randn(p.shape, generator=g) * (1 / p.shape[1] ** 0.5 if "lora_A" in name else 0.2)
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)  # a model card without content
    config = json.loads((folder / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = "llama-scaled-rope"
    config["target_modules"].sort()
    write_json(folder / "adapter_config.json", config)
    ref = reference(base, "LoRA adapter (r 4, alpha 8, seed 7) on the tiny llama-scaled-rope checkpoint; logits computed in float64", str(folder))
    save_reference(folder / "reference.json", ref)
    return ref


def summary(ref):
    cases = ref["cases"]
    return {
        "gap": min(c["greedy_min_top2_gap"] for c in cases),
        "distinct": [len(set(c["greedy_ids_32"])) for c in cases],
        "stops": {c["name"]: c["greedy_ids_generate_f32_until_eos"][-1] for c in cases if len(c["greedy_ids_generate_f32_until_eos"]) < GREEDY},
        "f32": max(c["max_abs_f32_logit_deviation"] for c in cases),
        "lengths": [len(c["ids"]) for c in cases],
    }


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("testdata"))
    p.add_argument("--search", type=int, help="try this many seeds for each model and print what they give; writes nothing")
    args = p.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if args.search:
        for name, spec in MODELS.items():
            for seed in range(1, args.search + 1):
                with tempfile.TemporaryDirectory() as tmp:
                    print(name, seed, summary(make_model(name, spec, pathlib.Path(tmp) / "m", seed)), flush=True)
        return
    for name, spec in MODELS.items():
        folder = args.out / "tiny-models" / name
        shutil.rmtree(folder, ignore_errors=True)
        ref = make_model(name, spec, folder, spec["seed"])
        print(name, summary(ref))
        must_notice(folder)
        assert summary(ref)["gap"] > 1e-3
    folder = args.out / "tiny-peft"
    readme = (folder / "README.md").read_text() if (folder / "README.md").exists() else None
    shutil.rmtree(folder, ignore_errors=True)
    ref = make_adapter(args.out / "tiny-models" / "llama-scaled-rope", folder)
    if readme:
        (folder / "README.md").write_text(readme)
    print("tiny-peft", summary(ref))
    assert summary(ref)["gap"] > 1e-3


if __name__ == "__main__":
    main()
