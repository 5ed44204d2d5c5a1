"""Making a scheduled report: its files, in the folder of its key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.claims.file import read_contract
from app.clusters import clusters, select_cluster
from app.errors import UsageError
from app.output_file import write_file
from app.reports import records
from app.reports.delivery.outbox import Made, key_of
from app.reports.delivery.parcel import KEPT, summary_of
from app.reports.digest import document as digest
from app.reports.digest import render
from app.reports.schedule.plan import Plan
from app.reports.sla import document as sla
from app.reports.sla.write import file_name, rendered
from app.times import parse_period, periods_before, zone_of
from app.window import Window
from queries.warehouse import open_reader

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from app.config.reports import ScheduledReport
    from app.config.settings import Config
    from app.reports.delivery.outbox import Outbox
    from queries.warehouse import Reader


DIGEST_CUTOFF_DAYS: Final = 1
"""A digest is due a day after its period: it is news, and nobody's credits depend on it."""


def plan_of(report: ScheduledReport, settings: Config) -> Plan:
    """The schedule of a report: its own settings, and the cut-off and zone of its contract.

    Raises:
        ClaimsError: mistakes in the claims file.
    """
    contract = read_contract(report.claims or settings.claims)
    days = DIGEST_CUTOFF_DAYS if report.what == "digest" else contract.cutoff_days
    return Plan(
        report.name,
        report.period,
        cron=report.cron,
        zone=zone_of(report.zone or contract.zone or "UTC"),
        period_zone=contract.time_zone,
        cutoff_days=days,
        catch_up=report.catch_up,
    )


def make(root: Path, settings: Config, report: ScheduledReport, period: str, *, outbox: Outbox, now: datetime) -> Made:
    """Make the report on a period, and write its forms; nothing is recorded yet.

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
    claims, is_digest = report.claims or settings.claims, report.what == "digest"
    contract = read_contract(claims)
    with open_reader(root) as reader:
        cluster = select_cluster("a report", clusters(reader), report.cluster)
        window = Window(cluster, *parse_period(period, contract.time_zone))
        if is_digest:
            plain = _digest(reader, settings, report, window, period)
        else:
            origin, earlier = sla.origin_of_claims(claims), _earlier(outbox, report, cluster, period)
            plain = sla.document(reader, window, period, contract, origin, earlier)
    document = sla.sealed(plain)
    key = key_of(report.name, period, document["sha256"])
    folder = outbox.folder_of(key)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}") from None
    write_file(folder / KEPT, sla.encoded(document))
    files = []
    for form in dict.fromkeys(report.forms):
        name = render.file_name(document, form) if is_digest else file_name(cluster, period, form)
        files.append(name)
        write_file(folder / name, (render.rendered if is_digest else rendered)(document, form))
        if not is_digest:
            records.keep(root, records.of_document(document, folder / name, form, now))
    made_at = now.isoformat(timespec="seconds")
    return Made(key, report.name, period, cluster, document["sha256"], made_at, summary_of(document), tuple(files))


def _digest(reader: Reader, settings: Config, report: ScheduledReport, window: Window, period: str) -> sla.Document:
    kind, name = ("user", report.user) if report.user is not None else ("run", report.run)
    return digest.document(reader, window, period, digest.Subject(kind, name or ""), settings.cost)


def _earlier(outbox: Outbox, report: ScheduledReport, cluster: str, period: str) -> sla.Document | None:
    """The last report of the same name on the period before; None where there is none that can be compared."""
    before = periods_before(period, 1)
    same = [each for each in outbox.made(report.name) if [each.period] == before and each.cluster == cluster]
    try:
        return sla.read_report(outbox.folder_of(same[-1].key) / KEPT) if same else None
    except UsageError:  # of an earlier form, or gone: there is nothing to compare with
        return None
