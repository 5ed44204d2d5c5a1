"""The source of rank times."""

from __future__ import annotations

from typing import Final

from ingest.source import IngestSource, SourceFolder

SOURCES: Final = (
    IngestSource(
        name="ranks.steps",
        title="Rank times",
        feeds=("rank_steps",),
        files=(
            "rank times v1: JSON lines as the recorder writes them, a file per node; PyTorch's profiles; traces of "
            "operations (Parquet); gzip"
        ),
        command="",
        purpose="Which rank, and so which node, computes longer than its peers, or whether it is the shape of the job.",
        skips="lines of other types",
    ),
    IngestSource(
        name="ranks.reports",
        title="Straggler reports",
        feeds=("rank_reports",),
        files=(
            "logs of Megatron-LM (--log-straggler) and of nvidia-resiliency-ext's straggler detection; dumps of "
            "PyTorch's NCCL flight recorder, one of each rank; gzip"
        ),
        command="",
        purpose="Which ranks a framework listed as the slowest, how often, by how much; in a hang, the last rank.",
        names_cluster=False,
    ),
)

FOLDER: Final = SourceFolder(
    "ranks",
    "rank times of training loops: seconds of computation and of waiting, by rank",
    SOURCES,
    position=4,
    called="rank times",
    files="rank times (JSON lines), traces of PyTorch's profiler or of operations, logs with straggler "
    "reports, dumps of the NCCL flight recorder; - is standard input",
    epilog="""\
Each node writes its own file (trackside_log.rank_times in the recorder): JSON lines, each about one rank and some
steps. A file that is still being written may be read again at any time: new lines are added. Logs of
Megatron-LM (--log-straggler) and nvidia-resiliency-ext name no run, job or zone: --run, --job and --timezone do. Traces
of operations (Parquet) whose times count from 0 need --begin. Dumps of the NCCL flight recorder
(nccl_trace_rank_N, one per rank) show which rank the others waited for: show stalls --by dump.""",
    manual="sources/rank-times",
    without_jobs="trackside show stragglers",
)
