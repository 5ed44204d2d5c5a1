"""Flagged nodes as the exporter reads them: of the newest 28 days, each once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl

from queries.warehouse import open_writer

if TYPE_CHECKING:
    from pathlib import Path

UNTIL = datetime(2026, 11, 1, tzinfo=UTC)


def _score(node: str, verdict: str, days: int, cluster: str = "c") -> dict[str, object]:
    window = {"window_from": UNTIL - timedelta(days=days), "window_until": UNTIL}
    return {"cluster": cluster, "node": node, **window, "failures": days, "expected": 0.1, "verdict": verdict}


def test_flagged_nodes_are_those_of_the_longest_window(tmp_path: Path) -> None:
    scores = [
        _score("n1", "lemon", 28),
        _score("n1", "lemon", 7),
        _score("n2", "suspect", 28),
        _score("n3", "none", 28),
        _score("n4", "suspect", 7),
        _score("n1", "lemon", 28, "other"),
    ]
    with open_writer(tmp_path / "w", verb="test", now=UNTIL) as writer, writer.transaction():
        writer.append("node_scores", pl.DataFrame(scores))
        assert writer.query("flagged_nodes", cluster="c", until=UNTIL).rows() == [
            ("n1", "lemon", 28),
            ("n2", "suspect", 28),
        ]
        assert writer.query("flagged_nodes", cluster="c", until=UNTIL + timedelta(days=1)).is_empty()
