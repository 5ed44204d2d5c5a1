"""The lab's files as text: Slurm, its database, accounts, prolog and epilog. Nothing here runs anything."""

from dataclasses import dataclass
from pathlib import Path

CLUSTER = "bench"
H100_NODES = ("n1", "n2", "n3", "n4")
A100_NODES = ("n5", "n6")
NODES = H100_NODES + A100_NODES
USERS = {"alice": 2001, "bob": 2002, "carol": 2003, "dave": 2004}
PORT_COUNT = 3 + len(NODES)


@dataclass(frozen=True)
class Ports:
    """A row of ports in use by one lab, from `first` on."""

    first: int

    @property
    def slurmctld(self) -> int:
        """Port of the controller."""
        return self.first

    @property
    def slurmdbd(self) -> int:
        """Port of the accounting daemon."""
        return self.first + 1

    @property
    def mariadb(self) -> int:
        """Port of the database."""
        return self.first + 2

    def slurmd(self, node: str) -> int:
        """Port of a node's slurmd."""
        return self.first + 3 + NODES.index(node)


@dataclass(frozen=True)
class Layout:
    """Where everything of one lab lies; all of it below `base`, whose path may hold no blank."""

    base: Path

    @property
    def slurm_conf(self) -> Path:
        """The file that SLURM_CONF names."""
        return self.base / "etc/slurm.conf"

    @property
    def munge_socket(self) -> Path:
        """Munge of this lab, not of the machine."""
        return self.base / "run/munge/munge.socket.2"

    @property
    def mariadb_socket(self) -> Path:
        """For the database's root."""
        return self.base / "run/mariadb.sock"

    @property
    def rest_socket(self) -> Path:
        """Where slurmrestd answers."""
        return self.base / "run/rest.sock"

    @property
    def ledger(self) -> Path:
        """Every process started: pid, start tick, name."""
        return self.base / "run/pids"

    @property
    def map(self) -> Path:
        """Job ids by node and GPU index, as dcgm-exporter's --hpc-job-mapping-dir reads them."""
        return self.base / "map"

    @property
    def script_starts(self) -> Path:
        """One JSON line for each start of a job script."""
        return self.base / "truth/starts.jsonl"

    @property
    def hook_calls(self) -> Path:
        """One JSON line for each run of prolog or epilog."""
        return self.base / "truth/hooks.jsonl"

    @property
    def attempt_hook(self) -> Path:
        """What each job script runs first."""
        return self.base / "etc/attempt.sh"

    def log(self, name: str) -> Path:
        """The log of a daemon: `slurmctld`, `slurmd.n1`, ..."""
        return self.base / f"log/{name}.log"

    @property
    def slurmd_logs(self) -> list[Path]:
        """The logs by which the steps of this lab are known."""
        return [self.log(f"slurmd.{node}") for node in NODES]


# Where cgroup v1 is mounted writable, real OUT_OF_MEMORY works.
CGROUP_POLICING = """\
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup"""

# Elsewhere memory is policed by sampling, and the state of an offender is FAILED.
SAMPLED_POLICING = """\
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherParams=OverMemoryKill"""

CGROUP_CONF = """\
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
CgroupAutomount=no
ConstrainRAMSpace=yes
ConstrainCores=no
ConstrainDevices=no
ConstrainSwapSpace=no
"""


