"""Text formats as data: the examples of each entry are read as they say, and a mistaken entry is named."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.runlog.formats.text.scan import scan_lines
from ingest.runlog.formats.text.timeline import facts_in
from ingest.runlog.text_format import Example, FormatError, TextFormat, builtin, parse_format, with_builtin

EXAMPLES = [(form, example) for form in builtin() for example in form.examples]


def given(form: TextFormat, example: Example) -> dict[str, Any]:
    """What a line gives, in the words of an example."""
    scanned = scan_lines(form, example.text + "\n")
    assert scanned.refused == []
    [record] = scanned.records().iter_rows(named=True)
    kind = form.lines[record["kind"]]
    values = {name: record[name] for name in example.gives if name in record and name != "kind"}
    if "duration_s" in example.gives and record["duration_s"] is None:
        values["duration_s"] = round(record["duration_ms"] / 1000, 9)
    facts = facts_in(kind, record["text"]) if kind.kind == "facts" else {}
    return values | facts | {"kind": kind.kind} | ({"event": kind.event} if kind.event else {})


@pytest.mark.parametrize(("form", "example"), EXAMPLES, ids=lambda each: each.name if hasattr(each, "name") else "")
def test_examples_give_what_they_say(form: TextFormat, example: Example) -> None:
    assert given(form, example) == dict(example.gives)


@pytest.mark.parametrize(("form", "example"), EXAMPLES, ids=lambda each: each.name if hasattr(each, "name") else "")
def test_examples_have_a_word_of_their_format(form: TextFormat, example: Example) -> None:
    assert not form.words or any(word in example.text for word in form.words)


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


def test_an_own_format_replaces_one_of_its_name() -> None:
    own = parse_format(OWN | {"name": "nemo"}, origin="here")
    names = [form.name for form in with_builtin([own])]
    assert names == ["nemo", *(form.name for form in builtin() if form.name != "nemo")]
