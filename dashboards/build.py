"""The Grafana boards, the Prometheus rules that they need, and the files that provision both, written to a folder."""

from __future__ import annotations

import pkgutil
from importlib import import_module, resources
from pathlib import Path
from typing import TYPE_CHECKING

from dashboards import boards as package
from dashboards import grafana
from dashboards.boards import fleet
from dashboards.delivery.objects import board_objects, rule_objects
from dashboards.errors import BoardError
from dashboards.rules.alerts import alerts_text
from dashboards.rules.recording import rules_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dashboards.boards.fleet import Targets
    from ingest.prometheus.mapping.mapping import Mapping as MetricMapping

PROVISIONING = (
    "provisioning/dashboards/trackside.yaml",
    "provisioning/datasources/trackside.yaml",
    "provisioning/prometheus.yaml",
    "provisioning/alertmanager.yaml",
    "provisioning/ci/grafana.yaml",
)
"""Files next to the boards, in the layout of Grafana's provisioning folder."""


def boards() -> dict[str, Callable[[Mapping[str, tuple[float, ...]]], grafana.Json]]:
    """Every board by the name of its file in `dashboards.boards`, whose `BOARD` it is."""
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    return {name: import_module(f"{package.__name__}.{name}").BOARD for name in names}


RULES = ("rules/recording.yaml", "rules/alerts.yaml")
"""Prometheus' rule files next to the boards."""

OBJECTS = ("kubernetes/boards.yaml", "kubernetes/rules.yaml")
"""The same as objects of Kubernetes."""


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
    rules = dict(zip(RULES, (rules_text(mapping, cluster=cluster), alerts_text(targets)), strict=True))
    texts |= {target / name: text for name, text in rules.items()}
    texts |= {
        target / OBJECTS[0]: board_objects({path.stem: text for path, text in texts.items() if path.suffix == ".json"})
    }
    texts |= {target / OBJECTS[1]: rule_objects({Path(name).stem: text for name, text in rules.items()})}
    included = resources.files("dashboards")
    texts |= {target / name: included.joinpath(name).read_text("utf-8") for name in PROVISIONING}
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BoardError(f"the boards cannot be written to {target}: {error.strerror}; choose another --dir") from None
    return list(texts)


def generated() -> dict[str, str]:
    """The included boards by their path in the repository, built anew; a check compares both."""
    return {
        f"dashboards/generated/{name}.json": grafana.as_text(make(fleet.TARGETS)) for name, make in boards().items()
    }
