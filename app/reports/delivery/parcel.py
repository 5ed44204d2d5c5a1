"""A report as receivers get it: files, words, and the key by which they drop doubles."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from app.reports.digest import words as digest_words
from app.reports.digest.document import FORM_VERSION as DIGEST_VERSION
from app.reports.sla import document as sla
from app.reports.sla.words import credits_in_words, status_in_words, words_of

if TYPE_CHECKING:
    from pathlib import Path

    from app.reports.delivery.outbox import MadeReport

MEDIA_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "json": "application/json",
    "pdf": "application/pdf",
    "md": "text/markdown; charset=utf-8",
    "csv": "text/csv; charset=utf-8",
}

FORMS: Final = {"sla": sla.FORM_VERSION, "digest": DIGEST_VERSION}
"""Kinds of reports that are delivered, with the versions of their JSON forms."""

KEPT: Final = "report.json"
"""Name of the JSON form that is kept of each report, whatever forms are delivered."""


@dataclass(frozen=True)
class ReportFile:
    """A form of the report.

    Attributes:
        name: of the file; it ends in the form.
        content: its bytes.
    """

    name: str
    content: bytes

    @property
    def form(self) -> str:
        """Its form."""
        return self.name.rpartition(".")[2]

    @property
    def media_type(self) -> str:
        """Its media type."""
        return MEDIA_TYPES[self.form]

    @property
    def sha256(self) -> str:
        """Digest of its bytes."""
        return hashlib.sha256(self.content).hexdigest()


@dataclass(frozen=True)
class Parcel:
    """A report to be delivered.

    Attributes:
        key: its idempotency key.
        report: name of its schedule.
        document: its contents.
        files: the forms to deliver.
    """

    key: str
    report: str
    document: dict[str, Any]
    files: tuple[ReportFile, ...]

    @property
    def cluster(self) -> str:
        """The cluster that it is on, in one line."""
        return " ".join(str(self.document["cluster"]).split())

    @property
    def period(self) -> str:
        """The period that it is on."""
        return str(self.document["period"]["asked"])

    @property
    def subject(self) -> str:
        """One line: which report, and its verdicts."""
        if self._is_digest:
            return f"{digest_words.title_of(self.document)}: {summary_of(self.document)}"
        return f"SLA report of {self.cluster}, {self.period}: {summary_of(self.document)}"

    @property
    def user(self) -> str | None:
        """The user that a digest is about; None: it is about a run, or no digest."""
        subject = self.document["subject"] if self._is_digest else {"kind": "cluster"}
        return str(subject["name"]) if subject["kind"] == "user" else None

    @property
    def _is_digest(self) -> bool:
        return bool(self.document["report"] == "digest")

    @cached_property
    def lines(self) -> list[str]:
        """The report in words: its state, a line for each objective, credits, its sha256; or the digest's lines."""
        if self._is_digest:
            return [*digest_words.lines_of(self.document), "", f"sha256 {self.document['sha256']}"]
        words = words_of(self.document)
        objectives = zip(self.document["objectives"], words["objectives"], strict=True)
        credits_ = credits_in_words(self.document)
        return [
            f"The report is {status_in_words(self.document['status'])}.",
            "",
            *(_objective(objective, texts) for objective, texts in objectives),
            *([] if credits_ is None else ["", f"Credits: {credits_}"]),
            *(["", *words["notices"]] if words["notices"] else []),
            "",
            f"sha256 {self.document['sha256']}",
        ]

    @property
    def text(self) -> str:
        """The report in words, as the body of a mail."""
        return "\n".join([self.subject, "", *self.lines, f"Key: {self.key}", ""])

    def manifest(self) -> dict[str, Any]:
        """What was delivered: the key, and the digest of each file."""
        return {
            "key": self.key,
            "report": self.report,
            "cluster": self.cluster,
            "period": self.period,
            "sha256": self.document["sha256"],
            "files": {file.name: file.sha256 for file in self.files},
        }


def _objective(objective: dict[str, Any], words: dict[str, Any]) -> str:
    value = f"{words['measure']}: {words['value']} ({words['range']}), promised {words['target']}"
    return f"{objective['verdict']:<12}  {' '.join(value.split())}"


def summary_of(document: dict[str, Any]) -> str:
    """The verdicts, or what a digest is about, in a few words.

    >>> summary_of({"report": "sla", "summary": {"supported": 3, "refuted": 1, "undetermined": 0}})
    '3 supported, 1 refuted'
    """
    if document["report"] == "digest":
        return digest_words.summary_of(document)
    return ", ".join(f"{count} {verdict}" for verdict, count in document["summary"].items() if count)


def read_parcel(made: MadeReport, folder: Path) -> Parcel:
    """A report from the folder in which it is kept.

    Args:
        made: what the outbox has of it.
        folder: its folder.

    Raises:
        UsageError: the kept report is gone, or not as it was written.
        OSError: a file is gone.
    """
    document = sla.read_report(folder / KEPT, FORMS)
    files = tuple(ReportFile(name, (folder / name).read_bytes()) for name in made.files)
    return Parcel(made.key, made.report, document, files)
