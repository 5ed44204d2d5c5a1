"""SQL boards: clean by every check, every statement executed over published Parquet, nothing joined across clusters."""

from __future__ import annotations

import copy
import json
import re
import warnings
from typing import TYPE_CHECKING, Any, Final

import duckdb
import polars as pl
import promql_parser
import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards import board_json, lint
from dashboards.boards.fleet import TARGETS
from dashboards.build import boards, duckdb_source, sql_boards
from queries import published
from queries.warehouse import open_reader
from tests.dashboards.sql.asked import asked, chosen, filled
from tests.support.warehouses import from_everything

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from dashboards.grafana import Json

BOARDS: Final = {name: make(TARGETS) for name, make in sql_boards().items()}

GRAFANA_READS: Final = {"VARCHAR", "DOUBLE", "BIGINT", "TIMESTAMP WITH TIME ZONE"}
"""Types of columns that the plugin hands over; it has no way for HUGEINT, and FLOAT and UINTEGER fail where empty."""

TWIN: Final = "twin"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Published tables of a simulated cluster, whose first node is a lemon, and of its twin: all names are equal."""
    target = tmp_path_factory.mktemp("published")
    with open_reader(from_everything(tmp_path_factory.mktemp("warehouse"))) as reader:
        published.publish(reader, target)
    for path in (target / "current").iterdir():
        rows = pl.read_parquet(path)
        if path.stem == "nodes":
            first = pl.int_range(pl.len()).over("window_from", "window_until") == 0
            rows = rows.with_columns(verdict=pl.when(first).then(pl.lit("lemon")).otherwise("verdict"))
        pl.concat([rows, rows.with_columns(cluster=pl.lit(TWIN))]).write_parquet(path)
    return target


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB in memory, as the plugin opens it."""
    connection = duckdb.connect()
    connection.execute((folder / published.VIEWS).read_text())
    yield connection
    connection.close()


def test_sql_boards_and_all_others_have_no_mistakes() -> None:
    every = [*BOARDS.values(), *(make(TARGETS) for make in boards().values())]
    assert lint.lint(every, parse=promql_parser.parse) == []


@pytest.mark.parametrize("name", BOARDS)
def test_grafanas_own_models_lose_nothing_of_a_sql_board(name: str) -> None:
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        from grafana_foundation_sdk.models.dashboard import Dashboard

    again = json.loads(JSONEncoder(sort_keys=True, indent=2).encode(Dashboard.from_json(BOARDS[name])))
    statements = [sql for _, sql in asked(BOARDS[name])]
    assert [target["rawSql"] for panel in board_json.panels(again) for target in panel["targets"]] == statements


@pytest.mark.parametrize("name", BOARDS)
def test_every_statement_returns_rows_of_plain_types(name: str, server: duckdb.DuckDBPyConnection) -> None:
    values = chosen(BOARDS[name], server)
    for panel, sql in asked(BOARDS[name]):
        result = server.execute(filled(sql, values))
        kinds = {column: str(kind) for column, kind, *_ in result.description}
        rows = result.fetchall()
        assert rows, panel["title"]
        assert set(kinds.values()) <= GRAFANA_READS, (panel["title"], kinds)
        if panel["type"] == "timeseries":
            assert list(kinds)[0::2] == ["time", "Value"], panel["title"]
            assert rows == sorted(rows), panel["title"]
        elif panel["type"] == "stat":
            assert all(value is not None for value in rows[0]), panel["title"]
            assert all(row[1] for row in rows), panel["title"]


@pytest.mark.parametrize("name", BOARDS)
def test_columns_that_a_panel_formats_are_there(name: str, server: duckdb.DuckDBPyConnection) -> None:
    values = chosen(BOARDS[name], server)
    for panel, sql in asked(BOARDS[name]):
        columns = {column for column, *_ in server.execute(filled(sql, values)).description}
        named = {each["matcher"]["options"] for each in panel["fieldConfig"]["overrides"]}
        assert panel["type"] != "table" or named <= columns, panel["title"]


@pytest.mark.parametrize("name", BOARDS)
def test_clusters_with_equal_names_are_kept_apart(name: str, server: duckdb.DuckDBPyConnection) -> None:
    def rows(clusters: list[str]) -> dict[str, list[Any]]:
        values = chosen(BOARDS[name], server, cluster=clusters)
        return {
            panel["title"] + sql: sorted(
                map(repr, server.execute(re.sub(r"LIMIT \d+", "", filled(sql, values))).fetchall())
            )
            for panel, sql in asked(BOARDS[name])
        }

    one, other, both = rows(["demo"]), rows([TWIN]), rows(["demo", TWIN])
    for title, found in both.items():
        if "cluster" in title.partition("FROM")[0]:
            assert found == sorted([*one[title], *other[title]]), title
        else:  # a line for each category: both add up
            assert len(found) == len(one[title]) == len(other[title]), title


@pytest.mark.parametrize("hostile", ["x'); DROP VIEW runs; --", "' OR '1'='1", "\\", "${__from}"])
def test_a_hostile_value_of_a_variable_selects_nothing(hostile: str, server: duckdb.DuckDBPyConnection) -> None:
    for board in BOARDS.values():
        values = chosen(board, server) | {"cluster": [hostile]}
        for panel, sql in asked(board):
            assert server.execute(filled(sql, values)).fetchall() == [], panel["title"]
    assert server.execute("SELECT COUNT(*) FROM runs").fetchall() != [(0,)]


