"""MLPerf Training: what follows from the logs that submitters publish with their results (`mlperf_files`).

Logs do not record the data type: that of round 5.0 is what MLPerf's reference for NVIDIA GPUs trains this model in, so
each MFU has a reading over the peak of either; of other rounds it is what the caller states, or unknown, and so is MFU.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl

from app.reproduce.figure import BLUE, GREY, ORANGE, FigurePoint, FigureSeries, Panel
from app.reproduce.mlperf_files import BENCHMARKS, COMPARED, read
from app.reproduce.publication import Comparison, Publication, Sources, computed_windows
from app.results.mfu import fleet_row, kept_steps, mfu_wall_run_rows
from app.results.steps.scaling import scaling_runs
from ingest.counted import counted
from ingest.runlog.formats.mlperf import MODELS
from metrics.mfu.mfu import step_mfu
from metrics.scaling.table import scaling_table
from metrics.scaling.target import logged_times, official_time, time_to_train

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from app.window import Window
    from metrics.mfu.flops import Convention
    from queries.warehouse import Reader


@dataclass(frozen=True)
class MlperfRound:
    """A round of MLPerf Training.

    Attributes:
        version: such as 5.0.
        dtype: the data types that its runs multiply matrices in; None: unknown.
        minutes: published times to train of Llama 3.1 405B, by submitter and GPUs, with the digits that were published.
        scaling: published scaling efficiencies by submitter: fewest and most GPUs, and the efficiency.
    """

    version: str
    dtype: str | None = None
    minutes: Mapping[tuple[str, int], str] = field(default_factory=dict)
    scaling: Mapping[str, tuple[int, int, float]] = field(default_factory=dict)


THOUSAND: Final = 1024
"""GPUs from which a vendor's claim about thousand-GPU clusters holds."""

_MFU_CLAIM: Final = """
[[claim]]
id = "mfu_{dtype}"
metric = "mfu"
quoted = "MFU above 50 % on thousand-GPU clusters"
read_as = "The MFU over kept steps of runs of at least {gpus} GPUs is above 50 % of the dense {name} peak."
kind = "capability"
target = 0.50
direction = "at_least"
flop_convention = "palm_full"
dtype = "{dtype}"
scope = {{ gpus_min = {gpus} }}
"""

_SCALING_CLAIM: Final = """
[[claim]]
id = "scaling"
metric = "scaling_efficiency"
quoted = "{share:.0%} scaling efficiency from {few:,} to {many:,} GPUs"
read_as = "GPU-time to the target on {few:,} GPUs is at least {share:.0%} of that on {many:,}; the batch may differ."
kind = "capability"
target = {share}
direction = "at_least"
scaling = "strong"
basis = "time"
base_gpus = {few}
gpus = {many}
"""

_TIME_CLAIM: Final = """
[[claim]]
id = "time_{gpus}"
metric = "time_to_train"
quoted = "{minutes} min on {gpus:,} GPUs"
read_as = "The official time ({how}) is {minutes} min when rounded, or less."
kind = "delivered"
target = {seconds}
direction = "at_most"
gpus = {gpus}
score = "mlperf"
"""

_OFFICIAL: Final = "mean of the runs without the fastest and the slowest, x scaling factor"


def claims(sources: Sources, cluster: str, *, of: MlperfRound) -> str:
    """The claims on a submitter: MFU over both peaks that people use, its scaling, its published times."""
    sizes = {facts["n_gpus"] for _, facts in sources.run_logs if facts["cluster"] == cluster}
    if sources.facts[BENCHMARKS][cluster] != COMPARED:
        return ""  # nothing is published of it here, and the claims on MFU are of this model
    dtypes = ("fp8", "bf16") if max(sizes, default=0) >= THOUSAND else ()
    texts = [_MFU_CLAIM.format(dtype=dtype, name=dtype.upper(), gpus=THOUSAND) for dtype in dtypes]
    few, many, share = of.scaling.get(cluster, (0, 0, 0.0))
    texts += [_SCALING_CLAIM.format(few=few, many=many, share=share)] if {few, many} <= sizes else []
    published = [(gpus, minutes) for (name, gpus), minutes in of.minutes.items() if name == cluster]
    texts += [
        _TIME_CLAIM.format(gpus=gpus, minutes=minutes, how=_OFFICIAL, seconds=round(_not_above(minutes) * 60, 3))
        for gpus, minutes in published
        if gpus in sizes
    ]
    return "".join(texts)


