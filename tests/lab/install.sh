#!/usr/bin/env bash
# Makes what the labs need (tests/lab): packages from Debian's own archive (about 150 MB, a minute), the users that
# its jobs run as, and the newest wandb and tensorboard in an environment of Debian's Python (270 MB), by the pip of
# PYTHON. Run as root. A second run finds everything there and ends at once.
set -euo pipefail

packages=(
    slurmctld slurmd slurmdbd slurm-client slurmrestd
    slurm-wlm-basic-plugins slurm-wlm-mysql-plugin slurm-wlm-jwt-plugin
    munge mariadb-server jq postgresql
    prometheus prometheus-alertmanager victoria-metrics etcd-server openssl openssh-client chromium chromium-driver fonts-dejavu-core python3 zsh fish
)

fail() {
    echo "tests/lab/install.sh: $*" >&2
    exit 1
}

loggers=/opt/trackside-lab # as in tests/lab/loggers.py
pip=("${PYTHON:-python3}" -m pip)

users=(alice:2001 bob:2002 carol:2003 dave:2004) # as in tests/lab/config.py

installed() { [ "$(dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null)" = "ii " ]; }

[ -e /etc/debian_version ] && command -v apt-get >/dev/null ||
    fail "the lab is built from Debian packages and this is not Debian; without it 'make test' skips the lab tests"

missing=()
for package in "${packages[@]}"; do
    installed "$package" || missing+=("$package")
done
strangers=()
for user in "${users[@]}"; do
    [ "$(id -u "${user%:*}" 2>/dev/null)" = "${user#*:}" ] || strangers+=("$user")
done
have_loggers() { [ -e "$loggers/.complete" ]; }
lacking=(${missing[@]+"${missing[@]}"} ${strangers[@]+"${strangers[@]}"})
have_loggers || lacking+=("wandb and tensorboard in $loggers")
[ ${#lacking[@]} -gt 0 ] || exit 0

[ "$(id -u)" = 0 ] || fail "not root, and these are missing: ${lacking[*]}. Run it with sudo"

for user in "${strangers[@]}"; do
    useradd -u "${user#*:}" -M -d /tmp -s /bin/bash "${user%:*}" ||
        fail "user ${user%:*} cannot be made with uid ${user#*:}: one of the two is taken here"
done
install_loggers() {
    have_loggers && return
    echo "installing wandb and tensorboard"
    # Debian's own Python, since the lab's users run it; without pip, which Debian has in a package of its own.
    rm -rf "$loggers"
    /usr/bin/python3 -m venv --without-pip "$loggers"
    "${pip[@]}" --python "$loggers/bin/python" install --quiet --no-cache-dir --disable-pip-version-check wandb tensorboard ||
        fail "pip did not install wandb and tensorboard; see its messages above"
    chmod -R go+rX "$loggers"
    touch "$loggers/.complete"
}

if [ ${#missing[@]} -eq 0 ]; then
    install_loggers
    exit 0
fi

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
install_loggers
