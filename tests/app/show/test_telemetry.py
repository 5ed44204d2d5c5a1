"""`trackside show utilisation`, `filesystems`, `network` and `health` on a cluster of which every number is known."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from app.api import QUESTIONS
from app.compute import pipeline as computing
from app.config.settings import Config
from app.errors import UsageError
from app.results.telemetry.gpu_activity import attempt_rows, user_rows
from app.results.telemetry.occupancy import known
from app.show.answer import Question
from app.show.questions.nodes.health import by_node
from app.show.telemetry import NO_TELEMETRY
from app.terminal.cells import wrap_command
from app.window import Window
from ingest.prometheus.load_files import ingest_files
from ingest.prometheus.store.retention import retain
from ingest.prometheus.target import TelemetryRequest
from ingest.slurm import load_files as ingesting
from ingest.tables import HEALTH_EVENTS, NODE_HOURS, NODE_SAMPLES, conform
from metrics import frames
from queries.warehouse import open_reader, open_writer
from tests.support.command import trackside
from tests.support.telemetry.activity import activity_of_samples

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from app.show.answer import Answer
    from queries.warehouse import Reader, Writer

NOW = datetime(2026, 9, 23, tzinfo=UTC)
MIDNIGHT = 1_790_035_200  # 2026-09-22T00:00:00Z
HOUR = 3600
START, END = MIDNIGHT - HOUR, MIDNIGHT + HOUR


def at(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)


WINDOW = Window("c", at(START), at(END))


def job(number: int, user: str, node: str, gpus: int, name: str = "train", *, begin: int = START) -> str:
    """A line of accounting: a job to the end of the second hour."""
    tres = f"cpu=64,gres/gpu={gpus},node=1" if gpus else "cpu=4,node=1"
    times = f"{START}|{START}|{begin}|{END}"
    return f"{number}|{number}|c|{user}|{user}lab|main|{name}|COMPLETED|0:0|{times}|1|{tres}|{node}\n"


SACCT = (
    "JobID|JobIDRaw|Cluster|User|Account|Partition|JobName|State|ExitCode|Submit|Eligible|Start|End|NNodes|AllocTRES"
    "|NodeList\n"
    + job(1, "alice", "n1", 2)
    + job(2, "alice", "n2", 1)
    + job(3, "alice", "n2", 1)
    + job(4, "root", "n3", 2, "hpc-verification")
    + job(5, "bob", "n4", 2)
    + job(6, "carol", "n4", 0, begin=MIDNIGHT)  # no GPUs, but it reads files
    + job(7, "bob", "n5", 2)  # nobody reads its GPUs
)
RATES = {
    ("fs_operations_per_s", "/data"): 100.0,
    ("fs_response_s_per_s", "/data"): 0.25,
    ("fs_read_bytes_per_s", "/data"): 1e6,
    ("fs_operations_per_s", "/home"): 1.0,
    ("ib_received_bytes_per_s", "mlx5_0/1"): 2e9,
    ("cpu_busy", ""): 0.5,
}


def readings() -> str:
    """Every 60 s what GPUs of four nodes did: GPU 0 is busy, GPU 1 is idle in the second hour."""
    result = []
    for second in range(START + 60, END + 1, 60):
        for node in ("n1", "n2", "n3", "n4"):
            for gpu, util in {"0": 100, "1": 40}.items():
                labels = f'gpu="{gpu}",UUID="GPU-{node}-{gpu}",Hostname="{node}"'
                value = 0 if gpu == "1" and second > MIDNIGHT else util
                result += [f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} {value} {second}",
                          f"DCGM_FI_DEV_POWER_USAGE{{{labels}}} {300 if value else 100} {second}"]  # fmt: skip
    return "\n".join([*result, "# EOF"]) + "\n"


def node_samples() -> pl.DataFrame:
    """Every 60 s what nodes did; on n1 before its job, too."""
    rows = [
        ("c", node, metric, device, at(second), 60.0, value)
        for node in ("n1", "n3", "n4", "nx")
        for (metric, device), value in RATES.items()
        for second in range(START - (600 if node == "n1" else 0), END, 60)
    ]
    return pl.DataFrame(rows, schema=NODE_SAMPLES, orient="row")


def write_samples(writer: Writer, samples: pl.DataFrame) -> None:
    order = ["node", "metric", "device", "ts"]
    with writer.transaction():
        for (day,), rows in samples.group_by(pl.col("ts").dt.date()):
            assert isinstance(day, date)
            writer.write_partition("node_samples", "c", day, rows.sort(order))


EVENTS = [
    {"node": "n1", "gpu": "0", "ts": at(END - 60), "kind": "xid", "code": "79", "class": "HW", "severity": "critical",
     "action": "RESET_GPU"},
    {"node": "n1", "gpu": "1", "ts": at(END - 120), "kind": "ecc", "code": "dbe", "severity": "critical",
     "action": "RESET_GPU"},
    {"node": "n4", "ts": at(START + 60), "kind": "ib", "code": "flap", "device": "mlx5_0/1", "severity": "warning"},
    {"node": "n9", "ts": at(START + 60), "kind": "condition", "code": "DiskPressure", "severity": "info"},
]  # fmt: skip


def filled(root: Path, *, gpus: str | None = None, nodes: pl.DataFrame | None = None, events: bool = True) -> Path:
    """A computed warehouse."""
    (root / "sacct.txt").write_text(SACCT)
    settings = Config()
    with open_writer(root / "w", verb="test", now=NOW) as writer:
        ingesting.ingest_files(
            writer, settings, [str(root / "sacct.txt")], ingesting.Options(), now=NOW, progress=_silent
        )
        if gpus is not None:
            (root / "gpus.om").write_text(gpus)
            ingest_files(
                writer, settings, [str(root / "gpus.om")], TelemetryRequest(cluster="c"), now=NOW, progress=_silent
            )
        if nodes is not None:
            write_samples(writer, nodes)
        if events:
            told = [{"cluster": "c", "source": "prometheus.health", "evidence": "telemetry"} | each for each in EVENTS]
            with writer.transaction():
                writer.append("health_events", conform(pl.DataFrame(told), HEALTH_EVENTS))
        computing.compute(writer, settings, now=NOW)
    return root / "w"


def _silent(_what: str, _done: int, _all: int) -> None:
    pass


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("told"), gpus=readings(), nodes=node_samples())


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Accounting alone."""
    return filled(tmp_path_factory.mktemp("bare"), events=False)


