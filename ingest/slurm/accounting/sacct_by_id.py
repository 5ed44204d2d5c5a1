"""Slurm accounting of single jobs: jobs outside every window can still be requested by id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.errors import InputError
from ingest.slurm.accounting.sacct import DOWN_HINT, columns_of, sacct
from ingest.slurm.commands.runner import Fetched, Runner, run

if TYPE_CHECKING:
    from collections.abc import Sequence


def fetch_jobs(
    runner: Runner, job_ids: Sequence[str], *, clusters: Sequence[str] | None = None, steps: bool = True
) -> Fetched:
    """Query sacct for all attempts of these jobs (raw ids) at any time; with `steps` also for their steps.

    This shows jobs that windows do not: held ones, those cancelled before they ever became eligible, and those
    whose end an administrator set to their start (`sacctmgr show runawayjobs`). Ids that accounting does not have are
    left out of the answer.

    Raises:
        SourceMissingError: There is no sacct here.
        SourceDownError: sacct failed; nothing that it printed is used.
        InputError: An id is none.
    """
    strange = [job for job in job_ids if not (job.isascii() and job.isdigit())]
    if strange or not job_ids:
        message = f"no raw job ids: {', '.join(strange)}" if strange else "no job ids"
        raise InputError(message)
    columns, lacking = columns_of(runner)
    command = [*sacct(steps=steps), "-j", ",".join(job_ids)]
    command += ["-M", ",".join(clusters)] if clusters else []
    fetched = run(runner, [*command, "-o", ",".join(columns)], hint=DOWN_HINT)
    origin = f"sacct -j: {len(job_ids)} open jobs, {job_ids[0]} to {job_ids[-1]}"
    return Fetched(fetched.data, origin, (*lacking, *fetched.warnings))
