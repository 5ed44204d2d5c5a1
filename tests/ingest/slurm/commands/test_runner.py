from __future__ import annotations

import sys
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from ingest.context import ParseContext
from ingest.errors import InputError, SourceDownError, SourceError, SourceMissingError
from ingest.load_warnings import messages
from ingest.slurm.accounting.sacct import fetch_accounting, parse_accounting
from ingest.slurm.accounting.sacct_by_id import fetch_jobs
from ingest.slurm.commands.runner import Completed, Runner, subprocess_runner
from ingest.slurm.nodes.inventory import fetch_events, fetch_nodes, fetch_settings
from tests.support.slurm.parsing import DATA, at, text

if TYPE_CHECKING:
    from collections.abc import Mapping

SINCE, UNTIL = at(1795247700), at(1795250000)


class Fake:
    """A runner that remembers what it was asked, and answers by the first word of the command."""

    def __init__(self, **answers: Completed) -> None:
        self.answers = {"sacct_e": Completed(0, (DATA / "columns.sacct-e.txt").read_bytes(), b""), **answers}
        self.commands: list[list[str]] = []
        self.environments: list[Mapping[str, str]] = []

    def __call__(self, command: list[str], environment: Mapping[str, str]) -> Completed:
        self.commands.append(command)
        self.environments.append(environment)
        return self.answers["sacct_e" if command[1:] == ["-e"] else command[0]]


def accounting(runner: Runner, **options: list[str]) -> bytes:
    return fetch_accounting(runner, since=SINCE, until=UNTIL, clusters=options.get("clusters")).data


def test_sacct_is_run_with_all_columns_it_supports() -> None:
    runner = Fake(sacct=Completed(0, b"x", b""))
    accounting(runner)
    command = runner.commands[1]
    assert command[:6] == ["sacct", "-a", "-D", "-P", "--noconvert", "--delimiter=\x1f"]
    assert command[6:10] == ["-S", "2026-11-21T07:55:00", "-E", "2026-11-21T08:33:20"]
    columns = command[-1].split(",")
    assert columns[-1] == "JobIDRaw"
    assert {"DBIndex", "AllocTRES", "ReqTRES", "Suspended", "JobName", "TotalCPU", "MaxRSS"} < set(columns)


def test_steps_are_left_out_where_a_site_does_not_want_them() -> None:
    runner = Fake(sacct=Completed(0, b"x", b""))
    fetch_accounting(runner, since=SINCE, until=UNTIL, steps=False)
    assert runner.commands[1][:4] == ["sacct", "-a", "-D", "-X"]


def test_columns_that_this_slurm_lacks_are_not_requested() -> None:
    runner = Fake(sacct_e=Completed(0, b"JobIDRaw Submit  Start\n End State", b""), sacct=Completed(0, b"x", b""))
    accounting(runner)
    assert runner.commands[1][-1] == "JobIDRaw,Submit,Start,End,State,JobIDRaw"


def test_times_are_epochs_whatever_the_users_environment() -> None:
    runner = Fake(sacct=Completed(0, b"x", b""))
    accounting(runner)
    assert all(seen == {"TZ": "UTC", "SLURM_TIME_FORMAT": "%s"} for seen in runner.environments)


def test_other_clusters_can_be_requested() -> None:
    runner = Fake(sacct=Completed(0, b"x", b""))
    accounting(runner, clusters=["a", "b"])
    assert runner.commands[1][runner.commands[1].index("-M") + 1] == "a,b"


def test_what_is_fetched_can_be_parsed() -> None:
    runner = Fake(sacct=Completed(0, text({"JobName": "a|b\nc"}, delimiter="\x1f"), b""))
    fetched = fetch_accounting(runner, since=SINCE, until=UNTIL)
    parsed = parse_accounting(fetched.data, ParseContext(origin=fetched.origin, since=SINCE, until=UNTIL))
    assert parsed.frames["attempts"]["name"].to_list() == ["a|b\nc"]
    assert fetched.origin.startswith("sacct -a -D -P")
    assert fetched.origin.isprintable()


def test_a_failed_command_is_down_even_if_it_printed_rows() -> None:
    output = b"sacct: error: slurm_persist_conn_open_without_init: failed\nsacct: error: Sending PersistInit msg\n"
    with pytest.raises(SourceDownError, match="slurmdbd seems to be down") as caught:
        accounting(Fake(sacct=Completed(1, text({}), output)))
    assert caught.value.status == 1
    assert "PersistInit" in str(caught.value)


def test_text_on_stderr_with_success_is_a_warning() -> None:
    fetched = fetch_accounting(Fake(sacct=Completed(0, b"x", b"sacct: late\n\n")), since=SINCE, until=UNTIL)
    assert messages(fetched.warnings) == ["sacct: late"]


