"""OpenMetrics text: the text beside the rows that it makes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ingest.errors import InputError, UnrecognisedInputError, UntimedError
from ingest.files.input import LONGEST_LINE
from ingest.load_warnings import messages
from ingest.prometheus.files import by_source
from ingest.prometheus.files.openmetrics import parse_openmetrics
from ingest.prometheus.health import rules
from ingest.prometheus.mapping.mapping import builtin
from ingest.slurm.detect import detect_kind
from tests.support.slurm.parsing import at, refusals

if TYPE_CHECKING:
    import random

    from ingest.tables import Parsed

T = 1_795_248_000
NOW = at(T + 3600)
GOOD = f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",Hostname="n1"}} 50 {T + 60}'


def parse(*lines: str, end: str = "\n# EOF\n", **more: object) -> Parsed:
    data = ("\n".join(lines) + end).encode()
    parsed, *_ = parse_openmetrics([data], origin="gpus.om", cluster="c", interval_s=60, now=NOW, **more)  # type: ignore[arg-type]  # the parser's own options
    return parsed


def everything(*lines: str, end: str = "\n# EOF\n", size: int = 1 << 20, **more: object) -> dict[str, Parsed]:
    """What each source makes of a text that comes in pieces of so many bytes."""
    data = ("\n".join(lines) + end).encode()
    pieces = [data[begin : begin + size] for begin in range(0, len(data), size)]
    result = parse_openmetrics(pieces, origin="all.om", cluster="c", interval_s=60, now=NOW, **more)  # type: ignore[arg-type]  # the parser's own options
    return {parsed.source: parsed for parsed in result}


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
        (f'  DCGM_FI_DEV_GPU_UTIL{{gpu="0",Hostname="n1"}}50 {T + 60}', "gpu_util", 0.5),
        (f'{{"DCGM_FI_DEV_GPU_UTIL",gpu="0",Hostname="n1"}} 50 {T + 60}', "gpu_util", 0.5),
        (f'{{gpu="0",__name__="DCGM_FI_DEV_GPU_UTIL",Hostname="n1"}} 50 {T + 60}', "gpu_util", 0.5),
        (f'DCGM_FI_DEV_GPU_UTIL{{"gpu"="0","model.name"="x",Hostname="n1"}} 50 {T + 60}', "gpu_util", 0.5),
        (f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",model="a}} 1 2",Hostname="n1"}} 50 {T + 60}', "gpu_util", 0.5),
        (f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",model="é\\\\\\"\\n",Hostname="n1"}} 50 {T + 60}', "gpu_util", 0.5),
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
        (f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",Hostname="n1"}} 50 {T + 3600 + 601}', "lies in the future"),
        ('DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="n1"} 50 946684799', "before the year 2000"),
        ('DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="n1"} 50 NaN', "not a timestamp"),
        (f'DCGM_FI_DEV_GPU_UTIL{{gpu="0"}} 50 {T}', "no label names the node and the GPU"),
        (f"DCGM_FI_DEV_GPU_UTIL 50 {T}", "no label names the node and the GPU"),
        (f'DCGM_FI_DEV_GPU_UTIL{{gpu="0" Hostname="n1"}} 50 {T}', "not a line of the text format"),
        (f'DCGM_FI_DEV_GPU_UTIL{{gpu=0,Hostname="n1"}} 50 {T}', "not a line of the text format"),
        (f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",Hostname="n1"}} 50 {T} {T}', "not a line of the text format"),
        (f'9bad{{gpu="0"}} 50 {T}', "not a line of the text format"),
    ],
)
def test_a_line_that_cannot_be_used_is_kept_with_its_reason(line: str, reason: str) -> None:
    parsed = parse("# TYPE DCGM_FI_DEV_GPU_UTIL gauge", GOOD, line)
    ((number, output),) = refusals(parsed)
    assert number == 3
    assert output.startswith(reason)
    assert parsed.rejects["raw"].to_list() == [line]
    assert (parsed.rows_read, parsed.rows_loaded, parsed.rows_rejected) == (2, 1, 1)


def test_a_clock_slightly_ahead_is_accepted() -> None:
    assert parse(GOOD.replace(str(T + 60), str(T + 3600 + 600))).rejects.is_empty()


def test_every_row_is_accounted_for() -> None:
    parsed = parse(
        GOOD,
        GOOD,  # twice
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",Hostname="n1",hpc_job="7"}} 50 {T + 60}',  # once per job
        f'DCGM_FI_DEV_POWER_USAGE{{gpu="0",Hostname="n1"}} 140737488355328.000000 {T + 60}',  # blank
        f'DCGM_FI_DEV_GPU_TEMP{{gpu="0",Hostname="n1"}} NaN {T + 60}',
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="1",Hostname="n1"}} 5000 {T + 60}',  # implausible
        f'go_goroutines{{instance="n1"}} 3 {T}',
        "up 1",
        "rubbish",
    )
    counts = (parsed.rows_loaded, parsed.rows_duplicate, parsed.rows_skipped, parsed.rows_rejected)
    assert counts == (1, 2, 5, 1)
    assert only_values(parsed) == [("0", 0.5, None)]
    assert any("1 value is implausible" in warning for warning in messages(parsed.warnings))


def only_values(parsed: Parsed) -> list[tuple[object, ...]]:
    return parsed.frames["gpu_samples"].select("gpu", "gpu_util", "power_w").rows()


def test_ratio_given_in_percent_is_left_out_as_a_whole() -> None:
    """1 %, a quarter of a percent and 97 %: as ratios the first two would be busy, and the third nothing at all."""
    util = [
        f'DCGM_FI_DEV_GPU_UTIL_RATIO{{gpu="{gpu}",Hostname="n1"}} {value} {T + 60}'
        for gpu, value in enumerate((1, 0.25, 97))
    ]
    parsed = parse(*util, f'DCGM_FI_DEV_POWER_USAGE{{gpu="0",Hostname="n1"}} 700 {T + 60}')
    assert only_values(parsed) == [("0", None, 700.0)]
    assert (parsed.rows_loaded, parsed.rows_skipped) == (1, 3)
    (warning,) = messages(parsed.warnings)
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


def test_count_by_code_gives_a_repeat_of_the_same_xid() -> None:
    lines = [f'DCGM_FI_DEV_GPU_UTIL{{gpu="3",Hostname="n1"}} 0 {T + second}' for second in (0, 15, 30, 45)]
    counts = ((15, 1), (30, 1), (45, 2))
    lines += [f'DCGM_EXP_XID_ERRORS_TOTAL{{gpu="3",Hostname="n1",xid="48"}} {n} {T + second}' for second, n in counts]
    events = parse(*lines).frames["health_events"].select("ts", "code", "severity").rows()
    assert events == [(at(T + 15), "48", "critical"), (at(T + 45), "48", "critical")]


def test_truncated_last_line_is_refused() -> None:
    parsed = parse(GOOD, GOOD[:-3].replace('gpu="0"', 'gpu="1"'), end="")
    assert refusals(parsed) == [(2, "the file ends in the middle of this line")]
    assert parsed.rows_loaded == 1
    assert any("ends in the middle" in warning for warning in messages(parsed.warnings))


def test_a_file_may_end_with_its_end_mark_and_no_newline() -> None:
    assert parse(GOOD, end="\n# EOF").rejects.is_empty()


def test_a_window_excludes_samples_of_other_times() -> None:
    lines = [f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",Hostname="n1"}} 50 {T + second}' for second in range(0, 241, 15)]
    parsed = parse(*lines, since=at(T + 60), until=at(T + 120))
    assert only(parsed)["ts"] == at(T + 60)
    assert (parsed.covers_from, parsed.covers_until) == (at(T + 60), at(T + 120))
    assert (parsed.rows_loaded, parsed.rows_skipped) == (4, 13)


def test_readings_rarer_than_the_interval_are_warned_of() -> None:
    lines = [f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",Hostname="n1"}} 50 {T + second}' for second in range(0, 3600, 300)]
    assert any("prometheus.interval_s to 300" in warning for warning in messages(parse(*lines).warnings))


@pytest.mark.parametrize("labels", ['gpu="0",Hostname="n1"', ""])
def test_refused_lines_of_a_metric_do_not_make_it_unknown(labels: str) -> None:
    parsed = parse(f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} 50 {T + 60 + 86_400 * bool(labels)}")
    assert parsed.rows_rejected == 1
    assert messages(parsed.warnings) == []


def test_text_without_a_known_metric_is_reported() -> None:
    parsed = parse(f"up 1 {T}")
    assert (parsed.rows_loaded, parsed.rows_skipped, parsed.covers_until) == (0, 1, None)
    assert any("it has no known metric" in warning for warning in messages(parsed.warnings))


@pytest.mark.parametrize(
    ("data", "output"),
    [
        *((data, "x: empty") for data in (b"", b"\n\n", b"# EOF\n")),
        (b"JobID|State\n7|RUNNING\n", "not telemetry of a known kind; it begins with"),
        (b"\x00\x01\xff\xfe", "not telemetry of a known kind; it begins with"),
        (b"<html>", "not telemetry of a known kind; it begins with"),
        (b"hello world\nfoo bar\n", "not telemetry of a known kind; it begins with"),
    ],
)
def test_what_is_not_telemetry_is_not_taken_for_it(data: bytes, output: str) -> None:
    with pytest.raises(UnrecognisedInputError, match=output):
        parse_openmetrics([data], origin="x", cluster="c", interval_s=60, now=NOW)


@pytest.mark.parametrize("data", [f"{GOOD}\n".encode(), b"# TYPE up gauge\nup 1\n", b"PAR1\x15\x04"])
def test_telemetry_given_to_slurm_ingest_names_the_right_verb(data: bytes) -> None:
    with pytest.raises(UnrecognisedInputError, match=r"this is telemetry; load it with: trackside ingest prometheus x"):
        detect_kind(data, origin="x")


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.tuples(st.sampled_from(["0", "1"]), st.integers(1, 900)), st.floats(0, 100), min_size=1, max_size=60
    )
)
def test_samples_are_the_means_of_the_readings_of_each_minute(read: dict[tuple[str, int], float]) -> None:
    lines = [f'DCGM_FI_DEV_GPU_UTIL{{gpu="{gpu}",Hostname="n1"}} {v!r} {T + s}' for (gpu, s), v in read.items()]
    frame = parse(*lines).frames["gpu_samples"]
    cells: dict[tuple[str, int], list[float]] = {}
    for (gpu, second), value in read.items():
        cells.setdefault((gpu, -(-second // 60)), []).append(value / 100)
    result = {}
    for gpu, ts, interval_s, value in frame.select("gpu", "ts", "interval_s", "gpu_util").iter_rows():
        begin = (ts - at(T)).total_seconds()
        minute = -(-(begin + interval_s) // 60)
        assert 60 * (minute - 1) <= begin < begin + interval_s <= 60 * minute
        assert interval_s == 60 or minute in {
            min(m for g, m in cells if g == gpu),
            max(m for g, m in cells if g == gpu),
        }
        result[gpu, minute] = value
    assert result == {
        key: pytest.approx(sum(reported) / len(reported), rel=1e-6, abs=1e-9) for key, reported in cells.items()
    }


# --- all sources


NODE = 'instance="10.0.0.1:9100"'
MIXED = [
    line
    for second in range(0, 1800, 15)
    for line in (
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",Hostname="n1"}} 50 {T + second}',
        f'DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{gpu="0",Hostname="n1"}} {int(second > 600)} {T + second}',
        f'node_uname_info{{{NODE},nodename="n1"}} 1 {T + second}',
        f"node_load1{{{NODE}}} 3 {T + second}",
        f"slurm_nodes_alloc 5 {T + second}",
        f'kube_pod_info{{pod="worker-3",node="n1",created_by_kind="NodeSet"}} 1 {T + second}',
        f"go_goroutines{{{NODE}}} 7 {T + second}",
    )
]
SOURCES = ["prometheus.gpu", "prometheus.node", "prometheus.slurm", "prometheus.kubernetes", "prometheus.health"]


def test_mixed_text_is_split_by_source_and_each_line_counted() -> None:
    result = everything(*MIXED, "rubbish")
    assert list(result) == SOURCES
    counts = {
        source: (each.rows_read, each.rows_loaded, each.rows_skipped, each.rows_rejected)
        for source, each in result.items()
    }
    assert counts == {
        "prometheus.gpu": (241, 120, 120, 1),  # with what belongs to nobody
        "prometheus.node": (240, 120, 120, 0),  # how a host calls itself is no sample
        "prometheus.slurm": (120, 120, 0, 0),
        "prometheus.kubernetes": (120, 120, 0, 0),
        "prometheus.health": (240, 120, 120, 0),  # looked at by both
    }
    assert result["prometheus.node"].frames["node_samples"]["node"].unique().to_list() == ["n1"]
    assert result["prometheus.slurm"].frames["cluster_samples"]["device"].unique().to_list() == ["allocated"]
    (event,) = result["prometheus.health"].frames["health_events"].iter_rows(named=True)
    assert (event["kind"], event["gpu"], event["ts"]) == ("ecc", "0", at(T + 615))
    (alias,) = result["prometheus.kubernetes"].frames["node_aliases"].iter_rows(named=True)
    assert (alias["name"], alias["node"]) == ("n1", "worker-3")


WANTED = sorted(by_source.names(builtin()))


def kinds() -> list[str]:
    """Of the metrics that are handled alike (but for the name, the column and the scale) one each."""
    handled: dict[str, list[object]] = {name: [] for name in WANTED}
    for metric in builtin().metrics:
        column = metric.column if metric.table == "gpu_samples" else ""
        handled[metric.name].append(replace(metric, name="", column=column, scale=1.0, low=0.0, high=None))
    for rule in rules.builtin():
        for name in rule.names:
            handled[name].append(rule)
    return list({repr(how or name): name for name, how in handled.items()}.values())


def reading(name: str) -> str:
    return f'{name}{{gpu="0",Hostname="n1",instance="n1:9100",nodename="n1",pod="p",node="n1"}} 1'


@pytest.mark.slow
@pytest.mark.parametrize("name", kinds())
def test_a_mapped_metric_is_counted_in_any_file(name: str) -> None:
    """How a host calls itself vanished from the account of a file that had GPUs only."""
    result = everything(f"{reading(name)} {T}", GOOD, "unknown 1")
    assert sum(parsed.rows_read for parsed in result.values()) >= 3
    assert max(parsed.rows_read for parsed in result.values()) <= 3


def test_every_mapped_metric_is_counted_in_one_file() -> None:
    result = everything(*(f"{reading(name)} {T}" for name in WANTED))
    assert sum(parsed.rows_read for parsed in result.values()) >= len(WANTED)
    assert max(parsed.rows_read for parsed in result.values()) <= len(WANTED)


def test_file_with_host_names_only_has_nothing_to_load() -> None:
    parsed = parse(f'node_uname_info{{{NODE},nodename="n1"}} 1 {T}')
    assert (parsed.rows_read, parsed.rows_skipped) == (1, 1)
    assert any("nothing to load" in warning for warning in messages(parsed.warnings))


def same(one: dict[str, Parsed], other: dict[str, Parsed]) -> None:
    assert list(one) == list(other)
    for source, parsed in one.items():
        assert parsed.frames.keys() == other[source].frames.keys()
        for name, frame in parsed.frames.items():
            assert frame.equals(other[source].frames[name]), (source, name)
        counts = ("rows_read", "rows_loaded", "rows_duplicate", "rows_skipped", "rows_rejected", "columns", "warnings")
        assert [getattr(parsed, key) for key in counts] == [getattr(other[source], key) for key in counts], source


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 100])
def test_chunks_of_any_size_give_the_same(size: int) -> None:
    lines = MIXED[: 300 if size == 1 else None]
    same(everything(*lines, size=size), everything(*lines))


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.randoms(use_true_random=False))
def test_lines_in_any_order_give_the_same(chance: random.Random) -> None:
    lines = MIXED[:700]
    shuffled = chance.sample(lines, len(lines))
    same(everything(*shuffled), everything(*lines))


def test_what_is_written_twice_is_read_once() -> None:
    once, twice = everything(*MIXED), everything(*MIXED, *MIXED)
    for source, parsed in once.items():
        for name, frame in parsed.frames.items():
            assert frame.equals(twice[source].frames[name]), (source, name)
        of_nobody = 120 if source == "prometheus.gpu" else 0
        assert twice[source].rows_duplicate == parsed.rows_read - of_nobody
        assert twice[source].rows_skipped == parsed.rows_skipped + of_nobody


def test_larger_of_two_values_of_one_time_counts_with_a_warning() -> None:
    parsed = parse(GOOD, GOOD.replace(" 50 ", " 70 "), GOOD.replace(" 50 ", " NaN "))
    assert only_values(parsed) == [("0", pytest.approx(0.7), None)]
    assert (parsed.rows_loaded, parsed.rows_duplicate) == (1, 2)
    assert [output for output in messages(parsed.warnings) if "the larger counts" in output] == [
        "1 reading has another value than one of the same series and time: the larger counts"
    ]


def test_histograms_summaries_infos_and_creations_are_skipped() -> None:
    others = [
        f'http_seconds_bucket{{le="+Inf"}} 17 {T} # {{trace_id="a}} b"}} 0.5 {T}.5',
        f"http_seconds_count 17 {T}",
        f"http_seconds_created {T} {T}",
        f'rpc_seconds{{quantile="0.5"}} NaN {T}',
        f'build_info{{version="1"}} 1 {T}',
        f'{{"a name with spaces",x="y"}} 1 {T}',
        f"infinite +Inf {T}",
    ]
    parsed = parse("# TYPE http_seconds histogram", "# UNIT x seconds", "", GOOD, *others)
    assert (parsed.rows_loaded, parsed.rows_skipped, parsed.rows_rejected) == (1, len(others), 0)


def test_text_without_any_timestamp_is_refused_with_a_hint() -> None:
    with pytest.raises(UntimedError, match="none of its lines has a timestamp") as caught:
        parse(*(f'DCGM_FI_DEV_GPU_UTIL{{gpu="{gpu}",Hostname="n1"}} 50' for gpu in range(8)))
    assert "federate" in str(caught.value)
    assert parse("up 1").rows_skipped == 1  # what nobody wants may be as it likes


def test_a_line_without_end_is_no_text() -> None:
    with pytest.raises(UnrecognisedInputError):
        everything("x" * 2 * LONGEST_LINE, size=1 << 16)
    with pytest.raises(InputError, match="a line is longer than 1,048,576 bytes"):
        everything(GOOD, "x" * 2 * LONGEST_LINE, size=1 << 16)


def test_series_without_a_node_is_refused_once_and_then_skipped() -> None:
    lines = [f"node_load1 3 {T + second}" for second in range(0, 600, 15)]
    node = everything(GOOD, *lines)["prometheus.node"]
    assert (node.rows_read, node.rows_loaded, node.rows_skipped, node.rows_rejected) == (40, 0, 39, 1)
    assert "no label names the node" in node.rejects["reason"][0]
    assert node.rejects["origin"].to_list() == ["all.om"]


PIECES = (
    *(b"", b"\n", b"\r\n", b"{", b"}", b'"', b"} ", b"\\", b"#", b" ", b"\t", b",", b"=", b"\x00", b"\xff", b"\xc3"),
    *(b"NaN", b"-Inf", b"1e400", b"0x1p3", b"# EOF", b"9" * 30, b'{gpu="0"', b"-1", b"__name__"),
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Good text with pieces cut out, doubled, moved or replaced; or just any bytes."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=300))
    data = ("\n".join(MIXED[:40]) + "\n# EOF\n").encode()
    for _ in range(draw(st.integers(1, 6))):
        first, last = sorted((draw(st.integers(0, len(data))), draw(st.integers(0, len(data)))))
        piece = draw(st.sampled_from([data[first:last], *PIECES]))
        data = data[:first] + piece + data[draw(st.sampled_from([first, last])) :]
    return data


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(damaged(), st.integers(1, 400))
@example(
    f'{GOOD}\nnode_uname_info{{{NODE},nodename="n1"}} 1 {T}\n{{gpu="0",Hostname="n1"}} 0 {T}\nx 7 {T}\n'.encode(), 99
)
def test_no_bytes_break_the_reader_or_its_account_of_lines(data: bytes, size: int) -> None:
    pieces = [data[begin : begin + size] for begin in range(0, len(data), size)]
    with suppress(InputError):
        result = parse_openmetrics(pieces, origin="x", cluster="c", interval_s=60, now=NOW)
        stripped = [line.strip(b" \t\r") for line in data.split(b"\n")]
        lines = [line for line in stripped if line and not line.startswith(b"#")]
        read = {parsed.source: parsed.rows_read for parsed in result}  # Parsed itself checks each account
        assert max(read.values()) <= len(lines)
        assert sum(read.values()) >= len(lines)
        assert result[0].rejects["line"].drop_nulls().is_between(1, data.count(b"\n") + 1).all()
