#!/usr/bin/env bash
# A real Slurm on this machine: munge, MariaDB, slurmdbd, slurmctld and two slurmd nodes of 8 H200 each (device files that
# are clones of /dev/null). BASE names the folder that holds all of its state; `down.sh` stops exactly what started here.
# No systemd, no cgroups, nothing under /etc. Prints the two exports that point a shell at it.
set -euo pipefail
umask 022
: "${BASE:?name a folder for the state of the cluster}"
PORT=${PORT:-17000} # the first of about 110 ports
export PATH=$PATH:/usr/sbin:/sbin SLURM_CONF=$BASE/etc/slurm.conf
me=$(id -un)
host=$(hostname -s)

fail() { echo "slurm: $1" >&2; [ -z "${2:-}" ] || tail -n 5 "$2" >&2; exit 1; }
wait_for() { # seconds, command
  local end=$((SECONDS + $1)); shift
  until "$@" >/dev/null 2>&1; do [ $SECONDS -lt $end ] || return 1; sleep 0.2; done
}

mkdir -p "$BASE"/{etc,log,state,spool,pid,munge,gpu,db,bin}
chmod 700 "$BASE/db"

socket=$BASE/munge/munge.socket
(umask 077; head -c 1024 /dev/urandom >"$BASE/munge/munge.key")
munged --force --key-file="$BASE/munge/munge.key" --socket="$socket" --pid-file="$BASE/pid/munged.pid" \
  --log-file="$BASE/log/munged.log" --seed-file="$BASE/munge/seed" --num-threads=2
wait_for 10 munge -n -S "$socket" || fail "munged does not answer" "$BASE/log/munged.log"

# slurmd wants a character device for each GPU.
for i in 0 1 2 3 4 5 6 7; do mknod -m 666 "$BASE/gpu/nvidia$i" c 1 3; done
cat >"$BASE/etc/gres.conf" <<C
AutoDetect=off
NodeName=h200-[1-2] Name=gpu Type=h200 File=$BASE/gpu/nvidia[0-7]
C
cat >"$BASE/etc/slurm.conf" <<C
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket=$socket
CredType=cred/munge
SlurmUser=$me
SlurmdUser=$me
SlurmctldPort=$((PORT + 17))
SlurmctldPidFile=$BASE/pid/slurmctld.pid
SlurmdPidFile=$BASE/pid/slurmd-%n.pid
SlurmctldLogFile=$BASE/log/slurmctld.log
SlurmdLogFile=$BASE/log/slurmd-%n.log
StateSaveLocation=$BASE/state
SlurmdSpoolDir=$BASE/spool/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
MpiDefault=none
SwitchType=switch/none
PropagateResourceLimits=NONE
ReturnToService=2
KillWait=2
OverTimeLimit=0
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,sched_min_interval=100000,batch_sched_delay=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort=$((PORT + 19))
AccountingStoragePass=$socket
AccountingStorageTRES=gres/gpu,gres/gpu:h200
NodeName=h200-[1-2] NodeHostname=$host NodeAddr=127.0.0.1 Port=$((PORT + 100))-$((PORT + 101)) CPUs=32 Boards=1 SocketsPerBoard=1 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=200000 Gres=gpu:h200:8 State=UNKNOWN
PartitionName=cpu  Nodes=h200-[1-2] Default=YES MaxTime=2-0 DefaultTime=10 DefMemPerCPU=500 State=UP
PartitionName=h200 Nodes=h200-[1-2] MaxTime=2-0 DefaultTime=10 DefMemPerCPU=500 State=UP
C

mariadb-install-db --no-defaults --user="$me" --datadir="$BASE/db/data" --skip-test-db \
  --auth-root-authentication-method=normal >"$BASE/log/install-db.log" 2>&1
sql=$BASE/db/my.sock
mariadbd --no-defaults --user="$me" --datadir="$BASE/db/data" --socket="$sql" --bind-address=127.0.0.1 --port=$((PORT + 6)) \
  --pid-file="$BASE/pid/mariadbd.pid" --log-error="$BASE/log/mariadbd.log" --innodb-buffer-pool-size=64M \
  --innodb-lock-wait-timeout=900 --innodb-flush-log-at-trx-commit=0 --skip-log-bin </dev/null >/dev/null 2>&1 &
disown
wait_for 40 mariadb --no-defaults -S "$sql" -u root -e 'select 1' || fail "MariaDB does not answer" "$BASE/log/mariadbd.log"
mariadb --no-defaults -S "$sql" -u root -e "
  CREATE USER slurm@'127.0.0.1' IDENTIFIED BY 'slurm'; GRANT ALL ON slurm_acct_db.* TO slurm@'127.0.0.1';
  CREATE USER slurm@localhost IDENTIFIED BY 'slurm'; GRANT ALL ON slurm_acct_db.* TO slurm@localhost;"
(umask 077; cat >"$BASE/etc/slurmdbd.conf" <<C
AuthType=auth/munge
AuthInfo=socket=$socket
DbdHost=localhost
DbdPort=$((PORT + 19))
SlurmUser=$me
PidFile=$BASE/pid/slurmdbd.pid
LogFile=$BASE/log/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$((PORT + 6))
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
C
)
slurmdbd
wait_for 40 sacctmgr -n show cluster || fail "slurmdbd does not answer" "$BASE/log/slurmdbd.log"
sacctmgr -i -Q add cluster test >/dev/null
# The account that profiles/slurm names.
sacctmgr -i -Q add account cir cluster=test >/dev/null
sacctmgr -i -Q add user "$me" account=cir cluster=test >/dev/null

slurmctld
wait_for 40 sh -c 'scontrol ping | grep -q UP' || fail "slurmctld does not answer" "$BASE/log/slurmctld.log"
for node in h200-1 h200-2; do mkdir -p "$BASE/spool/$node"; slurmd -N "$node"; done
both_idle() { [ "$(sinfo -h -N -p h200 -t idle -o %N | sort -u | wc -l)" = 2 ]; }
wait_for 40 both_idle || fail "the nodes do not come up" "$BASE/log/slurmd-h200-1.log"

# Snakemake's job step calls srun without SLURM_CONF; sbatch hands PATH on, so this srun is the one it finds.
printf '#!/bin/sh\nSLURM_CONF=%s exec /usr/bin/srun "$@"\n' "$SLURM_CONF" >"$BASE/bin/srun"
chmod 755 "$BASE/bin/srun"
echo "export SLURM_CONF=$SLURM_CONF PATH=$BASE/bin:\$PATH"
