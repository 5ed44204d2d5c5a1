"""A `.wandb` file as a run log: its history is the steps, its run and environment the `run` line.

A row of the history is a training step if one of its values is known to be of one (`ingest.runlog.series`); its time is
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

from ingest.errors import InputError, UnrecognisedInputError
from ingest.runlog.facts import recorded
from ingest.runlog.record_log import RecordLog
from ingest.runlog.series import as_number, encode, point, tokens_of_step
from ingest.runlog.wandb import messages, metadata
from ingest.runlog.wandb.framing import records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ingest.runlog.series import Point
    from ingest.runlog.translation import Findings, LogRequest

_GPU: Final = ("gpu", "memoryAllocated", "powerWatts", "temp")
"""Samples of a GPU of which the mean is kept: `gpu.0.gpu`, ..."""


def read(chunks: Iterable[bytes], request: LogRequest, findings: Findings) -> Iterator[bytes]:
    """The lines of a run log; a `wandb-metadata.json` in `files` beside it is read, too (W&B before 0.28).

    Raises:
        InputError: the version of the file is unknown.
    """
    return WandbLog(request.file, request.facts).lines(records(chunks, request.file), findings)


_DRAWN: Final = "infrastructure/"
"""The beginning of the names under which events are drawn into a run (`trackside run RUN --events FILE.py`)."""

_ONLY_DRAWN: Final = (
    "no log of training: it has only events that Trackside drew into the run (infrastructure/...).\n"
    "Nothing of it is loaded; move its folder away if you load the folder above it again"
)


class WandbLog(RecordLog):
    """A `.wandb` file while it is read; rows of the history are kept back for the configuration."""

    WAITED_FOR = 256

    def __init__(self, path: str, facts: Mapping[str, Any]) -> None:
        super().__init__(path, facts)
        self._message = messages.RunMessage()
        self._environment = messages.EnvironmentMessage()
        self._last: float | None = None
        self._system: dict[str, tuple[int, float]] = {}
        self._exit: int | None = None
        self._is_drawn = False
        self._open: Point | None = None
        self._kinds: dict[int, Callable[[bytes], None]] = {
            messages.HISTORY: self._history,
            messages.CONFIG: self._config,
            messages.STATS: self._stats,
            messages.TELEMETRY: self._telemetry,
            messages.RUN: self._begin,
            messages.EXIT: self._exited,
            messages.PREEMPTING: self._preempting,
            messages.ENVIRONMENT: self._place,
        }

    def _read(self, data: bytes) -> None:
        kind, message = messages.kind_of(data)
        if kind in self._kinds:
            self._kinds[kind](message)

    def _tokens(self) -> float | None:
        return tokens_of_step({**self._facts, **recorded(self._message.config)})

    def _end(self) -> None:
        self._put_open()
        if self._system:
            means = {name: round(total / n, 3) for name, (n, total) in sorted(self._system.items())}
            self._event("system_metrics", msgspec.json.encode(means).decode())
        if self._exit is not None:
            self._event("exit", f"exit code {self._exit}")

    def _event(self, kind: str, detail: str | None = None) -> None:
        moment = self._last or self._message.start
        self._pending.append(encode({"type": "event", "kind": kind, "begin": moment, "detail": detail}))

    def _begin(self, message: bytes) -> None:
        run = messages.run(message)
        run.config = self._message.config | run.config
        run.shared = run.shared or self._message.shared
        self._message = run

    def _config(self, message: bytes) -> None:
        self._message.config |= messages.config(message)

    def _telemetry(self, message: bytes) -> None:
        self._message.shared = self._message.shared or messages.is_shared(message)

    def _place(self, message: bytes) -> None:
        self._environment.add(messages.environment(message))

    def _preempting(self, _: bytes) -> None:
        self._event("preempting")

    def _exited(self, message: bytes) -> None:
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
        self._row(messages.history(message))

    def _row(self, row: Mapping[str, Any]) -> None:
        """A row of the history."""
        moment, step = as_number(row.get("_timestamp")), as_number(row.get("_step"))
        if moment is None:
            return
        self._at(moment)
        self._is_drawn = self._is_drawn or any(name.startswith(_DRAWN) for name in row)
        logged = point(self._names.chosen(row), None if step is None else round(step), moment)
        if logged is None or (self._open is not None and self._open.complete(logged)):
            return
        self._put_open()
        self._open = logged

    def _put_open(self) -> None:
        if self._open is not None:
            self._pending.append(self._open)
        self._open = None

    def _at(self, moment: float) -> None:
        self._last = max(self._last or moment, moment)

    def _run(self) -> dict[str, Any]:
        if self._is_drawn and self._steps.first is None:
            raise UnrecognisedInputError(f"{self._path}: {_ONLY_DRAWN}")
        place = (
            self._environment
            if self._environment.host
            else metadata.environment_of_log(self._path) or self._environment
        )
        config, slurm = self._message.config, place.slurm
        job = slurm.get("job_id") or config.get("slurm_job_id") or config.get("SLURM_JOB_ID")
        start = place.started or (None if self._message.resumed else self._message.start)
        first = min((t for t in (start, self._steps.first, self._last) if t), default=None)
        if first is None:
            raise InputError(f"{self._path}: a .wandb file in which no run begins and nothing is logged")
        stated = self._stated()
        known = {
            "cluster": slurm.get("cluster_name"),
            "scheduler": "slurm" if job else None,
            "job_id": None if job is None else str(job),
            "restart_count": whole(slurm.get("restart_count", "0" if slurm.get("job_id") else "")),
            "node": place.host or self._message.host,
            "gpu_model": place.gpu_type,
            "rank": whole(slurm.get("procid", "")) if self._message.shared else None,
            **recorded(config),
            "wandb_run_id": self._message.run_id or _id_in(self._path),
            "run_id": stated.get("run_id") or self._message.run_id or _id_in(self._path),
        }
        return {"t": first, **stated, **{name: value for name, value in known.items() if value is not None}}


def whole(text: str) -> int | None:
    """A whole number that is text; None for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _id_in(path: str) -> str:
    """The id in the name of a file.

    >>> _id_in("wandb/offline-run-20261123_063926-abc12345/run-abc12345.wandb")
    'abc12345'
    """
    return PurePath(path).name.partition(".")[0].removeprefix("run-")
