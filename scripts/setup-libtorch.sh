#!/usr/bin/env bash
# Puts the CPU part of LibTorch 2.9.0 where the backend `tch` finds it, out of PyPI wheels (Linux x86_64, glibc 2.28 or newer).
# Usage: eval "$(scripts/setup-libtorch.sh)"      sets LIBTORCH and LD_LIBRARY_PATH in this shell
#        scripts/setup-libtorch.sh [DEST]         DEST is $GRPO_LIBTORCH, or else ~/.cache/grpo/libtorch; an empty folder, or one that is not there
# Downloads 0.9 GB once, keeps 0.5 GB; does nothing the second time. What it prints on standard output is shell code, the rest goes to standard error.
set -euo pipefail

# tch 0.22.0, which burn 0.22.1 binds, takes this version and no other.
version=2.9.0
torch="torch==$version"
# libtorch_cpu.so of the wheel wants these two small libraries of CUDA even where there is no GPU.
cuda=(nvidia-cuda-runtime-cu12==12.8.90 nvidia-cuda-cupti-cu12==12.8.90)

# What is printed is run by `eval`: without it, a failure would go unnoticed.
trap '[ $? = 0 ] || echo false' EXIT
case "${1:-}" in
    -*) sed -n '2,5p' "$0" >&2; exit 2 ;;
esac
dest="${1:-${GRPO_LIBTORCH:-$HOME/.cache/grpo/libtorch}}"
[ "$(uname -sm)" = "Linux x86_64" ] || { echo "setup-libtorch: only Linux x86_64 has these wheels; install LibTorch $version and set LIBTORCH" >&2; exit 1; }
parent="$(dirname "$dest")"
mkdir -p "$parent"
parent="$(cd "$parent" && pwd)"
dest="$parent/$(basename "$dest")"

# Written last, so a folder without it is half done.
if [ "$(cat "$dest/build-version" 2>/dev/null)" != "$version" ] || [ ! -e "$dest/lib/libtorch_cpu.so" ]; then
    # What this script put there it may replace, nothing else.
    if [ -e "$dest" ] && [ ! -e "$dest/build-version" ] && [ -n "$(ls -A "$dest" 2>&1)" ]; then
        echo "setup-libtorch: $dest is there and is no LibTorch: name a folder that is empty or not there yet" >&2
        exit 1
    fi
    for tool in python3 cc; do
        command -v "$tool" >/dev/null || { echo "setup-libtorch: $tool is needed (apt-get install python3-pip gcc)" >&2; exit 1; }
    done
    # Beside the destination, so that the last step is a rename within one file system.
    work="$(mktemp -d "$parent/.libtorch.XXXXXX")"
    trap '[ $? = 0 ] || echo false; rm -rf "$work"' EXIT
    # The wheels are data here: no Python package is installed, and any Python may fetch the one for 3.11.
    pip() { python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --dest "$work/wheels" "$@" >&2; }
    echo "setup-libtorch: downloading $torch (0.9 GB)" >&2
    pip --python-version 3.11 --implementation cp --abi cp311 --platform manylinux_2_28_x86_64 "$torch"
    pip "${cuda[@]}"
    python3 - "$work" <<'PYTHON' >&2
import glob, pathlib, shutil, sys, zipfile

work = pathlib.Path(sys.argv[1])
libraries = {"libtorch_cpu.so", "libc10.so", "libgomp.so.1", "libcudart.so.12", "libcupti.so.12"}
(work / "new/lib").mkdir(parents=True)
for wheel in glob.glob(str(work / "wheels/*.whl")):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            path = pathlib.PurePosixPath(name)
            if path.name in libraries:
                target = work / "new/lib" / path.name
                libraries.discard(path.name)
            elif name.startswith("torch/include/") and not name.endswith("/"):
                target = work / "new" / path.relative_to("torch")
            else:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(name) as source, open(target, "wb") as out:
                shutil.copyfileobj(source, out, 1 << 20)
if libraries:
    sys.exit(f"setup-libtorch: not in the wheels: {sorted(libraries)}")
PYTHON
    # The wheel's libtorch.so is empty and wants libtorch_cuda.so (1 GB). This one is empty too and wants the CPU part alone.
    cc -x c -shared -fPIC -o "$work/new/lib/libtorch.so" - -Wl,-soname,libtorch.so -Wl,--no-as-needed -L"$work/new/lib" -ltorch_cpu -lc10 \
        -Wl,-rpath,'$ORIGIN' -Wl,--allow-shlib-undefined <<<'int grpo_libtorch_is_cpu_only;'
    echo "$version" >"$work/new/build-version"
    rm -rf "$dest"
    mv "$work/new" "$dest"
fi
echo "setup-libtorch: LibTorch $version is in $dest" >&2
printf 'export LIBTORCH=%q\n' "$dest"
# For the programs that cargo builds and for its tests: an rpath would not reach documentation tests.
case ":${LD_LIBRARY_PATH:-}:" in
    *":$dest/lib:"*) ;;
    *) printf 'export LD_LIBRARY_PATH=%q\n' "$dest/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" ;;
esac
