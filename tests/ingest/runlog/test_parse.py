from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.errors import InputError, UnrecognisedInputError
from ingest.files.input import Input
from ingest.load_warnings import messages
from ingest.plausible import RUN_LOG
from ingest.runlog.lines import CUT
from ingest.tables import RUN_SESSIONS
from tests.support.logs.run_logs import parse_runlog

if TYPE_CHECKING:
    from pathlib import Path

    from ingest.tables import Parsed

T = 1_790_812_800  # 2026-10-01T00:00:00Z
RUN = {"type": "run", "v": 1, "t": T, "run_id": "llama", "cluster": "alpha", "job_id": "29", "rank": 0}


def line(**fields: object) -> str:
    return json.dumps(fields)


def step(number: int, at: float, **more: object) -> str:
    return line(type="step", step=number, t=at, **{"duration_s": 1.5, "tokens": 1024, "loss": 2.0} | more)


def log(*lines: str | dict[str, Any], run: dict[str, Any] | None = RUN) -> bytes:
    texts = [each if isinstance(each, str) else json.dumps(each) for each in lines]
    return ("\n".join([*([json.dumps(run)] if run else []), *texts]) + "\n").encode()


def parse(data: bytes, cluster: str | None = None) -> Parsed:
    return parse_runlog(data, origin="run.jsonl", cluster=cluster)


def reasons(parsed: Parsed) -> list[tuple[int, str]]:
    return parsed.rejects.select("line", "reason").rows()


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def test_a_log_of_every_kind_of_line() -> None:
    parsed = parse(
        log(
            {"type": "event", "kind": "init", "begin": T + 1, "end": T + 5, "detail": "nccl"},
            step(0, T + 6.25),
            {"type": "ckpt", "step": 0, "begin": T + 8, "end": T + 9, "durable": True, "blocking": True},
        )
    )
    (session,) = parsed.frames["run_sessions"].rows(named=True)
    assert (session["cluster"], session["scheduler"], session["job_id"], session["rank"]) == ("alpha", "slurm", "29", 0)
    assert (session["started_at"], session["ended_at"]) == (moment(T), moment(T + 9))
    (one,) = parsed.frames["steps"].rows(named=True)
    assert (one["step"], one["ts"], one["duration_s"], one["tokens"]) == (0, moment(T + 6.25), 1.5, 1024)
    init, save = parsed.frames["run_events"].sort("ts").rows(named=True)
    assert (init["kind"], init["ended_at"], init["detail"], init["durable_at"]) == ("init", moment(T + 5), "nccl", None)
    assert (save["kind"], save["step"], save["durable_at"]) == ("checkpoint_save", 0, moment(T + 9))
    assert save["blocking"]
    assert (parsed.rows_read, parsed.rows_loaded, parsed.rows_rejected) == (4, 4, 0)
    assert (parsed.covers_from, parsed.covers_until) == (moment(T), moment(T + 9))
    assert parsed.clusters == {"alpha"}


def test_several_sessions_in_one_file() -> None:
    again = RUN | {"t": T + 100, "restart_count": 1}
    parsed = parse(log(step(0, T + 1), step(1, T + 3), again, step(1, T + 110)))
    assert parsed.frames["run_sessions"]["ended_at"].to_list() == [moment(T + 4.5), moment(T + 111.5)]
    assert parsed.frames["steps"]["step"].to_list() == [0, 1, 1]


def test_the_type_may_be_left_out() -> None:
    run = {name: value for name, value in RUN.items() if name != "type"}
    parsed = parse(
        log(
            {"step": 3, "t": T + 1},
            {"kind": "eval", "begin": T + 2, "end": T + 3, "step": 3},
            {"step": 3, "begin": T + 4, "durable": None},
            {"step": 4, "begin": T + 5},
            {"colour": "red"},
            run=run,
        )
    )
    assert parsed.frames["steps"]["step"].to_list() == [3]
    events = parsed.frames["run_events"].sort("ts").select("kind", "step").rows()
    assert events == [("eval", 3), ("checkpoint_save", 3), ("checkpoint_save", 4)]
    assert reasons(parsed) == [(6, "no `type`, and its fields fit none (run, step, ckpt or event)")]


