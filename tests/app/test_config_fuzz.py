"""Whatever a configuration or claims file holds, it is used or refused: every mistake in a list, and never a crash."""

from __future__ import annotations

import dataclasses
import json
import math
from importlib import resources
from typing import TYPE_CHECKING, Any, get_args

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from app import claims, config
from app.errors import ClaimsError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CLAIMS = (resources.files("app") / "claims.toml").read_text("utf-8")
ANYWHERE = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])


def fields(model: type[BaseModel], section: str = "") -> Iterator[str]:
    """Names of all settings, with their section."""
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from fields(kind, f"{section}{name}.")
        else:
            yield f"{section}{field.alias or name}"


SETTINGS = sorted({*fields(config.Config), "rules.other_work.notebook", "prometheus.headers.X", "nope", "serve.nope"})
OF_A_CLAIM = sorted({*fields(claims.ClaimEntry), "nope"})
OF_AN_EXCLUSION = sorted({*fields(claims.ExclusionEntry), "nope"})
WORDS = sorted(
    {
        *(
            "",
            " ",
            "a[",
            "gpu[01-03",
            "(",
            "(?i)x|y",
            "(?=x)",
            r"\1",
            "*",
            "Europe/Berlin",
            "http://u:p@h",
            "file:///x",
        ),
        *(
            "28d",
            "99999999999d",
            "2026-10",
            "2026-13",
            "2026-10-05T08:00",
            "\x00",
            "\ud7ff",
            "../x",
            "~",
            "%",
            "n" * 300,
        ),
        *("mttf", "mfu", "at_least", "delivered", "capability", "unplanned", "pooled", "idle", "productive"),
    }
)

numbers = st.one_of(
    st.integers(-(10**30), 10**30), st.floats(), st.sampled_from([0, 1, -1, 0.5, 1e308, 2**63, math.inf, math.nan])
)
plain = st.one_of(st.booleans(), numbers, st.sampled_from(WORDS), st.text(max_size=8), st.dates(), st.datetimes())
values = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=3)
)


def result(read: Callable[[], object]) -> tuple[object, str]:
    """What was read, or why it was refused."""
    try:
        return read(), ""
    except (ConfigError, ClaimsError) as error:
        return None, str(error)


def floats(value: object) -> Iterator[float]:
    """All floats within."""
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict):
        yield from floats(list(value.values()))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from floats(each)


def nested(pairs: dict[str, Any]) -> dict[str, Any]:
    """Tables of dotted names, as TOML makes them."""
    found: dict[str, Any] = {}
    for name, value in pairs.items():
        *sections, last = name.split(".")
        place = found
        for section in sections:
            place = place.setdefault(section, {})
            if not isinstance(place, dict):
                break
        else:
            place[last] = value
    return found


@ANYWHERE
@given(st.dictionaries(st.sampled_from(SETTINGS), values, max_size=4))
def test_any_values_of_settings_are_taken_or_listed_as_mistakes(given_values: dict[str, Any]) -> None:
    found, refusal = result(lambda: config.parse(nested(given_values), origin="trackside.toml"))
    assert refusal.startswith("trackside.toml has ") or all(map(math.isfinite, floats(found)))


def toml(value: object) -> str:
    """A value as TOML; text as JSON writes it, which is TOML too."""
    if isinstance(value, bool | str):
        return json.dumps(value)
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(name)} = {toml(each)}' for name, each in value.items())}}}"
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def assignments(names: list[str]) -> st.SearchStrategy[str]:
    pairs = st.dictionaries(st.sampled_from(names), values, max_size=4)
    return pairs.map(lambda found: "".join(f"{name} = {toml(value)}\n" for name, value in found.items()))


@st.composite
def claims_files(draw: st.DrawFn) -> str:
    """The claims that come with Trackside, some settings replaced or added."""
    text = CLAIMS
    for _ in range(draw(st.integers(1, 4))):
        lines = text.split("\n")
        at = draw(st.integers(0, len(lines)))
        more = draw(st.one_of(assignments(OF_A_CLAIM), assignments(OF_AN_EXCLUSION), st.sampled_from(lines)))
        begins = draw(st.sampled_from(["", "", "[[claim]]\n", "[claim.scope]\n", "[[claim.exclusions]]\n"]))
        text = "\n".join([*lines[:at], begins + more, *lines[at + draw(st.integers(0, 1)) :]])
    return text


@ANYWHERE
@given(claims_files())
def test_any_claims_are_taken_or_refused(tmp_path: Path, text: str) -> None:
    assert_claims(tmp_path, text.encode(errors="replace"))


def assert_claims(folder: Path, data: bytes) -> None:
    path = folder / "claims.toml"
    path.write_bytes(data)
    found, refusal = result(lambda: claims.read_claims(path))
    assert str(path) in refusal or all(map(math.isfinite, floats(found)))


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A real file with pieces cut out, doubled, moved or replaced; or just any bytes."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=200))
    data = CLAIMS.encode()
    for _ in range(draw(st.integers(1, 4))):
        first, last = sorted((draw(st.integers(0, len(data))), draw(st.integers(0, len(data)))))
        pieces = [data[first:last], b"", b"\xff", b"\x00", b"[", b"[[", b"]", b'"', b"'''", b"=", b"\r", b"9" * 5000]
        data = data[:first] + draw(st.sampled_from(pieces)) + data[draw(st.sampled_from([first, last])) :]
    return data


@ANYWHERE
@given(damaged())
@example(b"[" * 100_000)
def test_no_bytes_break_the_reading_of_claims_or_of_the_configuration(tmp_path: Path, data: bytes) -> None:
    assert_claims(tmp_path, data)
    path = tmp_path / "trackside.toml"
    path.write_bytes(data)
    found, refusal = result(lambda: config.load(path))
    assert str(path) in refusal or isinstance(found, config.Config)


def test_every_metric_and_setting_is_among_those_that_are_tried() -> None:
    assert {"warehouse", "slurm.lookback_days", "prometheus.url", "sql.seconds"} <= set(SETTINGS)
    assert {"target", "window", "scope.nodes"} <= set(OF_A_CLAIM)
    assert "mttf" in get_args(claims.Metric)
    with pytest.raises(ClaimsError):
        claims.read_claims(config.DEFAULT_PATH.with_name("nowhere.toml"))
