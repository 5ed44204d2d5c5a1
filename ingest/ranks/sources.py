"""The source of rank times."""

from __future__ import annotations

from typing import Final

from ingest.source import Source, SourceFolder

SOURCES: Final = (
    Source(
        name="ranks.steps",
        title="Rank times",
        feeds=("rank_steps",),
        files="rank times v1: JSON lines as the recorder writes them, a file per node; PyTorch's profiles; gzip",
        command="",
        gives="Which rank, and so which node, computes longer than its peers, or whether it is the shape of the job.",
    ),
)

FOLDER: Final = SourceFolder(
    "ranks",
    "rank times of training loops: seconds of computation and of waiting, by rank",
    SOURCES,
    position=4,
    called="rank times",
    loader="ingest.ranks.store",
    files="rank times (JSON lines) or traces of PyTorch's profiler, .gz is fine; - is standard input",
    epilog="""\
Each node writes a file of its own (trackside_log.rank_times in the recorder), an object a line for each rank and so
many steps. A file that still grows may be read again at any time: what is new is added.""",
    manual="sources/rank-times",
    without_jobs="trackside show stragglers",
)
