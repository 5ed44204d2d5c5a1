"""The Grafana boards, the Prometheus rules that they need, and the files that provision both, written to a folder."""

from __future__ import annotations

import pkgutil
from importlib import import_module, resources
from pathlib import Path
from typing import TYPE_CHECKING

from dashboards import boards as package
from dashboards import grafana
from dashboards import sql_boards as sql_package
from dashboards.boards import fleet
from dashboards.delivery.objects import board_objects, duckdb, rule_objects
from dashboards.errors import BoardError
from dashboards.rules.alerts import alerts_text
from dashboards.rules.recording import rules_text
from queries import published

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from dashboards.boards.fleet import Targets
    from ingest.prometheus.mapping.mapping import Mapping as MetricMapping

    Make = Callable[[Mapping[str, tuple[float, ...]]], grafana.Json]
    """From the thresholds of the headline numbers to a board."""

PROVISIONING = (
    "provisioning/dashboards/trackside.yaml",
    "provisioning/datasources/trackside.yaml",
    "provisioning/prometheus.yaml",
    "provisioning/alertmanager.yaml",
    "provisioning/ci/grafana.yaml",
)
"""Files next to the boards, in the layout of Grafana's provisioning folder."""


def boards() -> dict[str, Make]:
    """Every board by the name of its file in `dashboards.boards`, whose `BOARD` it is."""
    return _boards_of(package)


def sql_boards() -> dict[str, Make]:
    """The same of `dashboards.sql_boards`: they need the DuckDB data source, so they are kept apart."""
    return _boards_of(sql_package)


def _boards_of(folder: ModuleType) -> dict[str, Make]:
    names = sorted(module.name for module in pkgutil.iter_modules(folder.__path__))
    return {name: import_module(f"{folder.__name__}.{name}").BOARD for name in names}


RULES = ("rules/recording.yaml", "rules/alerts.yaml")
"""Prometheus' rule files next to the boards."""

OBJECTS = ("kubernetes/boards.yaml", "kubernetes/rules.yaml")
"""The same as objects of Kubernetes."""

SQL_FOLDER = "sql-boards"
SQL_SOURCE = "provisioning/duckdb/trackside.yaml"
"""The boards that query by SQL, and their data source: for a Grafana with the DuckDB plugin alone."""


def build(
    target: Path, targets: Targets = fleet.TARGETS, *, mapping: MetricMapping | None = None, cluster: str = ""
) -> list[Path]:
    """Write every board, the rules, and the provisioning files.

    Args:
        target: folder, created if missing; files of these names in it are replaced.
        targets: thresholds of the headline numbers.
        mapping: which exported metric is which series; the built-in one if it is not given.
        cluster: the name of the cluster, for a Prometheus whose series do not have it; empty: they do.

    Returns:
        The written files, the boards first.

    Raises:
        BoardError: the folder cannot be written.
    """
    texts = {target / "boards" / f"{name}.json": grafana.as_text(make(targets)) for name, make in boards().items()}
    by_sql = {f"{SQL_FOLDER}/{name}.json": grafana.as_text(make(targets)) for name, make in sql_boards().items()}
    rules = dict(zip(RULES, (rules_text(mapping, cluster=cluster), alerts_text(targets)), strict=True))
    texts |= {target / name: text for name, text in rules.items()}
    texts |= {
        target / OBJECTS[0]: board_objects({path.stem: text for path, text in texts.items() if path.suffix == ".json"})
    }
    texts |= {target / OBJECTS[1]: rule_objects({Path(name).stem: text for name, text in rules.items()})}
    included = resources.files("dashboards")
    texts |= {target / name: included.joinpath(name).read_text("utf-8") for name in PROVISIONING}
    texts |= {target / name: text for name, text in by_sql.items()} | {target / SQL_SOURCE: duckdb_source()}
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BoardError(f"the boards cannot be written to {target}: {error.strerror}; choose another --dir") from None
    return list(texts)


def duckdb_source() -> str:
    """Provisioning of the SQL boards' data source, over the folder that an environment variable of Grafana names."""
    return duckdb(published.views("${TRACKSIDE_PARQUET}"))


def generated() -> dict[str, str]:
    """The included boards by their path in the repository, built anew; a check compares both."""
    made = {f"dashboards/generated/{name}.json": make for name, make in boards().items()}
    made |= {f"dashboards/generated/sql-{name}.json": make for name, make in sql_boards().items()}
    return {name: grafana.as_text(make(fleet.TARGETS)) for name, make in made.items()}
