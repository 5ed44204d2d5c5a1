"""How a trap is written down: the raw values of a row of sacct, and what must be read from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl
import pytest

from ingest.load_warnings import messages
from tests.support.slurm.parsing import parse, refusals, text
from tests.support.slurm.row_accounts import on_nodes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from _pytest.mark import ParameterSet

    from ingest.tables import Parsed

Raw = dict[str, str]


class Trap(NamedTuple):
    """A row that differs from `helpers.ROW` in the values given, and what its attempt must say.

    `warned` is part of the one warning that is wanted; without it there may be none.
    """

    name: str
    raw: Raw
    want: Mapping[str, object]
    warned: str = ""


def traps(*all_of_them: Trap) -> list[ParameterSet]:
    """The traps as parameters, each under its name."""
    return [pytest.param(trap, id=trap.name) for trap in all_of_them]


def spring(trap: Trap, **options: object) -> None:
    """Read the row through the public functions, and hold the attempt and its nodes to what is wanted."""
    parsed = parse(text(trap.raw), **options)  # type: ignore[arg-type]  # options of `helpers.parse`
    assert refusals(parsed) == []
    attempts = parsed.frames["attempts"]
    assert attempts.height == 1
    got = attempts.row(0, named=True)
    assert {name: got[name] for name in trap.want} == trap.want
    if trap.warned:
        assert [warning for warning in messages(parsed.warnings) if trap.warned not in warning] == []
    assert bool(messages(parsed.warnings)) == bool(trap.warned)
    agree(parsed)


def agree(parsed: Parsed) -> None:
    """Attempts and the nodes they held tell the same."""
    nodes = on_nodes(parsed).group_by("job_id", "submitted_at").agg(pl.len(), pl.col("n_gpus").sum())
    both = parsed.frames["attempts"].join(nodes, on=["job_id", "submitted_at"], how="left", suffix="_on_nodes")
    both = both.with_columns(pl.col("len", "n_gpus_on_nodes").fill_null(0))
    assert both.filter(
        (pl.col("len") != pl.col("n_nodes")) | (pl.col("n_gpus_on_nodes") != pl.col("n_gpus"))
    ).is_empty()


def refused(raw: Raw, **options: object) -> str:
    """Why the row is refused; it is, and nothing is loaded of it."""
    parsed = parse(text(raw), **options)  # type: ignore[arg-type]  # options of `helpers.parse`
    assert parsed.rows_loaded == parsed.rows_skipped == 0
    [(line, reason)] = refusals(parsed)
    assert line == 2
    assert parsed.rejects["raw"][0].count("|") >= text(raw).split(b"\n")[0].count(b"|")
    return reason