def test_times_may_be_iso_with_a_zone() -> None:
    parsed = parse(log(line(type="step", step=0, t="2026-10-01T02:00:01.5+02:00")))
    assert parsed.frames["steps"]["ts"].to_list() == [moment(T + 1.5)]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (step(1, T * 1000), r"t is 1790812800000: milliseconds\?.*divide by 1000"),
        (step(1, 5), "t is 5, not a time between 2000 and 2100"),
        (step(1, -T), "not a time between"),
        (line(type="step", step=1, t="2026-10-01T00:00:00"), "has no zone"),
        (line(type="step", step=1, t="noon"), "not a time: 'noon'"),
        (line(type="step", step=1), "missing required field t"),
        (line(type="step", step=1.5, t=T), "step: expected int, got float"),
        (line(type="step", step="one", t=T), "step: expected int, got str"),
        (line(type="step", step=-1, t=T), "step: expected int >= 0"),
        (line(type="step", step=2**60, t=T), "step: expected int <= "),
        (line(type="step", step=True, t=T), "step: expected int, got bool"),
        (step(1, T, duration_s=-1), "duration_s: expected float >= 0.0"),
        (step(1, T, duration_s=1e12), "which is impossible: no training step takes a month"),
        (step(10**13, T), "step: expected int <= 1000000000000"),
        (line(type="event", kind="eval", begin=T, end=T + 1e8), "end is 1,157 days after begin, which is impossible"),
        (line(type="event", kind="k" * 2_000, begin=T), "kind is longer than 1000 characters"),
        (step(1, T, duration_s=float("nan")), "duration_s: expected float >= 0.0|which is no number"),
        (step(1, T, duration_s=float("inf")), "duration_s is inf, which is no number"),
        (step(1, T, tokens=-5), "tokens: expected float >= 0.0"),
        (step(1, T, loss="nan"), "loss is nan, which is no number"),
        ('{"type":"step","step":1,"t":1e999}', "t is inf, which is no number"),
        (line(type="epoch", t=T), "type is 'epoch', not one of run, step, ckpt and event"),
        (line(type=["step"], t=T), "not one of run, step, ckpt and event"),
        ("[1, 2]", "not a JSON object"),
        ("Epoch 1 loss 2.3", "not JSON"),
        ('{"type":"step","step":1,"t":1790812801}}', "not JSON"),
        ('{"type":"step","step":1,"t":17908', r"cut line \(the process was killed while writing\)"),
        ('{"a":' * 5000, "objects within objects"),
        (line(type="ckpt", step=1, begin=T, durable=True), "durable is true.*no end"),
        (line(type="ckpt", step=1, begin=T, end=T + 5, durable=T - 5), "durable is before begin"),
        (line(type="ckpt", step=1, begin=T, end=T - 2.5), "end is 2.5 s before begin"),
        (line(type="ckpt", begin=T, end=T + 1), "missing required field step"),
        (line(type="event", kind=" ", begin=T), "kind is empty"),
        (line(type="event", kind="checkpoint_save", begin=T), "a line of its own type"),
        (line(type="event", kind="eval", begin=T * 1e6), "milliseconds"),
        (line(type="event", kind="eval", end=T), "missing required field begin"),
    ],
)
def test_a_line_that_cannot_be_is_refused_with_number_and_reason(bad: str, reason: str) -> None:
    parsed = parse(log(step(0, T + 1), bad, step(2, T + 5)))
    assert parsed.frames["steps"]["step"].to_list() == [0, 2]
    (refused,) = parsed.rejects.rows(named=True)
    assert refused["line"] == 3
    assert refused["cluster"] == "alpha"
    assert refused["raw"] == bad[:4000]
    assert pl.Series([refused["reason"]]).str.contains(reason).item(), refused["reason"]


def test_what_is_a_number_as_text_counts() -> None:
    run = RUN | {"job_id": 29, "rank": "0", "n_gpus": "16", "restart_count": "2", "params": "8.03e9"}
    parsed = parse(
        log(line(type="step", step="7", t=T + 1, tokens="12"), line(type="step", step=8.0, t=T + 2), run=run)
    )
    assert parsed.frames["steps"]["step"].to_list() == [7, 8]
    (session,) = parsed.frames["run_sessions"].rows(named=True)
    assert (session["job_id"], session["n_gpus"], session["restart_count"]) == ("29", 16, 2)


def test_a_loss_that_is_nan_costs_the_loss_not_the_step() -> None:
    parsed = parse(log(step(0, T + 1, loss=float("nan")), step(1, T + 3, loss=float("inf")), step(2, T + 5)))
    assert parsed.frames["steps"]["loss"].to_list() == [None, None, 2.0]
    assert messages(parsed.warnings) == ["2 steps have a loss that is not a number; such a step counts, without it"]


