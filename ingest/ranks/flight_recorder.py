r"""Dumps of PyTorch's NCCL flight recorder, one per rank: how far the rank came in the collectives of each group.

    {"version": "2.10",
     "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}},
     "pg_status": {"0": {"last_enqueued_collective": 12, "last_completed_collective": 11}},
     "entries": [{"process_group": ["0", "default_pg"], "collective_seq_id": 12, "is_p2p": false,
                  "profiling_name": "nccl:all_reduce", "state": "started", "time_created_ns": 1790812800...}, ...]}

A dump is a pickle of plain values, or JSON. No object of a pickle is made: a pickle with one is refused. The rank
ends the file's name (`nccl_trace_rank_3`), and the folder's name is the run's, unless it is stated. Older versions call
`collective_seq_id` `seq_id`, and a group by its number in `pg_id`.

Rows go to `rank_reports`, of the time of the dump's last entry: for each group `entered|GROUP` (the last collective
that the rank entered) and `size|GROUP` (how many ranks it has), and `waits|OPERATION|GROUP` for the first that has not
ended.
"""

from __future__ import annotations

import ast
import io
import json
import pickle
import re
from datetime import UTC, datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

import msgspec
import polars as pl

from ingest.errors import InputError, shorten
from ingest.plausible import EARLIEST_S, LATEST_S
from ingest.ranks.parse_reports import ROWS, SOURCE
from ingest.tables import REJECTS, Parsed, conform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ingest.ranks.stated import Stated

PROGRAM: Final = "nccl-flight-recorder"

_PICKLE: Final = re.compile(rb"\x80[\x02-\x05]")
_JSON: Final = re.compile(rb'\s*\{\s*"(entries|nccl_comm_state|pg_config|pg_status|version)"\s*:')
_RANK: Final = re.compile(r"(\d{1,9})(?:\.(?:json|pkl|pickle|gz|zst|xz|bz2))*")
_LISTS: Final = ("torch.jit._pickle", "build_")
"""Functions of typed lists in pickles that C++ writes; they are called with a list."""

_UNPICKLING: Final = (
    pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError,
    MemoryError, RecursionError,
)  # fmt: skip


class _Collective(msgspec.Struct, gc=False):
    """A collective, or a send or receive, of a rank."""

    state: str
    process_group: list[Any] = msgspec.field(default_factory=list)
    pg_id: int = 0
    collective_seq_id: int | None = None
    seq_id: int = 0
    is_p2p: bool = False
    profiling_name: str = ""
    time_created_ns: int = 0

    @property
    def group(self) -> str:
        return str(self.process_group[0]) if self.process_group else str(self.pg_id)

    @property
    def sequence(self) -> int:
        return self.seq_id if self.collective_seq_id is None else self.collective_seq_id


class _RankStatus(msgspec.Struct, gc=False):
    last_enqueued_collective: int = -1


class _Dump(msgspec.Struct, gc=False):
    entries: list[_Collective] = msgspec.field(default_factory=list)
    pg_config: dict[str, Any] = msgspec.field(default_factory=dict)
    pg_status: dict[str, _RankStatus] = msgspec.field(default_factory=dict)


def is_dump(head: bytes) -> bool:
    r"""Whether bytes begin such a dump.

    >>> is_dump(b'{"entries": ['), is_dump(b"\x80\x02}q"), is_dump(b'{"type":"rank_steps"')
    (True, True, False)
    """
    return bool(_PICKLE.match(head) or _JSON.match(head))


def parse_dump(data: bytes, *, origin: str, cluster: str, stated: Stated) -> Parsed:
    """Read the dump of a rank.

    Args:
        data: the file.
        origin: its name, which ends in the rank.
        cluster: of its run; empty: unknown, it is refused.
        stated: what the dump does not record.

    Raises:
        InputError: it is no such dump, or lacks a needed part; the message names it.
    """
    rank = _RANK.fullmatch(PurePath(origin).name.rpartition("_")[2])
    if rank is None:
        raise InputError(f"{origin}: its rank is unknown. A dump's file name ends in its rank: nccl_trace_rank_3")
    if not cluster:
        raise InputError(f"{origin}: it names no cluster, and several have accounting: --cluster NAME")
    dump = _read(data, origin)
    at_s = max((entry.time_created_ns for entry in dump.entries), default=0) / 1e9
    if not EARLIEST_S <= at_s <= LATEST_S:
        raise InputError(f"{origin}: the dump has no entry with a time (TORCH_FR_BUFFER_SIZE has to be more than 0)")
    facts = {
        "cluster": cluster,
        "run_id": stated.run_id or PurePath(origin).parent.name or PurePath(origin).name,
        "session": stated.session,
        "job_id": stated.job_id,
        "program": PROGRAM,
        "reported_at": datetime.fromtimestamp(at_s, UTC),
        "place": "listed",
        "rank": int(rank[1]),
    }
    rows = pl.DataFrame([{**facts, "measure": name, "value": value} for name, value in _measures(dump)], schema=ROWS)
    return Parsed(
        SOURCE,
        frozenset({cluster}),
        {"rank_reports": rows},
        conform(pl.DataFrame(schema=dict.fromkeys(REJECTS, pl.String())), REJECTS),
        rows_read=rows.height,
        rows_loaded=rows.height,
        covers_from=facts["reported_at"],  # type: ignore[arg-type]  # a time
        covers_until=facts["reported_at"],  # type: ignore[arg-type]  # a time
    )


