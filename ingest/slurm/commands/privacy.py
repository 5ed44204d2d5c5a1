"""Whether Slurm hides other users' jobs from us (`PrivateData=jobs`): then its commands never list all jobs.

The setting exists twice: that of slurm.conf is about squeue, that of slurmdbd.conf about sacct.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingest.slurm.commands.runner import run
from ingest.slurm.formats import scontrol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.slurm.commands.runner import Runner

CONTROLLER: Final = ("scontrol", "show", "config")
"""Prints the settings of slurmctld."""

ACCOUNTING: Final = ("sacctmgr", "show", "config")
"""Prints the settings of slurm.conf, then those of slurmdbd: the last value of a name counts."""

_HINT: Final = (
    "slurmctld or slurmdbd seems to be down: check `scontrol ping` and `sacctmgr show cluster`. Try again later."
)


def others_are_hidden(runner: Runner, settings: Sequence[str]) -> bool:
    """Whether only own jobs are shown to us; `settings` is the command that shows the settings.

    root, SlurmUser and users with AdminLevel Operator or above may see all jobs. Coordinators see only those of their
    accounts.

    Raises:
        SourceError: There is no answer.
    """
    uid = _stdout(runner, "id", "-u")
    if uid == "0":
        return False
    settings_now = scontrol.settings(_stdout(runner, *settings))
    if "jobs" not in settings_now.get("PrivateData", "").lower().split(","):
        return False
    if any(f"({uid})" in settings_now.get(name, "") for name in ("SlurmUser", "SlurmUserId")):
        return False
    level = _stdout(runner, "sacctmgr", "-nP", "show", "user", _stdout(runner, "id", "-un"), "format=AdminLevel")
    return not level.startswith(("Operator", "Admin"))


def _stdout(runner: Runner, *command: str) -> str:
    return run(runner, command, hint=_HINT).data.decode(errors="replace").strip()
