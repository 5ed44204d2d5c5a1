"""What holds for any input: what was written is read back, and no bytes can break the account of rows."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import InputError
from ingest.slurm import parse_accounting
from ingest.slurm_nodes import parse_events, parse_nodes, parse_settings
from ingest.sniff import kind_of
from tests.ingest.helpers import DATA, ROW, at, text

ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "UTC")
EPOCHS = st.integers(1_700_000_000, 1_830_000_000)
NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12).filter(str.strip)
COLUMNS = [*ROW, "Suspended"]


def written(epoch: int, zone: str | None) -> str:
    """A time as sacct writes it: an epoch, or local without an offset."""
    return str(epoch) if zone is None else datetime.fromtimestamp(epoch, ZoneInfo(zone)).strftime("%Y-%m-%dT%H:%M:%S")


def is_ambiguous(epoch: int, zone: str | None) -> bool:
    """Whether the local time occurs twice."""
    if zone is None:
        return False
    local = datetime.fromtimestamp(epoch, ZoneInfo(zone))
    return local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset()


@st.composite
def jobs(draw: st.DrawFn, zone: str | None) -> dict[str, str]:
    """A job that ran. Its submission is at a time that occurs once: no rule could settle that one."""
    submit = draw(EPOCHS.filter(lambda epoch: not is_ambiguous(epoch, zone)))
    wait, run, suspended = draw(st.integers(0, 9_000)), draw(st.integers(0, 90_000)), draw(st.integers(0, 500))
    nodes = draw(st.integers(1, 4))
    return {
        "Submit": written(submit, zone),
        "Eligible": written(submit, zone),
        "Start": written(submit + wait, zone),
        "End": written(submit + wait + run + suspended, zone),
        "ElapsedRaw": str(run),
        "Suspended": f"{suspended // 3600:02d}:{suspended // 60 % 60:02d}:{suspended % 60:02d}",
        "NodeList": f"n[1-{nodes}]",
        "NNodes": str(nodes),
        "AllocTRES": f"cpu=1,gres/gpu={8 * nodes},node={nodes}",
        "JobName": draw(NAMES),
        "#submit": str(submit),
        "#start": str(submit + wait),
        "#run": str(run + suspended),
    }


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_what_is_written_is_read_back(data: st.DataObject) -> None:
    zone = data.draw(st.none() | st.sampled_from(ZONES))
    rows = data.draw(st.lists(jobs(zone), min_size=1, max_size=6))
    for number, row in enumerate(rows):
        row |= {"JobID": str(number), "JobIDRaw": str(number)}
    columns = data.draw(st.permutations(COLUMNS))
    delimiter = data.draw(st.sampled_from(["|#", "\x1f", "^|^", ";|;"]))
    dump = text(*rows, columns=columns, delimiter=delimiter)
    parsed = parse_accounting(dump, origin="x", timezone=zone)
    assert parsed.rejects["reason"].to_list() == []
    got = parsed.frames["attempts"].sort("job_id").to_dicts()
    for row, one in zip(rows, got, strict=True):
        start = at(int(row["#start"]))
        assert one["submitted_at"] == at(int(row["#submit"]))
        assert one["ended_at"] - one["started_at"] == timedelta(seconds=int(row["#run"]))
        assert one["started_at"] == start or is_ambiguous(int(row["#start"]), zone)
        assert one["name"] == row["JobName"]
        assert one["n_gpus"] == 8 * one["n_nodes"] == 8 * int(row["NNodes"])


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(8)))
def test_the_order_of_rows_does_not_matter(order: list[int]) -> None:
    rows = [{"JobIDRaw": str(n % 3), "DBIndex": str(n % 4), "ElapsedRaw": str(n)} for n in range(8)]
    key = ["job_id", "submitted_at"]
    straight, mixed = (parse_accounting(text(*chosen), origin="x") for chosen in (rows, [rows[n] for n in order]))
    assert straight.frames["attempts"].sort(key).equals(mixed.frames["attempts"].sort(key))
    nodes = [parsed.frames["attempt_nodes"].sort(*key, "node") for parsed in (straight, mixed)]
    assert nodes[0].equals(nodes[1])


SEEDS = [path.read_bytes()[:3_000] for path in sorted(DATA.glob("*.txt"))] + [text({"JobName": "a|b\nc"})]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Real output with pieces cut out, doubled, or replaced; or just any bytes."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=300))
    data = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(1, 4))):
        a, b = sorted((draw(st.integers(0, len(data))), draw(st.integers(0, len(data)))))
        piece = draw(st.sampled_from([b"", data[a:b], b"|", b"\n", b"\r\n", b"\x00", b"\xff", b"1", b"[", b"|#"]))
        data = data[:a] + piece + data[draw(st.sampled_from([a, b])) :]
    return data


@settings(max_examples=200, deadline=None)
@given(damaged(), st.booleans())
def test_no_bytes_can_break_the_account_of_rows(data: bytes, accept_truncated: bool) -> None:
    with suppress(InputError):
        kind_of(data)
    with suppress(InputError):
        parse_settings(data, origin="x", cluster="c")
    with suppress(InputError):
        parse_nodes(data, origin="x", cluster="c", timezone="UTC")
    for parse in (parse_accounting, parse_events):
        with suppress(InputError):
            parsed = parse(data, origin="x", cluster="c", timezone="UTC", accept_truncated=accept_truncated)
            told = parsed.rows_loaded + parsed.rows_duplicate + parsed.rows_skipped + parsed.rows_rejected
            assert parsed.rows_read == told
