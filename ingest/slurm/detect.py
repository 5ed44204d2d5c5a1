"""Detects the kind of text in a file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ingest.delimited.header import SEARCHED_LINES, DumpLayout, find_header
from ingest.delimited.reader import clean
from ingest.delimited.spreadsheet import header_without_quotes
from ingest.errors import DelimiterError, UnrecognisedInputError, shorten
from ingest.slurm.accounting.controller_jobs import IS_LISTING
from ingest.slurm.accounting.sacct import ACCOUNTING
from ingest.slurm.formats.json_answer import is_json, kind_of_json
from ingest.slurm.nodes.inventory import EVENTS
from ingest.slurm.nodes.reservations import HISTORY, is_listing
from ingest.slurm.nodes.topology import is_topology
from ingest.slurm.people.associations import ASSOCIATION_COLUMNS, ASSOCIATION_TABLE, QOS_COLUMNS, QOS_TABLE
from ingest.slurm.people.transactions import TRANSACTION_COLUMNS, TRANSACTION_TABLE
from ingest.slurm.scheduler.runaway import NO_RUNAWAY_JOBS, RUNAWAY_COLUMNS, RUNAWAY_TABLE
from ingest.slurm.scheduler.sdiag import TAKEN

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.tables import SourceName

SNIFFED_BYTES: Final = 1 << 16

_NODES = re.compile(r"(?m)^\s*NodeName=\S")
_SETTINGS = re.compile(r"(?m)^\s*(?:AccountingStorage\w+|SlurmdTimeout|SLURM_VERSION)\s+= ")

_PARQUET: Final = b"PAR1"
_TELEMETRY = re.compile(r"(?m)^(?:# (?:TYPE|HELP) [a-zA-Z_:]\w* \S|[a-zA-Z_:]\w*\{\w+=\".*\} \S+ \d[\d.]*$)")

_TABLES: Final[tuple[tuple[SourceName, DumpLayout, frozenset[str]], ...]] = (
    ("slurm.accounting", ACCOUNTING, frozenset({"jobid", "jobidraw"})),
    ("slurm.runaway", RUNAWAY_TABLE, RUNAWAY_COLUMNS),  # before reservations, which have most of its columns
    ("slurm.reservations", HISTORY, frozenset({"unusedwall", "assocs"})),
    ("slurm.events", EVENTS, frozenset({"nodename"})),
    ("slurm.transactions", TRANSACTION_TABLE, TRANSACTION_COLUMNS),
    ("slurm.qos", QOS_TABLE, QOS_COLUMNS),
    ("slurm.associations", ASSOCIATION_TABLE, ASSOCIATION_COLUMNS),
)
"""Delimited tables: the layout of each, and the columns that distinguish it from its neighbours."""

_TEXTS: Final[tuple[tuple[SourceName, Callable[[str], object]], ...]] = (
    ("slurm.reservations", is_listing),
    ("slurm.jobs", IS_LISTING.search),
    ("slurm.nodes", _NODES.search),
    ("slurm.topology", is_topology),
    ("slurm.config", _SETTINGS.search),
    ("slurm.runaway", NO_RUNAWAY_JOBS.search),
    ("slurm.diag", TAKEN.search),
)

ACCEPTED: Final = """Accepted are, as the commands print them:
  sacct -P ...                 job accounting, with a header or in the documented order of 26 columns
  sacct --json                 the same, without exit codes before Slurm 23.02
  sacctmgr -P show event ...   node events
  scontrol show node [-o]      node inventory
  scontrol show job -d [-o]    GPUs of jobs, where accounting does not record them; also squeue --json
  scontrol show topology       network: switches or blocks (topology.conf, topology.yaml too)
  scontrol show reservation    reservations, also sacctmgr -P show reservation
  scontrol show config         settings
  sacctmgr -P show assoc       associations and limits; also: show user withassoc, qos, transactions, runawayjobs
  sdiag                        the scheduler's statistics"""


def detect_kind(data: bytes, *, origin: str = "input") -> SourceName:
    r"""The source that a text belongs to, detected from its beginning.

    >>> detect_kind(b"NodeName=n1 Arch=x86_64 CPUTot=64\n")
    'slurm.nodes'
    >>> detect_kind(b"Cluster|NodeName|TimeStart|TimeEnd|State\n")
    'slurm.events'

    Raises:
        UnrecognisedInputError: The input is empty, or none of the kinds.
        DelimiterError: It is sacct's table for people, with cut values.
    """
    beginning, _ = clean(data[:SNIFFED_BYTES], origin)
    text = beginning.decode(errors="replace")
    if is_json(beginning):
        return kind_of_json(text, origin=origin)
    lines = header_without_quotes(text.split("\n"))
    for source, layout, distinctive in _TABLES:
        if _fits(lines, layout, distinctive, origin):
            return source
    for source, is_it in _TEXTS:
        if is_it(text):
            return source
    if data.startswith(_PARQUET) or is_telemetry(text):
        message = f"{origin}: this is telemetry; load it with: trackside ingest prometheus {origin}"
        raise UnrecognisedInputError(message)
    first = next((line for line in lines if line.strip()), "")
    message = f"{origin}: not a text of a known kind; it begins with\n  {shorten(first)}\n{ACCEPTED}"
    raise UnrecognisedInputError(message)


def is_telemetry(text: str) -> bool:
    """Whether a text has a line of OpenMetrics, or of Prometheus' older format."""
    return _TELEMETRY.search(text) is not None


def _fits(lines: list[str], layout: DumpLayout, distinctive: frozenset[str], origin: str) -> bool:
    try:
        header = find_header(lines, layout, origin=origin)
    except UnrecognisedInputError:
        return False
    except DelimiterError:  # a table for people; report it if it is of this kind, squeue's and sinfo's are not
        if distinctive & set(" ".join(lines[:SEARCHED_LINES]).lower().split()):
            raise
        return False
    return bool(distinctive & set(header.names))
