"""The first import of a worker process that Trackside starts: such a process does its tasks and nothing else."""

from __future__ import annotations

from queries.pandas_block import block_pandas

block_pandas()
