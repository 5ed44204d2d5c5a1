"""Text formats as data: the examples of each entry are read as they say, and a mistaken entry is named."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ingest.runlog.formats.text.examples import given, mistakes
from ingest.runlog.formats.text.scan import scan_lines
from ingest.runlog.text_format import Example, FormatError, TextFormat, builtin, parse_format, with_builtin

EXAMPLES = [(form, example) for form in builtin() for example in form.examples]


@pytest.mark.slow
@pytest.mark.parametrize(("form", "example"), EXAMPLES, ids=lambda each: each.name if hasattr(each, "name") else "")
def test_examples_give_what_they_say(form: TextFormat, example: Example) -> None:
    came = given(form, example.text)
    names = {*example.gives, "kind", *(["event"] if "event" in came else [])}
    assert {name: came.get(name) for name in names} == dict(example.gives)


@pytest.mark.slow
@pytest.mark.parametrize("form", builtin(), ids=lambda form: form.name)
def test_builtin_formats_have_no_mistaken_example(form: TextFormat) -> None:
    assert list(mistakes(form)) == []


@pytest.mark.slow
@pytest.mark.parametrize("form", builtin(), ids=lambda form: form.name)
def test_step_examples_are_read_by_their_format_only(form: TextFormat) -> None:
    texts = [one.text for one in form.examples if one.gives["kind"] == "step"]
    assert texts
    for other in builtin():
        shown = [other.lines[row].kind for text in texts for row in scan_lines(other, text + "\n").records()["kind"]]
        assert ("step" in shown) == (other is form)


OWN: dict[str, Any] = {
    "name": "mine",
    "line": [{"kind": "step", "starts": r"step \d+ \|", "ends": r"\|$", "fields": {"step": r"step (\d+)"}}],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "name is ''; write a short name"),
        ({"colour": 1}, "colour: no such key; the keys are name, title, line"),
        ({"line": []}, r"line is \[\]; write \[\[line\]\] tables"),
        ({"line": [{"kind": "stop", "starts": "x"}]}, "kind is 'stop'; write one of step, start"),
        ({"line": [{"kind": "step"}]}, "line 1: starts is missing; write a regular expression"),
        ({"line": [{"kind": "start", "starts": "x"}]}, 'no line is of kind "step"'),
        (
            {"line": [{"kind": "step", "starts": "("}]},
            r"starts is '\(', which is no regular expression .*unclosed group",
        ),
        ({"line": [{"kind": "step", "starts": "x", "fields": {"step": "x"}}]}, "step is 'x', which has no group"),
        (
            {"line": [{"kind": "step", "starts": "x", "fields": {"step": "(x)", "epoch": "(x)"}}]},
            "needs steps_per_epoch and one of epoch",
        ),
        ({"line": [{"kind": "step", "starts": "x", "fields": {"stop": "(x)"}}]}, "stop: no such field; the fields are"),
        (
            {"line": [{"kind": "step", "starts": "x", "needs": ["step"]}]},
            "needs the field step, which is not in fields",
        ),
        ({"line": [{"kind": "step", "starts": "x"}]}, "line 1: a step has no number; add its pattern"),
        ({"line": [{"kind": "end", "starts": "x"}]}, "event is missing; write what begins or ends"),
    ],
)
def test_mistakes_in_an_entry_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        parse_format(OWN | change, origin="here")


TEXT = "2026-10-01 08:00:02 step 7 | 4,096 tokens | took 1900 ms |"
MINE = OWN | {
    "line": [
        {
            "kind": "step",
            "starts": r"step \d+ \|",
            "ends": r"\|$",
            "needs": ["duration_ms"],
            "fields": {"step": r"step (\d+)", "tokens": r"([\d,]+) tokens", "duration_ms": r"took ([\d.]+) ms"},
        },
        {"kind": "facts", "starts": "^model ", "fields": {"params": r"with ([\d,]+) parameters"}},
    ]
}


@pytest.mark.parametrize(
    ("text", "gives", "found"),
    [
        (TEXT, {"step": 7, "tokens": 4096, "duration_s": 1.9}, None),
        (TEXT, {"kind": "step", "duration_ms": 1900}, None),
        (TEXT, {}, None),
        ("model m with 8,030,261,248 parameters", {"params": 8030261248}, None),
        (TEXT, {"step": 8}, "expected step = 8, but step = 7 came of it: '2026-10-01 08:00:02 step 7 |"),
        (TEXT, {"step": 7, "loss": 2.5}, "expected loss = 2.5, but no loss came of it"),
        (TEXT, {"kind": "facts"}, "expected kind = 'facts', but kind = 'step' came of it"),
        ("step 7 |", {"step": 7}, r"expected step = 7, but damaged line .* no duration_ms in it: 'step 7 |'"),
        (
            "stage 7 |",
            {"step": 7},
            r"expected step = 7, but no line reads it: `starts` of none of the lines 1 \(step\)",
        ),
        (f"{TEXT}\n{TEXT}", {"step": 7}, "but 2 lines of it are read; an example has one"),
    ],
)
def test_an_example_is_compared_with_what_it_gives(text: str, gives: dict[str, Any], found: str | None) -> None:
    form = parse_format(MINE | {"example": [{"text": text, "gives": gives}]}, origin="here")
    wrong = list(mistakes(form))
    if found is None:
        assert wrong == []
    else:
        [one] = wrong
        assert re.match(f"example 1: .*{found}", one), one


def test_an_example_without_a_word_of_its_format_is_mistaken() -> None:
    form = parse_format(MINE | {"words": ["iteration"], "example": [{"text": TEXT}]}, origin="here")
    assert re.match(r"example 1: none of the words \(iteration\) is in it", next(iter(mistakes(form))))


def test_an_own_format_replaces_one_of_its_name() -> None:
    own = parse_format(OWN | {"name": "nemo"}, origin="here")
    names = [form.name for form in with_builtin([own])]
    assert names == ["nemo", *(form.name for form in builtin() if form.name != "nemo")]
