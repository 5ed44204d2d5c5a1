"""The claims file of a bundle: as it was, with pseudonyms in place of names, and its calendars beside it."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, Any

from app.claims.file import claims_text, read_contract
from app.config import toml_file
from app.errors import UsageError
from app.json_text import as_json
from app.reports.bundle.names import TOKEN

if TYPE_CHECKING:
    from pathlib import Path

    from app.claims.contract import Contract
    from app.reports.bundle.names import Pseudonyms
    from metrics.claims.claim import Exclusion

FILE = "claims.toml"

Values = dict[str, Any]

_SCOPE = {"partition": "partition", "account": "account", "user": "user"}
_TEXTS = ("quoted", "read_as", "reason")


def patterns(contract: Contract) -> tuple[list[str], list[str]]:
    """The patterns of nodes and of runs that the claims and their calendars name, each once, in a fixed order."""
    nodes = [each.scope.nodes for each in contract.claims]
    nodes += [one.nodes for each in contract.claims for one in each.exclusions]
    nodes += [one.nodes for each in contract.calendars for one in each.events]
    runs = [each.runs for each in contract.claims]
    return sorted({each for each in nodes if each}), sorted({each for each in runs if each})


def claims_files(path: Path | None, names: Pseudonyms, known: dict[str, set[str]]) -> dict[str, bytes]:
    """The claims file and its calendars as the bundle has them, by their names there.

    Args:
        path: the claims file; None: the vendor's headlines.
        names: gives pseudonyms; it must have the patterns already.
        known: names by kind, to be replaced in texts.

    Raises:
        ClaimsError: mistakes in the claims.
        UsageError: the id of a claim contains a name of the cluster.
    """
    contract = read_contract(path)
    values = toml_file.parse(claims_text(path))
    _refuse_ids(values, known)
    calendars = {f"maintenance-{number}.ics": each for number, each in enumerate(contract.calendars, 1)}
    own = _value(values, "", names, known)
    if calendars:
        own["contract"]["maintenance"] = list(calendars)
    files = {FILE: _toml(own).encode()}
    return files | {name: _calendar(each.events, names, known) for name, each in calendars.items()}


def _refuse_ids(values: Values, known: dict[str, set[str]]) -> None:
    names = known["user"] | known["node"] | known["person"]
    for claim in values["claim"]:
        found = [each for each in TOKEN.findall(claim["id"]) if each in names]
        if found:
            raise UsageError(f"the id of the claim {claim['id']!r} names {found[0]!r}: the bundle would; change the id")


def _value(value: Any, key: str, names: Pseudonyms, known: dict[str, set[str]]) -> Any:  # noqa: ANN401 - a value of TOML
    if isinstance(value, dict):
        return {name: _value(item, name, names, known) for name, item in value.items()}
    if isinstance(value, list):
        return [_value(item, key, names, known) for item in value]
    if not isinstance(value, str):
        return value
    if key in _SCOPE:
        return names.of(_SCOPE[key], value)
    if key in {"nodes", "runs"}:
        return names.pattern(key.removesuffix("s"), value)
    return names.in_text(value, known) if key in _TEXTS else value


# TOML ------------------------------------------------------------------------------------------------------------


def _toml(values: Values) -> str:
    """A claims file: one table `contract`, then the claims."""
    lines = ["# The claims as they were judged, with pseudonyms in place of names.", ""]
    if "contract" in values:
        lines += ["[contract]", *_keys(values["contract"]), ""]
    for claim in values["claim"]:
        lines += ["[[claim]]", *_keys(claim), ""]
    return "\n".join(lines)


def _keys(values: Values) -> list[str]:
    return [f"{key} = {_literal(value)}" for key, value in values.items()]


def _literal(value: object) -> str:
    r"""A value as TOML has it.

    >>> _literal({"a": [1, 0.5, True], "b": 'x"y'})
    '{ a = [1, 0.5, true], b = "x\\"y" }'
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return f"{{ {', '.join(_keys(value))} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (int, float)):
        return repr(value)
    return as_json(str(value)).replace("\x7f", "\\u007f")


# Calendars -------------------------------------------------------------------------------------------------------


def _calendar(events: tuple[Exclusion, ...], names: Pseudonyms, known: dict[str, set[str]]) -> bytes:
    """The events one by one: what repeated is written out, and what was cancelled is left out."""
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Trackside//evidence//EN"]
    for number, event in enumerate(events, 1):
        if event.since is None or event.until is None:
            continue
        summary = names.in_text(event.reason, known)
        lines += ["BEGIN:VEVENT", f"UID:{number}", f"DTSTART:{_stamp(event.since)}", f"DTEND:{_stamp(event.until)}"]
        lines += [f"SUMMARY:{_escaped(summary)}"]
        lines += [f"X-TRACKSIDE-NODES:{_escaped(names.pattern('node', event.nodes))}"] if event.nodes else []
        lines += ["END:VEVENT"]
    return "\r\n".join([*lines, "END:VCALENDAR", ""]).encode()


def _stamp(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def _escaped(text: str) -> str:
    for plain, escaped in (("\\", "\\\\"), (";", "\\;"), (",", "\\,"), ("\n", "\\n"), ("\r", "")):
        text = text.replace(plain, escaped)
    return text
