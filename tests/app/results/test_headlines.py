"""The headline numbers are those of `show`, and nothing is counted twice on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from app.results.ettr import ettr_rows
from app.results.failures.failure_rates import failure_rate_rows
from app.results.failures.interruptions import restart_rows
from app.results.goodput import goodput_rows
from app.results.headlines import headlines
from app.window import Window
from metrics.restarts.restarts import restart_summary
from queries.warehouse import open_reader
from tests.support.command import trackside
from tests.support.slurm.dumps import tiny

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("headlines")
    done = trackside("ingest", "slurm", *map(str, tiny(60).write(folder)), "--cluster", "tiny", "--warehouse",
                     str(folder / "w"), cwd=folder)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert trackside("compute", "--warehouse", str(folder / "w")).returncode == 0
    return folder / "w"


@pytest.mark.slow
def test_each_headline_is_the_number_that_show_gives(warehouse: Path) -> None:
    with open_reader(warehouse) as reader:
        window = Window("tiny", *reader.query("computed", cluster="tiny").select("since", "until").row(0))
        result = {each.metric: each for each in headlines(reader, window)}
        rows = pl.concat([goodput_rows(reader, window), ettr_rows(reader, window)])
        for row in rows.filter(pl.col("metric").is_in(list(result))).iter_rows(named=True):
            mine = result[row["metric"]]
            assert (mine.value, mine.numerator, mine.bound_low, mine.bound_high) == (
                row["value"], row["numerator"], row["bound_low"], row["bound_high"],
            )  # fmt: skip
        restarted = restart_rows(reader, window).filter(pl.col("class") == "infrastructure")
        reported = restart_summary(restarted).filter(pl.col("cause") == "all").to_dicts()
        assert result["time_to_job_restart"].n == restarted["time_to_job_restart_s"].count() > 0
        assert result["time_to_job_restart"].value == reported[0]["median_s"]
        rates = failure_rate_rows(reader, window)
        pooled = rates.filter(
            (pl.col("size") == "pooled") & (pl.col("class") == "infrastructure") & (pl.col("counted") == "attempts")
        ).row(0, named=True)
        assert result["mttf"].n == pooled["n_failures"]
        assert result["mttf"].value == pytest.approx(pooled["mttf_d"] / 1024)
    assert result["mfu"].value is None  # nothing was logged
    assert "cannot tell" in str(result["mfu"].note)
