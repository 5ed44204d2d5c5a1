"""`wandb-metadata.json`: what W&B before 0.28 records of the environment, in the folder `files` beside the log."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from ingest.runlog.wandb.messages import EnvironmentMessage

LARGEST: Final = 1 << 20
"""Bytes; a larger file is not read."""


def environment_of_log(log: str) -> EnvironmentMessage | None:
    """The environment of the process that wrote a log; None where no file records it."""
    path = Path(log).parent / "files" / "wandb-metadata.json"
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST:
            return None
        content = msgspec.json.decode(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return environment(content) if isinstance(content, dict) else None


def environment(content: dict[str, Any]) -> EnvironmentMessage:
    """The same from the contents of the file."""
    slurm = content.get("slurm")
    parts = slurm.items() if isinstance(slurm, dict) else ()
    return EnvironmentMessage(
        host=_text(content.get("host")),
        started=_moment(content.get("startedAt")),
        gpu_type=_text(content.get("gpu")),
        slurm={str(name): value for name, value in parts if isinstance(value, str)},
    )


def _text(value: object) -> str | None:
    return value or None if isinstance(value, str) else None


def _moment(value: object) -> float | None:
    """Seconds since 1970. Old versions write UTC without a zone."""
    try:
        moment = datetime.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
