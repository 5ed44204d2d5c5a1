"""The metrics and labels that an expression of PromQL names, found by its words alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class ExpressionNames:
    """Names in an expression: metrics with the labels matched on them, labels of groupings and joins, new ones."""

    matched: tuple[tuple[str, frozenset[str]], ...]
    grouped: frozenset[str]
    made: frozenset[str] = frozenset()


_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|`[^`]*`|\[[^\]]*\]|[A-Za-z_:][\w:]*|[0-9][\w.]*|[^\s]')
_LABELLING = frozenset(("label_replace", "label_join", "count_values"))
_GROUPING = frozenset(("by", "without", "on", "ignoring", "group_left", "group_right"))
_KEYWORDS = frozenset(("and", "or", "unless", "bool", "offset", "inf", "nan", "atan2", "start", "end")) | _GROUPING


def names(expr: str) -> ExpressionNames:
    """The metrics and labels that an expression names, by its words alone: no grammar is needed for that.

    >>> found = names('sum by (state) (trackside_gpus{cluster="a"}) / 3600')
    >>> found.matched, found.grouped, found.made
    ((('trackside_gpus', frozenset({'cluster'})),), frozenset({'state'}), frozenset())
    """
    tokens = [*_TOKEN.findall(expr), ""]
    matched: list[tuple[str, frozenset[str]]] = []
    grouped: set[str] = set()
    at = 0
    while at < len(tokens) - 1:
        word, following = tokens[at], tokens[at + 1]
        if word == "{" or (_is_name(word) and following == "{"):
            opened = at if word == "{" else at + 1
            closed = _index(tokens, "}", opened)
            inside = tokens[opened:closed]
            labels = {label for label, sign in pairwise(inside) if _is_name(label) and sign in {"=", "!"}}
            matched.append(("" if word == "{" else word, frozenset(labels)))
            at = closed
        elif word in _GROUPING and following == "(":
            closed = _index(tokens, ")", at)
            grouped |= {each for each in tokens[at + 2 : closed] if _is_name(each)}
            at = closed
        elif _is_name(word) and word not in _KEYWORDS and following != "(" and not _aggregates(word, following):
            matched.append((word, frozenset()))
        at += 1
    return ExpressionNames(tuple(matched), frozenset(grouped), frozenset(_made(tokens)))


def _made(tokens: list[str]) -> Iterator[str]:
    """Labels that functions make: of each, the first text between its own brackets."""
    for start, word in enumerate(tokens):
        depth = 0
        for each in tokens[start + 1 :] if word in _LABELLING else ():
            depth += {"(": 1, ")": -1}.get(each, 0)
            if depth == 1 and each[:1] in set("\"'`"):
                yield each[1:-1]
                break


def _is_name(token: str) -> bool:
    return bool(re.fullmatch(r"[A-Za-z_:][\w:]*", token))


def _aggregates(word: str, following: str) -> bool:
    """Whether it is the `sum` of `sum by (...)`, which no bracket follows at once."""
    return following in {"by", "without"} and word in {
        "sum", "min", "max", "avg", "count", "group", "stddev", "stdvar", "topk", "bottomk", "quantile", "count_values",
    }  # fmt: skip


def _index(tokens: list[str], token: str, start: int) -> int:
    return tokens.index(token, start) if token in tokens[start:] else len(tokens) - 1
