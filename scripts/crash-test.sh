#!/usr/bin/env bash
# The long form of the crash tests: fifty SIGKILLs at random moments each, of a tiny policy and of digit-sum. Minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test --locked --release --test it -- --ignored --nocapture fifty
cargo test --locked --release --test crash -- --ignored --nocapture fifty
