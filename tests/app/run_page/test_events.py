"""What happened to a run, on its own axis of steps: as lines, and as a program that draws it in W&B."""

from __future__ import annotations

import json
import runpy
import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from app.config.settings import Config
from app.run_page.events import as_program, events_of
from queries.warehouse import open_reader
from tests.app.run_page.jobs import HOSTILE, HOUR, KINDS, contents_of, loaded
from tests.support.command import trackside

if TYPE_CHECKING:
    from pathlib import Path

T = 1_790_000_000


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return loaded(tmp_path_factory.mktemp("events"))


def events(root: Path, text: str) -> list[dict[str, Any]]:
    contents = contents_of(root, text)
    with open_reader(root) as reader:
        return events_of(reader, contents, Config().rules)


@pytest.mark.slow
def test_a_node_failure_lies_at_the_step_it_interrupted(root: Path) -> None:
    result = events(root, "llama-8b")
    shown = [
        (row["kind"], row["step"], round((row["begin"].timestamp() - T) / HOUR, 2), row["node"], row["text"])
        for row in result
    ]
    assert shown[1:] == [
        ("down", 850, 5.0, "n2", "n2 down (Not responding)"),
        ("interruption", 850, 5.0, shown[2][3], shown[2][4]),
    ]
    kind, step, _, _, text = shown[0]
    assert (kind, step, text) == ("lost_steps", 800, "steps 800 to 850 were executed again")
    assert (result[0]["n"], result[0]["lost_s"]) == (51, pytest.approx(51 * 20, rel=0.05))
    assert result[2]["cost_gpu_s"] > 0


@pytest.mark.slow
def test_of_a_log_alone_the_lost_steps_are_known(root: Path) -> None:
    assert [(row["kind"], row["first"], row["last"]) for row in events(root, "laptop")] == [("lost_steps", 100, 150)]


@pytest.mark.slow
@pytest.mark.parametrize("text", KINDS.values())
def test_every_kind_of_run_has_events_in_order(root: Path, text: str) -> None:
    moments = [row["begin"] for row in events(root, text)]
    assert moments == sorted(moments)


@pytest.mark.slow
def test_lines_are_written_for_programs(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    done = trackside("run", "llama-8b", "--warehouse", str(root), "--events", str(file))
    assert (done.returncode, done.stdout) == (0, f"{file}: 3 events of run llama-8b\n")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["lost_steps", "down", "interruption"]
    assert lines[1]["begin"] == "2026-09-21T19:13:20Z"


class FakeWandb(ModuleType):
    """What the program uses of W&B."""

    def __init__(self) -> None:
        super().__init__("wandb")
        self.began: dict[str, object] = {}
        self.defined: list[tuple[str, str | None]] = []
        self.rows: list[dict[str, Any]] = []

    def init(self, **began: object) -> SimpleNamespace:
        self.began = began
        return SimpleNamespace(define_metric=self.define_metric, log=self.rows.append, finish=lambda: None)

    def define_metric(self, name: str, step_metric: str | None = None) -> None:
        self.defined.append((name, step_metric))

    def Table(self, columns: list[str], data: list[list[object]]) -> list[list[object]]:  # noqa: N802 - W&B's
        assert all(len(row) == len(columns) for row in data)
        return data


def draw(program: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> FakeWandb:
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.setattr(sys, "argv", [str(program), *arguments])
    runpy.run_path(str(program), run_name="__main__")
    return fake


@pytest.mark.slow
def test_a_program_draws_them_in_wandb(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "events.py"
    assert trackside("run", "llama-8b", "--warehouse", str(root), "--events", str(file)).returncode == 0
    fake = draw(file, monkeypatch, "team/llama/abc123", "train/global_step")
    assert fake.began == {"entity": "team", "project": "llama", "id": "abc123", "resume": "allow"}
    assert ("infrastructure/*", "train/global_step") in fake.defined
    assert fake.rows[2] == {"infrastructure/interruption": 1, "train/global_step": 850}
    assert len(fake.rows[-1]["infrastructure/events"]) == 3


def test_no_name_becomes_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = HOSTILE + "'''\"\"\"\n{EVENTS}\\"
    row = {"kind": name, "step": 1, "begin": None, "end": None, "node": name, "text": name}
    (tmp_path / "events.py").write_text(as_program(name, [row]))
    assert list(draw(tmp_path / "events.py", monkeypatch, "abc").rows[0]) == [
        f"infrastructure/{name}",
        "infrastructure/step",
    ]
