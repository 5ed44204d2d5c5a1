"""The page about a run for programs: all its numbers in base units, unrounded."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import polars as pl

from app.results.mfu import headline_mfu
from app.run_page.next_steps import next_steps
from app.run_page.unknowns import unknowns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.run_page.contents import RunContents


def document(contents: RunContents, *, options: str = "", explained: Sequence[str] = ()) -> dict[str, Any]:
    """The page as one JSON object; seconds and GPU-seconds, shares from 0 to 1, null where a number is unknown.

    Args:
        contents: the numbers.
        options: as in `app.run_page.next_steps.next_steps`.
        explained: the arithmetic, line by line.
    """
    choice, window = contents.choice, contents.window
    return {
        "cluster": choice.cluster,
        "run_id": choice.run_id,
        "described_by": "log" if choice.logged_only else "accounting",
        "window": {"since": window.since, "until": window.until},
        "run": contents.run,
        "attempts": contents.attempts,
        "ettr": contents.ettr,
        "categories": categories(contents).to_dicts(),
        "interruptions": contents.interruptions,
        "restarts": contents.restarts,
        "steps": None if contents.steps is None else asdict(contents.steps),
        "goodput_job": contents.goodput,
        "mfu": headline_mfu(contents.mfu, contents.convention),
        "mfu_by_convention": contents.mfu,
        "mfu_wall_share": contents.mfu_wall,
        "layout": contents.layout,
        "utilisation": contents.activity,
        "gpu_memory": contents.memory,
        "node_memory": contents.node_memory,
        "health": contents.health,
        "slow_days": contents.slow,
        "stragglers": contents.stragglers,
        "stalls": contents.stalls,
        "checkpoints": contents.checkpoints,
        "recorded_use": contents.recorded,
        "cannot_tell": [asdict(each) for each in unknowns(contents)],
        "next": [asdict(each) for each in next_steps(contents, options)],
        "notes": [*choice.notes, *contents.warnings],
        **({"explain": list(explained)} if explained else {}),
    }


def categories(contents: RunContents) -> pl.DataFrame:
    """Where its time went, one row a category and cause: what `--format csv` and `parquet` write.

    Returns:
        `cluster`, `run_id`, `category`, `cause` (null: the rest of the category), `gpu_seconds`, `share`; the shares
        add up to 1. Seconds of the run where its GPUs are unknown.
    """
    whole = sum(part.gpu_s for part in contents.parts)
    rows: list[tuple[str, str | None, float]] = []
    for part in contents.parts:
        rows += [(part.category, cause, gpu_s) for cause, gpu_s in part.causes]
        rest = part.gpu_s - sum(gpu_s for _, gpu_s in part.causes)
        if rest > _ROUNDING * part.gpu_s or not part.causes:
            rows.append((part.category, None, rest))
    table = pl.DataFrame(rows, schema=_CATEGORIES, orient="row")
    return table.select(
        pl.lit(contents.choice.cluster).alias("cluster"),
        pl.lit(contents.choice.run_id).alias("run_id"),
        *_CATEGORIES,
        (pl.col("gpu_seconds") / whole if whole else pl.lit(None, dtype=pl.Float64)).alias("share"),
    )


_ROUNDING = 1e-9
_CATEGORIES = {"category": pl.String(), "cause": pl.String(), "gpu_seconds": pl.Float64()}
