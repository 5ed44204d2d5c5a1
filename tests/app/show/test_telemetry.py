"""`trackside show utilisation`, `filesystems` and `network` on a cluster of which every number is known."""

from __future__ import annotations

import json
import shutil
from datetime import date, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import polars as pl
import pytest

from app.compute import pipeline as computing
from app.config.settings import Config
from app.errors import UsageError
from app.results.telemetry.gpu_activity import attempt_rows, user_rows
from app.results.telemetry.occupancy import known
from app.show.telemetry import NO_TELEMETRY
from app.terminal.cells import wrap_command
from app.window import Window
from ingest.prometheus.store.retention import retain
from ingest.tables import NODE_HOURS, conform
from metrics import frames
from queries.warehouse import open_reader, open_writer
from tests.support.command import trackside
from tests.support.known_cluster import (
    END,
    HOUR,
    MIDNIGHT,
    NOW,
    SACCT,
    START,
    WINDOW,
    answer_of,
    at,
    bare,
    everything,
    filled,
    job,
    load_files,
    node_samples,
    readings,
    rows,
)
from tests.support.telemetry.activity import activity_of_samples

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from queries.warehouse import Reader, Writer


@pytest.fixture
def warehouse() -> Path:
    return everything()


@pytest.fixture
def reader(warehouse: Path) -> Iterator[Reader]:
    with open_reader(warehouse) as opened:
        yield opened


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
    sacct = "\n".join([SACCT.splitlines()[0], *(line.strip() for line in lines)]) + "\n"
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
    with open_writer(root / "w", verb="test", now=NOW) as writer:
        load_files(writer, root, sacct, "\n".join([*gpus, "# EOF"]) + "\n")
        without_samples(writer)
        with writer.transaction():
            writer.append("node_hours", conform(told, NODE_HOURS))
        computing.compute(writer, Config(), now=NOW)
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
            assert (files[bob]["metadata_operations"], files[bob]["shared_s"]) == (None, HOUR / 2), (
                "the half that he held"
            )
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
def test_missing_telemetry_comes_with_the_next_step() -> None:
    for what, of in (("utilisation", "GPUs"), ("filesystems", "nodes"), ("network", "nodes")):
        done = trackside("show", what, "--warehouse", str(bare()))
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


def test_commands_that_load_telemetry_have_their_own_lines() -> None:
    commands = [line for line in NO_TELEMETRY.splitlines() if line.startswith("  ")]
    assert [wrap_command(line, 80) for line in commands] == [[line] for line in commands]
    assert all(line.startswith("  trackside ") and "  " not in line.strip() for line in commands)
