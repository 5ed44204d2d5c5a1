"""`trackside show people`, `cost` and `onboarding` on two clusters of which every number is known."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from app.api import QUESTIONS
from app.compute import pipeline as computing
from app.config.settings import Config
from app.show.answer import Question
from app.window import Window
from ingest.slurm import load_files as ingesting
from queries.warehouse import open_reader, open_writer
from tests.support.command import trackside

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from queries.warehouse import Reader

HOUR = 3600
MIDNIGHT = 1_790_812_800  # 2026-10-01T00:00:00Z
START, END = MIDNIGHT - 4 * HOUR, MIDNIGHT + 4 * HOUR
NOW = datetime.fromtimestamp(END + HOUR, UTC)
WINDOW = Window("c", datetime.fromtimestamp(START, UTC), datetime.fromtimestamp(END, UTC))

COST = """
[cost]
currency = "EUR"
pue = 1.5
[[cost.prices]]
gpu_model = "h100"
per_gpu_hour = 3.0
[[cost.prices]]
gpu_model = "h100"
since = 2026-10-01
per_gpu_hour = 2.0
[[cost.grid]]
kg_per_kwh = 0.5
"""


def job(number: int, user: str, held: tuple[str, int], times: tuple[int, int], **other: str) -> str:
    """A job on GPUs of one node, with a step where its energy was measured."""
    (node, gpus), (begin, end) = held, times
    tres = f"cpu=8,gres/gpu={gpus},gres/gpu:h100={gpus},node=1"
    spent = f"{begin}|{begin}|{begin}|{end}|{end - begin}"
    state, cluster = other.get("state", "COMPLETED"), other.get("cluster", "c")
    account = other.get("account", f"{user}lab")
    line = f"{cluster}|{user}|{account}|main|train|{state}|0:0|{spent}|1|{tres}|{node}"
    step = f"{number}.batch|{number}.batch|{line}|{other['joules']}\n" if "joules" in other else ""
    return f"{number}|{number}|{line}|\n{step}"


SACCT = (
    "JobID|JobIDRaw|Cluster|User|Account|Partition|JobName|State|ExitCode|Submit|Eligible|Start|End|ElapsedRaw|NNodes"
    "|AllocTRES|NodeList|ConsumedEnergyRaw\n"
    + job(1, "ann", ("n1", 2), (START, END), joules="7200000")  # both GPUs of n1, over midnight
    + job(2, "bob", ("n2", 1), (START, START + HOUR), state="NODE_FAIL", joules="3600000")  # the node's
    + job(3, "cid", ("n2", 1), (MIDNIGHT, END - HOUR), state="FAILED", account="")
    + job(1, "ann", ("n1", 2), (START, END), cluster="d")  # the other cluster's n1
)
NODES = "".join(
    f"NodeName={node} CPUAlloc=0 CPUTot=64 Gres=gpu:{model}:2 NodeAddr={node} NodeHostName={node} State=IDLE "
    "ThreadsPerCore=1 Partitions=main,debug\n\n"
    for node, model in (("n1", "h100"), ("n2", "h100"), ("n3", "a100"))
)
ASSOCIATIONS = "Cluster|Account|User|Partition|Share|GrpTRES\n" + "".join(
    f"c|{account}|{user}||1|\n" for user, account in (("ann", "annlab"), ("bob", "boblab"), ("eve", "annlab"))
)
CHANGES = "Time|Action|Actor|Where|Cluster|ID|Info\n" + "".join(
    f"{when}|Add Associations|sup|id_assoc={number}|c|{number}|mod_time=1, acct='{account}', user='{user}', "
    "`partition`='', shares=1\n"
    for number, (when, user, account) in enumerate(
        ((START - 40 * 86_400, "eve", "annlab"), (START - HOUR, "ann", "annlab"), (START, "bob", "boblab")), start=2
    )
)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("people")
    files = {"sacct.txt": SACCT, "nodes.txt": NODES, "assoc.txt": ASSOCIATIONS, "changes.txt": CHANGES}
    for name, text in files.items():
        (root / name).write_text(text)
    settings = Config()
    options = ingesting.Options(cluster="c", until=datetime.fromtimestamp(END, UTC))
    with open_writer(root / "w", verb="test", now=NOW) as writer:
        ingesting.ingest_files(
            writer, settings, [str(root / "sacct.txt")], ingesting.Options(), now=NOW, progress=_silent
        )
        others = [str(root / name) for name in files if name != "sacct.txt"]
        reports = ingesting.ingest_files(writer, settings, others, options, now=NOW, progress=_silent)
        assert not [each.error for each in reports if each.error]
        computing.compute(writer, settings, now=NOW)
    (root / "trackside.toml").write_text(COST)
    return root


def _silent(_what: str, _done: int, _all: int) -> None:
    pass


@pytest.fixture
def reader(warehouse: Path) -> Iterator[Reader]:
    with open_reader(warehouse / "w") as opened:
        yield opened


def rows(warehouse: Path, reader: Reader, what: str, by: str, subject: str = "subject") -> dict[str, dict[str, Any]]:
    answer = QUESTIONS[what](reader, WINDOW, Question(by=by, config=warehouse / "trackside.toml"))
    return {row[subject]: row for row in answer.rows.iter_rows(named=True)}


def test_cost_changes_its_price_at_midnight(warehouse: Path, reader: Reader) -> None:
    found = rows(warehouse, reader, "cost", "user")
    assert found["ann"]["cost"] == 2 * 4 * 3.0 + 2 * 4 * 2.0
    assert (found["bob"]["cost"], found["cid"]["cost"]) == (3.0, 3 * 2.0)


@pytest.mark.parametrize("by", ["account", "user", "partition", "run", "category", "model", "day", "cluster"])
def test_cost_adds_up_to_capacity_however_it_is_split(warehouse: Path, reader: Reader, by: str) -> None:
    found = rows(warehouse, reader, "cost", by)
    assert sum(row["gpu_s"] for row in found.values()) == 3 * 2 * 8 * HOUR
    assert sum(row["priced_gpu_s"] for row in found.values()) == 2 * 2 * 8 * HOUR
    assert sum(row["cost"] or 0 for row in found.values()) == 2 * 2 * 4 * (3 + 2)


@pytest.mark.parametrize("what", ["cost", "lost", "goodput"])
def test_time_of_an_attempt_without_account_is_not_idle(warehouse: Path, reader: Reader, what: str) -> None:
    """cid's job held a GPU for three hours; of 48 GPU-hours the others held 16 and 1."""
    answer = QUESTIONS[what](reader, WINDOW, Question(by="account", config=warehouse / "trackside.toml"))
    name = {"cost": "gpu_s", "lost": "gpu_seconds", "goodput": "denominator"}[what]
    held: defaultdict[str, float] = defaultdict(float)
    for row in answer.rows.iter_rows(named=True):
        held[row["subject"]] += float(row[name]) / HOUR
    idle = {} if what == "goodput" else {"(no attempt)": 28}
    assert held == {"annlab": 16, "boblab": 1, "(unknown)": 3, **idle}