@pytest.fixture
def reader(warehouse: Path) -> Iterator[Reader]:
    with open_reader(warehouse) as opened:
        yield opened


def answer_of(reader: Reader, what: str, by: str | None = None, window: Window = WINDOW) -> Answer:
    return QUESTIONS[what](reader, window, Question(by=by))


def rows(answer: Answer, *, subject: str = "subject") -> dict[str, dict[str, Any]]:
    return {row[subject]: row for row in answer.rows.iter_rows(named=True)}


def close(one: float | None, other: float | None) -> bool:
    """Equal but for the last digits of single precision, or both not known."""
    return one is other if one is None or other is None else one == pytest.approx(other, rel=1e-6)


# --- utilisation


def test_utilisation_is_a_ratio_of_sums_with_its_coverage(reader: Reader) -> None:
    result = rows(answer_of(reader, "utilisation", "user"))
    bob = result["bob"]
    assert (bob["allocated_s"], bob["observed_s"], bob["coverage"]) == (8 * HOUR, 4 * HOUR, 0.5)
    assert (bob["idle_s"], bob["idle_share"]) == (HOUR, 0.25)
    assert bob["gpu_util"] == pytest.approx((1 + 1 + 0.4 + 0) / 4)
    assert (bob["power_w"], bob["energy_kwh"]) == (pytest.approx(250), pytest.approx(1))
    assert (bob["tensor_active"], bob["tensor_active_s"]) == (None, 0)
    assert "carol" not in result, "who holds no GPUs has no use of them"


def test_node_shared_by_one_user_counts_for_user_not_attempt(reader: Reader) -> None:
    alice = rows(answer_of(reader, "utilisation", "user"))["alice"]
    assert (alice["observed_s"], alice["unattributed_s"], alice["coverage"]) == (8 * HOUR, 0, 1)
    attempts = rows(answer_of(reader, "utilisation", "attempt"))
    assert (attempts["2"]["observed_s"], attempts["2"]["unattributed_s"]) == (0, 2 * HOUR)
    assert (attempts["2"]["gpu_util"], attempts["2"]["idle_share"]) == (None, None)
    account = rows(answer_of(reader, "utilisation", "account"))["alicelab"]
    assert (account["observed_s"], account["unattributed_s"]) == (4 * HOUR, 4 * HOUR)


