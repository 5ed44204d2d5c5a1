"""Files that frameworks write: Google's goodput log, a TrainJob's status, trainer_state.json and metrics.csv."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from ingest.errors import InputError, UntimedError
from ingest.runlog.lines import CUT
from tests.support.logs.foreign_logs import DAY, codes, events, read, starts, steps

BEGIN = DAY.timestamp()


def goodput(*entries: tuple[str, float, dict[str, Any]]) -> str:
    return "".join(json.dumps({"job_name": "llama", name: BEGIN + at, **more}) + "\n" for name, at, more in entries)


GOODPUT = goodput(
    ("job_start_time", 0, {}),
    ("tpu_init_start_time", 1, {}),
    ("tpu_init_end_time", 3, {}),
    ("step_start_time", 5, {"step_count": 0}),
    ("step_start_time", 8, {"step_count": 1}),
    ("custom_badput_event_start_time", 9, {"custom_badput_event_type": "eval"}),
    ("custom_badput_event_end_time", 10, {"custom_badput_event_type": "eval"}),
    ("step_start_time", 12, {"step_count": 2}),
    ("job_end_time", 15, {}),
)


def test_goodput_entries_are_steps_and_events() -> None:
    parsed = read(GOODPUT)
    assert steps(parsed) == [(0, 5, 3.0), (1, 8, 4.0), (2, 12, 3.0)]
    assert [each for each in events(parsed) if each[0] != "step_start"] == [
        ("init", None, 1, 3),
        ("eval", None, 9, 10),
        ("job_end", None, 15, None),
    ]
    assert parsed.frames["run_sessions"]["run_id"].to_list() == ["llama"]


def test_goodput_of_a_killed_process_has_no_last_step() -> None:
    again = goodput(("job_start_time", 60, {}), ("step_start_time", 65, {"step_count": 1}))
    parsed = read(GOODPUT.rpartition('{"job_name"')[0] + again)
    assert steps(parsed) == [(0, 5, 3.0), (1, 8, 4.0)]
    assert ("step_start", 2, 12, None) in events(parsed)
    assert starts(parsed) == [0, 60]


def test_goodput_lines_doubled_and_damaged() -> None:
    lines = GOODPUT.splitlines(keepends=True)
    parsed = read("".join(line * 2 for line in lines))
    assert steps(parsed) == steps(read(GOODPUT))
    cut = read("".join([*lines[:-1], lines[-1][:40]]))
    assert cut.rejects.select("line", "reason").rows() == [(9, CUT)]
    damaged = read("".join([*lines[:-1], lines[-1][:40] + "\n"]))
    assert damaged.rejects.select("line", "reason").rows() == [(9, "damaged goodput entry")]
    with pytest.raises(InputError, match="an export of Cloud Logging that is cut"):
        read("[" + json.dumps({"jsonPayload": {"job_start_time": BEGIN}}))


def train_job(**status: object) -> dict[str, Any]:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "llama", "namespace": "ml", "uid": "u-1", "creationTimestamp": "2026-10-01T08:00:00Z"},
        "status": {"trainerStatus": status},
    }


STATUS = {
    "progressPercentage": 42,
    "estimatedRemainingSeconds": 3600,
    "metrics": [{"name": "loss", "value": "0.25"}, {"name": "step", "value": "420"}],
    "lastUpdatedTime": "2026-10-01T09:00:00Z",
}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(train_job(**STATUS)),
        json.dumps({"items": [train_job(**STATUS)]}, indent=1),
        json.dumps({"type": "MODIFIED", "object": train_job(**STATUS)}, indent=1),
        yaml.safe_dump(train_job(**STATUS)),
        yaml.safe_dump({"apiVersion": "v1", "items": [train_job(**STATUS)], "kind": "List"}),
        "---\r\n" + yaml.safe_dump({"type": "MODIFIED", "object": train_job(**STATUS)}).replace("\n", "\r\n"),
    ],
)
def test_a_train_jobs_status_is_one_event(text: str) -> None:
    parsed = read(text)
    assert events(parsed) == [("progress", 420, 32400, None)]
    assert parsed.frames["run_events"]["detail"].to_list() == ["42 %, 3600 s remaining, loss=0.25, step=420"]
    session = parsed.frames["run_sessions"].row(0, named=True)
    assert (session["run_id"], session["scheduler"], session["job_id"]) == ("ml/llama", "kubernetes", "u-1")
    assert starts(parsed) == [28800]


def test_train_jobs_without_a_status_are_refused() -> None:
    later = train_job(**STATUS | {"lastUpdatedTime": "2026-10-01T09:10:00Z", "progressPercentage": 50})
    parsed = read(json.dumps(train_job(**STATUS)) + json.dumps(train_job(metrics=None)) + json.dumps(later))
    assert [begin for _, _, begin, _ in events(parsed)] == [32400, 33000]
    assert parsed.rejects["reason"].to_list() == ["TrainJob without status.trainerStatus.lastUpdatedTime"]


def test_train_jobs_in_yaml_behind_each_other() -> None:
    later = train_job(**STATUS | {"lastUpdatedTime": "2026-10-01T09:10:00Z"})
    text = "---\n".join(yaml.safe_dump(job) for job in (train_job(**STATUS), train_job(metrics=None), later))
    parsed = read(text)
    assert [begin for _, _, begin, _ in events(parsed)] == [32400, 33000]
    assert parsed.rejects["line"].to_list() == [2]


def test_a_train_job_in_damaged_yaml_is_an_error() -> None:
    with pytest.raises(InputError, match="not YAML from line"):
        read(yaml.safe_dump(train_job(**STATUS)) + "\n a: [\n")


def state(*history: dict[str, Any]) -> str:
    return json.dumps({"best_metric": None, "epoch": 1.0, "global_step": 20, "log_history": list(history)}, indent=2)


HISTORY = (
    {"epoch": 0.5, "grad_norm": 1.5, "learning_rate": 5e-05, "loss": 2.5, "step": 10, "num_input_tokens_seen": 1000},
    {"epoch": 0.5, "eval_loss": 2.4, "eval_runtime": 4.0, "step": 10},
    {"epoch": 1.0, "grad_norm": 1.5, "learning_rate": 0.0, "loss": 2.25, "step": 20, "num_input_tokens_seen": 3000},
)
RUNTIME = {"epoch": 1.0, "step": 20, "total_flos": 1e12, "train_loss": 2.3, "train_runtime": 44.0}


def test_trainer_state_has_no_times() -> None:
    with pytest.raises(UntimedError, match=r"it records 2 losses up to step 20\. It is unknown when it begins"):
        read(state(*HISTORY, RUNTIME))
    with pytest.raises(UntimedError, match="It is unknown how long its steps took"):
        read(state(*HISTORY), begin=DAY)


def test_trainer_state_with_a_begin_wants_no_begin() -> None:
    state = json.dumps({"log_history": [{"step": 10, "loss": 2.5}, {"step": 20, "loss": 2.4}]})
    with pytest.raises(UntimedError, match=r"how long its steps took.*\nThe stdout of the same run"):
        read(state, begin=DAY)


def test_trainer_state_with_its_runtime_shares_the_time() -> None:
    parsed = read(state(*HISTORY, RUNTIME), begin=DAY)
    assert steps(parsed) == [(step, 2 * (step - 1), 2.0) for step in range(1, 21)]
    assert parsed.frames["steps"].select("step", "loss").drop_nulls().rows() == [(10, 2.5), (20, 2.25)]
    assert set(parsed.frames["steps"]["tokens"]) == {100, 200}
    assert codes(parsed) == ["time_shared", "times_reckoned"]


@pytest.mark.parametrize("text", ['{"log_history": 5}', '{"log_history": [', '{"log_history": [{"step": 1}]}'])
def test_trainer_state_that_is_damaged_is_named(text: str) -> None:
    with pytest.raises(InputError, match=r"trainer_state\.json"):
        read(text, begin=DAY)


METRICS = """\
epoch,step,step_time,train_loss,val_loss
0,0,2.0,2.5,
0,0,,,2.6
0,1,3.0,2.4,
0,2,1.0,nan,
"""


def test_lightning_csv_merges_the_rows_of_a_step() -> None:
    parsed = read(METRICS, begin=DAY)
    assert steps(parsed) == [(0, 0, 2.0), (1, 2, 3.0), (2, 5, 1.0)]
    assert parsed.frames["steps"]["loss"].to_list() == [2.5, 2.4, None]


def test_lightning_csv_has_no_times() -> None:
    with pytest.raises(UntimedError, match=r"it records 3 rows of steps 0 to 2\. It is unknown when it begins"):
        read(METRICS)
    with pytest.raises(UntimedError, match="how long its steps took"):
        read("epoch,step,train_loss\n0,0,2.5\n", begin=DAY)


def test_lightning_csv_refuses_torn_rows() -> None:
    parsed = read(METRICS + "0,3,1.0\n", begin=DAY)
    assert parsed.rejects.select("line", "reason").rows() == [(6, "row of 3 values, not 5")]
    assert len(steps(parsed)) == 3


def loss(step: int) -> dict[str, Any]:
    return {"epoch": step / 100, "loss": 2.5, "step": step}


def end(step: int, seconds: float) -> dict[str, Any]:
    return {"epoch": 1.0, "step": step, "train_loss": 2.3, "train_runtime": seconds}


def test_lightning_csv_refuses_a_row_with_a_garbled_number() -> None:
    numbers = (297, 298, 299, 30000, 301, 302, 300)
    text = "epoch,step,train_loss,step_time\n" + "".join(f"0,{step},2.5,2.0\n" for step in numbers)
    parsed = read(text, begin=DAY)
    assert [step for step, _, _ in steps(parsed)] == [297, 298, 299, 300, 301, 302, 300]
    assert parsed.rejects["raw"].to_list() == ["step 30000 between 299 and 301"]


def test_trainer_state_of_two_processes_shares_the_time_of_each() -> None:
    parsed = read(state(loss(10), loss(20), end(20, 40.0), loss(30), end(30, 30.0)), begin=DAY)
    expected = [(step, 2.0 * (step - 1), 2.0) for step in range(1, 21)]
    assert steps(parsed) == expected + [(step, 40.0 + 3 * (step - 21), 3.0) for step in range(21, 31)]


def test_trainer_state_has_the_steps_behind_its_last_loss() -> None:
    parsed = read(state(loss(10), loss(20), end(25, 50.0)), begin=DAY)
    assert [step for step, _, _ in steps(parsed)] == list(range(1, 26))
    assert {length for _, _, length in steps(parsed)} == {2.0}


def test_trainer_state_that_goes_back_has_no_durations() -> None:
    with pytest.raises(UntimedError, match="goes back from step 20 to 15, so it has entries of several processes"):
        read(state(loss(10), loss(20), loss(15), end(20, 40.0)), begin=DAY)


def test_trainer_state_losses_without_a_step_are_refused() -> None:
    parsed = read(state({"loss": 2.5, "epoch": 0.1}, {"loss": "2.25", "step": 20.0}, end(20, 40.0)), begin=DAY)
    assert parsed.rejects.select("line", "reason").rows() == [(1, "entry of a loss without the number of its step")]
    assert parsed.frames["steps"]["loss"].drop_nulls().to_list() == [2.25]


def test_trainer_state_with_one_loss_an_epoch_has_all_steps() -> None:
    parsed = read(state(loss(15_000), loss(30_000), end(30_000, 3_000.0)), begin=DAY)
    assert parsed.frames["steps"].height == 30_000
    assert "steps_far_apart" not in codes(parsed)


def test_rows_too_far_apart_are_named() -> None:
    parsed = read("epoch,step,train_loss,step_time\n0,1,2.5,1.0\n0,99000000,2.4,1.0\n", begin=DAY)
    assert [step for step, _, _ in steps(parsed)] == [1, 99_000_000]
    assert "steps_far_apart" in codes(parsed)


def test_lightning_csv_that_goes_back_runs_steps_again() -> None:
    text = "\ufeffepoch,step,train_loss,step_time\n0,0,2.5,1.0\n0,1,2.4,1.0\n0,2,2.3,1.0\n0,1,2.41,1.5\n0,2,2.31,1.5\n"
    parsed = read(text, begin=DAY)
    assert [step for step, _, _ in steps(parsed)] == [0, 1, 2, 1, 2]
    assert parsed.frames["steps"]["loss"].to_list() == [2.5, 2.4, 2.3, 2.41, 2.31]


def test_lightning_csv_has_other_columns_behind_a_restart() -> None:
    text = "epoch,step,train_loss,step_time\n" + "".join(f"0,{step},{3 - step / 100},2.0\n" for step in range(20))
    text += "epoch,step,lr,train_loss,step_time\n"
    text += "".join(f"0,{step},0.001,{3 - step / 100},4.0\n" for step in range(15, 30))
    parsed = read(text, begin=DAY)
    assert [step for step, _, _ in steps(parsed)] == [*range(20), *range(15, 30)]
    assert [length for _, _, length in steps(parsed)] == [2.0] * 20 + [4.0] * 15
    assert parsed.rejects.is_empty()


def test_litgpts_csv_is_refused_for_its_micro_batches() -> None:
    with pytest.raises(InputError, match="counts micro-batches"):
        read("epoch,iter,iter_time,loss,step\n0,4,0.5,2.5,3\n", begin=DAY, facts={"step_time_key": "iter_time"})
