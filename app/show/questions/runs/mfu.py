"""The question of `trackside show` about model FLOP utilisation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from app.results.mfu import (
    flop_convention,
    kept_steps,
    mfu_run_rows,
    mfu_wall_run_rows,
    step_mfu_rows,
)
from app.results.mfu_totals import stored_runs, stored_totals, total_rows
from app.show.answer import MOST_EXPLAINED, Answer, Brief, Question
from app.show.mfu_parts import PARTS, by_part
from app.show.mfu_proxy import disagreements, estimates, proxies
from app.show.registry import question
from app.show.selection import only, requested_conventions, requested_runs, resolved_runs, several
from app.show.sentences import percent, row_of
from ingest.counted import counted
from metrics.mfu.flops import MEASURES
from metrics.mfu.peaks import gpu_of
from metrics.mfu.remark import beyond_peak

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.window import Window
    from metrics.mfu.flops import Convention
    from queries.warehouse import Reader


_QUERIES: Final = ("steps", "run_sessions", "run_events")


@question(
    "mfu",
    "model FLOP utilisation over kept steps",
    help="model FLOP utilisation over kept steps, by FLOP convention; --run R: of one run; --convention NAME\n"
    "--by run, step, gpu_model, day, node_class; restart: before and after each;\n"
    "proxy: logs against tensor activity; estimate: runs without logs",
    by=("cluster", "run", "step", "gpu_model", "day", "node_class", "restart", "proxy", "estimate"),
    takes=("run", "convention"),
    default_of_run="run",
    position=4,
)
def mfu(source: Reader, window: Window, question: Question) -> Answer:
    """Model FLOP utilisation, of all logged runs, by run, step or GPU, by convention; and telemetry's estimate."""
    by = question.dimension
    conventions = requested_conventions(question.convention)
    if by in {"proxy", "estimate"}:
        return (proxies if by == "proxy" else estimates)(source, window, question)
    if by == "step":
        return _by_step(source, window, question, conventions[0] if question.convention else None)
    if by in PARTS:
        return by_part(source, window, question, when_empty=_NO_STEPS)
    if by == "gpu_model":
        return _by_gpu(source, window, question, conventions)
    if by == "run" or question.run is not None:
        return _by_run(source, window, question, conventions)
    return _of_all_runs(source, window, question, conventions)


def _of_all_runs(source: Reader, window: Window, question: Question, conventions: tuple[Convention, ...]) -> Answer:
    """Of all logged runs together: as stored, where the parts are not requested."""
    stored = None if question.details else stored_totals(source, window, conventions)
    rows = total_rows(source, window, kept_steps(source, window), conventions) if stored is None else stored
    return Answer(
        "MFU over the kept steps of all logged runs, by FLOP convention",
        rows,
        {"metric": ("measure", "text"), **_MFU_COLUMNS, **_WALL_COLUMNS, "note": ("note", "text")},
        headline=_headline(rows),
        ranked=("convention", "value", "ci_low", "ci_high", "mfu_wall", "n"),
        in_words=(pl.col("note").str.strip_prefix(pl.concat_str("convention", pl.lit(" "))),),
        metrics=("mfu", "hfu", "mfu_wall"),
        queries=(*_QUERIES, "ledger_sums") if stored is None else ("stored_mfu_totals",),
        parts={"metric": "metric", "subject": "convention", **_MFU_PARTS},
        when_empty=_NO_STEPS,
        notes=(*_ABOUT, *beyond_peak(_values(rows)), *disagreements(source, window)),
    )


def _headline(rows: pl.DataFrame) -> str:
    """The MFU by the first convention, over steps and over all time."""
    row = row_of(rows, "metric", "mfu") if rows.height else None
    if row is None:
        return ""
    wall = "" if row["mfu_wall"] is None else f"; {percent(row['mfu_wall'])} over all time that the runs held GPUs"
    return f"MFU {percent(row['value'])} over {row['n']:,} kept steps ({row['convention']}){wall}."


