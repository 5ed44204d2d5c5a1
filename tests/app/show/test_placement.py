"""`trackside show placement` on two clusters with the same names of nodes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from app.api import QUESTIONS
from app.compute import pipeline as computing
from app.config.settings import Config
from app.results.placement.rows import places, span_rows
from app.show.answer import Question
from app.window import Window
from ingest.slurm import load_files as ingesting
from metrics import frames
from metrics.placement.spans import spans
from queries.warehouse import open_reader, open_writer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from queries.warehouse import Reader

HOUR = 3600
START = 1_790_812_800  # 2026-10-01T00:00:00Z
END = START + 10 * HOUR


def moment(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)


NOW = moment(END + HOUR)
WINDOW = Window("c", moment(START), moment(END))


def job(number: int, nodes: str, begin: int, end: int, **other: str) -> str:
    """A job on all GPUs of nodes; hours since `START`. It waited from `eligible` on."""
    cluster, eligible = other.get("cluster", "c"), int(other.get("eligible", begin))
    n = 1 if "[" not in nodes else nodes.count(",") + 2 if "-" in nodes else nodes.count(",") + 1
    times = f"{START + eligible * HOUR}|{START + begin * HOUR}|{START + end * HOUR}"
    return (
        f"{number}|{number}|{cluster}|ann|lab|main|train|COMPLETED|0:0|{START}|{times}|{n}|gres/gpu={2 * n}|{nodes}\n"
    )


SACCT = (
    "JobID|JobIDRaw|Cluster|User|Account|Partition|JobName|State|ExitCode|Submit|Eligible|Start|End|NNodes|AllocTRES"
    "|NodeList\n"
    + job(1, "n[1-2]", 1, 5)  # one block
    + job(2, "n[3,5]", 2, 10)  # two, where n3 and n4 were free
    + job(3, "n[4,6]", 3, 10)  # two, and no block had two nodes free
    + job(4, "n9", 1, 2)
    + job(5, "n[1-2]", 8, 9, eligible="5")  # n2 was idle, n1 down
    + job(1, "n[1,3]", 1, 5, cluster="d")
)
NODES = "".join(
    f"NodeName=n{number} CPUAlloc=0 CPUTot=64 Gres=gpu:h100:2 State=IDLE Partitions=main,debug\n\n"
    for number in range(1, 7)
)
TOPOLOGY = "".join(
    f"BlockName=b{block} BlockIndex={block} Nodes=n[{2 * block - 1}-{2 * block}] BlockSize=2\n" for block in (1, 2, 3)
)


EVENTS = (
    "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User\n"
    f"c|n1|{START + 5 * HOUR}|{START + 8 * HOUR}|DOWN|Not responding|slurm\n"
)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("placed")
    texts = {"sacct.txt": SACCT, "nodes.txt": NODES, "topology.txt": TOPOLOGY, "events.txt": EVENTS}
    for name, text in texts.items():
        (root / name).write_text(text)
    settings = Config()
    named = ingesting.Options(cluster="c", until=moment(END))
    with open_writer(root / "w", verb="test", now=NOW) as writer:
        for names, options in (
            (["sacct.txt"], ingesting.Options()),
            (["nodes.txt", "topology.txt", "events.txt"], named),
        ):
            files = [str(root / name) for name in names]
            reports = ingesting.ingest_files(writer, settings, files, options, now=NOW, progress=_silent)
            assert not [each.error for each in reports if each.error]
        computing.compute(writer, settings, now=NOW)
    return root / "w"


def _silent(_what: str, _done: int, _all: int) -> None:
    pass


@pytest.fixture
def reader(warehouse: Path) -> Iterator[Reader]:
    with open_reader(warehouse) as opened:
        yield opened


def rows(reader: Reader, by: str, window: Window = WINDOW) -> list[dict[str, Any]]:
    return QUESTIONS["placement"](reader, window, Question(by=by)).rows.to_dicts()


def test_placement_compares_with_what_was_free(reader: Reader) -> None:
    (row,) = rows(reader, "size")
    assert (row["subject"], row["n"], row["n_known"]) == ("3-4", 4, 4)
    assert (row["spanned"], row["least"], row["least_empty"], row["excess"]) == (1 + 2 + 2 + 1, 1 + 1 + 2 + 1, 4, 1)
    assert row["excess_gpu_s"] == 4 * 8 * HOUR


def test_placement_of_a_cluster_without_topology_is_unknown(reader: Reader) -> None:
    other = Window("d", WINDOW.since, WINDOW.until)
    (row,) = rows(reader, "size", other)
    assert (row["n"], row["n_known"], row["share"]) == (1, 0, None)
    unknown = ("spanned", "least", "least_empty", "excess", "excess_gpu_s", "upper_spanned", "upper_least")
    assert [row[name] for name in unknown] == [None] * len(unknown)
    answer = QUESTIONS["placement"](reader, other, Question(by="size"))
    assert "scontrol show topology" in " ".join(answer.notes)


def test_placement_by_segment_counts_idle_nodes_in_blocks(reader: Reader) -> None:
    """Right before the end n1 and n2 are idle, and n9, of which no place is known."""
    found = {row["segment"]: (row["segments"], row["usable_gpus"], row["left_over"]) for row in rows(reader, "segment")}
    assert found[2] == (1, 4.0, found[1][0] - 2)


def test_placement_by_block_has_jobs_across(reader: Reader) -> None:
    found = {row["block"]: (row["idle"], row["attempts"], row["across"]) for row in rows(reader, "block")}
    assert (found["b1"], found["b2"], found["b3"]) == ((2, 0, 0), (0, 2, 2), (0, 2, 2))


def test_placement_effects_of_few_are_unknown(reader: Reader) -> None:
    found = {row["what"]: row for row in rows(reader, "effect")}
    assert found["step_time"]["reads"] == "cannot tell: too few"
    assert (found["failures"]["n"], found["failures"]["n_other"]) == (1, 3)


def test_placement_by_run_names_each_run_once(reader: Reader) -> None:
    found = rows(reader, "run")
    assert len({row["subject"] for row in found}) == len(found) == 4
    assert found[0]["excess"] == 1


def test_interruptions_by_delay_has_who_waited_for_a_node(reader: Reader) -> None:
    answer = QUESTIONS["interruptions"](reader, WINDOW, Question(by="delay"))
    found = {row["kind"]: (row["n"], row["delayed_gpu_s"]) for row in answer.rows.iter_rows(named=True)}
    assert found == {
        "nodes out of service": (1, 4 * 3 * HOUR),
        "blocks out of service": (0, None),
        "preempting restart": (0, None),
    }
    assert answer.details[0].rows["job_id"].to_list() == ["5"]


@pytest.mark.slow
@pytest.mark.parametrize(("since", "until"), [(0, 10), (1, 2), (2, 3), (3, 8), (5, 9), (8, 10), (9, 10)])
def test_placement_of_a_period_needs_no_earlier_attempts(reader: Reader, since: int, until: int) -> None:
    part = Window("c", moment(START + since * HOUR), moment(START + until * HOUR))
    every = frames.conform(reader.query("attempt_nodes", cluster="c"), frames.ATTEMPT_NODES)
    expected = spans(
        frames.conform(reader.query("attempts", cluster="c"), frames.ATTEMPTS),
        every,
        places(reader, part),
        nodes=frames.conform(reader.query("nodes", cluster="c"), frames.NODES),
        inventory=frames.conform(reader.query("inventory_of", cluster="c"), frames.INVENTORY),
        node_states=frames.conform(reader.query("node_states", cluster="c"), frames.NODE_STATES),
        since=part.since,
        until=part.until,
    )
    assert span_rows(reader, part).select(expected.columns).equals(expected)
    within = reader.query("attempt_nodes_in", **part.parameters)
    meets = (pl.col("started_at") < part.until) & (pl.col("ended_at") >= part.since)
    assert_frame_equal(frames.conform(within, frames.ATTEMPT_NODES), every.filter(meets), check_row_order=False)
