"""A `.wandb` file as a run log: its history is the steps, its run and environment the `run` line.

A row of the history is a training step where it has a value that means one (`ingest.runlog.series`); its time is
`_timestamp`, the end of the step. The number of the step is a value that counts steps, else W&B's own `_step`, which
also counts rows that are no steps.

The run id is W&B's. Slurm's job id, cluster and count of restarts come from the environment that W&B records since
0.18, else from the configuration (`slurm_job_id`): so attempts of one job are one run though each has an id of its own
at W&B. In W&B's shared mode, where several processes write one run, those whose rank is not 0 (`SLURM_PROCID`) count as
such. Facts of the model come from the configuration: under our own names, and under Hugging Face's.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ingest.errors import InputError
from ingest.runlog.binary import BAD_MESSAGE, Damage, WireError, rejected
from ingest.runlog.facts import recorded
from ingest.runlog.series import KEYS, Names, Point, StepLines, as_number, encode, point, rejected_names, tokens_of_step
from ingest.runlog.wandb import messages, metadata
from ingest.runlog.wandb.framing import Record, records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

WAITED_FOR: Final = 256
"""Rows of the history that are kept back until the `run` line is written: what is recorded of the run comes before."""

_GPU: Final = ("gpu", "memoryAllocated", "powerWatts", "temp")
"""Samples of a GPU of which the mean is kept: `gpu.0.gpu`, ..."""


def translate(chunks: Iterable[bytes], name: str, facts: Mapping[str, Any]) -> Iterator[bytes]:
    """The lines of a run log.

    Args:
        chunks: the file.
        name: of the file; a `wandb-metadata.json` in `files` beside it is read (W&B before 0.28).
        facts: that a person stated.

    Raises:
        InputError: the version of the file is unknown.
    """
    run = _Run(name, facts)
    for record in records(chunks, name):
        run.take(record)
        if run.known or len(run.pending) > WAITED_FOR:
            yield from run.flush()
    yield from run.close()


class _Run:
    """What has been read so far.

    Attributes:
        pending: lines, and rows of the history, that are not yet passed on.
        known: whether the `run` line was passed on.
    """

    def __init__(self, name: str, facts: Mapping[str, Any]) -> None:
        self.pending: list[bytes | Point] = []
        self.known = False
        self._path = name
        self._facts = facts
        self._names = Names(facts)
        self._run = messages.RunMessage()
        self._environment = messages.EnvironmentMessage()
        self._steps = StepLines()
        self._last: float | None = None
        self._system: dict[str, tuple[int, float]] = {}
        self._exit: int | None = None
        self._kinds: dict[int, Callable[[bytes], None]] = {
            messages.HISTORY: self._history,
            messages.CONFIG: self._config,
            messages.STATS: self._stats,
            messages.TELEMETRY: self._telemetry,
            messages.RUN: self._begin,
            messages.EXIT: self._end,
            messages.PREEMPTING: self._preempting,
            messages.ENVIRONMENT: self._place,
        }

    def take(self, record: Record | Damage) -> None:
        """Read one record."""
        if isinstance(record, Damage):
            self.pending.append(rejected(record))
            return
        try:
            kind, message = messages.kind_of(record.data)
            if kind in self._kinds:
                self._kinds[kind](message)
        except (WireError, OverflowError):
            self.pending.append(rejected(Damage(BAD_MESSAGE, record.begin, record.end)))

    def flush(self) -> Iterator[bytes]:
        """The lines that can be passed on; the `run` line first."""
        pending, self.pending = self.pending, []
        if not self.known:
            self._steps.tokens = tokens_of_step({**self._facts, **recorded(self._run.config)})
        lines = [line for each in pending for line in ([each] if isinstance(each, bytes) else self._steps.of(each))]
        if not self.known:
            yield self._run_line()
            self.known = True
        yield from lines

    def close(self) -> Iterator[bytes]:
        """The lines that are left, and how it ended."""
        if self._system:
            means = {name: round(total / n, 3) for name, (n, total) in sorted(self._system.items())}
            self._event("system_metrics", msgspec.json.encode(means).decode())
        if self._exit is not None:
            self._event("exit", f"exit code {self._exit}")
        yield from self.flush()
        if self._steps.first is None and self._names.unknown():
            yield rejected_names(self._names)

    def _event(self, kind: str, detail: str | None = None) -> None:
        moment = self._last or self._run.start
        self.pending.append(encode({"type": "event", "kind": kind, "begin": moment, "detail": detail}))

    def _begin(self, message: bytes) -> None:
        run = messages.run(message)
        run.config = self._run.config | run.config
        run.shared = run.shared or self._run.shared
        self._run = run

    def _config(self, message: bytes) -> None:
        self._run.config |= messages.config(message)

    def _telemetry(self, message: bytes) -> None:
        self._run.shared = self._run.shared or messages.is_shared(message)

    def _place(self, message: bytes) -> None:
        self._environment.add(messages.environment(message))

    def _preempting(self, _: bytes) -> None:
        self._event("preempting")

    def _end(self, message: bytes) -> None:
        self._exit = messages.exit_code(message)

    def _stats(self, message: bytes) -> None:
        moment, values = messages.stats(message)
        self._at(moment)
        for name, value in values.items():
            parts, number = name.split("."), as_number(value)
            if parts[0] == "gpu" and len(parts) == 3 and parts[2] in _GPU and number is not None:
                n, total = self._system.get(parts[2], (0, 0.0))
                self._system[parts[2]] = n + 1, total + number

    def _history(self, message: bytes) -> None:
        row = messages.history(message)
        moment, step = as_number(row.get("_timestamp")), as_number(row.get("_step"))
        if moment is None:
            return
        self._at(moment)
        logged = point(self._names.chosen(row), None if step is None else round(step), moment)
        if logged is not None:
            self.pending.append(logged)

    def _at(self, moment: float) -> None:
        self._last = max(self._last or moment, moment)

    def _run_line(self) -> bytes:
        place = self._environment if self._environment.host else metadata.beside(self._path) or self._environment
        config, slurm = self._run.config, place.slurm
        job = slurm.get("job_id") or config.get("slurm_job_id") or config.get("SLURM_JOB_ID")
        start = place.started or (None if self._run.resumed else self._run.start)
        first = min((t for t in (start, self._steps.first, self._last) if t), default=None)
        if first is None:
            raise InputError(f"{self._path}: a .wandb file in which no run begins and nothing is logged")
        facts = {name: value for name, value in self._facts.items() if name not in KEYS}
        known = {
            "cluster": slurm.get("cluster_name"),
            "scheduler": "slurm" if job else None,
            "job_id": None if job is None else str(job),
            "restart_count": whole(slurm.get("restart_count", "0" if slurm.get("job_id") else "")),
            "node": place.host or self._run.host,
            "gpu_model": place.gpu_type,
            "rank": whole(slurm.get("procid", "")) if self._run.shared else None,
            **recorded(config),
            "run_id": facts.get("run_id") or self._run.run_id or _id_in(self._path),
        }
        line = facts | {name: value for name, value in known.items() if value is not None}
        return encode({"type": "run", "v": 1, "t": first, **line})


def whole(text: str) -> int | None:
    """A whole number that is text; None for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _id_in(path: str) -> str:
    """The id in the name of a file.

    >>> _id_in("wandb/offline-run-20261123_063926-abc12345/run-abc12345.wandb")
    'abc12345'
    """
    return PurePath(path).name.partition(".")[0].removeprefix("run-")
