"""The recorder within frameworks: the hooks are called in the order in which transformers and Lightning call them."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from tests.ingest.runlog.test_recorder import read, recorder

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["recorder"]


@pytest.fixture
def frameworks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules with the base classes; nothing else of them is used."""
    for name, base in (("transformers", "TrainerCallback"), ("pytorch_lightning", "Callback")):
        module = ModuleType(name)
        setattr(module, base, type(base, (), {}))
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "lightning.pytorch", None)


def train_with_hugging_face(callback: Any) -> None:
    """Trainer._inner_training_loop, of transformers 4.57: logs every second step, evaluates and saves at the end."""
    state, control = SimpleNamespace(global_step=0, num_input_tokens_seen=0), SimpleNamespace()
    for _ in range(4):
        callback.on_step_begin(None, state, control, model=None)
        state.global_step += 1
        state.num_input_tokens_seen += 256
        callback.on_step_end(None, state, control, model=None)
        if state.global_step % 2 == 0:
            callback.on_log(
                None, state, control, logs={"loss": 1 / state.global_step, "learning_rate": 0.1}, model=None
            )
    callback.on_log(None, state, control, logs={"eval_loss": 9.0}, model=None)
    callback.on_evaluate(None, state, control, metrics={}, model=None)
    callback.on_save(None, state, control, model=None)
    callback.on_log(None, state, control, logs={"train_loss": 9.0}, model=None)


def test_hugging_face_logs_steps_evaluations_and_saves(recorder: ModuleType, frameworks: None, tmp_path: Path) -> None:
    log = recorder.start(tmp_path / "run.jsonl", run_id="r")
    callback = recorder.hugging_face(log)
    assert isinstance(callback, sys.modules["transformers"].TrainerCallback)
    train_with_hugging_face(callback)
    parsed = read(tmp_path / "run.jsonl")
    assert parsed.rejects.is_empty()
    assert parsed.frames["steps"].select("step", "tokens", "loss").rows() == [
        (1, 256, None),
        (2, 256, 0.5),
        (3, 256, None),
        (4, 256, 0.25),
    ]
    events = parsed.frames["run_events"].filter(pl.col("kind") != "step_start").sort("ts")
    assert events.select("kind", "step").rows() == [("eval", 4), ("checkpoint_save", 4)]
    assert events["durable_at"].to_list() == [None, events["ended_at"][1]]


class LightningTrainer:
    """What the callback uses of Lightning's Trainer: two batches are one optimizer step."""

    def __init__(self) -> None:
        self.global_step = 0
        self.saved: list[str] = []

    def save_checkpoint(self, path: str) -> None:
        self.saved.append(path)

    def fit(self, callback: Any) -> None:
        callback.on_fit_start(self, None)
        for number in range(6):
            callback.on_train_batch_start(self, None, None, number)
            self.global_step = (number + 1) // 2
            callback.on_train_batch_end(self, None, {"loss": 0.5}, None, number)
        callback.on_validation_start(self, None)
        callback.on_validation_end(self, None)
        self.save_checkpoint("last.ckpt")


def test_lightning_logs_optimizer_steps_validations_and_saves(
    recorder: ModuleType, frameworks: None, tmp_path: Path
) -> None:
    log = recorder.start(tmp_path / "run.jsonl", run_id="r")
    trainer = LightningTrainer()
    trainer.fit(recorder.lightning(log, tokens=64, loss_every=2))
    assert trainer.saved == ["last.ckpt"]
    parsed = read(tmp_path / "run.jsonl")
    assert parsed.frames["steps"].select("step", "tokens", "loss").rows() == [
        (1, 64, None),
        (2, 64, 0.5),
        (3, 64, None),
    ]
    kinds = dict(parsed.frames["run_events"].select("kind", "step").rows())
    assert (kinds["eval"], kinds["checkpoint_save"]) == (3, 3)


def test_a_framework_that_changed_never_stops_training(
    recorder: ModuleType, frameworks: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = recorder.start(tmp_path / "run.jsonl", run_id="r")
    recorder.hugging_face(log).on_step_begin(None, object(), None)
    recorder.lightning(log).on_fit_start(object(), None)
    assert capsys.readouterr().err.count("Training goes on") == 1
