"""Making a scheduled report: its files, in the folder of its key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.claims.file import read_contract
from app.clusters import clusters, select_cluster
from app.errors import UsageError
from app.output_file import write_file
from app.reports import records
from app.reports.delivery.outbox import MadeReport, key_of
from app.reports.delivery.parcel import KEPT, summary_of
from app.reports.digest import document as digest
from app.reports.digest import render
from app.reports.schedule.plan import ReportPlan
from app.reports.sla import document as sla
from app.reports.sla.write import file_name, rendered
from app.times import parse_period, periods_before, zone_of
from app.window import Window
from queries.warehouse import open_reader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

    from app.config.reports import ScheduledReport
    from app.config.settings import Config
    from app.reports.delivery.outbox import Outbox
    from queries.warehouse import Reader


DIGEST_CUTOFF_DAYS: Final = 1
"""A digest is due a day after its period: it is news, and no credits depend on it."""


def plan_of(report: ScheduledReport, settings: Config) -> ReportPlan:
    """The schedule of a report: its own settings, and the cut-off and zone of its contract.

    Raises:
        ClaimsError: mistakes in the claims file.
    """
    contract = read_contract(report.claims or settings.claims)
    days = DIGEST_CUTOFF_DAYS if report.what == "digest" else contract.cutoff_days
    return ReportPlan(
        report.name,
        report.period,
        cron=report.cron,
        zone=zone_of(report.zone or contract.zone or "UTC"),
        period_zone=contract.time_zone,
        cutoff_days=days,
        catch_up=report.catch_up,
    )


def make(
    root: Path, settings: Config, report: ScheduledReport, period: str, *, outbox: Outbox, now: datetime
) -> list[MadeReport]:
    """Make the report on a period, or every user's digest, and write its forms; nothing is recorded yet.

    What the data give otherwise now for the period before is in it as corrections to that period's report.

    Args:
        root: the warehouse directory.
        settings: with the claims of reports that name none.
        report: which.
        period: as written: 2026-10.
        outbox: for the report on the period before, and the folder.
        now: the time.

    Raises:
        UsageError: no such cluster, user or run, or no data of the period.
        ClaimsError: mistakes in the claims file.
        WarehouseError: it cannot be read.
    """
    contract = read_contract(report.claims or settings.claims)
    with open_reader(root) as reader:
        cluster = select_cluster("a report", clusters(reader), report.cluster)
        window = Window(cluster, *parse_period(period, contract.time_zone))
        if report.what == "digest":
            documents = _digests(reader, settings, report, window, period)
        else:
            origin = sla.origin_of_claims(report.claims or settings.claims)
            earlier = _earlier(outbox, report, cluster, period)
            documents = iter([sla.document(reader, window, period, contract, origin, earlier)])
        making = _Making(root, outbox, report, period, now)
        made = [making.keep(sla.sealed(each)) for each in documents]
    return made or [making.nothing(cluster)]


@dataclass(frozen=True)
class _Making:
    """Writing what a report, or each user's digest, came to on a period."""

    root: Path
    outbox: Outbox
    report: ScheduledReport
    period: str
    now: datetime

    def keep(self, document: sla.Document) -> MadeReport:
        """Write a report and its forms to the folder of its key."""
        key = key_of(self.report.name, self.period, document["sha256"])
        folder = self.outbox.folder_of(key)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{folder} cannot be made: {error.strerror}") from None
        write_file(folder / KEPT, sla.encoded(document))
        files = [self._form(document, folder, form) for form in dict.fromkeys(self.report.forms)]
        return self._made(key, document["cluster"], document["sha256"], self._summary(document), files)

    def nothing(self, cluster: str) -> MadeReport:
        """The record of a period in which no subscriber to the digest held GPUs."""
        return self._made(f"{self.report.name}-{self.period}-nobody", cluster, None, "no subscriber held GPUs", [])

    def _form(self, document: sla.Document, folder: Path, form: str) -> str:
        """Write a form; the name of its file."""
        if self.report.what == "digest":
            name = render.file_name(document, form)
            write_file(folder / name, render.rendered(document, form))
            return name
        name = file_name(document["cluster"], self.period, form)
        write_file(folder / name, rendered(document, form))
        records.keep(self.root, records.of_document(document, folder / name, form, self.now))
        return name

    def _summary(self, document: sla.Document) -> str:
        prefix = "" if self.report.users is None else f"{document['subject']['name']}: "
        return f"{prefix}{summary_of(document)}"

    def _made(self, key: str, cluster: str, sha256: str | None, summary: str, files: list[str]) -> MadeReport:
        made_at = self.now.isoformat(timespec="seconds")
        return MadeReport(key, self.report.name, self.period, cluster, sha256, made_at, summary, tuple(files))


def _digests(
    reader: Reader, settings: Config, report: ScheduledReport, window: Window, period: str
) -> Iterator[sla.Document]:
    """The digest of a user or a run; or that of each user who held GPUs and did not opt out, one after the other."""
    if report.users is None:
        kind, name = ("user", report.user) if report.user is not None else ("run", report.run)
        yield digest.document(reader, window, period, digest.Subject(kind, name or ""), settings.cost)
        return
    found = digest.gather(reader, window, period, "user", settings.cost)
    for name in found.holders:
        if name not in report.opt_out:
            yield digest.document_of(found, name)


def _earlier(outbox: Outbox, report: ScheduledReport, cluster: str, period: str) -> sla.Document | None:
    """The last report of the same name on the period before; None where there is none that can be compared."""
    before = periods_before(period, 1)
    same = [each for each in outbox.made(report.name) if [each.period] == before and each.cluster == cluster]
    try:
        return sla.read_report(outbox.folder_of(same[-1].key) / KEPT) if same else None
    except UsageError:  # of an earlier form, or gone: there is nothing to compare with
        return None
