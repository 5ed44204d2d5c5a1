#!/usr/bin/env bash
# Installs what the Slurm lab needs (tests/lab/cluster.py) from Debian's own archive: about 31 MB, 15 s.
# Run as root. A second run finds everything installed and ends at once.
set -euo pipefail

packages=(
    slurmctld slurmd slurmdbd slurm-client slurmrestd
    slurm-wlm-basic-plugins slurm-wlm-mysql-plugin
    munge mariadb-server jq
)

fail() {
    echo "tests/lab/install.sh: $*" >&2
    exit 1
}

installed() { [ "$(dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null)" = "ii " ]; }

[ -e /etc/debian_version ] && command -v apt-get >/dev/null ||
    fail "the lab is built from Debian packages and this is not Debian; without it 'make test' skips the lab tests"

missing=()
for package in "${packages[@]}"; do
    installed "$package" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

[ "$(id -u)" = 0 ] || fail "not root, and these packages are missing: ${missing[*]}. Run it with sudo"

# Debian starts a daemon right after unpacking it. The lab brings its own configuration and ports,
# so nothing may start here; a policy that is already there is somebody's decision and stays.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
    trap 'rm -f $policy' EXIT
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod 755 $policy
fi

export DEBIAN_FRONTEND=noninteractive
echo "installing ${missing[*]}"
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
for package in "${missing[@]}"; do
    installed "$package" || fail "$package did not get installed; see the messages of apt-get above"
done
