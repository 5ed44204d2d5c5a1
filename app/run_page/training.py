"""What the log of a run records: steps, MFU, job goodput, checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.formatting import duration
from app.results.mfu import headline_mfu
from app.run_page import texts
from ingest.counted import counted
from metrics.mfu.remark import beyond_peak

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.run_page.contents import Row, RunContents, StepCounts
    from app.run_page.lines import TextPage


def training(page: TextPage, contents: RunContents) -> None:
    """Steps, MFU, job goodput and checkpoints."""
    steps = contents.steps
    if steps is None:
        return
    page.heading("Training, by its log")
    each = "" if steps.median_s is None else f", median {duration(steps.median_s)}"
    lost = f"{steps.lost:,} lost" if steps.lost else "none lost"
    lost += " of those that are logged" if steps.between or steps.before else ""
    page.fact("Steps", f"{steps.executed:,} executed ({steps.first:,} to {steps.last:,}), {lost}{each}")
    for text in _not_logged(steps, contents.gone_before):
        page.fact("", text)
    _layout(page, contents)
    _mfu(page, contents)
    _printed(page, contents)
    goodput = contents.goodput
    if goodput is not None and goodput["value"] is not None:
        page.fact(
            "Job goodput", f"{texts.share(goodput['value'])} of the time since its first process, as Google defines it"
        )
    _checkpoints(page, contents)


def _not_logged(steps: StepCounts, gone_before: Row | None) -> Iterator[str]:
    """What is unknown of the steps that no log has: of the beginning, and of processes that were killed."""
    if steps.earlier:
        yield f"the log begins at step {steps.first:,}: what was executed before is in another run's log, or in none"
    if gone_before is not None:
        name = texts.name(gone_before["run_id"])
        yield (
            f"run {name} had come to step {gone_before['last_step']:,} before: it is unknown whether both are one "
            "training; to count them as one, load the logs of both with --set run_id=NAME"
        )
    if steps.between:
        yield (
            f"{counted(steps.between, 'step')} between its processes: in no log that is loaded, since a killed process "
            "had not written them yet, or wrote another log; how many more were lost is unknown"
        )
    if steps.before:
        yield (
            f"up to {steps.before:,} more were run again: not every step has a value; steps of a process before "
            "its first value, and of a killed one after its last, are in no log"
        )


def _mfu(page: TextPage, contents: RunContents) -> None:
    row = headline_mfu(contents.mfu, contents.convention)
    if row is None:
        return
    interval = ""
    if row["ci_low"] is not None and row["ci_high"] - row["ci_low"] >= _TELLABLE:
        interval = f" (95 %: {100 * row['ci_low']:.1f} to {100 * row['ci_high']:.1f} %)"
    peak = f"over the dense {row['dtype']} peak"
    page.fact("MFU", f"{texts.share(row['value'])}{interval}, {row['convention']} {peak}")
    words = []
    if contents.mfu_wall is not None:
        words.append(f"{texts.share(row['value'] * contents.mfu_wall)} over all the time it held its GPUs")
    known = [each for each in contents.mfu if each["value"] is not None and each["measure"] == "mfu"]
    peaks = [each for each in known if each["convention"] == row["convention"] and each["dtype"] != row["dtype"]]
    words += [f"{texts.share(each['value'])} over the dense {each['dtype']} peak" for each in peaks]
    others = [each for each in known if each["dtype"] == row["dtype"] and each["convention"] != row["convention"]]
    if others:
        listed = ", ".join(f"{each['convention']} {100 * each['value']:.1f}" for each in others[:_CONVENTIONS])
        words.append(f"in % by other conventions: {listed}")
    if words:
        page.fact("", "; ".join(words))
    for remark in beyond_peak([min(each["value"] for each in [row, *peaks])]):
        page.fact("", remark)


def _layout(page: TextPage, contents: RunContents) -> None:
    """Parallel sizes, and what other systems call the run."""
    sizes = [
        f"{name} {contents.layout[f'{name}_parallel']:,}" for name in _GROUPS if f"{name}_parallel" in contents.layout
    ]
    if sizes:
        page.fact("Parallel", ", ".join(sizes))
    wandb, pod = contents.layout.get("wandb_run_id"), contents.layout.get("pod")
    ids = [] if wandb in {None, contents.choice.run_id} else [f"W&B run {texts.name(wandb)}"]
    if pod is not None:
        ids.append(f"pod {texts.name('/'.join(filter(None, (contents.layout.get('pod_namespace'), pod))))}")
    if ids:
        page.fact("Ids", ", ".join(ids))


def _printed(page: TextPage, contents: RunContents) -> None:
    """The speed that the log itself prints, beside ours; it is a part of none of our numbers."""
    layout, ours = contents.layout, headline_mfu(contents.mfu, contents.convention)
    tflops, share = layout.get("printed_tflops"), layout.get("printed_mfu")
    words = [] if tflops is None else [f"{tflops:,.4g} TFLOP/s per GPU"]
    words += [] if share is None else [f"MFU {texts.share(share)}"]
    if not words:
        return
    text = f"the log itself prints {' and '.join(words)}"
    if tflops is not None and ours is not None:
        own = _tflops(ours)
        text += f"; ours is {own:,.4g} TFLOP/s, {_difference(own, tflops)}: it counts FLOP or time differently"
        known = [row for row in contents.mfu if row["measure"] == "mfu" and row["value"] is not None]
        nearest = min(known, key=lambda row: abs(_tflops(row) - tflops))
        if nearest["convention"] != ours["convention"]:
            text += f"; nearest by ours: {nearest['convention']}, {_tflops(nearest):,.4g}"
    page.fact("", text)


def _tflops(row: Row) -> float:
    return float(row["value"] * row["peak_flops"] / 1e12)


def _difference(ours: float, printed: float) -> str:
    percent = 100 * (ours / printed - 1)
    return "the same" if abs(percent) < 0.05 else f"{abs(percent):.1f} % {'more' if percent > 0 else 'less'}"


_GROUPS: Final = ("tensor", "pipeline", "data", "context", "expert")
_CONVENTIONS: Final = 3
_TELLABLE: Final = 0.0005
"""Ends of a ratio that lie less apart than this read the same."""


def _checkpoints(page: TextPage, contents: RunContents) -> None:
    row = contents.checkpoints
    if row is None or not row["n_checkpoints"]:
        return
    every = "at unknown times" if row["interval_s"] is None else f"every {duration(row['interval_s'])} of training"
    blocks = "" if not row["write_s"] else f", each blocks {duration(row['write_s'])}"
    page.fact("Checkpoints", f"{row['n_checkpoints']:,} saved, {every}{blocks}")
    page.fact("", advice_text(contents, row))


def advice_text(contents: RunContents, row: Row) -> str:
    """How often it should save, and what that would give."""
    word = contents.unit
    if row["optimal_s"] is None:
        return texts.name(row["note"], none=row["advice"])
    high = "no limit" if row["optimal_high_s"] is None else duration(row["optimal_high_s"])
    low = "" if row["optimal_low_s"] is None else f" (95 %: {duration(row['optimal_low_s'])} to {high})"
    basis = "its own restarts" if contents.choice.logged_only else "the cluster's failures"
    best = f"best by {basis}: every {duration(row['optimal_s'])}{low}"
    if row["advice"] not in {"save less often", "save more often"} or row["gain_gpu_s"] is None:
        return f"{best}; {row['advice']}"
    return f"{row['advice']}, {best}; that would have won {texts.hours(row['gain_gpu_s'], word)}"
