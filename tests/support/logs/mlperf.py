"""Logs as MLPerf Training's submitters publish them, with the times that were written into them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

BEGIN_MS = 1_745_739_600_000
"""2025-04-27T07:40:00Z."""

BENCHMARK = "llama31_405b"


@dataclass
class MlperfRun:
    """A run: some ranks start, steps of equal length with an evaluation after every third, and the end."""

    ranks: int = 4
    batch: int = 12
    sequence: int = 8192
    step_s: float = 20.0
    steps: int = 6
    start_up_s: float = 300.0
    eval_s: float = 40.0
    begin_ms: int = BEGIN_MS
    platform: str = "2xNVIDIA H100"
    status: str = "success"
    benchmark: str = BENCHMARK
    lines: list[str] = field(default_factory=list)

    def text(self) -> str:
        """The log."""
        self.lines, at = [], self.begin_ms
        for rank in range(self.ranks):
            self._entry(at + rank, "cache_clear", value=True)
            self._entry(at + 10 - rank, "init_start")
        for key, value in (
            ("submission_benchmark", self.benchmark),
            ("submission_platform", self.platform),
            ("global_batch_size", self.batch),
            ("max_sequence_length", self.sequence),
        ):
            self._entry(at + 20, key, value)
        self.lines.append("NCCL INFO Launch mode Parallel")
        at += round(self.start_up_s * 1000)
        self._entry(at, "init_stop")
        self._entry(at, "run_start")
        self._entry(at, "block_start", samples_count=0)
        for step in range(1, self.steps + 1):
            at += round(self.step_s * 1000)
            values = {"train_step_time": self.step_s, "reduced_train_loss": 7.0 - step / 10}
            self._entry(at, "tracked_stats", values, step=float(step * self.batch))
            if step % 3 == 0:
                mean = {"throughput": 1.5, "train_step_time": self.step_s, "max_memory_usage": 93.5}
                self._entry(at, "tracked_stats", mean, step=step * self.batch)
                self._entry(at, "block_stop", samples_count=step * self.batch)
                self._entry(at, "eval_start", samples_count=step * self.batch)
                at += round(self.eval_s * 1000)
                self._entry(at, "eval_accuracy", 5.6)
                self._entry(at, "eval_stop", samples_count=step * self.batch)
                self._entry(at, "block_start", samples_count=step * self.batch)
        self._entry(at, "run_stop", status=self.status)
        return "\n".join(self.lines) + "\n"

    def _entry(self, at: int, key: str, value: object = None, **metadata: object) -> None:
        kind = "INTERVAL_END" if key.endswith("_stop") else "INTERVAL_START"
        fields: dict[str, Any] = {"namespace": "", "time_ms": at, "event_type": kind, "key": key, "value": value}
        self.lines.append(":::MLLOG " + json.dumps(fields | {"metadata": {"file": "x.py", "lineno": 1, **metadata}}))


def publish(root: Path, submitter: str, system: str, runs: dict[int, MlperfRun], *, nodes: int, gpus: int) -> Path:
    """Write results in the layout of the results' repository; the folder of the logs."""
    benchmark = next((one.benchmark for one in runs.values()), BENCHMARK)
    folder = root / submitter / "results" / system / benchmark
    folder.mkdir(parents=True, exist_ok=True)
    for number, one in runs.items():
        (folder / f"result_{number}.txt").write_text(one.text())
    systems = root / submitter / "systems"
    systems.mkdir(exist_ok=True)
    described = {
        "number_of_nodes": str(nodes),
        "accelerators_per_node": str(gpus),
        "accelerator_model_name": "NVIDIA H100-SXM5-80GB",
    }
    (systems / f"{system}.json").write_text(json.dumps(described))
    return folder
