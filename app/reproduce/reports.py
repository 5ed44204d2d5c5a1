"""The verdicts on a publication's claims, and the SLA report of its period."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.claims.file import read_claims
from app.claims.verify import verify
from app.output_file import write_file
from app.reports.sla.write import write_sla
from app.reproduce.publication import computed_windows
from app.times import iso

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from app.reproduce.publication import Publication
    from metrics.claims.verdict import Judged
    from queries.warehouse import Reader

CLAIMS_FILE: Final = "claims.toml"


def judged_claims(reader: Reader, publication: Publication, folder: Path) -> Iterator[tuple[str, list[Judged]]]:
    """The verdicts of each cluster, with its name and interval; nothing where the publication claims nothing."""
    if not publication.claims:
        return
    path = _claims_file(publication, folder)
    for window in computed_windows(reader):
        yield f"{window.cluster} {iso(window.since)} to {iso(window.until)}", verify(reader, window, read_claims(path))


def write_reports(reader: Reader, publication: Publication, folder: Path) -> list[Path]:
    """Write the SLA report of each cluster into the folder; none where the publication claims nothing."""
    if not publication.claims:
        return []
    written = []
    for window in computed_windows(reader):
        target = folder / f"sla-{window.cluster}.html"
        period = f"{iso(window.since)}..{iso(window.until)}"
        write_sla(reader, window, period, _claims_file(publication, folder), target, "html")
        written.append(target)
    return written


def _claims_file(publication: Publication, folder: Path) -> Path:
    path = folder / CLAIMS_FILE
    write_file(path, publication.claims.lstrip().encode())
    return path