def _not_above(minutes: str) -> float:
    """The longest time that is rounded to a published one.

    >>> _not_above("27.33"), _not_above("121.1")
    (27.335, 121.15)
    """
    return float(Decimal(minutes) + Decimal(5).scaleb(-_decimals(minutes) - 1))


def _decimals(number: str) -> int:
    """Digits behind the point of a number as it is published."""
    return len(number.partition(".")[2])


def compare(reader: Reader, sources: Sources, *, of: MlperfRound) -> list[Comparison]:
    """Time to train, scaling and MFU by the number of GPUs, of each submitter; of several, each row names its own."""
    windows = computed_windows(reader)
    several = len(windows) > 1
    benchmarks = sources.facts[BENCHMARKS]
    rows = (
        (window.cluster, row)
        for window in windows
        for row in _of_submitter(reader, window, of, benchmarks[window.cluster])
    )
    return [row._replace(quantity=f"{name}: {row.quantity}") if several else row for name, row in rows]


def _of_submitter(reader: Reader, window: Window, of: MlperfRound, benchmark: str) -> list[Comparison]:
    logs = _logs_with_times(reader, window.cluster)
    times = _times_of(logs, _DROPPED.get(benchmark, 1))
    steps = kept_steps(reader, window)
    speeds = [*_times(window.cluster, times, of), *_unfinished(logs), *_efficiencies(times, steps)]
    if not MODELS.get(benchmark):
        return [*speeds, Comparison(f"MFU of {benchmark}", "ratio", None, None, _WITHOUT_MODEL)]
    return [
        *speeds,
        *(row for convention in ("palm_full", "causal_half") for row in _mfu_by_size(steps, window, convention, of)),
        *_mfu_wall_by_size(reader, window, of),
        *_mfu_of_thousands(steps, window),
    ]


# The figure ----------------------------------------------------------------------------------------------------------


def figure(reader: Reader, window: Window, *, of: MlperfRound) -> list[Panel]:
    """Time to train, efficiency, and MFU over both peaks, by the number of GPUs."""
    rows = scaling_table(scaling_runs(reader, window, convention="palm_full")).unique("n_gpus", maintain_order=True)
    computed = _times_of(_logs_with_times(reader, window.cluster))
    official = tuple(FigurePoint(gpus, time.official) for gpus, time in computed.items() if time.official is not None)
    means = tuple(FigurePoint(gpus, time.minutes) for gpus, time in computed.items())
    theirs = tuple(
        FigurePoint(gpus, float(minutes)) for (name, gpus), minutes in of.minutes.items() if name == window.cluster
    )
    of_others = FigureSeries("published", GREY, theirs, ring=True)
    steps = kept_steps(reader, window)
    peaks = [(f"over the {dtype.upper()} peak", dtype) for dtype in ("fp8", "bf16")]
    mfu = tuple(
        FigureSeries(name, colour, _mfu_points(steps, window, dtype))
        for (name, dtype), colour in zip(peaks, (BLUE, ORANGE), strict=True)
    )
    return [
        Panel(
            "Official time to train (min)" if official else "Mean time to train (min)",
            "GPUs",
            (FigureSeries("Trackside", BLUE, official or means), *([of_others] if theirs else [])),
        ),
        Panel(
            "Strong scaling by mean time to train",
            "GPUs",
            (FigureSeries("over the smallest size, 95 %", BLUE, _points(rows)),),
            percent=True,
            line=_claimed(of.scaling.get(window.cluster)),
        ),
        Panel("MFU of kept steps (palm_full)", "GPUs", mfu, percent=True, line=(0.5, "claimed: 50 %")),
    ]


def _claimed(scaling: tuple[int, int, float] | None) -> tuple[float, str] | None:
    return None if scaling is None else (scaling[2], f"claimed: {scaling[2]:.0%}".replace("%", " %"))


def _points(rows: pl.DataFrame) -> tuple[FigurePoint, ...]:
    known = rows.filter(pl.col("by_time").is_not_null()).select("n_gpus", "by_time", "by_time_low", "by_time_high")
    return tuple(FigurePoint(*row) for row in known.iter_rows())


def _mfu_points(steps: pl.DataFrame, window: Window, dtype: str) -> tuple[FigurePoint, ...]:
    rows = (
        (gpus, fleet_row(step_mfu(some, convention="palm_full", peak_dtype=dtype), window, "palm_full", "mfu"))
        for gpus, some in _by_size(steps)
    )
    known = ((gpus, row.row(0, named=True)) for gpus, row in rows)
    return tuple(FigurePoint(gpus, row["value"], row["ci_low"], row["ci_high"]) for gpus, row in known if row["value"])


