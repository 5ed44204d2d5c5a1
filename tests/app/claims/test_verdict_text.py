"""Verdicts that were stored are those that would be computed, and only those of the same claims and period."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app.claims import verify as verifying
from app.claims.file import read_claims
from app.claims.stored import StoredClaims
from app.claims.verdict_text import as_text, from_text
from app.compute import pipeline as computing
from app.config.settings import Config
from app.window import Window
from metrics.claims.claim import Claim, Judged, Measurement
from queries.warehouse import open_reader, open_writer
from tests.support.warehouses import NOW, from_accounting

if TYPE_CHECKING:
    from queries.warehouse import Reader

WINDOW = Window("c", datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 10, 1, tzinfo=UTC))
CLAIM = Claim("g", "goodput_allocated", "up to 96 %", "at least 0.96", "delivered", 0.96, "at_least", "ratio")
MEASURED = Measurement(
    value=0.1 + 0.2,
    low=1e-300,
    high=math.inf,
    n=7,
    needed="more",
    numerator=3.0,
    beside=("one-sided", "two"),
    evidence=(("log", 1 / 3), ("accounting", 2 / 3)),
)


def test_stored_verdicts_are_the_same_in_every_field() -> None:
    judged = [
        Judged(CLAIM, MEASURED, "undetermined", WINDOW.since, WINDOW.until, 3),
        Judged(replace(CLAIM, id="h"), Measurement(needed="data"), "undetermined"),
    ]
    text = as_text(judged, WINDOW)
    assert from_text(text, WINDOW, [each.claim for each in judged]) == judged
    assert from_text(text, WINDOW, [judged[1].claim]) == judged[1:]


@pytest.mark.parametrize(
    ("window", "claim"),
    [
        (WINDOW, replace(CLAIM, target=0.95)),
        (replace(WINDOW, until=datetime(2026, 10, 2, tzinfo=UTC)), CLAIM),
        (replace(WINDOW, cluster="d"), CLAIM),
    ],
    ids=["claim", "period", "cluster"],
)
def test_verdicts_on_something_else_are_not_read(window: Window, claim: Claim) -> None:
    text = as_text([Judged(CLAIM, MEASURED, "undetermined")], WINDOW)
    assert from_text(text, WINDOW, [CLAIM]) is not None
    assert from_text(text, window, [claim]) is None


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = from_accounting(tmp_path_factory.mktemp("verdicts"))
    with open_writer(made, verb="test", now=NOW) as writer:  # a copied warehouse has a data version of its own
        computing.compute(writer, Config(), now=NOW, verdicts=StoredClaims.read(None).verdicts)
    return made


def whole(reader: Reader) -> Window:
    computed = reader.query("computed", cluster="tiny").row(0, named=True)
    return Window("tiny", computed["since"], computed["until"])


def test_verify_reads_the_verdicts_that_compute_stored(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claims = read_claims(None)
    with open_reader(root) as reader:
        computed = verifying.judge_claims(reader, whole(reader), claims)
        monkeypatch.setattr(verifying, "judge_claims", None)
        assert verifying.verify(reader, whole(reader), claims) == computed


@pytest.mark.slow
def test_verify_computes_the_verdicts_once_something_was_loaded(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = Path(shutil.copytree(root, tmp_path / "changed"))
    with open_writer(changed, verb="test", now=NOW) as writer, writer.transaction():
        pass
    computed = [Judged(CLAIM, MEASURED, "undetermined")]
    monkeypatch.setattr(verifying, "judge_claims", lambda *_: computed)
    with open_reader(changed) as reader:
        assert reader.query("stored_verdicts", cluster="tiny").is_empty()
        assert verifying.verify(reader, whole(reader), read_claims(None)) is computed