def _measures(dump: _Dump) -> Iterator[tuple[str, float]]:
    """Names and values of the rows of a dump."""
    entered = {name: float(max(status.last_enqueued_collective, 0)) for name, status in dump.pg_status.items()}
    waits: dict[tuple[str, bool], _Collective] = {}
    for entry in dump.entries:
        if not entry.is_p2p:
            entered[entry.group] = max(entered.get(entry.group, 0.0), float(entry.sequence))
        if entry.state != "completed":
            waits.setdefault((entry.group, entry.is_p2p), entry)
    for group, last in sorted(entered.items()):
        label, size = _label(dump.pg_config.get(group), group)
        yield f"entered|{label}", last
        if size:
            yield f"size|{label}", float(size)
    for (group, _), entry in sorted(waits.items(), key=lambda each: each[0]):
        label, _ = _label(dump.pg_config.get(group), group)
        yield f"waits|{_plain(entry.profiling_name or 'collective')}|{label}", float(entry.sequence)


def _label(config: object, name: str) -> tuple[str, int]:
    """A unique name of a group, the same in the dumps of all its ranks, and the number of these (0: unknown).

    >>> _label({"name": "3", "desc": "mesh_dp", "ranks": "[0, 8]"}, "3"), _label([0, 1], "0"), _label(None, "5")
    (('mesh_dp 3 (2 ranks, 0 to 8)', 2), ('0 (2 ranks, 0 to 1)', 2), ('5', 0))
    """
    described = config.get("desc") if isinstance(config, dict) else None
    title = f"{_plain(described)} {_plain(name)}" if isinstance(described, str) and described else _plain(name)
    ranks = _ranks(config.get("ranks") if isinstance(config, dict) else config)
    if not ranks:
        return title, 0
    return f"{title} ({len(ranks)} ranks, {min(ranks)} to {max(ranks)})", len(ranks)


def _ranks(listed: object) -> list[int]:
    """Ranks of a group: a list, or the text of one."""
    if isinstance(listed, str):
        try:
            listed = ast.literal_eval(listed)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return []
    return [rank for rank in listed if isinstance(rank, int)] if isinstance(listed, list | tuple) else []


def _plain(text: str) -> str:
    return text.replace("|", "/")[:200]


def _read(data: bytes, origin: str) -> _Dump:
    """Raises InputError: it cannot be read."""
    values = _pickled(data, origin) if _PICKLE.match(data) else _of_json(data, origin)
    try:
        return msgspec.convert(values, _Dump, strict=False)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InputError(f"{origin}: no dump of the NCCL flight recorder: {shorten(str(error))}") from None


def _of_json(data: bytes, origin: str) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise InputError(f"{origin}: not a whole JSON object: was the process killed while it wrote this?") from None


def _pickled(data: bytes, origin: str) -> object:
    try:
        return _PlainValues(io.BytesIO(data)).load()
    except _UNPICKLING as error:
        raise InputError(f"{origin}: cannot be read as a pickle of plain values: {shorten(str(error))}") from None


class _PlainValues(pickle.Unpickler):
    """Reads numbers, texts, lists and dictionaries, and refuses whatever would make an object or run code."""

    def find_class(self, module: str, name: str) -> Callable[[list[Any]], list[Any]]:
        """The only functions that a pickle may call: the typed lists of C++, which become lists."""
        if module == _LISTS[0] and name.startswith(_LISTS[1]):
            return list
        raise pickle.UnpicklingError(f"it refers to {module}.{name}")