# Comparison ----------------------------------------------------------------------------------------------------------


class _Time(NamedTuple):
    """The mean time to train of `n` runs in minutes, and MLPerf's official time where there are enough of them.

    `dropped` runs are left out of that at either end.
    """

    minutes: float
    n: int
    official: float | None
    dropped: int

    @property
    def how(self) -> str:
        """How the official time follows from the runs."""
        several = f"{self.dropped} fastest and the {self.dropped} slowest"
        return _OFFICIAL if self.dropped == 1 else _OFFICIAL.replace("fastest and the slowest", several)


def _times_of(logs: pl.DataFrame, dropped: int = 1) -> dict[int, _Time]:
    """The times to train by GPUs."""
    sizes = sorted(logs["n_gpus"].drop_nulls().unique())
    results = {int(gpus): _time(logs.filter(n_gpus=gpus), dropped) for gpus in sizes}
    return {gpus: result for gpus, result in results.items() if result is not None}


def _time(logs: pl.DataFrame, dropped: int) -> _Time | None:
    mean, official = time_to_train(logs), official_time(logs, dropped=dropped)
    if mean is None:
        return None
    return _Time(mean.value / 60, mean.n, None if official is None else official.value / 60, dropped)


def _logs_with_times(reader: Reader, cluster: str) -> pl.DataFrame:
    """The logs of a submitter, with the official time of each and the status with which it ended."""
    logs = reader.query("run_sessions", cluster=cluster).unique("run_id", keep="first", maintain_order=True)
    times = logged_times(reader.query("run_events", cluster=cluster))
    return logs.join(times, on="run_id", how="left", maintain_order="left")


def _times(cluster: str, times: Mapping[int, _Time], of: MlperfRound) -> Iterator[Comparison]:
    for gpus, time in times.items():
        few = "" if time.official is not None else "; no official time: too few did"
        how = f"mean of {counted(time.n, 'run')} that reached the target, x scaling factor{few}"
        yield Comparison(f"time to train, {gpus:,} GPUs", "min", None, time.minutes, how)
    for gpus, time in times.items():
        published = of.minutes.get((cluster, gpus))
        row = Comparison(f"official time, {gpus:,} GPUs", "min", None, time.official, time.how)
        if published is not None:
            yield row._replace(published=float(published), decimals=_decimals(published))
        elif time.official is not None:
            yield row


def _unfinished(logs: pl.DataFrame) -> Iterator[Comparison]:
    """Runs that did not reach the target: they are in no time to train. One that ended before its first step counts."""
    missed = logs.filter(pl.col("seconds").is_null())
    for (gpus,), some in missed.group_by("n_gpus", maintain_order=True):
        endings = ", ".join(sorted(set(some["status"].fill_null("no run_stop"))))
        size = f"{float(str(gpus)):,.0f} GPUs"
        yield Comparison(f"runs without a time, {size}", "runs", None, some.height, f"ended: {endings}")


def _efficiencies(times: Mapping[int, _Time], steps: pl.DataFrame) -> Iterator[Comparison]:
    """Strong scaling from the smallest system to the largest: by time to train, and by tokens of kept steps."""
    rates = {gpus: _tokens_per_gpu_s(of) for gpus, of in _by_size(steps)}
    for gpus, rate in rates.items():
        yield Comparison(f"tokens/s/GPU, {gpus:,} GPUs", "1/s", None, rate, "kept steps")
    for gpus in sorted(times.keys() - rates.keys()):
        yield Comparison(f"tokens/s/GPU, {gpus:,} GPUs", "1/s", None, None, _WITHOUT_STEPS)
    if len(times) > 1:
        small, large = min(times), max(times)
        of_times = {
            "by mean time to train": (times[small].minutes, times[large].minutes),
            "by official time": (times[small].official, times[large].official),
        }
        for why, (short, long) in of_times.items():
            if short is not None and long is not None:
                value = short * small / (long * large)
                yield Comparison(f"strong scaling, {small:,} to {large:,} GPUs", "ratio", None, value, why)
        of_small, of_large = rates.get(small), rates.get(large)
        rate = of_large / of_small if of_small and of_large else None
        yield Comparison(f"strong scaling, {small:,} to {large:,} GPUs", "ratio", None, rate, "by tokens/s/GPU")


_DROPPED: Final = {"unet3d": 4}
"""Runs that MLPerf's rules leave out at either end, where it is not one."""

_WITHOUT_MODEL: Final = "the FLOP of a sample of this benchmark are not known here"

