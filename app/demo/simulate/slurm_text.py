"""Output of Slurm's own tools about the simulated cluster: sacct, sacctmgr and scontrol, as text."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from app.demo.simulate.plan import BEGIN, CLUSTER, GPUS_PER_NODE, REQUEUE_HOLD_S, SLURMD_TIMEOUT_S, Settings
from app.demo.simulate.slurm_steps import MEMORY_PER_GPU_G, clock, steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from app.demo.simulate.scheduler import Attempt, NodeState
    from app.demo.simulate.slurm_steps import SimulatedStep
    from app.demo.simulate.work import SimulatedJob
    from app.demo.simulate.world import World

SACCT = (
    "JobID|JobIDRaw|DBIndex|Cluster|Partition|QOS|Account|Group|User|UID|Submit|Eligible|Start|End|ElapsedRaw|"
    "Suspended|ExitCode|DerivedExitCode|State|NNodes|AllocCPUS|ReqNodes|ReqCPUS|ReqMem|ReqTRES|AllocTRES|TimelimitRaw|"
    "Priority|NodeList|Reason|Restarts|NTasks|TotalCPU|MaxRSS|MaxRSSNode|MaxRSSTask|TRESUsageInTot|WorkDir|JobName"
)
EVENTS = "Cluster|NodeName|TimeStart|TimeEnd|State|StateRaw|Reason|User"
CPUS_PER_GPU = 24
VERSION = "24.05.4"


def sacct(world: World) -> str:
    """`SLURM_TIME_FORMAT=%s sacct -a -D -P --noconvert -o ...` at the end of the simulated time."""
    rows = (row for attempt in world.of_slurm for row in _attempt_rows(attempt, world.settings))
    return "\n".join([SACCT, *rows]) + "\n"


def _attempt_rows(attempt: Attempt, settings: Settings) -> Iterator[str]:
    """The job's row, and those of its steps where it started."""
    job, of_steps = attempt.job, steps(attempt, settings.seed) if attempt.started is not None else []
    cells = _job_cells(attempt, settings) | {"TotalCPU": clock(sum(step.cpu_s or 0.0 for step in of_steps))}
    yield _row(cells)
    kept = {
        name: cells[name]
        for name in ("DBIndex", "Cluster", "Account", "Start", "End", "ElapsedRaw", "Suspended", "State")
    }
    for step in of_steps:
        yield _row(kept | _step_cells(step, job, settings) | {"Submit": attempt.started, "ExitCode": attempt.exit_code})


def _row(cells: Mapping[str, object]) -> str:
    return "|".join(str(cells.get(name, "")) for name in SACCT.split("|"))


def _step_cells(step: SimulatedStep, job: SimulatedJob, settings: Settings) -> dict[str, object]:
    """Values of a row of a step that differ from its job's."""
    nodes = [settings.name(node) for node in step.nodes]
    gpus = len(nodes) * job.gpus_per_node
    return {
        "JobID": f"{job.id}.{step.name}",
        "JobIDRaw": f"{job.id}.{step.name}",
        "JobName": "batch" if step.name == "batch" else "python",
        "NNodes": len(nodes),
        "AllocCPUS": gpus * CPUS_PER_GPU,
        "AllocTRES": _tres(gpus, len(nodes), typed=True).partition(",")[2],
        "NodeList": node_list(nodes),
        "NTasks": step.tasks,
        "TotalCPU": clock(step.cpu_s or 0.0),
        **({} if step.rss_bytes is None else {"MaxRSS": step.rss_bytes, "MaxRSSNode": nodes[0], "MaxRSSTask": 0}),
        **({} if step.total_bytes is None else {"TRESUsageInTot": f"mem={step.total_bytes}"}),
    }


def _job_cells(attempt: Attempt, settings: Settings) -> dict[str, object]:
    job = attempt.job
    held = attempt.started is not None
    last = settings.end if attempt.ended is None else attempt.ended
    requested = job.gpus
    return {
        "JobID": job.id,
        "JobIDRaw": job.id,
        "DBIndex": attempt.db_index,
        "Cluster": CLUSTER,
        "Partition": job.partition,
        "QOS": job.qos,
        "Account": job.account,
        "Group": "users",
        "User": job.user,
        "UID": job.uid,
        "Submit": attempt.submitted,
        "Eligible": attempt.eligible if attempt.eligible <= settings.end else "Unknown",
        "Start": attempt.started if held else ("Unknown" if attempt.ended is None else "None"),
        "End": "Unknown" if attempt.ended is None else attempt.ended,
        "ElapsedRaw": last - attempt.started if attempt.started is not None else 0,
        "Suspended": "00:00:00",
        "ExitCode": attempt.exit_code,
        "DerivedExitCode": "0:0",
        "State": attempt.state,
        "NNodes": job.n_nodes,
        "AllocCPUS": requested * CPUS_PER_GPU if held else 0,
        "ReqNodes": job.n_nodes,
        "ReqCPUS": requested * CPUS_PER_GPU,
        "ReqMem": f"{requested * MEMORY_PER_GPU_G}G",
        "ReqTRES": _tres(requested, job.n_nodes, typed=False),
        "AllocTRES": _tres(requested, job.n_nodes, typed=True) if held else "",
        "TimelimitRaw": job.limit_s // 60,
        "Priority": job.priority * 1000,
        "NodeList": node_list([settings.name(node) for node in attempt.nodes]) if held else "None assigned",
        "Reason": attempt.reason,
        "Restarts": attempt.number,
        "WorkDir": f"/home/{job.user}/work",
        "JobName": job.name,
    }


