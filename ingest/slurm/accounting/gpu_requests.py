"""GPUs from other sources than a TRES: a submit line, slurmctld's view of a job, or old GRES columns.

A site that does not list gres/gpu in AccountingStorageTRES has no GPUs in any TRES. The command line and slurmctld have
them nevertheless. Where the total does not follow (GPUs per task without the number of tasks) it is null, not a guess.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.delimited.header import words as names_of
from ingest.slurm.formats.tres import read_gres

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST: Final = 1_000_000
"""Largest plausible number of GPUs in one option."""

_COMMAND: Final = re.compile(r"(?:\S*/)?(sbatch|srun|salloc)$")

_ALONE: Final = frozenset(
    names_of(
        "batch contiguous exclusive hold immediate kill-on-bad-exit label no-kill no-requeue no-shell oversubscribe "
        "overcommit parsable preserve-env pty quiet reboot requeue spread-job stepmgr test-only unbuffered usage "
        "use-min-nodes verbose wait help version ignore-pbs no-bell bell external-launcher overlap exact"
    )
)
"""Long options that may have no value; every other one has its value behind `=` or in the next word."""

_ALONE_SHORT: Final = frozenset("HIKQWXhklsuvVEOZ")
"""Short options without a value of their own."""

_COUNTS: Final = {"G": "gpus", "N": "nodes", "n": "ntasks"}
_WHOLE: Final = re.compile(r"(\d{1,7})", re.ASCII)


@dataclass(frozen=True)
class GpuRequest:
    """Requested GPUs of a submission, by unit; None where there is no such option.

    Attributes:
        total: of the whole job (`--gpus`, `tres_per_job`).
        per_node: on each node (`--gres`, `--gpus-per-node`, `tres_per_node`).
        per_task: for each task (`--gpus-per-task`, `tres_per_task`).
        tasks: tasks in all.
        tasks_per_node: tasks on each node.
        exclusive: no other job may use its nodes.
    """

    total: float | None = None
    per_node: float | None = None
    per_task: float | None = None
    tasks: int | None = None
    tasks_per_node: int | None = None
    exclusive: bool = False

    def gpus(self, n_nodes: int | None) -> float | None:
        """GPUs of the job on `n_nodes` nodes; None where that is unknown.

        >>> GpuRequest(per_node=8).gpus(2), GpuRequest(total=4).gpus(None), GpuRequest(per_task=1).gpus(2)
        (16.0, 4.0, None)
        """
        if self.total is not None:
            return float(self.total)
        if self.per_node is not None:
            return float(self.per_node * n_nodes) if n_nodes else None
        tasks = self.tasks or (self.tasks_per_node or 0) * (n_nodes or 0)
        return float(self.per_task * tasks) if self.per_task is not None and tasks else None


def read_submit_line(line: str) -> GpuRequest:
    """The GPU options of sbatch, srun or salloc. Words from the script's or program's name on are its own arguments.

    >>> read_submit_line("sbatch -N 2 --gres=gpu:h100:8 train.sh --gpus 99").per_node
    8.0
    >>> read_submit_line("srun -n4 --gpus-per-task 1 ./train").gpus(1)
    4.0
    >>> read_submit_line("sbatch train.sh")
    GpuRequest(total=None, per_node=None, per_task=None, tasks=None, tasks_per_node=None, exclusive=False)
    """
    words = line.split()
    if not words or not _COMMAND.match(words[0]):
        return GpuRequest()
    options = dict(_options(words[1:]))
    return GpuRequest(
        total=_gpus(options.get("gpus")),
        per_node=_first(_gres(options.get("gres")), _gpus(options.get("gpus-per-node"))),
        per_task=_first(_gpus(options.get("gpus-per-task")), _gres(options.get("tres-per-task"))),
        tasks=_count(options.get("ntasks")),
        tasks_per_node=_count(options.get("ntasks-per-node")),
        exclusive="exclusive" in options and options["exclusive"] in {"", "exclusive"},
    )


def _options(words: list[str]) -> Iterator[tuple[str, str]]:
    """Options before the first word that is none, with their values."""
    rest = iter(words)
    for word in rest:
        if word in {"-", "--"} or not word.startswith("-"):
            return
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("--"):
            yield name, value if equals or name in _ALONE else next(rest, "")
        elif word[1] not in _ALONE_SHORT:
            yield _COUNTS.get(word[1], word[1]), word[2:].removeprefix("=") or next(rest, "")


def _gpus(text: str | None) -> float | None:
    """GPUs of `8`, `h100:8` or `a100:2,h100:4`; of the word "none" 0.

    >>> _gpus("8"), _gpus("h100:8"), _gpus("a100:2,h100:4"), _gpus("x")
    (8.0, 8.0, 6.0, None)
    """
    if text is None:
        return None
    return _gres(",".join(f"gpu:{item}" for item in text.split(",")))


def _gres(text: str | None) -> float | None:
    """GPUs of a GRES or TRES text (`gpu:8`, `gres/gpu:h100:8`, `gres/gpu=8`); None where it names none."""
    if text is None or not re.search(r"(?:^|[,/:])gpu\b", text):
        return None
    try:
        count, _ = read_gres(re.sub(r"\bgres[:/]", "", text))
    except ValueError:
        return None
    return count if count <= MOST else None


def gpus_in(tres: str | None) -> float | None:
    """GPUs of a `tres_per_node` and its like; None where it names none.

    >>> gpus_in("gres/gpu:h100:8"), gpus_in("gres:gpu:2"), gpus_in("cpu:4"), gpus_in(None)
    (8.0, 2.0, None, None)
    """
    return _gres(tres)


def _count(text: str | None) -> int | None:
    count = _WHOLE.fullmatch(text or "")
    return int(count[1]) if count else None


def _first(*numbers: float | None) -> float | None:
    return next((number for number in numbers if number is not None), None)


# --- whole columns -------------------------------------------------------------------------------------


def of_submit_lines(lines: pl.Series, n_nodes: pl.Series) -> pl.DataFrame:
    """Columns `gpus` and `exclusive` (true or null) of submit lines, for jobs on so many nodes."""
    with_gpus = lines.str.contains(r"gpu|-G|--exclusive").fill_null(value=False)
    requests = {line: read_submit_line(line) for line in lines.filter(with_gpus).unique().drop_nulls()}
    rows = (
        [
            (request.gpus(nodes), request.exclusive or None) if (request := requests.get(line)) else (None, None)
            for line, nodes in zip(lines, n_nodes, strict=True)
        ]
        if requests
        else [(None, None)] * len(lines)
    )
    return pl.DataFrame(rows, schema={"gpus": pl.Float64, "exclusive": pl.Boolean}, orient="row")


def detail(items: str) -> float | None:
    """GPUs of GRES texts as slurmctld lists them for a job, one for each node; None where it lists nothing at all.

    >>> detail("gpu:h100:8(IDX:0-7),gpu:h100:4(IDX:0-3)"), detail("gpu:0,shard:2"), detail("")
    (12.0, 0.0, None)
    """
    if not items.strip():
        return None
    try:
        return read_gres(items)[0]
    except ValueError:
        return None
