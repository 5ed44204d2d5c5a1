"""Traps in text: delimiters, line breaks and damaged bytes in what people wrote, and what stands around the rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ingest.delimited.realign import MAX_SURPLUS, FreeTextColumns
from ingest.errors import InputError, TruncatedInputError, UnrecognisedInputError
from ingest.load_warnings import messages
from ingest.slurm.accounting.row_counts import RowCounts
from ingest.slurm.accounting.sacct import REQUESTED_COLUMNS, SENTINEL, accounting_blocks
from ingest.store.report import counts
from tests.support.slurm.parsing import ROW, parse, refusals, text
from tests.support.slurm.traps import Trap, agree, spring, traps

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from ingest.delimited.realign import Spread

FIRST, LAST = {"JobIDRaw": "1"}, {"JobIDRaw": "3"}
TEXTS = ["JobName", "Comment", "AdminComment", "SubmitLine", "WorkDir", "Reason"]
MIDDLE = ["JobID", "JobIDRaw", "JobName", "Cluster", "User", "Submit", "Start", "End", "State", "NodeList", "AllocTRES"]
AT_THE_END = [*(name for name in MIDDLE if name != "JobName"), "JobName"]
BETWEEN_TYPED = [
    "JobIDRaw",
    "JobName",
    "Submit",
    "Comment",
    "Start",
    "SubmitLine",
    "End",
    "State",
    "NodeList",
    "AllocTRES",
]
BETWEEN_TYPED += ["Cluster", "UID"]


def names(data: bytes, **options: object) -> list[str | None]:
    """The job names read, in the order of job ids; no row refused, none twice."""
    parsed = parse(data, **options)  # type: ignore[arg-type]  # options of `helpers.parse`
    assert refusals(parsed) == []
    assert parsed.rows_duplicate == 0
    agree(parsed)
    return parsed.frames["attempts"].sort("job_id")["name"].to_list()


# --- delimiters and line breaks in text ---------------------------------------------------------------

TORN = [
    "a|b",
    "|",
    "||",
    "a|b|c|d|e",
    "a\nb",
    "a\n\nb",
    "a\n\n\n\nb",
    "\na",
    "a\n12",
    "a\n7.batch",
    "a\nb|c",
    "a|b\nc|d\ne",
    "a\n1795247700",
    "JobName",
    "a\nsacct: error: no such thing",
]


@pytest.mark.slow
@pytest.mark.parametrize("columns", [MIDDLE, AT_THE_END], ids=["in the middle", "last"])
@pytest.mark.parametrize("name", TORN)
def test_a_name_may_hold_the_delimiter_and_line_breaks(name: str, columns: list[str]) -> None:
    data = text(FIRST, {"JobIDRaw": "2", "JobName": name}, LAST, columns=columns)
    assert names(data) == ["train", name, "train"]


@pytest.mark.slow
@pytest.mark.parametrize("delimiter", ["|#", "^|^", ";|;", "\x1f"])
@pytest.mark.parametrize("name", [*TORN, "a|b#c", "|^", ";;||"])
def test_a_rare_delimiter_leaves_pipes_alone(name: str, delimiter: str) -> None:
    data = text(FIRST, {"JobIDRaw": "2", "JobName": name}, LAST, columns=MIDDLE, delimiter=delimiter)
    assert names(data) == ["train", name, "train"]


@pytest.mark.parametrize(
    "name", ["", "a\\nb", "\\n", 'say "hi', "'", "a\tb", "#", "-- x", "%s", "$(reboot)", "';--", "None", "NULL"]
)
def test_a_harmless_name_of_dangerous_characters_is_kept(name: str) -> None:
    # a literal backslash-n stays two characters; a job may even be called None
    assert names(text({"JobName": name})) == [name or None]


@pytest.mark.parametrize("name", ["aàb", "训练-7b", "🚂", "e\u0301", "\u2028", "\x85", "ﬀ", "a\x0bb", "a\x00b", "\x7f"])
def test_a_name_may_be_in_any_script_and_hold_odd_characters(name: str) -> None:
    assert names(text(FIRST, {"JobIDRaw": "2", "JobName": name}, LAST, columns=MIDDLE)) == ["train", name, "train"]


def test_several_texts_of_one_row_may_be_torn_at_once() -> None:
    bad = {
        "JobIDRaw": "2",
        "JobName": "a|b\nc",
        "Comment": "d\n\ne|f",
        "SubmitLine": "sbatch --wrap 'x | y\nz'",
        "UID": "1",
    }
    got = parse(text(FIRST, bad, LAST, columns=BETWEEN_TYPED)).frames["attempts"].sort("job_id").row(1, named=True)
    assert (got["name"], got["comment"], got["submit_line"]) == (bad["JobName"], bad["Comment"], bad["SubmitLine"])


@pytest.mark.parametrize("column", TEXTS)
def test_any_text_column_may_be_torn(column: str) -> None:
    names_ = ["JobIDRaw", "Submit", column, "Start", "End", "State", "NodeList", "AllocTRES", "Cluster", "UID"]
    parsed = parse(text(FIRST, {"JobIDRaw": "2", column: "x|y\nz"}, LAST, columns=names_))
    assert (parsed.rows_loaded, refusals(parsed)) == (3, [])


def test_text_readable_in_two_ways_is_refused_with_its_line() -> None:
    columns = [
        "JobIDRaw",
        "JobName",
        "Partition",
        "Comment",
        "Submit",
        "Start",
        "End",
        "State",
        "NodeList",
        "AllocTRES",
        "Cluster",
    ]
    bad = {"JobIDRaw": "2", "JobName": "a|b", "Partition": "main", "Comment": "c"}
    parsed = parse(text(FIRST, bad, LAST, columns=columns))
    assert refusals(parsed) == [(3, "12 fields, expected 11; the text that holds the delimiter is ambiguous")]
    assert parsed.rejects["raw"].to_list() == [text(bad, columns=columns).decode().split("\n")[1]]
    assert parsed.rows_loaded == 2


OURS = [*REQUESTED_COLUMNS, SENTINEL]
SUBMITTED = {"JobIDRaw": "2", "WorkDir": "/home/alice", "SubmitLine": "sbatch train.sh"}


def torn(**values: str) -> tuple[dict[str, object], list[str]]:
    """The attempt of a row with our own columns between pipes, between two others; and the warnings."""
    parsed = parse(text(FIRST, {**SUBMITTED, **values}, LAST, columns=OURS))
    assert (parsed.rows_loaded, refusals(parsed)) == (3, [])
    agree(parsed)
    return parsed.frames["attempts"].sort("job_id").row(1, named=True), messages(parsed.warnings)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("a|b|c|d|e", "sbatch -J a|b|c|d|e train.sh"),
        ("a|b|c", "sbatch -J a|b|c train.sh"),
        ("x" + "|x" * 40, "sbatch -J x" + "|x" * 40),
        ("a|" * 90, "sbatch train.sh"),
    ],
)
def test_delimiters_in_texts_cost_no_row_if_all_else_agrees(name: str, line: str) -> None:
    got, warnings = torn(JobName=name, SubmitLine=line)
    assert (got["state"], got["n_gpus"], got["user"], got["work_dir"]) == ("COMPLETED", 16, "alice", "/home/alice")
    assert (got["name"], got["submit_line"], got["comment"], got["wckey"]) == (None, None, None, None)
    assert [warning for warning in warnings if "(JobName, SubmitLine)" in warning] == warnings != []


LIKELY = [
    ({"Comment": "a|b", "AdminComment": "c"}, {"name": "train", "submit_line": "sbatch train.sh", "comment": None}),
    ({"Comment": "this | that"}, {"comment": "this | that", "admin_comment": None, "work_dir": "/home/alice"}),
    ({"SubmitLine": "sbatch --wrap=a | b"}, {"submit_line": "sbatch --wrap=a | b", "name": "train"}),
    ({"SubmitLine": "/usr/bin/srun -n 1 x | y"}, {"submit_line": "/usr/bin/srun -n 1 x | y", "name": "train"}),
    ({"JobName": "a | b"}, {"name": "a | b", "submit_line": "sbatch train.sh"}),
    ({"JobName": "a|b"}, {"name": None, "submit_line": None, "work_dir": "/home/alice"}),
    ({"WCKey": "a|b"}, {"wckey": None, "work_dir": "/home/alice", "name": "train"}),
    ({"Comment": "a|b", "SubmitLine": ""}, {"comment": None, "wckey": None, "user": "alice"}),
    ({"WorkDir": "", "SubmitLine": "", "JobName": "a|b"}, {"name": "a|b", "submit_line": None}),
]


@pytest.mark.parametrize(("raw", "want"), LIKELY)
def test_of_several_readings_what_the_likeliest_share_is_kept(raw: dict[str, str], want: dict[str, object]) -> None:
    got, warnings = torn(**raw)
    assert {name: got[name] for name in want} == want
    texts = ["name", "comment", "admin_comment", "submit_line", "work_dir", "wckey", "reservation"]
    full = {**ROW, **SUBMITTED, **raw}
    columns = ["JobName", "Comment", "AdminComment", "SubmitLine", "WorkDir", "WCKey", "Reservation"]
    for text_, column in zip(texts, columns, strict=True):  # whatever is told is the truth
        assert got[text_] in {None, full.get(column, "").strip() or None}
    assert bool(warnings) == any(
        got[text_] is None and full.get(column) for text_, column in zip(texts, columns, strict=True)
    )


@pytest.mark.slow
def test_rows_in_doubt_of_all_blocks_are_counted_in_one_warning() -> None:
    job_names = ["a|b" if number % 5 == 0 else "ab" for number in range(150)]
    rows = [{**SUBMITTED, "JobIDRaw": str(number), "JobName": name} for number, name in enumerate(job_names, 1)]
    data = text(*rows, columns=OURS)
    tally = RowCounts("jobs.txt")
    blocks = list(accounting_blocks([data[at : at + 100] for at in range(0, len(data), 100)], tally, block=1_000))
    whole = parse(data)
    assert len(blocks) > 1
    assert messages(tally.parsed({}, rows_loaded=150).warnings) == messages(whole.warnings)
    assert messages(whole.warnings)[0].startswith("30 rows: the text that holds the delimiter")


@pytest.mark.slow
def test_a_hostile_row_costs_few_comparisons(monkeypatch: pytest.MonkeyPatch) -> None:
    # there are some 10**15 ways to give 200 delimiters to nine texts
    requested = 0

    class Counting:
        def __init__(self, pattern: re.Pattern[str]) -> None:
            self.pattern = pattern

        def fullmatch(self, value: str) -> re.Match[str] | None:
            nonlocal requested
            requested += 1
            return self.pattern.fullmatch(value)

    def counted(columns: FreeTextColumns, fields: list[str]) -> Spread | None:
        shapes = [None if shape is None else Counting(shape) for shape in columns.shapes]
        return spread(replace(columns, shapes=shapes), fields)  # type: ignore[arg-type]  # a pattern that counts

    spread = FreeTextColumns.spread
    monkeypatch.setattr(FreeTextColumns, "spread", counted)
    for cell in ("a|", "|", "/|", "| ", "a |"):
        requested = 0
        got, _ = torn(JobName=cell * 90, Comment="|" * 20, SubmitLine="sbatch " + "x|" * 90)
        assert (got["n_gpus"], got["name"]) == (16, None)
        assert requested < MAX_SURPLUS**2 + len(OURS) * MAX_SURPLUS


def test_text_keeps_a_delimiter_of_several_characters() -> None:
    assert names(text(FIRST, {"JobIDRaw": "2", "JobName": "a|#b"}, columns=MIDDLE, delimiter="|#")) == ["train", "a|#b"]


def test_forged_row_inside_a_name_is_reported() -> None:
    # a name that holds a whole row cannot be told from a row in `-P` text; a control character as delimiter can tell
    whole = "|".join(ROW.get(name, "") for name in MIDDLE)
    assert names(text({"JobName": f"x\n{whole}"}, columns=MIDDLE, delimiter="\x1f")) == [f"x\n{whole}"]


# --- bytes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", [b"\xff", b"\xe9", b"\xc3", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\x80" * 40])
def test_one_damaged_name_does_not_cost_the_rest(damage: bytes) -> None:
    data = text(FIRST, {"JobIDRaw": "2", "JobName": "DAMAGED"}, LAST).replace(b"DAMAGED", b"caf" + damage)
    parsed = parse(data)
    assert (parsed.rows_loaded, refusals(parsed)) == (3, [])
    got = parsed.frames["attempts"].sort("job_id")["name"].to_list()
    assert (got[0], got[2]) == ("train", "train")
    assert set(str(got[1])) == set("caf\ufffd")
    assert (
        [warning for warning in messages(parsed.warnings) if "not UTF-8" in warning] == messages(parsed.warnings) != []
    )


WRITTEN: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("CRLF", lambda data: data.replace(b"\n", b"\r\n")),
    ("byte order mark", lambda data: b"\xef\xbb\xbf" + data),
    ("both", lambda data: b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n")),
    ("UTF-16", lambda data: data.decode().encode("utf-16")),
    ("UTF-16, the other end first", lambda data: b"\xfe\xff" + data.decode().encode("utf-16-be")),
    ("UTF-16 with CRLF", lambda data: data.decode().replace("\n", "\r\n").encode("utf-16")),
    ("no line end at the end", lambda data: data.removesuffix(b"\n")),
    ("empty lines at the end", lambda data: data + b"\n\n"),
    ("lines of blanks at the end", lambda data: data + b"  \n \n"),
    ("empty lines at the top", lambda data: b"\n\n" + data),
    ("empty lines between rows", lambda data: data.replace(b"\n", b"\n\n")),
    ("a delimiter at the end of each line", lambda data: data.replace(b"\n", b"|\n")),
    ("a lower-case header", lambda data: data.split(b"\n")[0].lower() + b"\n" + data.split(b"\n", 1)[1]),
    ("widths in the header", lambda data: data.replace(b"|User|", b"|User%20|").replace(b"|State|", b"|State%-9|")),
]


@pytest.mark.parametrize("written", [write for _, write in WRITTEN], ids=[name for name, _ in WRITTEN])
def test_how_a_file_was_written_does_not_matter(written: Callable[[bytes], bytes]) -> None:
    assert names(written(text(FIRST, {"JobIDRaw": "2", "JobName": "aàb"}, LAST))) == ["train", "aàb", "train"]


@pytest.mark.slow
@pytest.mark.parametrize("size", [1 << 16, 1 << 20])
@pytest.mark.parametrize("piece", ["x", "a|", "a b\n"], ids=["a word", "delimiters", "line breaks"])
def test_very_long_text_is_read_or_refused_without_other_losses(size: int, piece: str) -> None:
    name = (piece * (size // len(piece))).strip()
    parsed = parse(text(FIRST, {"JobIDRaw": "2", "JobName": name}, LAST, columns=MIDDLE))
    got = dict(parsed.frames["attempts"].select("job_id", "name").rows())
    assert (got["1"], got["3"]) == ("train", "train")
    assert got.get("2", name) == name
    assert ("2" in got) != (parsed.rows_rejected > 0)
    assert all(len(raw) <= 4_000 for raw in parsed.rejects["raw"])


# --- around the rows ----------------------------------------------------------------------------------

ERROR = b"sacct: error: slurm_persist_conn_open: Something happened with the persistent connection to localhost:6819\n"


@pytest.mark.parametrize("lines", [1, 3, 20])
def test_command_errors_above_the_header_are_kept_as_rejects(lines: int) -> None:
    parsed = parse(ERROR * lines + text(FIRST, LAST))
    assert refusals(parsed) == [(line + 1, "it precedes the header") for line in range(lines)]
    assert set(parsed.rejects["raw"]) == {ERROR.decode().strip()}
    assert parsed.rows_loaded == 2


def test_command_errors_between_rows_are_refused_one_by_one() -> None:
    header, first, last, _ = text(FIRST, LAST, columns=MIDDLE).split(b"\n")
    parsed = parse(b"\n".join([header, ERROR.strip(), first, ERROR.strip(), ERROR.strip(), last, b""]))
    assert [line for line, _ in refusals(parsed)] == [2, 4, 5]
    assert parsed.rows_loaded == 2


def test_only_errors_of_the_command_are_no_accounting() -> None:
    with pytest.raises(UnrecognisedInputError, match="Something happened"):
        parse(ERROR * 3)


def test_a_header_and_no_rows_is_an_empty_window() -> None:
    parsed = parse(text({}).split(b"\n")[0] + b"\n")
    assert (parsed.rows_read, parsed.rows_loaded, messages(parsed.warnings)) == (0, 0, [])


def test_a_repeated_header_is_skipped_in_any_case() -> None:
    one, other = text(FIRST), text(LAST)
    parsed = parse(one + other.replace(b"JobID|", b"JOBID|") + other)
    assert (parsed.rows_loaded, parsed.rows_skipped, parsed.rows_duplicate, refusals(parsed)) == (2, 2, 1, [])
    assert counts(parsed) == "5 rows: 2 loaded, 1 duplicate, 2 repeated headers"


@pytest.mark.parametrize("first", [MIDDLE, AT_THE_END], ids=["name in the middle", "name last"])
@pytest.mark.parametrize(
    "columns",
    [MIDDLE[1:], [*MIDDLE, "Comment"], ["JobIDRaw", "State", "JobName"]],
    ids=["fewer", "more", "very few"],
)
def test_second_dump_of_other_columns_is_refused_and_not_a_text(first: list[str], columns: list[str]) -> None:
    parsed = parse(text(FIRST, {}, columns=first) + text(LAST, columns=columns))
    assert parsed.frames["attempts"].sort("job_id")["name"].to_list() == ["train", "train"]
    assert [line for line, _ in refusals(parsed)] == [4, 5]
    assert refusals(parsed)[0][1].startswith("column names of another dump")


def test_second_dump_of_equally_many_columns_stops_the_load() -> None:
    with pytest.raises(UnrecognisedInputError, match=r"jobs\.txt line 4: here begins another dump, of other columns"):
        parse(text(FIRST, {}, columns=MIDDLE) + text(LAST, columns=AT_THE_END))


def test_no_job_name_can_stop_the_load_of_our_own_command() -> None:
    columns = [*MIDDLE, "JobIDRaw"]
    name = "x\n" + "\x1f".join([*AT_THE_END, "JobIDRaw"])
    parsed = parse(text(FIRST, {"JobName": name}, LAST, columns=columns, delimiter="\x1f"))
    assert {"1", "3"} <= set(parsed.frames["attempts"]["job_id"])
    assert parsed.rows_rejected > 0 or parsed.rows_loaded == 3


@pytest.mark.parametrize("fields", [1, 2, 5, 10])
def test_a_short_row_is_refused_with_its_line_and_what_it_was(fields: int) -> None:
    header, first, last, _ = text(FIRST, LAST, columns=MIDDLE).split(b"\n")
    short = b"|".join(first.split(b"|")[:fields])
    parsed = parse(b"\n".join([header, first, short, last, b""]))
    assert refusals(parsed) == [(3, f"{fields} fields, expected 11")]
    assert parsed.rejects["raw"].to_list() == [short.decode()]
    assert parsed.rows_loaded == 2


def test_row_cut_off_in_the_middle_of_a_file_keeps_the_next_one() -> None:
    # `cat a.txt b.txt` where a.txt ended without a line end: two rows in one line
    data = text(FIRST, LAST)
    parsed = parse(data.removesuffix(b"\n")[:-30] + data)
    assert parsed.rows_loaded >= 1
    assert parsed.rows_read == parsed.rows_loaded + parsed.rows_duplicate + parsed.rows_skipped + parsed.rows_rejected


def test_cut_off_last_row_stops_the_load_unless_accepted() -> None:
    cut = text(FIRST, LAST, columns=MIDDLE)[:-25]
    with pytest.raises(TruncatedInputError):
        parse(cut)
    assert parse(cut, accept_truncated=True).rows_rejected == 1


@pytest.mark.parametrize(
    "data", [b"", b"\n", b" \n\t\n", b"\xff\xfe", b"\xff\xfe\n\x00", b"\x00\x00\x00", b"\xef\xbb\xbf\n"]
)
def test_nothing_is_an_error_and_not_an_empty_window(data: bytes) -> None:
    with pytest.raises(InputError):
        parse(data)


# --- words in text columns ----------------------------------------------------------------------------

WORDS = [
    Trap("user and account are null", {"User": "", "Account": "(null)"}, {"user": None, "account": None}),
    Trap("a user called none", {"User": "none", "Account": "None"}, {"user": "none", "account": "None"}),
    Trap("several partitions while pending", {"Partition": "a,b"}, {"partition": "a,b"}),
    Trap("the default partition's star", {"Partition": "gpu*"}, {"partition": "gpu*"}),
    Trap(
        "a reason with commas and brackets",
        {"Reason": "Nodes required (x, [y]): down"},
        {"reason": "Nodes required (x, [y]): down"},
    ),
    Trap("a dependency", {"Reason": "DependencyNeverSatisfied"}, {"reason": "DependencyNeverSatisfied"}),
    Trap("no reason", {"Reason": "None"}, {"reason": None}),
    Trap(
        "misspelled as Slurm does", {"Flags": "SchedBackfill,StartRecieved"}, {"flags": "SchedBackfill,StartRecieved"}
    ),
    Trap("a comment that is a number", {"Comment": "0"}, {"comment": "0"}),
    Trap("a comment of blanks", {"Comment": "  "}, {"comment": None}),
    Trap("JS1 blob of jobstats", {"AdminComment": "JS1:Short"}, {"admin_comment": "JS1:Short"}),
]


@pytest.mark.parametrize("trap", traps(*WORDS))
def test_a_word_for_nothing_is_null_unless_a_user_chose_it(trap: Trap) -> None:
    spring(trap)


def test_a_column_named_twice_is_read_once() -> None:
    header, row, _ = text({}).split(b"\n")
    parsed = parse(header + b"|State|JobName\n" + row + b"|FAILED|other\n")
    assert parsed.frames["attempts"].select("state", "name").rows() == [("COMPLETED", "train")]
