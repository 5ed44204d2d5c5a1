"""The verdicts on a publication's claims, and the SLA report of its period."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.claims.file import read_claims
from app.claims.verify import verify
from app.output_file import write_file
from app.reports.sla.write import write_sla
from app.reproduce.figure import svg
from app.reproduce.publication import computed_windows
from app.times import iso

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from app.reproduce.publication import Publication, Sources
    from app.window import Window
    from metrics.claims.verdict import Judged
    from queries.warehouse import Reader


def judged_claims(
    reader: Reader, publication: Publication, sources: Sources, folder: Path
) -> Iterator[tuple[str, list[Judged]]]:
    """The verdicts of each cluster that something is claimed of, with its name and interval."""
    for window, path in _claimed(reader, publication, sources, folder):
        yield f"{window.cluster} {iso(window.since)} to {iso(window.until)}", verify(reader, window, read_claims(path))


def write_reports(reader: Reader, publication: Publication, sources: Sources, folder: Path) -> list[Path]:
    """Write the SLA report of each cluster that something is claimed of into the folder."""
    written = []
    for window, path in _claimed(reader, publication, sources, folder):
        target = folder / f"sla-{window.cluster}.html"
        write_sla(reader, window, f"{iso(window.since)}..{iso(window.until)}", path, target, "html")
        written.append(target)
    return written


def write_figures(reader: Reader, publication: Publication, folder: Path) -> list[Path]:
    """Write the figure of each cluster into the folder, where the publication has one."""
    if publication.figure is None:
        return []
    written = []
    for window in computed_windows(reader):
        target = folder / f"figure-{window.cluster}.svg"
        panels = publication.figure(reader, window)
        write_file(target, svg(f"{publication.title.partition(':')[0]}: {window.cluster}", panels).encode())
        written.append(target)
    return written


def _claimed(reader: Reader, publication: Publication, sources: Sources, folder: Path) -> Iterator[tuple[Window, Path]]:
    """Each cluster's window, and the file with the claims on it."""
    for window in computed_windows(reader):
        text = publication.claims(sources, window.cluster)
        if text:
            path = folder / f"claims-{window.cluster}.toml"
            write_file(path, text.lstrip().encode())
            yield window, path
