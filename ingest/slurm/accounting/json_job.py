"""A job of slurmdbd in JSON: the fields that are read, for all versions, and their types.

Other fields are ignored. Steps are decoded separately, so a job with unreadable steps is still read.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ingest.slurm.formats.json_answer import Whole, Words  # noqa: TC001 - msgspec looks them up while it runs


class Comments(msgspec.Struct, gc=False):
    """Comments by users, administrators and their tools."""

    administrator: str | None = None
    job: str | None = None


class ArrayTaskLimit(msgspec.Struct, gc=False):
    """How many tasks of an array may run at a time."""

    tasks: Whole = None


class Most(msgspec.Struct, gc=False):
    """The level above `ArrayTaskLimit`."""

    running: ArrayTaskLimit | None = None


class LimitLevel(msgspec.Struct, gc=False):
    """The level above `Most`."""

    max: Most | None = None


class Array(msgspec.Struct, gc=False):
    """Array and task of a job; `task` holds the tasks not yet split off, as ranges or a bitmap in hex."""

    job_id: Whole = None
    limits: LimitLevel | None = None
    task_id: Whole = None
    task: str | None = None


class Association(msgspec.Struct, gc=False):
    """The association that the job is charged to."""

    cluster: str | None = None
    user: str | None = None
    account: str | None = None


class JobSignal(msgspec.Struct, gc=False):
    """The signal that ended it: `signal_id` up to 0.0.39, `id` later."""

    signal_id: Whole = None
    id: Whole = None


class Exit(msgspec.Struct, gc=False):
    """Exit status and signal."""

    status: Words = None
    return_code: Whole = None
    signal: JobSignal | None = None


class JobTimes(msgspec.Struct, gc=False):
    """Epochs and durations in seconds, the limit in minutes."""

    submission: Whole = None
    eligible: Whole = None
    start: Whole = None
    end: Whole = None
    elapsed: Whole = None
    suspended: Whole = None
    limit: Whole = None


class Het(msgspec.Struct, gc=False):
    """Which component of which heterogeneous job."""

    job_id: Whole = None
    job_offset: Whole = None


class Required(msgspec.Struct, gc=False, rename={"cpus": "CPUs"}):
    """The requested resources. `memory` of 0.0.38 is per node or per core, without naming which."""

    cpus: Whole = None
    memory_per_cpu: Whole = None
    memory_per_node: Whole = None


class JobReservation(msgspec.Struct, gc=False):
    """The reservation it ran in."""

    name: str | int | None = None


class JsonJobState(msgspec.Struct, gc=False):
    """State of the job, and the last reason for which it waited."""

    current: Words = None
    reason: str | None = None


class TresRecord(msgspec.Struct, gc=False):
    """One resource and how much of it; memory in MB."""

    type: str
    name: str | None = None
    count: int | float | None = None


class Resources(msgspec.Struct, gc=False):
    """Resources allocated and requested."""

    allocated: list[TresRecord] = []
    requested: list[TresRecord] = []


class Used(msgspec.Struct, gc=False):
    """Largest use of a resource by one task of a step, with its node; or the use of all tasks."""

    type: str
    name: str | None = None
    count: int | float | None = None
    task: Whole = None
    node: str | None = None


class Usage(msgspec.Struct, gc=False):
    """Use by the tasks of a step: the largest of one task, and the total. In JSON it is under `requested`."""

    max: list[Used] = []
    total: list[Used] = []


class StepResources(msgspec.Struct, gc=False):
    """Resources allocated to a step, and their use."""

    allocated: list[TresRecord] = []
    requested: Usage | None = None


class CpuTime(msgspec.Struct, gc=False):
    """CPU time in seconds and millionths of one."""

    seconds: Whole = None
    microseconds: Whole = None


class StepTimes(msgspec.Struct, gc=False):
    """Epochs and durations in seconds."""

    start: Whole = None
    end: Whole = None
    elapsed: Whole = None
    suspended: Whole = None
    total: CpuTime | None = None


class StepId(msgspec.Struct, gc=False):
    """Which step it is: its name or number alone up to 0.0.38, with the job's before it (`9.batch`) later."""

    id: str | int | dict[str, Any] | None = None
    name: str | None = None


class TaskCount(msgspec.Struct, gc=False):
    """How many tasks, or nodes."""

    count: Whole = None


class Energy(msgspec.Struct, gc=False):
    """Joules."""

    consumed: Whole = None


class Statistics(msgspec.Struct, gc=False):
    """The level above `Energy`."""

    energy: Energy | None = None


class StepRecord(msgspec.Struct, gc=False):
    """A step of a job."""

    tres: StepResources | None = None
    step: StepId | None = None
    time: StepTimes | None = None
    tasks: TaskCount | None = None
    nodes: TaskCount | None = None
    statistics: Statistics | None = None


class Key(msgspec.Struct, gc=False):
    """The workload characterisation key."""

    wckey: str | None = None
    flags: list[str] | None = None

    @property
    def text(self) -> str | None:
        """As sacct prints it: a star before the user's default key, which was not chosen for the job."""
        chosen = "ASSIGNED_DEFAULT" not in (self.flags or ())
        return self.wckey if chosen or not self.wckey else f"*{self.wckey.removeprefix('*')}"


class JobRecord(msgspec.Struct, gc=False):
    """One row of accounting. Its steps stay raw, and all other fields are ignored."""

    job_id: int
    state: JsonJobState
    time: JobTimes
    account: str | None = None
    comment: Comments | None = None
    allocation_nodes: Whole = None
    array: Array | None = None
    association: Association | None = None
    cluster: str | None = None
    constraints: str | None = None
    derived_exit_code: Exit | None = None
    exit_code: Exit | None = None
    failed_node: str | None = None
    flags: list[str] | None = None
    group: str | None = None
    het: Het | None = None
    kill_request_user: str | None = None
    name: str | None = None
    nodes: str | None = None
    partition: str | None = None
    priority: Whole = None
    qos: str | None = None
    required: Required | None = None
    reservation: JobReservation | None = None
    restart_cnt: Whole = None
    sluid: str | None = None
    steps: msgspec.Raw = msgspec.Raw(b"")
    submit_line: str | None = None
    tres: Resources | None = None
    user: str | None = None
    wckey: Key | None = None
    working_directory: str | None = None
