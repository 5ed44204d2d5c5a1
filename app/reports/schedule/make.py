"""Making a scheduled report: its files, in the folder of its key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.claims.file import read_contract
from app.clusters import clusters, select_cluster
from app.errors import UsageError
from app.output_file import write_file
from app.reports import records
from app.reports.delivery.outbox import Made, key_of
from app.reports.delivery.parcel import KEPT, summary_of
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


def plan_of(report: ScheduledReport, settings: Config) -> Plan:
    """The schedule of a report: its own settings, and the cut-off and zone of its contract.

    Raises:
        ClaimsError: mistakes in the claims file.
    """
    contract = read_contract(report.claims or settings.claims)
    return Plan(
        report.name,
        report.period,
        cron=report.cron,
        zone=zone_of(report.zone or contract.zone or "UTC"),
        period_zone=contract.time_zone,
        cutoff_days=contract.cutoff_days,
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
        UsageError: no such cluster, or no data of the period.
        ClaimsError: mistakes in the claims file.
        WarehouseError: it cannot be read.
    """
    claims = report.claims or settings.claims
    contract, origin = read_contract(claims), sla.origin_of_claims(claims)
    with open_reader(root) as reader:
        cluster = select_cluster("a report", clusters(reader), report.cluster)
        window = Window(cluster, *parse_period(period, contract.time_zone))
        earlier = _earlier(outbox, report, cluster, period)
        document = sla.sealed(sla.document(reader, window, period, contract, origin, earlier))
    key = key_of(report.name, period, document["sha256"])
    folder = outbox.folder_of(key)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}") from None
    write_file(folder / KEPT, sla.encoded(document))
    files = [file_name(cluster, period, form) for form in dict.fromkeys(report.forms)]
    for form, name in zip(dict.fromkeys(report.forms), files, strict=True):
        write_file(folder / name, rendered(document, form))
        records.keep(root, records.of_document(document, folder / name, form, now))
    made_at = now.isoformat(timespec="seconds")
    return Made(key, report.name, period, cluster, document["sha256"], made_at, summary_of(document), tuple(files))


def _earlier(outbox: Outbox, report: ScheduledReport, cluster: str, period: str) -> sla.Document | None:
    """The last report of the same name on the period before; None where there is none that can be compared."""
    before = periods_before(period, 1)
    same = [each for each in outbox.made(report.name) if [each.period] == before and each.cluster == cluster]
    try:
        return sla.read_report(outbox.folder_of(same[-1].key) / KEPT) if same else None
    except UsageError:  # of an earlier form, or gone: there is nothing to compare with
        return None
