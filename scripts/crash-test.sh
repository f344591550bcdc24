#!/usr/bin/env bash
# The long form of the crash tests: fifty SIGKILLs at random moments each, of a tiny policy and of digit-sum. Minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test --release -p grpo-train --test it -- --ignored --nocapture fifty
cargo test --release -p digit-sum --test crash -- --ignored --nocapture fifty
