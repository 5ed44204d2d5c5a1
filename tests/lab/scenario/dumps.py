"""Accounting of a played scenario as text, in the forms in which people keep it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingest.slurm.accounting.sacct import DOCUMENTED_ORDER, REQUESTED_COLUMNS, SENTINEL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.lab.cluster import SlurmLab

EPOCH: Final = {"TZ": "UTC", "SLURM_TIME_FORMAT": "%s"}
BERLIN: Final = {"TZ": "Europe/Berlin"}


def accounting_dumps(lab: SlurmLab, ids: str) -> dict[str, str]:
    """All attempts of the jobs `ids`, by file name.

    By id, because a window query leaves out what was never eligible. `kinds-all` has the steps, too.
    """
    known = {name.lower() for name in lab.sacct("-e").split()}
    wanted = ",".join(name for name in (*REQUESTED_COLUMNS, SENTINEL) if name.lower() in known)

    def sacct(env: Mapping[str, str], *options: str) -> str:
        return lab.sacct("-a", "-D", "-P", "--noconvert", "-j", ids, *options, env=env)

    return {
        "kinds.sacct.txt": sacct(EPOCH, "-X", "--delimiter=\x1f", "-o", wanted),
        "kinds-local.sacct.txt": sacct(BERLIN, "-X", "-o", wanted),
        "kinds-26.sacct.txt": sacct(EPOCH, "-X", "-n", "-o", ",".join(DOCUMENTED_ORDER)),
        "kinds-all.sacct.txt": sacct({"TZ": "UTC"}, "-o", "ALL"),
    }


OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "kinds.sacct.txt": (),
    "kinds-local.sacct.txt": ("--timezone", "Europe/Berlin"),
    "kinds-26.sacct.txt": (),
    "kinds-all.sacct.txt": ("--timezone", "UTC"),
}
"""What `trackside ingest slurm` has to be told to read each of them."""

UNTOLD: Final[Mapping[str, frozenset[str]]] = {
    "kinds.sacct.txt": frozenset(),
    "kinds-local.sacct.txt": frozenset(),
    "kinds-26.sacct.txt": frozenset(
        {
            *("db_index", "derived_exit_code", "derived_exit_signal", "reason", "work_dir", "comment", "priority"),
            *("reservation", "flags", "constraints", "wckey", "admin_comment", "submit_line", "gpus_asked"),
        }
    ),
    "kinds-all.sacct.txt": frozenset(),
}
"""Columns of `attempts` that a form does not carry."""

UNCLEAR: Final = "oddly_named"
"""The kind whose job has a delimiter of some forms in its name, and a text before it."""

AMBIGUOUS: Final[Mapping[str, frozenset[str]]] = {
    "kinds-local.sacct.txt": frozenset({"name", "submit_line", "gpus_asked"})
}
"""What is left out of that job, null, in the forms where nothing tells which of its texts holds the delimiter."""


def around_dumps(lab: SlurmLab) -> dict[str, str]:
    """Node events, inventory and settings, by file name."""
    columns = "Cluster,NodeName,TimeStart,TimeEnd,State,StateRaw,Reason,User,TRES"
    event = ("-P", "show", "event", "All_Time", f"format={columns}")
    return {
        "kinds.events.txt": lab.sacctmgr(*event, env=EPOCH),
        "kinds.nodes.txt": lab.run(["scontrol", "show", "node"], env=EPOCH).stdout,
    }
