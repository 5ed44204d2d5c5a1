"""A contract: claims, and what an agreement between provider and customer adds to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.times import zone_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import tzinfo
    from decimal import Decimal

    from app.claims.calendars import Calendar
    from metrics.claims.claim import Claim
    from metrics.claims.contract import CreditStep, Rule

CUTOFF_DAYS = 7
"""Days after the end of a period until which data count for its report."""


@dataclass(frozen=True)
class Terms:
    """What a contract adds to one claim.

    Attributes:
        rule: how it reads the measurement.
        credits: its credit table, rising.
    """

    rule: Rule = "verdict"
    credits: tuple[CreditStep, ...] = ()


@dataclass(frozen=True)
class Contract:
    """Claims with the terms of a contract; without one, the claims alone.

    Attributes:
        claims: what is promised; each without the agreed maintenance of the calendars.
        terms: by id of the claim.
        provider: who promises.
        customer: to whom.
        number: of the contract, as the parties call it.
        monthly_fee: what credits are a percentage of, per calendar month.
        currency: of the fee, by ISO 4217.
        credit_cap_percent: the most that all credits of a period come to.
        cutoff_days: days after the end of a period until which data count for its report.
        zone: in whose midnights months, weeks and days begin; None: UTC.
        calendars: of agreed maintenance.
    """

    claims: tuple[Claim, ...]
    terms: Mapping[str, Terms] = field(default_factory=dict)
    provider: str | None = None
    customer: str | None = None
    number: str | None = None
    monthly_fee: Decimal | None = None
    currency: str | None = None
    credit_cap_percent: float = 100.0
    cutoff_days: int = CUTOFF_DAYS
    zone: str | None = None
    calendars: tuple[Calendar, ...] = ()

    @property
    def is_agreed(self) -> bool:
        """Whether it has anything of a contract: parties, a fee, calendars, or terms of a claim."""
        named = (self.provider, self.customer, self.number, self.monthly_fee)
        return any(named) or bool(self.calendars) or any(each != Terms() for each in self.terms.values())

    @property
    def time_zone(self) -> tzinfo:
        """The zone in whose midnights the periods of the calendar begin."""
        return zone_of(self.zone or "UTC")
