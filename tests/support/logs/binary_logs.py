"""Logs of W&B and TensorBoard that the real packages wrote (`tests/data/runlog`), and what their loops knew."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.logs.run_logs import as_run_log, parse_runlog

if TYPE_CHECKING:
    from ingest.tables import Parsed

DATA = Path(__file__).parents[2] / "data" / "runlog"
WANDB = ("0.16.6", "0.19.11", "0.31.0")
EVENT_FILES = tuple(sorted((DATA / "tensorboard" / "tiny").iterdir()))


def truth(folder: str) -> list[list[dict[str, Any]]]:
    """What the loop of each process printed of its steps."""
    processes: list[list[dict[str, Any]]] = json.loads((DATA / folder / "truth.json").read_text())
    return processes


def wandb_folder(version: str, process: str, folder: Path) -> Path:
    """The run folder of a process as W&B lays it out, below `folder`; returns its log."""
    source = DATA / "wandb" / version
    log = folder / f"offline-run-20261123_070000-{process}" / "run-tiny1.wandb"
    (log.parent / "files").mkdir(parents=True)
    shutil.copy(source / f"{process}.wandb", log)
    if (metadata := source / f"{process}.json").exists():
        shutil.copy(metadata, log.parent / "files" / "wandb-metadata.json")
    return log


def parsed(data: bytes, name: str, **facts: object) -> Parsed:
    """A log that is at hand as a whole."""
    return parse_runlog(as_run_log(data, name, facts), origin=name, cluster="c")


def read(log: Path, **facts: object) -> Parsed:
    """A log."""
    return parsed(log.read_bytes(), str(log), **facts)
