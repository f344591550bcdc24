#!/usr/bin/env bash
# Installs a software Vulkan (Mesa's lavapipe) for the backend `wgpu` on a machine without a GPU. Debian or Ubuntu; needs root or sudo.
# Usage: scripts/setup-vulkan.sh      does nothing the second time. With a GPU of your own, its driver is enough and this is not needed.
set -euo pipefail

packages=(mesa-vulkan-drivers libvulkan1)

installed() { dpkg-query -W -f='${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed; }

missing=()
for package in "${packages[@]}"; do installed "$package" || missing+=("$package"); done
if [ ${#missing[@]} -gt 0 ]; then
    command -v apt-get >/dev/null || { echo "setup-vulkan: no apt-get here; install a Vulkan driver your way" >&2; exit 1; }
    root=()
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || { echo "setup-vulkan: needs root to install ${missing[*]}" >&2; exit 1; }
        root=(sudo)
    fi
    install=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends "${missing[@]}")
    # The lists of a fresh image are empty or old.
    "${install[@]}" >&2 || { "${root[@]}" apt-get update --quiet >&2 && "${install[@]}" >&2; }
fi

driver="$(find /usr/share/vulkan/icd.d /etc/vulkan/icd.d -name '*lvp*.json' 2>/dev/null | head -n 1 || true)"
[ -n "$driver" ] || { echo "setup-vulkan: the packages are there, the driver's description is not" >&2; exit 1; }
echo "setup-vulkan: software Vulkan is $driver" >&2
