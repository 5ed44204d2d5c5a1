"""Attempts that one dump knows by the id that people see, and another by the raw id."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from app.config.settings import Config
from ingest.slurm import load_files as ingesting
from queries.warehouse import open_reader, open_writer
from tests.support.orders import three_orders

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import polars as pl

NOW = datetime(2026, 12, 1, tzinfo=UTC)
HEAD = "Cluster|Submit|Start|End|State|NodeList|AllocTRES|User|JobID"
ROWS = (
    ("29_0", "32", "1795247000|1795247010|1795247110|COMPLETED|n1|gres/gpu=8,node=1|amara"),
    ("29_1", "29", "1795247000|1795247020|1795247120|FAILED|n2|gres/gpu=8,node=1|amara"),
    ("29_2", "33", "1795247000|1795247020|1795247120|NODE_FAIL|n7|gres/gpu=8,node=1|amara"),
    ("29_2", "33", "1795247130|1795247300|1795247900|COMPLETED|n8|gres/gpu=8,node=1|amara"),
    ("11+0", "11", "1795247000|1795247010|1795247110|COMPLETED|n3|gres/gpu=4,node=1|bjorn"),
    ("11+1", "12", "1795247000|1795247010|1795247110|COMPLETED|n4|gres/gpu=4,node=1|bjorn"),
    ("40", "40", "1795247000|1795247010|1795247110|NODE_FAIL|n5|gres/gpu=8,node=1|chen"),
    ("40", "40", "1795247115|1795247300|1795247900|COMPLETED|n6|gres/gpu=8,node=1|chen"),
)


def dumps(folder: Path) -> dict[str, Path]:
    """The same attempts with and without JobIDRaw."""
    raw, plain = folder / "raw.txt", folder / "plain.txt"
    raw.write_text("\n".join([f"{HEAD}|JobIDRaw", *(f"c1|{rest}|{shown}|{own}" for shown, own, rest in ROWS)]) + "\n")
    plain.write_text("\n".join([HEAD, *(f"c1|{rest}|{shown}" for shown, _, rest in ROWS)]) + "\n")
    return {"raw": raw, "plain": plain}


def loaded(root: Path, *files: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    for file in files:
        with open_writer(root, verb="test", now=NOW) as writer:
            ingesting.ingest_files(
                writer, Config(), [str(file)], ingesting.Options(), now=NOW, progress=lambda *_: None
            )
    with open_reader(root) as reader:
        lost = "SELECT * FROM resubmissions ANTI JOIN stored.attempts USING (cluster, scheduler, job_id, submitted_at)"
        assert reader.frame(lost).is_empty()
        return tuple(reader.table(name).sort("job_id", "submitted_at") for name in ("attempts", "attempt_nodes"))  # type: ignore[return-value]  # two names, two tables


@pytest.mark.slow
@pytest.mark.parametrize("order", [*itertools.permutations(("raw", "plain")), ("plain", "raw", "plain", "raw")])
def test_dumps_with_and_without_raw_ids_give_the_same_attempts(tmp_path: Path, order: tuple[str, ...]) -> None:
    files = dumps(tmp_path)

    attempts, nodes = loaded(tmp_path / "both", *(files[name] for name in order))
    expected, expected_nodes = loaded(tmp_path / "one", files["raw"])

    assert attempts.equals(expected)
    assert nodes.equals(expected_nodes)
    assert attempts["job_id"].to_list() == ["11", "12", "29", "32", "33", "33", "40", "40"]


def test_displayed_ids_are_the_key_if_no_dump_has_raw_ids(tmp_path: Path) -> None:
    attempts, _ = loaded(tmp_path / "w", dumps(tmp_path)["plain"])

    assert attempts["job_id"].to_list() == ["11+0", "11+1", "29_0", "29_1", "29_2", "29_2", "40", "40"]


ARRAY = {
    "waiting": ("50_[2-3,5%1]|1795247000|Unknown|Unknown|PENDING|None assigned||amara",),
    "first": ("50_2|1795247000|1795247010|1795247110|COMPLETED|n1|gres/gpu=8,node=1|amara",),
    "rest": (
        "50_3|1795247000|1795247110|1795247210|COMPLETED|n1|gres/gpu=8,node=1|amara",
        "50_5|1795247300|1795247310|Unknown|RUNNING|n1|gres/gpu=8,node=1|amara",
    ),
}


def ids_by_order(folder: Path, head: str, dumps: Mapping[str, Sequence[str]]) -> dict[tuple[str, ...], list[str]]:
    """Ids of what was loaded, by the order of the dumps: each order is a cluster, all n-th dumps are one file."""
    orders = {f"c{number}": order for number, order in enumerate(itertools.permutations(dumps))}
    folder.mkdir()
    files = []
    for place in range(len(dumps)):
        rows = [f"{row}|{cluster}" for cluster, order in orders.items() for row in dumps[order[place]]]
        files.append(folder / f"{place}.txt")
        files[-1].write_text("\n".join([f"{head}|Cluster", *rows, ""]))
    attempts, _ = loaded(folder / "orders", *files)
    return {order: attempts.filter(cluster=cluster)["job_id"].to_list() for cluster, order in orders.items()}


@pytest.mark.slow
def test_an_array_whose_tasks_all_began_waits_no_more(tmp_path: Path) -> None:
    """Without raw ids nothing else tells that the record of the array became that of its last task."""
    head = "JobID|Submit|Start|End|State|NodeList|AllocTRES|User"
    some = {name: ARRAY[name] for name in ("waiting", "first")}

    assert list(ids_by_order(tmp_path / "some", head, some).values()) == [["50", "50_2"]] * 2
    assert list(ids_by_order(tmp_path / "all", head, ARRAY).values()) == [["50_2", "50_3", "50_5"]] * 6


DISPLAY, RAW = ("JobID",), ("JobIDRaw",)
INDEXED = {"display": (*DISPLAY, "DBIndex"), "raw": (*RAW, "DBIndex")}
DUMPS = INDEXED | {"bare display": DISPLAY, "bare raw": RAW, "both": (*DISPLAY, *RAW)}


def dump_with(folder: Path, name: str, rows: Sequence[int] | None = None) -> Path:
    """A dump of some of the attempts of `ROWS`, with the identifiers that the name stands for."""
    lines = ["|".join([HEAD.removesuffix("|JobID"), *DUMPS[name]])]
    for number in range(len(ROWS)) if rows is None else rows:
        shown, own, rest = ROWS[number]
        identifiers = {"JobID": shown, "JobIDRaw": own, "DBIndex": str(500 + number)}
        lines.append("|".join(["c1", rest, *(identifiers[column] for column in DUMPS[name])]))
    file = folder / f"{name}-{rows}.txt"
    file.write_text("\n".join([*lines, ""]))
    return file


@pytest.mark.slow
@pytest.mark.parametrize(
    "order", [*itertools.permutations(INDEXED), ("bare display", "bare raw", "display", "raw"), (*DUMPS, "display")]
)
def test_db_index_links_display_and_raw_ids(tmp_path: Path, order: tuple[str, ...]) -> None:
    attempts, nodes = loaded(tmp_path / "w", *(dump_with(tmp_path, name) for name in order))
    expected, expected_nodes = loaded(tmp_path / "one", dump_with(tmp_path, "both"))

    assert attempts.drop("db_index").equals(expected.drop("db_index"))
    assert attempts["db_index"].to_list() == [504, 505, 501, 500, 502, 503, 506, 507]
    assert nodes.equals(expected_nodes)


@pytest.mark.slow
@pytest.mark.parametrize("order", three_orders(range(3)))
def test_db_index_of_one_attempt_links_its_whole_job(tmp_path: Path, order: tuple[int, ...]) -> None:
    files = [dump_with(tmp_path, name, rows) for name, rows in (("display", [3]), ("bare display", [2]), ("raw", [3]))]

    attempts, _ = loaded(tmp_path / "w", *(files[number] for number in order))

    assert attempts["job_id"].to_list() == ["33", "33"]
    assert attempts["display_id"].to_list() == ["29_2", "29_2"]
    assert attempts["first_submitted_at"].n_unique() == 1


@pytest.mark.slow
def test_equal_times_and_nodes_link_no_ids_without_db_index(tmp_path: Path) -> None:
    files = [dump_with(tmp_path, name, [0]) for name in ("display", "bare raw")]

    attempts, _ = loaded(tmp_path / "w", *files)

    assert attempts["job_id"].to_list() == ["29_0", "32"]


@pytest.mark.slow
@pytest.mark.parametrize("order", list(itertools.permutations(range(2))))
def test_db_index_of_a_waiting_array_links_no_task(tmp_path: Path, order: tuple[int, ...]) -> None:
    head, rest = HEAD.removesuffix("|JobID"), "gres/gpu=8,node=1|amara"
    waiting, task = tmp_path / "waiting.txt", tmp_path / "task.txt"
    waiting.write_text(f"{head}|JobIDRaw|DBIndex\nc1|1795247000|Unknown|Unknown|PENDING||{rest}|9|10\n")
    task.write_text(f"{head}|JobID|DBIndex\nc1|1795247000|1795247010|1795247110|COMPLETED|n1|{rest}|9_0|10\n")

    attempts, _ = loaded(tmp_path / "w", *((waiting, task)[number] for number in order))

    assert attempts["job_id"].to_list() == ["9", "9_0"]


def test_db_index_of_another_submission_links_no_ids(tmp_path: Path) -> None:
    display, raw = (dump_with(tmp_path, name, [0]) for name in INDEXED)
    raw.write_text(raw.read_text().replace("|1795247000|", "|1795247001|"))

    attempts, _ = loaded(tmp_path / "w", display, raw)

    assert attempts["job_id"].to_list() == ["29_0", "32"]


@pytest.mark.slow
def test_linked_attempts_are_not_counted_as_new(tmp_path: Path) -> None:
    loaded(tmp_path / "w", dump_with(tmp_path, "display"), dump_with(tmp_path, "raw"))

    with open_reader(tmp_path / "w") as reader:
        loads = reader.table("loads").sort("rows_new", descending=True)
    assert loads.select("rows_read", "rows_loaded", "rows_new").rows() == [(8, 8, 8), (8, 8, 0)]


@pytest.mark.slow
@pytest.mark.parametrize("pieces", [1, 2])
def test_every_attempt_of_a_job_has_its_first_submission(tmp_path: Path, pieces: int) -> None:
    file = dumps(tmp_path)["raw"]
    head, *rows = file.read_text().splitlines()
    parts = [rows] if pieces == 1 else [rows[-1:], rows[:-1]]  # the later attempt first
    files = []
    for number, part in enumerate(parts):
        files.append(tmp_path / f"{number}.txt")
        files[-1].write_text("\n".join([head, *part]) + "\n")

    attempts, _ = loaded(tmp_path / "w", *files, *files)

    first = attempts.filter(job_id="40")["first_submitted_at"].dt.epoch("s").to_list()
    assert first == [1795247000, 1795247000]
    assert attempts["first_submitted_at"].dt.epoch("s").to_list() == [1795247000] * 8


@pytest.mark.slow
@pytest.mark.parametrize("order", list(itertools.permutations(range(2))))
def test_one_attempt_with_a_raw_id_gives_it_to_its_whole_job(tmp_path: Path, order: tuple[int, ...]) -> None:
    rest = "gres/gpu=8,node=1|amara"
    plain, raw = tmp_path / "plain.txt", tmp_path / "raw.txt"
    plain.write_text(
        f"{HEAD}\nc1|1795247000|1795247010|1795247110|NODE_FAIL|n1|{rest}|9_1\n"
        f"c1|1795247500|1795247510|1795247610|COMPLETED|n1|{rest}|9_1\n"
    )
    raw.write_text(f"{HEAD}|JobIDRaw\nc1|1795247500|1795247510|1795247610|COMPLETED|n1|{rest}|9_1|10\n")

    attempts, nodes = loaded(tmp_path / "w", *((plain, raw)[place] for place in order))

    assert attempts["job_id"].to_list() == ["10", "10"]
    assert attempts["first_submitted_at"].dt.epoch("s").to_list() == [1795247000] * 2
    assert nodes["job_id"].to_list() == ["10", "10"]


@pytest.mark.slow
@pytest.mark.parametrize("order", three_orders(range(3)))
def test_later_known_user_changes_no_first_submission(tmp_path: Path, order: tuple[int, ...]) -> None:
    head = "Cluster|Submit|Start|End|State|NodeList|AllocTRES|JobID"
    row = "c1|{submit}|{submit}|{end}|COMPLETED|n1|gres/gpu=8,node=1|7"
    first, second = (row.format(submit=at, end=at + 100) for at in (1795247000, 1795247200))
    texts = (f"{head}\n{first}\n{second}\n", f"{head}|User\n{second}|u\n", f"{head}|User\n{first}|u\n")
    files = []
    for number in order:
        files.append(tmp_path / f"{number}.txt")
        files[-1].write_text(texts[number])

    attempts, _ = loaded(tmp_path / "w", *files)

    assert attempts["first_submitted_at"].dt.epoch("s").to_list() == [1795247000] * 2


@pytest.mark.slow
def test_attempts_given_raw_ids_by_a_dump_are_not_counted_as_its(tmp_path: Path) -> None:
    rest = "gres/gpu=8,node=1|amara"
    plain, raw = tmp_path / "plain.txt", tmp_path / "raw.txt"
    first, second = (f"c1|{at}|{at}|{at + 100}|NODE_FAIL|n1|{rest}|9_1" for at in (1795247000, 1795247500))
    plain.write_text(f"{HEAD}\n{first}\n{second}\n")
    raw.write_text(f"{HEAD}|JobIDRaw\n{second}|10\n")

    loaded(tmp_path / "w", plain, raw)

    with open_reader(tmp_path / "w") as reader:
        loads = reader.table("loads").sort("loaded_at", "rows_read", descending=True)
    counts = loads.select("rows_read", "rows_loaded", "rows_duplicate", "rows_new").rows()
    assert counts == [(2, 2, 0, 2), (1, 1, 0, 0)]
