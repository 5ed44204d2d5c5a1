"""YAML documents as JSON values: the only reader of YAML, for untrusted input.

Plain values are read by YAML 1.2's core schema, as `kubectl -o yaml` writes it: `yes` and `on` are text, a time stays
text. Keys become text. Only the parser of PyYAML is used, and none of its constructors, so tags cannot call code. The
expansion of aliases is bounded, and so are depth and size.

A list that was cut off between two items is valid YAML: the text does not show the cut.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import yaml

from ingest.errors import InputError, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGEST: Final = 1 << 28
"""Bytes of an input; JSON is read in a tenth of the time."""

DEEPEST: Final = 100
"""Lists and mappings within each other; the deepest objects of Kubernetes have some 30."""

ALIASED: Final = 1_000_000
"""Values that all aliases of an input may stand for: nine lines of them can stand for billions."""

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG: Final = "tag:yaml.org,2002:"
_TEXT: Final = frozenset({"!", _TAG + "str", _TAG + "binary", _TAG + "timestamp"})
_KNOWN: Final = frozenset(
    {None, *_TEXT, *(_TAG + name for name in ("map", "seq", "null", "bool", "int", "float", "merge"))}
)
_WORDS: Final = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INT: Final = re.compile(r"[-+]?\d{1,18}|0x[0-9a-fA-F]{1,15}|0o[0-7]{1,20}")
_FLOAT: Final = re.compile(r"[-+]?(\.\d{1,40}|\d{1,40}(\.\d{0,40})?)([eE][-+]?\d{1,2})?")
_BASES: Final = {"0x": 16, "0o": 8}


def documents(data: bytes, *, origin: str) -> Iterator[Any]:
    r"""Every document of a YAML text (UTF-8, or UTF-16 with its mark), as it is read: those before a damaged one count.

    >>> list(documents(b"kind: Pod\nready: [yes, 2026-10-01]\n---\n{1: 2.5, a: ~}", origin="pods.yaml"))
    [{'kind': 'Pod', 'ready': ['yes', '2026-10-01']}, {'1': 2.5, 'a': None}]

    Raises:
        InputError: it is no YAML from some line on, too large or too deep, has an alias within itself, aliases without
            end, or a tag of a program.
    """
    if len(data) > LARGEST:
        message = f"{origin}: more than {LARGEST >> 20} MiB of YAML; write it as JSON (-o json), which is read faster"
        raise InputError(message)
    try:
        yield from _documents(yaml.parse(data, Loader=_LOADER), origin)
    except (yaml.YAMLError, RecursionError, UnicodeError) as error:
        raise InputError(f"{origin}: {_where(error)}") from None


def _where(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error) or "nested without end"
    return f"not YAML{'' if mark is None else f' from line {mark.line + 1} on'}: {shorten(str(what))}"


@dataclass
class _OpenCollection:
    """A list or mapping that is being read.

    Attributes:
        value: its content so far.
        anchor: its name in aliases.
        began: number of values before it.
        key: of a mapping: the key of the next value.
        merged: of a mapping: values from `<<` for keys that it lacks.
    """

    value: list[Any] | dict[str, Any]
    anchor: str | None
    began: int
    key: str | None = None
    merged: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class _Document:
    """A document that is being read. `anchors` are values by name, with the number of values in each."""

    root: Any = None
    open: list[_OpenCollection] = field(default_factory=list)
    anchors: dict[str, tuple[Any, int]] = field(default_factory=dict)
    count: int = 0

    def scalar(self, event: yaml.ScalarEvent) -> None:
        is_plain = event.implicit[0] if event.tag is None else event.tag not in _TEXT
        value = plain(event.value) if is_plain else event.value
        self.count += 1
        if event.anchor:
            self.anchors[event.anchor] = (value, 1)
        self.put(value, event.value)

    def begin(self, value: list[Any] | dict[str, Any], anchor: str | None) -> None:
        if len(self.open) >= DEEPEST:
            message = f"more than {DEEPEST} lists and mappings within each other"
            raise yaml.YAMLError(message)
        self.open.append(_OpenCollection(value, anchor, self.count))
        self.count += 1

    def end(self) -> None:
        done = self.open.pop()
        if isinstance(done.value, dict):
            for other in done.merged:
                done.value.update({key: value for key, value in other.items() if key not in done.value})
        if done.anchor:
            self.anchors[done.anchor] = (done.value, self.count - done.began)
        self.put(done.value, None)

    def alias(self, name: str | None) -> int:
        """Add the value of an alias; returns its number of values."""
        if name is None or name not in self.anchors:
            message = f"the alias *{name} refers to nothing, or to itself"
            raise yaml.YAMLError(message)
        value, size = self.anchors[name]
        self.count += size
        self.put(value, None if isinstance(value, list | dict) else str(value))
        return size

    def put(self, value: Any, text: str | None) -> None:  # noqa: ANN401 - any value of JSON
        """Add a value at the current place of the document; `text` is its form as a key."""
        if not self.open:
            self.root = value
            return
        place = self.open[-1]
        if isinstance(place.value, list):
            place.value.append(value)
        elif place.key is None:
            if text is None:
                raise yaml.YAMLError("a key that is a list or a mapping")
            place.key = text
        else:
            key, place.key = place.key, None
            others = value if isinstance(value, list) else [value]
            if key == "<<" and others and all(isinstance(other, dict) for other in others):
                place.merged += others
            else:
                place.value[key] = value


def _documents(events: Iterator[yaml.Event], origin: str) -> Iterator[Any]:
    document, aliased = _Document(), 0
    for event in events:
        tag = getattr(event, "tag", None)
        if tag not in _KNOWN:
            message = f"{origin}: the tag {shorten(str(tag))} is none of YAML's own; only plain values are read"
            raise InputError(message)
        match event:
            case yaml.ScalarEvent():
                document.scalar(event)
            case yaml.MappingStartEvent():
                document.begin({}, event.anchor)
            case yaml.SequenceStartEvent():
                document.begin([], event.anchor)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                document.end()
            case yaml.AliasEvent():
                aliased += document.alias(event.anchor)
                if aliased > ALIASED:
                    message = f"its aliases expand to more than {ALIASED:,} values"
                    raise yaml.YAMLError(message)
            case yaml.DocumentEndEvent():
                yield document.root
                document = _Document()


def plain(text: str) -> str | float | bool | None:
    """A plain value by the core schema of YAML 1.2; a number that JSON's readers could not hold stays text.

    >>> [plain(text) for text in ("~", "true", "yes", "0x10", "-3", "1e3", ".inf", "10:30", "1" * 40)][:8]
    [None, True, 'yes', 16, -3, 1000.0, '.inf', '10:30']
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[:1] not in "+-.0123456789":
        return text
    if _INT.fullmatch(text):
        return int(text, _BASES.get(text[:2], 10))
    return float(text) if _FLOAT.fullmatch(text) else text
