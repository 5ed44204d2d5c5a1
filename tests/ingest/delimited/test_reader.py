from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ingest.context import ParseContext
from ingest.delimited.reader import read_blocks
from ingest.errors import DelimiterError, MissingColumnError, TruncatedInputError, UnrecognisedInputError
from ingest.load_warnings import messages
from ingest.slurm.accounting.sacct import ACCOUNTING, DOCUMENTED_ORDER, parse_accounting
from tests.support.slurm.parsing import DATA, NEVER_RAN, ROW, parse, refusals, text

if TYPE_CHECKING:
    from collections.abc import Callable

NARROW = ["JobID", "Submit", "Start", "End", "State", "JobName", "NodeList", "AllocTRES", "Cluster"]
COMMENTED = [*NARROW, "Comment", "UID"]


def names(data: bytes, **options: object) -> list[str | None]:
    """The job names read, in the order of job ids; no row refused."""
    parsed = parse(data, **options)  # type: ignore[arg-type]  # options of `helpers.parse`
    assert refusals(parsed) == []
    return parsed.frames["attempts"].sort("job_id")["name"].to_list()


def jobs(*job_names: str, columns: list[str] | None = None, delimiter: str = "|") -> bytes:
    rows = [{"JobID": str(number), "JobName": name} for number, name in enumerate(job_names, 1)]
    return text(*rows, columns=columns or NARROW, delimiter=delimiter)


# --- delimiters and headers ---------------------------------------------------------------------------


@pytest.mark.parametrize("delimiter", ["|", "\x1f", "|#", "^|^", ";|;", ";", "\t", "~", "::"])
def test_the_delimiter_is_detected_in_the_header(delimiter: str) -> None:
    assert names(jobs("a", "b", delimiter=delimiter)) == ["a", "b"]


@pytest.mark.parametrize("delimiter", ["|#", "^|^", ";|;", "\x1f"])
def test_pipes_are_harmless_with_a_rarer_delimiter(delimiter: str) -> None:
    assert names(jobs("a|b", "c;|d", delimiter=delimiter)) == ["a|b", "c;|d"]


def test_a_wrong_delimiter_is_an_error_that_names_the_right_one() -> None:
    with pytest.raises(DelimiterError) as caught:
        parse(jobs("a"), delimiter=";")
    assert "';'" in str(caught.value)
    assert "'|' would fit" in str(caught.value)


def test_an_aligned_table_is_an_error_that_suggests_minus_p() -> None:
    padded = b"  JobID   JobName  Partition   Account   State\n------- --------\n12   train   main   a   COMPL+\n"
    with pytest.raises(DelimiterError, match="sacct -a -D -P"):
        parse(padded)


def test_column_names_count_in_any_case_and_order() -> None:
    data = text({"JobName": "x"}, columns=NARROW[::-1])
    header, rest = data.split(b"\n", 1)
    assert names(header.upper() + b"\n" + rest) == ["x"]


def test_a_repeated_column_is_read_once() -> None:
    data = b"JobID|Submit|Start|End|State|NodeList|AllocTRES|Cluster|JobName|JobID\n"
    data += b"7|1795247700|1795247786|1795247886|COMPLETED|n1|cpu=1|c1|x|7\n"
    assert names(data) == ["x"]


def test_a_trailing_delimiter_is_no_column() -> None:
    assert names(jobs("a", "b").replace(b"\n", b"|\n")) == ["a", "b"]


def test_headers_in_the_middle_are_skipped() -> None:
    parsed = parse(jobs("a") + jobs("a").replace(b"\n1|", b"\n2|"))
    assert (parsed.rows_read, parsed.rows_loaded, parsed.rows_skipped) == (3, 2, 1)


def test_lines_above_the_header_are_kept_as_rejects() -> None:
    parsed = parse(b"sacct: warning: something\n" + jobs("a"))
    assert refusals(parsed) == [(1, "it precedes the header")]
    assert parsed.rows_loaded == 1


def test_the_documented_order_needs_no_header() -> None:
    lower = {name.lower(): value for name, value in ROW.items()} | {"elapsed": "00:01:40", "jobname": "a|b"}
    data = "|".join(lower.get(name, "") for name in DOCUMENTED_ORDER).encode() + b"\n"
    assert names(data) == ["a|b"]
    assert names(data.replace(b"\n", b"|\n")) == ["a|b"]