def slurm_conf(layout: Layout, ports: Ports, *, cgroup: bool) -> str:
    """The cluster: four nodes of eight H100, two nodes of four A100, partitions main and scav.

    AccountingStoragePass: with a munge socket of one's own the way to slurmdbd uses this, not AuthInfo.
    cred_expire=5: after a requeue a job may not start for cred_expire + 1 s (the default makes it 121 s).
    config_overrides: lets a node claim more cores and memory than this host has.
    ReturnToService=2: a DOWN node is back as soon as its slurmd registers.
    PrologFlags=Contain: prolog on every node at allocation, and the usual .extern steps.
    """
    base = layout.base
    return f"""\
ClusterName={CLUSTER}
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports.slurmctld}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={layout.munge_socket},cred_expire=5
CredType=cred/munge
StateSaveLocation={base}/state/ctld
SlurmctldPidFile={base}/run/slurmctld.pid
SlurmctldLogFile={layout.log("slurmctld")}
SlurmctldDebug=verbose
SlurmdPidFile={base}/run/slurmd.%n.pid
SlurmdLogFile={layout.log("slurmd.%n")}
SlurmdSpoolDir={base}/spool/%n
SlurmdDebug=verbose
{CGROUP_POLICING if cgroup else SAMPLED_POLICING}
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
MpiDefault=none
SwitchType=switch/none
SlurmctldTimeout=10
SlurmdTimeout=10
MessageTimeout=5
BatchStartTimeout=5
KillWait=3
CompleteWait=0
UnkillableStepTimeout=10
MinJobAge=3600
InactiveLimit=0
Waittime=0
ReturnToService=2
Prolog={base}/etc/prolog.sh
Epilog={base}/etc/epilog.sh
PrologFlags=Contain
RequeueExit=42
RequeueExitHold=43
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_min_interval=100000,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
TopologyPlugin=topology/tree
SlurmdParameters=config_overrides
PriorityType=priority/multifactor
PriorityCalcPeriod=1
PriorityDecayHalfLife=1-0
PriorityWeightAge=1000
PriorityWeightFairshare=10000
PriorityWeightQOS=2000
PriorityWeightPartition=1000
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
GresTypes=gpu
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={ports.slurmdbd}
AccountingStoragePass={layout.munge_socket}
AccountingStorageTRES=gres/gpu,gres/gpu:h100,gres/gpu:a100
AccountingStorageEnforce=associations,limits,qos
AccountingStoreFlags=job_comment,job_script,job_env
JobCompType=jobcomp/filetxt
JobCompLoc={base}/log/jobcomp.txt
NodeName=n[1-4] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{ports.slurmd("n1")}-{ports.slurmd("n4")}] \
CPUs=64 Sockets=2 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=512000 Gres=gpu:h100:8 Feature=h100,ib State=UNKNOWN
NodeName=n[5-6] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{ports.slurmd("n5")}-{ports.slurmd("n6")}] \
CPUs=32 Sockets=1 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=256000 Gres=gpu:a100:4 Feature=a100 State=UNKNOWN
PartitionName=main Nodes=n[1-4] Default=YES MaxTime=1-00:00:00 DefaultTime=00:30:00 PriorityTier=10 \
PreemptMode=OFF DefMemPerCPU=1000 State=UP
PartitionName=scav Nodes=ALL MaxTime=1-00:00:00 DefaultTime=00:30:00 PriorityTier=1 \
PreemptMode=REQUEUE GraceTime=0 DefMemPerCPU=1000 State=UP
"""


def gres_conf(layout: Layout) -> str:
    """The GPUs are device files, shared by all nodes: only with files do jobs get GPU indices."""
    return f"""\
NodeName=n[1-4] Name=gpu Type=h100 File={layout.base}/dev/nvidia[0-7]
NodeName=n[5-6] Name=gpu Type=a100 File={layout.base}/dev/nvidia[0-3]
"""


TOPOLOGY_CONF = """\
SwitchName=leaf1 Nodes=n[1-2]
SwitchName=leaf2 Nodes=n[3-4]
SwitchName=leaf3 Nodes=n[5-6]
SwitchName=spine Switches=leaf[1-3]
"""


def slurmdbd_conf(layout: Layout, ports: Ports) -> str:
    """Accounting; the file must be mode 600 or slurmdbd refuses it."""
    return f"""\
AuthType=auth/munge
AuthInfo=socket={layout.munge_socket}
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={ports.slurmdbd}
SlurmUser=root
LogFile={layout.log("slurmdbd")}
PidFile={layout.base}/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={ports.mariadb}
StorageUser=slurm
StoragePass=bench
StorageLoc=slurm_acct_db
"""


def my_cnf(layout: Layout, ports: Ports) -> str:
    """The database; the last five lines are what slurmdbd asks for at its start, and speed."""
    return f"""\
[mysqld]
datadir={layout.base}/mysql
tmpdir={layout.base}/mysql-tmp
socket={layout.mariadb_socket}
pid-file={layout.base}/mysql/mariadb.pid
log-error={layout.log("mariadb")}
bind-address=127.0.0.1
port={ports.mariadb}
skip-name-resolve
innodb_buffer_pool_size=256M
innodb_lock_wait_timeout=900
innodb_log_file_size=64M
innodb_flush_log_at_trx_commit=2
"""


