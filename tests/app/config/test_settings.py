"""The configuration: what passes its check works in the engine that uses it, and what does not is said."""

from __future__ import annotations

import json
import math
import tomllib
from typing import TYPE_CHECKING

import polars as pl
import pytest
from pydantic import BaseModel

from app.config import settings as config
from app.config.settings import Config
from app.errors import ConfigError
from tests.support.command import trackside
from tests.support.slurm.dumps import tiny

if TYPE_CHECKING:
    from pathlib import Path


def rules(**settings: object) -> config.Rules:
    return config.parse({"rules": settings}, origin="test").rules


def test_every_default_rule_may_be_written_into_the_file() -> None:
    lists = {name: list(getattr(config.Rules(), name)) for name in ("planned_reasons", "critical_reasons")}
    reported = [f"{name} = [{', '.join(map(json.dumps, patterns))}]" for name, patterns in lists.items()]
    reported += ["[other_work]", *(f"{kind} = {json.dumps(pattern)}" for kind, pattern in config.OTHER_WORK.items())]
    assert rules(**tomllib.loads("\n".join(reported))) == config.Rules()


@pytest.mark.parametrize(
    ("pattern", "output"),
    [
        ("^(?!maint).*fail", "look-around"),
        (r"(a)\1", "backreferences are not supported"),
        ("(", "unclosed group"),
        ("a)(b", "unopened group"),
        ("(?x)a # b", "unclosed group"),  # alone it is one, but the comment would swallow what comes behind it
        (r"\w{300}", "size limit"),
    ],
)
def test_a_pattern_that_polars_does_not_take_is_refused(pattern: str, output: str) -> None:
    for settings in ({"critical_reasons": [pattern]}, {"other_work": {"kind": pattern}}):
        with pytest.raises(ConfigError, match=output) as error:
            rules(**settings)
        assert "This error occurred" not in str(error.value)
        assert len(str(error.value).splitlines()) == 2


def test_a_pattern_is_checked_by_the_engine_that_uses_it() -> None:
    flag_inside, look_around = "^bash$|(?i)^jupyter", "^(?!un)planned"
    assert rules(critical_reasons=[flag_inside], other_work={"i": flag_inside}).critical_reasons == (flag_inside,)
    assert rules(planned_reasons=[look_around]).planned_reasons == (look_around,)
    for pattern in (flag_inside, "a{99999999999999999999}"):
        with pytest.raises(ConfigError, match="planned_reasons"):
            rules(planned_reasons=[pattern])


def test_patterns_that_are_too_long_only_together_are_refused() -> None:
    long = r"\w{120}"
    assert rules(critical_reasons=[long]).critical_reasons == (long,)
    with pytest.raises(ConfigError, match="size limit"):
        rules(critical_reasons=[long, long])


def test_flags_of_one_pattern_do_not_reach_the_next() -> None:
    reasons = pl.Series(["GPU gone", "k8s: evicted", "K8S: evicted"])
    assert reasons.str.contains(config.joined_patterns(["(?i)gpu", "^k8s:"])).to_list() == [True, True, False]


def test_a_rule_that_cannot_be_used_stops_compute_in_words(tmp_path: Path) -> None:
    file, where = tmp_path / "trackside.toml", ("--warehouse", str(tmp_path / "w"))
    assert trackside("ingest", "slurm", *tiny(20).write(tmp_path), *where).returncode == 0
    file.write_text("[rules]\ncritical_reasons = ['^(?!maint).*fail']\n")
    done = trackside("compute", "--config", str(file), *where)
    assert done.returncode == 10
    assert "rules.critical_reasons.0 = '^(?!maint).*fail'" in done.stderr


@pytest.mark.parametrize("name", ["lookback_hours", "chunk_hours", "timeout_s", "retries"])
@pytest.mark.parametrize("value", [10**9, 1e300, float("inf"), 0.0 - 1])
def test_telemetry_limits_refuse_values_out_of_range(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"prometheus.{name} = "):
        config.parse({"prometheus": {name: value}}, origin="test")


