"""Whose jobs Slurm shows to whom: `PrivateData=jobs` in slurm.conf and slurmdbd.conf, and who may see all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ingest.errors import SourceDownError
from ingest.slurm.commands.privacy import ACCOUNTING, CONTROLLER, others_are_hidden
from ingest.slurm.commands.runner import Completed

if TYPE_CHECKING:
    from collections.abc import Mapping

SACCTMGR = """\
Configuration data as of 2026-11-21T22:00:00
AccountingStorageHost  = localhost
PrivateData            = {slurm}
SlurmUserId            = slurm(64030)

SlurmDBD configuration:
PrivateData            = {slurmdbd}
SlurmUser              = slurm(64030)
"""


def hidden(*settings: str, slurm: str, slurmdbd: str, uid: int = 1000, level: str = "None") -> bool:
    """What is found out where the configurations say so, by a user of that level."""
    answers = {
        "id -u": f"{uid}\n",
        "id -un": "alice\n",
        "scontrol show config": f"PrivateData             = {slurm}\nSlurmUser               = slurm(64030)\n",
        "sacctmgr show config": SACCTMGR.format(slurm=slurm, slurmdbd=slurmdbd),
        "sacctmgr -nP show user alice format=AdminLevel": f"{level}\n",
    }

    def runner(command: list[str], _: Mapping[str, str]) -> Completed:
        return Completed(0, answers[" ".join(command)].encode(), b"")

    return others_are_hidden(runner, settings)


@pytest.mark.parametrize("private", ["none", "accounts,usage", "jobs", "Accounts,Jobs"])
def test_squeue_hides_by_slurm_conf_and_sacct_by_slurmdbd_conf(private: str) -> None:
    there = "jobs" in private.lower()
    assert hidden(*CONTROLLER, slurm=private, slurmdbd="none") == there
    assert hidden(*ACCOUNTING, slurm=private, slurmdbd="none") is False
    assert hidden(*ACCOUNTING, slurm="none", slurmdbd=private) == there


@pytest.mark.parametrize(
    ("uid", "level", "expected"),
    [
        (0, "None", False),
        (64030, "None", False),
        (6403, "None", True),
        (1000, "Operator", False),
        (1000, "Administrator", False),
        (1000, "", True),  # not in the database at all
    ],
)
def test_a_user_with_access_to_all_jobs_gets_all(uid: int, level: str, expected: bool) -> None:
    for settings in (CONTROLLER, ACCOUNTING):
        assert hidden(*settings, slurm="jobs", slurmdbd="jobs", uid=uid, level=level) == expected


def test_privacy_is_unknown_without_an_answer() -> None:
    with pytest.raises(SourceDownError, match="slurmdbd seems to be down"):
        others_are_hidden(lambda *_: Completed(1, b"", b""), ACCOUNTING)