@pytest.mark.parametrize("what", ["cost", "lost"])
def test_time_without_a_job_is_named_so_for_people(reader: Reader, what: str) -> None:
    asked = ("show", what, "--by", "account", "--warehouse", str(reader.root))
    assert "(held by no job)" in trackside(*asked).stdout
    assert "(no attempt)" in trackside(*asked, "--format", "csv").stdout


def test_cost_of_a_model_without_price_is_unknown(warehouse: Path, reader: Reader) -> None:
    found = rows(warehouse, reader, "cost", "model")
    assert (found["a100"]["cost"], found["a100"]["gpu_s"]) == (None, 2 * 8 * HOUR)


def test_cost_takes_slurms_energy_of_whole_nodes_only(warehouse: Path, reader: Reader) -> None:
    found = rows(warehouse, reader, "cost", "user")
    assert (found["ann"]["energy_j"], found["ann"]["co2_kg"]) == pytest.approx((7.2e6 * 1.5, 1.5))
    assert (found["bob"]["energy_j"], found["bob"]["energy_gpu_s"]) == (None, 0)


@pytest.mark.slow
def test_cost_without_prices_says_what_to_configure(warehouse: Path) -> None:
    shown = trackside("show", "cost", "--cluster", "c", "--warehouse", str(warehouse / "w"))
    assert "[[cost.prices]]" in shown.stdout
    assert "without a price" in shown.stdout
    assert "at least" not in shown.stdout.splitlines()[2]


def test_people_have_use_endings_and_cost(warehouse: Path, reader: Reader) -> None:
    found = rows(warehouse, reader, "people", "user")
    ann, bob = found["ann"], found["bob"]
    assert (ann["gpu_s"], ann["n_attempts"], ann["cost"]) == (2 * 8 * HOUR, 1, 40.0)
    assert (bob["n_infrastructure"], bob["n_failed"], bob["n_own"]) == (1, 1, 0)
    assert (found["cid"]["n_infrastructure"], found["cid"]["n_own"]) == (0, 1)
    assert sum(row["share"] for row in found.values()) == pytest.approx(1)


def test_onboarding_has_who_came_and_who_never_did(warehouse: Path, reader: Reader) -> None:
    found = rows(warehouse, reader, "onboarding", "user", "user")
    assert {user: row["state"] for user, row in found.items()} == {
        "ann": "active",
        "bob": "active",
        "cid": "no association",
        "eve": "never used",
    }
    assert (found["bob"]["to_first_job_s"], found["bob"]["added_by"]) == (0, "sup")
    assert found["ann"]["to_first_job_s"] is None  # added before accounting is loaded


def test_onboarding_counts_jobs_before_the_window_and_says_so(reader: Reader) -> None:
    late = Window("c", datetime.fromtimestamp(END - HOUR, UTC), datetime.fromtimestamp(END, UTC))
    answers = {name: QUESTIONS[name](reader, late, Question(by="user")) for name in ("people", "onboarding")}
    assert "bob" not in answers["people"].rows["subject"]
    count = answers["onboarding"].rows.filter(user="bob")["n_attempts"].item()
    headings = {name: answer.columns["n_attempts"][0] for name, answer in answers.items()}
    assert (count, headings) == (1, {"people": "attempts", "onboarding": "submitted so far"})


def test_onboarding_of_the_other_cluster_is_its_own(warehouse: Path) -> None:
    shown = trackside("show", "onboarding", "--cluster", "d", "--warehouse", str(warehouse / "w"), "--format", "csv")
    assert shown.returncode == 0, shown.stderr
    assert [line.split(",")[:3] for line in shown.stdout.splitlines()[1:]] == [["d", "ann", "annlab"]]


def test_cost_is_the_same_from_python(warehouse: Path, reader: Reader) -> None:
    from app.api import Warehouse

    opened = Warehouse(warehouse / "w", config=warehouse / "trackside.toml")
    frame = opened.ask("cost", cluster="c", by="user").rows
    costs = dict(frame.select("subject", "cost").rows())
    assert costs["ann"] == rows(warehouse, reader, "cost", "user")["ann"]["cost"]
