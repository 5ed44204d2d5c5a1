"""The claims file: TOML, parsed strictly. A key that would not be applied is refused, and all mistakes are listed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from importlib import resources
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.claims.calendars import CalendarError, read_calendar
from app.claims.contract import Contract
from app.claims.entries import ClaimEntry, ContractEntry
from app.config import mistakes as config_mistakes
from app.config import toml_file
from app.errors import ClaimsError, UsageError
from app.times import zone_of
from ingest.counted import counted
from ingest.errors import InputError
from metrics.catalog import CLAIMABLE
from queries.near_names import did_you_mean

if TYPE_CHECKING:
    from datetime import tzinfo
    from pathlib import Path

    from app.claims.calendars import Calendar
    from metrics.claims.verdict import Claim, Exclusion


class _ClaimsFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    contract: ContractEntry = ContractEntry()
    claim: tuple[ClaimEntry, ...] = Field(min_length=1)


def _location(where: tuple[int | str, ...]) -> str:
    """The place of a mistake in the file; claims and exclusions are counted from 1."""
    first, *rest = where
    number, *names = rest or [0]
    if first != "claim" or not isinstance(number, int) or not rest:
        return ".".join(map(str, where))
    return ".".join([f"claim {number + 1}", *(str(each + 1) if isinstance(each, int) else each for each in names)])


def _problem(mistake: Any) -> str:  # noqa: ANN401 - pydantic's own structure
    """The mistake, and what is allowed or was probably meant."""
    loc, value = mistake["loc"], mistake["input"]
    if mistake["type"] == "extra_forbidden":
        return f"no such key; {config_mistakes.suggestion(loc, _ClaimsFile)}"
    if loc[-1] == "metric" and isinstance(value, str):
        suggestion = did_you_mean(value, CLAIMABLE)
        return f"there is no metric {value!r}{suggestion}; there are: {', '.join(CLAIMABLE)}"
    return config_mistakes.problem(mistake, _ClaimsFile)


def claims_text(path: Path | None) -> str:
    """The text of a claims file, or of the vendor's headline claims that come with Trackside.

    Raises:
        OSError: the file cannot be read.
    """
    if path is None:
        return (resources.files("app") / "claims" / "vendor_headlines.toml").read_text("utf-8")
    return toml_file.read(path)


def read_claims(path: Path | None) -> list[Claim]:
    """Claims of a file, or the vendor's headline claims that come with Trackside.

    Raises:
        ClaimsError: the file is not there, not TOML, or has mistakes; all are listed.
    """
    return list(read_contract(path).claims)


def read_contract(path: Path | None) -> Contract:
    """Claims of a file with what a contract adds: its parties, terms, and calendars of agreed maintenance.

    Raises:
        ClaimsError: the file or a calendar is not there, or has mistakes; all are listed.
    """
    origin = "the default claims" if path is None else str(path)
    try:
        values = toml_file.parse(claims_text(path))
    except FileNotFoundError:
        raise ClaimsError(f"{origin} cannot be read: No such file or directory") from None
    except InputError as error:
        raise ClaimsError(f"the claims cannot be read: {error}") from None
    except toml_file.NotTomlError as error:
        raise ClaimsError(f"{origin} is not TOML: {error}") from None
    mistakes: list[str] = []
    try:
        entries = _ClaimsFile.model_validate(values, context={"used": set()})
    except ValidationError as error:
        entries = None
        errors = [m for m in error.errors() if m["loc"] != ("claim",) or error.error_count() == 1]
        mistakes = [f"{_location(m['loc'])}: {_problem(m)}" for m in errors]
    calendars, unreadable = _calendars(values, path)
    mistakes += unreadable
    if mistakes or entries is None:
        listed = "\n".join(f"  {each}" for each in mistakes)
        raise ClaimsError(f"{origin} has {counted(len(mistakes), 'mistake')}:\n{listed}")
    return _contract(entries, calendars)


def _calendars(values: dict[str, Any], path: Path | None) -> tuple[tuple[Calendar, ...], list[str]]:
    """The calendars that a file names, beside it where their paths are relative, and what is wrong with them."""
    contract = values.get("contract")
    named = contract.get("maintenance") if isinstance(contract, dict) else None
    if not isinstance(named, list) or path is None:
        return (), []
    zone = _zone_or_utc(contract.get("zone") if isinstance(contract, dict) else None)
    found, mistakes = [], []
    for number, name in enumerate(named, 1):
        if not isinstance(name, str) or not name or "\0" in name:
            continue
        try:
            found.append(read_calendar(path.parent / name, zone))
        except CalendarError as error:
            mistakes.append(f"contract.maintenance {number}: {error}")
    return tuple(found), mistakes


def _zone_or_utc(name: object) -> tzinfo:
    try:
        return zone_of(name) if isinstance(name, str) else UTC
    except UsageError:
        return UTC


def _contract(entries: _ClaimsFile, calendars: tuple[Calendar, ...]) -> Contract:
    terms = entries.contract
    agreed = tuple(event for calendar in calendars for event in calendar.events)
    return Contract(
        claims=tuple(_with_maintenance(replace(entry.claim(), zone=terms.zone), agreed) for entry in entries.claim),
        terms={entry.id: entry.terms() for entry in entries.claim},
        calendars=calendars,
        **terms.model_dump(exclude={"maintenance", "zone"}),
        zone=terms.zone,
    )


def _with_maintenance(claim: Claim, agreed: tuple[Exclusion, ...]) -> Claim:
    """The claim without the agreed maintenance, where its metric can leave out intervals.

    A training step uses all nodes of its run, so an MFU leaves out only the maintenance of all nodes.
    """
    if not CLAIMABLE[claim.metric].exclusions:
        return claim
    own = tuple(each for each in agreed if claim.metric != "mfu" or each.nodes is None)
    return replace(claim, exclusions=(*claim.exclusions, *own))
