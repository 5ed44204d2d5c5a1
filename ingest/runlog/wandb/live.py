"""Runs of W&B's server as run logs: `wandb:ENTITY/PROJECT` and `wandb:ENTITY/PROJECT/RUN` in place of a file.

A run has the same parts as in the folder on disk: its configuration, its history, and its
environment (`wandb-metadata.json`, which the server keeps). System metrics stay there.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ingest.errors import OptionError
from ingest.runlog.binary import Record
from ingest.runlog.series import encode
from ingest.runlog.wandb.metadata import environment
from ingest.runlog.wandb.translate import WandbLog

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ingest.runlog.translation import Findings, LogRequest
    from ingest.runlog.wandb.api import WandbApi

PREFIX: Final = "wandb:"

_NAME: Final = re.compile(r"wandb:([^/\s]+)/([^/\s]+)(?:/(?:runs/)?([^/\s]+))?")
_HOW: Final = "wandb:ENTITY/PROJECT, or wandb:ENTITY/PROJECT/RUN"


def is_live(name: str) -> bool:
    """Whether an input is on W&B's server."""
    return name.startswith(PREFIX)


def parts_of(name: str) -> tuple[str, str, str | None]:
    """Entity, project, and run.

    >>> parts_of("wandb:team/llama"), parts_of("wandb:team/llama/runs/ab12")
    (('team', 'llama', None), ('team', 'llama', 'ab12'))

    Raises:
        OptionError: it is no such name.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise OptionError(f"{name}: write {_HOW}")
    return match[1], match[2], match[3]


def runs_of(server: WandbApi, name: str) -> list[str]:
    """The names of the runs of a project; of a run itself.

    Raises:
        OptionError, ServerDownError, InputError: as of `parts_of` and `WandbApi.runs`.
    """
    entity, project, run = parts_of(name)
    return [name] if run is not None else [f"{PREFIX}{entity}/{project}/{one}" for one in server.runs(entity, project)]


def read_run(server: WandbApi, name: str, request: LogRequest, findings: Findings) -> Iterator[bytes]:
    """A run of the server as chunks of a run log; `findings` are complete at its end.

    Raises:
        ServerDownError: the server cannot be reached.
        InputError: there is no such run, or nothing in it.
    """
    entity, project, run = parts_of(name)
    recorded = server.run(entity, project, str(run))
    log = _LiveLog(name, request.facts, recorded, server.metadata(entity, project, str(run)))
    rows = server.history(entity, project, str(run), log.last_step)
    return log.lines((Record(number, number, row) for number, row in enumerate(rows)), findings)


class _LiveLog(WandbLog):
    """A run of the server while it is read: first its own record, then its history."""

    def __init__(
        self, name: str, facts: Mapping[str, Any], recorded: Mapping[str, Any], metadata: dict[str, Any]
    ) -> None:
        super().__init__(name, facts)
        self._environment = environment(metadata)
        self._message.run_id = str(recorded.get("name") or parts_of(name)[2])
        self._message.host = self._environment.host or ""
        self._message.start = _moment(recorded.get("createdAt"))
        self._message.config = {str(key): _value(value) for key, value in _decoded(recorded.get("config")).items()}
        self._state = str(recorded.get("state") or "")
        last = _decoded(recorded.get("historyKeys")).get("lastStep")
        self.last_step = last if isinstance(last, int) else -1

    def _read(self, data: bytes) -> None:
        row = _decoded(data)
        if row:
            self._row(row)

    def _end(self) -> None:
        self._put_open()
        moment = self._last or self._message.start
        if self._state and self._state != "running" and moment is not None:
            event = {"type": "event", "kind": "exit", "begin": moment, "detail": f"state {self._state} at W&B"}
            self._pending.append(encode(event))


def _decoded(value: object) -> dict[str, Any]:
    """An object that is JSON in a text, or an object already."""
    try:
        content = msgspec.json.decode(value) if isinstance(value, str | bytes) else value
    except (msgspec.DecodeError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _value(entry: object) -> object:
    """A value of a configuration, which has a description beside it."""
    return entry["value"] if isinstance(entry, dict) and "value" in entry else entry


def _moment(text: object) -> float | None:
    """Seconds since 1970 of a time of the server, which is UTC."""
    try:
        moment = datetime.fromisoformat(text if isinstance(text, str) else "")
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
