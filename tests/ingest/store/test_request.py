"""What a load requested is in columns, and warehouses of before these columns get them from the origin."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import polars as pl
import pytest

from queries import sql_files
from queries.warehouse import open_reader, open_writer
from tests.support.slurm.fake_slurm import BORN, FakeSlurm, Job, days, ingest, table

if TYPE_CHECKING:
    from pathlib import Path

NOW = BORN + days(40)
LOW = datetime(2026, 11, 1, 2, tzinfo=UTC)
HIGH = datetime(2026, 11, 8, 3, 4, 5, tzinfo=UTC)
SACCT = "sacct -a -D -X -P --noconvert --delimiter=\\x1f -S 2026-11-01T02:00:00 -E 2026-11-08T03:04:05 -M c1 -o JobID"
EVENTS = "sacctmgr -P show event Clusters=c1 Start=2026-11-01T02:00:00 End=2026-11-08T03:04:05 Format=Cluster"
REST = f"slurmrestd unix:/s/slurmdb/v0.0.38/jobs?start_time=uts{LOW.timestamp():.0f}&end_time=uts{HIGH.timestamp():.0f}"
NEWER_REST = REST.replace("uts", "").replace("0.0.38", "0.0.41") + "&skip_steps=true"


class Expected(NamedTuple):
    """Columns of `loads` that the upgrade fills."""

    transport: str
    request: str | None = None
    requested_from: datetime | None = None
    requested_until: datetime | None = None
    partial: bool = False


ORIGINS = {
    "sacct.txt": Expected("file"),
    "dumps/sacct -S 1": Expected("file"),
    "-": Expected("stdin"),
    SACCT: Expected("command", "sacct", LOW, HIGH),
    SACCT.partition(" -M")[0]: Expected("command", "sacct", LOW, HIGH),
    f"others' jobs hidden: {SACCT}": Expected("command", "sacct", LOW, HIGH, partial=True),
    "sacct -S 2026-99-01T00:00:00 -E 2026-99-02T00:00:00": Expected("command", "sacct"),
    "sacct -j: 3 open jobs, 1 to 3": Expected("command", "sacct"),
    EVENTS: Expected("command", "sacctmgr show event", LOW, HIGH),
    "sacctmgr -P show qos": Expected("command", "sacctmgr show qos"),
    "scontrol -M c1 show node -o": Expected("command", "scontrol show node"),
    REST: Expected("rest", "slurmrestd jobs", LOW, HIGH),
    NEWER_REST: Expected("rest", "slurmrestd jobs", LOW, HIGH),
    "slurmrestd http://ctl:6820/slurm/v0.0.40/nodes": Expected("rest", "slurmrestd nodes"),
    'http://prometheus:9090 {cluster="c1"}': Expected("http"),
}
"""Origins as earlier versions wrote them."""


@pytest.fixture(scope="module")
def upgraded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse of the last schema without these columns, opened by this version's writer."""
    root = tmp_path_factory.mktemp("earlier") / "w"
    with pytest.MonkeyPatch.context() as earlier:
        steps = tuple(step for step in sql_files.schema_steps() if step.number < 8)
        earlier.setattr(sql_files, "schema_steps", lambda: steps)
        earlier.setattr(sql_files, "views", lambda: ())
        with open_writer(root, verb="test", now=NOW) as writer, writer.transaction():
            writer.append("loads", earlier_loads())
    with open_writer(root, verb="test", now=NOW):
        pass
    return root


def earlier_loads() -> pl.DataFrame:
    """A load for each origin, with a warning; the columns of before."""
    loads = pl.DataFrame({"origin": list(ORIGINS)}).with_row_index("number")
    counts = ("rows_read", "rows_loaded", "rows_duplicate", "rows_skipped", "rows_rejected", "rows_new")
    return loads.select(
        "origin",
        cluster=pl.lit("c1"),
        source=pl.lit("slurm.accounting"),
        digest=pl.format("{}", "number"),
        loaded_at=pl.lit(NOW),
        covers_from=pl.lit(LOW),
        covers_until=pl.lit(HIGH),
        **{name: pl.col("number").cast(pl.Int64) * (name != "rows_skipped") for name in counts},
        columns=pl.concat_list(pl.lit("JobID")),
        warnings=pl.concat_list(pl.lit("something")),
    )


@pytest.mark.slow
@pytest.mark.parametrize("origin", ORIGINS, ids=lambda origin: origin[:40])
def test_upgrade_fills_the_columns_of_each_load_from_its_origin(upgraded: Path, origin: str) -> None:
    load = table(upgraded, "loads").filter(origin=origin)
    assert load.select(Expected._fields).row(0) == ORIGINS[origin]


def test_upgrade_keeps_everything_else_of_each_load(upgraded: Path) -> None:
    before, after = earlier_loads(), table(upgraded, "loads")
    same = [name for name in before.columns if name != "warnings"]
    assert after.select(same).sort("digest").equals(before.select(same).sort("digest"))
    assert after["warnings"].to_list() == [[{"code": "text", "count": None, "detail": "something"}]] * after.height


def test_upgrade_leaves_a_described_table(upgraded: Path) -> None:
    declared = {column.name: column.description for column in sql_files.table("loads").columns}
    with open_reader(upgraded) as reader:
        stored = reader.frame(
            "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = 'loads' AND schema_name = 'main'"
        )
    assert dict(stored.iter_rows()) == declared


@pytest.mark.slow
def test_each_load_of_a_running_slurm_records_its_request(tmp_path: Path) -> None:
    slurm = FakeSlurm([Job(1, BORN + days(1), BORN + days(1), BORN + days(2))], NOW)
    ingest(tmp_path, slurm, since=NOW - days(10), window_days=5)
    loads = table(tmp_path, "loads")
    assert set(loads["transport"]) == {"command"}
    assert not loads["partial"].any()
    windows = loads.filter(source="slurm.accounting").sort("requested_from")
    assert windows.select("request", "requested_from", "requested_until").rows() == [
        ("sacct", NOW - days(10), NOW - days(5)),
        ("sacct", NOW - days(5), NOW),
    ]
    untimed = loads.filter(pl.col("requested_from").is_null())["request"]
    assert "scontrol show config" in untimed.to_list()
    assert "sacctmgr show event" not in untimed.to_list()
