"""The process that runs a person's SQL: what the system keeps from it, and when it ends.

Where the kernel lacks a measure, `doctor` reports that, and these tests check that it does.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from queries.errors import QueryError
from queries.sandbox import confinement
from queries.sandbox.confinement import measures, program
from queries.sandbox.run import SandboxLimits, user_sql
from queries.warehouse import open_writer
from tests.queries.test_warehouse import DAY, NOW, put, samples

if TYPE_CHECKING:
    from collections.abc import Iterator

ATTEMPTS: Final = """
import ctypes, json, mmap, os, resource, signal, socket, subprocess, sys, threading
from pathlib import Path
from queries.sandbox import confinement

parent = os.getppid()
inside, outside = map(Path, sys.argv[1:3])
confinement.no_new_privileges()
confinement.restrict_to_reading([inside])
if sys.argv[3] == "all":
    confinement.refuse_system_calls()
libc = ctypes.CDLL(None, use_errno=True)

def raw(*arguments):
    if libc.syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")

def child():
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)

attempts = {
    "read inside": lambda: (inside / "file").read_text(),
    "list inside": lambda: list(inside.iterdir()),
    "thread": lambda: (made := threading.Thread(target=lambda: None), made.start(), made.join()),
    "read outside": lambda: (outside / "file").read_text(),
    "list outside": lambda: list(os.scandir(outside)),
    "read passwords": lambda: Path("/etc/passwd").read_text(),
    "read the parent": lambda: Path(f"/proc/{parent}/environ").read_bytes(),
    "write inside": lambda: (inside / "new").write_text("x"),
    "write outside": lambda: (outside / "new").write_text("x"),
    "delete inside": lambda: (inside / "file").unlink(),
    "rename inside": lambda: (inside / "file").rename(inside / "other"),
    "truncate": lambda: os.truncate(inside / "file", 0),
    "mode": lambda: (inside / "file").chmod(0o777),
    "tcp": lambda: socket.create_connection(("127.0.0.1", int(sys.argv[4])), timeout=5),
    "listen": lambda: socket.create_server(("127.0.0.1", 0)),
    "unix": lambda: socket.socket(socket.AF_UNIX),
    "fork": child,
    "program": lambda: os.execv(sys.executable, [sys.executable, "-c", ""]),
    "spawn": lambda: subprocess.run(["/bin/true"], check=True),
    "signal the parent": lambda: os.kill(parent, 0),
    "ptrace": lambda: raw(*((101,) if os.uname().machine == "x86_64" else (117,)), 16, parent, 0, 0),
    "more memory": lambda: resource.setrlimit(resource.RLIMIT_DATA, (-1, -1)),
    "stop the timer": lambda: signal.setitimer(signal.ITIMER_REAL, 0),
    "outlive the parent": lambda: raw(*((157,) if os.uname().machine == "x86_64" else (167,)), 1, 0, 0, 0, 0),
    "code": lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC),
    "io_uring": lambda: raw(425, 1, 0),
    "pidfd": lambda: raw(434, parent, 0),
    "allow again": lambda: raw(444, 0, 0, 1),
}
done = []
for name, attempt in attempts.items():
    try:
        attempt()
        done.append(name)
    except (OSError, ValueError):  # setrlimit makes a ValueError of EPERM
        pass
