"""Rules that turn exported metrics into health events: data in `ingest/prometheus/health/rules.toml`, read here.

    [[rule]]
    names = ["node_infiniband_link_downed_total"]
    event = "increase"
    kind = "ib"
    code = "link_downed"
    severity = "critical"
    description = "an InfiniBand link went down"

Kinds of events:

- `increase`: a counter grew by `at_least`, within an interval of `within_s` seconds (they begin at the epoch). One that
  restarted counts from 0, unless `restarts = "ignored"`. While the increase continues, interval after interval, it is
  reported once every `again_s` seconds.
- `level`: a gauge is `above` or `below` a number, or `other_than` one, or has one of the bits of `bits` set, and was
  not before. Sticky values are reported once; those that come and go within `quiet_s` once an hour.
- `fall`: a gauge is less than before.
- `share`: a counter of time (`unit_s` seconds each) grew for at least a `share` of an interval of `within_s` seconds.
- `gone`: a series is not read any more, while its exporter's others are.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from ingest.prometheus.series.labels import NODE_LABELS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Event = Literal["increase", "level", "fall", "share", "gone"]
Severity = Literal["critical", "warning", "info"]

LONGEST_S: Final = 600
"""Longest interval in seconds; with a longer one the lookback would not include the interval before."""

DCGM: Final = "DCGM_"
"""How the names of metrics of GPUs begin."""


class RuleError(ValueError):
    """An invalid rule; the message names it and the valid form."""


@dataclass(frozen=True)
class Rule:
    """One kind of fault and its detection. Several exported names may show the same (`kind` and `code`).

    Attributes:
        names: metrics, as exported.
        event: kind of detection (see the module).
        kind: as `health_events.kind`.
        code: as `health_events.code`, where no label has it (`code_from`).
        severity: critical where it may have ended a job.
        description: the event in words.
        action: the recommended action.
        kind_of_cause: as `health_events.class`: HW, NETWORK, FILESYSTEM or NODE. A prior, not a fact.
        where: labels and what their values must match (regular expressions, whole); series without the label have "".
        device: labels that, joined by `/`, name the faulty device of the node.
        code_from: label that is the code; a series without it has `code`, and is refused if that is empty.
        node_labels: labels that may name the node; the first that is not empty counts.
        at_least: increase that counts.
        within_s: length of an interval.
        again_s: seconds after which a continuing event is reported again.
        restarts: the count since a restart is reported, or `ignored`. With the latter an increase across a gap of
            GONE_S is ignored, too: the counter may have restarted and passed its old value.
        above, below, other_than, bits: condition of a bad gauge; bits as in a mask.
        quiet_s: a fault that came and went within that time before is not reported again.
        share: share of an interval.
        unit_s: seconds in one of the counter of time.
        appears: the series exists only while (or after) it is bad: when it appears, it was good before.
        found: report, as information, a value that is bad at the first reading.
    """

    names: tuple[str, ...]
    event: Event
    kind: str
    code: str
    severity: Severity
    description: str
    action: str | None = None
    kind_of_cause: str = "HW"
    where: tuple[tuple[str, str], ...] = ()
    device: tuple[str, ...] = ()
    code_from: str = ""
    node_labels: tuple[str, ...] = NODE_LABELS
    at_least: float = 1.0
    within_s: int = 60
    again_s: int = 3600
    restarts: Literal["counted", "ignored"] = "counted"
    above: float | None = None
    below: float | None = None
    other_than: float | None = None
    bits: int | None = None
    quiet_s: int = 0
    share: float = 1.0
    unit_s: float = 1e-9
    appears: bool = False
    found: bool = True

    @property
    def of_gpus(self) -> bool:
        """Whether its series name a GPU."""
        return self.names[0].startswith(DCGM)

    def fits(self, labels: Mapping[str, str]) -> bool:
        """Whether it matches a series with these labels (of one of its metrics)."""
        return all(_pattern(pattern).fullmatch(labels.get(label, "")) for label, pattern in self.where)


@cache
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.DOTALL)


@cache
def builtin() -> tuple[Rule, ...]:
    """The rules that come with Trackside."""
    file = resources.files("ingest") / "prometheus" / "health" / "rules.toml"
    rules_file = tomllib.loads(file.read_text(encoding="utf-8"))
    return tuple(
        parse_rule(entry, origin=f"health_rules.toml, rule {n}") for n, entry in enumerate(rules_file["rule"], 1)
    )


def names(rules: Iterable[Rule]) -> tuple[str, ...]:
    """Exported names, each once, in order."""
    return tuple(dict.fromkeys(name for rule in rules for name in rule.names))


_LISTS: Final = ("names", "device", "node_labels")
_FIELDS: Final = frozenset(Rule.__dataclass_fields__) - {"kind_of_cause"} | {"class"}


def parse_rule(entry: dict[str, Any], *, origin: str) -> Rule:
    """One rule, from an entry of the file.

    Raises:
        RuleError: it is invalid.
    """
    unknown = sorted(entry.keys() - _FIELDS)
    if unknown:
        raise RuleError(f"{origin}: {', '.join(unknown)}: no such key; the keys are {', '.join(sorted(_FIELDS))}")
    missing = [key for key in ("names", "event", "kind", "severity", "description") if not entry.get(key)]
    if missing:
        raise RuleError(f"{origin}: {', '.join(missing)} required")
    if entry["event"] not in get_args(Event) or entry["severity"] not in get_args(Severity):
        raise RuleError(
            f"{origin}: event is one of {', '.join(get_args(Event))}, severity one of {', '.join(get_args(Severity))}"
        )
    if not entry.get("code") and not entry.get("code_from"):
        raise RuleError(f"{origin}: code or code_from is required")
    if len({name.startswith(DCGM) for name in entry["names"]}) > 1:
        raise RuleError(f"{origin}: metrics of GPUs ({DCGM}...) and of nodes need separate rules")
    bad = [key for key in ("above", "below", "other_than", "bits") if key in entry]
    if (entry["event"] == "level") != (len(bad) == 1):
        raise RuleError(f"{origin}: one of above, below, other_than and bits is required: when a level is bad")
    if not 0 < entry.get("within_s", 60) <= LONGEST_S:
        raise RuleError(f"{origin}: within_s is at most {LONGEST_S}")
    rest = {key: value for key, value in entry.items() if key not in {*_LISTS, "where", "class"}}
    rest |= {key: tuple(entry[key]) for key in _LISTS if key in entry}
    rest |= {"kind_of_cause": entry["class"]} if "class" in entry else {}
    return Rule(**{"code": ""} | rest, where=tuple(sorted(entry.get("where", {}).items())))
