"""A real Prometheus that has what Trackside exports, what exporters tell, and what the recording rules make of both.

Rules ask for series of other rules, and `promtool` evaluates each rule over what the server has: one pass for each
layer of rules, after which the server starts again with what they recorded.
"""

from __future__ import annotations

import contextlib
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from dashboards.promql_names import names
from dashboards.rules.derived import DERIVED
from dashboards.rules.recording import rules_text
from tests.dashboards import seed
from tests.dashboards.rules import exporters, promtool
from tests.dashboards.server import Prometheus, running, stored

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RECORDED_S: Final = 1200
"""Seconds before the end for which the rules are evaluated."""

LAB: Final = "lab"
"""The cluster of exporters that do not say which they are of."""


@contextlib.contextmanager
def filled(folder: Path, *, hours: float = 1.0) -> Iterator[Prometheus]:
    """The server, until the block is left; its history has that many hours of what Trackside exports."""
    blocks = folder / "tsdb"
    stored(seed.history(hours), blocks)
    told = [*exporters.cluster(), *exporters.jobs(), *exporters.clusters(), *exporters.kubernetes()]
    stored(exporters.text([_of_a_cluster(each) for each in told]), blocks)
    for layer in layers():
        record(layer, blocks, folder, since_s=seed.END_S - RECORDED_S, end_s=seed.END_S)
    with running(blocks, folder) as server:
        yield server


def record(
    rules: set[str],
    blocks: Path,
    folder: Path,
    *,
    since_s: float,
    end_s: float,
    every: str = "60s",
    remembers: str = "5m",
) -> None:
    """Add to the blocks of a server what rules make of them, from a moment to another."""
    (folder / "rules.yaml").write_text(promtool.only(rules_text(), rules), encoding="utf-8")
    with running(blocks, folder, remembers=remembers) as server:
        command = ["promtool", "tsdb", "create-blocks-from", "rules", f"--start={since_s:.0f}", f"--end={end_s:.0f}"]
        command += [f"--url={server.url}", f"--output-dir={blocks}", f"--eval-interval={every}"]
        subprocess.run([*command, str(folder / "rules.yaml")], check=True, capture_output=True, timeout=300)


def _of_a_cluster(each: exporters.Exported) -> exporters.Exported:
    """The series with the label that a server of several clusters gives it."""
    return replace(each, labels={**each.labels, "cluster": each.labels.get("cluster") or LAB})


def layers() -> list[set[str]]:
    """Names of rules: those that need no other, those that need these, ..."""
    made: dict[str, int] = {}
    for each in DERIVED:
        made[each.name] = 1 + max((made.get(metric, 0) for metric, _ in names(each.expr).matched), default=0)
    first = {rule for rule in promtool.recorded(rules_text()) if rule not in made}
    return [first, *({name for name, layer in made.items() if layer == at} for at in range(1, max(made.values()) + 1))]
