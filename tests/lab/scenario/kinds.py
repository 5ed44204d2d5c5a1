"""Every kind of job that Slurm's accounting can tell of, made on a lab within some 100 seconds.

`run_kinds` gives the orders, waits until each job has met its fate, and returns what was ordered and when. Which fate
that is stands beside each order; `tests.lab.scenario.known` turns both into what an outsider knows of every attempt.

    with SlurmLab() as lab:
        scenario = run_kinds(lab)
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tests.lab.processes import LabError, now

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.cluster import SlurmLab

ODD_NAME: Final = "a|pipe 'single' \"double\" ünï, 100% [x]"
ODD_COMMENT: Final = "line one\nline two\n\nlast; \\n stays"
AWKWARD_COMMENT: Final = "this | that\nand more"

FIRST_SHORT: Final = 'if [ "${SLURM_RESTART_COUNT:-0}" = 0 ]; then sleep 300; else sleep 3; fi'
"""Runs until something ends it, and 3 seconds when it comes back."""

FIRST_42: Final = 'sleep 2; if [ "${SLURM_RESTART_COUNT:-0}" = 0 ]; then exit 42; fi'

FAILS_A_STEP: Final = """
until srun bash -c "exit 5"; [ $? = 5 ]; do sleep 0.5; done
while squeue --noheader --steps --jobs "$SLURM_JOB_ID" --format %i | grep -q '[.][0-9]'; do sleep 0.2; done
exit 0
"""
"""A step that exits with 5 in a job that exits with 0. The job ends once the controller no longer lists the step: of a
step that completes after its job, the job gets no derived exit code."""

EATS_MEMORY: Final = "perl -e '$x = \"x\" x (300 << 20); sleep 30'"


@dataclass(frozen=True)
class End:
    """How one attempt ends, in accounting's words; an open one has RUNNING or PENDING.

    `held` says whether it ever got nodes; `reason` is the last one for waiting, where it can be foreseen.
    """

    state: str
    exit: tuple[int, int] = (0, 0)
    derived: tuple[int, int] = (0, 0)
    cancelled_by: str | None = None
    reason: str | None = None
    held: bool = True


COMPLETED: Final = End("COMPLETED")


@dataclass(frozen=True)
class Order:
    """What is asked of sbatch, and what is to come of it.

    `gpus` are those per node, of type `gpu_type` or of any. `minutes` None leaves the partition's default of 30.
    """

    ends: tuple[End, ...]
    script: str = "sleep 2"
    nodes: str = "n3"
    n_nodes: int = 1
    gpus: int = 1
    gpu_type: str | None = None
    partition: str = "main"
    user: str = "alice"
    minutes: int | None = None
    name: str | None = None  # then it stands in the script, so that the command line does not repeat it
    comment: str | None = None
    memory: str | None = None
    more: tuple[str, ...] = ()

    def options(self, key: str) -> tuple[str, ...]:
        """The options of sbatch."""
        kind = f":{self.gpu_type}" if self.gpu_type else ""
        return (
            *(() if self.name else ("-J", key)),
            *("-p", self.partition, "-w", self.nodes, f"-N{self.n_nodes}"),
            *("--ntasks-per-node=1",),
            *((f"--gres=gpu{kind}:{self.gpus}",) if self.gpus else ()),
            *(("-t", str(self.minutes)) if self.minutes else ()),
            *((f"--mem={self.memory}",) if self.memory else ()),
            *((f"--comment={self.comment}",) if self.comment else ()),
            *self.more,
        )

    @property
    def text(self) -> str:
        """The script; an odd name stands in it, with quotes that sbatch undoes."""
        quoted = (self.name or "").replace('"', '\\"')
        return f'#SBATCH --job-name="{quoted}"\n{self.script}' if self.name else self.script


def waiting(reason: str) -> End:
    """Not started yet."""
    return End("PENDING", reason=reason, held=False)


def _enough(lab: SlurmLab) -> Path:
    """The file that ends the jobs that wait to be dealt with."""
    return lab.base / "out/enough"


def orders(lab: SlurmLab) -> dict[str, Order]:
    """The plain kinds in the order of submission, the slowest first; on such nodes that all fit at once."""
    unwritable = f"--output={lab.base}/etc/belongs-to-root"
    until_enough = f"until [ -e {_enough(lab)} ]; do sleep 0.5; done"
    out_of_memory = End("OUT_OF_MEMORY", (0, 125)) if lab.cgroup else End("FAILED", (0, 9))
    return {
        "timeout": Order((End("TIMEOUT"),), "sleep 300", minutes=1),
        "node_fail": Order((End("NODE_FAIL"), COMPLETED), FIRST_SHORT, "n[1-2]", 2, 2, more=("--requeue",)),
        "node_fail_final": Order((End("NODE_FAIL"),), "sleep 300", "n1", gpus=2, more=("--no-requeue",)),
        "preempted": Order((End("PREEMPTED"), COMPLETED), FIRST_SHORT, "n4", gpus=8, partition="scav", user="bob"),
        "prolog_fails": Order((End("REQUEUED"), waiting("JobHeldUser")), nodes="n5", partition="scav"),
        "running": Order((End("RUNNING"),), "sleep 900", "n2"),
        "failed_step": Order((End("COMPLETED", derived=(5, 0)),), FAILS_A_STEP),
        "failed": Order((End("FAILED", (3, 0)),), "sleep 2; exit 3"),
        "signalled": Order((End("FAILED", (0, 11)),), "ulimit -c 0; sleep 2; kill -SEGV $$"),
        "unwritable": Order((End("FAILED", (0, 53)),), more=(unwritable,)),
        "cancelled_by_owner": Order((End("CANCELLED", cancelled_by="2001"),), "sleep 300"),
        "cancelled_by_operator": Order((End("CANCELLED", cancelled_by="2004"),), "sleep 300"),
        "requeued": Order((End("REQUEUED"), COMPLETED), FIRST_SHORT),
        "out_of_memory": Order((out_of_memory,), EATS_MEMORY, "n6", partition="scav", memory="100M"),
        "suspended": Order((COMPLETED,), until_enough, "n6", partition="scav", user="carol"),
        "exit_42": Order((End("REQUEUED", (42, 0)), COMPLETED), FIRST_42, "n6", partition="scav"),
        "exit_43": Order(
            (End("REQUEUED", (43, 0)), waiting("JobHeldUser")), "sleep 2; exit 43", "n6", partition="scav"
        ),
        "completed": Order((COMPLETED,)),
        "resized": Order((End("RESIZING"), COMPLETED), until_enough, "n[2,6]", 2, partition="scav"),
        "typed_on_two_nodes": Order((COMPLETED,), "sleep 3", "n[2-3]", 2, 1, "h100", user="bob"),
        "without_gpus": Order((COMPLETED,), gpus=0, user="carol"),
        "oddly_named": Order((COMPLETED,), name=ODD_NAME, comment=ODD_COMMENT),
        "awkward": Order((COMPLETED,), comment=AWKWARD_COMMENT),
        "held": Order((waiting("JobHeldUser"),), more=("-H",)),
        "later": Order((waiting("BeginTime"),), more=(f"--begin=now+{BEGIN_IN_S}",)),
    }


BEGIN_IN_S: Final = 3600

NEVER_ELIGIBLE: Final = ("held", "later", "array remainder")
"""Kinds that no window query of sacct shows, since they were never free to start."""

ARRAY: Final = Order(
    (COMPLETED,),
    'echo "array $SLURM_ARRAY_TASK_ID $SLURM_JOB_ID"\n'
    "if [ $SLURM_ARRAY_TASK_ID -lt 2 ]; then sleep 3; else sleep 900; fi",
    "n2",
    more=("-a", "0-5%2"),
)
"""Two tasks end, two run, two wait for their turn."""

HET: Final = (Order((COMPLETED,), "sleep 3", "n3"), Order((COMPLETED,), "sleep 3", "n2", gpu_type="h100"))

CANNOT_START: Final = {
    "cancelled_while_pending": Order((End("CANCELLED", cancelled_by="2001", held=False),), gpus=8),
    "past_deadline": Order((End("DEADLINE", (1, 0), held=False),), gpus=8, minutes=1, more=("--deadline=now+65",)),
}
"""They ask for all of a node where another job runs."""

PREEMPTING: Final = Order((COMPLETED,), "sleep 3", "n4", gpus=8, user="carol")

REFUSED: Final = Order((End("FAILED", (1, 0), held=False),), gpus=9)
"""More GPUs than any node has: sbatch fails, yet accounting gets a row."""


@dataclass(frozen=True)
class Job:
    """What was ordered, and when by our clock: before and after the call of sbatch."""

    key: str
    order: Order
    job_id: int
    asked: tuple[float, float]
    submit_line: str
    display_id: str | None = None
    array: tuple[int, int | None] | None = None
    het: tuple[int, int] | None = None


@dataclass
class Kinds:
    """The scenario as it was played. `deeds` says when something was done to a job: before and after the command."""

    lab: SlurmLab
    jobs: dict[str, Job] = field(default_factory=dict)
    deeds: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def ids(self) -> str:
        """All job ids, as `sacct -j` takes them."""
        return ",".join(str(job.job_id) for job in self.jobs.values())

    def submit(self, key: str, order: Order, *more: str) -> Job:
        """Submit, and write down what was asked."""
        options = (*order.options(key), *more)
        began = now()
        job_id = self.lab.sbatch(order.text, *options, user=order.user)
        job = Job(key, order, job_id, (began, now()), " ".join(("sbatch", "--parsable", *options)))
        self.jobs[key] = job
        return job

    def do(self, deed: str, *command: str, user: str | None = None) -> None:
        """Run a command, and write down when."""
        began = now()
        self.lab.run(command, user=user)
        self.deeds[deed] = (began, now())

    def id_of(self, key: str) -> str:
        """The raw id of a job."""
        return str(self.jobs[key].job_id)


def run_kinds(lab: SlurmLab) -> Kinds:
    """Play the whole scenario: some 95 seconds, most of them for the time limit of a minute."""
    kinds = Kinds(lab)
    _refuse(kinds)
    let_prolog_fail(lab, "n5")
    for key, order in orders(lab).items():
        kinds.submit(key, order)
    _submit_het(kinds)
    array = kinds.submit("array", ARRAY)
    for key in ("cancelled_by_owner", "cancelled_by_operator", "requeued", "node_fail", "node_fail_final", "preempted"):
        lab.wait_for(kinds.jobs[key].job_id, "RUNNING")
    for key, order in CANNOT_START.items():
        kinds.submit(key, order)
    for key in ("suspended", "resized"):
        lab.wait_for(kinds.jobs[key].job_id, "RUNNING")
    time.sleep(2)  # so that what is ended now has lasted a while
    _intervene(kinds)
    lab.wait_for(kinds.jobs["timeout"].job_id, "TIMEOUT", timeout=150)
    _split_array(kinds, array)
    time.sleep(2)  # the last news are on their way to slurmdbd
    _await_reasons(kinds)
    return kinds


def _await_reasons(kinds: Kinds) -> None:
    """Wait until slurmdbd has each reason for waiting, of jobs that still wait.

    slurmctld sends a waiting job's record once, within some 5 seconds, with the reason that its main scheduler noted
    last. On a busy machine that is the one before: then an update of the job's name sends the record again.
    """
    waiting_jobs = [job for job in kinds.jobs.values() if job.order.ends[-1].state == "PENDING"]
    for second in range(120):
        missing = [job for job in waiting_jobs if not _reason_recorded(kinds, job)]
        if not missing:
            return
        if second % 8 == 7:  # longer than slurmctld takes by itself
            for job in missing:
                name = job.key.split()[0]
                for shown in (f"{name}-", name):
                    kinds.lab.run(["scontrol", "update", f"jobid={job.job_id}", f"name={shown}"])
        time.sleep(1)
    message = f"waited 120 s in vain for accounting to have the reasons of {[job.key for job in missing]}"
    raise LabError(message)


def _reason_recorded(kinds: Kinds, job: Job) -> bool:
    text = kinds.lab.sacct("-a", "-D", "-X", "-n", "-P", "-j", str(job.job_id), "-o", "JobIDRaw,Reason")
    return f"{job.job_id}|{job.order.ends[-1].reason}" in text.splitlines()


def _refuse(kinds: Kinds) -> None:
    """Nobody is told the id of a refused job; this one is the first of all, and ids go up by one."""
    began = now()
    options = REFUSED.options("refused")
    done = kinds.lab.run(["sbatch", *options], user="alice", check=False, stdin="#!/bin/bash\n")
    if done.returncode == 0:
        message = f"nine GPUs of one node were granted: {done.stdout}"
        raise LabError(message)
    kinds.jobs["refused"] = Job("refused", REFUSED, 1, (began, now()), " ".join(("sbatch", *options)))


def let_prolog_fail(lab: SlurmLab, node: str) -> None:
    """From now on the prolog fails on a node."""
    prolog = lab.base / "etc/prolog.sh"
    failing = prolog.with_suffix(".new")
    failing.write_text(prolog.read_text().replace("exit 0\n", f"[ $SLURMD_NODENAME = {node} ] && exit 1\nexit 0\n"))
    failing.chmod(0o755)
    failing.rename(prolog)


def _submit_het(kinds: Kinds) -> None:
    """Two components with one command; the second has the next raw id."""
    first, second = HET
    job = kinds.submit("het", first, ":", *second.options("het"))
    kinds.jobs["het"] = replace(job, display_id=f"{job.job_id}+0", het=(job.job_id, 0))
    kinds.jobs["het 1"] = replace(
        job, key="het 1", order=second, job_id=job.job_id + 1, display_id=f"{job.job_id}+1", het=(job.job_id, 1)
    )


def _intervene(kinds: Kinds) -> None:
    """A node dies, and people cancel, requeue, suspend, shrink and preempt jobs, all in the same few seconds."""
    lab = kinds.lab
    died_at = lab.kill_node("n1")
    kinds.deeds["n1 dies"] = (died_at, now())
    kinds.do("suspend", "scontrol", "suspend", kinds.id_of("suspended"))
    kinds.do("cancelled_by_owner", "scancel", kinds.id_of("cancelled_by_owner"), user="alice")
    kinds.do("cancelled_by_operator", "scancel", kinds.id_of("cancelled_by_operator"), user="dave")
    kinds.do("cancelled_while_pending", "scancel", kinds.id_of("cancelled_while_pending"), user="alice")
    kinds.do("requeue", "scontrol", "requeue", kinds.id_of("requeued"), user="alice")
    kinds.do("resize", "scontrol", "update", f"jobid={kinds.id_of('resized')}", "NumNodes=1", user="alice")
    kinds.submit("preempting", PREEMPTING)
    time.sleep(4)
    kinds.do("resume", "scontrol", "resume", kinds.id_of("suspended"))
    _enough(lab).touch()
    lab.wait_until(lambda: "down" in lab.node_state("n1"), 60, "n1 to be called down")
    time.sleep(3)  # so that it is down for a while that can be measured
    lab.start_slurmd("n1")
    for key, job in kinds.jobs.items():
        if key != "timeout" and job.order.ends[-1] == COMPLETED and job.array is None and key != "array":
            lab.wait_for(job.job_id, "COMPLETED", timeout=120)


def _split_array(kinds: Kinds, array: Job) -> None:
    """The tasks told their own raw ids; the waiting rest keeps the array's."""
    reported = [
        line.split()
        for out in (kinds.lab.base / "out").glob("*.out")
        for line in out.read_text().splitlines()
        if line.startswith("array ")
    ]
    base = kinds.jobs.pop("array").job_id
    for task, raw in sorted((int(task), int(raw)) for _, task, raw in reported):
        key = f"array {task}"
        order = replace(ARRAY, ends=(COMPLETED,) if task < 2 else (End("RUNNING", reason="JobArrayTaskLimit"),))
        kinds.jobs[key] = replace(
            array, key=key, order=order, job_id=raw, display_id=f"{base}_{task}", array=(base, task)
        )
    kinds.jobs["array remainder"] = replace(
        array,
        key="array remainder",
        order=replace(ARRAY, ends=(waiting("JobArrayTaskLimit"),)),
        display_id=f"{base}_[4-5%2]",
        array=(base, None),
    )