def _by_run(source: Reader, window: Window, question: Question, conventions: tuple[Convention, ...]) -> Answer:
    stored = None if question.details else stored_runs(source, window)
    every, walls = stored or (mfu_run_rows(source, window, measures=MEASURES), mfu_wall_run_rows(source, window))
    measured = every.filter(pl.col("convention").is_in(conventions))
    wall = walls.select("run_id", "step_share", "allocated_gpu_s")
    with_wall = measured.join(wall, on="run_id", how="left", maintain_order="left").with_columns(
        mfu_wall=pl.col("value") * pl.col("step_share")
    )
    rows, notes = requested_runs(largest_first(with_wall), source, window, question.run)
    columns = {
        "run_id": ("run", "text"),
        "measure": ("measure", "text"),
        "dtype": ("peak of", "text"),
        **_MFU_COLUMNS,
        **_WALL_COLUMNS,
        "note": ("note", "text"),
    }
    return Answer(
        "MFU by run and FLOP convention",
        rows,
        columns,
        headline=_largest(rows),
        brief=_one_of_each_run(rows, columns) if question.run is None and question.convention is None else None,
        ranked=("measure", "convention", "value", "mfu_wall", "n", "ci_low", "ci_high"),
        metrics=("mfu", "hfu", "mfu_wall"),
        queries=(*_QUERIES, "ledger_sums") if stored is None else ("stored_run_mfu", "stored_run_mfu_wall"),
        notes=(
            *notes,
            *_ABOUT,
            *beyond_peak(_over_the_fastest(rows)),
            *disagreements(source, window, rows["run_id"].unique(maintain_order=True)),
        ),
        parts={"metric": "measure", "subject": "run_id", **_MFU_PARTS},
        when_empty=_NO_STEPS,
    )


def _one_of_each_run(rows: pl.DataFrame, columns: dict[str, tuple[str, str]]) -> Brief | None:
    """The MFU of each run by the convention of the headline, one row for each data type of its peak."""
    mfus = rows.filter(pl.col("measure") == "mfu")
    if mfus.is_empty():
        return None
    named = {"run_id": columns["run_id"], "value": ("MFU", "ratio"), **_WALL_COLUMNS}
    named |= {name: shown for name, shown in columns.items() if name not in {*named, "measure"}}
    of_headline = mfus.filter(pl.col("convention") == mfus["convention"][0])
    return Brief(of_headline, named, "also: HFU and the other conventions of each run (--wide)", on_pages=True)


