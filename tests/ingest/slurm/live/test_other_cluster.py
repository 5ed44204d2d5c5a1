"""A live Slurm that is another cluster than a person asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.config import settings as config
from ingest.errors import OptionError
from ingest.slurm.commands.runner import Completed
from ingest.slurm.live import ingest as live_ingest
from ingest.slurm.load_files import Options
from ingest.store.report import first_error
from queries.warehouse import open_writer
from tests.support.slurm.fake_slurm import BORN, FakeSlurm, Job, hours, ingest, table, value

if TYPE_CHECKING:
    from pathlib import Path


def test_slurm_of_another_cluster_than_requested_is_not_read(tmp_path: Path) -> None:
    slurm = FakeSlurm([Job(1, BORN, BORN, None)], BORN + hours(10))

    with open_writer(tmp_path, verb="test", now=slurm.now) as writer:
        reports = live_ingest.ingest_live(
            writer, config.Config(), Options(cluster="nosuch"), now=slurm.now, runner=slurm, progress=lambda *_: None
        )

    error = first_error(reports)
    assert isinstance(error, OptionError)
    assert "this Slurm is the cluster 'c1', not 'nosuch'" in str(error)
    assert slurm.windows() == []
    assert table(tmp_path, "loads").is_empty()
    assert table(tmp_path, "cluster_settings").is_empty()


@pytest.mark.slow
def test_one_mismatched_cluster_does_not_block_the_others(tmp_path: Path) -> None:
    slurm = FakeSlurm([Job(1, BORN, BORN, None)], BORN + hours(10))
    another = Completed(0, b"ClusterName = c9\n", b"")
    slurm.failing = lambda command: another if command[:3] == ["scontrol", "-M", "c2"] and "config" in command else None

    reported = ingest(tmp_path, slurm, clusters=["c2", "c1"])

    assert isinstance(reported.error, OptionError)
    assert {value(command, "-M") for command in slurm.commands if "-S" in command} == {"c1"}
    assert table(tmp_path, "attempts")["job_id"].to_list() == ["1"]
    assert set(table(tmp_path, "cluster_settings")["cluster"]) == {"c1"}
