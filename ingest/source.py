"""A source of rows: its tables, its files, and the command that requests it live.

Named tuples, because the command line imports them for `--help`: dataclasses would cost it twice the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ingest.tables import SourceName


class IngestSource(NamedTuple):
    """One source of rows.

    Attributes:
        name: `FOLDER.KIND`, as the column `source` of `loads` has it.
        title: a few words for tables.
        feeds: warehouse tables that its rows go to.
        counted: tables whose rows `trackside status` counts under this source; None: all of `feeds`.
        files: formats of its files.
        command: the command that requests it live.
        purpose: its use, in a sentence.
        when_empty: a question to the user where an input has no rows; empty where that needs no check.
        names_cluster: its text names the cluster; else the caller has to pass it.
        snapshot: it is a snapshot of one moment.
        dated: its text has its own time; else the caller has to pass it.
        schedulers: of tables with a column `scheduler`, `trackside status` counts the rows of these; empty: of all.
        prints_times: the command that prints times in SLURM_TIME_FORMAT, where one does.
        skips: rows that are skipped by design: they are counted, and no fault of the data.
    """

    name: SourceName
    title: str
    feeds: tuple[str, ...]
    files: str
    command: str
    purpose: str
    when_empty: str = ""
    counted: tuple[str, ...] | None = None
    names_cluster: bool = True
    snapshot: bool = False
    dated: bool = True
    schedulers: tuple[str, ...] = ()
    prints_times: str | None = None
    skips: str = "rows of another kind; headers that are repeated"


class SourceFolder(NamedTuple):
    """A folder of this package with its sources; `trackside ingest NAME` loads their files.

    Attributes:
        name: the folder's.
        title: its line in `trackside ingest --help`.
        sources: in the order in which their inputs are loaded.
        position: folders are listed by it, then by name.
        loader: the module whose `ingest_files` loads files, with the arguments of `ingest.runlog.store.ingest_files`;
            empty where `trackside ingest NAME` has a module of its own, with more options, in `app.cli.sources`.
        files: its files in `--help`.
        epilog: the text below that.
        manual: its page of the manual.
        called: its rows in a list, such as "run logs"; empty: as the folder.
        without_jobs: the command that shows something of its rows without the accounting of their jobs.
    """

    name: str
    title: str
    sources: tuple[IngestSource, ...]
    position: int = 100
    loader: str = ""
    files: str = "files to load; - is standard input"
    epilog: str = ""
    manual: str = ""
    called: str = ""
    without_jobs: str = ""
