"""No text of people, rules or statistics crashes its parser, and every row of it is accounted for."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import example, settings
from hypothesis import given as given_any
from hypothesis import strategies as st

from ingest.context import ParseContext
from ingest.errors import InputError
from ingest.slurm.detect import detect_kind
from ingest.slurm.parsers import parse
from tests.support.slurm.parsing import DATA, at

SAMPLES = {
    name: (DATA / name).read_bytes()
    for name in (
        "assoc.sacctmgr.txt", "users.sacctmgr.txt", "accounts.sacctmgr.txt", "qos.sacctmgr.txt",
        "transactions.sacctmgr.txt", "transactions-epoch.sacctmgr.txt", "runaway.sacctmgr.txt", "sdiag.txt",
    )
}  # fmt: skip
KINDS = {name: detect_kind(data) for name, data in SAMPLES.items()}

pieces = st.one_of(
    st.sampled_from(["|", "||", "\n", "\n\n", "'", "(", ")", " = ", "-1", "1795281483", "Unknown", "\x00", "\t", ":"]),
    st.text(max_size=12),
    st.binary(max_size=6),
)


def read(name: str, data: bytes) -> None:
    """Read it as the kind that it was; `Parsed` itself holds the counts to the rows."""
    given = ParseContext(origin=name, cluster="c", timezone="Europe/Berlin", until=at(1795284000))
    with contextlib.suppress(InputError):
        parse(KINDS[name], data, given)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES)
@settings(max_examples=60, deadline=None)
@given_any(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 0.05), pieces), min_size=1, max_size=6))
@example([(0.0, 0.05, "")])
@example([(0.999, 0.0, b"\xff\xfe|\n")])
def test_a_damaged_text_is_read_or_refused_with_a_sentence(
    name: str, damage: list[tuple[float, float, str | bytes]]
) -> None:
    data = SAMPLES[name]
    for place, length, piece in damage:
        cut = int(place * len(data))
        filling = piece if isinstance(piece, bytes) else piece.encode(errors="replace")
        data = data[:cut] + filling + data[cut + int(length * len(data)) :]
    read(name, data)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES)
@settings(max_examples=40, deadline=None)
@given_any(lines=st.lists(st.text(alphabet="ab17|='(),-:. \n", max_size=60), max_size=8))
def test_any_rows_below_a_header_are_read_or_refused(name: str, lines: list[str]) -> None:
    header = next(line for line in SAMPLES[name].decode().splitlines() if "|" in line or line.startswith("sdiag"))
    read(name, "\n".join([header, *lines, ""]).encode())
