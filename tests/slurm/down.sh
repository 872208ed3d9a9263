#!/usr/bin/env bash
# Stops the daemons whose process ids stand under $BASE/pid (up.sh wrote them), and no others; removes $BASE.
set -u
: "${BASE:?name the folder that up.sh was given}"
export SLURM_CONF=$BASE/etc/slurm.conf

stop() { # pid file, seconds
  local id
  id=$(cat "$1" 2>/dev/null) || return 0
  # A process id may have been given away since: only a daemon of ours is stopped.
  grep -qE "^(slurm|munged|mariadbd)" "/proc/$id/comm" 2>/dev/null || return 0
  kill "$id" 2>/dev/null
  for ((i = 0; i < $2 * 10; i++)); do kill -0 "$id" 2>/dev/null || return 0; sleep 0.1; done
  kill -9 "$id" 2>/dev/null
}

if [ -s "$BASE/pid/slurmctld.pid" ]; then
  timeout 10 scancel -u "$(id -un)" 2>/dev/null
  for ((i = 0; i < 50; i++)); do [ -z "$(timeout 5 squeue -h 2>/dev/null)" ] && break; sleep 0.2; done
fi
for daemon in slurmd-h200-1 slurmd-h200-2 slurmctld slurmdbd mariadbd munged; do stop "$BASE/pid/$daemon.pid" 10; done
rm -rf "$BASE"
