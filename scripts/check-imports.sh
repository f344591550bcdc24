#!/usr/bin/env bash
# The import rules of ARCHITECTURE.md, held against what cargo really resolves. Normal dependencies only.
set -euo pipefail
cd "$(dirname "$0")/.."
bad=0
# deps CRATE [FLAGS]: the workspace crates and burn that CRATE depends on, at any depth.
deps() { cargo tree --locked -q -p "$1" -e normal --prefix none "${@:2}" | awk '{print $1}' | sort -u | grep -E '^(grpo-.*|burn)$' | grep -vx "$1" | tr '\n' ' '; }
expect() { # CRATE "ALLOWED ..." [FLAGS]
    local crate=$1 allowed=" $2 "
    for dep in $(deps "$crate" "${@:3}"); do
        if [[ $allowed != *" $dep "* ]]; then echo "import rule broken: $crate -> $dep (allowed: $2)"; bad=1; fi
    done
}
expect grpo-core "burn"
expect grpo-core "" --no-default-features
expect grpo-kernels "burn"
for backend in flex ndarray tch wgpu; do expect "grpo-$backend" "burn grpo-kernels"; done
expect grpo-device "burn grpo-kernels" --no-default-features
expect grpo-device "burn grpo-kernels grpo-flex grpo-ndarray grpo-tch grpo-wgpu" --features ndarray,tch,wgpu
expect grpo-rewards "grpo-core" --no-default-features
expect grpo-lm "burn grpo-core grpo-kernels"
expect grpo-conformance "burn grpo-core grpo-device grpo-kernels" --no-default-features
expect grpo-conformance "burn grpo-core grpo-device grpo-flex grpo-kernels"
expect grpo-train "burn grpo-core"
# The command line may use everything; nothing may use it.
for crate in crates/*/; do
    crate=$(basename "$crate")
    if [ "$crate" != grpo-cli ] && [[ " $(deps "$crate") " == *" grpo-cli "* ]]; then echo "import rule broken: $crate -> grpo-cli"; bad=1; fi
done
# A library never chooses a device, and core never names a backend.
if grep -rnE 'Device::default\(\)|Tensor(::<[^>]*>)?::from\(' crates/*/src --include=*.rs | grep -v '^\S*//'; then echo "library code must not choose a device"; bad=1; fi
if cargo tree --locked -q -p grpo-core -e normal --prefix none | grep -E '^burn-(flex|ndarray|tch|wgpu|cubecl)'; then echo "grpo-core must not name a backend"; bad=1; fi
# What cargo builds without being told otherwise has one backend.
if cargo tree --locked -q -e normal --prefix none | grep -E '^(burn-(ndarray|tch|wgpu|cubecl|cuda)|tch|wgpu|cubecl-wgpu) '; then echo "the default members must have no backend but flex"; bad=1; fi
[ $bad = 0 ] && echo "import rules hold"
exit $bad
