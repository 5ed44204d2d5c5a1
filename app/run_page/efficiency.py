"""What accounting records of the use of CPUs, memory and GPUs by a run: the lines of its page.

Each number comes from one source. Telemetry, where it observed the GPUs, answers for them alone; else the summary of
jobstats does, and below it Slurm's own samples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.formatting import duration
from app.run_page import texts
from app.run_page.header import last_held
from ingest.counted import counted
from metrics.units import HOUR_S
from metrics.usage.recorded import JOBSTATS

if TYPE_CHECKING:
    from app.run_page.contents import Row, RunContents

SOURCES: Final = {"slurm": "Slurm", "jobstats": "jobstats"}

OUT_OF_MEMORY: Final = "OUT_OF_MEMORY"

OVER: Final = 1.0
"""Share of the memory held from which on the memory itself explains that a job failed."""

_FAILED: Final = frozenset({"FAILED", OUT_OF_MEMORY})

Line = tuple[str, str]


def cpu_lines(contents: RunContents) -> list[Line]:
    """CPU time used of that held, over all attempts of which it is recorded."""
    rows = _of_one_source(contents, "cpu_share")
    if not rows:
        return []
    used, held = (sum(row[name] for row in rows) for name in ("cpu_s", "cpu_held_s"))
    least = "at least " if any(row["n_lost_steps"] for row in rows) else ""
    share = texts.share(used / held)
    text = f"{least}{share} used: {_cpu_times(used, held)} held ({_source(rows[0])})"
    return [("CPUs", text), *_lost(rows), *_partly(contents, rows)]


def _cpu_times(used_s: float, held_s: float) -> str:
    """CPU time used of that held: in hours of one CPU, as GPU time is, but for less than an hour.

    >>> _cpu_times(3.6, 36.0), _cpu_times(9_000.0, 360_000_000.0)
    ('3.6 s of 36 s of CPU time', '2 CPU-h of 100,000 CPU-h')
    """
    if held_s < HOUR_S:
        return f"{duration(used_s)} of {duration(held_s)} of CPU time"
    used, held = (texts.hours(seconds, "CPU-h", of=held_s) for seconds in (used_s, held_s))
    return f"{used} of {held}"


def _lost(rows: list[Row]) -> list[Line]:
    lost = sum(row["n_lost_steps"] for row in rows)
    return [("", f"no record of {counted(lost, 'step')}: they were cut off, or still run")] if lost else []


def _partly(contents: RunContents, rows: list[Row]) -> list[Line]:
    held = sum(row["started_at"] is not None for row in contents.attempts)
    return [("", f"recorded of {len(rows):,} of {counted(held, 'attempt')}")] if len(rows) < held else []


def memory_lines(contents: RunContents) -> list[Line]:
    """The most memory used of that held, by the attempt that came closest to it; and whether it was killed for it."""
    rows = [row for row in contents.recorded if row["used_bytes"] is not None]
    lines = []
    if rows:
        source = _best(rows)
        row = max((row for row in rows if row["source"] == source), key=_closeness)
        lines.append(("", _most_used(row)))
    return [*lines, *_killed(contents, rows)]


def _closeness(row: Row) -> tuple[float, float]:
    return (row["memory_share"] or 0.0, row["used_bytes"])


def _most_used(row: Row) -> str:
    """The most used, of one attempt."""
    share = "" if row["memory_share"] is None else f", {texts.share(row['memory_share'])} of it"
    return f"used at most {texts.size(row['used_bytes'])}{share} ({'; '.join([*_where(row), _sampled(row)])})"


def _where(row: Row) -> list[str]:
    """The node that used most, and how much one task, or the node, used where the whole is more than that."""
    node = texts.name(row["worst_node"], none="")
    if row["node_used_bytes"] is None or row["node_used_bytes"] == row["used_bytes"]:
        return [f"most on {node}"] if node else []
    what = "" if row["source"] == JOBSTATS else " in one task"
    return [f"{texts.size(row['node_used_bytes'])}{what}{f' on {node}' if node else ''}"]


def _sampled(row: Row) -> str:
    return "jobstats" if row["source"] == JOBSTATS else "samples of Slurm"


def _killed(contents: RunContents, rows: list[Row]) -> list[Line]:
    """What memory has to do with the end of the last attempt."""
    last = last_held(contents)
    if last["state"] == OUT_OF_MEMORY:
        return [("", "killed for lack of memory (OUT_OF_MEMORY): a sample can miss the peak; request more")]
    mine = [row for row in rows if (row["job_id"], row["submitted_at"]) == (last["job_id"], last["submitted_at"])]
    if last["state"] in _FAILED and any((row["memory_share"] or 0.0) > OVER for row in mine):
        return [("", "more than it held: the likely reason of its failure; request more")]
    return []


def gpu_lines(contents: RunContents) -> list[Line]:
    """What accounting records of the GPUs; nothing where telemetry observed them, or where they are none."""
    if not contents.gpus or (contents.activity is not None and contents.activity["observed_s"]):
        return []
    return _gpus_by_jobstats(contents) or _gpus_by_slurm(contents)


def _gpus_by_jobstats(contents: RunContents) -> list[Line]:
    rows = [row for row in contents.recorded if row["gpu_util_s"]]
    if not rows:
        return []
    mean = sum(row["gpu_util_sum"] for row in rows) / sum(row["gpu_util_s"] for row in rows)
    unused = sum(row["n_unused_gpus"] for row in rows)
    beside = f"; {counted(unused, 'GPU')} never busy" if unused else ""
    lines = [("Utilisation", f"busy {texts.share(mean)}, the mean of its GPUs (jobstats){beside}")]
    memory = [row for row in rows if row["gpu_used_bytes"] is not None]
    if memory:
        row = max(memory, key=lambda row: row["gpu_used_bytes"])
        lines.append(
            (
                "GPU memory",
                f"at most {texts.size(row['gpu_used_bytes'])} of {texts.size(row['gpu_memory_bytes'])} in use",
            )
        )
    return lines


def _gpus_by_slurm(contents: RunContents) -> list[Line]:
    rows = [row for row in contents.recorded if row["gpu_util_max"] is not None]
    if not rows:
        return []
    peak = max(row["gpu_util_max"] for row in rows)
    bounded = [row for row in rows if row["gpu_busy_most_s"] is not None and row["gpu_held_s"]]
    text = f"mean unknown; a task was at {peak:,.0f} % of a GPU in its highest sample (Slurm)"
    if len(bounded) == len(rows) and peak:
        most = sum(row["gpu_busy_most_s"] for row in bounded) / sum(row["gpu_held_s"] for row in bounded)
        text += f": busy {texts.share(most)} at most"
    lines = [("Utilisation", text)]
    if not peak:
        lines.append(("", "0 may also mean that Slurm cannot measure these GPUs (MIG, no NVML)"))
    memory = max((row["gpu_used_bytes"] or 0.0 for row in rows), default=0.0)
    return [
        *lines,
        *([("GPU memory", f"at most {texts.size(memory)} in one task (samples of Slurm)")] if memory else []),
    ]


def energy_lines(contents: RunContents) -> list[Line]:
    """Energy of its nodes, as Slurm measured it."""
    joules = sum(row["energy_j"] or 0.0 for row in contents.recorded)
    if not joules:
        return []
    return [("Energy", f"{joules / 3.6e6:,.1f} kWh of its nodes while it ran, shared ones whole (Slurm)")]


def _of_one_source(contents: RunContents, number: str) -> list[Row]:
    """Rows that have a number, all of the source that has it of the most attempts."""
    rows = [row for row in contents.recorded if row[number] is not None]
    source = _best(rows) if rows else ""
    return [row for row in rows if row["source"] == source]


def _best(rows: list[Row]) -> str:
    """The source of the most rows; of equals jobstats, which counts every process of a node."""
    sources = [str(row["source"]) for row in rows]
    return max(sorted(set(sources)), key=lambda source: (sources.count(source), source == JOBSTATS))


def _source(row: Row) -> str:
    return SOURCES[str(row["source"])]