print(json.dumps(done))
"""
BY_LANDLOCK: Final = {
    *("read outside", "list outside", "read passwords", "read the parent", "write inside", "write outside"),
    *("delete inside", "rename inside", "truncate", "program", "spawn"),
}
BY_LANDLOCK_ABI_4: Final = {"tcp", "listen"}
BY_LANDLOCK_ABI_6: Final = {"signal the parent"}
NOT_BY_SECCOMP: Final = {"read outside", "list outside", "read passwords", "read the parent"}
ALLOWED: Final = {"read inside", "list inside", "thread"}


def done_by(tmp_path: Path, measure: str) -> set[str]:
    """What a confined process could do."""
    for name in ("inside", "outside"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("text")
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        command = [sys.executable, "-c", ATTEMPTS, tmp_path / "inside", tmp_path / "outside", measure]
        done = subprocess.run(
            [*map(str, command), str(server.getsockname()[1])], capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_confined_process_reads_its_folder_and_nothing_else(tmp_path: Path) -> None:
    done = done_by(tmp_path, "all")
    assert done >= ALLOWED
    if measures().complete:
        assert done == ALLOWED
    elif measures().seccomp:
        assert done <= ALLOWED | NOT_BY_SECCOMP
    else:
        assert "not available" in str(measures())


def test_landlock_alone_keeps_files_and_network_away(tmp_path: Path) -> None:
    done = done_by(tmp_path, "landlock")
    abi = measures().landlock
    if abi:
        kept_away = (
            BY_LANDLOCK | (BY_LANDLOCK_ABI_4 if abi >= 4 else set()) | (BY_LANDLOCK_ABI_6 if abi >= 6 else set())
        )
        assert not done & kept_away
    else:
        assert "Landlock not available" in str(measures())
    assert done >= ALLOWED


def run_filter(steps: list[tuple[int, int, int, int]], data: bytes) -> int:
    """The kernel's interpreter of such filters, in a few lines."""
    place, loaded = 0, 0
    while True:
        code, yes, no, operand = steps[place]
        place += 1
        if code == 0x20:
            loaded = int.from_bytes(data[operand : operand + 4], "little")
        elif code == 0x06:
            return operand
        else:
            holds = {0x15: loaded == operand, 0x35: loaded >= operand, 0x45: bool(loaded & operand)}[code]
            place += yes if holds else no


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_filter_of_each_processor_refuses_exactly_its_list(machine: str) -> None:
    kind = confinement._PROCESSORS[machine]  # noqa: SLF001 - the program for a processor that we may not have
    steps = program(kind, pid=7)

    def answer(number: int, *arguments: int, audit: int = kind.audit) -> int:
        data = number.to_bytes(4, "little") + audit.to_bytes(4, "little") + bytes(8)
        return run_filter(steps, data + b"".join(each.to_bytes(8, "little") for each in (*arguments, 0, 0, 0, 0, 0, 0)))

    allow, refuse, none = 0x7FFF0000, 0x00050001, 0x00050026
    listed = {numbers[kind.column] for numbers in confinement._DENIED.values()} - {None}  # noqa: SLF001 - as above
    partly = {kind.clone, kind.tgkill, kind.prctl}
    assert listed & partly == set()
    for number in set(range(424)) - partly:
        assert answer(number) == (refuse if number in listed else allow)
    assert {answer(number) for number in (424, 425, 434, 435, 500, 2**30 + 59, 2**32 - 1)} == {none}
    assert answer(0, audit=0x40000003) == 0x80000000  # 32-bit calls end the process
    assert [answer(kind.clone, flags) for flags in (0x10000, 0x11, 0)] == [allow, refuse, refuse]
    assert [answer(kind.tgkill, pid) for pid in (7, 8, 0)] == [allow, refuse, refuse]
    assert [answer(kind.prctl, option) for option in (15, 0x53564D41, 1, 4)] == [allow, allow, refuse, refuse]
    assert [answer(kind.prlimit, 0, 3, new) for new in (0, 4096, 2**40)] == [allow, refuse, refuse]
    assert [answer(kind.openat, 3, 4, flags) for flags in (0, 0x80000, 1, 2, 0x40, 0x200)] == [allow] * 2 + [refuse] * 4
    assert [answer(kind.mmap, 0, 4096, prot) for prot in (1, 3, 5, 7)] == [allow, allow, refuse, refuse]
    assert [answer(kind.mprotect, 0, 4096, prot) for prot in (1, 3, 5, 7)] == [allow, allow, refuse, refuse]


# The whole sandbox ------------------------------------------------------------------------------------------------

SLOW: Final = "SELECT count(*) FROM range(100000000) a, range(100000000) b"
ASK: Final = """
import sys
from pathlib import Path
from queries.sandbox.run import SandboxLimits, user_sql
user_sql(Path(sys.argv[1]), sys.argv[2], SandboxLimits(seconds=float(sys.argv[3])))
"""


@contextlib.contextmanager
def hangups(action: signal.Handlers) -> Iterator[None]:
    """What a process that is started meanwhile does at SIGHUP: the tests themselves may run under nohup."""
    before = signal.signal(signal.SIGHUP, action)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def asking(root: Path, seconds: float = 300) -> tuple[subprocess.Popen[bytes], int]:
    """A process that waits for a query that does not end, and the process that runs the query."""
    environment = os.environ | {"SLURM_JWT": "a-secret-token"}
    asks = subprocess.Popen([sys.executable, "-c", ASK, str(root), SLOW, str(seconds)], env=environment)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        children = Path(f"/proc/{asks.pid}/task/{asks.pid}/children").read_text().split()
        if children and state(int(children[0])) not in {None, "Z"} and runs(int(children[0])):
            return asks, int(children[0])
        time.sleep(0.05)
    asks.kill()
    raise AssertionError("the query did not begin")


