"""What a person should know about a load: records of code, count and detail, and the formatter of their messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MESSAGES: Final[Mapping[str, str]] = {
    # Texts of all kinds
    "text": "{detail}",
    "characters_replaced": "{count} damaged characters (not UTF-8) were replaced",
    "delimiter_in_text": (
        "{count} rows: which text holds the delimiter cannot be decided; what may be part of it is left out ({detail})"
    ),
    "delimiter_in_sacct_text": (
        "{count} rows: which text holds the delimiter cannot be decided; what may be part of it is left out "
        "({detail}). Export again with a delimiter that no text holds: --delimiter=$'\\x1f'"
    ),
    "other_clusters": "rows name other clusters than {detail}",
    "header_only": "{count} rows: header only; {detail}",
    "empty_list": "{count} rows: an empty list; {detail}",
    # Slurm: accounting
    "values_unread": "{detail}: {count} values could not be read",
    "state_unknown": "unknown state {detail}: {count} rows",
    "nodes_miscounted": "{count} rows give another number of nodes than their node list; the list was used",
    "end_guessed": "{count} rows have ended but have no End; Start + Elapsed was taken for it",
    "times_truncated": (
        "{count} rows run and have an End: this comes of sacct --truncate (-T), which cuts Start and End to the "
        "requested window. Their End is not believed, but their real Start is unknown. Export again without it"
    ),
    "times_truncated_in_list": (
        "{count} jobs run and have an End: slurmdbd cuts Start and End to the window of a request, unless it asks "
        "otherwise. Their End is not believed, but their real Start is unknown. Request the list again with "
        "disable_truncate_usage_time=true"
    ),
    "end_before_start": (
        "{count} rows have an End up to a minute before their Start (a clock was set back); they are taken to end when "
        "they start"
    ),
    "local_time_ambiguous": (
        "{count} rows have a local time in the hour that occurs twice in autumn, and which was meant is unknown; "
        "the earlier was taken. Export again with times that need no zone: SLURM_TIME_FORMAT=%s sacct ..."
    ),
    "resources_implausible": ("{count} rows give more CPUs or memory than their nodes can have, which are left out"),
    "gpu_parts": "{count} rows hold only parts of GPUs (shard or mps), which count as no GPU here",
    "running_for_long": (
        "{count} rows have run for over 30 days and not ended; if they are gone: sacctmgr show runaway"
    ),
    "ran_without_node": "{count} rows ran for some time but name no node, or no Start; they hold no GPUs here",
    "no_gpus_accounted": (
        "cluster {detail}: no job has a gres/gpu in its TRES. If it has GPUs, add gres/gpu to AccountingStorageTRES "
        "in slurm.conf; until then accounting does not record their use"
    ),
    "steps_only": (
        "no job rows: all {count} rows are job steps (9.batch, 9.0), and steps do not record what jobs held. "
        "Export again without a choice of steps (-j 9.0) or a filter; sacct -X prints the jobs alone"
    ),
    # Slurm: the rest
    "command_message": "{detail}",
    "columns_lacking": (
        "this sacct has no column {detail} (sacct -e lists them): was Slurm upgraded? They stay empty."
    ),
    "exit_codes_lacking": "JSON v{detail} has no plain exit codes, they are null; sacct -P has them",
    "json_version_unverified": "{detail}",
    "others_jobs_hidden": (
        "PrivateData=jobs in slurmdbd.conf hides other users' jobs: what is shown is loaded, and no time counts "
        "as read. Run this as root or as a user who may see all: sacctmgr modify user NAME set AdminLevel=Operator"
    ),
    "runaway_jobs": (
        "{count:,} runaway job(s): accounting takes them for open, and the controller does not know them. To list "
        "them: trackside export runaway_jobs (sacctmgr show runawayjobs does, too, and offers to close them)"
    ),
    "no_events_by_rest": (
        "slurmrestd has no node events and few settings: load `sacctmgr -P show event` and `scontrol show config` as "
        "files now and then, or idle and broken nodes look the same"
    ),
    "nodes_removed": "{detail}",
    "several_switches": "{detail}",
    # Telemetry
    "values_implausible": "{detail}: {count:,} values are outside what it can be, and were left out",
    "node_values_implausible": "{count:,} values of {detail} are outside what their metric can be, and were left out",
    "percent_or_ratio": "{detail}",
    "counter_jumps": "{count:,} intervals of {detail} are left out: their counters jumped by more than can be",
    "readings_sparse": "{detail}",
    "counters_sparse": "{detail}",
    "values_conflict": "{count:,} readings have another value than one of the same series and time: the larger counts",
    "file_cut": "the file ends in the middle of a line; what came before is loaded",
    "no_known_metric": "it has no known metric, so there is nothing to load",
    "no_samples": "{detail}",
    "server_message": "{detail}",
    # Run logs
    "run_value_implausible": "{detail}",
    "steps_implausible": "{detail}",
    "steps_backwards": "{count} steps begin before the step logged before them: the node's clock was set back",
    "losses_not_numbers": "{count} steps have a loss that is not a number; they count, without it",
    "no_rank_0": "all lines are of rank {detail}, and only those of rank 0 count; pass rank=0 where one rank writes",
}
"""The message of each code, with `{count}` and `{detail}`. `text`: nothing is known but the text, as of earlier
versions' loads. A message that is `{detail}` alone has more particulars than these two."""


