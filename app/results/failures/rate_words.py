"""Sizes and classes of failure rates as people read them; files keep the names."""

from __future__ import annotations

from typing import Final

import polars as pl

from metrics.failures.exposure import OVER_128, POOLED

SIZES: Final = {POOLED.label: "all"}
"""Names of sizes that put jobs together, in words."""

PER_GPU: Final = {POOLED.label: "all (per GPU)", OVER_128.label: "over 128 (per GPU)"}
"""The same where the row has an MTTF: it is one GPU's, that of the other sizes is a job's."""

CLASSES: Final = {"meta_rf": "as Meta counts"}
"""Names of classes, in words."""

META: Final = "As Meta counts (meta_rf in files): NODE_FAIL, or FAILED with a critical event, of jobs over 128 GPUs."
"""What that class is."""

CLASS_IN_WORDS: Final = pl.col("class").cast(pl.String).replace(CLASSES)
PER_GPU_IN_WORDS: Final = pl.col("size").replace(PER_GPU)
_ENDS: Final = pl.col("size").str.split_exact("-", 1)
SIZE_IN_WORDS: Final = (
    pl.when(_ENDS.struct[0] == _ENDS.struct[1])
    .then(_ENDS.struct[0])
    .otherwise(pl.col("size").replace(SIZES))
    .alias("size")
)
"""With one number where both ends of a range are the same."""