def test_node_checks_are_reported_as_no_utilisation(reader: Reader) -> None:
    answer = answer_of(reader, "utilisation", "user")
    assert "root" not in rows(answer)
    assert any(note.startswith("Node checks held 4 GPU-h more") for note in answer.notes)


@pytest.mark.slow
@pytest.mark.parametrize("by", ["user", "account", "partition", "run", "attempt"])
def test_every_split_adds_up_to_the_cluster(by: str, reader: Reader) -> None:
    whole = rows(answer_of(reader, "utilisation", "cluster"))["c"]
    parts = answer_of(reader, "utilisation", by).rows
    seen = sum(float(parts[name].sum()) for name in ("observed_s", "unattributed_s"))
    assert seen == whole["observed_s"] + whole["unattributed_s"] == 12 * HOUR
    assert parts["allocated_s"].sum() == whole["allocated_s"] == 16 * HOUR


def test_the_most_idle_comes_first(reader: Reader) -> None:
    assert answer_of(reader, "utilisation", "user").rows["subject"].to_list() == ["alice", "bob"]


@pytest.mark.slow
@pytest.mark.parametrize("cut", [START + 1, START + 90, MIDNIGHT - 1, MIDNIGHT + 1234])
def test_two_windows_that_cut_attempts_and_samples_sum_to_one(cut: int, reader: Reader) -> None:
    halves = [Window("c", at(low), at(high)) for low, high in pairwise((START, cut, END))]
    result = [rows(answer_of(reader, "utilisation", "user", half)) for half in halves]
    whole = rows(answer_of(reader, "utilisation", "user"))
    for user, told in whole.items():
        for name in ("allocated_s", "observed_s", "judged_s", "idle_s", "gpu_util_sum", "energy_j"):
            assert sum(half[user][name] for half in result) == pytest.approx(told[name], rel=1e-12)
    for user, told in rows(answer_of(reader, "filesystems", "user")).items():
        part = [rows(answer_of(reader, "filesystems", "user", half)).get(user, {}) for half in halves]
        for name in ("operations", "observed_s", "shared_operations"):
            assert sum(half.get(name) or 0 for half in part) == pytest.approx(told[name] or 0, rel=1e-12)


def test_stored_activity_equals_that_of_the_samples(reader: Reader) -> None:
    facts = known(reader, "c")
    found = activity_of_samples(reader, WINDOW, facts)
    assert found is not None
    again = attempt_rows(found)
    order = list(frames.ATTEMPT_KEY)
    stored = reader.query("attempt_activity", cluster="c")
    assert stored.sort(order).equals(again.select(stored.columns).sort(order))
    users = reader.query("user_activity", cluster="c")
    assert users.height
    assert users.equals(user_rows(found, "c").select(users.columns))


@pytest.mark.parametrize("by", ["cluster", "user"])
def test_utilisation_of_all_time_reads_no_samples(by: str, reader: Reader) -> None:
    stored = answer_of(reader, "utilisation", by)
    assert stored.queries[:2] == ("attempt_activity", "user_activity")
    almost = answer_of(reader, "utilisation", by, Window("c", at(START), at(END + 1)))
    assert "gpu_samples_between" in almost.queries
    assert stored.rows.equals(almost.rows.select(stored.rows.columns))


@pytest.mark.slow
def test_activity_stored_before_users_is_not_used(tmp_path: Path, warehouse: Path, reader: Reader) -> None:
    expected = answer_of(reader, "utilisation", "user").rows
    shutil.copytree(warehouse, tmp_path / "w")
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer, writer.transaction():
        rows = writer.frame("SELECT * REPLACE (CAST(NULL AS DOUBLE) AS unclear_s) FROM attempt_activity")
        for table in ("attempt_activity", "user_activity"):
            writer.delete(table, pl.DataFrame({"cluster": ["c"]}))
        writer.append("attempt_activity", rows)
    with open_reader(tmp_path / "w") as older:
        assert answer_of(older, "utilisation", "user").rows.equals(expected)


