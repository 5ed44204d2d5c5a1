"""Accounting text of any size into the warehouse, block by block: one is read while the one before is written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ingest.files.prefetch import prefetch_one
from ingest.future import within
from ingest.slurm.accounting.row_counts import SOURCE, RowCounts
from ingest.slurm.accounting.sacct import accounting_blocks
from ingest.slurm.accounting.store import AttemptWriter, write_job_summaries, write_step_usage
from ingest.slurm.people import store as people
from ingest.slurm.sources import BY_NAME
from ingest.slurm.write import with_cluster
from ingest.store.loads import Growth, write_account
from ingest.store.request import from_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from ingest.context import ParseContext
    from ingest.files.input import Input
    from ingest.tables import Parsed
    from queries.warehouse import Writer


def load_accounting(
    writer: Writer, source: Input, context: ParseContext, *, now: datetime, progress: Callable[[str, int, int], None]
) -> Parsed:
    """Read accounting text and write it, all of it or nothing.

    Args:
        writer: The warehouse.
        source: The text; it is read once, and never held in memory as a whole.
        context: Parameters of the input from the caller.
        now: The time, for the account of the load.
        progress: Receives the bytes done and their total; it may raise to stop.

    Returns:
        The account of the input, without the rows.

    Raises:
        InputError: The text cannot be read; nothing is changed then.
    """
    counts = RowCounts(context.origin, context.cluster, context.since, context.until, now)
    blocks = accounting_blocks(
        source.in_lines(),
        counts,
        timezone=context.timezone,
        delimiter=context.delimiter,
        accept_truncated=context.accept_truncated,
    )
    with writer.transaction():
        growth = Growth(writer, BY_NAME[SOURCE])
        attempts = AttemptWriter(writer)
        for block in prefetch_one(blocks):
            attempts.add(block.attempts)
            attempts.add_steps(block.steps)
            writer.append_new("node_lists", block.lists, keys=["node_list"])
            write_step_usage(writer, block.usage)
            write_job_summaries(writer, block.summaries)
            progress(context.origin, source.done, source.size)
        parsed = with_cluster(within(counts.parsed({}, rows_loaded=attempts.finish()), now), context.cluster)
        parsed = replace(parsed, warnings=[*parsed.warnings, *attempts.warnings()])
        people.set_first_jobs(writer)
        parsed = growth.counted(parsed, {"attempts"})
        request = from_file(context.origin, context.since, context.until)
        write_account(writer, parsed, request=request, digest=source.digest(), now=now)
    return parsed
