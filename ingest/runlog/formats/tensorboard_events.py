"""TensorBoard's event files, see `ingest.runlog.tensorboard`."""

from __future__ import annotations

from typing import Final

from ingest.runlog.tensorboard.translate import is_event_file, read
from ingest.runlog.translation import LogFormat

FORMAT: Final = LogFormat("tensorboard", "TensorBoard event file", is_event_file, read, is_binary=True)
