"""The Grafana boards and the files that provision them, written to a folder."""

from __future__ import annotations

import pkgutil
from importlib import import_module, resources
from typing import TYPE_CHECKING

from dashboards import boards as package
from dashboards import grafana
from dashboards.boards import fleet
from dashboards.errors import BoardError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from dashboards.boards.fleet import Targets

PROVISIONING = (
    "provisioning/dashboards/trackside.yaml",
    "provisioning/datasources/trackside.yaml",
    "provisioning/prometheus.yaml",
)
"""Files next to the boards, in the layout of Grafana's provisioning folder."""


def boards() -> dict[str, Callable[[Mapping[str, tuple[float, ...]]], grafana.Json]]:
    """Every board by the name of its file in `dashboards.boards`, whose `BOARD` it is."""
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    return {name: import_module(f"{package.__name__}.{name}").BOARD for name in names}


def build(target: Path, targets: Targets = fleet.TARGETS) -> list[Path]:
    """Write every board and the provisioning files.

    Args:
        target: folder, created if missing; files of these names in it are replaced.
        targets: thresholds of the headline numbers.

    Returns:
        The written files, the boards first.

    Raises:
        BoardError: the folder cannot be written.
    """
    texts = {target / "boards" / f"{name}.json": grafana.as_text(make(targets)) for name, make in boards().items()}
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
