"""The speed that a log prints itself, beside ours, and what other systems call the run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.command import trackside

if TYPE_CHECKING:
    from pathlib import Path

MODEL = {"params_active": 8.03e9, "layers": 32, "heads": 32, "head_dim": 128, "seq_len": 8192}
JOB = {"cluster": "c", "n_gpus": 16, "gpu_model": "H100 SXM", "dtype": "bf16", "tensor_parallel": 8, "data_parallel": 2}
IDS = {"wandb_run_id": "a1b2", "pod": "worker-0", "pod_namespace": "ml"}
PRINTED = {"printed_tflops": 412.0, "printed_mfu": 0.417, "printed_steps": 5}


@pytest.mark.slow
def test_page_compares_the_printed_speed_with_ours(tmp_path: Path) -> None:
    run = {"type": "run", "v": 1, "t": 1_790_812_800, "run_id": "r", **MODEL, **JOB, **IDS, **PRINTED}
    steps = [
        {"type": "step", "step": n, "t": 1_790_812_801 + n, "duration_s": 1.0, "tokens": 100_000} for n in range(5)
    ]
    log = tmp_path / "run.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in [run, *steps]))
    warehouse = str(tmp_path / "warehouse")
    assert trackside("ingest", "runlog", str(log), "--warehouse", warehouse).returncode == 0
    text = " ".join(trackside("run", "r", "--warehouse", warehouse).stdout.split())
    # 8.03e9 x 6 + 12 x 32 x 32 x 128 x 8192 FLOP per token, 100,000 tokens per second on 16 GPUs
    assert "the log itself prints 412 TFLOP/s per GPU and MFU 41.7 %; ours is 381.7 TFLOP/s, 7.4 % less" in text
    assert "Parallel tensor 8, data 2" in text
    assert "W&B run a1b2, pod ml/worker-0" in text
