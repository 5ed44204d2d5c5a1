"""Objects as kubectl and the API print them: lists, single ones, watches, cut and damaged ones."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ingest.errors import InputError
from ingest.kubernetes.parse import parse_objects
from tests.support.kubernetes.objects import NOW, as_list, as_watch, as_yaml, at, moment, owner, pod, queued, workload

NODE = {
    "kind": "Node",
    "metadata": {
        "name": "host-1",
        "uid": "n1",
        "creationTimestamp": at(0),
        "labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
    },
    "status": {
        "capacity": {"cpu": "192", "nvidia.com/gpu": "8"},
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at(1), "lastHeartbeatTime": at(90)}],
    },
}


def test_list_is_read_with_an_account_of_every_object() -> None:
    parsed = parse_objects(
        as_list(pod("a"), workload("Job", "j"), {"kind": "Service", "metadata": {}}), origin="x", cluster="c", now=NOW
    )
    assert (parsed.rows_read, parsed.rows_loaded, parsed.rows_skipped, parsed.rows_rejected) == (3, 2, 1, 0)
    assert parsed.frames["object_lists"].rows() == [("c", "Pod", "team-a", moment(1))]
    assert (parsed.covers_from, parsed.covers_until) == (moment(0), moment(1))


def test_list_of_the_api_names_the_kind_once() -> None:
    item = {name: value for name, value in pod("a").items() if name not in {"kind", "apiVersion"}}
    text = json.dumps({"kind": "PodList", "apiVersion": "v1", "items": [item]}).encode()
    assert parse_objects(text, origin="x", cluster="c", now=NOW).frames["pods"].height == 1


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(pod("a")).encode(),
        json.dumps([pod("a")]).encode(),
        b"\n".join(json.dumps(one).encode() for one in (pod("a"), pod("a"))),
        json.dumps(pod("a"), indent=4).encode() + b"\n" + json.dumps(pod("a"), indent=4).encode(),
        as_watch(("ADDED", pod("a")), ("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "7"}})),
    ],
    ids=["object", "array", "lines", "one after the other", "watch"],
)
def test_other_forms_are_read(text: bytes) -> None:
    parsed = parse_objects(text, origin="x", cluster="c", now=NOW)
    assert parsed.frames["pods"]["name"].to_list() == ["a"]
    assert parsed.frames["object_lists"].is_empty()
    assert parsed.rows_rejected == 0


def test_yaml_says_what_json_says() -> None:
    many = (pod("a", ended=3, exit_code=1), workload("Job", "j"), NODE, queued("q", above=owner("Job", "j")))
    parsed = [parse_objects(text(*many), origin="x", cluster="c", now=NOW) for text in (as_list, as_yaml)]
    for name, frame in parsed[0].frames.items():
        assert frame.equals(parsed[1].frames[name])
    assert (parsed[1].rows_read, parsed[1].rows_rejected) == (4, 0)


def test_documents_of_yaml_are_read_one_by_one() -> None:
    text = yaml.safe_dump_all([pod("a"), {"type": "DELETED", "object": pod("b", ended=2)}, None]).encode()
    frame = parse_objects(text, origin="x", cluster="c", now=NOW).frames["pods"].sort("name")
    assert frame.select("name", "deleted_at").rows() == [("a", None), ("b", moment(2))]


def test_cut_list_of_yaml_says_nothing_of_others() -> None:
    lines = as_yaml(pod("a"), pod("b"), pod("c")).splitlines(keepends=True)
    inside = next(number for number, line in enumerate(lines) if line.strip() == b"name: b")
    for end in range(inside, len(lines) - 1):
        parsed = parse_objects(b"".join(lines[:end]), origin="x", cluster="c", now=NOW)
        assert parsed.frames["object_lists"].is_empty()
        assert set(parsed.frames["pods"]["name"]) <= {"a", "b"}
        assert parsed.rows_rejected == 1


def test_yaml_that_ends_within_a_line_is_refused_with_its_line() -> None:
    text = as_yaml(pod("a"), pod("b")).replace(b"name: b", b"name: 'b")
    with pytest.raises(InputError, match="line"):
        parse_objects(text, origin="x", cluster="c", now=NOW)


def test_removal_that_a_watch_reports_ends_a_pod() -> None:
    removed = pod("a", ended=30)
    removed["metadata"]["deletionTimestamp"] = at(31)
    parsed = parse_objects(as_watch(("ADDED", pod("a")), ("DELETED", removed)), origin="x", cluster="c", now=NOW)
    assert parsed.frames["pods"].select("ended_at", "deleted_at").rows() == [(moment(30), moment(31))]


def test_removal_by_force_ends_a_pod_at_the_latest_time_above() -> None:
    events = as_watch(("ADDED", pod("a")), ("MODIFIED", pod("b", ended=30)), ("DELETED", pod("a")), ("ADDED", NODE))
    parsed = parse_objects(events, origin="x", cluster="c", now=NOW)
    ends = dict(parsed.frames["pods"].select("name", "deleted_at").iter_rows())
    assert ends == {"a": moment(30), "b": None}
    assert [each.record() for each in parsed.warnings] == [{"code": "removed_undated", "count": 1, "detail": ""}]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
def test_mark_or_utf_16_makes_no_difference(encoding: str) -> None:
    watch = as_watch(("ADDED", pod("a")), ("ADDED", pod("b")))
    for text, height in ((watch, 2), (as_yaml(pod("a"), pod("b")), 2), (as_list(), 0)):
        parsed = parse_objects(text.decode().encode(encoding), origin="x", cluster="c", now=NOW)
        assert (parsed.frames["pods"].height, parsed.rows_rejected) == (height, 0)


def test_cut_input_keeps_what_is_whole_and_reports_the_rest() -> None:
    text = as_watch(("ADDED", pod("a")), ("ADDED", pod("b")))[:-40]
    parsed = parse_objects(text, origin="x", cluster="c", now=NOW)
    assert parsed.frames["pods"]["name"].to_list() == ["a"]
    assert parsed.rejects["reason"].to_list()[0].startswith("the JSON ends or breaks here")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"metadata": {"name": "a", "uid": "u"}}, "creationTimestamp"),
        ({"metadata": {"name": "a", "uid": "u", "creationTimestamp": "yesterday"}}, "RFC3339"),
        ({"metadata": {"name": "a", "uid": "u", "creationTimestamp": "2026-10-01T00:00:00"}}, "timezone"),
        ({"metadata": {"name": "x" * 5_000, "uid": "u", "creationTimestamp": at(0)}}, "length"),
        ({"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "many"}}}]}}, "no number of GPUs"),
        ({"status": "fine"}, "status"),
    ],
)
def test_damaged_object_is_refused_and_the_others_are_read(change: dict[str, object], reason: str) -> None:
    parsed = parse_objects(as_list({**pod("bad"), **change}, pod("good")), origin="x", cluster="c", now=NOW)
    assert parsed.frames["pods"]["name"].to_list() == ["good"]
    assert reason in parsed.rejects["reason"].item()
    assert parsed.rejects["raw"].item().startswith("{")


@pytest.mark.parametrize("value", ['"\\ud800"', "9" * 400, "[" * 900 + "]" * 900], ids=["half", "digits", "nested"])
def test_odd_values_of_others_do_not_hide_an_object(value: str) -> None:
    odd = json.dumps(pod("odd")).replace('"spec":', f'"more": {value}, "spec":').encode()
    for text in (as_list(pod("a")) + odd, odd + as_list(pod("a"))):
        assert "a" in parse_objects(text, origin="x", cluster="c", now=NOW).frames["pods"]["name"].to_list()


@pytest.mark.parametrize("text", [b"", b"a: 1", b"JobID|State", b'{"v": 1, "step": 2}', b"\x1f\x8b", b"[" * 50_000])
def test_input_without_objects_is_refused(text: bytes) -> None:
    with pytest.raises(InputError):
        parse_objects(text, origin="x", cluster="c", now=NOW)


def test_node_has_its_gpus_and_dates_the_observation() -> None:
    frame = parse_objects(as_list(NODE), origin="x", cluster="c", now=NOW).frames["nodes"]
    row = frame.row(0, named=True)
    assert (row["node"], int(row["n_gpus"]), row["gpu_model"]) == ("host-1", 8, "NVIDIA-H100-80GB-HBM3")
    assert (row["valid_from"], row["last_seen_at"]) == (moment(0), moment(90))


@given(st.binary(max_size=200), st.integers(0, 2_000))
def test_no_bytes_break_the_reader(noise: bytes, place: int) -> None:
    text = as_list(pod("a"), pod("b", ended=5))
    try:
        parsed = parse_objects(text[:place] + noise + text[place:], origin="x", cluster="c", now=NOW)
    except InputError:
        return
    assert parsed.rows_read == parsed.rows_loaded + parsed.rows_duplicate + parsed.rows_skipped + parsed.rows_rejected
