"""`serve` beside a real API server: killed, cut off, its token revoked; it ends as one reading of the end does."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ingest.kubernetes.store import ingest_files
from queries.warehouse import open_reader, open_writer
from tests.lab.processes import wait_until
from tests.lab_tests.test_api_server import JOBS, PODS, Reader, Script, agree, clock, lab, restarted
from tests.support.command import ROOT
from tests.support.kubernetes.objects import as_list

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab.api_server import ApiServerLab

__all__ = ["lab"]

ATTEMPTS = (
    "SELECT name, state, node_list, n_gpus, started_at, ended_at, exit_code FROM attempts WHERE name = 'served'"
    " ORDER BY ALL"
)


@contextmanager
def serving(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`trackside serve`, a cycle every three seconds; killed at the end."""
    command = [sys.executable, "-m", "app.cli.main", "serve", "--port", "0", "--every", "0.05"]
    where = ["--config", str(folder / "trackside.toml"), "--warehouse", str(folder / "w")]
    with (folder / "serve.log").open("ab") as log:
        process = subprocess.Popen([*command, *where], stdout=log, stderr=log, cwd=ROOT)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()


def seen(folder: Path, name: str, state: str) -> bool:
    """Whether the warehouse has a pod in a state."""
    try:
        with open_reader(folder / "w") as reader:
            return not reader.frame(f"SELECT 1 FROM pods WHERE name = '{name}' AND state = '{state}'").is_empty()
    except Exception:  # noqa: BLE001 - there is none yet
        return False


def test_served_attempts_are_those_of_the_last_objects(lab: ApiServerLab, tmp_path: Path) -> None:
    script, reader = Script(lab), Reader(lab, tmp_path)
    (tmp_path / "trackside.toml").write_text(
        f'cluster = "k"\n[kubernetes]\nkubeconfig = "{tmp_path / "config"}"\nreplay_s = 1\npage = 2\nretries = 6\n'
    )
    above = script.job("served")
    script.run("served-worker-0", above, "host-0")
    with serving(tmp_path):
        wait_until(lambda: seen(tmp_path, "served-worker-0", "RUNNING"), 120, "serve has read the first pod")
    script.end("served-worker-0", 1)  # while it is dead
    script.run("served-worker-1", above, "host-1")
    with serving(tmp_path):
        wait_until(lambda: seen(tmp_path, "served-worker-1", "RUNNING"), 120, "serve goes on after it was killed")
        restarted(lab)  # watches are cut
        old = reader.secret
        reader.new_token()
        lab.call("DELETE", f"/api/v1/namespaces/trackside/secrets/{old}")
        lab.compact()
        script.end("served-worker-1", 0)
        wait_until(lambda: seen(tmp_path, "served-worker-1", "COMPLETED"), 120, "serve reads on with a new token")
        time.sleep(4)  # one more cycle, which may be killed in its midst
    items = [*lab.call("GET", JOBS)["items"]]
    pods = [{**pod, "kind": "Pod"} for pod in lab.call("GET", PODS)["items"]]
    whole = as_list(*({**job, "kind": "PyTorchJob"} for job in items), *pods)
    (tmp_path / "all.json").write_bytes(whole)
    with open_writer(tmp_path / "once", verb="test", now=clock()) as writer:
        ingest_files(writer, [str(tmp_path / "all.json")], cluster="k", now=clock(), progress=lambda *_: None)
    assert rows(tmp_path / "w") == rows(tmp_path / "once")
    assert [(row[1], row[2]) for row in rows(tmp_path / "w")] == [("FAILED", "host-0,host-1")]  # a gang of two workers
    agree(reader, script)


def rows(root: Path) -> list[tuple[Any, ...]]:
    with open_reader(root) as reader:
        return reader.frame(ATTEMPTS).rows()
