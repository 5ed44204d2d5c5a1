"""A live Slurm that is another cluster than a person asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app import config, live_slurm
from app.errors import UsageError
from app.ingesting import Options
from queries.warehouse import open_writer
from tests.app.fake_slurm import BORN, FakeSlurm, Job, hours, table

if TYPE_CHECKING:
    from pathlib import Path


def test_a_slurm_that_is_another_cluster_than_was_asked_for_is_not_read(tmp_path: Path) -> None:
    slurm = FakeSlurm([Job(1, BORN, BORN, None)], BORN + hours(10))

    with (
        open_writer(tmp_path, verb="test", now=slurm.now) as writer,
        pytest.raises(UsageError, match="this Slurm is the cluster 'c1', not 'nosuch'"),
    ):
        live_slurm.ingest_live(
            writer, config.Config(), Options(cluster="nosuch"), now=slurm.now, runner=slurm, progress=lambda *_: None
        )

    assert [command for command in slurm.commands if command[0] == "sacct"] == []
    assert "nosuch" not in set(table(tmp_path, "loads")["cluster"])
