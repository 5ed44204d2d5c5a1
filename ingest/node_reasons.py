"""Rules for reasons of node states: data in `ingest/node_reasons.toml`, read here.

Slurm's reasons and Kubernetes' conditions and taints are free text. They decide no key, only the actor, the stage of
the node's life, and the cause, each of which may remain unknown.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

Driver: TypeAlias = Literal["kubernetes", "slurm", "health_check", "person"]
Stage: TypeAlias = Literal["triage", "reboot", "replacement", "verification"]

CAUSES: Final = frozenset(
    (
        "maintenance",
        "not_responding",
        "reboot",
        "gpu",
        "network",
        "storage",
        "memory",
        "software",
        "configuration",
        "check",
    )
)
"""Possible causes by the words of a reason."""

_VALUES: Final = {"by": frozenset(get_args(Driver)), "stage": frozenset(get_args(Stage)), "cause": CAUSES}
_SLURM_ITSELF: Final = re.compile(r"(root|slurm)?(\(\d+\))?")


class ReasonRuleError(ValueError):
    """An invalid rule; the message names it."""


@dataclass(frozen=True)
class ReasonRule:
    """Words of a reason, and their meaning.

    Attributes:
        pattern: regular expression searched in the reason.
        meaning: `by`, `stage` and `cause`, those that it has.
        source: origin of the words.
    """

    pattern: re.Pattern[str]
    meaning: dict[str, str]
    source: str


class ReasonMeaning(NamedTuple):
    """The meaning of a reason; None where it is unknown."""

    by: str | None
    stage: str | None
    cause: str | None


def parse_rule(entry: dict[str, Any], *, origin: str) -> ReasonRule:
    """A rule from its table.

    Raises:
        ReasonRuleError: it is invalid.
    """
    meaning = {name: value for name, value in entry.items() if name in _VALUES}
    unknown = set(entry) - set(_VALUES) - {"pattern", "source"}
    wrong = [f"{name} = {value!r}" for name, value in meaning.items() if value not in _VALUES[name]]
    if unknown or wrong or not meaning or not isinstance(entry.get("pattern"), str) or not entry.get("source"):
        what = ", ".join((*sorted(unknown), *wrong)) or "it needs a pattern, a source and one of by, stage and cause"
        raise ReasonRuleError(f"{origin}: {what}")
    try:
        return ReasonRule(re.compile(entry["pattern"], re.IGNORECASE), meaning, entry["source"])
    except re.error as error:
        raise ReasonRuleError(f"{origin}: {entry['pattern']!r} is not a regular expression: {error}") from None


@cache
def rules() -> tuple[ReasonRule, ...]:
    """All rules, in their order."""
    text = (resources.files("ingest") / "node_reasons.toml").read_text("utf-8")
    entries = tomllib.loads(text)["rule"]
    return tuple(parse_rule(entry, origin=f"node_reasons.toml, rule {n}") for n, entry in enumerate(entries, 1))


def meaning_of(reason: str | None, actor: str | None = None) -> ReasonMeaning:
    """The meaning of a reason and of the account that set it.

    Reasons of a site's own tools cannot be recognised: the actor of a reason set by root or slurm is unknown. The
    meaning does not show whether the state was planned: Kubernetes cordons for upgrades and for faults.

    >>> meaning_of("k8s: cordon: GPU gone")
    ReasonMeaning(by='kubernetes', stage=None, cause='gpu')
    >>> meaning_of("[node_problem] ib"), meaning_of("x", "root(0)")
    (ReasonMeaning(by='health_check', stage=None, cause='network'), ReasonMeaning(by=None, stage=None, cause=None))
    >>> meaning_of("replace dimm", "bob(1001)")
    ReasonMeaning(by='person', stage='replacement', cause='memory')
    """
    text = (reason or "").strip()
    found: dict[str, str] = {}
    for rule in rules():
        if len(found) < len(_VALUES) and rule.meaning.keys() - found.keys() and rule.pattern.search(text):
            found = rule.meaning | found
    person = None if _SLURM_ITSELF.fullmatch(actor or "") else "person"
    return ReasonMeaning(found.get("by", person), found.get("stage"), found.get("cause"))


def driver(reason: str | None, actor: str | None = None) -> str | None:
    """The actor that took a node out of service: Kubernetes, a health check, Slurm itself, a person; None: unknown.

    >>> [driver(reason) for reason in ("k8s: cordon: GPU gone", "Not responding", "[node_problem] ib", "x")]
    ['kubernetes', 'slurm', 'health_check', None]
    """
    return meaning_of(reason, actor).by
