"""What launchers, containers and collectors write before lines or around them changes nothing but the time."""

from __future__ import annotations

import json
import subprocess
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from ingest.errors import InputError
from ingest.runlog.envelopes.exported import lines_of_export
from ingest.runlog.envelopes.wrapped import unwrapped
from ingest.runlog.text_format import parse_format
from tests.ingest.runlog.text.test_mutations import BEGUN, LINES
from tests.support.logs.foreign_logs import DAY, codes, events, read, starts, steps
from tests.support.logs.framework_loops import PRINTERS, run_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ingest.tables import Parsed

PREFIXES = (
    "0: ",
    " 0: ",
    "[rank0]:",
    "[default0]:",
    "[trainer0|0]:",
    "[pod/llama-worker-0/trainer] ",
    "trainer-1  | ",
    "(RayTrainWorker pid=1234, ip=10.0.0.1) ",
    "[prterun-n1-4711@1,0]<stdout>: ",
    "[1,mpirank:0,algo-1]<stdout>:",
    "node01: ",
)
STAMPED = (
    "{at}.123456789Z stdout F {line}",
    "[pod/llama-worker-0/trainer] {at}.123456789Z {line}",
    "{at}+0000 node01 python3[4711]: {line}",
    "[{at}Z] {line}",
)
WITHOUT_A_BAR = sorted(set(LINES) - {"transformers"})
FEW = ("megatron-untimed", "torchtitan", "maxtext")
"""Formats without a time, with one in the line, and with one that has to begin a word."""

FACTS = {"run_id": "r", "n_gpus": 8, "seq_len": 4096}


def at(n: int) -> datetime:
    return DAY + timedelta(hours=8, seconds=20 + 4 * n)


def values(parsed: Parsed) -> list[tuple[object, ...]]:
    return parsed.frames["steps"].select("step", "duration_s", "tokens", "loss").rows()


def parsed_of(name: str, lines: list[str]) -> Parsed:
    return read("".join(lines), begin=DAY if name in BEGUN else None, year=2026, facts=FACTS)


def lines_of(name: str) -> list[str]:
    return [f"{line}\n" for line in "".join(LINES[name]).splitlines()]


class Whole(dict[str, "Parsed"]):
    """What comes of each log without anything before its lines."""

    def __missing__(self, name: str) -> Parsed:
        self[name] = parsed_of(name, lines_of(name))
        return self[name]


WHOLE = Whole()


@pytest.mark.slow
@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_launchers_prefix_changes_nothing(prefix: str) -> None:
    for name in (*FEW, "transformers"):
        whole = WHOLE[name]
        prefixed = parsed_of(name, [prefix + line for line in lines_of(name)])
        assert steps(prefixed) == steps(whole), name
        assert values(prefixed) == values(whole), name


@pytest.mark.slow
@pytest.mark.parametrize("form", STAMPED)
def test_a_stamp_before_a_line_is_its_time(form: str) -> None:
    for name in WITHOUT_A_BAR:
        lines = lines_of(name)
        stamped = [form.format(at=f"{at(n):%Y-%m-%dT%H:%M:%S}", line=line) for n, line in enumerate(lines, 1)]
        parsed = read("".join(stamped), timezone=None, facts=FACTS)
        assert values(parsed)[1:] == values(WHOLE[name])[1:], name
        assert len(starts(parsed)) == 1, name


def test_lines_that_containerd_cut_are_whole_again() -> None:
    for name in FEW:
        stamped = []
        for n, line in enumerate(lines_of(name), 1):
            stamp, place = f"{at(n):%Y-%m-%dT%H:%M:%S}.5Z", len(line) // 2
            drawn = "20%|##   | 1/9\r" * 1_200
            stamped += [f"{stamp} stdout P {drawn}{line[:place]}\n", f"{stamp} stderr F a warning\n"]
            stamped += [f"{stamp} stdout F {line[place:]}"]
        parsed = read("".join(stamped), timezone=None, facts=FACTS)
        assert values(parsed)[1:] == values(WHOLE[name])[1:], name


