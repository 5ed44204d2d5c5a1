"""Model FLOP utilisation: the ratio of what a model needs, or what was executed, to the GPUs' peak over logged steps.

The convention by which FLOP are counted (`metrics.mfu.flops`) changes MFU by more than a tenth of its value, so every
value carries it. Peaks are dense ones (`metrics.mfu.peaks`). FLOP and FLOP/s, never tera.

Source, by the short name used below:
    PaLM: Chowdhery et al., arXiv 2204.02311, appendix B.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple

import numpy as np
import polars as pl

from metrics import frames
from metrics.exact import FLOP, exact_mean, exact_sum
from metrics.metric import Claimable, ExportedFamily, Metric, Parts
from metrics.mfu.flops import CONVENTIONS, MEASURES, Convention, Measure
from metrics.mfu.peaks import Peak, peak, peaks
from metrics.mfu.remark import INPUTS
from metrics.mfu.session_flops import flops_per_token_expr
from metrics.sample_statistics import bootstrap_ratio_interval

__all__ = ["CONVENTIONS", "FACTS", "MEASURES", "Convention", "FleetMfu", "Measure", "fleet", "step_mfu", "summary"]

IMPOSSIBLE_ABOVE = 2.0
"""Times the dense peak of all its GPUs: no step does more FLOP. Figures with sparsity are twice the dense ones, and no
model trains at those; more is tokens or sizes of the model that are wrong, and no MFU is made of them."""

MOST_FLOPS = 1e18
"""FLOP/s of one GPU of a kind that the table lacks: 60 times the fastest kind's in its narrowest data type."""

FACTS = ("n_gpus", "gpu_model", "dtype", *frames.MODEL)
"""Columns of a session that apply to its steps."""


def step_mfu(
    steps: pl.DataFrame,
    *,
    convention: Convention = "palm_full",
    measure: Measure | None = None,
    lower_peak: bool = False,
    peak_dtype: str | None = None,
) -> pl.DataFrame:
    """FLOP, peak FLOP and MFU (or HFU) of each step.

    - `flop` = tokens x FLOP per token by the convention
    - `peak_flop` = GPUs x dense peak x seconds from the step's beginning to that of the next
    - `mfu` = flop / peak_flop

    Each is null where anything it needs is missing: tokens, the model's sizes, a GPU or data type that the table
    lacks, for HFU whether activations are computed again. FLOP per token that the log states count only under the
    convention that the log names (or `stated`). They are null, too, where a step claims the impossible: more than
    `IMPOSSIBLE_ABOVE` times what its GPUs can do in its time, or in the mean time of its session's steps where that is
    longer (a log that is flushed once in ten steps has nine without a length).

    Args:
        steps: `tokens`, `wall_s`, `n_gpus`, `gpu_model`, `dtype`, any of `frames.MODEL`, and any others.
        convention: how FLOP are counted.
        measure: FLOP needed (mfu), or executed (hfu); by default what the convention is about.
        lower_peak: of a run that multiplies in several data types, over the peak of the slowest rather than the
            fastest.
        peak_dtype: over the GPU's peak for this data type, whatever the steps multiplied in; an MFU over the peak of a
            slower type than theirs may be above 1.

    Returns:
        The same rows with these three columns, `peak_dtype` (the data type of the peak), `implausible` (more than
        such a GPU can do) and `impossible` (left out for that).

    Raises:
        ValueError: there is no such convention.

    Source: Chowdhery et al., PaLM (2022), appendix B.
    """
    if convention not in CONVENTIONS:
        raise ValueError(f"there is no FLOP convention {convention!r}; the conventions are: {', '.join(CONVENTIONS)}")
    if steps.is_empty():  # most clusters have no log, and the expressions take longer to make than to evaluate
        return steps.with_columns(pl.lit(None, dtype=kind).alias(name) for name, kind in _COMPUTED.items())
    complete = steps.with_columns(
        pl.lit(None, dtype=kind).alias(name) for name, kind in frames.MODEL.items() if name not in steps.columns
    )
    kinds = _peaks(steps, peak_dtype, lower=lower_peak)
    needed = flops_per_token_expr(convention, measure or default_measure(convention))
    flop = pl.col("tokens") * needed
    whole = _positive("n_gpus") * pl.col("_peak") * _positive("wall_s")
    return (
        complete.join(kinds, on=["gpu_model", "dtype"], how="left", nulls_equal=True, maintain_order="left")
        .with_columns(flop=flop.cast(pl.Float64), peak_flop=whole.cast(pl.Float64))
        .with_columns(impossible=_is_impossible([name for name in _SESSION if name in steps.columns]))
        .with_columns(pl.when(~pl.col("impossible")).then(name) for name in ("flop", "peak_flop"))
        .with_columns(mfu=pl.col("flop") / pl.col("peak_flop"))
        .with_columns(implausible=pl.col("mfu") > pl.col("_most"))
        .select(*steps.columns, "flop", "peak_flop", "mfu", "peak_dtype", "implausible", "impossible")
    )