def test_unknown_fields_are_ignored_whatever_they_hold() -> None:
    parsed = parse(log(step(0, T + 1, grad_norm=float("nan"), extra={"a": [1]})))
    assert parsed.frames["steps"].height == 1
    assert parsed.rejects.is_empty()


def test_a_cut_last_line_is_one_reject_and_the_rest_is_loaded() -> None:
    whole = log(step(0, T + 1), step(1, T + 3))
    parsed = parse(whole[:-20])
    assert parsed.frames["steps"]["step"].to_list() == [0]
    assert reasons(parsed) == [(3, CUT)]


def test_a_last_line_that_lacks_only_its_end_is_whole() -> None:
    assert parse(log(step(0, T + 1))[:-1]).frames["steps"].height == 1


@pytest.mark.slow
def test_every_way_to_cut_a_log_keeps_the_lines_before() -> None:
    whole = log(step(0, T + 1), {"type": "ckpt", "step": 0, "begin": T + 2, "end": T + 3, "durable": True})
    first = whole.index(b"\n") + 1
    for at in range(first, len(whole)):
        parsed = parse(whole[:at])
        lines_before = whole[:at].count(b"\n")
        reported = parsed.rows_loaded + parsed.rows_rejected
        assert reported in {lines_before, lines_before + 1}
        assert parsed.rows_loaded >= lines_before


def test_a_run_line_glued_to_a_cut_one_is_saved() -> None:
    again = json.dumps(RUN | {"t": T + 100})
    parsed = parse(log(step(0, T + 1), '{"type":"step","step":1,"t":17' + again, step(1, T + 110)))
    assert parsed.frames["run_sessions"].height == 2
    assert parsed.frames["steps"]["step"].to_list() == [0, 1]
    assert reasons(parsed) == [(3, CUT)]
    assert parsed.rows_read == 5


def test_lines_before_any_run_line_belong_to_no_run() -> None:
    parsed = parse(log(step(0, T + 1), json.dumps(RUN), step(1, T + 3), run=None))
    assert parsed.frames["steps"]["step"].to_list() == [1]
    assert reasons(parsed) == [(1, "it comes before any `run` line, so it belongs to no run")]


@pytest.mark.parametrize(
    "bad",
    [
        json.dumps(RUN | {"v": 2}),
        json.dumps(RUN | {"t": 12}),
        json.dumps(RUN | {"run_id": ""}),
        json.dumps({"type": "run", "v": 1, "t": T}),
        '{"type": "run", "v": 1, "t": 17',
    ],
)
def test_lines_after_a_refused_run_line_join_no_earlier_run(bad: str) -> None:
    parsed = parse(log(step(0, T + 1), bad, step(5, T + 50), json.dumps(RUN | {"t": T + 90}), step(6, T + 91)))
    assert parsed.frames["steps"]["step"].to_list() == [0, 6]
    assert [number for number, _ in reasons(parsed)] == [3, 4]
    assert "was refused (line 3)" in reasons(parsed)[1][1]


def test_other_ranks_keep_their_session_and_have_lines_skipped() -> None:
    other = RUN | {"rank": 3, "node": "n2"}
    parsed = parse(log(step(0, T + 1), other, step(0, T + 1.001), {"type": "event", "kind": "eval", "begin": T + 5}))
    assert parsed.frames["run_sessions"]["rank"].to_list() == [0, 3]
    assert parsed.frames["steps"].height == 1
    assert parsed.frames["run_events"].is_empty()
    assert parsed.rows_skipped == 2
    assert parsed.frames["run_sessions"]["ended_at"].to_list() == [moment(T + 2.5), moment(T + 5)]


def test_log_of_another_rank_alone_names_the_next_step() -> None:
    parsed = parse(log(step(0, T + 1), run=RUN | {"rank": 15}))
    assert parsed.frames["steps"].is_empty()
    assert "pass rank=0" in messages(parsed.warnings)[0]


def test_the_cluster_of_the_log_counts_and_the_argument_fills_in() -> None:
    assert parse(log(), cluster="beta").clusters == {"alpha"}
    assert parse(log(run=RUN | {"cluster": None}), cluster="beta").clusters == {"beta"}
    assert parse(log(run=RUN | {"cluster": " "}), cluster="beta").clusters == {"beta"}
    with pytest.raises(InputError, match="--cluster NAME"):
        parse(log(run=RUN | {"cluster": None}))


