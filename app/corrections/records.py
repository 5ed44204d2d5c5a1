"""Corrections as the warehouse stores them, and as a computation applies them.

A correction is written once. Only its withdrawal changes it: when, by whom and why. Its subject, the derived value
(`before`) and the corrected one (`after`) are JSON of natural keys, so it survives any computation, late data, and
reading the sources again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from app.json_text import as_json
from metrics.corrections import CauseFix, RunFix, StateFix, attempt_keys, corrected_causes
from metrics.failures.interruptions import with_incidents

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from app.window import RowSource, Window
    from metrics.corrections import AttemptKey

Kind = Literal["cause", "node_state", "run_join"]

TITLES: dict[str, str] = {"cause": "cause", "node_state": "node state", "run_join": "run join"}
"""Titles of the kinds."""


@dataclass(frozen=True)
class Correction:
    """One row of the table `adjudications`.

    Attributes:
        id: its name in commands and messages.
        cluster: of its subject.
        made_at: when.
        author: who.
        reason: why.
        kind: what is corrected.
        subject: in natural keys.
        before: the derived value when it was made.
        after: the corrected value.
        withdrawn_at: when it was withdrawn; None while it counts.
        withdrawn_by: by whom.
        withdrawn_reason: and why.
    """

    id: str
    cluster: str
    made_at: datetime
    author: str
    reason: str
    kind: Kind
    subject: dict[str, Any]
    before: dict[str, Any]
    after: dict[str, Any]
    withdrawn_at: datetime | None = None
    withdrawn_by: str | None = None
    withdrawn_reason: str | None = None

    @property
    def counts(self) -> bool:
        """Whether it is in force: not withdrawn."""
        return self.withdrawn_at is None

    @property
    def signed_reason(self) -> str:
        """Author and reason, as printed next to the numbers that it affects."""
        return f"adjudicated by {self.author}: {self.reason}"

    @property
    def attempts(self) -> tuple[AttemptKey, ...]:
        """The attempts of its subject; empty for a node state."""
        return tuple(_key(each) for each in self.subject.get("attempts", ()))

    @property
    def span(self) -> tuple[datetime, datetime]:
        """Beginning and end of a node state."""
        return _moment(self.subject["from"]), _moment(self.subject["until"])

    def row(self) -> dict[str, Any]:
        """As a row of the table."""
        texts = {name: _text(getattr(self, name)) for name in ("subject", "before", "after")}
        return self.__dict__ | texts

    def overlaps(self, other: Correction) -> bool:
        """Whether both are about the same thing, so that the later one counts."""
        if self.cluster != other.cluster or self.kind != other.kind:
            return False
        if self.kind != "node_state":
            return not set(self.attempts).isdisjoint(other.attempts)
        (low, high), (from_, until) = self.span, other.span
        return bool(self.subject["node"] == other.subject["node"]) and low < until and from_ < high

    def repeats(self, other: Correction) -> bool:
        """Whether both make the same correction."""
        return self.overlaps(other) and (self.subject, self.after) == (other.subject, other.after)


def key_of(row: dict[str, Any]) -> list[str]:
    """An attempt's key as JSON has it."""
    return [row["scheduler"], row["job_id"], stamp(row["submitted_at"])]


def stamp(moment: datetime) -> str:
    """A moment as JSON has it, with all its digits."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _key(each: Sequence[str]) -> AttemptKey:
    scheduler, job_id, submitted = each
    return scheduler, job_id, _moment(submitted)


def _text(value: object) -> str:
    return as_json(value, sort_keys=True)


def read_corrections(source: RowSource, cluster: str | None = None) -> list[Correction]:
    """All corrections in the order in which they were made, withdrawn ones too."""
    rows = source.query("adjudications", cluster=cluster).to_dicts()
    return [Correction(**row | {name: json.loads(row[name] or "{}") for name in ("subject", "before", "after")})
            for row in rows]  # fmt: skip


# Applied ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fixes:
    """The corrections of a cluster in force, as metrics take them."""

    causes: tuple[CauseFix, ...]
    states: tuple[StateFix, ...]
    runs: tuple[RunFix, ...]

    def attempts(self, cluster: str) -> pl.DataFrame:
        """Keys of the attempts that corrections of causes and runs name, each once."""
        return attempt_keys([*self.causes, *self.runs]).select(pl.lit(cluster).alias("cluster"), pl.all())

    def of_causes(self, interrupted: pl.DataFrame) -> pl.DataFrame:
        """Interruptions with corrected causes, and incidents computed again."""
        if not self.causes:
            return interrupted
        corrected = with_incidents(corrected_causes(interrupted, self.causes))
        return corrected.select(interrupted.columns).sort("cluster", "ended_at", "job_id", "submitted_at")


def fixes(source: RowSource, cluster: str) -> Fixes:
    """The corrections of a cluster in force."""
    counting = [each for each in read_corrections(source, cluster) if each.counts]
    return Fixes(
        tuple(
            CauseFix(each.id, each.attempts, each.signed_reason, each.after.get("class"), each.after.get("cause"),
                     each.after.get("node"))
            for each in counting if each.kind == "cause"
        ),
        tuple(
            StateFix(each.id, cluster, each.subject["node"], *each.span, each.after["state"], each.author,
                     each.signed_reason)
            for each in counting if each.kind == "node_state"
        ),
        tuple(
            RunFix(each.id, each.attempts, _key(each.after["run_of"]) if "run_of" in each.after else None,
                   whole_job=each.subject["whole_job"])
            for each in counting if each.kind == "run_join"
        ),
    )  # fmt: skip


# Counted ---------------------------------------------------------------------------------------------------------


def counting_in(source: RowSource, window: Window) -> list[Correction]:
    """The corrections that affect a window: of interruptions, node states and runs in it."""
    counting = [each for each in read_corrections(source, window.cluster) if each.counts]
    if not counting:
        return []
    keys = {key for each in counting for key in each.attempts}
    spans = _spans(source, window, keys) if keys else {}
    return [each for each in counting if _bears(each, window, spans)]


def _spans(
    source: RowSource, window: Window, keys: Iterable[AttemptKey]
) -> dict[AttemptKey, tuple[datetime, datetime]]:
    """From the submission of each attempt to its end, or to the window's while it lasts."""
    keys_of = pl.DataFrame(
        sorted(keys),
        schema={"scheduler": pl.String(), "job_id": pl.String(), "submitted_at": pl.Datetime("us", "UTC")},
        orient="row",
    )
    key = ["scheduler", "job_id", "submitted_at"]
    rows = source.query("attempts", cluster=window.cluster).join(keys_of, on=key, how="semi")
    return {
        (scheduler, job_id, submitted): (submitted, ended or window.until)
        for scheduler, job_id, submitted, ended in rows.select(*key, "ended_at").iter_rows()
    }


def _bears(each: Correction, window: Window, spans: dict[AttemptKey, tuple[datetime, datetime]]) -> bool:
    if each.kind == "node_state":
        low, high = each.span
        return low < window.until and high > window.since
    spans_of = [spans[key] for key in each.attempts if key in spans]
    if each.kind == "cause":  # an interruption is of the moment that it happened at
        return any(window.since <= ended < window.until for _, ended in spans_of)
    return any(low < window.until and high > window.since for low, high in spans_of)
