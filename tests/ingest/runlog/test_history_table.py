"""Histories of W&B and scalars of TensorBoard that were exported as a table: their steps, losses and times."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from ingest.errors import InputError, UnrecognisedInputError
from ingest.runlog.formats import history_table
from tests.support.logs.foreign_logs import DAY, read, steps

BEGIN = DAY.timestamp()

HISTORY = pd.DataFrame(
    {
        "_step": range(0, 12, 2),
        "_timestamp": [BEGIN + 4.0 * n for n in range(6)],
        "_runtime": [4.0 * n for n in range(6)],
        "train/loss": [3.0, 2.5, float("nan"), 2.0, 1.5, 1.0],
        "train/global_step": [10, 20, 20, 30, 40, 50],
        "eval/loss": [None, None, 2.75, None, None, None],
    }
)
"""Each tenth step, with an evaluation between two of them."""


def as_lines(frame: pd.DataFrame) -> str:
    return str(frame.to_json(orient="records", lines=True, double_precision=6))


def as_list(frame: pd.DataFrame, indent: int | None = None) -> str:
    return json.dumps([json.loads(line) for line in as_lines(frame).splitlines()], indent=indent)


@pytest.mark.parametrize(
    "text",
    [
        HISTORY.to_csv(),
        HISTORY.to_csv(index=False),
        as_lines(HISTORY),
        as_list(HISTORY),
        as_list(HISTORY, indent=2),
    ],
)
def test_a_history_of_wandb_has_steps_losses_and_times(text: str) -> None:
    parsed = read(text)
    found = steps(parsed)
    assert [step for step, _, _ in found] == list(range(10, 51))
    assert [found[0], found[-1]] == [(10, 0.0, None), (50, 19.6, 0.4)]
    assert parsed.frames["steps"]["loss"].drop_nulls().to_list() == [3.0, 2.5, 2.0, 1.5, 1.0]
    assert (parsed.rows_rejected, parsed.frames["run_sessions"].height) == (0, 1)
    assert [each.record() for each in parsed.warnings] == [{"code": "steps_averaged", "count": 40, "detail": ""}]


def test_rows_with_other_values_of_one_step_are_one_step() -> None:
    """A row that repeats a value is a duplicate, one that completes a step is read."""
    rows = [
        {"_step": 0, "_timestamp": BEGIN + 4 * step + late, "trainer/global_step": step, name: value}
        for step in range(5)
        for late, name, value in ((0, "tokens_seen", 64 * step), (0.02, "loss", 2.5), (0.04, "loss", 9))
        if late < 0.04 or step == 4
    ]
    parsed = read("\n".join(json.dumps(row) for row in rows))
    assert parsed.frames["steps"].select("step", "loss", "tokens").rows() == [
        (step, 2.5, 64 if step else None) for step in range(5)
    ]
    assert parsed.rows_duplicate == 1


def test_a_scalar_of_tensorboard_has_steps_and_times() -> None:
    text = "Wall time,Step,Value\n" + "".join(f"{BEGIN + 2 * n},{n},{3 - n / 10}\n" for n in range(5))
    assert steps(read(text)) == [(0, 0.0, None), *((n, 2.0 * (n - 1), 2.0) for n in range(1, 5))]


def test_rows_that_are_damaged_or_without_a_time_are_refused() -> None:
    whole = HISTORY.to_csv(index=False).splitlines(keepends=True)
    parsed = read("".join([*whole[:2], "7,8\n", "1,,3,4,5,6\n", *whole[2:]]))
    assert parsed.rejects.select("line", "reason").rows() == [
        (3, "row of 2 values, not 6"),
        (4, "the row has no time"),
    ]
    parsed = read("".join([*whole[:2], f"nan,{BEGIN + 1},1,2.5,,\n", *whole[2:]]))
    assert parsed.rejects.select("line", "reason").rows() == [(3, "the row has no number of a step")]
    lines = as_lines(HISTORY).splitlines(keepends=True)
    assert read("".join([*lines[:2], '{"_step": 3, "_ti\n', *lines[2:]])).rejects["line"].to_list() == [3]
    assert len(steps(parsed)) == 41


def test_a_damaged_row_of_a_list_is_refused_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = as_list(HISTORY)
    monkeypatch.setattr(history_table, "_BLOCK", 100)
    for text, row, n_steps in (
        (whole.replace('"_step": 4,', "4"), 3, 41),
        (whole.replace("}, {", "}, 7, {", 1), 2, 41),
        (whole[:-30], 6, 31),
    ):
        parsed = read(text)
        assert parsed.rejects.select("line", "reason").rows() == [(row, "no row of JSON")]
        assert len(steps(parsed)) == n_steps


def test_a_table_that_is_no_csv_further_down_is_refused() -> None:
    with pytest.raises(InputError, match="the table is damaged"):
        read(HISTORY.to_csv() + "1,2\r3,4\n")


def test_a_table_without_values_of_steps_names_its_columns() -> None:
    text = HISTORY[["_step", "_timestamp"]].assign(reward=1.0).to_csv(index=False)
    with pytest.raises(InputError, match="--set loss_key=NAME\nIts columns: reward"):
        read(text)
    assert len(steps(read(text, facts={"loss_key": "reward"}))) == 6


def test_the_summary_that_wandb_keeps_beside_a_log_is_no_history() -> None:
    summary = json.dumps({"_step": 9, "_timestamp": BEGIN, "train/loss": 1.0, "_wandb": {"runtime": 20}})
    for text in (summary, summary + "\n" + summary):
        with pytest.raises(UnrecognisedInputError):
            read(text)
