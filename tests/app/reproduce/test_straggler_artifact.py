"""`trackside reproduce straggler-artifact` on traces whose truth is planted, damaged ones, and the published ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from app.reproduce.straggler_artifact import COLUMNS
from tests.app.reproduce.test_reproduce import public
from tests.metrics.oracles.pipeline import Pipeline
from tests.support.command import trackside

if TYPE_CHECKING:
    from pathlib import Path


def own(kind: str, step: int, rank: int, stage: int, number: int) -> float:
    return {"forward-compute": 1.0, "backward-compute": 2.0}.get(kind, 0.01) * (2 if (rank, stage) == (1, 0) else 1)


def write(folder: Path, name: str) -> Path:
    """A trace in the published layout, of which one worker is slow."""
    names = {ours: published for published, ours in COLUMNS.items()}
    file = folder / f"trace-{name}.parquet"
    Pipeline(3, 2, 4, 2, own).rows().rename(names).write_parquet(file)
    return file


def rows_of(path: Path) -> dict[str, dict[str, Any]]:
    done = trackside("reproduce", "straggler-artifact", str(path), "--format", "json", "--quiet")
    assert done.returncode == 0, done.stderr
    return {row["quantity"]: row for row in json.loads(done.stdout)}


def test_a_planted_node_is_named_beside_the_published_numbers(tmp_path: Path) -> None:
    write(tmp_path, "one")
    (tmp_path / "ms-one.json").write_text('{"tori": 3.0, "tideal": 2.0, "rem": 0.25, "Ms": 0.25}')
    rows = rows_of(tmp_path)
    assert rows["one: verdict"]["explanation"].startswith("node: data-parallel rank 1, stage 0 computes 2.00 times")
    assert (rows["one: slowdown S"]["published"], rows["one: M_S"]["published"]) == (1.5, 0.25)
    assert rows["one: M_W"]["published"] is None
    assert sum(row["computed"] for name, row in rows.items() if "share of" in name) == pytest.approx(1)


def test_what_a_trace_lacks_or_has_besides_is_said(tmp_path: Path) -> None:
    expected = rows_of(write(tmp_path, "whole"))["whole: slowdown S"]["computed"]
    rows = pl.read_parquet(tmp_path / "trace-whole.parquet").drop("seq_id", "mc", "gmc")
    other = rows.head(3).with_columns(optype=pl.lit("checkpoint-save"))
    (tmp_path / "trace-whole.parquet").unlink()
    pl.concat([rows, rows.head(2), other]).write_parquet(tmp_path / "trace-odd.parquet")
    computing = rows.filter(pl.col("optype").str.ends_with("-compute"))
    computing.with_columns(pl.col("start_ts", "duration") * 1e6).write_parquet(tmp_path / "trace-us.parquet")
    found = rows_of(tmp_path)
    odd, us = found["odd: slowdown S"], found["us: slowdown S"]
    assert odd["computed"] == pytest.approx(expected)
    assert "2 operations were in it more than once" in odd["explanation"]
    assert "of unknown kinds left out: checkpoint-save" in odd["explanation"]
    assert "do not seem to be in seconds" in us["explanation"]
    assert "no sends and receives" in us["explanation"]


def test_damaged_traces_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    whole = write(tmp_path, "whole").read_bytes()
    (tmp_path / "trace-cut.parquet").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "trace-empty.parquet").write_bytes(b"")
    (tmp_path / "mw-whole.json").write_text('{"tori": "x"')
    done = trackside("reproduce", "straggler-artifact", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "whole: slowdown S" in done.stdout
    assert done.stderr.count("not read: ") == 2
    assert "Traceback" not in done.stderr


def test_a_folder_without_traces_says_what_is_expected(tmp_path: Path) -> None:
    (tmp_path / "trace-x.parquet").write_text("no trace")
    done = trackside("reproduce", "straggler-artifact", str(tmp_path))
    assert done.returncode == 2
    assert "trace-*.parquet" in done.stderr
    assert "trace-x.parquet" in done.stderr


@pytest.mark.parametrize(
    ("name", "slowdown", "m_w", "m_s", "cause"),
    [
        ("AR", 1.97304, 1.00170, -0.00121, "node: data-parallel rank 0, stage 0"),
        ("SE", 1.53736, 0.02506, 0.68771, "job_shape"),
    ],
)
def test_published_traces_come_out(name: str, slowdown: float, m_w: float, m_s: float, cause: str) -> None:
    rows = rows_of(public("straggler-analysis") / f"trace-{name}.parquet")
    computed = [rows[f"{name}: {quantity}"]["computed"] for quantity in ("slowdown S", "M_W", "M_S")]
    assert computed == pytest.approx([slowdown, m_w, m_s], abs=1e-5)
    assert rows[f"{name}: verdict"]["explanation"].startswith(cause)
