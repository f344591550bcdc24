#!/usr/bin/env python3
"""Reads a run's event files with TensorBoard's own reader and holds every scalar against metrics.jsonl and evaluations.jsonl.

    pip install tensorboard
    scripts/check-tensorboard.py runs/additions

With pandas or polars installed, the logs are loaded with them as well. Exit code 1 if anything differs.
"""
import json
import math
import struct
import sys
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator, SCALARS


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def same(scalar, wanted):
    if wanted is None:  # measured, and not finite
        return not math.isfinite(scalar)
    return scalar == struct.unpack("f", struct.pack("f", wanted))[0]


def main():
    run = Path(sys.argv[1])
    wanted = {}
    for line in lines(run / "metrics.jsonl") + lines(run / "evaluations.jsonl"):
        for name, value in line.items():
            if name != "step":
                wanted[name, line["step"]] = value

    events = EventAccumulator(str(run / "tensorboard"), size_guidance={SCALARS: 0})
    events.Reload()
    wrong, seen = [], {}
    for tag in events.Tags()["scalars"]:
        for event in events.Scalars(tag):
            key = (tag, event.step)
            if key in seen:
                wrong.append(f"{tag} at step {event.step} is there twice")
            seen[key] = event.value
            if key not in wanted:
                wrong.append(f"{tag} at step {event.step} is not in the JSON lines")
            elif not same(event.value, wanted[key]):
                wrong.append(f"{tag} at step {event.step}: {event.value}, expected {wanted[key]}")
    wrong += [f"{tag} at step {step} is missing" for tag, step in wanted if (tag, step) not in seen]
    print(f"tensorboard: {len(seen)} scalars of {len(wanted)} read back, {len(events.Tags()['scalars'])} tags")

    try:
        import pandas
    except ImportError:
        print("pandas: not installed, not tried")
    else:
        for name in ["metrics.jsonl", "completions.jsonl"]:
            if (run / name).exists():
                table = pandas.read_json(run / name, lines=True)
                print(f"pandas: {name}: {table.shape[0]} rows, {table.shape[1]} columns")
                if len(table) != len(lines(run / name)):
                    wrong.append(f"pandas reads {len(table)} rows of {name}")
        if (run / "metrics.csv").exists():
            table = pandas.read_csv(run / "metrics.csv").set_index("step")
            print(f"pandas: metrics.csv: {table.shape[0]} rows, {table.shape[1]} columns")
            for line in lines(run / "metrics.jsonl"):
                for name, value in line.items():
                    if name != "step" and value is not None and table.loc[line["step"], name] != value:
                        wrong.append(f"metrics.csv: {name} at step {line['step']}: {table.loc[line['step'], name]}, expected {value}")
    try:
        import polars
    except ImportError:
        print("polars: not installed, not tried")
    else:
        table = polars.read_ndjson(run / "completions.jsonl", infer_schema_length=None)
        print(f"polars: completions.jsonl: {table.height} rows, {table.width} columns")
        if (run / "completions.parquet").exists():
            columns = polars.read_parquet(run / "completions.parquet")
            print(f"polars: completions.parquet: {columns.height} rows, {columns.width} columns")
            if not columns.select(table.columns).equals(table):
                wrong.append("completions.parquet is not what completions.jsonl says")

    for problem in wrong[:20]:
        print(f"wrong: {problem}")
    print("all agree" if not wrong and seen else f"{len(wrong)} differ" if wrong else "there are no scalars")
    return 1 if wrong or not seen else 0


if __name__ == "__main__":
    sys.exit(main())