def test_lines_that_docker_cut_are_whole_again() -> None:
    for name in FEW:
        pieces = []
        for n, line in enumerate(lines_of(name), 1):
            drawn = "20%|██   | 1/9\r" * 1_000  # more than 16 KiB, less than twice that
            text = (drawn + line).encode()
            place = len(text) - len(line) // 2
            pieces += [docker(n, text[place - 16_384 : place].decode(errors="replace"))]
            pieces += [docker(n, "a warning\n").replace("stdout", "stderr"), docker(n, text[place:].decode())]
        parsed = read("\n".join(pieces) + "\n", timezone=None, facts=FACTS)
        assert values(parsed)[1:] == values(WHOLE[name])[1:], name


@pytest.mark.parametrize(("length", "lines"), [(16_384, 1), (16_383, 2), (20_000, 2)])
def test_only_a_line_of_the_length_of_a_piece_goes_on(length: int, lines: int) -> None:
    """Fluent Bit leaves line ends out, and has put longer lines together."""
    text = f"{docker(1, 'x' * length)}\n{docker(2, 'step 2')}\n".encode()
    whole, last = b"".join(unwrapped([text])).decode().splitlines()
    assert last.endswith("Z step 2") == (lines == 2)
    assert last.endswith("xstep 2") == (lines == 1)
    assert whole.count("x") == (length if lines == 2 else 0)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_format_of_ones_own_is_read_behind_prefixes(prefix: str) -> None:
    """Its pattern begins where the line does: the blank behind a prefix is the prefix's."""
    fields = {"step": r"it (\d+)", "duration_s": r"took ([\d.]+) s"}
    own = parse_format(
        {"name": "mine", "line": [{"kind": "step", "starts": r"^it \d", "fields": fields}]}, origin="test"
    )
    text = "".join(f"{prefix}it {step} took 2.0 s\n" for step in (1, 2, 3))
    assert read(text, begin=DAY, formats=(own,)).frames["steps"].height == 3


@pytest.mark.parametrize("prefix", PREFIXES)
def test_facts_of_megatron_are_read_behind_prefixes(prefix: str) -> None:
    lines = [prefix + line for line in run_of(PRINTERS["megatron"]).lines]
    parsed = read("\n".join(lines) + "\n", facts={"n_gpus": 8})
    assert set(parsed.frames["run_sessions"]["seq_len"]) == {4096}
    assert set(parsed.frames["steps"]["tokens"]) == {256.0 * 4096}


def docker(n: int, line: str) -> str:
    return json.dumps({"log": line, "stream": "stdout", "time": f"{at(n):%Y-%m-%dT%H:%M:%S}.123456789Z"})


def journald(n: int, line: str) -> str:
    stamp = f"{at(n).timestamp() * 1e6:.0f}"
    return json.dumps({"_HOSTNAME": "n1", "MESSAGE": line[:-1], "__REALTIME_TIMESTAMP": stamp})


def cloud_logging(n: int, line: str) -> str:
    entry = {"insertId": "x", "labels": {"a": ["b"]}, "textPayload": line}
    return json.dumps({**entry, "timestamp": f"{at(n):%Y-%m-%dT%H:%M:%S}Z"})


def loki(n: int, line: str) -> str:
    return json.dumps({"labels": {"pod": "x"}, "line": line[:-1], "timestamp": f"{at(n):%Y-%m-%dT%H:%M:%S}Z"})


def fluent_bit(n: int, line: str) -> str:
    return json.dumps({"date": at(n).timestamp(), "log": line})


def splunk(n: int, line: str) -> str:
    return json.dumps({"preview": False, "result": {"_raw": line, "_time": f"{at(n):%Y-%m-%dT%H:%M:%S}.000+00:00"}})