_SESSION = ("cluster", "run_id", "session")

_COMPUTED: frames.Schema = {
    "flop": pl.Float64(),
    "peak_flop": pl.Float64(),
    "mfu": pl.Float64(),
    "peak_dtype": frames.TEXT,
    "implausible": pl.Boolean(),
    "impossible": pl.Boolean(),
}
"""Columns that `step_mfu` adds."""


def _is_impossible(session: list[str]) -> pl.Expr:
    """Whether a step claims more FLOP than its GPUs can have done; false where its FLOP are unknown."""
    wall = _positive("wall_s")
    mean = exact_mean(wall).over(session) if session else exact_mean(wall)
    fastest = pl.max_horizontal("_peak", "_fastest").fill_null(MOST_FLOPS)
    most = IMPOSSIBLE_ABOVE * _positive("n_gpus") * fastest * pl.max_horizontal(wall, mean)
    return ((pl.col("flop") > most) | ~pl.col("flop").is_finite()).fill_null(value=False)


def default_measure(convention: Convention) -> Measure:
    """Measure of a convention: `hfu` for `executed`, the only one that counts recomputation, else `mfu`.

    >>> default_measure("palm_full"), default_measure("executed")
    ('mfu', 'hfu')
    """
    return "hfu" if convention == "executed" else "mfu"


def _positive(name: str) -> pl.Expr:
    return pl.when(pl.col(name) > 0).then(pl.col(name))


def _peaks(steps: pl.DataFrame, chosen: str | None, *, lower: bool) -> pl.DataFrame:
    """The peak of one GPU for each kind and data type among the steps, and the MFU that it cannot exceed."""
    pairs = steps.select("gpu_model", "dtype").unique(maintain_order=True)
    chosen_peaks = [_peak_of(model, chosen or dtype, lower=lower) for model, dtype in pairs.iter_rows()]
    flops = [None if each is None else each.flops for each in chosen_peaks]
    fastest = [_fastest(model, dtype) for model, dtype in pairs.iter_rows()]
    return pairs.with_columns(
        pl.Series("_peak", flops, dtype=pl.Float64),
        pl.Series("_fastest", fastest, dtype=pl.Float64),
        pl.Series("peak_dtype", [None if each is None else each.dtype for each in chosen_peaks], dtype=pl.String),
        pl.Series("_most", list(map(_most, chosen_peaks, fastest, repeat(chosen is not None))), dtype=pl.Float64),
    )


def _most(peak: Peak | None, fastest: float | None, chosen: bool) -> float:  # noqa: FBT001 - private
    """The MFU above which something does not fit: over the peak of a slower type it is that much higher."""
    if peak is None:
        return 1.0
    slower = max(fastest or 0.0, peak.flops) / peak.flops if chosen else 1.0
    return peak.gpu.implausible_above * slower


def _fastest(model: str | None, dtype: str | None) -> float | None:
    peak = _peak_of(model, dtype, lower=False)
    return None if peak is None else peak.flops


def _peak_of(model: str | None, dtype: str | None, *, lower: bool) -> Peak | None:
    ascending = peaks(model, dtype)
    return ascending[0 if lower else -1] if ascending else None


def mixes(steps: pl.DataFrame) -> pl.Series:
    """Whether the GPUs of each step multiplied in several data types: its MFU depends on which peak it is put over."""
    pairs = steps.select("gpu_model", "dtype").unique(maintain_order=True)
    several = pl.Series(
        "_mixes", [len(peaks(model, dtype)) > 1 for model, dtype in pairs.iter_rows()], dtype=pl.Boolean
    )
    on = ["gpu_model", "dtype"]
    return steps.select(on).join(
        pairs.with_columns(several), on=on, how="left", nulls_equal=True, maintain_order="left"
    )["_mixes"]


