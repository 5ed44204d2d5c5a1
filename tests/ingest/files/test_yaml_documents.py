"""YAML of anyone: the values that JSON has, or an error that says where; never a program, never without end."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ingest.errors import InputError
from ingest.files.yaml_documents import documents

SCALARS = st.none() | st.booleans() | st.integers(-(10**17), 10**17) | st.floats(-1e9, 1e9).map(lambda x: round(x, 3))
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cn", "Co", "Zl", "Zp")), max_size=12)
VALUES = st.recursive(
    SCALARS | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(TEXTS.filter(lambda key: key != "<<"), inner, max_size=4)
    ),
    max_leaves=20,
)


def read(text: str | bytes) -> list[object]:
    return list(documents(text if isinstance(text, bytes) else text.encode(), origin="o.yaml"))


@given(st.lists(VALUES.filter(lambda value: value is not None), max_size=3))
def test_yaml_that_json_wrote_is_the_same(values: list[object]) -> None:
    assert read("".join(f"---\n{json.dumps(value, ensure_ascii=False)}\n" for value in values)) == values


@given(st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), VALUES, max_size=4))
def test_yaml_block_style_is_the_same(value: dict[str, object]) -> None:
    assert read(yaml.safe_dump(value, default_flow_style=False, allow_unicode=True)) == [value]


@given(st.binary(max_size=300))
def test_yaml_of_random_bytes_ends(data: bytes) -> None:
    try:
        found = read(data)
    except InputError as error:
        found = [str(error)]
    assert all(isinstance(value, str | int | float | bool | list | dict | None) for value in found)
    json.dumps(found)


def test_yaml_as_kubectl_writes_it() -> None:
    text = """\
apiVersion: v1
items:
- metadata:
    annotations: {"on": "yes", note: no}
    creationTimestamp: "2026-10-01T08:00:00Z"
    since: 2026-10-01T08:00:00Z
    labels: {version: 1.10}
  spec:
    command: ["sh", -c]
    script: |
      line 1
      line 2
    nothing:
kind: List
"""
    (found,) = read(text)
    assert found == {
        "apiVersion": "v1",
        "items": [
            {
                "metadata": {
                    "annotations": {"on": "yes", "note": "no"},
                    "creationTimestamp": "2026-10-01T08:00:00Z",
                    "since": "2026-10-01T08:00:00Z",
                    "labels": {"version": 1.1},
                },
                "spec": {"command": ["sh", "-c"], "script": "line 1\nline 2\n", "nothing": None},
            }
        ],
        "kind": "List",
    }


def test_yaml_aliases_and_merges_are_resolved() -> None:
    assert read("a: &x {p: 1, q: 2}\nb: {<<: *x, q: 3}\nc: *x\n<<: 5\n") == [
        {"a": {"p": 1, "q": 2}, "b": {"p": 1, "q": 3}, "c": {"p": 1, "q": 2}, "<<": 5}
    ]


def test_yaml_bomb_of_aliases_is_refused() -> None:
    levels = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 12))
    with pytest.raises(InputError, match="aliases expand to more than 1,000,000 values"):
        read("l0: &l0 lol\n" + levels)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: &x [*x]", "refers to nothing, or to itself"),
        ("!!python/object/apply:os.system [id]", "none of YAML's own"),
        ("[" * 200, "within each other"),
        ("[" * 100_000, "o.yaml: "),
        ("a: b\n c: [", "from line 2 on"),
        ("? [1]\n: 2", "a key that is a list"),
        ("a\x00b", "not YAML"),
    ],
)
def test_yaml_refused_says_where_and_why(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read(text)


def test_yaml_documents_before_a_damaged_one_count() -> None:
    found = documents(b"a: 1\n---\nb: 2\n---\nc: [", origin="o.yaml")
    assert [next(found), next(found)] == [{"a": 1}, {"b": 2}]
    with pytest.raises(InputError, match="from line"):
        next(found)


def test_yaml_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.files.yaml_documents.LARGEST", 10)
    with pytest.raises(InputError, match="write it as JSON"):
        read("a: 12345678")
