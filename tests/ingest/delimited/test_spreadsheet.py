"""Commas between the columns: a spreadsheet's are read, those of sacct itself are refused."""

from __future__ import annotations

import csv
import io

import pytest

from ingest.context import ParseContext
from ingest.errors import DelimiterError, InputError
from ingest.slurm.accounting.sacct import parse_accounting
from ingest.slurm.detect import detect_kind
from ingest.slurm.parsers import parse as parse_any
from tests.support.slurm.parsing import DATA, attempt, parse, text

QUOTINGS = (csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC)


def as_csv(data: bytes, delimiter: str, quoting: int, ends: str = "\r\n") -> bytes:
    out = io.StringIO(newline="")
    writer = csv.writer(out, quoting=quoting, lineterminator=ends)  # type: ignore[arg-type]  # one of three
    writer.writerows(line.split(delimiter) for line in data.decode().splitlines())
    return out.getvalue().encode()


@pytest.mark.parametrize("quoting", QUOTINGS)
@pytest.mark.parametrize("given", [None, ","])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_dump_that_a_spreadsheet_saved_is_the_dump(quoting: int, given: str | None, mark: bytes) -> None:
    data = (DATA / "kinds.sacct.txt").read_bytes()
    saved = mark + as_csv(data, "\x1f", quoting)
    assert detect_kind(saved) == "slurm.accounting"
    result = parse_accounting(saved, ParseContext(origin="x", delimiter=given))
    expected = parse_accounting(data, ParseContext(origin="x"))
    assert result.frames["attempts"].equals(expected.frames["attempts"])
    assert result.rows_rejected == 0


def test_line_break_and_quote_within_quotes_belong_to_the_text() -> None:
    row = {"JobName": 'a "b", c'}
    data = as_csv(text(row, delimiter="|"), "|", csv.QUOTE_MINIMAL).replace(b'c"', b'c\nd"')
    [result] = parse(data).frames["attempts"]["name"]
    assert result == 'a "b", c d'


@pytest.mark.parametrize("given", [None, ","])
@pytest.mark.parametrize("name", ["kinds.sacct.txt", "states.sacct.txt", "federation.sacct.txt"])
def test_comma_separated_sacct_is_refused_with_a_working_export(name: str, given: str | None) -> None:
    data = (DATA / name).read_bytes().replace(b"\x1f", b",").replace(b"|", b",")
    with pytest.raises(DelimiterError) as caught:
        parse_accounting(data, ParseContext(origin="x", cluster="c1", delimiter=given))
    assert "line 2" in str(caught.value)
    output = str(caught.value).partition("cannot be distinguished")[0]
    assert "AllocTRES" in output
    assert "NodeList" in output
    assert "--delimiter='|'" in str(caught.value)


def test_the_26_columns_without_a_header_are_no_dump_with_commas() -> None:
    data = (DATA / "kinds-26.sacct.txt").read_bytes().replace(b"|", b",")
    with pytest.raises(InputError):
        parse_accounting(data, ParseContext(origin="x"))


@pytest.mark.parametrize("delimiter", [",", "=", ":"])
def test_one_row_with_a_comma_too_many_is_enough(delimiter: str) -> None:
    columns = ["Cluster", "JobIDRaw", "Submit", "Start", "End", "State", "AllocTRES", "NodeList"]
    plain = {"AllocTRES": "", "NodeList": "n1"}
    lines = text(plain, {**plain, "NodeList": f"n[1{delimiter}3]"}, columns=columns, delimiter=delimiter)
    with pytest.raises(DelimiterError, match="line 3"):
        parse(lines, delimiter=delimiter)


def test_commas_used_as_delimiters_only_are_read() -> None:
    columns = ["Cluster", "JobIDRaw", "Submit", "Start", "End", "State", "AllocTRES", "NodeList"]
    rows = text({"AllocTRES": "gres/gpu=8", "NodeList": "n1"}, columns=columns, delimiter=",")
    assert parse(rows).frames["attempts"]["n_gpus"].to_list() == [8]


@pytest.mark.parametrize("delimiter", [";", "\t", "|", "\x1f", "^|^"])
def test_other_delimiters_are_in_no_list(delimiter: str) -> None:
    result = parse(text({}, delimiter=delimiter)).frames["attempts"].row(0, named=True)
    assert result == attempt({})


def test_comma_reservations_are_refused_and_events_are_read() -> None:
    """Events have no resources, so their commas are unambiguous."""
    given = ParseContext("x", cluster="c1", timezone="UTC", until=parse(text({})).covers_until)
    history = (DATA / "reservations-first.sacctmgr.txt").read_bytes().replace(b"|", b",")
    with pytest.raises(DelimiterError):
        parse_any("slurm.reservations", history, given)
    events = b"Cluster,NodeName,TimeStart,TimeEnd,State,Reason,User\nc1,n1,1795247000,1795247100,DOWN,a, b,root\n"
    assert parse_any("slurm.events", events, given).frames["node_states"]["reason"].to_list() == ["a, b"]
    listed = b"Cluster,NodeName,TimeStart,TimeEnd,State,TRES,User\nc1,n1,1795247000,1795247100,DOWN,cpu=1,mem=1,u\n"
    with pytest.raises(DelimiterError):
        parse_any("slurm.events", listed, given)