def runs(pid: int) -> bool:
    """Whether a process is the confined one: it may not get new privileges any more."""
    try:
        return "NoNewPrivs:\t1" in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def state(pid: int) -> str | None:
    """A process's state as the kernel has it; None when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


def gone(pid: int, patience_s: float = 60) -> bool:
    deadline = time.monotonic() + patience_s
    while state(pid) not in {None, "Z"}:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_query_ends_with_its_calling_process(sent: signal.Signals, tmp_path: Path) -> None:
    put(tmp_path / "w", "alice")
    with hangups(signal.SIG_DFL):
        asks, query = asking(tmp_path / "w")
    asks.send_signal(sent)
    assert asks.wait() == -sent
    assert gone(query)


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP])
def test_a_query_ends_on_a_signal_even_under_nohup(sent: signal.Signals, tmp_path: Path) -> None:
    put(tmp_path / "w", "alice")
    with hangups(signal.SIG_IGN):
        asks, query = asking(tmp_path / "w")
    os.kill(query, sent)
    assert gone(query)
    assert asks.wait() != 0


@pytest.mark.slow
def test_query_ends_in_time_even_if_the_requester_is_stopped(tmp_path: Path) -> None:
    put(tmp_path / "w", "alice")
    asks, query = asking(tmp_path / "w", seconds=1)
    asks.send_signal(signal.SIGSTOP)
    try:
        assert gone(query)
    finally:
        asks.kill()
        asks.wait()


@pytest.mark.slow
def test_the_process_of_a_query_has_no_secret_in_its_environment(tmp_path: Path) -> None:
    put(tmp_path / "w", "alice")
    asks, query = asking(tmp_path / "w")
    environment = Path(f"/proc/{query}/environ").read_bytes()
    asks.kill()
    asks.wait()
    assert b"PATH=" in environment
    assert b"a-secret-token" not in environment


@pytest.mark.slow
def test_a_forged_serialisation_with_a_pointer_is_refused(tmp_path: Path) -> None:
    import duckdb

    put(tmp_path / "w", "alice")
    serialised = duckdb.execute("SELECT json_serialize_sql('FROM range(1)')").fetchall()[0][0]
    forged = serialised.replace('"range"', '"pandas_scan"').replace('"value":1', '"value":4702111234474983745')
    assert "pandas_scan" in forged
    for sql in (
        f"SELECT * FROM json_execute_serialized_sql('{forged}')",
        f"WITH x AS (FROM json_execute_serialized_sql('{forged}')) SELECT (SELECT count(*) FROM x)",
        f"SELECT json_serialize_plan('SELECT * FROM json_execute_serialized_sql(''{forged}'')')",
        f"PRAGMA json_execute_serialized_sql('{forged}')",
        f"FROM query('FROM json_execute_serialized_sql(''{forged}'')')",
        "FROM arrow_scan(1, 2, 3)",
    ):
        with pytest.raises(QueryError, match=r"cannot be called here|only one SELECT"):
            user_sql(tmp_path / "w", sql)


def test_samples_on_another_disk_are_read(tmp_path: Path) -> None:
    root = tmp_path / "w"
    with open_writer(root, verb="t", now=NOW) as writer, writer.transaction():
        writer.write_partition("gpu_samples", "c", DAY, samples(0.1, 0.2))
    (root / "raw" / "gpu_samples").rename(tmp_path / "disk")
    (root / "raw" / "gpu_samples").symlink_to(tmp_path / "disk")
    rows, _ = user_sql(root, "SELECT count(*) AS n FROM gpu_samples")
    assert rows["n"].item() == 2


@pytest.mark.slow
def test_query_runs_under_a_system_limit_it_cannot_raise(tmp_path: Path) -> None:
    put(tmp_path / "w", "alice")
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20)); "
        "resource.setrlimit(resource.RLIMIT_CPU, (3600, 3600)); "
        "from pathlib import Path; from queries.sandbox.run import user_sql; "
        "print(user_sql(Path(sys.argv[1]), *sys.argv[2:]))"
    )
    run = [sys.executable, "-c", code, str(tmp_path / "w")]
    assert "42" in subprocess.run([*run, "SELECT 42 AS n"], capture_output=True, text=True, check=True).stdout
    big = subprocess.run(
        [*run, "SELECT repeat('x', 3000) FROM range(1000)"], capture_output=True, text=True, check=False
    )
    assert "larger than" in big.stderr


@pytest.mark.slow
def test_process_start_time_does_not_count_for_the_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "w", "alice")
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "sitecustomize.py").write_text("import time; time.sleep(8)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "slow"))
    rows, _ = user_sql(tmp_path / "w", "SELECT 42 AS n", SandboxLimits(seconds=2))
    assert rows["n"].to_list() == [42]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["o'brien", 'a "b"; c', "ä [x] *"])
def test_a_warehouse_may_be_in_any_folder(name: str, tmp_path: Path) -> None:
    root = tmp_path / name
    with open_writer(root, verb="t", now=NOW) as writer, writer.transaction():
        writer.write_partition("gpu_samples", "c", DAY, samples(0.1, 0.2))
    rows, _ = user_sql(root, "SELECT count(*) AS n FROM gpu_samples")
    assert rows["n"].item() == 2


@pytest.mark.slow
def test_limits_are_reported_as_limits(tmp_path: Path) -> None:
    put(tmp_path / "w", "alice")
    with pytest.raises(QueryError, match="longer than -3 s"):
        user_sql(tmp_path / "w", SLOW, SandboxLimits(seconds=-3))
