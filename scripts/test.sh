#!/usr/bin/env bash
# Runs every test: unit, property, integration and documentation tests, and prints how many there were.
# `--slow` adds the long ones (training from scratch, a real model if it was fetched).
set -euo pipefail
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
run() { echo "+ $*"; "$@" 2>&1 | tee -a "$log" || status=1; }
run cargo test --locked --release --no-fail-fast
if [ "${1:-}" = --slow ]; then
    run cargo test --locked --release --no-fail-fast -- --ignored
else
    echo "skipped: the tests marked slow (run with --slow)"
fi
if [ ! -e models/SmolLM2-135M-Instruct.Q4_1.gguf ]; then
    echo "skipped: tests on SmolLM2-135M, its file is not here (scripts/fetch-smollm2.sh gets it)"
fi
awk '/^test result:/ { passed += $4; failed += $6; ignored += $8 }
     END { printf "%d passed, %d failed, %d skipped\n", passed, failed, ignored; exit passed == 0 || failed > 0 }' "$log" || status=1
exit $status