NUMBERS = [
    (section, name)
    for section, field in Config.model_fields.items()
    if isinstance(field.default, BaseModel)
    for name, inner in type(field.default).model_fields.items()
    if inner.annotation in {int, float}
]


@pytest.mark.slow
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 1e300, 10**30, -1, -1e-9])
@pytest.mark.parametrize(("section", "name"), NUMBERS)
def test_no_number_is_without_end_unknown_or_negative(section: str, name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"{section}.{name}"):
        config.parse({section: {name: value}}, origin="test")


def test_most_sections_have_numbers() -> None:
    assert {section for section, _ in NUMBERS} >= {"slurm", "prometheus", "retention", "serve", "rules", "sql"}


@pytest.mark.parametrize("value", [0, 10**18, "1e400", "ten"])
@pytest.mark.parametrize("name", ["rows", "seconds", "memory_mb", "result_mb"])
def test_limits_of_sql_are_numbers_that_a_process_can_be_held_to(name: str, value: float | str) -> None:
    with pytest.raises(ConfigError, match=f"sql.{name}"):
        config.parse({"sql": {name: value}}, origin="test")


@pytest.mark.parametrize(
    ("section", "name", "most"),
    [("slurm", "timeout_s", 86_400), ("sql", "seconds", 86_400), ("serve", "every_minutes", 525_600)],
)
def test_no_wait_is_longer_than_the_system_can_wait(section: str, name: str, most: int) -> None:
    assert getattr(getattr(config.parse({section: {name: most}}, origin="test"), section), name) == most
    with pytest.raises(ConfigError, match=f"{section}.{name}"):
        config.parse({section: {name: most + 1}}, origin="test")


@pytest.mark.parametrize(
    "values",
    [
        {"slurm": {"transport": "rest", "rest_url": "http://u:sEcReT@h:1", "clusters": ["a", "b"]}},
        {"slurm": {"transport": "rest", "rest_url": "", "rest_user": "sEcReT"}},
        {"slurm": {"rest_url": ["http://u:sEcReT@h"]}},
        {"slurm": "http://u:sEcReT@h"},
        {"slurm": [{"rest_url": "sEcReT"}]},
        {"slurm": {"rest_url": {"rest_url": "sEcReT"}}},
        {"slurm": {"timeout_s": {"rest_user": "sEcReT"}}},
        {"slurm": {"timeout_s": "http://u:sEcReT@h"}},
        {"prometheus": "sEcReT"},
        {"prometheus": {"url": ["sEcReT"]}},
        {"cluster": [["sEcReT"]]},
    ],
)
def test_a_mistake_shows_no_password(values: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="test has 1 mistake") as caught:
        config.parse(values, origin="test")
    assert "sEcReT" not in str(caught.value)


def test_mistake_of_a_whole_section_is_reported_without_values() -> None:
    with pytest.raises(ConfigError) as caught:
        config.parse({"slurm": {"transport": "rest", "rest_url": "unix:/x", "clusters": ["a", "b"]}}, origin="test")
    output = str(caught.value).splitlines()[1]
    assert output.startswith("  slurm: transport is rest, and one slurmrestd serves one cluster")


def test_names_are_those_of_hosts() -> None:
    names = ["trackside.example.com", "GPU-login_1", "10.0.0.7", "FD00::1"]
    result = config.parse({"serve": {"names": names}}, origin="test").serve.names
    assert result == ("trackside.example.com", "gpu-login_1", "10.0.0.7", "fd00::1")


@pytest.mark.parametrize(
    "name", ["", "https://a.example", "a.example:8050", "*.example", "a b", "-a.example", "a..b", "bücher.example",
             "a" * 64, "a.example\n"],
)  # fmt: skip
def test_what_is_no_name_of_a_host_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="not the name of a host"):
        config.parse({"serve": {"names": [name]}}, origin="test")
