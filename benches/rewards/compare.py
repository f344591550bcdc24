"""Times the crate's check and math-verify's over the same cases, one after the other in one run.

    pip install "math-verify==0.9.0" "antlr4-python3-runtime==4.13.2"
    cargo build --release -p grpo-bench-rewards
    python benches/rewards/compare.py target/release/grpo-bench-rewards testdata/reward-cases/verdict.jsonl

math-verify parses and verifies with its own settings, without its time limits (they need a signal, and cost time).
Its time is that of the CPU, ours by the clock: a loaded machine does not make the ratio look better. Per case the median of several rounds; the ratio is that of the medians over all cases, and the median of the ratios.
"""

import json
import statistics
import subprocess
import sys
import time

from math_verify import parse, verify


def main(binary: str, cases: str, rounds: int = 1) -> None:
    ours = json.loads(subprocess.run([binary, cases, "--json"], check=True, capture_output=True, text=True).stdout)
    theirs = {}
    for line in open(cases, encoding="utf-8"):
        case = json.loads(line)
        if case["id"] not in ours["cases"]:
            continue
        times = []
        for _ in range(rounds):
            start = time.process_time()
            try:
                verify(parse(case["gold"], parsing_timeout=None), parse(case["output"], parsing_timeout=None), timeout_seconds=None)
            except Exception:  # what it cannot do it does not do, but it took its time
                pass
            times.append((time.process_time() - start) * 1e6)
        theirs[case["id"]] = statistics.median(times)
    both = [(ours["cases"][name], theirs[name]) for name in theirs]
    mine, other = statistics.median(a for a, _ in both), statistics.median(b for _, b in both)
    print(f"{len(both)} cases")
    print(f"grpo-rewards: median {mine:.1f} µs, 99th percentile {sorted(a for a, _ in both)[int(len(both) * 0.99)]:.1f} µs")
    print(f"math-verify:  median {other:.1f} µs, 99th percentile {sorted(b for _, b in both)[int(len(both) * 0.99)]:.1f} µs")
    print(f"ratio of the medians {other / mine:.0f}, median of the ratios {statistics.median(b / a for a, b in both):.0f}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
