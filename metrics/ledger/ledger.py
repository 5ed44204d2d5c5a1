"""The ledger puts every GPU-second of capacity into exactly one category; here is what goes before it.

`metrics.ledger.inputs` puts what it is made of into numbers, and `metrics.ledger.sweep` makes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from metrics import frames

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_US = 1_000_000


def with_silence(node_states: pl.DataFrame, slurmd_timeout_s: pl.DataFrame) -> pl.DataFrame:
    """Add the time that a node had been silent for before Slurm called it down.

    Slurm marks a node DOWN, "Not responding", only after it has had no response from it for SlurmdTimeout. Its jobs end
    at that same moment, so without this the time that a dead node held GPUs would be zero. The added time is certain
    silence; the node may have died up to a few pings earlier still.

    Args:
        node_states: `frames.NODE_STATES`.
        slurmd_timeout_s: `cluster`, `slurmd_timeout_s`; clusters that are not in it get nothing.

    Returns:
        `frames.NODE_STATES` with one more row, ending where the state starts, for each such state.

    Source: slurm.conf(5), SlurmdTimeout.
    """
    silent = (pl.col("state") == "down") & pl.col("reason").fill_null("").str.starts_with("Not responding")
    before = (
        node_states.filter(silent)
        .join(slurmd_timeout_s, on="cluster")
        .with_columns(
            ended_at=pl.col("started_at"),
            started_at=pl.col("started_at") - pl.duration(microseconds=pl.col("slurmd_timeout_s") * _US),
        )
        .filter(pl.col("started_at") < pl.col("ended_at"))
    )
    return pl.concat([node_states, before.select(node_states.columns)])


def other_work(attempts: pl.DataFrame, kinds: Mapping[str, str]) -> pl.DataFrame:
    """Attempts that do something else than train, by their names or partitions.

    Args:
        attempts: `frames.ATTEMPTS`.
        kinds: what to call it -> regular expression; the first that matches the job's name or its partition counts.

    Returns:
        Attempt key and `kind`.
    """
    texts = [attempts[column].fill_null("") for column in ("name", "partition")]
    distinct = [each.unique() for each in texts]  # few of millions: a pattern is compared with each once
    kind = pl.coalesce(
        pl.lit(None, dtype=pl.String),
        *(pl.when(_any_matches(texts, distinct, pattern)).then(pl.lit(name)) for name, pattern in kinds.items()),
    )
    return attempts.select(*frames.ATTEMPT_KEY, kind.alias("kind")).drop_nulls("kind")


def _any_matches(texts: Sequence[pl.Series], distinct: Sequence[pl.Series], pattern: str) -> pl.Series:
    """Whether one of the texts of a row (a series each, of which the distinct values are given) has a pattern in it."""
    either = pl.zeros(texts[0].len(), dtype=pl.Boolean, eager=True)
    for own, values in zip(texts, distinct, strict=True):
        matching = values.filter(values.str.contains(pattern))
        if not matching.is_empty():
            either |= own.is_in(matching.implode())
    return either