def test_outside_a_scheduler_no_job_id_results() -> None:
    (session,) = parse(log(run=RUN | {"job_id": None})).frames["run_sessions"].rows(named=True)
    assert (session["scheduler"], session["job_id"]) == ("none", None)


IMPLAUSIBLE = [
    ("tokens", 1e308),
    ("tokens", 1.1e12),
    ("loss", 1e300),
    ("loss", -1e300),
]


@pytest.mark.parametrize(("name", "value"), IMPLAUSIBLE)
def test_a_step_with_an_implausible_value_counts_without_it(name: str, value: float) -> None:
    parsed = parse(log(step(0, T + 1), step(1, T + 3, **{name: value}), step(2, T + 5, **{name: value})))
    assert parsed.frames["steps"]["step"].to_list() == [0, 1, 2]
    assert parsed.frames["steps"][name].is_null().to_list() == [False, True, True]
    (output,) = messages(parsed.warnings)
    assert f"2 steps with an impossible {name} (the first in line 3: {value:g}; at most" in output


@pytest.mark.parametrize("name", [name for name in RUN_LOG if name in RUN_SESSIONS])
def test_a_run_with_an_implausible_size_counts_without_it(name: str) -> None:
    most = RUN_LOG[name].most
    parsed = parse(log(step(0, T + 1), run=RUN | {name: 10 * most}))
    assert parsed.frames["run_sessions"][name].to_list() == [None]
    assert messages(parsed.warnings)[0].startswith(f"run llama: {name} is {10 * most:g}, which is impossible (at most")
    assert parse(log(run=RUN | {name: most})).frames["run_sessions"][name].to_list() == [most]


def test_numbers_of_any_length_are_refused_with_their_line() -> None:
    digits = "9" * 5_000
    bad = [f'{{"type":"step","step":{digits},"t":{T}}}', f'{{"type":"step","step":1,"t":{T},"loss":NaN,"a":{digits}}}']
    parsed = parse(log(step(0, T + 1), *bad))
    assert [number for number, _ in reasons(parsed)] == [3, 4]
    assert parsed.frames["steps"]["step"].to_list() == [0]


def test_a_name_without_end_is_refused() -> None:
    with pytest.raises(UnrecognisedInputError, match="run_id or job_id is longer than 1000 characters"):
        parse(log(step(0, T + 1), run=RUN | {"run_id": "r" * 1_001}))


def test_impossible_sizes_are_null() -> None:
    parsed = parse(log(run=RUN | {"n_gpus": 0, "params": 8e9, "layers": -1}))
    (session,) = parsed.frames["run_sessions"].rows(named=True)
    assert (session["n_gpus"], session["layers"], session["params_active"]) == (None, None, 8e9)
    assert len(messages(parsed.warnings)) == 2


MIXTURE: dict[str, Any] = {
    "hidden": 4096, "ffn_hidden": 14336, "kv_heads": 8, "vocab": 32000, "gated": True, "tied": False,
    "attention_layers": 32, "experts": 8, "top_k": 2, "shared_experts": 0, "expert_ffn_hidden": 14336,
    "expert_layers": 32, "expert_params": 4.5e10, "recompute": "full",
}  # fmt: skip


def test_model_fields_of_a_log_are_stored() -> None:
    session = parse(log(run=RUN | MIXTURE)).frames["run_sessions"].row(0, named=True)
    assert {name: session[name] for name in MIXTURE} == MIXTURE


def test_of_a_mixture_not_all_parameters_are_active() -> None:
    reported = RUN | {"params": 4.7e10, "params_active": None}
    mixture = parse(log(run=reported | MIXTURE)).frames["run_sessions"].row(0, named=True)
    assert (mixture["params"], mixture["params_active"]) == (4.7e10, None)
    dense = parse(log(run=reported)).frames["run_sessions"].row(0, named=True)
    assert dense["params_active"] == 4.7e10


def test_an_earlier_log_is_no_evidence_of_later_events() -> None:
    session = parse(log()).frames["run_sessions"].row(0, named=True)
    assert {session[name] for name in MIXTURE} == {None}


@pytest.mark.parametrize(
    ("output", "kept"), [(" Full ", "full"), ("NONE", "none"), ("selective", "selective"), ("", None)]
)
def test_how_much_is_recomputed_is_one_of_three_words(output: str, kept: str | None) -> None:
    parsed = parse(log(run=RUN | {"recompute": output}))
    assert parsed.frames["run_sessions"]["recompute"].item() == kept
    assert messages(parsed.warnings) == []