DATABASE_SQL = """\
CREATE DATABASE slurm_acct_db;
CREATE USER 'slurm'@'127.0.0.1' IDENTIFIED BY 'bench';
GRANT ALL ON slurm_acct_db.* TO 'slurm'@'127.0.0.1';
"""

# One `sacctmgr load` of all: each single change would cost half a second.
ASSOCIATIONS = f"""\
Cluster - '{CLUSTER}':Fairshare=1:QOS='normal'
Parent - 'root'
User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1
Account - 'research':Description='research':Organization='lab':Fairshare=10
Account - 'ops':Description='operations':Organization='lab':Fairshare=1
Parent - 'research'
Account - 'llm':Description='llm team':Organization='lab':Fairshare=60
Account - 'vision':Description='vision team':Organization='lab':Fairshare=40
Parent - 'llm'
User - 'alice':DefaultAccount='llm':Fairshare=1
User - 'bob':DefaultAccount='llm':Fairshare=1
Parent - 'vision'
User - 'carol':DefaultAccount='vision':Fairshare=1
Parent - 'ops'
User - 'dave':DefaultAccount='ops':AdminLevel='Operator':Fairshare=1
"""


def attempt_hook(layout: Layout) -> str:
    """Run by every job script before its own first command: this attempt started here and now.

    One short append, so lines of several nodes do not mix.
    """
    return f"""\
#!/bin/bash
printf '{{"job_id": %d, "restart_count": %d, "node": "%s", "t_ns": %d, "nodelist": "%s", "gpus": "%s"}}\\n' \\
    "$SLURM_JOB_ID" "${{SLURM_RESTART_COUNT:-0}}" "$SLURMD_NODENAME" "$(date +%s%N)" \\
    "$SLURM_JOB_NODELIST" "${{SLURM_JOB_GPUS:-}}" >>{layout.script_starts}
"""


def _hook_line(layout: Layout, what: str) -> str:
    """Appends that a prolog or epilog ran; the environment may lack the GPUs (after `slurmctld -c`) and the count."""
    return f"""\
printf '{{"what": "{what}", "t_ns": %d, "node": "%s", "job_id": %d, "gpus": "%s", "restart_count": %s}}\\n' \\
    "$(date +%s%N)" "$SLURMD_NODENAME" "$SLURM_JOB_ID" "${{SLURM_JOB_GPUS:-}}" "${{SLURM_RESTART_COUNT:-null}}" \\
    >>{layout.hook_calls}
"""


def prolog(layout: Layout) -> str:
    """Notes the job under each of its GPUs, a job id per line."""
    return f"""\
#!/bin/bash
{_hook_line(layout, "prolog")}
mkdir -p {layout.map}/$SLURMD_NODENAME
for g in ${{SLURM_JOB_GPUS//,/ }}; do echo $SLURM_JOB_ID >>{layout.map}/$SLURMD_NODENAME/$g; done
exit 0
"""


def epilog(layout: Layout) -> str:
    """Takes the job out again; a killed node never runs it, so its files stay, as on a real cluster."""
    return f"""\
#!/bin/bash
{_hook_line(layout, "epilog")}
for g in ${{SLURM_JOB_GPUS//,/ }}; do
    file={layout.map}/$SLURMD_NODENAME/$g
    sed -i "/^$SLURM_JOB_ID\\$/d" $file
    [ -s $file ] || rm -f $file
done
exit 0
"""


def wrap_script(layout: Layout, script: str) -> str:
    """A job script that reports its own start first, writes below the lab, and is otherwise as given.

    The report goes below the last #SBATCH line: after the first command sbatch reads no more of them.
    Our defaults go above the first one: a later line wins, as does any option of the command line.
    """
    lines = script.splitlines()
    if not lines or not lines[0].startswith("#!"):
        lines.insert(0, "#!/bin/bash")
    body = next((i for i, line in enumerate(lines) if line.strip() and not line.startswith("#")), len(lines))
    defaults = [f"#SBATCH --output={layout.base}/out/%j.out", "#SBATCH --open-mode=append", "#SBATCH --chdir=/tmp"]
    wrapped = [lines[0], *defaults, *lines[1:body], f"bash {layout.attempt_hook}", *lines[body:]]
    return "\n".join(wrapped) + "\n"