def test_a_header_without_rows_is_no_error() -> None:
    parsed = parse(jobs())
    assert (parsed.rows_read, parsed.covers_from, parsed.covers_until) == (0, None, None)


def test_missing_columns_are_all_named_with_a_command_to_copy() -> None:
    with pytest.raises(MissingColumnError) as caught:
        parse(b"JobID|User|Start|State\n1|a|0|FAILED\n")
    output = str(caught.value)
    assert "missing columns: Submit, End, NodeList, AllocTRES or AllocGRES, Cluster" in output
    assert "found: JobID, User, Start, State" in output
    assert "sacct -a -D -P" in output


@pytest.mark.parametrize("data", [b"", b"\n\n", b"  \r\n", b"\xef\xbb\xbf"])
def test_empty_input_is_reported_as_empty(data: bytes) -> None:
    with pytest.raises(UnrecognisedInputError, match="empty"):
        parse(data)


def test_another_kind_of_text_is_shown() -> None:
    with pytest.raises(UnrecognisedInputError, match="hello world"):
        parse(b"hello world\nand more\n")


# --- bytes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: data + b"\n\n  \n",
        lambda data: data.removesuffix(b"\n"),
        lambda data: data.decode().encode("utf-16"),
    ],
    ids=["byte order mark", "CRLF", "empty lines at the end", "no newline at the end", "UTF-16"],
)
def test_how_the_file_was_written_does_not_matter(change: Callable[[bytes], bytes]) -> None:
    assert names(change(jobs("a", "b"))) == ["a", "b"]


def test_names_may_be_in_any_script() -> None:
    assert names(jobs("aàb", "训练", "\u2028x")) == ["aàb", "训练", "\u2028x"]


def test_damaged_characters_cost_no_row() -> None:
    parsed = parse(jobs("caf\u00e9").replace("\u00e9".encode(), b"\xe9"))
    assert parsed.rows_loaded == 1
    assert any("not UTF-8" in warning for warning in messages(parsed.warnings))


def test_quotes_and_backslashes_are_text() -> None:
    assert names(jobs('say "hi', r"a\nb", "'")) == ['say "hi', r"a\nb", "'"]


# --- line breaks inside a record ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a\nb", "a\n\nb", "\na", "a\n", "a\n12", "a\nb\nc"])
def test_a_line_break_in_text_does_not_end_the_record(name: str) -> None:
    assert names(jobs("first", name, "last")) == ["first", name, "last"]


@pytest.mark.parametrize("name", ["a\nb", "a\nb\nc", "a\n\nb", "a\nb|c"])
def test_line_break_in_the_last_column_continues_its_row(name: str) -> None:
    columns = [*(name for name in NARROW if name != "JobName"), "JobName"]
    assert names(jobs("first", name, "last", columns=columns)) == ["first", name, "last"]


def test_several_texts_may_be_broken_in_one_record() -> None:
    data = text({"JobID": "1", "JobName": "x\ny", "Comment": "p\nq|r"}, {"JobID": "2"}, columns=COMMENTED)
    attempts = parse(data).frames["attempts"].sort("job_id")
    assert attempts["comment"].to_list() == ["p\nq|r", None]
    assert attempts["name"].to_list() == ["x\ny", "train"]


def test_the_worst_row_that_real_slurm_wrote_is_read() -> None:
    parsed = parse((DATA / "torn.sacct-all.txt").read_bytes())
    assert refusals(parsed) == []
    row = parsed.frames["attempts"].filter(job_id="14").row(0, named=True)
    assert (row["name"], row["comment"], row["user"], row["state"]) == ("pipe|name 'q'", "a|b\nc", "carol", "COMPLETED")


# --- delimiters inside text ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a|b", "|", "a||b", "a|b|c|d"])
def test_the_only_text_column_takes_the_surplus(name: str) -> None:
    assert names(jobs("first", name, "last")) == ["first", name, "last"]


def test_typed_columns_show_which_text_holds_the_delimiter() -> None:
    data = text({"JobName": "a|b", "Comment": "c"}, {"JobID": "8", "JobName": "a", "Comment": "b|c"}, columns=COMMENTED)
    attempts = parse(data).frames["attempts"].sort("job_id")
    assert attempts.select("name", "comment").rows() == [("a|b", "c"), ("a", "b|c")]