class LoadWarning(str):
    """One warning: its message, which knows the record that it was made of.

    Attributes:
        code: which warning, a key of `MESSAGES`.
        number: the count: how many rows, values or things it concerns; None where they are not counted.
        detail: its particulars: names, or the message of another program.

    >>> LoadWarning("state_unknown", 3, "SLEEPY")
    'unknown state SLEEPY: 3 rows'
    """

    __slots__ = ("code", "detail", "number")

    code: str
    number: int | None
    detail: str

    def __new__(cls, code: str, count: int | None = None, detail: str = "") -> LoadWarning:
        """The message of a record."""
        made = super().__new__(cls, MESSAGES[code].format(count=count, detail=detail))
        made.code, made.number, made.detail = code, count, detail
        return made

    def __getnewargs__(self) -> tuple[str, int | None, str]:  # type: ignore[override]  # a text's own is the text
        """The record, for copies."""
        return self.code, self.number, self.detail


def record(warning: str) -> dict[str, str | int | None]:
    """A warning as the column `warnings` of `loads` keeps it.

    >>> record("slurmdbd was late")
    {'code': 'text', 'count': None, 'detail': 'slurmdbd was late'}
    """
    if isinstance(warning, LoadWarning):
        return {"code": warning.code, "count": warning.number, "detail": warning.detail}
    return {"code": "text", "count": None, "detail": warning}


def messages(records: Iterable[Mapping[str, object]] | None) -> list[str]:
    """The messages of warnings as a query returns them: structures of `code`, `count` and `detail`.

    A code of a newer version has no message here: its particulars stand for it.
    """
    return [_message(each) for each in records or ()]


def _message(record: Mapping[str, object]) -> str:
    code, count, detail = (record[name] for name in ("code", "count", "detail"))
    code_or_text = str(code) if code in MESSAGES else "text"
    return LoadWarning(code_or_text, count if isinstance(count, int) else None, str(detail or ""))


def summed(warnings: Iterable[str]) -> list[str]:
    """Warnings of several blocks: those that differ in their count only become one, with the sum.

    >>> summed([LoadWarning("state_unknown", 3, "SLEEPY"), "slow", LoadWarning("state_unknown", 4, "SLEEPY"), "slow"])
    ['unknown state SLEEPY: 7 rows', 'slow']
    """
    sums: dict[tuple[str, str], int | None] = {}
    for warning in warnings:
        warning_ = LoadWarning("text", None, warning) if not isinstance(warning, LoadWarning) else warning
        before = sums.get((warning_.code, warning_.detail))
        sums[warning_.code, warning_.detail] = warning_.number if before is None else before + (warning_.number or 0)
    return [LoadWarning(code, count, detail) for (code, detail), count in sums.items()]
