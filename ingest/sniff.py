"""Which kind of text a file is, and its bytes."""

from __future__ import annotations

import gzip
import re
import zlib
from typing import TYPE_CHECKING, Final

from ingest.errors import DelimiterError, InputError, TruncatedInputError, UnrecognisedInputError, shorten
from ingest.header import SEARCHED_LINES, Layout, find_header
from ingest.lines import clean
from ingest.slurm import ACCOUNTING
from ingest.slurm_nodes import EVENTS

if TYPE_CHECKING:
    from pathlib import Path

    from ingest.frames import SourceName

SNIFFED_BYTES: Final = 1 << 16
GZIP: Final = b"\x1f\x8b"

_NODES = re.compile(r"(?m)^\s*NodeName=\S")
_SETTINGS = re.compile(r"(?m)^\s*(?:AccountingStorage\w+|SlurmdTimeout|SLURM_VERSION)\s+= ")

ACCEPTED: Final = """Accepted are, as the commands print them:
  sacct -P ...                 job accounting, with a header or in the documented order of 26 columns
  sacctmgr -P show event ...   node events
  scontrol show node [-o]      node inventory
  scontrol show config         settings"""


def kind_of(data: bytes, *, origin: str = "input") -> SourceName:
    r"""The source that a text belongs to, told by how it begins.

    >>> kind_of(b"NodeName=n1 Arch=x86_64 CPUTot=64\n")
    'slurm.nodes'
    >>> kind_of(b"Cluster|NodeName|TimeStart|TimeEnd|State\n")
    'slurm.events'

    Raises:
        UnrecognisedInputError: The input is empty, or none of the kinds.
        DelimiterError: It is sacct's table for people, with cut values.
    """
    beginning, _ = clean(data[:SNIFFED_BYTES], origin)
    text = beginning.decode(errors="replace")
    lines = text.split("\n")
    if _fits(lines, ACCOUNTING, {"jobid", "jobidraw"}, origin):
        return "slurm.accounting"
    if _fits(lines, EVENTS, {"nodename"}, origin):
        return "slurm.events"
    if _NODES.search(text):
        return "slurm.nodes"
    if _SETTINGS.search(text):
        return "slurm.config"
    first = next((line for line in lines if line.strip()), "")
    message = f"{origin}: not a text that we know; it begins with\n  {shorten(first)}\n{ACCEPTED}"
    raise UnrecognisedInputError(message)


def _fits(lines: list[str], layout: Layout, telling: set[str], origin: str) -> bool:
    try:
        header = find_header(lines, layout, origin=origin)
    except UnrecognisedInputError:
        return False
    except DelimiterError:  # a table for people; say so if it is of this kind, squeue's and sinfo's are not
        if telling & set(" ".join(lines[:SEARCHED_LINES]).lower().split()):
            raise
        return False
    return bool(telling & set(header.names))


def read_bytes(path: Path) -> bytes:
    """A file's bytes; gzip is unpacked, whatever the file is called.

    Raises:
        InputError: The file cannot be read, or is damaged.
        TruncatedInputError: The gzip stream ends too early.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        message = f"{path}: {error.strerror or error}"
        raise InputError(message) from None
    return unpack(data, origin=str(path))


def unpack(data: bytes, *, origin: str) -> bytes:
    """The bytes themselves, or what is inside the gzip stream."""
    if not data.startswith(GZIP):
        return data
    try:
        return gzip.decompress(data)
    except EOFError:
        message = f"{origin}: the gzip stream is cut off; copy or write the file again"
        raise TruncatedInputError(message) from None
    except (OSError, zlib.error) as error:
        message = f"{origin}: the gzip stream is damaged ({error}); copy or write the file again"
        raise InputError(message) from None
