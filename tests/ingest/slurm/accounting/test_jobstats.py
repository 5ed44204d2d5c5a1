"""Summaries of jobstats in AdminComment: written here by the documented format, whole, cut, damaged and hostile."""

from __future__ import annotations

import base64
import gzip
import json
import random
from typing import Any

import polars as pl
import pytest

from ingest.context import ParseContext
from ingest.slurm.accounting.jobstats import MOST_JSON, DamagedError, digest, job_summaries, nodes_of
from ingest.slurm.accounting.sacct import parse_accounting
from ingest.tables import JOB_SUMMARIES
from tests.support.slurm.parsing import DATA, parse, text

NODE = {
    "cpus": 12, "gpu_total_memory": {"1": 85_899_345_920, "3": 85_899_345_920},
    "gpu_used_memory": {"1": 83_314_868_224, "3": 1_000}, "gpu_utilization": {"1": 98.6, "3": 0},
    "total_memory": 137_438_953_472, "total_time": 57_620.8, "used_memory": 84_683_702_272,
}  # fmt: skip
"""A node of the example in jobstats' manual, with a second GPU that was never busy."""


def encoded(summary: object) -> str:
    """As `Jobstats.report_job_json(True)`: compact JSON, gzip, base64."""
    return packed(json.dumps(summary, separators=(",", ":")).encode("ascii"))


def packed(data: bytes) -> str:
    return "JS1:" + base64.b64encode(gzip.compress(data, mtime=0)).decode("ascii")


def summary(**nodes: object) -> dict[str, Any]:
    return {"nodes": nodes, "total_time": 50_944, "gpus": 2}


def rows(text: str) -> list[dict[str, Any]]:
    frame = pl.DataFrame([(digest(text), *row) for row in nodes_of(text)], schema=JOB_SUMMARIES, orient="row")
    return frame.drop("digest").to_dicts()


def test_a_summary_gives_the_use_of_each_node() -> None:
    first, second = rows(encoded(summary(n1=NODE, n2={"cpus": 4})))
    assert first == {
        "node": "n1", "run_s": 50_944.0, "job_gpus": 2, "n_cpus": 12.0, "cpu_s": 57_620.8,
        "memory_bytes": 137_438_953_472.0, "used_memory_bytes": 84_683_702_272.0, "n_gpus": 2,
        "gpu_util_sum": 0.986, "n_unused_gpus": 1,
        "n_memory_gpus": 2, "gpu_used_bytes": 83_314_869_224.0, "gpu_memory_bytes": 171_798_691_840.0,
    }  # fmt: skip
    measures = {name: value for name, value in second.items() if value is not None}
    assert measures == {"node": "n2", "run_s": 50_944.0, "job_gpus": 2, "n_cpus": 4.0, "n_gpus": 0, "n_memory_gpus": 0}


@pytest.mark.parametrize("comment", ["JS1:Short", "JS1:None"])
def test_jobs_of_which_jobstats_had_nothing_are_not_damaged(comment: str) -> None:
    frame, warnings = job_summaries(pl.Series("admin_comment", [comment, "a note", None, ""]))
    assert (frame.height, warnings) == (0, [])
    assert frame.schema == pl.Schema(JOB_SUMMARIES)


def outcome(text: str) -> object:
    """The rows of a summary, or that it was refused with a reason."""
    try:
        return rows(text)
    except DamagedError as error:
        return "refused" if str(error) else "refused without a reason"


