"""The status of a Kubeflow TrainJob (`kubectl get trainjob -o json`, or `-o yaml`): the progress of training.

`status.trainerStatus` (Kubeflow Trainer 2.2 and later) has `progressPercentage`, `estimatedRemainingSeconds`, `metrics`
and `lastUpdatedTime`: one moment of a run, and no steps. It becomes an event `progress` of the run that the TrainJob
is; statuses that were written one behind the other (`kubectl get -w -o json`) become one event each, with or without
`--output-watch-events` around them.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ingest.errors import InputError
from ingest.files.json_texts import BrokenTextError, json_texts
from ingest.files.yaml_documents import documents
from ingest.runlog.translation import HEAD, Findings, LogFormat, LogRequest, RefusedLine
from ingest.tables import RAW_LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

STEP_NAMES: Final = ("global_step", "step", "train/global_step", "current_step")
"""Metrics that are the number of the step."""

_LARGEST: Final = 1 << 28

_KIND: Final = re.compile(rb"""^[ -]*["']?kind["']?: *["']?TrainJob["']? *\r?$""", re.MULTILINE)
_STATUS: Final = re.compile(rb"""^ *["']?trainerStatus["']?:""", re.MULTILINE)
"""Lines of a job in YAML."""


def recognise(head: bytes) -> bool:
    """Whether it is JSON with a trainer's status, or YAML with a TrainJob and one."""
    if b'"trainerStatus"' in head and head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in {b"{", b"["}:
        return True
    return bool(_KIND.search(head) and _STATUS.search(head))


def read(chunks: Iterable[bytes], request: LogRequest, findings: Findings) -> Iterator[bytes]:
    """The jobs as a run log; one without a trainer's status is refused."""
    data = b"".join(chunks)
    if len(data) > _LARGEST:
        raise InputError("a list of TrainJobs of more than 256 MiB")
    for number, job in enumerate(_jobs(data, request.file), 1):
        lines = _lines(job, request, number)
        if not lines:
            raw = json.dumps(job)[:RAW_LIMIT]
            findings.refused.append(RefusedLine(number, "TrainJob without status.trainerStatus.lastUpdatedTime", raw))
        yield from (msgspec.json.encode(line) + b"\n" for line in lines)


def _jobs(data: bytes, name: str) -> Iterator[dict[str, Any]]:
    """Every TrainJob: alone, in a list, in an event of a watch, or one behind the other."""
    is_json = data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in {b"{", b"["}
    for content in _texts(data.decode("utf-8-sig", "replace")) if is_json else documents(data, origin=name):
        items = content.get("items") if isinstance(content, dict) else content
        for item in items if isinstance(items, list) else [content]:
            held = item.get("object", item) if isinstance(item, dict) else None
            if isinstance(held, dict) and held.get("kind", "TrainJob") == "TrainJob":
                yield held


def _texts(text: str) -> Iterator[Any]:
    """JSON texts, one behind the other."""
    try:
        for content, _ in json_texts(text):
            yield content
    except BrokenTextError as error:
        raise InputError(f"a TrainJob that is cut or damaged: {error}") from None


def _lines(job: dict[str, Any], request: LogRequest, number: int) -> list[dict[str, Any]]:
    """The `run` line of a job and the event of its status; none where it has no status."""
    metadata, status = _object(job.get("metadata")), _object(_object(job.get("status")).get("trainerStatus"))
    updated = _seconds(status.get("lastUpdatedTime"))
    if updated is None:
        return []
    began = _seconds(metadata.get("creationTimestamp"))
    name = "/".join(str(metadata[key]) for key in ("namespace", "name") if metadata.get(key)) or None
    job_id = None if metadata.get("uid") is None else str(metadata["uid"])
    facts = request.run_facts(run_id=name, scheduler=None if job_id is None else "kubernetes", job_id=job_id)
    metrics = _metrics(status.get("metrics"))
    event = {"type": "event", "kind": "progress", "begin": updated, "detail": _detail(status, metrics), "line": number}
    step = next((int(float(metrics[name])) for name in STEP_NAMES if _is_whole(metrics.get(name))), None)
    run = {"type": "run", "v": 1, "t": updated if began is None else min(began, updated), **facts, "line": number}
    return [run, event if step is None else event | {"step": step}]


def _metrics(values: object) -> dict[str, str]:
    """Metrics by name: a list of `name` and `value`."""
    entries = [entry for entry in values if isinstance(entry, dict)] if isinstance(values, list) else []
    return {str(entry.get("name")): str(entry.get("value")) for entry in entries}


def _is_whole(value: str | None) -> bool:
    try:
        return value is not None and float(value).is_integer() and float(value) >= 0
    except ValueError:
        return False


def _detail(status: dict[str, Any], metrics: dict[str, str]) -> str:
    """The status in a line.

    >>> _detail({"progressPercentage": 42, "estimatedRemainingSeconds": 60}, {"loss": "0.25"})
    '42 %, 60 s remaining, loss=0.25'
    """
    percent, remaining = status.get("progressPercentage"), status.get("estimatedRemainingSeconds")
    parts = [] if percent is None else [f"{percent} %"]
    parts += [] if remaining is None else [f"{remaining} s remaining"]
    return ", ".join([*parts, *(f"{name}={value}" for name, value in sorted(metrics.items()))])


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _seconds(value: object) -> float | None:
    """Seconds since 1970 of a time of Kubernetes (ISO 8601 with Z); None where it is none."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return None if moment is None or moment.tzinfo is None else moment.timestamp()


FORMAT: Final = LogFormat("kubeflow", "Kubeflow TrainJob", lambda head: recognise(head[:HEAD]), read=read)
