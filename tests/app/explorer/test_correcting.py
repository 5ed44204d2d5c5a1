"""Corrections in the page: the effect before, who may, what stops them."""

from __future__ import annotations

import contextlib
import json
import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from dash import Dash
from flask import g
from plotly.utils import PlotlyJSONEncoder

from app.access.people import LOCAL, Person, Role
from app.adjudicate import trial
from app.adjudicate.trial import Corrector
from app.claims.watched import WatchedClaims
from app.config.settings import Config
from app.corrections.records import read_corrections
from app.explorer import correcting, loading
from app.explorer.application import Explorer, page
from app.results.serving.cache import AnswerCache
from app.times import iso
from queries import directory
from queries.trial import open_trial
from queries.warehouse import open_reader, open_writer
from tests.support.command import trackside

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOW = datetime(2027, 1, 1, tzinfo=UTC)
OPERATOR = Person("ada", Role.OPERATOR)
VIEWER = Person("eve", Role.VIEWER)


@pytest.fixture
def root(warehouse: Path, tmp_path: Path) -> Path:
    return shutil.copytree(warehouse, tmp_path / "w", symlinks=True)


@pytest.fixture
def explorer(root: Path) -> Explorer:
    return Explorer(AnswerCache(root), WatchedClaims(None), corrector=Corrector(root, Config()))


@contextlib.contextmanager
def seen_by(person: Person) -> Iterator[None]:
    with Dash("request").server.test_request_context("/"):
        g.person = person
        g.seen = []
        yield


def text_of(component: object) -> str:
    return json.dumps(component, cls=PlotlyJSONEncoder)


def interruption(root: Path) -> dict[str, Any]:
    """One whose class can be corrected."""
    with open_reader(root) as reader:
        (row, *_) = reader.table("interruptions").sort("ended_at", "job_id").to_dicts()
    return row


def filled(row: dict[str, Any], **more: str) -> dict[str, str]:
    other = "user" if row["class"] != "user" else "infrastructure"
    named = {"run": row["run_id"], "attempt": str(row["attempt_no"]), "kind": other, "cause": "put_right"}
    return named | {"reason": "seen in the ticket", "author": "A. Person"} | more


def word_in(shown: object) -> str:
    found = [each for each in _within(shown) if isinstance(getattr(each, "id", None), dict)]
    (word,) = [each.data for each in found if each.id["type"] == "fix-word"]
    return str(word)


def _within(node: Any) -> Iterator[Any]:
    yield node
    children = getattr(node, "children", None)
    for each in children if isinstance(children, list) else [children]:
        if each is not None and not isinstance(each, str):
            yield from _within(each)


def made(root: Path) -> list[str]:
    with open_reader(root) as reader:
        return [each.author for each in read_corrections(reader)]


@pytest.mark.slow
def test_effect_is_shown_before_and_changes_nothing(explorer: Explorer, root: Path) -> None:
    row, before = interruption(root), sorted(directory.raw_files(root))
    version = directory.current_copy(root)
    with seen_by(OPERATOR):
        shown = correcting.effect(explorer, "", "cause", filled(row))
    assert f"{row['class']} interruptions: " in text_of(shown)
    assert made(root) == []
    assert (directory.current_copy(root), sorted(directory.raw_files(root))) == (version, before)


@pytest.mark.slow
def test_confirmed_correction_is_as_it_was_shown(explorer: Explorer, root: Path) -> None:
    row = interruption(root)
    with seen_by(OPERATOR):
        shown = correcting.effect(explorer, "", "cause", filled(row))
        done = correcting.make(explorer, "cause", word_in(shown))
        seen = list(g.seen)
    effects = [text for text in text_of(done).split('"') if "->" in text and "adj-" not in text]
    assert effects
    assert all(text in text_of(shown) for text in effects)
    assert made(root) == ["ada"]  # who is logged in, not what the form says
    assert interruption(root)["cause"] == "put_right"
    assert [action for action, _ in seen] == ["correction-effect", "correct"]
    again = correcting.make(explorer, "cause", word_in(shown))
    assert trial.GONE in text_of(again)