HOSTILE: dict[str, tuple[str, str]] = {
    "small letters": (encoded(summary(n1=NODE)).lower(), "in lower case"),
    "small letters of a mark": ("js1:short", "in lower case"),
    "another version": ("JS2:H4sI", "unknown version, JS2"),
    "no base64": ("JS1:!!!!", "no base64"),
    "base64 cut": (encoded(summary(n1=NODE))[:51], "no base64, or cut"),
    "nothing": ("JS1:", "gzip is cut"),
    "no gzip": ("JS1:" + base64.b64encode(b"no gzip at all").decode(), "no gzip"),
    "gzip cut": ("JS1:" + base64.b64encode(gzip.compress(b"{}" * 99)[:20]).decode(), "gzip is cut"),
    "a wrong checksum": ("JS1:" + base64.b64encode(gzip.compress(b"{}", mtime=0)[:-8] + b"\0" * 8).decode(), "damaged"),
    "a bomb": (packed(b"0" * (MOST_JSON + 1)), "unpacks to more than 8 MiB"),
    "too long": ("JS1:" + "A" * (1 << 20), "longer than"),
    "no JSON": (packed(b'{"nodes": {'), "no JSON of jobstats"),
    "deep JSON": (packed(b'{"nodes":{"n":{"a":' + b"[" * 100_000), "no JSON of jobstats"),
    "a list": (encoded([summary(n1=NODE)]), "no JSON of jobstats"),
    "no nodes": (encoded({"total_time": 3}), "no JSON of jobstats"),
    "a node that is a number": (encoded(summary(n1=3)), "no JSON of jobstats"),
    "no UTF-8": (packed(b'{"nodes":{"\xff":{}}}'), "no JSON of jobstats"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_damaged_summary_is_counted_and_its_job_is_loaded(name: str) -> None:
    comment, reason = HOSTILE[name]
    parsed = parse(text({"AdminComment": comment}))
    assert parsed.frames["attempts"]["admin_comment"].to_list() == [comment]
    assert parsed.frames["job_summaries"].is_empty()
    (warning,) = [each for each in parsed.warnings if each.code == "job_summary_damaged"]
    assert warning.count == 1
    assert reason in warning.message


def test_values_that_cannot_be_are_null() -> None:
    strange = {"cpus": -1, "total_time": True, "used_memory": "9", "total_memory": 10**30,
               "gpu_utilization": {"0": 101, "1": None, "2": 50.0}, "gpu_used_memory": [1], "gpu_total_memory": {},
               }  # fmt: skip
    (row,) = rows(encoded({"nodes": {"n1": strange}, "total_time": None, "gpus": None}))
    assert {row[name] for name in ("n_cpus", "cpu_s", "used_memory_bytes", "memory_bytes", "run_s", "job_gpus")} == {
        None
    }
    assert (row["n_gpus"], row["gpu_util_sum"], row["n_memory_gpus"], row["gpu_used_bytes"]) == (1, 0.5, 0, None)


def test_any_cut_or_flipped_byte_is_read_or_has_a_reason() -> None:
    whole = encoded(summary(n1=NODE, n2=NODE))
    expected = rows(whole)
    random.seed(20261123)
    for at in range(4, len(whole)):
        flipped = whole[:at] + random.choice("ABCxyz019+/=") + whole[at + 1 :]
        for damaged in (whole[:at], flipped):
            assert outcome(damaged) in (expected, [], "refused")


def test_equal_comments_are_kept_once_and_counted_each() -> None:
    good, bad = encoded(summary(n1=NODE)), "JS1:AAAA"
    frame, warnings = job_summaries(pl.Series("admin_comment", [good, bad, good, bad, bad]))
    assert (frame["digest"].to_list(), [each.count for each in warnings]) == ([digest(good)], [3])


def test_blob_of_scontrol_is_read_and_one_of_old_sacctmgr_not() -> None:
    parsed = parse_accounting((DATA / "usage.sacct.txt").read_bytes(), ParseContext(origin="x"))
    (row,) = parsed.frames["job_summaries"].to_dicts()
    assert (row["node"], row["gpu_util_sum"], row["run_s"]) == ("n1", 0.615, 8.0)
    comments = parsed.frames["attempts"].filter(pl.col("job_id") == "1")["admin_comment"].to_list()
    assert [digest(each) for each in comments] == [row["digest"]]
    assert [each.count for each in parsed.warnings if each.code == "job_summary_damaged"] == [1]
