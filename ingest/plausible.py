"""Plausibility bounds: the largest plausible value of a quantity, by source, with the reason.

A larger value is a mistake of its writer: a wrong unit, a counter that overflowed, a test, a joke. It is excluded from
all numbers and counted: the row is rejected with its reason where the value defines the row, and the value alone
becomes null, with a warning, where the rest of the row is sound. Bounds are generous, at least ten times the largest
built or published value, so that they still hold in some years. They do not exclude merely unlikely values
(`metrics.mfu.mfu` compares the FLOP of a step with the peak of its GPUs).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import polars as pl


class Bound(NamedTuple):
    """The largest plausible value of a quantity, with the reason."""

    most: float
    why: str


EARLIEST_S: Final = 946_684_800
"""The year 2000: a smaller number is no time of a training run or a reading, but of a clock that was not set."""

LATEST_S: Final = 4_102_444_800
"""The year 2100."""

LATEST_EPOCH: Final = 253_402_300_799
"""The end of the year 9999; a larger number counts milliseconds, or nothing at all."""

DAY_S: Final = 86_400.0
_WIDTH: Final = Bound(1e8, "the widest layers published have about 1e5")
_COUNT: Final = Bound(1e6, "the largest published models have a few hundred")
_GROUP: Final = Bound(1e7, "the largest clusters have about 1e6 GPUs")
_PARAMS: Final = Bound(1e16, "the largest published models have about 1e13 parameters")

RUN_LOG: Final[dict[str, Bound]] = {
    "step": Bound(1e12, "a step every millisecond for thirty years"),
    "tokens": Bound(1e12, "the largest published batches have 6e7 tokens, whole training sets 1e13"),
    "duration_s": Bound(30 * DAY_S, "no training step takes a month, and few jobs may run for one"),
    "loss": Bound(1e30, "a larger one has diverged; sums of such numbers overflow"),
    "event_s": Bound(30 * DAY_S, "as a step's duration: few jobs may run for a month"),
    "restart_count": Bound(1e6, "a restart every second for eleven days"),
    "world": Bound(1e7, "the largest clusters have about 1e6 GPUs"),
    "n_gpus": Bound(1e7, "the largest clusters have about 1e6 GPUs"),
    "params": _PARAMS,
    "params_active": _PARAMS,
    "expert_params": _PARAMS,
    "flops_per_token": Bound(1e20, "a thousand times 6 FLOP for each of the most parameters"),
    "seq_len": Bound(1e10, "the longest published contexts have 1e8 tokens"),
    "global_batch": Bound(1e12, "the largest published batches have 6e7 tokens, and a sample has one at least"),
    "learning_rate": Bound(1e6, "published rates are below 10"),
    "time_factor": Bound(1e3, "a benchmark's rules multiply by less than 10"),
    "tensor_parallel": _GROUP,
    "pipeline_parallel": _GROUP,
    "data_parallel": _GROUP,
    "context_parallel": _GROUP,
    "expert_parallel": _GROUP,
    "printed_tflops": Bound(1e6, "the fastest published GPU does about 2e4 TFLOP/s in any data type"),
    "printed_mfu": Bound(10.0, "a share of the peak, 1 at most, unless the peak is one of another data type"),
    "printed_steps": Bound(1e12, "a step every millisecond for thirty years"),
    "vocab": Bound(1e9, "the largest published vocabularies have about 1e6 entries"),
    "layers": _COUNT,
    "attention_layers": _COUNT,
    "expert_layers": _COUNT,
    "heads": _COUNT,
    "kv_heads": _COUNT,
    "experts": _COUNT,
    "top_k": _COUNT,
    "shared_experts": _COUNT,
    "head_dim": _WIDTH,
    "hidden": _WIDTH,
    "ffn_hidden": _WIDTH,
    "expert_ffn_hidden": _WIDTH,
}
"""Fields of run logs (`ingest.runlog.parse`); `event_s` is the length of an event or a checkpoint."""

LONGEST_NAME: Final = 1_000
"""Characters of a run's, a job's or an event kind's name: longer ones make pages and tables unreadable for all."""

GPUS_PER_NODE: Final = Bound(256, "nodes have 4 to 16 GPUs, 72 in a rack that acts as one; a GPU has up to 7 slices")
"""GPUs of one node: of inventories, and of jobs by the number of their nodes."""

GPUS_OF_REQUEST: Final = Bound(1e7, "the largest clusters have about 1e6 GPUs")
"""GPUs that a job requests; the number of nodes may be unknown."""

CPUS_PER_NODE: Final = Bound(1e5, "the largest single systems have about 2,000 cores, with some threads each")

MEMORY_PER_NODE: Final = Bound(2.0**52, "bytes (4 PiB): the largest single systems have about 64 TiB")


def is_within(name: str, value: float | None, least: float = 0.0) -> bool:
    """Whether a value of a run log's field is plausible; null always is.

    >>> is_within("tokens", 4e6), is_within("tokens", 1e308), is_within("layers", None), is_within("layers", -1)
    (True, False, True, False)
    """
    return value is None or least <= value <= RUN_LOG[name].most


def beyond(column: str, bound: Bound, per: pl.Expr | None = None) -> pl.Expr:
    """Whether a column's value is implausible; `per` is the number of summands (nodes of a job), if several."""
    most = pl.lit(bound.most) if per is None else bound.most * per
    return (pl.col(column).cast(pl.Float64) > most).fill_null(value=False)


_TELEMETRY: Final = (
    ("_bytes_per_s", Bound(1e15, "the fastest nodes and file servers move about 1e12 bytes a second")),
    ("_s_per_s", Bound(1e7, "seconds that requests waited in a second: as many requests at once")),
    ("_per_s", Bound(1e12, "events of a node in a second")),
    ("_bytes", Bound(1e21, "the largest file systems have about 1e18 bytes")),
    ("fs_files", Bound(1e19, "file systems count in 64 bits")),
    ("fs_files_free", Bound(1e19, "file systems count in 64 bits")),
)
COUNTER: Final = Bound(1e30, "counters have 64 bits (2e19)")
"""A reading of a counter; `of_telemetry` bounds its increase in a second."""

_COUNTS: Final = ("load1", "jobs", "nodes", "gpus", "gpus_allocated", "_in_partition")
_COUNTED: Final = Bound(1e9, "no cluster has a hundredth of it")
_OTHER: Final = Bound(1e30, "of metrics that a site adds, the unit is unknown; sums of larger ones overflow")


def of_telemetry(column: str) -> Bound:
    """The bound of a metric of nodes or clusters, in base units, by what it measures.

    >>> of_telemetry("ib_received_bytes_per_s").most, of_telemetry("gpus").most
    (1000000000000000.0, 1000000000.0)
    """
    if column.endswith(_COUNTS):
        return _COUNTED
    return next((bound for ending, bound in _TELEMETRY if column.endswith(ending)), _OTHER)