def test_unknown_word_for_recomputation_is_reported_and_left_out() -> None:
    parsed = parse(log(run=RUN | {"recompute": "every second layer"}))
    assert parsed.frames["run_sessions"]["recompute"].item() is None
    assert "recompute is 'every second layer'" in messages(parsed.warnings)[0]


def test_repeated_lines_are_duplicates() -> None:
    parsed = parse(log(step(0, T + 1), step(0, T + 1), json.dumps(RUN), step(0, T + 1)))
    assert (parsed.rows_loaded, parsed.rows_duplicate) == (2, 3)


def test_checkpoint_logged_again_with_more_detail_is_one() -> None:
    first = {"type": "ckpt", "step": 5, "begin": T + 1, "end": T + 2, "durable": None, "blocking": True}
    for order in ([first, first | {"durable": T + 60}], [first | {"durable": T + 60}, first]):
        parsed = parse(log(*order))
        (save,) = parsed.frames["run_events"].rows(named=True)
        assert (save["ended_at"], save["durable_at"], save["blocking"]) == (moment(T + 2), moment(T + 60), True)
        assert parsed.rows_duplicate == 1


@pytest.mark.parametrize("durable", [None, False])
def test_unconfirmed_checkpoint_is_not_durable(*, durable: bool | None) -> None:
    parsed = parse(log({"type": "ckpt", "step": 5, "begin": T + 1, "end": T + 2, "durable": durable}))
    assert parsed.frames["run_events"]["durable_at"].to_list() == [None]


def test_clock_set_back_is_reported_and_its_rows_are_kept() -> None:
    parsed = parse(log(step(0, T + 10), step(1, T + 12), step(2, T + 5), step(3, T + 7)))
    assert parsed.frames["steps"].height == 4
    assert messages(parsed.warnings) == ["1 step begins before the step logged before: the node's clock was set back"]


def test_line_ends_marks_and_blank_lines_do_no_harm() -> None:
    data = b"\xef\xbb\xbf" + log(step(0, T + 1), "", "  ", step(1, T + 3)).replace(b"\n", b"\r\n")
    parsed = parse(data)
    assert parsed.frames["steps"].height == 2
    assert parsed.rows_read == 3


def test_a_gzipped_log_reads_as_the_log(tmp_path: Path) -> None:
    data = log(step(0, T + 1))
    (tmp_path / "log").write_bytes(gzip.compress(data))
    unpacked = Input(str(tmp_path / "log")).whole()
    assert parse(unpacked).frames["steps"].equals(parse(data).frames["steps"])


@pytest.mark.parametrize("data", [b"", b"\n\n", b"JobID|State\n1|COMPLETED\n", log(step(0, T + 1), run=None)])
def test_input_that_is_no_run_log_is_reported(data: bytes) -> None:
    with pytest.raises(UnrecognisedInputError, match=r"run\.jsonl"):
        parse(data)


def test_a_large_log_is_read_in_one_go() -> None:
    lines = "\n".join(f'{{"type":"step","step":{n},"t":{T + 2 * n},"duration_s":1.9}}' for n in range(100_000))
    parsed = parse(log(lines))
    assert parsed.rows_loaded == 100_001
    assert parsed.frames["steps"]["ts"].is_sorted()


@given(st.lists(st.binary(max_size=40) | st.sampled_from([step(1, T).encode(), step(2, T + 5).encode()[:30]])))
def test_whatever_is_in_it_every_line_is_accounted_for(lines: list[bytes]) -> None:
    parsed = parse(log() + b"\n".join(lines))  # Parsed itself checks that the counts add up
    assert parsed.rows_read >= 1


VALUES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.integers(), max_size=2)
)


@given(
    st.sampled_from(["run", "step", "ckpt", "event"]),
    st.dictionaries(
        st.sampled_from(["t", "step", "begin", "end", "durable", "kind", "run_id", "tokens", "n_gpus", "rank", "loss"]),
        VALUES | st.sampled_from([T, T + 0.5, "2026-10-01T00:00:00Z"]),
    ),
)
def test_any_value_in_any_field_is_loaded_or_refused(kind: str, fields: dict[str, object]) -> None:
    parsed = parse(log(json.dumps({"type": kind} | fields)), cluster="alpha")  # a run may come out without one
    assert parsed.rows_loaded + parsed.rows_rejected + parsed.rows_duplicate + parsed.rows_skipped == 2
