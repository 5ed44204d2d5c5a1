"""Dumps of the NCCL flight recorder: what is read of pickles and JSON, what is refused, and who is shown as last."""

from __future__ import annotations

import gzip
import json
import pickle
from typing import TYPE_CHECKING, Any

import pytest

from ingest.errors import InputError
from ingest.ranks.flight_recorder import PROGRAM, parse_dump
from ingest.ranks.stated import Stated
from queries.sql_files import named_queries
from tests.support.command import trackside

if TYPE_CHECKING:
    from pathlib import Path

BEGIN = 1_790_812_800
SIZE = 8


def dump(rank: int, reached: int = 12, *, waits: bool = True, seconds: float = 0.0) -> dict[str, Any]:
    """A rank of eight in two groups: of all ranks, and of the four on its node, in which it waits if any."""
    node = rank // 4
    groups = {"0": ("default_pg", range(SIZE)), str(1 + node): ("mesh_tp", range(4 * node, 4 * node + 4))}
    entries = [
        {"process_group": [name, groups[name][0]], "collective_seq_id": at, "is_p2p": False,
         "profiling_name": "nccl:all_reduce",
         "state": "started" if waits and at == last and name != "0" else "completed",
         "time_created_ns": int((BEGIN + seconds) * 1e9) + at, "frames": [{"name": "f", "line": 1}]}
        for name, last in (("0", 3), (str(1 + node), reached))
        for at in (last - 1, last)
    ]  # fmt: skip
    config = {name: {"name": name, "desc": desc, "ranks": str(list(ranks))} for name, (desc, ranks) in groups.items()}
    return {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": entries}


def measures(data: bytes, name: str = "job/nccl_trace_rank_5") -> dict[str, float]:
    rows = parse_dump(data, origin=name, cluster="c", stated=Stated()).frames["rank_reports"]
    assert set(rows["rank"]) == {5}
    return dict(rows.select("measure", "value").iter_rows())


def test_pickle_and_json_say_the_same() -> None:
    values = dump(5)
    values["entries"][0]["process_group"] = tuple(values["entries"][0]["process_group"])
    expected = {
        "entered|default_pg 0 (8 ranks, 0 to 7)": 3,
        "size|default_pg 0 (8 ranks, 0 to 7)": 8,
        "entered|mesh_tp 2 (4 ranks, 4 to 7)": 12,
        "size|mesh_tp 2 (4 ranks, 4 to 7)": 4,
        "waits|nccl:all_reduce|mesh_tp 2 (4 ranks, 4 to 7)": 12,
    }
    assert measures(pickle.dumps(values, protocol=2)) == expected
    assert measures(json.dumps(values).encode(), "job/rank_5.json") == expected


def test_older_versions_are_read() -> None:
    entry = {"pg_id": 0, "seq_id": 7, "state": "scheduled", "time_created_ns": BEGIN * 10**9}
    values = {"version": "1.5", "pg_config": {"0": [0, 1]}, "entries": [entry]}
    label = "0 (2 ranks, 0 to 1)"
    assert measures(pickle.dumps(values)) == {f"entered|{label}": 7, f"size|{label}": 2, f"waits|collective|{label}": 7}


def test_status_counts_where_entries_were_overwritten() -> None:
    values = dump(5) | {"pg_status": {"2": {"last_enqueued_collective": 20}, "9": {"last_enqueued_collective": -1}}}
    found = measures(pickle.dumps(values))
    assert (found["entered|mesh_tp 2 (4 ranks, 4 to 7)"], found["entered|9"]) == (20, 0)


class Harmful:
    """An object whose pickle runs code when it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("harm",)


@pytest.mark.parametrize(
    ("data", "name", "message"),
    [
        (pickle.dumps({"entries": [Harmful()]}), "rank_5", "builtins.print"),
        (pickle.dumps(dump(5))[:-40], "rank_5", "pickle"),
        (json.dumps(dump(5)).encode()[:-9], "rank_5", "not a whole JSON object"),
        (pickle.dumps({"entries": [{"state": 5}]}), "rank_5", "state"),
        (pickle.dumps([1, 2]), "rank_5", "no dump"),
        (pickle.dumps({"entries": []}), "rank_5", "no entry with a time"),
        (pickle.dumps(dump(5)), "nccl_trace", "ends in its rank"),
    ],
)
def test_what_is_no_dump_is_refused(data: bytes, name: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match=message):
        parse_dump(data, origin=name, cluster="c", stated=Stated())
    assert "harm" not in capsys.readouterr().out


def test_lists_of_torch_are_lists() -> None:
    """C++ may write a list as a call of torch's own function, which need not be installed."""
    ranks = b"(K\x00K\x01e"
    called = b"ctorch.jit._pickle\nbuild_intlist\n(]" + ranks + b"tR"
    entry = pickle.dumps({"state": "started", "seq_id": 7, "time_created_ns": BEGIN * 10**9}, protocol=2)[2:-1]
    data = (
        b"\x80\x02}(X\x09\x00\x00\x00pg_config}(X\x01\x00\x00\x000"
        + called
        + b"uX\x07\x00\x00\x00entries]("
        + entry
        + b"eu."
    )
    assert measures(data)["size|0 (2 ranks, 0 to 1)"] == 2


def test_query_reads_what_is_written() -> None:
    assert f"'{PROGRAM}'" in named_queries()["collective_dumps"].sql


@pytest.mark.slow
def test_hang_names_the_rank_that_others_wait_for(tmp_path: Path) -> None:
    """Rank 5 stays at collective 11 of its node's group and waits nowhere; loaded twice, one file packed."""
    for rank in range(SIZE):
        values = dump(rank, 11, waits=False) if rank == 5 else dump(rank, seconds=rank)
        data = pickle.dumps(values, protocol=2)
        packed = rank == 2
        (tmp_path / f"nccl_trace_rank_{rank}{'.gz' * packed}").write_bytes(gzip.compress(data) if packed else data)
    files = sorted(map(str, tmp_path.glob("nccl_trace_rank_*")))
    for _ in range(2):
        done = trackside("ingest", "ranks", *files, "--run", "r", "--job", "7", "--warehouse", str(tmp_path / "w"))
        assert done.returncode == 0, done.stderr
    done = trackside("show", "stalls", "--by", "dump", "--format", "json", "--warehouse", str(tmp_path / "w"))
    (row,) = json.loads(done.stdout)
    assert (row["run_id"], row["job_id"], row["last_rank"], row["waiting"], row["ranks"]) == ("r", "7", 5, 7, 8)
    assert row["reason"].startswith("rank 5 entered no collective after 11 of mesh_tp 2")
    assert "wait in nccl:all_reduce 12" in row["reason"]
