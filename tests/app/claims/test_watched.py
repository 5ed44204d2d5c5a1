"""The claims that are judged are those of the file as it is now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.claims.watched import WatchedClaims
from app.errors import ClaimsError

if TYPE_CHECKING:
    from pathlib import Path


def claims_file(path: Path, target: float) -> Path:
    path.write_text(
        f'[[claim]]\nid = "o"\nmetric = "occupancy"\nquoted = "q"\nread_as = "r"\nkind = "delivered"\n'
        f'target = {target}\ndirection = "at_least"\n'
    )
    return path


def targets(claims: WatchedClaims) -> list[float]:
    return [claim.target for claim in claims.now()]


def test_claims_are_those_of_the_file_as_it_is_now(tmp_path: Path) -> None:
    file = claims_file(tmp_path / "claims.toml", 0.5)
    claims = WatchedClaims(file)
    assert targets(claims) == [0.5]
    claims_file(file, 0.25)
    assert targets(claims) == [0.25]
    assert claims.mistakes() is None


@pytest.mark.parametrize("broken", ["[[claim]]", "no TOML", None])
def test_watched_claims_report_mistakes_and_keep_the_last_valid(tmp_path: Path, broken: str | None) -> None:
    file = claims_file(tmp_path / "claims.toml", 0.5)
    claims = WatchedClaims(file)
    if broken is None:
        file.unlink()
    else:
        file.write_text(broken)
    assert str(file) in str(claims.mistakes())
    assert targets(claims) == [0.5]
    claims_file(file, 0.125)
    assert claims.mistakes() is None
    assert targets(claims) == [0.125]


def test_a_claims_file_with_mistakes_is_refused_to_begin_with(tmp_path: Path) -> None:
    (tmp_path / "claims.toml").write_text("[[claim]]")
    with pytest.raises(ClaimsError):
        WatchedClaims(tmp_path / "claims.toml")


def test_without_a_file_the_vendors_claims_are_judged() -> None:
    assert len(WatchedClaims(None).now()) > 3
    assert WatchedClaims(None).mistakes() is None


def test_a_changed_calendar_changes_the_claims(tmp_path: Path) -> None:
    file = claims_file(tmp_path / "claims.toml", 0.5)
    file.write_text('[contract]\nmaintenance = ["m.ics"]\n' + file.read_text())
    event = "BEGIN:VEVENT\nUID:{0}\nDTSTART:2026102{0}T000000Z\nDURATION:PT1H\nEND:VEVENT\n"
    (tmp_path / "m.ics").write_text("BEGIN:VCALENDAR\n" + event.format(0) + "END:VCALENDAR\n")
    claims = WatchedClaims(file)
    assert [len(claim.exclusions) for claim in claims.now()] == [1]
    (tmp_path / "m.ics").write_text("BEGIN:VCALENDAR\n" + event.format(0) + event.format(1) + "END:VCALENDAR\n")
    assert [len(claim.exclusions) for claim in claims.now()] == [2]
