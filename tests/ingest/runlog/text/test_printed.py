"""What a log prints about its own speed, and how its model is spread: stored beside the session."""

from __future__ import annotations

import pytest

from tests.ingest.runlog.text import test_megatron as megatron
from tests.ingest.runlog.text import test_torchtitan as titan
from tests.support.logs.foreign_logs import read

PARALLEL = """\
  context_parallel_size ........................... 2
  expert_model_parallel_size ...................... 16
  pipeline_model_parallel_size .................... 4
  tensor_model_parallel_size ...................... 8
"""


def test_megatron_prints_tflops_and_parallel_sizes() -> None:
    head = megatron.HEAD.replace("  seq_length", PARALLEL + "  seq_length", 1)
    text = head + "".join(megatron.line(2 * n, f"08:00:{10 + 4 * n}") for n in range(1, 5))
    (session,) = read(text.replace("412.3", "400.3", 1)).frames["run_sessions"].rows(named=True)
    assert session["printed_tflops"] == pytest.approx(409.3)
    assert (session["printed_mfu"], session["printed_steps"]) == (None, 8)
    names = ("tensor", "pipeline", "data", "context", "expert")
    assert [session[f"{name}_parallel"] for name in names] == [8, 4, None, 2, 16]


def test_torchtitan_prints_tflops_and_mfu() -> None:
    text = titan.FRESH + "".join(titan.line(n, f"08:00:{20 + 4 * n},000") for n in range(1, 8))
    (session,) = read(text).frames["run_sessions"].rows(named=True)
    assert session["printed_tflops"] == pytest.approx(342.67)
    assert session["printed_mfu"] == pytest.approx(0.3465)
    assert session["printed_steps"] == 7


def test_a_log_that_prints_none_has_none() -> None:
    text = megatron.HEAD + megatron.line(2, "08:00:14").replace("throughput per GPU (TFLOP/s/GPU): 412.3 | ", "")
    (session,) = read(text).frames["run_sessions"].rows(named=True)
    assert [session[name] for name in ("printed_tflops", "printed_mfu", "printed_steps")] == [None, None, None]