def test_numbers_are_those_of_the_warehouse(tmp_path: Path) -> None:
    with open_reader(from_everything(tmp_path)) as reader:
        published.publish(reader, tmp_path / "p")
        metrics = reader.table("cluster_metrics").filter(metric="goodput_allocated", dimension="cluster")
        computed = reader.query("computed", cluster="demo").row(0, named=True)
        whole = metrics.filter(window_from=computed["since"], window_until=computed["until"])["value"].item()
        days = reader.table("gpu_time_daily")["gpu_seconds"].cast(pl.Float64).sum()
    with duckdb.connect() as connection:
        connection.execute((tmp_path / "p" / published.VIEWS).read_text())
        panel = next(
            panel for panel in board_json.panels(BOARDS["gpu_time"]) if panel["title"] == "Goodput (of allocated)"
        )
        values = {"cluster": ["demo"], "window": ["all"]}
        ((cluster, value),) = connection.execute(filled(panel["targets"][0]["rawSql"], values)).fetchall()
        ((total,),) = connection.execute("SELECT SUM(gpu_seconds) FROM gpu_time").fetchall()
        panel = next(
            panel for panel in board_json.panels(BOARDS["gpu_time"]) if panel["title"] == "Goodput of the range"
        )
        values = chosen(BOARDS["gpu_time"], connection)
        ((_, of_range),) = connection.execute(filled(panel["targets"][0]["rawSql"], values)).fetchall()
    assert (cluster, value) == ("demo", whole)
    assert total == pytest.approx(days)
    assert of_range == pytest.approx(whole), "one number: the range is all of the data"


@pytest.mark.slow
def test_a_new_version_is_seen_by_whoever_has_the_old_one_open(tmp_path: Path) -> None:
    with open_reader(from_everything(tmp_path)) as reader, duckdb.connect() as connection:
        first = published.publish(reader, tmp_path / "p")
        connection.execute((tmp_path / "p" / published.VIEWS).read_text())
        ((before,),) = connection.execute("SELECT COUNT(*) FROM runs").fetchall()
        versions = [published.publish(reader, tmp_path / "p") for _ in range(2)]
        runs = versions[-1] / "runs.parquet"
        pl.read_parquet(runs).head(1).write_parquet(runs)
        ((after,),) = connection.execute("SELECT COUNT(*) FROM runs").fetchall()
    assert (before > 1, after) == (True, 1)
    assert not first.exists()
    assert sorted(each.name for each in (tmp_path / "p").iterdir()) == [
        "current",
        *(each.name for each in versions),
        "views.sql",
    ]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with open_reader(from_everything(tmp_path)) as reader, pytest.raises(Exception, match="cannot be published in"):
        published.publish(reader, tmp_path / "file")


def test_the_provisioned_source_has_a_view_of_each_table(folder: Path) -> None:
    (source,) = yaml.safe_load(duckdb_source())["datasources"]
    init = source["jsonData"]["initSql"].replace("${TRACKSIDE_PARQUET}", str(folder))
    with duckdb.connect() as connection:
        connection.execute(init)
        connection.execute(init)  # the plugin begins each connection with it
        told = {
            row[0] for row in connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
        }
    assert told == set(published.tables())
    assert "$" not in source["jsonData"]["initSql"].replace("${TRACKSIDE_PARQUET}", "")


def _first(board: Json, kind: str) -> Json:
    result: Json = next(panel for panel in board_json.panels(board) if panel["type"] == kind)["targets"][0]
    return result


def _statement(text: str) -> Callable[[Json], object]:
    return lambda board: _first(board, "table").update(rawSql=text)


BROKEN: Final[list[tuple[str, str, Callable[[Json], object]]]] = [
    ("bound_sql", "$cluster is put into SQL as it is", _statement("SELECT 1 FROM runs WHERE cluster = $cluster")),
    ("bound_sql", "${cluster} is put", _statement("SELECT 1 FROM runs WHERE cluster IN (${cluster})")),
    ("bound_sql", "${cluster:raw} is put", _statement("SELECT 1 FROM runs WHERE cluster IN (${cluster:raw})")),
    (
        "bound_sql",
        "'${cluster:sqlstring}' is put",
        _statement("SELECT 1 FROM runs WHERE cluster = '${cluster:sqlstring}'"),
    ),
    ("bound_sql", "[[cluster]] is put", _statement("SELECT 1 FROM runs WHERE cluster IN ([[cluster]])")),
    ("bound_sql", "${__from:date:iso} is put", _statement("SELECT 1 FROM runs WHERE ended_at > ${__from:date:iso}")),
    ("bound_sql", "reads attempts, which is not published", _statement("SELECT 1 FROM runs JOIN attempts USING (run)")),
    ("bound_sql", "reads read_csv", _statement("SELECT * FROM read_csv('/etc/passwd')")),
    ("bound_sql", "is no SELECT", _statement("DROP VIEW runs")),
    ("bound_sql", "has an allValue", lambda board: board["templating"]["list"][1].update(allValue=".*")),
    (
        "data_source",
        'named "duckdb_datasource"',
        lambda board: board["templating"]["list"][0].update(name="datasource"),
    ),
    ("data_source", "not the variable's", lambda board: _first(board, "table").update(datasource={"uid": "x"})),
]


@pytest.mark.parametrize(("rule", "output", "spoil"), BROKEN)
def test_check_finds_what_is_wrong_with_sql(rule: str, output: str, spoil: Callable[[Json], object]) -> None:
    board = copy.deepcopy(BOARDS["runs"])
    spoil(board)
    found = [str(each) for each in lint.lint([board]) if each.rule == rule]
    assert any(output in each for each in found), found


def test_common_table_expressions_are_no_tables() -> None:
    board = copy.deepcopy(BOARDS["runs"])
    _statement("WITH a AS (SELECT * FROM runs), b AS (SELECT * FROM a) SELECT * FROM b JOIN nodes USING (cluster)")(
        board
    )
    assert not [each for each in lint.lint([board]) if each.rule == "bound_sql"]
