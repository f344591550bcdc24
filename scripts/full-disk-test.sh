#!/usr/bin/env bash
# A run on a disk that fills up: a tmpfs of 160 KB, mounted in a namespace of its own (Linux; no root needed where user namespaces are allowed).
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test --release -p grpo-train --test it --no-run
folder=$(mktemp -d)
trap 'rmdir "$folder"' EXIT
export GRPO_TRAIN_SMALL_DISK=$folder
unshare --user --map-root-user --mount bash -c 'mount -t tmpfs -o size=160k none "$GRPO_TRAIN_SMALL_DISK" && cargo test --release -p grpo-train --test it -- --ignored --nocapture a_disk_that_is_full'