_WITHOUT_STEPS: Final = "no step has a time in these logs (tracked_stats with train_step_time), so there is no MFU"


def _by_size(steps: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
    for gpus in sorted(steps["n_gpus"].drop_nulls().unique()):
        yield int(gpus), steps.filter(pl.col("n_gpus") == gpus)


def _tokens_per_gpu_s(steps: pl.DataFrame) -> float | None:
    known = steps.filter(pl.col("tokens").is_not_null())
    tokens, gpu_s = known.select(pl.col("tokens").sum(), (pl.col("wall_s") * pl.col("n_gpus")).sum()).row(0)
    return float(tokens / gpu_s) if gpu_s else None


def _mfu_by_size(steps: pl.DataFrame, window: Window, convention: Convention, of: MlperfRound) -> Iterator[Comparison]:
    for gpus, some in _by_size(steps):
        row = fleet_row(step_mfu(some, convention=convention), window, convention, "mfu")
        yield Comparison(f"MFU, {gpus:,} GPUs", "ratio", None, row["value"][0], f"{convention}, {_peak(of)}")


def _peak(of: MlperfRound) -> str:
    """Whose peak MFU is over: that of the fastest type in use."""
    return "data type unknown" if of.dtype is None else f"dense {of.dtype.partition('+')[0].upper()} peak"


def _mfu_wall_by_size(reader: Reader, window: Window, of: MlperfRound) -> Iterator[Comparison]:
    sizes = reader.table("run_sessions").select("run_id", "n_gpus").unique()
    rows = mfu_wall_run_rows(reader, window, "palm_full").join(sizes, on="run_id")
    for (gpus,), some in sorted(rows.group_by("n_gpus")):
        flop, peak = some.select(pl.col("flop").sum(), pl.col("peak_flop").sum()).row(0)
        why = f"palm_full, {_peak(of)}, all allocated time: start-up and evaluation included"
        yield Comparison(f"MFU, {gpus:,} GPUs", "ratio", None, flop / peak if peak else None, why)


def _mfu_of_thousands(steps: pl.DataFrame, window: Window) -> Iterator[Comparison]:
    some = steps.filter(pl.col("n_gpus") >= THOUSAND)
    if some.is_empty():
        return
    for dtype in ("fp8", "bf16"):
        of = step_mfu(some, convention="palm_full", peak_dtype=dtype)
        row = fleet_row(of, window, "palm_full", "mfu").row(0, named=True)
        low, high = row["ci_low"], row["ci_high"]
        interval = "" if low is None else f"; 95 % [{low:.2%}, {high:.2%}]"
        why = f"palm_full, dense {dtype.upper()} peak; {row['n']:,} steps{interval}"
        yield Comparison(f"MFU, {THOUSAND:,} GPUs and more", "ratio", None, row["value"], why)


def publication_of(name: str, dtype: str | None = None, benchmarks: Sequence[str] = ()) -> Publication | None:
    """The round of that name (`mlperf-v5.1`), with the data types and of the benchmarks that the caller states.

    Of other rounds than 5.0 no published number is known here, and no data type.
    """
    match = _ROUND.fullmatch(name)
    if match is None:
        return None
    known = V5_0 if match[1] == V5_0.version else MlperfRound(match[1])
    of = known if dtype is None else replace(known, dtype=dtype)
    return Publication(
        name,
        f"MLPerf Training {of.version}: time to train, scaling and MFU from the submitters' own logs",
        f"github.com/mlcommons/training_results_v{of.version} (Apache-2.0)",
        partial(read, version=of.version, dtype=dtype, benchmarks=benchmarks, known=known.dtype),
        partial(compare, of=of),
        partial(claims, of=of),
        partial(figure, of=of),
    )


_ROUND: Final = re.compile(r"mlperf-v(\d\.\d)")

_COREWEAVE: Final = "IBM-CoreWeave-NVIDIA"

V5_0: Final = MlperfRound(
    "5.0",
    "fp8+bf16",
    {
        (_COREWEAVE, 512): "121.1",
        (_COREWEAVE, 1024): "62.1",
        (_COREWEAVE, 1536): "42.46",
        (_COREWEAVE, 2048): "32.6",
        (_COREWEAVE, 2496): "27.33",
    },
    {_COREWEAVE: (512, 2496, 0.9)},
)
"""The times are those of CoreWeave's blog of June 2025, "CoreWeave, NVIDIA, and IBM Set MLPerf Record", as others quote
its table."""

PUBLICATION: Final = publication_of("mlperf-v5.0")