def test_an_empty_window_is_not_sent_to_slurm() -> None:
    for fetch in (fetch_accounting, fetch_events):
        with pytest.raises(InputError, match="window is empty"):
            fetch(Fake(), since=SINCE, until=SINCE)


def test_a_sacct_without_any_needed_column_is_refused() -> None:
    with pytest.raises(SourceError, match="sacct -e"):
        accounting(Fake(sacct_e=Completed(0, b"usage", b"")))


def test_events_are_requested_with_a_start() -> None:
    runner = Fake(sacctmgr=Completed(0, b"x", b""))
    fetch_events(runner, since=SINCE, until=UNTIL, clusters=["a"])
    assert runner.commands[0][:7] == [
        *("sacctmgr", "-P", "show", "event", "Clusters=a"),
        *("Start=2026-11-21T07:55:00", "End=2026-11-21T08:33:20"),
    ]


def test_nodes_and_settings_come_from_scontrol() -> None:
    runner = Fake(scontrol=Completed(0, b"x", b""))
    assert fetch_nodes(runner).data == fetch_settings(runner).data == b"x"
    assert runner.commands == [["scontrol", "show", "node", "-o"], ["scontrol", "show", "config"]]


def test_missing_command_is_reported() -> None:
    with pytest.raises(SourceMissingError, match="no-such-sacct is not installed"):
        subprocess_runner(["no-such-sacct"], {})


def test_a_command_that_times_out_is_ended() -> None:
    with pytest.raises(SourceDownError, match="did not answer in time"):
        subprocess_runner([sys.executable, "-c", "import time; time.sleep(60)"], {}, timeout_s=0.2)


def test_a_real_command_gets_the_environment() -> None:
    done = subprocess_runner([sys.executable, "-c", "import os; print(os.environ['TZ'], end='')"], {"TZ": "UTC"})
    assert done == (0, b"UTC", b"")


def test_slurm_variables_of_the_user_do_not_change_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    beginnings = ("SQUEUE_USERS", "SACCT_FORMAT", "SCONTROL_ALL", "SACCTMGR_X", "SDIAG_X", "SINFO_PARTITION")
    for name in (*beginnings, "SLURM_CLUSTERS", "SLURM_TIME_FORMAT"):
        monkeypatch.setenv(name, "x")
    for name in ("SLURM_CONF", "SLURM_JWT"):
        monkeypatch.setenv(name, "kept")
    show = "import os; print(*sorted(name for name in os.environ if name.startswith('S') and '_' in name))"
    seen = subprocess_runner([sys.executable, "-c", show], {"SLURM_TIME_FORMAT": "%s"}).stdout.decode().split()
    assert {"SLURM_CONF", "SLURM_JWT", "SLURM_TIME_FORMAT"} <= set(seen)
    assert not {*beginnings, "SLURM_CLUSTERS"} & set(seen)


def test_the_window_is_utc_whatever_zone_it_is_given_in() -> None:
    runner = Fake(sacct=Completed(0, b"x", b""))
    zone = timedelta(hours=5)
    fetch_accounting(runner, since=SINCE.astimezone(), until=UNTIL + zone - zone)
    assert runner.commands[1][7] == "2026-11-21T07:55:00"


def test_a_column_that_every_slurm_has_is_missed() -> None:
    names = (DATA / "columns.sacct-e.txt").read_text(encoding="utf-8").replace("AllocTRES", "")
    runner = Fake(sacct_e=Completed(0, names.encode(), b""), sacct=Completed(0, b"x", b""))
    (warning,) = messages(fetch_accounting(runner, since=SINCE, until=UNTIL).warnings)
    assert "no column AllocTRES (" in warning
    assert fetch_accounting(Fake(sacct=Completed(0, b"x", b"")), since=SINCE, until=UNTIL).warnings == ()


def test_jobs_are_requested_by_id_without_a_window() -> None:
    runner = Fake(sacct=Completed(0, b"x", b""))
    fetched = fetch_jobs(runner, ["7", "12"], clusters=["a"])
    command = runner.commands[1]
    assert command[command.index("-j") + 1] == "7,12"
    assert command[command.index("-M") + 1] == "a"
    assert "-S" not in command
    assert "-D" in command
    assert fetched.origin == "sacct -j: 2 open jobs, 7 to 12"


@pytest.mark.parametrize("ids", [[], ["7;rm"], ["7", ""], ["-a"]])
def test_what_is_no_job_id_is_not_sent_to_slurm(ids: list[str]) -> None:
    with pytest.raises(InputError, match="job ids"):
        fetch_jobs(Fake(), ids)


def test_commands_run_behind_everything_else() -> None:
    program = "import os, time\nwhile os.nice(0) < 10: time.sleep(0.01)"
    assert subprocess_runner([sys.executable, "-c", program], {}, timeout_s=60).returncode == 0
