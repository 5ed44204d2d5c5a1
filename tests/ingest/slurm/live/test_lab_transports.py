"""Jobs of a real Slurm by four transports: text, `sacct --json`, REST over a socket, REST over TCP with a token.

Rows are equal wherever the transport carries the column; else they are null, and the column is listed in `LOST`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from ingest.context import ParseContext
from ingest.errors import ServerDownError
from ingest.load_warnings import messages
from ingest.slurm.accounting.sacct import fetch_accounting, parse_accounting
from ingest.slurm.accounting.sacct_json import LOST, parse_accounting_json
from ingest.slurm.commands.runner import Completed
from ingest.slurm.commands.slurmrestd import Client, RestTransport
from ingest.slurm.formats.json_answer import SlurmAnswerError
from ingest.slurm.nodes.inventory import fetch_nodes, fetch_reservations, parse_nodes
from ingest.slurm.nodes.inventory_json import parse_nodes_json
from ingest.slurm.nodes.reservations import parse_reservations
from ingest.slurm.nodes.reservations_json import parse_reservations_json
from queries.warehouse import open_reader
from tests.lab.needed import need
from tests.lab.processes import now
from tests.lab.slurmrestd import RestLab, missing_for_rest
from tests.support.slurm.row_accounts import on_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ingest.tables import Parsed

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("lab")]

ONE = ("-p", "main", "-n1")
ONCE = 'if [ "${SLURM_RESTART_COUNT:-0}" = 0 ]; then sleep 300; else sleep 1; fi'
KEY = ["job_id", "submitted_at"]
TRANSPORTS = ("sacct --json", "REST, socket", "REST, token")


@dataclass(frozen=True)
class Scenario:
    """What was done, and what each transport says of it."""

    lab: RestLab
    jobs: dict[str, int]
    since: datetime
    until: datetime
    text: Parsed
    transports: dict[str, Parsed]
    asked_s: float
    """From before the first transport was asked to after the last."""

    def one(self, transport: str, name: str) -> list[dict[str, Any]]:
        """What a transport says of a job, oldest attempt first."""
        parsed = self.text if transport == "text" else self.transports[transport]
        result = parsed.frames["attempts"].filter(job_id=str(self.jobs[name]))
        return result.sort("submitted_at").to_dicts()


@pytest.fixture(scope="module")
def scenario() -> Iterator[Scenario]:
    need("Slurm lab with REST", missing_for_rest())
    with RestLab() as lab:
        since = datetime.fromtimestamp(now(), UTC) - timedelta(minutes=1)
        jobs = run_jobs(lab)
        until = datetime.fromtimestamp(now(), UTC) + timedelta(seconds=1)
        began = now()
        text = fetch_accounting(runner(lab), since=since, until=until)
        dump = lab.run(["sacct", "-a", "--json", "-S", f"{since:%Y-%m-%dT%H:%M:%S}"], env={"TZ": "UTC"}).stdout
        answers = {
            TRANSPORTS[0]: dump.encode(),
            TRANSPORTS[1]: over_socket(lab).accounting(since, until).data,
            TRANSPORTS[2]: over_tcp(lab).accounting(since, until).data,
        }
        asked_s = now() - began
        transports = {name: parse_accounting_json(data, ParseContext(origin=name)) for name, data in answers.items()}
        yield Scenario(
            lab, jobs, since, until, parse_accounting(text.data, ParseContext(origin="text")), transports, asked_s
        )


def run_jobs(lab: RestLab) -> dict[str, int]:
    """Jobs of all kinds; two of them still run, and two wait, when this is done."""
    jobs = {
        "runs": lab.sbatch("sleep 600", "-p", "main", "-w", "n4", "-n1", "--gres=gpu:h100:8"),
        "completed": lab.sbatch("sleep 1", *ONE, "--gres=gpu:2", "--comment=a, b", "-J", "na|me \u00e9", "-C", "h100"),
        "failed": lab.sbatch("exit 3", *ONE, "--gres=gpu:h100:1", "--wckey=run7"),
        "a step failed": lab.sbatch("srun bash -c 'exit 5'; exit 0", *ONE, "--gres=gpu:1"),
        "signalled": lab.sbatch("kill -SEGV $$", *ONE, "--gres=gpu:1"),
        "without gpus": lab.sbatch("sleep 1", *ONE, "--mem=3G", "-t", "7"),
        "cancelled": lab.sbatch("sleep 300", *ONE, "--gres=gpu:1"),
        "requeued": lab.sbatch(ONCE, *ONE, "--gres=gpu:1"),
        "array": lab.sbatch("sleep 1", *ONE, "--gres=gpu:1", "-a", "0-2%1"),
        "suspended": lab.sbatch("sleep 5", *ONE, "--gres=gpu:1"),
        "resized": lab.sbatch("sleep 8", "-p", "scav", "-w", "n5,n6", "-N2", "--gres=gpu:1", user="bob"),
    }
    het = ["sbatch", "--parsable", "-n1", "--gres=gpu:1", ":", "-n1", "--gres=gpu:2", "--wrap", "true"]
    jobs["het"] = int(lab.run(het, user="alice").stdout.split(";")[0])
    lab.run(["sbatch", "-p", "main", "--gres=gpu:9", "--wrap", "true"], user="alice", check=False)
    for name in ("runs", "cancelled", "requeued", "suspended", "resized"):
        lab.wait_for(jobs[name], "RUNNING")
    full = ("-p", "main", "-w", "n4", "-n1", "--gres=gpu:8")
    jobs["waits"] = lab.sbatch("sleep 600", *full)
    jobs["waiting array"] = lab.sbatch("sleep 600", *full, "-a", "2-9%2")
    jobs["never started"] = lab.sbatch("sleep 600", *full, "-t", "UNLIMITED")
    lab.scontrol("suspend", str(jobs["suspended"]))
    time.sleep(2)
    lab.scancel(jobs["cancelled"], user="alice")
    lab.scancel(jobs["never started"])
    lab.scontrol("requeue", str(jobs["requeued"]))
    lab.scontrol("resume", str(jobs["suspended"]))
    lab.scontrol("update", f"jobid={jobs['resized']}", "NumNodes=1")
    lab.scontrol("update", "nodename=n6", "state=drain", "reason=bad gpu | 3")
    when = ("StartTime=now", "Duration=01:00:00", "Flags=MAINT,IGNORE_JOBS")
    lab.scontrol("create", "reservation", "ReservationName=maint1", *when, "Nodes=n6", "Users=root,alice")
    for name in set(jobs) - {"runs", "waits", "waiting array"}:
        lab.wait_for(jobs[name], "COMPLETED", "FAILED", "CANCELLED", timeout=90)
    time.sleep(3)  # until slurmdbd has been told, too
    return jobs


def runner(lab: RestLab) -> Any:
    def run(command: list[str], environment: Mapping[str, str]) -> Completed:
        done = subprocess.run(command, env={**lab.env, **environment}, capture_output=True, check=False)
        return Completed(done.returncode, done.stdout, done.stderr)

    return run


def over_socket(lab: RestLab) -> RestTransport:
    return RestTransport(Client(lab.unix, timeout_s=20))


def over_tcp(lab: RestLab, token: str | None = None) -> RestTransport:
    return RestTransport(Client(lab.url, user="root", token=token or lab.token(), timeout_s=20))


# --- the rows ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_every_row_equals_text_where_the_transport_has_a_column(scenario: Scenario, transport: str) -> None:
    text, reported = (parsed.frames["attempts"].sort(KEY) for parsed in (scenario.text, scenario.transports[transport]))
    assert scenario.transports[transport].rejects.is_empty()
    assert scenario.text.rejects.is_empty()
    assert reported.select(KEY).equals(text.select(KEY))
    assert reported.height >= len(scenario.jobs) + 5
    for name in (name for name in text.columns if name not in {*LOST["0.0.38"], "elapsed_s"}):
        assert reported[name].equals(text[name]), name
    # What runs was asked after a little later, by a clock of whole seconds.
    most = scenario.asked_s + 1
    later = (reported["elapsed_s"] - text["elapsed_s"]).to_list()
    ended = reported["ended_at"].is_not_null().to_list()
    assert all(late == 0 if done else 0 <= late <= most for late, done in zip(later, ended, strict=True))


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_nodes_held_are_the_same(scenario: Scenario, transport: str) -> None:
    text, reported = (
        on_nodes(parsed).sort([*KEY, "node"]) for parsed in (scenario.text, scenario.transports[transport])
    )
    assert reported.equals(text)
    assert reported.height >= len(scenario.jobs)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_what_a_transport_lacks_is_null_or_as_in_text(scenario: Scenario, transport: str) -> None:
    text, reported = (parsed.frames["attempts"] for parsed in (scenario.text, scenario.transports[transport]))
    for name in LOST["0.0.38"].keys() - {"cancelled_by"}:
        both = reported.join(text, on=KEY, suffix="_text").filter(pl.col(name).is_not_null())
        assert both[name].equals(both[f"{name}_text"].alias(name)), name


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_an_exit_code_that_the_transport_loses_is_never_0(scenario: Scenario, transport: str) -> None:
    (text,), (reported,) = scenario.one("text", "failed"), scenario.one(transport, "failed")
    assert (text["exit_code"], text["exit_signal"]) == (3, 0)
    assert (reported["exit_code"], reported["exit_signal"]) == (None, None)
    (step,) = scenario.one(transport, "a step failed")  # text says 5, or 0 where the machine was too busy to be told
    assert step["derived_exit_code"] is None
    (signalled,) = scenario.one(transport, "signalled")
    assert (signalled["exit_code"], signalled["exit_signal"]) == (0, 11)
    assert any("has no plain exit codes" in output for output in messages(scenario.transports[transport].warnings))


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_who_cancelled_is_a_name_where_text_has_the_uid(scenario: Scenario, transport: str) -> None:
    for name, uid, user in (("cancelled", "2001", "alice"), ("never started", "0", "root")):
        assert scenario.one("text", name)[0]["cancelled_by"] == uid
        assert scenario.one(transport, name)[0]["cancelled_by"] == user


@pytest.mark.parametrize("transport", ["text", *TRANSPORTS])
def test_transports_give_what_was_done(scenario: Scenario, transport: str) -> None:
    states = {name: [row["state"] for row in scenario.one(transport, name)] for name in scenario.jobs}
    assert states["requeued"] == ["REQUEUED", "COMPLETED"]
    assert states["resized"] == ["RESIZING", "COMPLETED"]
    assert (states["runs"], states["waits"], states["never started"]) == (["RUNNING"], ["PENDING"], ["CANCELLED"])
    assert scenario.one(transport, "suspended")[0]["suspended_s"] >= 1
    assert scenario.one(transport, "waiting array")[0]["display_id"] == f"{scenario.jobs['waiting array']}_[2-9%2]"
    assert scenario.one(transport, "het")[0]["display_id"] == f"{scenario.jobs['het']}+0"
    assert scenario.one(transport, "runs")[0]["n_gpus"] == 8
    assert scenario.one(transport, "without gpus")[0]["n_gpus"] is None  # whether that is 0, the warehouse decides
    assert scenario.one(transport, "without gpus")[0]["time_limit_s"] == 420
    (never,) = scenario.one(transport, "never started")
    assert (never["n_gpus"], never["started_at"], never["time_limit_s"]) == (0, None, None)


def test_single_jobs_can_be_requested_by_id(scenario: Scenario) -> None:
    wanted = [str(scenario.jobs[name]) for name in ("requeued", "waits")]
    fetched = over_tcp(scenario.lab).jobs([*wanted, "999999"])
    result = parse_accounting_json(fetched.data, ParseContext(origin=fetched.origin)).frames["attempts"]
    assert sorted(result["job_id"]) == sorted([wanted[0], *wanted])


@pytest.mark.parametrize("way", [over_socket, over_tcp])
def test_the_inventory_is_the_same(scenario: Scenario, way: Any) -> None:
    as_of = datetime.fromtimestamp(int(now()), UTC)
    shown, answered = fetch_nodes(runner(scenario.lab)), way(scenario.lab).nodes()
    text = parse_nodes(shown.data, ParseContext(origin="t", cluster="bench", until=as_of))
    reported = parse_nodes_json(answered.data, ParseContext(origin="j", cluster="bench", until=as_of))
    for name in ("nodes", "node_states"):
        assert reported.frames[name].equals(text.frames[name])
    assert reported.frames["nodes"].height == 6
    assert reported.frames["node_states"]["reason"].to_list() == ["bad gpu | 3"]


def test_reservations_are_the_same(scenario: Scenario) -> None:
    as_of = datetime.fromtimestamp(int(now()), UTC)
    shown, answered = fetch_reservations(runner(scenario.lab)), over_tcp(scenario.lab).reservations()
    text = parse_reservations(shown.data, ParseContext("t", cluster="bench", until=as_of))
    reported = parse_reservations_json(answered.data, ParseContext("j", cluster="bench", until=as_of))
    assert reported.frames["reservations"].equals(text.frames["reservations"])
    assert reported.frames["reservations"].select("name", "node_list", "users", "maintenance").rows() == [
        ("maint1", "n6", ["alice", "root"], True)
    ]


# --- the whole way, from the command line --------------------------------------------------------------


def ingest(
    scenario: Scenario, folder: Path, slurm: dict[str, str], **environment: str
) -> subprocess.CompletedProcess[str]:
    settings = "\n".join(f"{name} = {json.dumps(value)}" for name, value in {"retries": 0, **slurm}.items())
    (folder / "trackside.toml").write_text(f"[slurm]\n{settings}\n")
    command = [*("-m", "app.cli.main", "ingest", "slurm", "--config", str(folder / "trackside.toml"))]
    return subprocess.run(
        [sys.executable, *command, "--warehouse", str(folder / "w")],
        env={**scenario.lab.env, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def attempts(folder: Path) -> pl.DataFrame:
    with open_reader(folder / "w") as reader:
        return reader.table("attempts").sort(KEY)


def test_rest_ingest_fills_the_warehouse_like_one_by_commands(scenario: Scenario, tmp_path: Path) -> None:
    rest = {"transport": "rest", "rest_url": scenario.lab.url, "rest_user": "root"}
    by_rest, by_commands = tmp_path / "rest", tmp_path / "commands"
    for folder in (by_rest, by_commands):
        folder.mkdir()
    token = scenario.lab.token()
    done = ingest(scenario, by_rest, rest, SLURM_JWT=token)
    assert done.returncode == 0, done.stderr
    assert "slurmrestd has no node events" in done.stdout + done.stderr
    assert token not in done.stdout + done.stderr
    done = ingest(scenario, by_commands, {})
    assert done.returncode == 0, done.stderr
    reported, text = attempts(by_rest), attempts(by_commands)
    same = [name for name in reported.columns if name not in {*LOST["0.0.38"], "elapsed_s"}]
    shared = text.join(reported, on=KEY, how="semi")  # by id, commands find some that no window shows
    assert reported.select(same).equals(shared.select(same))
    with open_reader(by_rest / "w") as reader:
        assert reader.table("nodes")["n_gpus"].sum() == 40
        assert not [origin for origin in reader.table("loads")["origin"] if token in origin]
    # The other transport over the same warehouse adds nothing, and takes nothing away.
    done = ingest(scenario, by_commands, rest, SLURM_JWT=token)
    assert done.returncode == 0, done.stderr
    # What still runs was seen later by it, and that sighting counts, with what it knows.
    again, ended = attempts(by_commands), pl.col("ended_at").is_not_null()
    assert again.select(same).equals(text.select(same))
    assert again.filter(ended).equals(text.filter(ended))


def test_the_socket_needs_no_token(scenario: Scenario, tmp_path: Path) -> None:
    done = ingest(scenario, tmp_path, {"transport": "rest", "rest_url": scenario.lab.unix})
    assert done.returncode == 0, done.stderr
    assert attempts(tmp_path).height >= len(scenario.jobs)


@pytest.mark.parametrize("token", ["eyJhbGciOiJIUzI1NiJ9.eyJzdW4iOiJyb290In0.c2ln", ""])
def test_a_bad_token_loads_nothing_and_is_not_shown(scenario: Scenario, tmp_path: Path, token: str) -> None:
    rest = {"transport": "rest", "rest_url": scenario.lab.url, "rest_user": "root"}
    done = ingest(scenario, tmp_path, rest, SLURM_JWT=token)
    assert done.returncode == 22
    assert "access denied" in done.stderr
    assert "Traceback" not in done.stderr
    assert not token or token not in done.stdout + done.stderr
    assert attempts(tmp_path).is_empty()


# --- what goes wrong -----------------------------------------------------------------------------------


def test_slurmrestd_that_dies_before_answering_is_retried_later(scenario: Scenario) -> None:
    lab, caught = scenario.lab, []
    transport = over_tcp(lab)
    transport.accounting(scenario.since, scenario.until)
    lab.freeze_rest()

    def ask() -> None:
        with pytest.raises(ServerDownError) as error:
            transport.accounting(scenario.since, scenario.until)
        caught.append(str(error.value))

    asking = threading.Thread(target=ask)
    asking.start()
    time.sleep(0.5)
    lab.kill_rest()
    asking.join(10)
    try:
        assert "broke off in the middle" in caught[0]
        with pytest.raises(ServerDownError, match="no server listens there"):
            transport.accounting(scenario.since, scenario.until)
    finally:
        lab.start_rest()
    assert parse_accounting_json(
        transport.accounting(scenario.since, scenario.until).data, ParseContext(origin="x")
    ).rows_loaded


def test_nodes_without_slurmctld_are_an_error_despite_the_answer(scenario: Scenario) -> None:
    lab = scenario.lab
    lab.stop_slurmctld()
    try:
        with pytest.raises(ServerDownError, match="Slurm behind it did not answer"):
            over_socket(lab).nodes()
        shown = lab.run(["sinfo", "--json"])  # exit status 0
        assert not json.loads(shown.stdout)["nodes"]
        with pytest.raises(SlurmAnswerError, match="Slurm answered with an error"):
            parse_nodes_json(shown.stdout.encode(), ParseContext(origin="sinfo --json", cluster="bench"))
        fetched = over_socket(lab).accounting(scenario.since, scenario.until)  # slurmdbd knows it all the same
        assert parse_accounting_json(fetched.data, ParseContext(origin="x")).rows_loaded
    finally:
        lab.start_slurmctld()


def test_accounting_without_slurmdbd_is_an_error_losing_nothing(scenario: Scenario, tmp_path: Path) -> None:
    rest = {"transport": "rest", "rest_url": scenario.lab.unix}
    scenario.lab.stop_slurmdbd()
    try:
        done = ingest(scenario, tmp_path, rest)
    finally:
        scenario.lab.start_slurmdbd()
    assert done.returncode == 22
    assert "slurmrestd is up, but Slurm behind it did not answer" in done.stderr
    assert attempts(tmp_path).is_empty()
    done = ingest(scenario, tmp_path, rest)
    assert done.returncode == 0, done.stderr
    assert attempts(tmp_path).height >= len(scenario.jobs)


def test_unserved_version_is_reported_with_the_served_ones(scenario: Scenario) -> None:
    transport = RestTransport(Client(scenario.lab.unix, version="0.0.41"))
    with pytest.raises(ServerDownError, match=r"does not serve /slurmdb/ in v0\.0\.41\.\nIt serves: v0\.0\.38"):
        transport.accounting(scenario.since, scenario.until)
