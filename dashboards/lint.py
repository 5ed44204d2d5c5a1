"""Checks of boards: what a server would refuse, show wrongly or show nothing for, found without a server.

Each rule is a function from a board (its JSON) to what is wrong with it. Those of Grafana's dashboard-linter that
apply are here too, written anew. Two checks need packages that only Trackside's own tests have, `jsonschema` and
promql-parser: `lint` runs without them, and `left_out` lists what it then did not check.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from importlib import util
from typing import TYPE_CHECKING

from dashboards.board_json import as_object, panels_and_rows, texts_in, title_of
from dashboards.lint_rules import content, form

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dashboards.grafana import Json

    Problems = Iterator[tuple[str, str]]
    Rule = Callable[[Json], Problems]


@dataclass(frozen=True)
class Finding:
    """A mistake in a board.

    Attributes:
        board: its uid.
        where: panel title, or part of the board.
        rule: name of the rule.
        message: what is wrong, and what is required.
    """

    board: str
    where: str
    rule: str
    message: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.board}: {self.where}: {self.message} ({self.rule})"


def lint(
    boards: Sequence[Json], *, parse: Callable[[str], object] | None = None, beside: Sequence[str] | None = None
) -> list[Finding]:
    """All that is wrong with boards that are loaded together.

    Args:
        boards: as read from JSON.
        parse: parses PromQL and raises ValueError where it cannot; None leaves the grammar unchecked.
        beside: of boards that a person made or edited, the uids of the boards that there are besides; such a board may
            have its own uid, be editable, have any panels and styles, and query series of the site's own. None: the
            boards are Trackside's, and follow its rules.
    """
    findings = []
    for board in boards:
        name = str(board.get("uid") or board.get("title") or "(a board without uid)")
        rules: dict[str, Rule] = dict(RULES if beside is None else RULES_OF_ANY)
        if parse is not None:
            rules["promql_grammar"] = partial(content.grammar, parse=parse)
        malformed = list(_shape(board))
        problems_of_rules = (
            {"shape": malformed} if malformed else {rule: _problems(check, board) for rule, check in rules.items()}
        )
        findings += [
            Finding(name, where, rule, problem)
            for rule, problems in problems_of_rules.items()
            for where, problem in problems
        ]
    return [*findings, *_together(boards, beside or ())]


def _problems(rule: Rule, board: Json) -> list[tuple[str, str]]:
    """Findings of a rule. A rule that fails on JSON that is no board's gives a finding in place of a traceback."""
    try:
        return list(rule(board))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return [("board", f"cannot be checked, it is malformed: {type(error).__name__}: {error}")]


def left_out() -> list[str]:
    """Checks that are not made here, and what would make them."""
    missing = ["the grammar of queries (Trackside's own tests parse them)"]
    if util.find_spec("jsonschema") is None:
        missing.append("Grafana's JSON schema (pip install jsonschema)")
    return missing


def _shape(board: Json) -> Problems:
    """Whether it is a board at all: the other rules rely on it."""
    listed = [
        ("panels", board.get("panels")),
        ("templating.list", as_object(board.get("templating")).get("list")),
    ]
    for name, value in listed:
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            yield name, "not a list of objects: this is no dashboard"
            return
    for each in panels_and_rows(board):
        targets = each.get("targets", [])
        if not isinstance(each.get("gridPos"), dict) or not isinstance(targets, list):
            yield title_of(each), "a panel without gridPos, or with targets that are no list"
        elif not all(isinstance(target, dict) for target in targets):
            yield title_of(each), "a target that is no object"


_BOARD_LINK = re.compile(r"/d/([^/?#$]+)")


RULES: Mapping[str, Rule] = {
    rule.__name__: rule
    for rule in (
        form.strict_schema,
        form.identity,
        form.unique_ids,
        form.grid,
        form.living_panels,
        form.complete_display,
        form.valid_ids,
        form.thresholds,
        form.data_source,
        content.targets,
        content.variables,
        content.exported_metrics,
        content.exported_values,
        content.rates,
        content.bound_sql,
        form.no_hosts,
    )
}
"""All rules for one board, by name."""


RULES_OF_ANY: Mapping[str, Rule] = {
    **{name: rule for name, rule in RULES.items() if name not in {"identity", "complete_display", "no_hosts"}},
    "exported_metrics": partial(content.exported_metrics, others=True),
    "uid_of_any": form.uid_of_any,
}
"""Rules for a board that a person made or edited: what Grafana would refuse, or show wrongly or as nothing."""


def _together(boards: Sequence[Json], beside: Sequence[str]) -> list[Finding]:
    """Mistakes between boards: a uid twice, a link to a board that does not exist."""
    uids = [str(board.get("uid")) for board in boards]
    findings = [Finding(uid, "board", "unique_uids", "another board has this uid") for uid in _twice(uids)]
    for board, uid in zip(boards, uids, strict=True):
        linked = {name for text in texts_in(board) for name in _BOARD_LINK.findall(text)}
        findings += [
            Finding(uid, "links", "links", f"no board has the uid {name!r} that it links to")
            for name in sorted(linked - {*uids, *beside})
        ]
    return findings


def _twice(values: list[str]) -> list[str]:
    return sorted({value for value in values if values.count(value) > 1})
