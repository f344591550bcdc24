#!/usr/bin/env bash
# Opens a run's report in headless Chromium without network, takes a picture of it in light and in dark, and fails if its page says anything on the console.
# Usage: scripts/look-at-report.sh REPORT.html OUT_FOLDER        needs Chromium (apt-get install chromium) and unshare (util-linux)
set -euo pipefail

[ $# -eq 2 ] || { sed -n '2,3p' "$0" >&2; exit 2; }
[ -f "$1" ] || { echo "look-at-report: $1 is no file" >&2; exit 2; }
report="$(realpath "$1")"
mkdir -p "$2"
out="$(cd "$2" && pwd)"
browser="$(command -v chromium || command -v chromium-browser || command -v google-chrome)" || { echo "look-at-report: no Chromium here (apt-get install chromium)" >&2; exit 1; }
profile="$(mktemp -d)"
trap 'rm -rf "$profile"' EXIT

# What the page asks for by itself must be nothing: it stands for itself.
if grep -Eo '(src|href)="(https?:)?//[^"]*"|@import|url\((https?:)?//' "$report"; then
    echo "look-at-report: $report asks the network for the above" >&2
    exit 1
fi

# blink's preferredColorScheme: 0 is dark, 1 is light.
for scheme in dark light; do
    number=$([ "$scheme" = dark ] && echo 0 || echo 1)
    # A network namespace of its own has no way out, not even by mistake.
    unshare --net --map-root-user "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$profile" --hide-scrollbars --window-size=1200,3200 \
        --enable-logging=stderr --blink-settings=preferredColorScheme="$number" --virtual-time-budget=3000 \
        --screenshot="$out/$scheme.png" "file://$report" 2>"$profile/log" || { cat "$profile/log" >&2; exit 1; }
    if grep 'CONSOLE' "$profile/log"; then
        echo "look-at-report: the page said the above on the console" >&2
        exit 1
    fi
    echo "$out/$scheme.png"
done
cmp -s "$out/dark.png" "$out/light.png" && { echo "look-at-report: dark looks like light" >&2; exit 1; }
echo "no console message, nothing asked of the network"
