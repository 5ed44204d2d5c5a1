"""Runs that Weights & Biases keeps on disk, see `ingest.runlog.wandb`."""

from __future__ import annotations

from typing import Final

from ingest.runlog.translation import LogFormat
from ingest.runlog.wandb.framing import IDENT
from ingest.runlog.wandb.translate import read

FORMAT: Final = LogFormat("wandb", "Weights & Biases run", lambda head: head.startswith(IDENT), read, is_binary=True)