def summary(steps: pl.DataFrame, *, seed: int, resamples: int = 2000) -> pl.DataFrame:
    """MFU of each run over its steps, with how sure it is.

    The headline is the ratio of sums; mean and median are over steps, one step one vote, and show stalls and slow
    stretches. The interval is a bootstrap of whole blocks of consecutive steps, since neighbours are alike: blocks are
    as long as there are blocks, and there must be 20 (so 400 steps).

    Args:
        steps: `step_mfu`'s rows, `ts` among them; those without an MFU are counted and left out.
        seed: of the random numbers.
        resamples: of the bootstrap.

    Returns:
        `cluster`, `run_id`, `n` (steps with an MFU), `n_unknown`, `n_implausible` (more than such a GPU can do),
        `n_impossible` (of the unknown: left out because they claim more than `IMPOSSIBLE_ABOVE` times that),
        `flop`, `peak_flop`, `mfu`, `mfu_mean`, `mfu_median`, `ci_low`, `ci_high` (null: too few steps), `note`;
        by cluster and run.

    Source: Carlstein 1986 for the blocks.
    """
    present = pl.col("mfu").is_not_null()
    totals = (
        steps.group_by("cluster", "run_id")
        .agg(
            n=present.sum().cast(pl.Int64),
            n_unknown=(~present).sum().cast(pl.Int64),
            n_implausible=pl.col("implausible").sum().cast(pl.Int64),
            n_impossible=pl.col("impossible").sum().cast(pl.Int64),
            flop=exact_sum(pl.col("flop").filter(present), places=FLOP),
            peak_flop=exact_sum(pl.col("peak_flop").filter(present), places=FLOP),
            mfu_mean=exact_mean(pl.col("mfu")),
            mfu_median=pl.col("mfu").median(),
        )
        .with_columns(mfu=pl.when(pl.col("peak_flop") > 0).then(pl.col("flop") / pl.col("peak_flop")))
        .sort("cluster", "run_id")
    )
    counted = steps.filter(present).select(*_IN_TIME, *_KIND).sort(*_IN_TIME)
    runs = _of_runs(counted, seed, resamples)
    mine = [runs.get((row["cluster"], row["run_id"]), _NOTHING) for row in totals.iter_rows(named=True)]
    notes = [
        _note(
            row["mfu"],
            unknown=row["n_unknown"],
            n=row["n"],
            kinds=known_of_run.kinds,
            implausible=row["n_implausible"],
            impossible=row["n_impossible"],
        )
        for row, known_of_run in zip(totals.iter_rows(named=True), mine, strict=True)
    ]
    return totals.with_columns(
        pl.Series("ci_low", [each.low for each in mine], dtype=pl.Float64),
        pl.Series("ci_high", [each.high for each in mine], dtype=pl.Float64),
        pl.Series("note", notes, dtype=pl.String),
    )


@dataclass(frozen=True)
class FleetMfu:
    """MFU of all runs together.

    Attributes:
        value: model FLOP over peak FLOP; None if no step has both.
        flop: model FLOP of the steps.
        peak_flop: what their GPUs could have done meanwhile.
        n: steps with an MFU.
        runs: runs they are of.
        low: lower end of the 95 % interval; None where there are too few steps.
        high: upper end.
        note: caveats for the reader.
    """

    value: float | None
    flop: float
    peak_flop: float
    n: int
    runs: int
    low: float | None
    high: float | None
    note: str | None


def fleet(steps: pl.DataFrame, *, seed: int, resamples: int = 2000) -> FleetMfu:
    """The ratio of sums over the steps of all runs, with an interval from resampling blocks of each run's steps.

    Args:
        steps: `step_mfu`'s rows.
        seed: of the random numbers.
        resamples: of the bootstrap.
    """
    counted = steps.filter(pl.col("mfu").is_not_null())
    length = max(1, math.ceil(math.sqrt(counted.height)))
    place = pl.int_range(pl.len()).over("cluster", "run_id") // length
    in_time = counted.select(*_IN_TIME).sort(*_IN_TIME)
    blocks = in_time.group_by("cluster", "run_id", place, maintain_order=True).agg(*_FLOP_SUMS)
    interval = bootstrap_ratio_interval(
        blocks["flop"].to_numpy(), blocks["peak_flop"].to_numpy(), seed=seed, resamples=resamples
    )
    low, high = (None, None) if interval is None or np.isnan(interval.low) else interval
    flop, peak_flop = counted.select(*_FLOP_SUMS).row(0)
    value = flop / peak_flop if peak_flop else None
    kinds = counted.select("gpu_model", "dtype").unique(maintain_order=True).rows()
    note = _note(
        value,
        unknown=steps.height - counted.height,
        n=counted.height,
        kinds=kinds,
        implausible=int(counted["implausible"].sum()),
        impossible=int(steps["impossible"].sum()),
    )
    runs = blocks.select("cluster", "run_id").n_unique()
    return FleetMfu(value, flop, peak_flop, counted.height, runs, low, high, note)


_FLOP_SUMS = tuple(exact_sum(pl.col(name), places=FLOP).alias(name) for name in ("flop", "peak_flop"))
_IN_TIME = ("cluster", "run_id", "ts", "flop", "peak_flop")
"""Order of steps: those of one moment by what they did, so that blocks are the same in any order of rows."""