def without_samples(writer: Writer) -> None:
    """As retention leaves it: hourly roll-ups only."""
    with writer.transaction():
        for table in ("gpu_samples", "node_samples"):
            for day in (date(2026, 9, 21), date(2026, 9, 22)):
                empty = writer.frame(f"SELECT * FROM {table} LIMIT 0")
                writer.write_partition(table, "c", day, empty)


@pytest.mark.slow
def test_hours_give_the_same_as_samples_for_whole_hours(tmp_path: Path, reader: Reader) -> None:
    root = filled(tmp_path, gpus=readings())
    with open_writer(root, verb="test", now=NOW) as writer:
        without_samples(writer)
        computing.compute(writer, Config(), now=NOW)
    with open_reader(root) as later:
        assert later.table("gpu_samples").is_empty()
        facts = known(later, "c")
        told = activity_of_samples(later, WINDOW, facts)
        assert told is not None
        assert told.attempts["hourly_s"].to_list() == told.attempts["observed_s"].to_list()
        for by in ("user", "attempt"):
            before, after = rows(answer_of(reader, "utilisation", by)), answer_of(later, "utilisation", by)
            for subject, row in rows(after).items():
                for name in ("observed_s", "unattributed_s", "judged_s", "idle_s", "gpu_util", "energy_kwh"):
                    assert close(row[name], before[subject][name]), (by, subject, name)
            assert any(note.startswith("Of 2 of 2 days only hourly roll-ups are there") for note in after.notes)


@pytest.mark.slow
def test_window_within_a_rolled_up_hour_gets_its_part_of_it(tmp_path: Path) -> None:
    root = filled(tmp_path, gpus=readings())
    with open_writer(root, verb="test", now=NOW) as writer:
        without_samples(writer)
    with open_reader(root) as later:
        window = Window("c", at(MIDNIGHT + 600), at(MIDNIGHT + 1200))
        bob = rows(answer_of(later, "utilisation", "user", window))["bob"]
    assert (bob["observed_s"], bob["idle_s"], bob["gpu_util"]) == (1200, pytest.approx(600), pytest.approx(0.5))


def kept_by_the_hour(root: Path) -> Path:
    """Two users had n1, one after the other; the samples are gone, and their hours are left.

    Bob had the first half of an hour: his GPUs were busy, and he asked for metadata. Carol had the second half, in
    which both GPUs were idle and nothing was asked for; and the whole hour after, in which her GPUs were busy.
    """
    middle = START + HOUR // 2
    lines = [job(1, "bob", "n1", 2).replace(f"|{END}|", f"|{middle}|"), job(2, "carol", "n1", 2, begin=middle)]
    (root / "sacct.txt").write_text("\n".join([SACCT.splitlines()[0], *(line.strip() for line in lines)]) + "\n")
    hours = [
        ("c", "n1", "fs_metadata_operations_per_s", "/data", at(ts), mean, HOUR)
        for ts, mean in ((START, 50.0), (MIDNIGHT, 1.0))
    ]
    told = pl.DataFrame(hours, schema=["cluster", "node", "metric", "device", "ts", "mean", "covered_s"], orient="row")
    gpus = [
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="{gpu}",UUID="G-{gpu}",Hostname="n1"}} {0 if middle < ts <= MIDNIGHT else 100} {ts}'
        for ts in range(START + 60, END + 1, 60)
        for gpu in "01"
    ]
    (root / "gpus.om").write_text("\n".join([*gpus, "# EOF"]) + "\n")
    settings = Config()
    with open_writer(root / "w", verb="test", now=NOW) as writer:
        ingesting.ingest_files(
            writer, settings, [str(root / "sacct.txt")], ingesting.Options(), now=NOW, progress=_silent
        )
        ingest_files(
            writer, settings, [str(root / "gpus.om")], TelemetryRequest(cluster="c"), now=NOW, progress=_silent
        )
        without_samples(writer)
        with writer.transaction():
            writer.append("node_hours", conform(told, NODE_HOURS))
        computing.compute(writer, settings, now=NOW)
    return root / "w"


