"""Warnings about a load: records of code, count and detail, and the formatter of their messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ingest.counted import CountedNoun

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MESSAGES: Final[Mapping[str, str]] = {
    # Texts of all kinds
    "text": "{detail}",
    "changed_since_earlier_loads": "{detail}",
    "not_read": "{detail}",
    "characters_replaced": (
        "{count:damaged character|damaged characters} (not UTF-8) replaced, so a name may differ from that in other "
        "files. If the text is Latin-1, convert it and load it again: iconv -f LATIN1 -t UTF-8"
    ),
    "delimiter_in_text": (
        "{count:row|rows}: the text that holds the delimiter is ambiguous; its possible parts are left out ({detail})"
    ),
    "delimiter_in_sacct_text": (
        "{count:row|rows}: the text that holds the delimiter is ambiguous; its possible parts are left out "
        "({detail}). Export again with a delimiter that no text holds: --delimiter=$'\\x1f'"
    ),
    "operations_repeated": "{count:operation is|operations are} in the trace more than once: each counts once",
    "other_clusters": "rows name other clusters than {detail}",
    "header_only": "{count:row|rows}: header only; {detail}",
    "empty_list": "{count:row|rows}: an empty list; {detail}",
    # Slurm: accounting
    "values_unread": "{detail}: {count:value|values} could not be read",
    "state_unknown": "unknown state {detail}: {count:row|rows}",
    "nodes_miscounted": "{count:row has|rows have} another number of nodes than the node list; the list was used",
    "end_guessed": "{count:row has|rows have} ended without an End; Start + Elapsed was taken for it",
    "times_truncated": (
        "{count:row runs and has|rows run and have} an End: sacct --truncate (-T) cuts Start and "
        "End to the requested window. Such an End is not used, but the real Start is unknown. Export again "
        "without it"
    ),
    "times_truncated_in_list": (
        "{count:job runs and has|jobs run and have} an End: slurmdbd cuts Start and End to the window of a request "
        "by default. Such an End is not used, but the real Start is unknown. Request the list again "
        "with disable_truncate_usage_time=true"
    ),
    "end_before_start": (
        "{count:row has|rows have} an End up to a minute before the Start (a clock was set back); Start is taken for "
        "the End"
    ),
    "local_time_ambiguous": (
        "{count:row has|rows have} a local time in the hour that occurs twice in autumn; which of both it is "
        "is unknown, the earlier was taken. Export again with times that need no zone: SLURM_TIME_FORMAT=%s sacct ..."
    ),
    "resources_implausible": (
        "{count:row has|rows have} more CPUs or memory than nodes can have; that value is left out"
    ),
    "gpu_parts": "{count:row holds|rows hold} only parts of GPUs (shard or mps): how many GPUs they are is unknown",
    "running_for_long": (
        "{count:row has|rows have} run for over 30 days and not ended; to find lost jobs: sacctmgr show runaway"
    ),
    "ran_without_node": (
        "{count:row|rows} ran for some time but without a node, or without a Start: no GPUs are held here"
    ),
    "rows_of_one_submit": (
        "{count:job has|jobs have} rows with the same Submit and different Starts: without DBIndex they count as one "
        "attempt, the last. Export DBIndex, and Submit in seconds"
    ),
    "earlier_ends": (
        "{count:job ends|jobs end} earlier here than in earlier loads; the latest End counts, independent of the order "
        "of loads. Was accounting corrected (sacctmgr)? Then load all of it into a new warehouse"
    ),
    "no_gpus_accounted": (
        "cluster {detail}: no job has a gres/gpu in its TRES. If it has GPUs, add gres/gpu to AccountingStorageTRES "
        "in slurm.conf; until then accounting does not record their use"
    ),
    "job_summary_damaged": (
        "{count:summary|summaries} of jobstats (AdminComment JS1:...) could not be read: {detail}. The jobs are loaded "
        "without"
    ),
    "steps_only": (
        "no job rows: {count:row|rows} of job steps alone (9.batch, 9.0), and steps do not record what jobs held. "
        "Export again without a choice of steps (-j 9.0) or a filter; sacct -X prints the jobs alone"
    ),
    # Slurm: the rest
    "events_end_unknown": (
        "the file does not record when it was made, nor does any file loaded with it: it counts as complete to "
        "the end of all loaded accounting. If it was made earlier, load it again and state when: --until 2026-11-01"
    ),
    "command_message": "{detail}",
    "columns_lacking": (
        "this sacct has no column {detail} (sacct -e lists them): was Slurm upgraded? They stay empty."
    ),
    "exit_codes_lacking": "JSON v{detail} has no plain exit codes, they are null; sacct -P has them",
    "json_version_unverified": "{detail}",
    "others_jobs_hidden": (
        "PrivateData=jobs in slurmdbd.conf hides other users' jobs: the visible ones are loaded, and no time counts "
        "as read. Run this as root or as a user who may see all: sacctmgr modify user NAME set AdminLevel=Operator"
    ),
    "runaway_jobs": (
        "{count:runaway job|runaway jobs}: open in accounting, unknown to the controller. To list "
        "them: trackside export runaway_jobs (sacctmgr show runawayjobs does, too, and offers to close them)"
    ),
    "no_events_by_rest": (
        "slurmrestd has no node events and few settings: load `sacctmgr -P show event` and `scontrol show config` as "
        "files now and then, or idle and broken nodes look the same"
    ),
    "nodes_removed": "{detail}",
    "several_switches": "{detail}",
    # Telemetry
    "values_implausible": "{detail}: {count:value is|values are} implausible, and left out",
    "node_values_implausible": "{count:value|values} of {detail} implausible, left out",
    "percent_or_ratio": "{detail}",
    "counter_jumps": "{count:interval|intervals} of {detail} left out: the counter jumped by more than is plausible",
    "readings_sparse": "{detail}",
    "counters_sparse": "{detail}",
    "values_conflict": (
        "{count:reading has|readings have} another value than one of the same series and time: the larger counts"
    ),
    "file_cut": "the file ends in the middle of a line; the lines before it are loaded",
    "no_known_metric": "it has no known metric, so there is nothing to load",
    "no_samples": "{detail}",
    "server_message": "{detail}",
    # Kubernetes
    "may_not_list": "the server refuses the list of {detail}; trackside ingest kubernetes --rbac prints the role",
    "events_missed": (
        "the server no longer had all changes since the last reading of {detail}: objects that came and went in "
        "between are unknown. Read more often, or with `serve`, which watches"
    ),
    "removed_undated": (
        "{count:pod was|pods were} removed at an unrecorded time, for example by force: the latest time recorded "
        "before is taken, and GPUs may have been held for longer. `serve`, which watches, records the time"
    ),
    # Determined
    "nodes_unknown": (
        "{count:allocation|allocations}: the export names no nodes, so this GPU-time is in no ledger. Where "
        "Determined runs on Kubernetes, load its pods, too"
    ),
    # Run logs
    "packed_log_cut": (
        "the {detail} stream is cut off: its unpacked beginning ({count:byte|bytes}) is loaded, the rest is lost. If "
        "the file is complete later, load it again: it replaces the loaded part"
    ),
    "run_value_implausible": "{detail}",
    "steps_implausible": "{detail}",
    "steps_backwards": "{count:step begins|steps begin} before the step logged before: the node's clock was set back",
    "losses_not_numbers": "{count:step has|steps have} a loss that is not a number; such a step counts, without it",
    "steps_averaged": (
        "{count:step is|steps are} logged in lines that stand for several: their number and their time together are "
        "as logged, the time of each is a mean, and so their spread is unknown"
    ),
    "steps_in_bursts": (
        "{count:step was|steps were} stamped at one instant with others: the program, or the collector of its lines, "
        "buffered them. Where their lines have durations, each ends where the next begins; else they share the time "
        "since the step before, so their number and their time together are right, and the time of each is a mean. "
        "Each may have ended earlier than shown, by up to the time between two bursts; activity between "
        "them (checkpoints, waiting) is unknown. A logger that writes each line at once with its own time shows it "
        "(python -u)"
    ),
    "durations_of_micro_batches": (
        "{count:line of a step has|lines of steps have} the duration of the last micro-batch alone: a step is taken "
        "to last as long as that times the number of its micro-batches. The last one also updates the weights, so "
        "steps may be shorter. With a line for each micro-batch (or a time before each line: | ts '%FT%T%z') it is "
        "known"
    ),
    "times_reckoned": (
        "{count:step has|steps have} no time in the log: steps are placed one after the other by their durations, and "
        "other activity between them (checkpoints, evaluation, waiting) is unknown"
    ),
    "log_repeated": (
        "the log, or its beginning, is in the file more than once: {count:line of it counts|lines of it count} once"
    ),
    "stated_not_taken": "the log records its own {detail}; the values of --set or --model were not used",
    "runs_in_turn": (
        "{count:step is|steps are} left out: their numbers are far from those of the others, so they are of another "
        "run or loop. All other lines of their writers are left out, too. Load each of these separately, with the "
        "options of this load:\n{detail}"
    ),
    "order_unknown": (
        "the lines have no times and go back again and again, as those of several ranks or mixed ones do: each step "
        "counts once, in the order of its number; whether one was run again is unknown"
    ),
    "writers_overlap": (
        "{count:writer|writers} began with steps that another had printed, and the lines have no times: a late rank, "
        "or a hand-over after which steps were run again. Such steps count once; which of both it was is unknown"
    ),
    "steps_far_apart": (
        "{count:row is|rows are} so many steps after the row before that the numbers are hardly those of steps: "
        "each counts as one step, and the activity in between is unknown"
    ),
    "time_shared": (
        "{count:step shares|steps share} the {detail} s that the log records for training, as if one process had run "
        "all without a pause; the time of each is unknown"
    ),
    "step_times_unknown": (
        "{count:entry|entries} of training without the time of a step ({detail}) yield no steps. A step of MLPerf "
        "is a tracked_stats with both train_step_time and reduced_train_loss; blocks yield steps where block_start and "
        "block_stop have a step or a samples_count"
    ),
    "tokens_unknown": (
        "the tokens of a step are not in this log of {detail}, so MFU is unknown; pass the missing values: "
        "--set seq_len=8192 --set n_gpus=64"
    ),
    "tokens_to_state": (
        "the tokens of a step are not in this log, so MFU is unknown; pass what it lacks, with the run's own values: "
        "{detail}"
    ),
    "no_rank_0": "all lines are of rank {detail}, and only those of rank 0 count; pass rank=0 where one rank writes",
}
"""The message of each code, with `{count:one|several}` (see `CountedNoun`) and `{detail}`. A message that is `{detail}`
alone has more particulars than these two."""

OF_EARLIER_VERSIONS: Final = frozenset({"text", "tokens_unknown"})
"""Codes that only the loads of earlier versions have. `text`: only the text was recorded."""


@dataclass(frozen=True, slots=True)
class LoadWarning:
    """One warning about a load.

    Attributes:
        code: a key of `MESSAGES`.
        count: number of affected rows, values or things; None where they are not counted.
        detail: its particulars: names, or the message of another program.
    """

    code: str
    count: int | None = None
    detail: str = ""

    @property
    def message(self) -> str:
        """The message of the warning. A code of a newer version has no message here: its particulars are shown instead.

        >>> LoadWarning("state_unknown", 3, "SLEEPY").message
        'unknown state SLEEPY: 3 rows'
        """
        return MESSAGES.get(self.code, "{detail}").format(count=CountedNoun(self.count or 0), detail=self.detail)

    def record(self) -> dict[str, str | int | None]:
        """The warning as the column `warnings` of `loads` keeps it.

        >>> LoadWarning("no_known_metric").record()
        {'code': 'no_known_metric', 'count': None, 'detail': ''}
        """
        return {"code": self.code, "count": self.count, "detail": self.detail}


def from_records(records: Iterable[Mapping[str, object]] | None) -> list[LoadWarning]:
    """Warnings as a query returns them: structures of `code`, `count` and `detail`; None where there are none.

    >>> from_records([{"code": "file_cut", "count": None, "detail": ""}])
    [LoadWarning(code='file_cut', count=None, detail='')]
    """
    return [_from_record(record) for record in records or ()]


def _from_record(record: Mapping[str, object]) -> LoadWarning:
    count = record["count"]
    return LoadWarning(str(record["code"]), count if isinstance(count, int) else None, str(record["detail"] or ""))


def messages(warnings: Iterable[LoadWarning]) -> list[str]:
    """The messages of warnings, in their order."""
    return [warning.message for warning in warnings]


def summed(warnings: Iterable[LoadWarning]) -> list[LoadWarning]:
    """Warnings of several blocks: those that differ in their count only become one, with the sum.

    >>> summed([LoadWarning("state_unknown", 3, "SLEEPY"), LoadWarning("state_unknown", 4, "SLEEPY")])
    [LoadWarning(code='state_unknown', count=7, detail='SLEEPY')]
    """
    sums: dict[tuple[str, str], int | None] = {}
    for warning in warnings:
        before = sums.get((warning.code, warning.detail))
        sums[warning.code, warning.detail] = warning.count if before is None else before + (warning.count or 0)
    return [LoadWarning(code, count, detail) for (code, detail), count in sums.items()]