def test_a_row_with_two_readings_is_refused() -> None:
    columns = ["JobName", "Partition", "Comment", *(name for name in NARROW if name != "JobName")]
    parsed = parse(text({"JobName": "a|b", "Partition": "p", "Comment": "c"}, columns=columns))
    assert refusals(parsed) == [(2, "12 fields, expected 11; the text that holds the delimiter is ambiguous")]
    assert parsed.rejects["raw"][0].startswith("a|b|p|c|")


def test_adjacent_texts_with_a_delimiter_in_doubt_are_left_out() -> None:
    columns = [*(name for name in NARROW if name != "JobName"), "Comment", "JobName"]
    parsed = parse(text({"JobName": "c", "Comment": "a|b"}, {"JobID": "8"}, columns=columns))
    attempts = parsed.frames["attempts"].sort("job_id")
    assert attempts.select("comment", "name").rows() == [(None, None), (None, "train")]
    assert messages(parsed.warnings) == [
        "1 row: the text that holds the delimiter is ambiguous; its possible parts are left out "
        "(Comment, JobName). "
        r"Export again with a delimiter that no text holds: --delimiter=$'\x1f'"
    ]


# --- rows that are too short --------------------------------------------------------------------------


def test_a_short_row_is_refused_with_its_line_and_count() -> None:
    good = jobs("a", "b")
    header, first, second, _ = good.split(b"\n")
    parsed = parse(b"\n".join([header, first, b"3|1795247700|x", second, b""]))
    assert refusals(parsed) == [(3, "3 fields, expected 9")]
    assert parsed.rejects["raw"].to_list() == ["3|1795247700|x"]
    assert parsed.rows_loaded == 2


def test_line_numbers_are_those_of_the_file() -> None:
    bad = {"JobID": "5", "JobName": "p\nq", "End": "1"}
    parsed = parse(text({"JobID": "1", "JobName": "a\nb\nc"}, bad, {"JobID": "6", "Submit": "x"}, columns=NARROW))
    assert [line for line, _ in refusals(parsed)] == [5, 7]
    assert parsed.rejects["raw"][0].split("\n")[1].startswith("q|n[1-2]")


def test_a_row_cut_off_at_the_end_stops_the_load() -> None:
    cut = jobs("a", "b")[:-30]
    with pytest.raises(TruncatedInputError, match=r"line 3: the last row is cut off"):
        parse(cut)
    parsed = parse(cut, accept_truncated=True)
    assert (parsed.rows_loaded, parsed.rows_rejected) == (1, 1)


def test_a_last_value_that_was_cut_is_noticed() -> None:
    columns = [*(name for name in NARROW if name != "End"), "End"]
    with pytest.raises(TruncatedInputError):
        parse(jobs("a", columns=columns)[:-8])


def test_a_short_row_with_its_newline_was_not_cut() -> None:
    assert parse(jobs("a") + b"3|1795247700\n").rows_rejected == 1


def test_junk_between_rows_is_refused_line_by_line() -> None:
    header, first, second, _ = jobs("a", "b").split(b"\n")
    parsed = parse(b"\n".join([header, b"junk", b"more", first, b"#", second, b""]))
    assert [line for line, _ in refusals(parsed)] == [2, 3, 5]
    assert parsed.rows_loaded == 2


def test_every_row_is_accounted_for() -> None:
    never = {"JobID": "4", **NEVER_RAN}
    data = text({"JobID": "1"}, {"JobID": "1"}, {"JobID": "2.batch"}, {"JobID": "3", "End": "x"}, never, columns=NARROW)
    parsed = parse(data)
    assert parsed.rows_read == 5
    assert (parsed.rows_loaded, parsed.rows_duplicate, parsed.rows_skipped, parsed.rows_rejected) == (2, 1, 1, 1)


def test_text_that_grows_when_recoded_is_still_one_block() -> None:
    data = text(*({"JobIDRaw": str(n), "JobName": "\u8bad\u7ec3" * 300} for n in range(1, 300)))
    wide = data.decode().encode("utf-16")
    assert len(wide) < len(data)
    assert parse_accounting(wide, ParseContext(origin="x")).frames["attempts"].height == 299


@pytest.mark.parametrize("block", [300, 700, 5_000])
def test_doubled_carriage_returns_end_lines_in_any_block_size(block: int) -> None:
    data = text(*({"JobIDRaw": str(n)} for n in range(1, 30))).replace(b"\n", b"\r\r\n")
    blocks = list(read_blocks([data], ACCOUNTING, origin="x", block=block))
    assert sum(rows.frame.height for rows in blocks) == 29
    assert not any(rows.refused for rows in blocks)