@pytest.mark.slow
def test_hour_of_a_node_that_changed_hands_is_unattributed(tmp_path: Path) -> None:
    """This is for hours of which only the mean is stored."""
    with open_reader(kept_by_the_hour(tmp_path)) as later:
        for by, (bob, carol) in {"user": ("bob", "carol"), "attempt": ("1", "2")}.items():
            gpus = rows(answer_of(later, "utilisation", by))
            assert (gpus[bob]["coverage"], gpus[bob]["idle_s"], gpus[bob]["unattributed_s"]) == (0, None, HOUR)
            assert gpus[carol]["coverage"] == pytest.approx(2 / 3), "what is unattributed was not seen to be hers"
            assert (gpus[carol]["idle_s"], gpus[carol]["unattributed_s"]) == (0, HOUR)
            files = rows(answer_of(later, "filesystems", by))
            assert (files[bob]["metadata_operations"], files[bob]["shared_s"]) == (None, 0)
            assert files[bob]["shared_metadata_operations"] == files[carol]["shared_metadata_operations"] == 25 * HOUR
            assert files[carol]["metadata_operations"] == HOUR, "those of the hour that she had for herself"
        (node,) = answer_of(later, "filesystems").rows.to_dicts()
        assert (node["shared_metadata_operations"], node["attributed_metadata_operations"]) == (50 * HOUR, HOUR)
        for what in ("utilisation", "filesystems"):
            notes = answer_of(later, what, "user").notes
            assert any(
                note.startswith("Of 2 of 2 days only hourly roll-ups are there: the owner of an hour") for note in notes
            )


@pytest.mark.slow
def test_telemetry_removed_by_retention_differs_from_none(tmp_path: Path) -> None:
    root = filled(tmp_path, gpus=readings(), nodes=node_samples())
    keep = Config.model_validate({"retention": {"samples_days": 1, "hours_days": 2}})
    with open_writer(root, verb="test", now=NOW) as writer:
        for _ in ("samples, of which roll-ups are made", "those"):
            retain(writer, keep, now=NOW + timedelta(days=10))
    with open_reader(root) as later:
        for what, of in (("utilisation", "GPUs"), ("filesystems", "nodes"), ("network", "nodes")):
            answer = answer_of(later, what, None, Window("c", at(START), at(END - 1)))
            assert answer.rows.is_empty()
            assert f"No telemetry of {of} is left: `trackside retention` removed" in answer.when_empty
            assert "before 2026-10-02T00:00:00Z, last at 2026-10-03T00:00:00Z" in answer.when_empty


@pytest.mark.slow
def test_missing_telemetry_comes_with_the_next_step(bare: Path) -> None:
    for what, of in (("utilisation", "GPUs"), ("filesystems", "nodes"), ("network", "nodes")):
        done = trackside("show", what, "--warehouse", str(bare))
        assert done.returncode == 0, done.stderr
        assert f"No telemetry of {of} is loaded" in done.stdout
        assert "trackside ingest prometheus --url" in done.stdout


def test_telemetry_of_other_times_differs_from_none(warehouse: Path) -> None:
    with open_reader(warehouse) as reader:
        window = Window("c", at(START - 3 * HOUR), at(START - 2 * HOUR))
        assert (
            "There is telemetry of 2026-09-21 to 2026-09-22"
            in answer_of(reader, "utilisation", None, window).when_empty
        )


def test_a_split_that_makes_no_sense_is_refused(reader: Reader) -> None:
    for what in ("utilisation", "filesystems", "network", "health"):
        with pytest.raises(UsageError, match="it takes: "):
            answer_of(reader, what, "colour")


def test_the_command_shows_notes_and_machines_get_every_part(warehouse: Path) -> None:
    done = trackside("show", "utilisation", "--by", "user", "--explain", "--warehouse", str(warehouse))
    assert done.returncode == 0, done.stderr
    assert "idle: tensor activity below 0.02" in done.stdout
    assert "metrics.telemetry.utilisation.utilisation" in done.stdout
    done = trackside("show", "utilisation", "--format", "json", "--warehouse", str(warehouse))
    (row,) = json.loads(done.stdout)
    assert row["gpu_util"] == row["gpu_util_sum"] / row["gpu_util_s"]
    assert row["coverage"] == row["observed_s"] / row["allocated_s"]


# --- filesystems and networks


