"""OpenMetrics text: the text beside the rows that it makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ingest.errors import UnrecognisedInputError
from ingest.openmetrics import parse_openmetrics
from tests.ingest.helpers import at, refusals

if TYPE_CHECKING:
    from ingest.frames import Parsed

T = 1_795_248_000
NOW = at(T + 3600)
GOOD = f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",Hostname="n1"}} 50 {T + 60}'


def parse(*lines: str, end: str = "\n# EOF\n", **more: object) -> Parsed:
    data = ("\n".join(lines) + end).encode()
    return parse_openmetrics(data, origin="gpus.om", cluster="c", interval_s=60, now=NOW, **more)  # type: ignore[arg-type]  # the parser's own options


def only(parsed: Parsed) -> dict[str, object]:
    assert parsed.rejects["reason"].to_list() == []
    assert parsed.frames["gpu_samples"].height == 1
    return parsed.frames["gpu_samples"].row(0, named=True)


@pytest.mark.parametrize(
    ("line", "column", "value"),
    [
        (f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",Hostname="n1"}} 50 {T + 60}', "gpu_util", 0.5),
        (f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",Hostname="n1"}} 5e1 {T + 60}.000', "gpu_util", 0.5),
        (f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",Hostname="n1"}} +50 {T + 60}000', "gpu_util", 0.5),
        (f'DCGM_FI_DEV_GPU_UTIL {{ gpu="0", Hostname="n1", }}\t50\t{T + 60}  ', "gpu_util", 0.5),
        (f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",Hostname="n1"}} 50 {T + 60} # {{trace_id="a}}b"}} 1', "gpu_util", 0.5),
        (f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",model="a \\"b}}\\" 1 2",Hostname="n1"}} 50 {T + 60}\r', "gpu_util", 0.5),
        (f'DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{gpu="0",hostname="n1.x.y"}} 0.452301 {T + 60}', "tensor_active", 0.452301),
        (f'DCGM_FI_PROF_TENSOR_UTIL_RATIO{{gpu="0",hostname="n1"}} 0.25 {T + 60}', "tensor_active", 0.25),
        (f'DCGM_FI_DEV_FB_USED{{gpu="0",instance="n1:9400"}} 1 {T + 60}', "memory_used_bytes", 1048576.0),
        (f'DCGM_FI_DEV_SM_CLOCK{{gpu="0",instance="n1:9400"}} 1980 {T + 60}', "sm_clock_hz", 1.98e9),
    ],
)
def test_a_line_is_a_sample_in_base_units(line: str, column: str, value: float) -> None:
    row = only(parse(line))
    assert (row["cluster"], row["node"], row["gpu"], row["ts"]) == ("c", "n1", "0", at(T))
    assert (row["interval_s"], row[column]) == (60.0, pytest.approx(value))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("rubbish!!", "not a line of the text format"),
        ('DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="n1" 50 1795248060', "not a line of the text format"),
        (f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",Hostname="n1"}} fifty {T}', "the value is not a number"),
        ('DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="n1"} 50', "no timestamp"),
        ('DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="n1"} 50 noon', "not a timestamp"),
        ('DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="n1"} 50 -5', "not a timestamp"),
        ('DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="n1"} 50 1e99', "lies in the future"),
        ('DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="n1"} 50 9999999999', "lies in the future"),
        ('DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="n1"} 50 9999999999000', "lies in the future"),
        (f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",Hostname="n1"}} 50 {T + 3600 + 86_401}', "lies in the future"),
        ('DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="n1"} 50 946684799', "before the year 2000"),
        ('DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="n1"} 50 NaN', "not a timestamp"),
        (f'DCGM_FI_DEV_GPU_UTIL{{gpu="0"}} 50 {T}', "no label names the node and the GPU"),
        (f"DCGM_FI_DEV_GPU_UTIL 50 {T}", "no label names the node and the GPU"),
    ],
)
def test_a_line_that_cannot_be_used_is_kept_with_its_reason(line: str, reason: str) -> None:
    parsed = parse("# TYPE DCGM_FI_DEV_GPU_UTIL gauge", GOOD, line)
    ((number, said),) = refusals(parsed)
    assert number == 3
    assert said.startswith(reason)
    assert parsed.rejects["raw"].to_list() == [line]
    assert (parsed.rows_read, parsed.rows_loaded, parsed.rows_rejected) == (2, 1, 1)


def test_a_clock_that_is_a_little_ahead_is_believed() -> None:
    assert parse(GOOD.replace(str(T + 60), str(T + 3600 + 86_400))).rejects.is_empty()


def test_every_row_is_accounted_for() -> None:
    parsed = parse(
        GOOD,
        GOOD,  # twice
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",Hostname="n1",hpc_job="7"}} 50 {T + 60}',  # once per job
        f'DCGM_FI_DEV_POWER_USAGE{{gpu="0",Hostname="n1"}} 140737488355328.000000 {T + 60}',  # blank
        f'DCGM_FI_DEV_GPU_TEMP{{gpu="0",Hostname="n1"}} NaN {T + 60}',
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="1",Hostname="n1"}} 5000 {T + 60}',  # implausible
        f'node_load1{{instance="n1"}} 3 {T}',
        "up 1",
        "rubbish",
    )
    counts = (parsed.rows_loaded, parsed.rows_duplicate, parsed.rows_skipped, parsed.rows_rejected)
    assert counts == (1, 2, 5, 1)
    assert only_values(parsed) == [("0", 0.5, None)]
    assert any("1 values are outside" in warning for warning in parsed.warnings)


def only_values(parsed: Parsed) -> list[tuple[object, ...]]:
    return parsed.frames["gpu_samples"].select("gpu", "gpu_util", "power_w").rows()


def test_a_ratio_in_percent_is_left_out_whole_so_that_idle_gpus_do_not_pass_for_busy_ones() -> None:
    """1 %, a quarter of a percent and 97 %: as ratios the first two would be busy, and the third nothing at all."""
    util = [
        f'DCGM_FI_DEV_GPU_UTIL_RATIO{{gpu="{gpu}",Hostname="n1"}} {value} {T + 60}'
        for gpu, value in enumerate((1, 0.25, 97))
    ]
    parsed = parse(*util, f'DCGM_FI_DEV_POWER_USAGE{{gpu="0",Hostname="n1"}} 700 {T + 60}')
    assert only_values(parsed) == [("0", None, 700.0)]
    assert (parsed.rows_loaded, parsed.rows_skipped) == (1, 3)
    (warning,) = parsed.warnings
    assert "DCGM_FI_DEV_GPU_UTIL_RATIO" in warning
    assert "all 3 were left out" in warning


def test_exporters_that_disagree_invent_no_xids() -> None:
    one = [
        f'DCGM_FI_DEV_XID_ERRORS{{gpu="3",Hostname="n1",pod="a"}} {79 if s else 0} {T + s}' for s in range(0, 600, 15)
    ]
    late = [f'DCGM_FI_DEV_XID_ERRORS{{pod="b",gpu="3",Hostname="n1"}} 0 {T + s}' for s in range(98, 600, 15)]
    events = parse(*one, *late).frames["health_events"].select("ts", "code", "severity").rows()
    assert events == [(at(T + 15), "79", "critical")]


def test_xids_are_edges_of_the_raw_values() -> None:
    values = [(0, 0), (15, 0), (30, 79), (45, 79), (60, 79), (75, 0), (90, 31)]
    parsed = parse(*(f'DCGM_FI_DEV_XID_ERRORS{{gpu="3",Hostname="n1"}} {code} {T + second}' for second, code in values))
    events = parsed.frames["health_events"].select("node", "gpu", "ts", "code", "severity").rows()
    assert events == [("n1", "3", at(T + 30), "79", "critical"), ("n1", "3", at(T + 90), "31", "info")]


def test_a_count_by_code_tells_a_repeat_of_the_same_xid() -> None:
    lines = [f'DCGM_FI_DEV_GPU_UTIL{{gpu="3",Hostname="n1"}} 0 {T + second}' for second in (0, 15, 30, 45)]
    counts = ((15, 1), (30, 1), (45, 2))
    lines += [f'DCGM_EXP_XID_ERRORS_TOTAL{{gpu="3",Hostname="n1",xid="48"}} {n} {T + second}' for second, n in counts]
    events = parse(*lines).frames["health_events"].select("ts", "code", "severity").rows()
    assert events == [(at(T + 15), "48", "critical"), (at(T + 45), "48", "critical")]


def test_a_last_line_that_is_cut_is_refused_for_it_may_read_like_a_whole_one() -> None:
    parsed = parse(GOOD, GOOD[:-3].replace('gpu="0"', 'gpu="1"'), end="")
    assert refusals(parsed) == [(2, "the file ends in the middle of this line")]
    assert parsed.rows_loaded == 1
    assert any("ends in the middle" in warning for warning in parsed.warnings)


def test_a_file_may_end_with_its_end_mark_and_no_newline() -> None:
    assert parse(GOOD, end="\n# EOF").rejects.is_empty()


def test_a_window_leaves_out_what_speaks_for_other_times() -> None:
    lines = [f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",Hostname="n1"}} 50 {T + second}' for second in range(0, 241, 15)]
    parsed = parse(*lines, since=at(T + 60), until=at(T + 120))
    assert only(parsed)["ts"] == at(T + 60)
    assert (parsed.covers_from, parsed.covers_until) == (at(T + 60), at(T + 120))
    assert (parsed.rows_loaded, parsed.rows_skipped) == (4, 13)


def test_readings_rarer_than_the_interval_are_warned_of() -> None:
    lines = [f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",Hostname="n1"}} 50 {T + second}' for second in range(0, 3600, 300)]
    assert any("prometheus.interval_s to 300" in warning for warning in parse(*lines).warnings)


def test_text_without_a_metric_of_dcgm_says_so() -> None:
    parsed = parse(f"up 1 {T}")
    assert (parsed.rows_loaded, parsed.rows_skipped, parsed.covers_until) == (0, 1, None)
    assert any("no metric of DCGM" in warning for warning in parsed.warnings)


@pytest.mark.parametrize(
    "data", [b"", b"\n\n", b"# EOF\n", b"JobID|State\n7|RUNNING\n", b"\x00\x01\xff\xfe", b"<html>"]
)
def test_what_is_not_telemetry_is_not_taken_for_it(data: bytes) -> None:
    with pytest.raises(UnrecognisedInputError, match=r"not telemetry that we know; it begins with"):
        parse_openmetrics(data, origin="x", cluster="c", interval_s=60, now=NOW)
