"""Output of Slurm's tools around the simulated jobs: network, reservations, people, rules, statistics."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from app.demo.simulate.plan import BEGIN, CLUSTER, DAY_S, GPUS_PER_NODE
from app.demo.simulate.slurm_text import CPUS_PER_GPU, node_list
from app.demo.simulate.work import IDLE_PEOPLE, OPERATOR, PEOPLE, REMOVED

if TYPE_CHECKING:
    from app.demo.simulate.plan import Maintenance
    from app.demo.simulate.world import World

LEAF_NODES: Final = 16
"""Nodes on one leaf switch."""

LEAVES_PER_SPINE: Final = 4
"""Leaf switches below one spine switch."""

PROVISIONED_S: Final = 600
"""The accounts were made when the cluster was handed over, one in ten minutes, but no later than their first job."""


def topology(world: World) -> str:
    """`scontrol show topology`: leaves of 16 nodes, four leaves below a spine, all spines below one core."""
    settings = world.settings
    names = [settings.name(node) for node in range(settings.n_nodes)]
    leaves = [names[at : at + LEAF_NODES] for at in range(0, len(names), LEAF_NODES)]
    lines = [
        f"SwitchName=leaf{number} Level=0 LinkSpeed=1 Nodes={node_list(nodes)}"
        for number, nodes in enumerate(leaves, 1)
    ]
    spines = [range(at, min(at + LEAVES_PER_SPINE, len(leaves))) for at in range(0, len(leaves), LEAVES_PER_SPINE)]
    for number, below in enumerate(spines, 1):
        nodes = [name for leaf in below for name in leaves[leaf]]
        switches = f"leaf[{below[0] + 1}-{below[-1] + 1}]" if len(below) > 1 else f"leaf{below[0] + 1}"
        lines.append(f"SwitchName=spine{number} Level=1 LinkSpeed=1 Nodes={node_list(nodes)} Switches={switches}")
    switches = f"spine[1-{len(spines)}]" if len(spines) > 1 else "spine1"
    lines.append(f"SwitchName=core Level=2 LinkSpeed=1 Nodes={node_list(names)} Switches={switches}")
    return "\n".join(lines) + "\n"


def reservations(world: World) -> str:
    """`SLURM_TIME_FORMAT=%s sacctmgr -P show reservation Start=... Format=...`: the maintenance windows."""
    header = "Cluster|ID|Name|TimeStart|TimeEnd|NodeName|Flags|TRES|UnusedWall|Assocs"
    rows = [
        _reservation(number, window, [world.settings.name(node) for node in window.nodes])
        for number, window in enumerate(world.history.plan.maintenance, 1)
        if window.begin < world.settings.end
    ]
    return "\n".join([header, *rows]) + "\n"


def _reservation(number: int, window: Maintenance, names: list[str]) -> str:
    cpus = len(names) * GPUS_PER_NODE * CPUS_PER_GPU
    cells = (CLUSTER, number, f"maint-{number}", window.begin, window.end, node_list(names))
    return "|".join(map(str, (*cells, "MAINT,IGNORE_JOBS,SPEC_NODES", f"cpu={cpus}", "0.000000", "")))


def associations(world: World) -> str:
    """`sacctmgr -P show assoc`: a tree of accounts and users under root; research may hold 64 GPUs at most."""
    header = (
        "Cluster|Account|User|Partition|Share|Priority|GrpJobs|GrpTRES|GrpSubmit|GrpWall|GrpTRESMins|MaxJobs|MaxTRES|"
        "MaxTRESPerNode|MaxSubmit|MaxWall|MaxTRESMins|QOS|Def QOS|GrpTRESRunMins"
    )
    accounts = sorted({account for account, _ in PEOPLE.values()})
    days = world.settings.days
    idle = {user: account for user, (account, day) in IDLE_PEOPLE.items() if day < days <= REMOVED.get(user, days)}
    rows = [_association("root", "", ""), *(_association("root", user, "") for user in ("root", OPERATOR))]
    for account in accounts:
        rows.append(_association(account, "", "gres/gpu=64" if account == "research" else ""))
        theirs = {user: of for user, (of, _) in PEOPLE.items()} | idle
        rows += [_association(account, user, "") for user, of in theirs.items() if of == account]
    return "\n".join([header, *rows]) + "\n"


def _association(account: str, user: str, group_tres: str) -> str:
    return f"{CLUSTER}|{account}|{user}||1|||{group_tres}||||||||||normal,pretrain,scavenge|normal|"


def qos(_: World) -> str:
    """`sacctmgr -P show qos`: pretraining goes before the rest and may preempt it."""
    header = (
        "Name|Priority|GraceTime|Preempt|PreemptExemptTime|PreemptMode|Flags|UsageThres|UsageFactor|GrpTRES|GrpTRESMins|"
        "GrpTRESRunMins|GrpJobs|GrpSubmit|GrpWall|MaxTRES|MaxTRESPerNode|MaxTRESMins|MaxWall|MaxTRESPU|MaxJobsPU|"
        "MaxSubmitPU|MaxTRESPA|MaxJobsPA|MaxSubmitPA|MinTRES"
    )
    rules = (
        "scavenge|1|00:00:00|||cluster",
        "normal|10|00:00:00|||cluster",
        "pretrain|100|00:01:00|normal,scavenge||requeue",
    )
    rows = [f"{rule}|||1.000000{'|' * 17}" for rule in rules]
    return "\n".join([header, *rows]) + "\n"


def transactions(world: World) -> str:
    """`SLURM_TIME_FORMAT=%s sacctmgr -P show transactions`: who got access when, and lost it."""
    firsts: dict[str, int] = {}
    for attempt in world.of_slurm:
        firsts[attempt.job.user] = min(attempt.submitted, firsts.get(attempt.job.user, attempt.submitted))
    first = BEGIN - DAY_S
    changes = [(first, "Add Users", "root", OPERATOR, "admin_level=2"), _made(first, "root", OPERATOR, "root", 3)]
    for number, (user, (account, _uid)) in enumerate(PEOPLE.items()):
        when = min(BEGIN + number * PROVISIONED_S, firsts.get(user, world.settings.end))
        changes += [
            (when, "Add Users", OPERATOR, user, "admin_level=1"),
            _made(when, OPERATOR, user, account, number + 4),
        ]
    for number, (user, (account, day)) in enumerate(IDLE_PEOPLE.items(), start=len(PEOPLE)):
        when = BEGIN + day * DAY_S
        changes += [
            (when, "Add Users", OPERATOR, user, "admin_level=1"),
            _made(when, OPERATOR, user, account, number + 4),
        ]
    changes += [(BEGIN + day * DAY_S, "Remove Users", "root", f"(name='{user}')", "") for user, day in REMOVED.items()]
    done = sorted(change for change in changes if change[0] < world.settings.end)
    return "\n".join(["Time|Action|Actor|Where|Info", *("|".join(map(str, change)) for change in done)]) + "\n"


def _made(when: int, actor: str, user: str, account: str, number: int) -> tuple[int, str, str, str, str]:
    info = f"mod_time={when}, acct='{account}', user='{user}', `partition`='', shares=1"
    return when, "Add Associations", actor, f"id_assoc={number}", info


def sdiag(world: World) -> str:
    """`TZ=UTC sdiag` at the end of the simulated time, the lines that matter."""
    day = [attempt for attempt in world.of_slurm if attempt.submitted >= world.settings.end - DAY_S]
    ended = [attempt.state for attempt in world.of_slurm if (attempt.ended or 0) >= world.settings.end - DAY_S]
    return f"""*******************************************************
sdiag output at {_spelled(world.settings.end)}
Data since      {_spelled(world.settings.end - DAY_S)}
*******************************************************
Server thread count:  3
Agent queue size:     0
Agent count:          0
Agent thread count:   0
DBD Agent queue size: 0

Jobs submitted: {len(day)}
Jobs started:   {sum(attempt.started is not None for attempt in day)}
Jobs completed: {ended.count("COMPLETED")}
Jobs canceled:  {ended.count("CANCELLED")}
Jobs failed:    {ended.count("FAILED")}

Main schedule statistics (microseconds):
\tLast cycle:   2143
\tMax cycle:    88120
\tTotal cycles: 1440
\tMean cycle:   2711
"""


def _spelled(moment: int) -> str:
    """A moment as sdiag writes it, the epoch behind it.

    >>> _spelled(1788220800)
    'Tue Sep 01 00:00:00 2026 (1788220800)'
    """
    return f"{datetime.fromtimestamp(moment, UTC):%a %b %d %H:%M:%S %Y} ({moment})"
