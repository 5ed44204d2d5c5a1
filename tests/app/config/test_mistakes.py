"""A mistake in the configuration: the setting, what is wrong with it, what is allowed, and where it stands."""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from app.config import settings as config
from app.config.mistakes import allowed
from app.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator


def output(values: dict[str, Any]) -> str:
    with pytest.raises(ConfigError, match=r"trackside\.toml has 1 mistake") as caught:
        config.parse(values, origin="trackside.toml")
    [_, line] = str(caught.value).splitlines()
    return line.strip()


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (
            {"slurm": {"window_days": "soon"}},
            "slurm.window_days = 'soon': not a number; allowed: a number, above 0 (in the table [slurm])",
        ),
        (
            {"slurm": {"retries": -1}},
            "slurm.retries = -1: too small; allowed: a whole number, at least 0, at most 100 (in the table [slurm])",
        ),
        (
            {"serve": {"port": 70_000}},
            "serve.port = 70000: too large; allowed: a whole number, at least 0, at most 65535 (in the table [serve])",
        ),
        (
            {"slurm": {"road": "rest"}},
            "slurm.road: no such setting; it is called transport (in the table [slurm])",
        ),
        (
            {"slurm": {"transport": "rail"}},
            "slurm.transport = 'rail': no such choice; allowed: 'commands' or 'rest' (in the table [slurm])",
        ),
        (
            {"rules": {"run_wckey": "perhaps"}},
            "rules.run_wckey = 'perhaps': neither true nor false; allowed: true or false (in the table [rules])",
        ),
        (
            {"slurm": {"clusters": "alpha"}},
            'slurm.clusters = \'alpha\': not a list; allowed: a list of texts in quotes: ["...", "..."] '
            "(in the table [slurm])",
        ),
        ({"cluster": 7}, "cluster = 7: not text; allowed: text in quotes (at the top, above all tables)"),
        ({"warehouse": 7}, "warehouse = 7: not a path; allowed: a path in quotes (at the top, above all tables)"),
        ({"sql": 7}, "sql = 7: not a table; allowed: a table, [NAME] with its settings below it (in the table [sql])"),
        (
            {"rules": {"other_work": {"tests": 7}}},
            "rules.other_work.tests = 7: not text; allowed: text in quotes (in the table [rules.other_work])",
        ),
        (
            {"timezone": "Mars/Olympus"},
            "timezone = 'Mars/Olympus': no time zone is called 'Mars/Olympus'; use a name such as UTC or Europe/Berlin "
            "(at the top, above all tables)",
        ),
        (
            {"slurm": {"windw_days": 1}},
            "slurm.windw_days: no such setting; did you mean window_days? (in the table [slurm])",
        ),
    ],
)
def test_mistake_names_setting_error_allowed_values_and_place(values: dict[str, Any], line: str) -> None:
    assert output(values) == line


def test_value_of_another_type_is_reported_with_the_right_type() -> None:
    line = output({"slurm": {"rest_version": "41"}})
    assert line.startswith("slurm.rest_version = (not shown")
    assert r"not of the form that is allowed; allowed: text in quotes that matches ^0\.0\.\d{1,3}$" in line


def settings_of(model: type[BaseModel], *above: str) -> Iterator[tuple[str, ...]]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from settings_of(field.annotation, *above, name)
        else:
            yield (*above, name)


def test_every_setting_declares_what_is_allowed() -> None:
    every = list(settings_of(config.Config))
    assert len(every) > 50
    assert [name for name in every if not allowed(name, config.Config)] == []


def test_true_is_no_number_in_any_setting() -> None:
    checked = 0
    for name in settings_of(config.Config):
        allowed_here = allowed(name, config.Config) or ""
        if "number" not in allowed_here or "true" in allowed_here:
            continue
        values: Any = True
        for part in reversed(name):
            values = {part: values}
        with pytest.raises(ConfigError, match="true is not a number"):
            config.parse(typing.cast("dict[str, Any]", values), origin="x")
        checked += 1
    assert checked > 10
    with pytest.raises(ConfigError, match="true is not a number"):
        config.parse({"cost": {"prices": [{"per_gpu_hour": True}]}}, origin="x")


def test_no_wrong_value_is_answered_in_pydantics_words() -> None:
    for name in settings_of(config.Config):
        values: Any = [{}]  # a list with a table in it fits no setting
        for part in reversed(name):
            values = {part: values}
        with pytest.raises(ConfigError) as caught:
            config.parse(typing.cast("dict[str, Any]", values), origin="x")
        assert "Input should" not in str(caught.value), name


def test_mistakes_in_a_list_of_tables_name_its_settings() -> None:
    prices = [{"gpu_modl": "h100", "per_gpu_hour": -1}, {"since": "tomorrow", "per_gpu_hour": 2}]
    with pytest.raises(ConfigError) as refused:
        config.parse({"cost": {"prices": prices, "grid": [{}]}}, origin="x")
    lines = [line.strip() for line in str(refused.value).splitlines()[1:]]
    assert sorted(lines) == [
        "cost.grid.0.kg_per_kwh: missing; allowed: a number, at least 0 (in the table [cost])",
        "cost.prices.0.gpu_modl: no such setting; did you mean gpu_model? (in the table [cost])",
        "cost.prices.0.per_gpu_hour = -1: too small; allowed: a number, at least 0 (in the table [cost])",
        "cost.prices.1.since = 'tomorrow': no date; allowed: a date: 2026-10-01 (in the table [cost])",
    ]