_KIND = ("gpu_model", "dtype")
_RUN = ("cluster", "run_id")


class _OfRun(NamedTuple):
    """A run's interval, and the GPUs and data types of its steps."""

    low: float | None
    high: float | None
    kinds: list[tuple[str | None, str | None]]


_NOTHING = _OfRun(None, None, [])


def _of_runs(steps: pl.DataFrame, seed: int, resamples: int) -> dict[tuple[str, str], _OfRun]:
    """Of each run, from the steps of all runs in the order of `_IN_TIME`: their blocks are added up in one pass."""
    place, n_steps = pl.int_range(pl.len()).over(*_RUN), pl.len().over(*_RUN)
    block = place // n_steps.sqrt().ceil().cast(pl.Int64)
    blocks = steps.group_by(*_RUN, block.alias("block"), maintain_order=True).agg(*_FLOP_SUMS)
    top, bottom = (blocks[name].to_numpy() for name in ("flop", "peak_flop"))
    kinds = steps.select(*_RUN, *_KIND).unique(maintain_order=True).rows_by_key(_RUN)
    found, begin = {}, 0
    for cluster, run, n in blocks.group_by(*_RUN, maintain_order=True).len().iter_rows():
        mine = slice(begin, begin + n)
        interval = bootstrap_ratio_interval(top[mine], bottom[mine], seed=seed, resamples=resamples)
        low, high = (None, None) if interval is None or np.isnan(interval.low) else interval
        found[cluster, run] = _OfRun(low, high, kinds[cluster, run])
        begin += n
    return found


def _note(
    value: float | None,
    *,
    unknown: int,
    n: int,
    kinds: list[tuple[str | None, str | None]],
    implausible: int,
    impossible: int,
) -> str | None:
    """The caveats of quoting a run's MFU."""
    left_out = (
        f"{impossible} of {n + unknown} steps are left out: they claim more than {IMPOSSIBLE_ABOVE:g} times the FLOP "
        "that their GPUs can do; check tokens, the sizes of the model and the data type in the run log"
    )
    if value is None and impossible:
        return left_out
    if value is None:
        return "cannot tell: the log lacks tokens or sizes of the model, or the GPU or its data type is unknown"
    notes = []
    listed = [each for each in (peak(model, dtype) for model, dtype in kinds) if each is not None]
    notes += sorted({each.note for each in listed if each.note is not None})
    most = min((each.gpu.implausible_above for each in listed), default=1.0)
    if value > most:
        notes.append(f"{value:.0%} is more than such a GPU can do, so one of these is wrong: {INPUTS}")
    elif implausible:
        notes.append(f"{implausible} of {n} steps are above what such a GPU can do ({most:.0%})")
    if any(len(peaks(model, dtype)) > 1 for model, dtype in kinds):
        notes.append("matrix products in several data types: which peak it is over decides the value")
    if impossible:
        notes.append(left_out)
    if unknown > impossible:
        notes.append(f"{unknown - impossible} of {n + unknown} steps could not be counted")
    return "; ".join(notes) or None


# Published metrics --------------------------------------------------------------------------------------------------


METRICS = (
    Metric(
        name="mfu",
        unit="ratio",
        exported=ExportedFamily(
            "mfu_ratio",
            "Model FLOP utilisation over kept steps, of the dense peak of the data type; "
            "lower and upper: its 95 % interval.",
        ),
        claim=Claimable("mfu", of="runs", fields=("flop_convention", "dtype"), categories=False),
        title="MFU",
        show="mfu",
        parts=Parts("flop", "model FLOP", "peak FLOP"),
        judged=True,
        headline=3,
        summary="Of what the GPUs of logged runs could have computed, the share that the model needed.",
        formula="model FLOP of the kept steps / (GPUs allocated x dense peak FLOP/s x seconds of these steps)",
        query="steps",
        function=fleet,
        interval="BCa bootstrap over blocks of consecutive steps, 95 %",
        source="Chowdhery et al. (PaLM, arXiv 2204.02311) appendix B; the FLOP convention is part of the value",
    ),
    Metric(
        name="hfu",
        unit="ratio",
        summary="Of what the GPUs of logged runs could have computed, the share that they did, recomputation included.",
        formula="executed FLOP of the kept steps / (GPUs allocated x dense peak FLOP/s x seconds of these steps)",
        query="steps",
        function=fleet,
        interval="BCa bootstrap over blocks of consecutive steps, 95 %",
        source=(
            "Narayanan et al. (arXiv 2104.04473); full activation checkpointing: 4 passes instead of 3; selective: "
            "Korthikanti et al. (arXiv 2205.05198)"
        ),
    ),
)
