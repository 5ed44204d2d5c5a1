"""The recorded series on a real Prometheus: what a board shows is what ingest reads of the same exporters."""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING

import promql_parser
import pytest

from app.cli.main import main
from dashboards.rules.derived import DERIVED
from dashboards.rules.kubernetes import KUBERNETES
from dashboards.rules.recording import recorded, rules_text
from ingest.prometheus.mapping.mapping import builtin
from queries.warehouse import open_reader
from tests.dashboards.rules import exporters
from tests.dashboards.server import Prometheus, need_prometheus, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dashboards.rules.recorded import Recorded

BY_NAME = {each.name: each for each in recorded()}


def test_every_mapped_column_is_recorded_once() -> None:
    columns = [(metric.table, metric.column) for metric in builtin().metrics]
    assert len(BY_NAME) == len(recorded()) == len(set(columns)) + 1  # the last XID is no column


@pytest.mark.parametrize("each", [*recorded(), *DERIVED, *KUBERNETES], ids=lambda each: each.name)
def test_recorded_expression_parses(each: Recorded) -> None:
    promql_parser.parse(each.expr)


def kept_names(expr: promql_parser.Expr) -> set[str]:
    """Names of the series in whose place a result stands: over a time range each is a series of its own."""
    match expr:
        case promql_parser.VectorSelector():
            return {str(expr.name)}
        case promql_parser.ParenExpr():
            return kept_names(expr.expr)
        case promql_parser.BinaryExpr(op=op) if str(op) == "or":
            return kept_names(expr.lhs) | kept_names(expr.rhs)
        case promql_parser.BinaryExpr(op=op) if str(op) in {"and", "unless", "<", "<=", ">", ">=", "==", "!="}:
            return kept_names(expr.lhs)
    return set()


def test_kept_names_are_those_of_filters_and_unions() -> None:
    assert kept_names(promql_parser.parse("(a <= b) or (b < a) or sum by (x) (c) or d * 1")) == {"a", "b"}


@pytest.mark.slow
@pytest.mark.parametrize("each", [*recorded(), *DERIVED, *KUBERNETES], ids=lambda each: each.name)
def test_recorded_series_stays_one_over_time(each: Recorded) -> None:
    """promtool, which makes history of rules, refuses one of two names: its samples are not in order of time."""
    assert len(kept_names(promql_parser.parse(each.expr))) <= 1


def test_promtool_accepts_the_rule_file(tmp_path: Path) -> None:
    need_prometheus()
    (tmp_path / "rules.yaml").write_text(rules_text())
    result = subprocess.run(
        ["promtool", "check", "rules", str(tmp_path / "rules.yaml")], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert f"{len(BY_NAME) + len(DERIVED) + len(KUBERNETES)} rules found" in result.stdout


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    need_prometheus()
    with contextlib.ExitStack() as stack:
        yield stack.enter_context(serving(exporters.text(exporters.cluster()), tmp_path_factory.mktemp("rules")))


Values = dict[tuple[str, ...], float]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Values]:
    """What ingest makes of the same: by recorded name, values by their labels without the cluster."""
    folder = tmp_path_factory.mktemp("loaded")
    (folder / "all.om").write_text(exporters.text(exporters.cluster()))
    warehouse = ["--warehouse", str(folder / "w"), "--quiet"]
    assert main(["ingest", "prometheus", str(folder / "all.om"), "--cluster", "c", *warehouse]) == 0
    values: dict[str, Values] = {}
    with open_reader(folder / "w") as reader:
        gpus = reader.frame("SELECT * EXCLUDE (cluster, interval_s) FROM gpu_samples QUALIFY ts = MAX(ts) OVER ()")
        for row in gpus.iter_rows(named=True):
            for column in gpus.columns:
                if column not in {"node", "gpu", "ts"} and row[column] is not None:
                    values.setdefault(f"trackside:gpu:{column}", {})[row["node"], row["gpu"]] = row[column]
        for table, level, keys in (
            ("node_samples", "node", ["node", "device"]),
            ("cluster_samples", "slurm", ["device"]),
        ):
            rows = reader.frame(f"SELECT * FROM {table} QUALIFY ts = MAX(ts) OVER (PARTITION BY metric)")
            for row in rows.iter_rows(named=True):
                place = tuple(row[key] for key in keys)
                values.setdefault(f"trackside:{level}:{row['metric']}", {})[place] = row["value"]
    return values


def _recorded(server: Prometheus, name: str) -> Values:
    each = BY_NAME[name]
    labels = [label for label in each.labels if label != "cluster"]
    rows = server.instant(each.expr)
    assert {label for row in rows for label in row["metric"]} <= {*each.labels}
    return {tuple(row["metric"].get(label, "") for label in labels): float(row["value"][1]) for row in rows}


def test_recorded_values_equal_those_that_ingest_stores(server: Prometheus, loaded: dict[str, Values]) -> None:
    assert {name.split(":")[1] for name in loaded} == {"gpu", "node", "slurm"}
    assert len(loaded) >= 12
    for name, values in loaded.items():
        assert _recorded(server, name) == pytest.approx(values, rel=1e-6), name


def test_recorded_series_without_exporter_are_empty(server: Prometheus, loaded: dict[str, Values]) -> None:
    for name in BY_NAME.keys() - loaded.keys() - {"trackside:gpu:last_xid"}:
        assert _recorded(server, name) == {}, name


def test_last_xid_names_node_and_gpu(server: Prometheus) -> None:
    assert _recorded(server, "trackside:gpu:last_xid") == {("n1", "1"): 79.0, ("n2", "0"): 31.0}