def _tres(gpus: int, nodes: int, *, typed: bool) -> str:
    kind = f"gres/gpu:h100={gpus}," if typed else ""
    cpus = gpus * CPUS_PER_GPU
    return f"billing={cpus},cpu={cpus},{kind}gres/gpu={gpus},mem={gpus * MEMORY_PER_GPU_G}G,node={nodes}"


def node_list(names: Sequence[str]) -> str:
    """Slurm's short form of node names that share a prefix and the width of their number.

    >>> node_list(["gpu-001", "gpu-002", "gpu-003", "gpu-007"]), node_list(["gpu-042"])
    ('gpu-[001-003,007]', 'gpu-042')
    """
    if len(names) == 1:
        return names[0]
    prefix, width = names[0].rpartition("-")[0], len(names[0].rpartition("-")[2])
    numbers = sorted(int(name.rpartition("-")[2]) for name in names)
    runs = []
    for _, group in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        members = [number for _, number in group]
        low, high = f"{members[0]:0{width}d}", f"{members[-1]:0{width}d}"
        runs.append(low if low == high else f"{low}-{high}")
    return f"{prefix}-[{','.join(runs)}]"


def events(world: World) -> str:
    """`SLURM_TIME_FORMAT=%s sacctmgr -P show event Start=... Format=...`."""
    rows = [f"{CLUSTER}||{BEGIN}|Unknown||0|Cluster Registered TRES|"]
    rows += (
        f"{CLUSTER}|{world.settings.name(state.node)}|{state.noticed}|{state.ended or 'Unknown'}|{_word(state)}|"
        f"{state.raw}|{state.reason}|{state.user}"
        for state in world.history.states
    )
    return "\n".join([EVENTS, *rows]) + "\n"


def _word(state: NodeState) -> str:
    return {2049: "DOWN*", 1: "DOWN"}.get(state.raw, "DRAIN")


def nodes(world: World, *, at_end: bool) -> str:
    """`SLURM_TIME_FORMAT=%s scontrol show node -o`, on the first or the last day."""
    settings = world.settings
    out = {state.node: state for state in world.history.states if state.ended is None} if at_end else {}
    busy: dict[int, int] = {}
    for attempt in world.of_slurm:
        if at_end and attempt.started is not None and attempt.ended is None:
            for node, gpus in attempt.places:
                busy[node] = busy.get(node, 0) + len(gpus)
    now = settings.end if at_end else BEGIN
    lines = (_node_line(node, settings, now, out.get(node), busy.get(node, 0)) for node in range(settings.n_nodes))
    return "\n".join(lines) + "\n"


def _node_line(node: int, settings: Settings, now: int, out: NodeState | None, busy: int) -> str:
    name = settings.name(node)
    partition = "train" if node < settings.n_whole else "dev"
    cpus, memory = GPUS_PER_NODE * CPUS_PER_GPU, GPUS_PER_NODE * MEMORY_PER_GPU_G
    state, reason = "IDLE" if not busy else ("ALLOCATED" if busy == GPUS_PER_NODE else "MIXED"), ""
    if out is not None:
        state = {2049: "DOWN+NOT_RESPONDING", 1: "DOWN"}.get(out.raw, "IDLE+DRAIN")
        reason = f" Reason={out.reason} [{out.user.partition('(')[0]}@{out.noticed}]"
    held = (
        f"cpu={busy * CPUS_PER_GPU},mem={busy * MEMORY_PER_GPU_G}G,gres/gpu={busy},gres/gpu:h100={busy}" if busy else ""
    )
    return (
        f"NodeName={name} Arch=x86_64 CoresPerSocket=48  CPUAlloc={busy * CPUS_PER_GPU} CPUEfctv={cpus} CPUTot={cpus} "
        f"CPULoad={busy * 3.0:.2f} AvailableFeatures=h100,ib ActiveFeatures=h100,ib "
        f"Gres=gpu:h100:{GPUS_PER_NODE}(S:0-1) NodeAddr={name} NodeHostName={name} Version={VERSION} "
        f"OS=Linux 6.8.0 #1 SMP PREEMPT_DYNAMIC  RealMemory={memory * 1024} AllocMem={busy * MEMORY_PER_GPU_G * 1024} "
        f"FreeMem={memory * 512} Sockets=2 Boards=1 State={state} ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A "
        f"MCS_label=N/A Partitions={partition}  BootTime={BEGIN - 7200} SlurmdStartTime={BEGIN - 7000} "
        f"LastBusyTime={now} CfgTRES=cpu={cpus},mem={memory}G,billing={cpus},gres/gpu={GPUS_PER_NODE},"
        f"gres/gpu:h100={GPUS_PER_NODE} AllocTRES={held} CapWatts=n/a CurrentWatts=0 AveWatts=0{reason}"
    )


def config(settings: Settings) -> str:
    """`scontrol show config`, the lines that matter."""
    lines: Iterable[tuple[str, str]] = (
        ("AccountingStorageTRES", "cpu,mem,energy,node,billing,fs/disk,vmem,pages,gres/gpu,gres/gpu:h100"),
        ("AuthInfo", f"socket=/run/munge/munge.socket.2,cred_expire={REQUEUE_HOLD_S - 1}"),
        ("ClusterName", CLUSTER),
        ("JobRequeue", "1"),
        ("KillWait", "30 sec"),
        ("MinJobAge", "300 sec"),
        ("PreemptMode", "REQUEUE"),
        ("PreemptType", "preempt/qos"),
        ("PrivateData", "none"),
        ("SelectType", "select/cons_tres"),
        ("SelectTypeParameters", "CR_CORE_MEMORY"),
        ("SlurmdTimeout", f"{SLURMD_TIMEOUT_S} sec"),
        ("SLURM_VERSION", VERSION),
    )
    body = "".join(f"{name:<23} = {value}\n" for name, value in lines)
    return f"Configuration data as of {settings.end}\n{body}"
