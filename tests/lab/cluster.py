"""A real Slurm cluster with accounting on this one machine, up in seconds, gone without a trace.

munged, MariaDB, slurmdbd, slurmctld, six slurmds and slurmrestd on loopback, all below one temporary
directory, no systemd and no container. Needs root and the packages of tests/lab/install.sh.

    with SlurmLab() as lab:
        job = lab.sbatch("sleep 5", "-N2", "--gres=gpu:8")
        lab.wait_for(job)
        print(lab.truth.attempts(job), lab.sacct("-j", str(job)))
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tests.lab import config, reaper
from tests.lab.config import NODES, USERS, Layout, Ports
from tests.lab.processes import (
    STOPPED,
    Daemon,
    LabError,
    claim,
    claim_ports,
    descendants,
    end_ledger,
    kill,
    kill_stepds,
    now,
    stepds,
    tail,
    wait_until,
)
from tests.lab.truth import Truth

if TYPE_CHECKING:
    import socket

TERMINAL = frozenset(
    {
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED"),
        *("NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
    }
)
BINARIES = (
    *("munged", "munge", "mariadbd", "mariadb", "mariadb-install-db", "mariadb-admin"),
    *("slurmdbd", "slurmctld", "slurmd", "slurmrestd"),
    *("sbatch", "squeue", "sinfo", "scontrol", "scancel", "sacct", "sacctmgr"),
)
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CGROUP_V1 = [Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup/freezer")]
READY_S = 20.0


def missing() -> list[str]:
    """What this machine lacks for a lab; empty when one can be started.

    The lab changes nothing on its host, so its users have to be there: tests/lab/install.sh makes them.
    """
    lacking = [name for name in BINARIES if shutil.which(name, path=PATH) is None]
    lacking += [f"user {name} ({uid})" for name, uid in USERS.items() if not _is_user(name, uid)]
    return lacking if os.geteuid() == 0 else [*lacking, "root"]


def _is_user(name: str, uid: int) -> bool:
    try:
        return pwd.getpwnam(name).pw_uid == uid
    except KeyError:
        return False


def _cgroup_v1_is_writable() -> bool:
    """Found out by trying: a mount may say rw and refuse all the same."""
    for controller in CGROUP_V1:
        probe = controller / f"trackside-lab-probe-{os.getpid()}"
        try:
            probe.mkdir()
            probe.rmdir()
        except OSError:
            return False
    return True


class SlurmLab:
    """One cluster. Use it in a `with`, or call `start` and `stop`.

    `env` is what a subprocess needs to speak with it: SLURM_CONF, PATH, HOME and LANG, no more.
    `truth` tells what happened, seen from outside.
    """

    def __init__(self, *, keep: bool = False) -> None:
        # Not pytest's own temporary directory: that is closed to other users, and near the 107 bytes of a socket path.
        self.layout = Layout(Path(tempfile.mkdtemp(prefix="trackside-lab-")))
        self.base = self.layout.base
        self.env = {"SLURM_CONF": str(self.layout.slurm_conf), "PATH": PATH, "HOME": "/tmp", "LANG": "C.UTF-8"}
        self.truth = Truth(self.layout, self.env)
        self.started_in_s = 0.0
        self.cgroup = False
        self.ports = Ports(0)
        self._keep = keep
        self._daemons: dict[str, Daemon] = {}
        self._claims: list[socket.socket] = []
        self._reaper: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- start and stop

    def start(self) -> None:
        """Start everything, in the one order that works; LabError with a log's end when a daemon does not come up."""
        if lacking := missing():
            message = f"cannot start Slurm here, missing: {', '.join(lacking)}; tests/lab/install.sh installs it"
            raise LabError(message)
        began = time.monotonic()
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        self.started_in_s = time.monotonic() - began

    def _start(self) -> None:
        self._share_machine()
        self._make_files()
        self._start_reaper()
        self._start_munged()
        self._start_mariadb()
        self.start_slurmdbd()
        self._load_accounts()
        self._start_slurmctld("-i")  # -i: there is no state yet to be read
        self._add_capped_qos()
        for node in NODES:
            self._start_slurmd(node)
        self._await_nodes(NODES)
        self._start_slurmrestd()
        self.truth.start()

    def stop(self) -> None:
        """End all jobs, daemons and steps, and remove the directory. Harmless when repeated or half started."""
        self.truth.stop()
        self._cancel_all()
        for name in reversed(list(self._daemons)):
            self._daemons.pop(name).stop()
        end_ledger(self.layout.ledger, self.layout.slurmd_logs)
        self._remove_cgroups()
        self._end_reaper()
        for lock in self._claims:
            lock.close()
        self._claims.clear()
        if not self._keep:
            shutil.rmtree(self.base, ignore_errors=True)

    def _share_machine(self) -> None:
        """Take ports, and the cgroups if no other lab has them: slurmd names those after the node alone."""
        first, lock = claim_ports(config.PORT_COUNT)
        self.ports = Ports(first)
        self._claims.append(lock)
        if _cgroup_v1_is_writable() and (lock_or_none := claim("cgroup")):
            self._claims.append(lock_or_none)
            self.cgroup = True

    def _make_files(self) -> None:
        layout = self.layout
        self.base.chmod(0o755)  # job scripts of other users and MariaDB's own user pass through
        folders = "etc run run/munge log log/munge state state/ctld state/munge spool mysql mysql-tmp dev out truth map"
        for folder in folders.split():
            (self.base / folder).mkdir(mode=0o755)
        for folder in ("log/munge", "state/munge"):
            (self.base / folder).chmod(0o700)  # munged refuses others
        (self.base / "out").chmod(0o1777)
        for folder in ("mysql", "mysql-tmp"):
            shutil.chown(self.base / folder, "mysql", "mysql")
        for index in range(8):
            os.mknod(self.base / f"dev/nvidia{index}", 0o666 | 0o020000, os.makedev(1, 3))
        for path in (layout.script_starts, layout.hook_calls):
            path.touch()
            path.chmod(0o666)
        self._make_etc()

    def _make_etc(self) -> None:
        layout, ports = self.layout, self.ports
        key = self.base / "etc/munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        files = {
            "slurm.conf": (0o644, config.slurm_conf(layout, ports, cgroup=self.cgroup)),
            "gres.conf": (0o644, config.gres_conf(layout)),
            "topology.conf": (0o644, config.TOPOLOGY_CONF),
            "slurmdbd.conf": (0o600, config.slurmdbd_conf(layout, ports)),
            "my.cnf": (0o644, config.my_cnf(layout, ports)),
            "assoc.cfg": (0o644, config.ASSOCIATIONS),
            "prolog.sh": (0o755, config.prolog(layout)),
            "epilog.sh": (0o755, config.epilog(layout)),
            "attempt.sh": (0o755, config.attempt_hook(layout)),
        }
        if self.cgroup:
            files["cgroup.conf"] = (0o644, config.CGROUP_CONF)
        for name, (mode, text) in files.items():
            path = self.base / "etc" / name
            path.write_text(text)
            path.chmod(mode)

    def _start_reaper(self) -> None:
        """The one who cleans up if this process is killed: it waits for its standard input to end."""
        self._reaper = reaper.start(self.base)

    def _end_reaper(self) -> None:
        if self._reaper is None:
            return
        self._reaper.communicate(STOPPED)
        self._reaper = None

    def _start_daemon(self, name: str, argv: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        self._daemons[name] = Daemon.start(
            name, argv, log=self.layout.log(name), env={**self.env, **(env or {})}, ledger=self.layout.ledger
        )

    def _await_ready(self, name: str, probe: Callable[[], bool]) -> None:
        """Wait for a daemon to answer. It must also live: someone else's daemon could answer on its port."""
        daemon = self._daemons[name]
        deadline = time.monotonic() + READY_S
        while True:
            if not daemon.alive:
                raise LabError(daemon.why_dead())
            if probe():
                return
            if time.monotonic() > deadline:
                message = f"{name} is not ready after {READY_S:g} s\n{tail(daemon.log)}"
                raise LabError(message)
            time.sleep(0.02)

    def _succeeds(self, *argv: str) -> bool:
        return self.run(argv, check=False).returncode == 0

    def _start_munged(self) -> None:
        base, munge_socket = self.base, str(self.layout.munge_socket)
        self._start_daemon(
            "munged",
            [
                *("munged", "-F", f"--key-file={base}/etc/munge.key", f"--socket={munge_socket}"),
                *(f"--pid-file={base}/run/munged.pid", f"--log-file={base}/log/munge/munged.log"),
                *(f"--seed-file={base}/state/munge/seed", "--origin=127.0.0.1", "--num-threads=4"),
            ],
        )
        self._await_ready("munged", lambda: self._succeeds("munge", "-n", "-S", munge_socket))

    def _start_mariadb(self) -> None:
        """With a tmpdir of its own: MariaDB begins by deleting all `#sql*` there, those of other servers too.

        With the common /tmp a quarter of the installations failed when six ran at a time, some by signal 11.
        """
        self.run(
            [
                *("mariadb-install-db", "--user=mysql", f"--datadir={self.base}/mysql", "--skip-test-db"),
                *("--auth-root-authentication-method=normal", f"--tmpdir={self.base}/mysql-tmp"),
            ]
        )
        # The log is made by MariaDB's own user, who may not write to our folder.
        log = self.layout.log("mariadb")
        log.touch()
        shutil.chown(log, "mysql", "mysql")
        (self.base / "run").chmod(0o1777)  # and so is the socket
        self._start_daemon("mariadb", ["mariadbd", f"--defaults-file={self.base}/etc/my.cnf", "--user=mysql"])
        client = ["-S", str(self.layout.mariadb_socket), "-uroot"]
        self._await_ready("mariadb", lambda: self._succeeds("mariadb-admin", *client, "ping"))
        self.run(["mariadb", *client], stdin=config.DATABASE_SQL)

    def _load_accounts(self) -> None:
        self.run(["sacctmgr", "-i", "load", str(self.base / "etc/assoc.cfg")])

    def _add_capped_qos(self) -> None:
        """After slurmctld's first start only: before it registered, slurmdbd knows no TRES of type gres/gpu."""
        self.sacctmgr("-i", "add", "qos", "capped", "set", "MaxTRESPerUser=gres/gpu=2")
        self.sacctmgr("-i", "modify", "user", "alice,bob", "set", "qos+=capped")

    def _start_slurmctld(self, *options: str) -> None:
        self._start_daemon("slurmctld", ["slurmctld", "-D", *options])
        self._await_ready("slurmctld", lambda: " is UP" in self.run(["scontrol", "ping"], check=False).stdout)

    def _start_slurmd(self, node: str) -> None:
        self._start_daemon(f"slurmd.{node}", ["slurmd", "-D", "-N", node])

    def _await_nodes(self, nodes: Sequence[str]) -> None:
        """Wait until slurmctld takes jobs for the nodes; a DOWN node goes there by itself (ReturnToService=2)."""

        def usable(node: str) -> bool:
            state = self.node_state(node)
            return not state.endswith("*") and not state.startswith(("down", "unknown"))

        for node in nodes:
            self._await_ready(f"slurmd.{node}", partial(usable, node))

    def _start_slurmrestd(self) -> None:
        """On a unix socket, where the kernel tells who asks. It refuses root unless told not to mind."""
        rest = str(self.layout.rest_socket)
        self._start_daemon(
            "slurmrestd",
            ["slurmrestd", "-a", "rest_auth/local", "-s", "openapi/v0.0.38,openapi/dbv0.0.38", f"unix:{rest}"],
            {"SLURMRESTD_SECURITY": "disable_user_check"},
        )
        self._await_ready("slurmrestd", self.layout.rest_socket.exists)

    def _cancel_all(self) -> None:
        """Cancel before the daemons go, else the steps stay. What is left after some seconds is killed anyway."""
        slurmctld = self._daemons.get("slurmctld")
        if slurmctld is None or not slurmctld.alive:
            return  # each scancel would wait for it
        for user in USERS:  # `scancel -u a,b` fails
            self.run(["scancel", "-u", user], check=False, timeout=10)
        deadline = time.monotonic() + 5
        while stepds(self.layout.slurmd_logs) and time.monotonic() < deadline:
            time.sleep(0.1)

    def _remove_cgroups(self) -> None:
        if not self.cgroup:
            return
        for node in NODES:
            for top in Path("/sys/fs/cgroup").glob(f"*/slurm_{node}"):
                for folder in sorted([top, *top.rglob("*/")], reverse=True):  # the deepest first
                    self._rmdir(folder)

    @staticmethod
    def _rmdir(folder: Path) -> None:
        try:
            folder.rmdir()
        except OSError:
            return  # a process is still dying in it; an empty cgroup left behind does no harm

    # --- daemons by name

    def stop_slurmdbd(self) -> None:
        """End slurmdbd as an admin would; slurmctld keeps its news for later."""
        self._daemons.pop("slurmdbd").stop()

    def start_slurmdbd(self) -> None:
        """Start slurmdbd and wait until it answers."""
        self._start_daemon("slurmdbd", ["slurmdbd", "-D"])
        self._await_ready("slurmdbd", lambda: self._succeeds("sacctmgr", "-n", "list", "cluster"))

    def restart_slurmctld(self, *options: str) -> None:
        """End slurmctld by SIGTERM, which saves its state, and start it again; "-c" forgets all jobs.

        Nodes are `unknown` to it until their slurmd has answered: wait for those that live.
        """
        self._daemons.pop("slurmctld").stop()
        self._start_slurmctld(*options)
        self._await_nodes([node for node in NODES if f"slurmd.{node}" in self._daemons])

    def kill_node(self, node: str) -> float:
        """The node dies: kill -9 its slurmd, its slurmstepds and what ran below them. When, in epoch seconds.

        The slurmd first, so that nobody is left to tell slurmctld that the steps ended.
        Nothing of it comes back until `start_slurmd`. Wait with that until the node is down (15 to 22 s):
        back within SlurmdTimeout, the batch job is RUNNING for slurmctld though nothing of it lives (this
        host did not boot anew, by which slurmctld would tell).
        """
        daemon = self._daemons.pop(f"slurmd.{node}")
        log = [self.layout.log(daemon.name)]
        steps = stepds(log)
        tasks = descendants(steps)
        killed_at = now()
        kill([daemon.process.pid, *steps, *tasks])
        daemon.process.wait()
        kill_stepds(log)  # any that began meanwhile
        return killed_at

    def pause_slurmd(self, node: str) -> None:
        """Stop a node's slurmd where it is (SIGSTOP): it registers no more until `go_on_slurmd`."""
        kill([self._daemons[f"slurmd.{node}"].process.pid], signal.SIGSTOP)

    def go_on_slurmd(self, node: str) -> None:
        """Go on after a pause."""
        kill([self._daemons[f"slurmd.{node}"].process.pid], signal.SIGCONT)

    def start_slurmd(self, node: str) -> None:
        """Start a node's slurmd and wait until slurmctld takes jobs for it."""
        self._start_slurmd(node)
        self._await_nodes([node])

    def _obituaries(self) -> list[str]:
        return [daemon.why_dead() for daemon in self._daemons.values() if not daemon.alive]

    # --- commands

    def run(
        self,
        cmd: Sequence[str],
        *,
        user: str | None = None,
        check: bool = True,
        stdin: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command against this cluster as root or as one of USERS; LabError with its words when it fails."""
        uid = None if user is None else USERS[user]
        done = subprocess.run(
            list(cmd),
            input=stdin,
            env={**self.env, **(env or {})},
            cwd="/tmp",
            user=uid,
            group=uid,
            extra_groups=None if uid is None else [],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and done.returncode:
            message = f"{' '.join(cmd)} ended with {done.returncode}: {done.stderr.strip() or done.stdout.strip()}"
            raise LabError("\n".join([message, *self._obituaries()]))
        return done

    def sbatch(self, script: str, *options: str, user: str = "alice") -> int:
        """Submit a script (with or without `#!` and `#SBATCH` lines) that reports its starts to `truth`; its job id."""
        text = config.wrap_script(self.layout, script)
        shown = self.run(["sbatch", "--parsable", *options], user=user, stdin=text).stdout
        return int(shown.split(";")[0])

    def scancel(self, *arguments: str | int, user: str | None = None) -> None:
        """Cancel jobs."""
        self.run(["scancel", *map(str, arguments)], user=user)

    def scontrol(self, *arguments: str, user: str | None = None) -> str:
        """Ask or tell slurmctld."""
        return self.run(["scontrol", *arguments], user=user).stdout

    def sacct(self, *arguments: str, user: str | None = None, env: Mapping[str, str] | None = None) -> str:
        """Ask accounting."""
        return self.run(["sacct", *arguments], user=user, env=env).stdout

    def sacctmgr(self, *arguments: str, env: Mapping[str, str] | None = None) -> str:
        """Ask or tell slurmdbd."""
        return self.run(["sacctmgr", *arguments], env=env).stdout

    def squeue_states(self) -> dict[int, str]:
        """The state of every job that slurmctld remembers, by raw job id."""
        shown = self.run(["squeue", "-h", "-a", "-t", "all", "-o", "%A %T"]).stdout
        return {int(job): state for job, state in (line.split() for line in shown.splitlines())}

    def node_state(self, node: str) -> str:
        """A node's state in sinfo's long form, such as `idle` or `down*`."""
        return self.run(["sinfo", "-h", "-p", "scav", "-n", node, "-o", "%T"]).stdout.strip()

    # --- waiting

    def wait_until(self, predicate: Callable[[], object], timeout: float, what: str, *, seldom: float = 0.4) -> None:
        """Wait until `predicate` is true, known `seldom` seconds later at most.

        A daemon that dies meanwhile ends the wait with its log.
        """

        def requested() -> object:
            if dead := self._obituaries():
                raise LabError("\n".join(dead))
            return predicate()

        try:
            wait_until(requested, timeout, what, seldom=seldom)
        except LabError as error:
            error.add_note(tail(self.layout.log("slurmctld")))
            raise

    def wait_for(self, job_id: int, *states: str, timeout: float = 60) -> str:
        """Wait until a job is in one of `states`, or without any in a state that it will not leave; that state."""
        wanted = states or TERMINAL
        seen = ""

        def has_state() -> bool:
            nonlocal seen
            seen = self.squeue_states().get(job_id, "unknown")
            return seen in wanted

        try:
            self.wait_until(has_state, timeout, f"job {job_id} to be {' or '.join(sorted(wanted))}")
        except LabError as error:
            error.add_note(f"the job was last {seen}")
            raise
        return seen
