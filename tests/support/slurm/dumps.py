"""A small cluster as Slurm's own tools would print it: accounting, events, inventory, settings. Always the same."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

START = 1_790_812_800  # 2026-10-01T00:00:00Z
HEADER = (
    "JobIDRaw|JobID|Cluster|DBIndex|Partition|QOS|Account|User|UID|Submit|Eligible|Start|End|ElapsedRaw|Suspended|State|"
    "ExitCode|NNodes|NCPUS|ReqTRES|AllocTRES|TimelimitRaw|NodeList|JobName"
)


@dataclass(frozen=True)
class Dump:
    """Texts of one cluster."""

    accounting: str
    events: str
    nodes: str
    config: str = "Configuration data as of 2026-11-01T00:00:00\nClusterName = tiny\nSlurmdTimeout = 300 sec\n"

    def write(self, folder: Path) -> list[str]:
        """Put the texts into files, and return their names."""
        files = {
            "sacct.txt": self.accounting,
            "events.txt": self.events,
            "nodes.txt": self.nodes,
            "config.txt": self.config,
        }
        for name, text in files.items():
            (folder / name).write_text(text)
        return [str(folder / name) for name in files]


def rows_of(accounting: str) -> list[str]:
    """The data rows of a dump."""
    return accounting.splitlines()[1:]


def with_rows(rows: list[str]) -> str:
    """A dump of these rows."""
    return "\n".join([HEADER, *rows]) + "\n"


def tiny(jobs: int = 300, *, nodes: int = 8, days: int = 14, seed: int = 7) -> Dump:
    """A month of a cluster of 8-GPU nodes: jobs that complete, fail, are requeued by dying nodes, run and wait."""
    chance = random.Random(seed)
    until = START + days * 86_400
    free = dict.fromkeys(range(1, nodes + 1), START)
    rows: list[str] = []
    events = ["Cluster|NodeName|TimeStart|TimeEnd|State|StateRaw|Reason|User"]
    events.append(f"tiny||{START}|Unknown||0|Cluster Registered TRES|")
    index = 0
    for job in range(1, jobs + 1):
        width = chance.choice([1, 1, 1, 2, 4])
        places = sorted(sorted(free, key=lambda node: (free[node], node))[:width])
        submit = max(free[node] for node in places) + chance.randint(0, 600)
        for restart in range(3):
            eligible = submit if restart == 0 else submit + 121
            start = max(eligible, *(free[node] for node in places)) + chance.randint(1, 900)
            length = chance.randint(60, 8 * 3600)
            fails = chance.random() < 0.15 and restart < 2
            state = (
                "NODE_FAIL"
                if fails
                else chance.choice(["COMPLETED", "COMPLETED", "FAILED", "CANCELLED by 1001", "TIMEOUT"])
            )
            end: int | None = start + length
            if start + length >= until:
                state, end = ("RUNNING", None) if start < until else ("PENDING", None)
            index += 1
            ran = _Execution(job, index, submit, eligible, start, end, state, places)
            rows.append(_row(ran, until, chance.choice(["train", "eval|try", "naïve", "a b"])))
            if end is None:
                break
            for node in places:
                free[node] = end
            if not fails:
                break
            dead = places[0]
            events.append(f"tiny|n{dead}|{end}|{end + 600}|DOWN*|2049|Not responding|slurm(64030)")
            free[dead] = end + 600
            submit = end
    text = "".join(
        f"NodeName=n{node} Arch=x86_64 CoresPerSocket=32 CPUTot=64 Gres=gpu:h100:8 RealMemory=512000 State=IDLE "
        f"Partitions=main BootTime={START} SlurmdStartTime={START} LastBusyTime={until} "
        f"CfgTRES=cpu=64,mem=500G,billing=64,gres/gpu=8,gres/gpu:h100=8\n"
        for node in range(1, nodes + 1)
    )
    return Dump(with_rows(rows), "\n".join(events) + "\n", text)


@dataclass(frozen=True)
class _Execution:
    """One row of accounting; `end` is None while it runs or waits."""

    job: int
    index: int
    submit: int
    eligible: int
    start: int
    end: int | None
    state: str
    places: list[int]


def _row(ran: _Execution, until: int, name: str) -> str:
    gpus = 8 * len(ran.places)
    pending = ran.state == "PENDING"
    cells = {
        "JobIDRaw": ran.job,
        "JobID": ran.job,
        "Cluster": "tiny",
        "DBIndex": ran.index,
        "Partition": "main",
        "QOS": "normal",
        "Account": "llm",
        "User": f"user{ran.job % 5}",
        "UID": 1000 + ran.job % 5,
        "Submit": ran.submit,
        "Eligible": ran.eligible,
        "Start": "Unknown" if pending else ran.start,
        "End": "Unknown" if ran.end is None else ran.end,
        "ElapsedRaw": 0 if pending else (ran.end or until) - ran.start,
        "Suspended": "00:00:00",
        "State": ran.state,
        "ExitCode": "1:0" if ran.state == "FAILED" else "0:0",
        "NNodes": len(ran.places),
        "NCPUS": 8 * len(ran.places),
        "ReqTRES": f"gres/gpu={gpus},node={len(ran.places)}",
        "AllocTRES": "" if pending else f"cpu=8,gres/gpu:h100={gpus},gres/gpu={gpus},mem=64G,node={len(ran.places)}",
        "TimelimitRaw": 1440,
        "NodeList": "None assigned" if pending else ",".join(f"n{place}" for place in ran.places),
        "JobName": name,
    }
    return "|".join(str(cells[column]) for column in HEADER.split("|"))
