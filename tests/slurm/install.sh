#!/usr/bin/env bash
# Debian's Slurm for the tests: installed where this is root, refused with a reason (exit 1) elsewhere. Starts no daemon.
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin

need=()
for pair in munged:munge slurmctld:slurmctld slurmd:slurmd sbatch:slurm-client slurmdbd:slurmdbd mariadbd:mariadb-server; do
  command -v "${pair%%:*}" >/dev/null || need+=("${pair##*:}")
done
[ "${#need[@]}" -gt 0 ] || exit 0
[ "$(id -u)" = 0 ] || { echo "not root, and these packages are missing: ${need[*]}" >&2; exit 1; }
command -v apt-get >/dev/null || { echo "no apt-get to install ${need[*]} with" >&2; exit 1; }

# Exit status 101 tells the packages' own scripts to start nothing.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
  trap 'rm -f "$policy"' EXIT
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends slurm-wlm-basic-plugins "${need[@]}" >/dev/null