def largest_first(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of runs by the GPU-time that the run held, the most first; of one run in the order that they have.

    >>> rows = pl.DataFrame({"run_id": ["a", "b", "c", "b"], "allocated_gpu_s": [1.0, 9.0, None, 9.0]})
    >>> largest_first(rows)["run_id"].to_list()
    ['b', 'b', 'a', 'c']
    """
    return rows.sort("allocated_gpu_s", descending=True, nulls_last=True, maintain_order=True)


def _largest(rows: pl.DataFrame) -> str:
    """How many runs there are, and the MFU of the one that held most GPU-time, by the first convention."""
    known = rows.filter((pl.col("measure") == "mfu") & pl.col("value").is_not_null())
    if known.is_empty():
        return f"The MFU of {counted(rows['run_id'].n_unique(), 'run')} is unknown." if rows.height else ""
    by_size = known.sort("allocated_gpu_s", descending=True, nulls_last=True, maintain_order=True)
    first = by_size.row(0, named=True)
    value = f"MFU {percent(first['value'])} over {counted(first['n'], 'kept step')} ({first['convention']})"
    runs = known["run_id"].n_unique()
    return f"{first['run_id']}: {value}." if runs == 1 else f"{runs:,} runs; the largest, {first['run_id']}: {value}."


def _total(rows: pl.DataFrame, name: str) -> float:
    return float(rows[name].sum())


def _of_steps(steps: pl.DataFrame, convention: str) -> str:
    """The MFU of all steps together."""
    known = steps.filter(pl.col("flop").is_not_null() & pl.col("peak_flop").is_not_null())
    peak = _total(known, "peak_flop") if known.height else 0.0
    if not peak:
        return f"The MFU of {counted(steps.height, 'kept step')} is unknown." if steps.height else ""
    return f"MFU {percent(_total(known, 'flop') / peak)} over {counted(known.height, 'kept step')} ({convention})."


def _by_step(source: Reader, window: Window, question: Question, conventions: Convention | None) -> Answer:
    """Every kept step, one convention: what was requested, else the headline's."""
    convention = conventions or flop_convention(source, window.cluster)
    steps = step_mfu_rows(source, window, convention)
    notes: tuple[str, ...] = ()
    if question.run is not None:
        run_ids = resolved_runs(source, window, question.run)
        steps, notes = only(steps, run_ids), several(question.run, run_ids)
    rows = steps.select(
        "cluster", "run_id", "step", "ts", "tokens", pl.col("wall_s").alias("seconds"), "n_gpus", "flop", "peak_flop",
        "mfu", pl.lit(convention).alias("convention"), "peak_dtype", "implausible",
    )  # fmt: skip
    return Answer(
        f"MFU of each kept step ({convention})",
        rows,
        {
            "run_id": ("run", "text"),
            "step": ("step", "count"),
            "ts": ("began", "time"),
            "tokens": ("tokens", "number"),
            "seconds": ("seconds", "number"),
            "flop": ("model", "flop"),
            "peak_flop": ("peak", "flop"),
            "mfu": ("MFU", "ratio"),
        },
        headline=_of_steps(rows, convention),
        metrics=("mfu",),
        queries=_QUERIES,
        notes=(*notes, *beyond_peak(rows["mfu"])),
        parameters={"convention": convention},
        worth_explaining=pl.int_range(pl.len()) < MOST_EXPLAINED,
        parts={"subject": "step", "value": "mfu", "numerator": "flop", "denominator": "peak_flop", "at": "ts"},
        when_empty=_NO_STEPS,
    )


def _by_gpu(source: Reader, window: Window, question: Question, conventions: tuple[Convention, ...]) -> Answer:
    """By kind of GPU and data type of the products."""
    steps = kept_steps(source, window)
    if question.run is not None:
        steps = only(steps, resolved_runs(source, window, question.run))
    rows = []
    for (model, dtype), some in steps.group_by("gpu_model", "dtype", maintain_order=True):
        gpu = gpu_of(None if model is None else str(model))
        fleets = total_rows(source, window, some, conventions).drop("mfu_wall", strict=False)
        name = pl.lit(gpu.name if gpu else str(model or "unknown"))
        rows.append(fleets.with_columns(name.alias("gpu_model"), pl.lit(dtype, dtype=pl.String).alias("dtype")))
    together = pl.concat(rows, how="diagonal_relaxed") if rows else pl.DataFrame(schema={"gpu_model": pl.String})
    return Answer(
        "MFU by GPU and data type",
        together,
        {"gpu_model": ("GPU", "text"), "dtype": ("type", "text"), "metric": ("measure", "text"), **_MFU_COLUMNS,
         "note": ("note", "text")},
        headline=_most_steps(together),
        metrics=("mfu", "hfu"),
        queries=_QUERIES,
        notes=(*_ABOUT, *beyond_peak(_values(together))),
        parts={"metric": "metric", "subject": "gpu_model", **_MFU_PARTS},
        when_empty=_NO_STEPS,
    )  # fmt: skip


def _most_steps(rows: pl.DataFrame) -> str:
    """The MFU on the kind of GPU with most kept steps, by the first convention."""
    mfus = rows.filter(pl.col("metric") == "mfu") if rows.height else rows
    if mfus.is_empty():
        return "No step of these runs has an MFU." if rows.height else ""
    first = mfus.sort("n", descending=True, maintain_order=True).row(0, named=True)
    steps = counted(first["n"], "kept step")
    return (
        f"{first['gpu_model']} ({first['dtype']}): MFU {percent(first['value'])} over {steps} ({first['convention']})."
    )


def _values(rows: pl.DataFrame) -> Iterable[float | None]:
    """The values of rows, where they have any."""
    return rows["value"] if "value" in rows.columns else ()


def _over_the_fastest(rows: pl.DataFrame) -> pl.Series:
    """The values of runs over the peak of the fastest type in use: over a slower one's they may be above 100 %."""
    return rows.group_by("run_id", "measure", "convention").agg(pl.col("value").min())["value"]


_ABOUT: Final = (
    "The peak is dense, for the data type of the log. A vendor's figure means little without its convention.",
)

_NO_STEPS = (
    "No run of a known job logged steps in this window (logs that match no job: see trackside status).\n"
    "The recorder does it in three lines: trackside recorder --help"
)


_MFU_COLUMNS = {
    "convention": ("convention", "text"),
    "value": ("value", "ratio"),
    "ci_low": ("95 % from", "ratio"),
    "ci_high": ("to", "ratio"),
    "mean": ("mean step", "ratio"),
    "median": ("median step", "ratio"),
    "n": ("steps", "count"),
}
"""`value` is the ratio of sums; mean and median are over steps."""

_WALL_COLUMNS = {"mfu_wall": ("over all time", "ratio")}

_MFU_PARTS = {
    "convention": "convention",
    "value": "value",
    "numerator": "numerator",
    "denominator": "denominator",
    "n": "n",
    "ci_low": "ci_low",
    "ci_high": "ci_high",
    "ci_method": "ci_method",
    "mfu_wall": "mfu_wall",
    "evidence_log": "evidence_log",
}
