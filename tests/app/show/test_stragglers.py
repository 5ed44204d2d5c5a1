"""`trackside show stragglers`: the sentence that answers."""

from __future__ import annotations

import polars as pl

from app.show.questions.nodes.stragglers import _headline


def test_causes_are_named_by_what_they_cost() -> None:
    rows = pl.DataFrame(
        [("job_shape", 10.0), ("network", 30.0), ("network", 20.0), ("unknown", 40.0), ("none", None)],
        schema={"cause": pl.String, "cost_gpu_h": pl.Float64},
        orient="row",
    ).with_columns(lost_gpu_s=3600 * pl.col("cost_gpu_h"), nodes=pl.lit(None), confirmed_by=pl.lit(None))
    assert _headline(rows) == (
        "2 sessions slowed by the network: 50 GPU-h; 1 session slowed by an unknown cause: 40 GPU-h; "
        "1 session slowed by the shape of the job: 10 GPU-h."
    )
