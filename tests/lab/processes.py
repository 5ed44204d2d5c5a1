"""Processes of the lab, as /proc knows them: start, find, end. Never by name, always by id."""

import os
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# What a lab tells its reaper when there is nothing left to clean up.
STOPPED = b"stopped"


class LabError(RuntimeError):
    """The lab could not do what was asked; the message ends with the log that tells why."""


def now() -> float:
    """The wall clock: the lab looks at Slurm from outside, so its truth is real time."""
    return time.time()  # noqa: TID251 - an outside observer has no other clock


def tail(log: Path, lines: int = 15) -> str:
    """The last lines of a log, ready to end an error message."""
    if not log.exists():
        return f"(no log {log})"
    return f"--- {log}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


# --- what /proc says


def _stat(pid: int) -> list[str]:
    """The fields after the command name, which may itself hold blanks and brackets."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def started_at_tick(pid: int) -> int | None:
    """Start of a process in clock ticks since boot: with the pid it names one process for good. None: gone.

    A dead process whom its parent has not asked after yet (Z) is gone too; init may take its time.
    """
    try:
        stat = _stat(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if stat[0] == "Z" else int(stat[19])


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def descendants(roots: Iterable[int]) -> list[int]:
    """All living children of `roots`, and theirs; the roots themselves are left out."""
    children: dict[int, list[int]] = {}
    for pid in _pids():
        try:
            children.setdefault(int(_stat(pid)[1]), []).append(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue  # ended while we looked
    found: list[int] = []
    queue = list(roots)
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def stepds(logs: Collection[Path]) -> list[int]:
    """The slurmstepds of the slurmds that write `logs`.

    A slurmstepd is a child of init and its command line names no node; the open log of its slurmd does.
    """
    names = {str(log) for log in logs}
    return [pid for pid in _pids() if _comm(pid) == "slurmstepd" and names & _open_files(pid)]


def _comm(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _open_files(pid: int) -> set[str]:
    files = set()
    try:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            files.add(str(link.readlink()))
    except (FileNotFoundError, ProcessLookupError):
        return files  # ended while we looked
    return files


def kill(pids: Iterable[int], signum: signal.Signals = signal.SIGKILL) -> None:
    """Signal each process that is still there."""
    for pid in pids:
        try:
            os.kill(pid, signum)
        except ProcessLookupError:
            continue


def kill_stepds(logs: Collection[Path]) -> None:
    """End the steps of some slurmds for good: first each slurmstepd, then what ran below it.

    In the other order a slurmstepd would see its task end and tell slurmctld so, which a dead node cannot.
    """
    while daemons := stepds(logs):
        tasks = descendants(daemons)
        kill(daemons)
        kill(tasks)
        time.sleep(0.01)


# --- daemons


@dataclass
class Daemon:
    """A process in the foreground form, in a session of its own, so that Ctrl-C of a test run misses it."""

    name: str
    log: Path
    process: subprocess.Popen[bytes]

    @classmethod
    def start(cls, name: str, argv: Sequence[str], *, log: Path, env: Mapping[str, str], ledger: Path) -> "Daemon":
        """Start `argv` and enter it in the ledger, from which the reaper works should this process die.

        Without core files: what a test kills would leave them wherever it stands.
        """
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        with log.with_suffix(".out").open("ab") as out:
            process = subprocess.Popen(
                list(argv), stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=dict(env), start_new_session=True
            )
        with ledger.open("a") as entries:
            entries.write(f"{process.pid} {started_at_tick(process.pid)} {name}\n")
        return cls(name, log, process)

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self.process.poll() is None

    def why_dead(self) -> str:
        """What it last said, for an error message."""
        out = self.log.with_suffix(".out")
        return f"{self.name} ended with {self.process.returncode}\n{tail(out)}\n{tail(self.log)}"

    def stop(self, timeout: float = 10) -> None:
        """End it with SIGTERM, or with SIGKILL when it does not listen."""
        self.process.terminate()
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it with SIGKILL."""
        self.process.kill()
        self.process.wait()


def end_ledger(ledger: Path, logs: Collection[Path]) -> None:
    """End every process in the ledger and every step of the lab, whoever started them. For the reaper."""
    if not ledger.exists():
        return
    for line in ledger.read_text().splitlines():
        pid, tick, _ = line.split()
        if started_at_tick(int(pid)) == int(tick):  # else the pid has gone to somebody else
            kill([int(pid)])
    kill_stepds(logs)


def wait_until(
    predicate: Callable[[], object], timeout: float, what: str, *, every: float = 0.05, seldom: float = 0.4
) -> None:
    """Ask again and again until `predicate` is true; LabError naming `what` when it does not come true.

    First it asks every `every` seconds, then the more seldom the longer it waits, at last every `seldom` seconds: a
    question is often a process, and the tests beside this one need the processor, too. So the answer comes late by a
    tenth of the wait at most.
    """
    began = time.monotonic()
    while not predicate():
        waited = time.monotonic() - began
        if waited > timeout:
            message = f"waited {timeout:g} s in vain: {what}"
            raise LabError(message)
        time.sleep(max(every, min(waited / 10, seldom)))


# --- what two labs on one machine must share out


def claim(name: str) -> socket.socket | None:
    """Take a name on this machine, or None when another lab has it. The kernel frees it when this process ends."""
    lock = socket.socket(socket.AF_UNIX)
    try:
        lock.bind(f"\0trackside-lab-{name}")
    except OSError:
        lock.close()
        return None
    return lock


def port_is_free(port: int) -> bool:
    """Whether nothing listens on this loopback port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def claim_ports(count: int) -> tuple[int, socket.socket]:
    """The first of `count` free ports in a row, and the claim on them.

    Below 32768: the kernel gives the ports above to outgoing connections, and now and then to one that is in our way.
    """
    for first in range(17000, 32000, 20):
        lock = claim(f"ports-{first}")
        if lock is None:
            continue
        if all(port_is_free(first + offset) for offset in range(count)):
            return first, lock
        lock.close()
    message = f"found no {count} free ports in a row between 17000 and 32000"
    raise LabError(message)