@pytest.mark.slow
def test_effect_says_what_the_correction_would_change(explorer: Explorer, root: Path) -> None:
    row = interruption(root)
    with seen_by(LOCAL):
        shown = text_of(correcting.effect(explorer, "", "cause", filled(row)))
    options = ["--run", row["run_id"], "--attempt", str(row["attempt_no"]), "--class", filled(row)["kind"]]
    signed = ["--cause", "put_right", "--author", "A. Person", "--reason", "seen in the ticket"]
    told = trackside("adjudicate", "cause", *options, *signed, "--dry-run", "--warehouse", str(root))
    assert "Nothing was stored" in told.stdout
    lines = [line.strip() for line in told.stdout.splitlines() if line.startswith("  ")]
    assert lines
    assert all(json.dumps(line) in shown for line in lines)
    assert made(root) == []


@pytest.mark.slow
def test_numbers_without_a_correction_are_those_before_it(explorer: Explorer, root: Path) -> None:
    row = interruption(root)
    with seen_by(OPERATOR):
        shown = correcting.effect(explorer, "", "cause", filled(row))
        correcting.make(explorer, "cause", word_in(shown))
        with open_reader(root) as reader:
            (known,) = read_corrections(reader)
        listed = text_of(loading.show(explorer, {"path": "/verdicts", "search": "", "ticket": "t"}, "corrections"))
        undone = text_of(correcting.lacking(explorer, known.id))
    assert f"Numbers without {known.id}" in listed
    counted = f"{row['class']} interruptions: "
    changed = next(text for text in text_of(shown).split('"') if text.startswith(counted))
    before, after = changed.removeprefix(counted).split(" -> ")
    assert f"{counted}{after} -> {before}" in undone
    assert interruption(root)["cause"] == "put_right"  # it is still in force
    with seen_by(VIEWER):
        assert correcting.REFUSED in text_of(correcting.lacking(explorer, known.id))


@pytest.mark.slow
def test_viewers_are_refused_everywhere(explorer: Explorer, root: Path) -> None:
    row = interruption(root)
    with seen_by(OPERATOR):
        word = word_in(correcting.effect(explorer, "", "cause", filled(row)))
    with seen_by(VIEWER):
        assert "This is not yours" in text_of(page(explorer, "/verdicts", "?fix=cause"))
        section = loading.show(explorer, {"path": "/verdicts", "search": "", "ticket": "t"}, "correct")
        assert "fix-effect" not in text_of(section)
        assert correcting.REFUSED in text_of(correcting.effect(explorer, "", "cause", filled(row)))
        assert correcting.REFUSED in text_of(correcting.make(explorer, "cause", word))
        assert g.seen[-1] == ("correction-refused", {"kind": "cause"})
        assert correcting.correction_link(explorer.view(""), "cause", "Correct") is None
    assert made(root) == []


@pytest.mark.slow
def test_what_one_person_saw_another_cannot_confirm(explorer: Explorer, root: Path) -> None:
    with seen_by(OPERATOR):
        word = word_in(correcting.effect(explorer, "", "cause", filled(interruption(root))))
    with seen_by(Person("bob", Role.ADMIN)):
        assert trial.GONE in text_of(correcting.make(explorer, "cause", word))
    assert made(root) == []


