"""`trackside dashboards`: write the Grafana boards with what loads them, or check boards."""

from __future__ import annotations

import json
import pkgutil
from importlib import import_module, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app import console
from app.errors import UsageError
from app.results.headlines import Headline, headline_is_of
from dashboards import boards as package
from dashboards import grafana, lint
from dashboards.boards import fleet
from dashboards.exported_metrics import MTTF_GPUS
from metrics.catalog import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dashboards.boards.fleet import Targets
    from metrics.catalog import Metric
    from metrics.claims.verdict import Claim

PROVISIONING = (
    "provisioning/dashboards/trackside.yaml",
    "provisioning/datasources/trackside.yaml",
    "provisioning/prometheus.yaml",
)
"""Files beside the boards, as Grafana's provisioning folder wants them."""


def boards() -> dict[str, Callable[[Mapping[str, tuple[float, ...]]], grafana.Json]]:
    """Every board by the name of its file in `dashboards.boards`, which has it as `BOARD`."""
    names = sorted(found.name for found in pkgutil.iter_modules(package.__path__))
    return {name: import_module(f"{package.__name__}.{name}").BOARD for name in names}


def build(target: Path, targets: Targets = fleet.TARGETS) -> list[Path]:
    """Write every board and the provisioning files.

    Args:
        target: folder, made if need be; files of these names in it are replaced.
        targets: thresholds of the headline numbers.

    Returns:
        What was written, the boards first.

    Raises:
        UsageError: the folder cannot be written.
    """
    texts = {target / "boards" / f"{name}.json": grafana.as_text(make(targets)) for name, make in boards().items()}
    shipped = resources.files("dashboards")
    texts |= {target / name: shipped.joinpath(name).read_text("utf-8") for name in PROVISIONING}
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"the boards cannot be written to {target}: {error.strerror}; choose another --dir") from None
    return list(texts)


def generated() -> dict[str, str]:
    """The boards as they ship, by their path in the repository; `dashboards check` and the tests compare the two."""
    return {
        f"dashboards/generated/{name}.json": grafana.as_text(make(fleet.TARGETS)) for name, make in boards().items()
    }


def targets_of(claims: Iterable[Claim], flop_convention: str) -> Targets:
    """The thresholds that claims stand for: by metric their targets, rising.

    A claim counts where the board shows its very number, and in the direction in which the number is good.

    Args:
        claims: what was promised.
        flop_convention: how the FLOP of the exported MFU are counted.
    """
    found: dict[str, set[float]] = {}
    for claim in claims:
        metric = BY_NAME[claim.metric]
        good = claim.direction == ("at_most" if metric.better == "lower" else "at_least")
        if metric.judged and good and headline_is_of(claim, _shown(metric, flop_convention)):
            found.setdefault(claim.metric, set()).add(claim.target)
    return {metric: tuple(sorted(targets)) for metric, targets in found.items()}


def _shown(metric: Metric, flop_convention: str) -> Headline:
    """What the panel of a metric shows."""
    return Headline(
        metric.name,
        metric.title,
        metric.unit,
        gpus=float(MTTF_GPUS) if metric.name == "mttf" else None,
        flop_convention=flop_convention if metric.name == "mfu" else None,
    )


def check(target: Path | None, *, quiet: bool) -> int:
    """Check the boards of a folder, or those that ship.

    Args:
        target: folder; None means the boards that ship.
        quiet: print mistakes only.

    Raises:
        UsageError: the folder cannot be used, or a board has mistakes; those are printed first.
    """
    boards = _shipped() if target is None else _read(target)
    where = "the boards that ship" if target is None else str(target)
    found = lint.lint([board for board, _ in boards.values()])
    if target is None:
        found += [_stale(path) for path, text in generated().items() if boards[Path(path)][1] != text]
    for finding in found:
        console.say(str(finding))
    if found:
        raise UsageError(f"{len(found)} {'mistake' if len(found) == 1 else 'mistakes'} in {where}, listed above")
    if not quiet:
        panels = sum(1 for board, _ in boards.values() for _ in lint.panels(board))
        console.say(f"{where}: {len(boards)} {'board' if len(boards) == 1 else 'boards'}, {panels} panels, no mistakes")
        for each in lint.left_out():
            console.say(f"not checked here: {each}")
    return 0


def _stale(path: str) -> lint.Finding:
    return lint.Finding(Path(path).stem, "board", "generated", f"{path} is not what its Python builds; run: make fix")


_Read = tuple[grafana.Json, str]
"""A board and the text that it was read from."""


def _shipped() -> dict[Path, _Read]:
    root = resources.files("dashboards") / "generated"
    texts = {Path("dashboards/generated") / each.name: each.read_text("utf-8") for each in root.iterdir()}
    return {path: (_parsed(path, text), text) for path, text in sorted(texts.items())}


def _read(target: Path) -> dict[Path, _Read]:
    """Every board in a folder and those below it.

    Raises:
        UsageError: there is none, or a file is no JSON object.
    """
    if not target.is_dir():
        raise UsageError(f"{target} is no folder; trackside dashboards build --dir {target} writes one")
    paths = sorted(target.rglob("*.json"))
    if not paths:
        raise UsageError(f"{target} holds no board (*.json); trackside dashboards build --dir {target} writes them")
    try:
        texts = {path: path.read_text("utf-8") for path in paths}
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"a file in {target} is not UTF-8 text, so it is no board") from None
    return {path: (_parsed(path, text), text) for path, text in texts.items()}


def _parsed(path: Path, text: str) -> grafana.Json:
    try:
        found: Any = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise UsageError(f"{path} is no board: it holds no JSON object")
    return found