def test_a_mount_has_total_traffic_and_its_attributed_share(reader: Reader) -> None:
    result = rows(answer_of(reader, "filesystems"), subject="device")
    data = result["/data"]
    assert (data["n_nodes"], data["operations"]) == (4, 4 * 2 * HOUR * 100)
    assert data["mean_response_s"] == pytest.approx(0.0025)
    assert (data["attributed_operations"], data["checks_operations"]) == (3 * HOUR * 100, 2 * HOUR * 100)
    assert (data["shared_operations"], data["outside_operations"]) == (HOUR * 100, 2 * HOUR * 100)  # n4; nx
    assert data["read_bytes"] == 4 * 2 * HOUR * 1e6
    assert data["written_bytes"] is None, "nobody tells it, and that is no zero"
    assert result["/home"]["mean_response_s"] is None


def test_shared_nodes_are_unattributed(reader: Reader) -> None:
    answer = answer_of(reader, "filesystems", "user")
    told = {(row["subject"], row["device"]): row for row in answer.rows.iter_rows(named=True)}
    bob, carol = told["bob", "/data"], told["carol", "/data"]
    assert (bob["operations"], bob["shared_operations"]) == (HOUR * 100, HOUR * 100)
    assert (carol["operations"], carol["shared_operations"]) == (None, HOUR * 100)
    assert told["alice", "/data"]["operations_per_s"] == 100
    assert "root" not in {user for user, _ in told}
    assert any("another user was, too" in note for note in answer.notes)
    assert any(note.startswith("Node checks") for note in answer.notes)


def test_stored_attempt_activity_equals_that_from_samples(reader: Reader) -> None:
    stored = answer_of(reader, "filesystems", "attempt")
    assert stored.queries == ("attempt_node_activity",)
    almost = answer_of(reader, "filesystems", "attempt", Window("c", at(START), at(END + 1)))
    assert almost.queries != stored.queries
    key = ["subject", "device"]
    assert stored.rows.sort(key).equals(almost.rows.select(stored.rows.columns).sort(key))


def test_nodes_and_networks_are_shown_too(reader: Reader) -> None:
    nodes = {
        (row["subject"], row["device"]) for row in answer_of(reader, "filesystems", "node").rows.iter_rows(named=True)
    }
    assert ("nx", "/home") in nodes
    network = rows(answer_of(reader, "network"), subject="device")
    assert network["mlx5_0/1"]["received_bytes"] == 4 * 2 * HOUR * 2e9
    assert "on shared nodes" in {heading for heading, _ in answer_of(reader, "network").columns.values()}


@pytest.mark.slow
def test_node_hours_replace_removed_samples(tmp_path: Path, reader: Reader) -> None:
    root = filled(tmp_path)
    hours = (
        node_samples()
        .filter(pl.col("ts") >= at(START))
        .group_by("cluster", "node", "metric", "device", pl.col("ts").dt.truncate("1h"))
        .agg(pl.col("value").cast(pl.Float64).mean().alias("mean"), pl.col("interval_s").sum().alias("covered_s"))
    )
    with open_writer(root, verb="test", now=NOW) as writer:
        with writer.transaction():
            writer.append("node_hours", conform(hours, NODE_HOURS))
        computing.compute(writer, Config(), now=NOW)
    with open_reader(root) as later:
        for by in ("user", "attempt"):
            before = {(r["subject"], r["device"]): r for r in answer_of(reader, "filesystems", by).rows.to_dicts()}
            after = answer_of(later, "filesystems", by).rows.to_dicts()
            assert len(after) == len(before)
            for row in after:
                for name in ("operations", "shared_operations", "read_bytes", "mean_response_s", "n_nodes"):
                    assert close(row[name], before[row["subject"], row["device"]][name]), (row, name)


