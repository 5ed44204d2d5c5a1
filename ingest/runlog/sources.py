"""The source of run logs, in the order in which inputs are loaded."""

from __future__ import annotations

from typing import Final

from ingest.source import IngestSource, SourceFolder

SOURCES: Final = (
    IngestSource(
        name="runlog",
        title="Run logs",
        feeds=("run_sessions", "steps", "run_events"),
        files=(
            "run log v1: JSON lines as the recorder writes them; logs of training frameworks; W&B run folders, "
            "TensorBoard event files; gzip, zstd, tar archives"
        ),
        command="",
        purpose="Which allocated time became training steps that were kept, which was lost, and how fast a step was.",
        skips="lines of other ranks: the step of rank 0 is the step of all",
    ),
)

FOLDER: Final = SourceFolder(
    "runlog",
    "run logs of training loops: steps, checkpoints, events; W&B, TensorBoard",
    SOURCES,
    position=3,
    called="run logs",
    loader="ingest.runlog.store",
    files="logs, folders or tar archives of them, compressed or not; wandb:ENTITY/PROJECT[/RUN]; - is standard input",
    epilog="""\
  trackside ingest runlog train.log                           what a framework printed, as it is
  trackside ingest runlog logs/ --timezone Europe/Berlin      every log below a folder
  trackside ingest runlog train.log --begin 2026-10-01T08:00:00Z --set n_gpus=64 --set gpu_model=H100
  trackside run                                               its run on one page

Run logs are JSON lines, written by the recorder (trackside recorder > trackside_log.py). Logs of
other frameworks are recognised by content: Megatron-LM, NeMo, torchtitan, DeepSpeed, Hugging Face, nanoGPT, Lightning's
metrics.csv, MLPerf, Weights & Biases (wandb/offline-run-*), TensorBoard event files and more; trackside docs
framework-logs lists what each provides. Files below a folder that are not logs are skipped and counted. A log that
is still being written may be read again at any time: new lines are added. A log alone is enough: trackside run
shows its run.
--cluster is for logs that do not name a cluster. Without it, a log with a job id belongs to the only cluster with
accounting, any other log to the cluster `local`.""",
    manual="sources/run-logs",
    without_jobs="trackside run",
)