@pytest.mark.slow
def test_warehouse_being_written_or_read_only_is_said(
    explorer: Explorer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = interruption(root)
    with directory.locked(root, verb="trackside ingest slurm", now=NOW), seen_by(OPERATOR):
        word = word_in(correcting.effect(explorer, "", "cause", filled(row)))  # the effect needs no lock
        busy = text_of(correcting.make(explorer, "cause", word))
    assert "is being written just now; nothing was changed. Try again." in busy
    assert "trackside ingest slurm" in busy

    def denied(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    with seen_by(OPERATOR), monkeypatch.context() as patch:
        patch.setattr("queries.directory.os.open", denied)
        refused = text_of(correcting.make(explorer, "cause", word))
    assert "cannot be written: Permission denied. Nothing was changed." in refused
    assert made(root) == []


@pytest.mark.slow
def test_newer_data_want_the_effect_seen_again(explorer: Explorer, root: Path) -> None:
    with seen_by(OPERATOR):
        word = word_in(correcting.effect(explorer, "", "cause", filled(interruption(root))))
        with open_writer(root, verb="a test", now=NOW) as writer, writer.transaction():
            pass
        assert trial.NEWER in text_of(correcting.make(explorer, "cause", word))
    assert made(root) == []


@pytest.mark.slow
def test_withdrawn_correction_stays_in_the_list(explorer: Explorer, root: Path) -> None:
    row = interruption(root)
    with seen_by(OPERATOR):
        correcting.make(explorer, "cause", word_in(correcting.effect(explorer, "", "cause", filled(row))))
        with open_reader(root) as reader:
            (first,) = read_corrections(reader)
        withdrawal = {"id": first.id, "reason": "wrong ticket"}
        shown = correcting.effect(explorer, "", "withdraw", withdrawal)
        correcting.make(explorer, "withdraw", word_in(shown))
        verdicts = text_of(page(explorer, "/verdicts", ""))
    assert "withdrawn by ada: wrong ticket" in verdicts
    assert first.id in verdicts
    assert interruption(root)["cause"] == row["cause"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "values", "why"),
    [
        ("cause", {}, "the attempt is missing: Job J, or Run R Attempt N"),
        ("cause", {"run": "no-such-run"}, "has no run 'no-such-run'"),
        ("cause", {"attempt": "two"}, "Attempt of the run: 'two' is no number"),
        ("node_state", {"node": "n1"}, "From (UTC) is missing"),
        ("withdraw", {"id": "adj-none"}, "there is no correction 'adj-none'"),
        ("verdict", {}, "there is no correction of the kind 'verdict'"),
        ("cause", {"reason": ""}, "Reason is missing"),
        ("cause", {"reason": "x" * 2000}, "Reason: at most 1000 characters"),
    ],
)
def test_unusable_forms_are_refused_in_their_words(
    kind: str, values: dict[str, str], why: str, explorer: Explorer
) -> None:
    with seen_by(LOCAL):
        refused = text_of(correcting.effect(explorer, "", kind, {"author": "A", "reason": "r"} | values))
    assert why in refused


def test_corrections_are_off_for_unknown_visitors(root: Path) -> None:
    open_to_all = Explorer(AnswerCache(root), WatchedClaims(None))
    shown = loading.show(open_to_all, {"path": "/verdicts", "search": "", "ticket": "t"}, "correct")
    assert correcting.OFF in text_of(shown)
    assert correcting.OFF in text_of(correcting.effect(open_to_all, "", "cause", {}))
    assert correcting.OFF in text_of(correcting.make(open_to_all, "cause", "word"))


def test_form_is_filled_in_by_the_address(explorer: Explorer, root: Path) -> None:
    row = interruption(root)
    view = explorer.view("")
    link = correcting.of_row(view, row)
    assert link is not None
    asked = {
        "path": "/verdicts",
        "search": "?" + str(vars(link)["href"]).partition("?")[2].partition("#")[0],
        "ticket": "t",
    }
    shown = text_of(loading.show(explorer, asked, "correct"))
    assert f'"value": {json.dumps(row["run_id"])}' in shown


def test_way_to_the_form_keeps_the_period_of_the_page(explorer: Explorer) -> None:
    view = explorer.view("")
    out = {"node": "n1", "state": "down", "started_at": view.window.since, "ended_at": view.window.until}
    link = correcting.of_row(view, out)
    assert link is not None
    search = "?" + str(vars(link)["href"]).partition("?")[2].partition("#")[0]
    assert explorer.view(search).params.keys().isdisjoint({"since", "until"})
    asked = {"path": "/verdicts", "search": search, "ticket": "t"}
    assert f'"value": "{iso(view.window.since)}"' in text_of(loading.show(explorer, asked, "correct"))


def test_trial_leaves_the_warehouse_as_it_is(root: Path) -> None:
    with open_trial(root, now=NOW) as writer:
        place = writer.root
        with writer.transaction():
            writer.delete("runs", writer.table("runs").select("cluster", "run_id"))
        assert writer.table("runs").is_empty()
    assert not place.exists()
    with open_reader(root) as reader:
        assert not reader.table("runs").is_empty()
