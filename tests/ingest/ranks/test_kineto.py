"""Traces of PyTorch's profiler: computation and waiting of each step, and reasons for what cannot be used."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.errors import InputError
from ingest.ranks.kineto import rank_lines
from tests.support.command import contents, trackside

if TYPE_CHECKING:
    from pathlib import Path

BASE_S = 1_790_812_800
NAME = "runs/llama-8b/n7_4711.1790812900123456789.pt.trace.json"


def event(kind: str, name: str, begin: float, length: float) -> dict[str, Any]:
    return {"ph": "X", "cat": kind, "name": name, "pid": 0, "tid": 7, "ts": begin, "dur": length, "args": {"stream": 7}}


EVENTS = [
    {"ph": "M", "name": "process_name", "ts": 0, "pid": 0, "args": {"name": "python"}},
    event("cpu_op", "aten::mm", 5, 10),
    event("user_annotation", "ProfilerStep#12", 0, 90),
    event("gpu_user_annotation", "ProfilerStep#12", 100, 1000),
    event("gpu_user_annotation", "ProfilerStep#13", 1100, 1000),
    event("kernel", "ampere_bf16_gemm", 100, 300),
    event("kernel", "ampere_bf16_gemm", 300, 200),  # both at once from 300 to 400
    event("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 450, 450),  # alone from 500 to 900
    event("kernel", "vectorized_elementwise", 1050, 100),  # into the next step
    event("kernel", "ncclDevKernel_AllGather_RING_LL", 1400, 600),
]


def trace_of(events: list[Any] = EVENTS, **changes: Any) -> bytes:
    head = {
        "schemaVersion": 1,
        "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8, "pg_config": [{"ranks": [0, 1]}]},
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": BASE_S * 1_000_000_000,
    }
    head = {name: value for name, value in {**head, **changes}.items() if value is not None}
    return json.dumps({**head, "traceEvents": events, "traceName": "x"}).encode()


def lines(data: bytes, name: str = NAME, size: int = 1 << 20) -> list[dict[str, Any]]:
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    return [json.loads(line) for line in rank_lines(chunks, name)]


def test_steps_become_lines_of_computation_and_waiting() -> None:
    first, second = lines(trace_of())
    assert first == {
        "type": "rank_steps", "run_id": "llama-8b", "node": "n7", "rank": 3, "t": BASE_S + 100e-6,
        "end": BASE_S + 1100e-6, "step": 12, "steps": 1, "compute_s": pytest.approx(450e-6),
        "wait_s": pytest.approx(400e-6),
    }  # fmt: skip
    assert (second["step"], second["compute_s"], second["wait_s"]) == (13, pytest.approx(50e-6), pytest.approx(600e-6))


@given(st.integers(1, 400))
def test_pieces_of_any_size_are_the_same_trace(size: int) -> None:
    assert lines(trace_of(), size=size) == lines(trace_of())


def test_older_traces_count_from_1970_and_mark_steps_on_the_host() -> None:
    older = [{**each, "ts": each["ts"] + BASE_S * 1e6} for each in EVENTS if each.get("cat") != "gpu_user_annotation"]
    (line,) = lines(trace_of(older, baseTimeNanoseconds=None, host_name="n9"))
    assert (line["t"], line["node"], line["step"]) == (BASE_S, "n9", 12)


@pytest.mark.parametrize(
    ("data", "name", "reason"),
    [
        (trace_of(distributedInfo=None), NAME, "single process"),
        (trace_of(), "trace.json", "names no host"),
        (trace_of(baseTimeNanoseconds=None), NAME, "no time of day"),
        (trace_of(EVENTS[:5]), NAME, "no GPU kernels"),
        (trace_of(EVENTS[5:]), NAME, "no step"),
        (trace_of()[:-200], NAME, "ends within its events"),
        (trace_of()[:-3], NAME, "too early"),
        (b'{"schemaVersion": 1, "deviceProperties": []}', NAME, "no list of events"),
        (trace_of().replace(b'"ph": "X"', b'"ph" "X"', 1) + b" " * 5_000_000, NAME, "no JSON"),
        (b'{"traceEvents": [' + b"[" * 200_000, NAME, "ends within"),
    ],
)
def test_what_cannot_be_used_is_refused_with_reason(data: bytes, name: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        lines(data, name)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_strange_values_are_passed_over(value: Any) -> None:
    strange = [value, {"ph": "X", "cat": value, "name": "k", "ts": 1, "dur": 1}]
    strange += [{"ph": "X", "cat": "kernel", "name": value, "ts": 1, "dur": 1}]
    strange += [{"ph": "X", "cat": "kernel", "name": "nccl", "ts": 10**400, "dur": value}]
    assert [line["step"] for line in lines(trace_of([*strange, *EVENTS]))] == [12, 13]


def test_traces_are_loaded_like_rank_times(tmp_path: Path) -> None:
    folder = tmp_path / "llama-8b"
    folder.mkdir()
    (folder / "n7_4711.17.pt.trace.json.gz").write_bytes(gzip.compress(trace_of()))
    (folder / "n7_4712.18.pt.trace.json").write_bytes(trace_of()[:-300])
    done = trackside("ingest", "ranks", *map(str, sorted(folder.iterdir())), "--warehouse", str(tmp_path / "w"))
    assert "ends within its events" in done.stdout + done.stderr
    rows = contents(tmp_path / "w")["rank_steps"].sort("first_step")
    assert rows["first_step"].to_list() == [12, 13]
    assert rows["run_id"].unique().to_list() == ["llama-8b"]
