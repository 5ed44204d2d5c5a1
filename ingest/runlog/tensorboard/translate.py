"""An event file as a run log: scalars whose tag has a known meaning are the steps (`ingest.runlog.series`).

A program writes a file for each start, so a file is a session. The values of a step come in events of their own,
one for each tag, and belong together while the step's number stays. A step number that goes back (a restart from a
checkpoint) is the step executed again. The run id is the name of the folder, the node is in the name of the file; the
job and the model's facts are in no event file, but for the `model_config` that Hugging Face's Trainer writes.
"""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

from ingest.errors import InputError
from ingest.runlog.facts import recorded
from ingest.runlog.record_log import RecordLog
from ingest.runlog.series import MICRO_BATCH_TIME, point
from ingest.runlog.tensorboard.framing import HEAD, length_of, records
from ingest.runlog.tensorboard.messages import event

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ingest.runlog.tensorboard.messages import TensorBoardEvent
    from ingest.runlog.translation import Findings, LogRequest

ORDINARY: Final = {"train", "training", "validation", "val", "eval", "test", "logs", "tensorboard", "tb", "events", "."}
"""Names of folders that name no run."""

_PROCESS: Final = re.compile(r"[A-Z][a-z]{2}\d\d_\d\d-\d\d-\d\d_.+")
"""The folder that PyTorch's SummaryWriter names by the time and the host."""

_VERSION: Final = re.compile(r"version_\d+")
_FILE: Final = re.compile(
    r"events\.out\.tfevents\.\d+\.(?P<host>.+?)(\.\d+\.\d+)?(\.v2)?(?P<packed>\.(gz|zst|xz|bz2))?$"
)
_MODEL: Final = "model_config"


def is_event_file(head: bytes) -> bool:
    """Whether a file begins with a record."""
    length = length_of(head[:HEAD])
    return length is not None and head[HEAD : HEAD + 1] == b"\x09"  # wall_time comes first


def read(chunks: Iterable[bytes], request: LogRequest, findings: Findings) -> Iterator[bytes]:
    """The lines of a run log.

    Raises:
        InputError: there is no event in it.
    """
    return _EventLog(request.file, request.facts).lines(records(chunks), findings)


class _EventLog(RecordLog):
    """An event file while it is read; its steps are kept back for the model's configuration."""

    WAITED_FOR = 64

    def __init__(self, path: str, facts: Mapping[str, Any]) -> None:
        super().__init__(path, facts)
        self._model: dict[str, Any] = {}
        self._begin: float | None = None
        self._open: tuple[int, float, dict[str, float]] | None = None

    def _read(self, data: bytes) -> None:
        self._event(event(data))

    def _event(self, parsed: TensorBoardEvent) -> None:
        if parsed.wall_time > 0:
            self._begin = min(self._begin or parsed.wall_time, parsed.wall_time)
        for tag, text in parsed.texts.items():
            if tag.startswith(_MODEL):
                self._model |= _model(text)
        scalars = {
            tag: value for tag, value in parsed.scalars.items() if self._names.meaning(tag) or tag == MICRO_BATCH_TIME
        }
        if not scalars or parsed.wall_time <= 0:
            return
        if self._open is not None and self._open[0] == parsed.step:
            self._open[2].update(scalars)
            return
        self._put_open()
        self._open = parsed.step, parsed.wall_time, scalars

    def _put_open(self) -> None:
        if self._open is None:
            return
        step, moment, scalars = self._open
        chosen = self._names.chosen(scalars)
        stated = chosen.pop("step_key", None)
        logged = point(chosen, step if stated is None else round(stated), moment)
        if logged is not None:
            logged.between = True
            self._pending.append(logged)
        self._open = None

    def _end(self) -> None:
        self._put_open()

    def _run(self) -> dict[str, Any]:
        first = min((t for t in (self._begin, self._steps.first) if t), default=None)
        if first is None:
            raise InputError(f"{self._path}: an event file without a readable event")
        match = _FILE.match(PurePath(self._path).name)
        known = {"node": match["host"] if match else None, **recorded(self._model)}
        return {
            "t": first,
            "run_id": run_id(self._path, of_trainer=bool(self._model)),
            **self._stated(),
            **{name: each for name, each in known.items() if each is not None},
        }


def run_id(path: str, *, of_trainer: bool = False) -> str:
    """The run that a file belongs to: the last folder with a name of its own, else the file.

    Hugging Face's Trainer makes a folder for each process, below `runs` in its output folder.

    >>> run_id("runs/llama-8b/train/events.out.tfevents.1795415966.n1.12.0")
    'llama-8b'
    >>> run_id("tb/events.out.tfevents.1795415966.n1.12.0.zst")
    'events.out.tfevents.1795415966.n1.12.0'
    >>> run_id("lightning_logs/version_3/events.out.tfevents.1795415966.n1.12.0")
    'lightning_logs/version_3'
    >>> run_id("llama-8b/runs/Nov30_08-41-20_n1/events.out.tfevents.1795415966.n1.12.0", of_trainer=True)
    'llama-8b'
    """
    if of_trainer and _PROCESS.fullmatch(PurePath(path).parent.name):
        path = str((Path(path).absolute() if Path(path).is_file() else PurePath(path)).parent)
        path = str(PurePath(path).parent) if PurePath(path).parent.name == "runs" else path
    parts = [part for part in PurePath(path).parts[:-1] if part.lower() not in ORDINARY and part != "/"]
    if not parts:
        match = _FILE.match(PurePath(path).name)
        return PurePath(path).name.removesuffix((match and match["packed"]) or "")
    return "/".join(parts[-2:]) if _VERSION.fullmatch(parts[-1]) else parts[-1]


def _model(text: bytes) -> dict[str, Any]:
    """A model's configuration, as Hugging Face's Trainer writes it between other text."""
    try:
        content = json.loads(text[text.index(b"{") : text.rindex(b"}") + 1])
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
