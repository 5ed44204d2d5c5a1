"""Whatever stands in a configuration or claims file, it is used, or all its mistakes are listed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from app.claims.file import read_claims
from app.config import settings as config
from app.config import toml_file
from app.errors import ClaimsError, ConfigError

NUMBERS = st.floats(allow_nan=True) | st.integers(-(2**70), 2**70) | st.sampled_from([1e308, 2**63, 0, -1, 36_525])
WORDS = st.text() | st.sampled_from(
    ["\0", "a" * 2_000, "[", "(", "*", "n[1-99999999999]", "Europe/Berlin", "../x", "http://u:p@h:1", "28d", "2026-Q3",
     "2026-10-01T00:00:00Z", "at_least", "delivered", "goodput_allocated", "mttf", "ratio"]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | WORDS | st.datetimes() | st.dates() | st.times(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
SECTIONS: dict[str, list[str]] = {
    name: sorted(type(field.default).model_fields)
    for name, field in config.Config.model_fields.items()
    if isinstance(field.default, BaseModel)
}


@st.composite
def settings_of(draw: st.DrawFn) -> dict[str, Any]:
    """Settings by section: known ones with any values, and others."""
    plain = [name for name in config.Config.model_fields if name not in SECTIONS]
    reported: dict[str, Any] = draw(st.dictionaries(st.sampled_from(plain) | WORDS, VALUES, max_size=3))
    for name in draw(st.lists(st.sampled_from(sorted(SECTIONS)), max_size=3)):
        known = st.sampled_from(SECTIONS[name])
        reported[name] = draw(st.dictionaries(known | WORDS, VALUES, max_size=4) | VALUES)
    return reported


@given(settings_of())
def test_any_settings_are_used_or_their_mistakes_listed(reported: dict[str, Any]) -> None:
    try:
        result = config.parse(reported, origin="x")
    except ConfigError as error:
        output = str(error)
        assert output.startswith("x has ")
        return
    for section in (result.slurm, result.prometheus, result.retention, result.serve, result.rules, result.sql):
        for name, value in section:
            assert not isinstance(value, float) or math.isfinite(value), name
    assert "\0" not in str(result.warehouse)


@given(st.text() | st.text(alphabet='[]{}="\\\n.,#0123456789abc- '))
def test_any_text_is_toml_or_not(text: str) -> None:
    try:
        toml_file.parse(text)
    except toml_file.NotTomlError as error:
        output = str(error)
        assert output


CLAIM = {
    "id": "a", "metric": "goodput_allocated", "quoted": "q", "read_as": "r", "kind": "delivered", "target": 0.9,
    "direction": "at_least",
}  # fmt: skip
FIELDS = [*CLAIM, "gpus", "min_run_hours", "flop_convention", "failure_class", "population", "scope", "exclusion",
          "window"]  # fmt: skip


@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4), min_size=1, max_size=3))
def test_any_claims_are_read_or_their_mistakes_listed(changes: list[dict[str, Any]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        entries = [CLAIM | {"id": f"c{number}"} | change for number, change in enumerate(changes)]
        patch.setattr(toml_file, "read", lambda _: "")
        patch.setattr(toml_file, "parse", lambda _: {"claim": entries})
        try:
            result = read_claims(Path("x"))
        except ClaimsError as error:
            output = str(error)
            assert output.startswith("x has ")
            return
    for claim in result:
        assert math.isfinite(claim.target)
        assert math.isfinite(claim.min_run_s)
        assert claim.gpus is None or 0 < claim.gpus < math.inf


def test_the_fuzzed_settings_are_the_existing_ones() -> None:
    assert "lookback_days" in SECTIONS["slurm"]