@pytest.mark.parametrize("collector", [docker, journald, cloud_logging, loki, fluent_bit, splunk])
def test_lines_in_json_are_read_with_their_times(collector: Callable[[int, str], str]) -> None:
    for name in FEW:
        lines = lines_of(name)
        text = "".join(f"{collector(n, line)}\n" for n, line in enumerate(lines, 1))
        parsed = read(text, timezone=None, facts=FACTS)
        assert values(parsed)[1:] == values(WHOLE[name])[1:], name
        assert read(text[: len(text) * 2 // 3], timezone=None, facts=FACTS).frames["steps"].height >= 5, name


def gcloud(entries: list[tuple[int, str]]) -> str:
    newest_first = [json.loads(cloud_logging(n, line)) for n, line in reversed(entries)]
    return json.dumps(newest_first, indent=2)


def gcloud_of_json(entries: list[tuple[int, str]]) -> str:
    plain = (json.loads(cloud_logging(n, line)) for n, line in entries)
    return json.dumps({"entries": [{**each, "jsonPayload": {"message": each.pop("textPayload")}} for each in plain]})


def cloudwatch(entries: list[tuple[int, str]]) -> str:
    events = [{"timestamp": int(at(n).timestamp() * 1e3), "message": line, "ingestionTime": 1} for n, line in entries]
    return json.dumps({"events": events, "nextForwardToken": "f/1"}, indent=1)


def elasticsearch(entries: list[tuple[int, str]]) -> str:
    hits = [
        {"_id": "x", "_source": {"@timestamp": f"{at(n):%Y-%m-%dT%H:%M:%S}Z", "message": line}} for n, line in entries
    ]
    return json.dumps({"took": 1, "hits": {"total": {"value": 9}, "hits": hits}})


def loki_query(entries: list[tuple[int, str]]) -> str:
    pairs = [[f"{at(n).timestamp() * 1e9:.0f}", line] for n, line in entries]
    halves = [{"stream": {"pod": str(n)}, "values": pairs[n::2]} for n in (1, 0)]
    return json.dumps({"status": "success", "data": {"resultType": "streams", "result": halves}})


def insights(entries: list[tuple[int, str]]) -> str:
    rows = [{"@timestamp": f"{at(n):%Y-%m-%d %H:%M:%S}.000", "@message": line} for n, line in reversed(entries)]
    return json.dumps({"results": [[{"field": key, "value": row[key]} for key in row] for row in rows]})


def insights_table(entries: list[tuple[int, str]]) -> str:
    return json.dumps([{"@timestamp": f"{at(n):%Y-%m-%d %H:%M:%S}.000", "@message": line} for n, line in entries])


def datadog(entries: list[tuple[int, str]]) -> str:
    attributes = [{"timestamp": f"{at(n):%Y-%m-%dT%H:%M:%S}.000Z", "message": line} for n, line in entries]
    return json.dumps({"data": [{"id": "x", "type": "log", "attributes": each} for each in attributes]})


EXPORTS = (gcloud, gcloud_of_json, cloudwatch, insights, insights_table, datadog, elasticsearch, loki_query)


@pytest.mark.parametrize("export", EXPORTS)
def test_one_document_is_read_as_its_lines(export: Callable[[list[tuple[int, str]]], str]) -> None:
    for name in FEW:
        lines = lines_of(name)
        parsed = read(export(list(enumerate(lines, 1))), timezone=None, facts=FACTS)
        assert values(parsed)[1:] == values(WHOLE[name])[1:], name
        assert len(starts(parsed)) == 1, name


@pytest.mark.parametrize("export", EXPORTS)
def test_a_cut_document_is_refused(export: Callable[[list[tuple[int, str]]], str]) -> None:
    text = export(list(enumerate(lines_of(FEW[0]), 1)))
    with pytest.raises(InputError, match="cut or damaged"):
        read(text[: len(text) // 2], timezone=None, facts=FACTS)


def test_entries_without_text_stay_behind_the_lines() -> None:
    entries = [
        {"x": 1},
        {"message": "b", "ts": "2026-10-01T08:00:00.5Z"},
        {"message": "a", "ts": "2026-10-01T08:00:00Z"},
    ]
    text = json.dumps(entries).encode()
    reader = lines_of_export(text)
    assert reader is not None
    assert list(reader([text[:9], text[9:]])) == [
        b"2026-10-01T08:00:00Z a\n",
        b"2026-10-01T08:00:00.5Z b\n",
        b'{"x": 1}\n',
    ]


def test_journald_writes_a_coloured_line_as_bytes() -> None:
    entry = {"MESSAGE": list(b"\x1b[31mstep 1\x1b[0m"), "__REALTIME_TIMESTAMP": "1790841600500000"}
    line = b"2026-10-01T08:00:00.500000Z \x1b[31mstep 1\x1b[0m\n"
    assert list(unwrapped([json.dumps(entry).encode() + b"\n"])) == [line]


def test_damaged_objects_stay_as_they_are() -> None:
    odd = [b'{"log":1,"time":"2026-10-01T08:00:00Z"}', b'{"log":"x"}', b'{"log":"x","time":[]}', b"{" * 9, b"[]", b""]
    text = b"\n".join([*odd, b'{"log":"a\\nb\\ud800","time":1e300}', b'{"log":"y","time":"20'])
    assert b"".join(unwrapped([text[:40], text[40:]])) == text


def bar(step: int) -> str:
    return f"\r {step}%|##        | {step}/40 [{2 * step // 60:02d}:{2 * step % 60:02d}<01:00,  2.00s/it]"


def trainer(form: str) -> str:
    """The Trainer as a container's log has it: bars without an end of line, a dictionary every fifth step."""
    text, waiting = "", bar(0)
    for step in range(1, 41):
        waiting += bar(step)
        if step % 5 == 0:
            waiting += f"\r{' ' * 60}\r{{'loss': 2.5, 'grad_norm': 0.5, 'epoch': {step / 100}}}"
            moment = DAY + timedelta(hours=8, seconds=2 * step + 0.5)
            text += form.format(at=f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z", line=waiting) + "\n"
            waiting = bar(step)
    return text + form.format(at="2026-10-01T08:01:21Z", line=waiting) + "\n"


@pytest.mark.parametrize("form", ["{at} stdout F {line}", "[pod/x-0/t] {at} {line}", "{at} {line}"])
def test_the_trainer_in_a_container_has_its_times(form: str) -> None:
    parsed = read(trainer(form), timezone=None)
    assert steps(parsed) == [(step, 28_798.5 + 2 * step, 2.0) for step in range(1, 41)]
    assert steps(read(trainer(form).replace("\n", "\r\n"), timezone=None)) == steps(parsed)
    assert starts(parsed) == [28_800.5]


FORMS = ("{}: ", "[rank{}]:", "[1,{}]<stdout>:", "[pod/w-{}/t] ", "(Worker pid=4{}, ip=10.0.0.1) ", "w-{}  | ")


def of_ranks(lines: list[str], form: str, lag: int) -> list[str]:
    late = [(n + rank * lag, rank, form.format(rank) + line) for rank in range(4) for n, line in enumerate(lines)]
    return [f"{line}\n" for _, _, line in sorted(late)]


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["megatron", "nemo"])
def test_ranks_that_are_lines_behind_are_one_run(name: str, form: str) -> None:
    lines = run_of(PRINTERS[name]).lines
    whole = read("\n".join(lines) + "\n", facts=FACTS)
    for lag in (1, 8):
        parsed = read("".join(of_ranks(lines, form, lag)), facts=FACTS)
        assert (starts(parsed), steps(parsed), events(parsed)) == (starts(whole), steps(whole), events(whole))
        assert parsed.rows_read == (
            parsed.rows_loaded + parsed.rows_duplicate + parsed.rows_skipped + parsed.rows_rejected
        )


def test_a_process_on_another_node_is_no_late_rank() -> None:
    lines = LINES["megatron"]
    again = [f"node2: {line}" for line in lines[3:6]]
    parsed = read("".join([f"node1: {line}" for line in lines] + [line.replace("08:00:", "08:30:") for line in again]))
    assert [step for step, _, _ in steps(parsed)] == [*range(1, 10), 4, 5, 6]
    assert len(starts(parsed)) == 2


def iteration(writer: str, step: int, n: int) -> str:
    words = f"iteration {step:8d}/ 5000 | elapsed time per iteration (ms): 4000.0 | lm loss: 2.5E+00 |"
    return f"{writer}: {at(n):%Y-%m-%dT%H:%M:%S}Z {words}\n"


def numbers(parsed: Parsed, every: int) -> list[int]:
    """The steps that lines are of, in units of the print interval."""
    return [step // every for step, _, _ in steps(parsed) if step % every == 0]


@pytest.mark.parametrize("every", [1, 10, 100])
def test_two_runs_that_print_in_turn_are_not_one(every: int) -> None:
    """The steps between theirs, which neither did, were taken to be logged by a line that stands for several."""
    text = ""
    for n in range(1, 31):
        text += iteration("node01", every * n, every * n)
        text += iteration("node02", every * (n + 500), every * n) if n % 3 else ""
    parsed = read(text)
    assert numbers(parsed, every) == list(range(1, 31))
    assert "runs_in_turn" in codes(parsed)
    assert parsed.rows_duplicate == 20


def test_all_records_of_another_run_in_turn_are_left_out() -> None:
    other = f"node02: {at(0):%Y-%m-%dT%H:%M:%S}Z "
    text = f"{other}> initializing torch distributed ...\n{other}  seq_length ....... 512\n"
    for n in range(1, 21):
        text += iteration("node01", n, 4 * n) + iteration("node02", n + 500, 4 * n)
    text += f"node02: {at(81):%Y-%m-%dT%H:%M:%S}Z saving checkpoint at iteration 520 to /ckpt in torch format\n"
    parsed = read(text + iteration("node01", 21, 84))
    assert numbers(parsed, 1) == list(range(1, 22))
    assert events(parsed) == []
    assert set(parsed.frames["run_sessions"]["seq_len"]) == {None}
    assert len(starts(parsed)) == 1


def test_each_run_in_turn_has_a_command_that_selects_it(tmp_path: Path) -> None:
    writers = ("node0", "node1", "node10", "x-node1", "[rank1]")
    log = tmp_path / "train.log"
    log.write_text("".join(iteration(one, n + 500 * k, 4 * n) for n in range(1, 21) for k, one in enumerate(writers)))
    parsed = read(log.read_bytes())
    (warning,) = (one for one in parsed.warnings if one.code == "runs_in_turn")
    commands = warning.detail.splitlines()
    assert [one.partition("run_id=")[2] for one in commands] == ["rank1", "node10", "node1", "x-node1"]
    for name, command in zip(("[rank1]", "node10", "node1", "x-node1"), commands, strict=True):
        grep, _, rest = command.partition(" | ")
        found = subprocess.run(
            ["sh", "-c", grep], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout.splitlines()
        assert {line.partition(": ")[0] for line in found} == {name}
        assert len(found) == 20
        assert rest.startswith("trackside ingest runlog - --set ")


@pytest.mark.parametrize("every", [1, 10, 100])
@pytest.mark.parametrize("lost", [0, 6, 12])
def test_one_run_that_two_nodes_print_in_turn_is_whole(every: int, lost: int) -> None:
    """Elastic launches: half of the hand-overs are clean, of half the last steps are lost and run again."""
    text, done, n, printed = "", 0, 0, []
    for turn in range(14):
        text += f"node0{turn % 2}: {at(every * n):%Y-%m-%dT%H:%M:%S}Z > initializing torch distributed ...\n"
        for _ in range(20):
            done, n = done + 1, n + 1
            text += iteration(f"node0{turn % 2}", every * done, every * n)
            printed.append(done)
        done -= lost if turn % 4 in {0, 3} else 0
    parsed = read(text)
    assert "runs_in_turn" not in codes(parsed)
    assert numbers(parsed, every) == printed


def test_ranks_that_are_late_by_a_line_of_ten_steps_are_one_run() -> None:
    lines = [iteration("node01", 10 * n + 10, n + 1) + iteration("node02", 10 * n, n) for n in range(1, 21)]
    parsed = read("".join(lines))
    assert "runs_in_turn" not in codes(parsed)
    assert {step for step, _, _ in steps(parsed)} == set(range(10, 211))


def untimed(writer: str, since: int, until: int) -> str:
    words = "elapsed time per iteration (ms): 4000.0 | lm loss: 2.5E+00 |"
    return "".join(f"{writer}: iteration {n:8d}/ 5000 | {words}\n" for n in range(since, until))


@pytest.mark.parametrize("lost", [1, 5, 12])
def test_steps_behind_a_handover_without_a_start_run_again(lost: int) -> None:
    """The first writer prints nothing more: it counted as the same steps of a rank that is late."""
    text = untimed("node1", 1, 21) + untimed("node2", 21 - lost, 36)
    parsed = read(text, begin=DAY)
    assert [step for step, _, _ in steps(parsed)] == [*range(1, 21), *range(21 - lost, 36)]
    assert len(starts(parsed)) == 2
    assert "writers_overlap" not in codes(parsed)


def test_late_rank_or_handover_without_times_is_unknown() -> None:
    """The first writer goes on later: nothing in the log decides which it was."""
    text = untimed("node1", 1, 21) + untimed("node2", 16, 36) + untimed("node1", 36, 51)
    parsed = read(text, begin=DAY)
    assert {step for step, _, _ in steps(parsed)} == set(range(1, 51))
    assert "writers_overlap" in codes(parsed)