@pytest.mark.slow
def test_many_nodes_are_read_a_part_at_a_time(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = answer_of(reader, "filesystems", "user").rows
    monkeypatch.setattr("app.results.telemetry.node_activity.AT_ONCE", 100)
    assert answer_of(reader, "filesystems", "user").rows.equals(whole)


# --- health


def test_incident_lists_cause_touched_attempts_and_action(reader: Reader) -> None:
    answer = answer_of(reader, "health")
    worst = answer.rows.row(0, named=True)
    assert (worst["node"], worst["gpus"], worst["severity"], worst["n_events"]) == ("n1", "0,1", "critical", 2)
    assert (worst["n_attempts"], worst["n_ended"]) == (1, 1)
    told = "\n".join(answer.notes)
    assert "n1 had 1 critical incident: ecc dbe (1), xid 79 (1). 1 attempt may have ended because of them." in told
    assert "scontrol update NodeName=n1 State=DRAIN Reason='trackside: 1 critical incident: ecc dbe (1), xid" in told
    assert "RESET_GPU" in told


def test_a_node_has_all_kinds_of_its_worst_incidents(reader: Reader) -> None:
    first = answer_of(reader, "health").rows.filter(pl.col("node") == "n1")
    other = first.with_columns(started_at=first["started_at"] + timedelta(days=1), kinds=pl.lit("xid 94, xid 79"))
    lesser = other.with_columns(severity=pl.lit("info"), kinds=pl.lit("xid 13"))
    node = by_node(pl.concat([first, other, lesser])).row(0, named=True)
    assert (node["kinds"], node["critical"]) == ("xid 79 (2), xid 94 (1), ecc dbe (1)", 2)


def test_incidents_are_listed_by_node_attempt_and_kind(reader: Reader) -> None:
    nodes = rows(answer_of(reader, "health", "node"), subject="node")
    assert list(nodes) == ["n1", "n4", "n9"]
    assert (nodes["n1"]["critical"], nodes["n4"]["warning"], nodes["n9"]["info"]) == (1, 1, 1)
    attempts = answer_of(reader, "health", "attempt").rows
    result = set(attempts.select("job_id", "node", "at_end").rows())
    assert {("1", "n1", True), ("5", "n4", False)} <= result
    kinds = answer_of(reader, "health", "kind").rows
    assert kinds.select("kind", "code", "n_events", "n_gpus").rows()[:2] == [("ecc", "dbe", 1, 1), ("xid", "79", 1, 1)]


def test_without_critical_incidents_nothing_is_to_be_drained(reader: Reader) -> None:
    early = Window("c", at(START), at(MIDNIGHT))
    answer = answer_of(reader, "health", None, early)
    assert answer.rows.height == 2
    assert "scontrol" not in "\n".join(answer.notes)


def test_window_without_events_names_those_outside_it(reader: Reader) -> None:
    before = Window("c", at(START - 3 * HOUR), at(START - 2 * HOUR))
    output = answer_of(reader, "health", None, before).when_empty
    assert output.startswith("No health events in this window; there are 3 outside of it, the last of 2026-09-2")


def test_health_reports_how_much_of_the_window_is_covered(reader: Reader) -> None:
    output = "Telemetry of health covers "
    assert not any(note.startswith(output) for note in answer_of(reader, "health").notes)
    longer = Window("c", at(START - 48 * HOUR), at(MIDNIGHT))
    assert any(
        note.startswith(output) and "of these 2 d " in note for note in answer_of(reader, "health", None, longer).notes
    )


def test_missing_events_are_explained_by_their_source(bare: Path) -> None:
    with open_reader(bare) as reader:
        for by in ("incident", "node", "attempt", "kind"):
            answer = answer_of(reader, "health", by)
            assert answer.rows.is_empty()
            assert not answer.notes
            assert "trackside ingest prometheus" in answer.when_empty


def test_gpus_of_several_incidents_of_a_node_are_named_once() -> None:
    first = {"cluster": "c", "node": "n", "started_at": at(START), "ended_at": at(START), "severity": "warning",
             "n_events": 1, "kinds": "ecc sbe", "gpus": "1,3", "action": None, "n_attempts": 2,
             "n_ended": 0}  # fmt: skip
    later = first | {
        "started_at": at(END),
        "ended_at": at(END) + timedelta(minutes=1),
        "gpus": "0,1",
        "kinds": "xid 48",
    }
    none = first | {"gpus": "", "severity": "info", "kinds": "pcie replay"}
    (row,) = by_node(pl.DataFrame([first, later, none])).to_dicts()
    assert (row["gpus"], row["warning"], row["info"], row["kinds"]) == ("0, 1, 3", 2, 1, "xid 48 (1), ecc sbe (1)")
    assert (row["n_attempts"], row["last_at"]) == (6, at(END) + timedelta(minutes=1))


def test_commands_that_load_telemetry_have_their_own_lines() -> None:
    commands = [line for line in NO_TELEMETRY.splitlines() if line.startswith("  ")]
    assert [wrap_command(line, 80) for line in commands] == [[line] for line in commands]
    assert all(line.startswith("  trackside ") and "  " not in line.strip() for line in commands)
