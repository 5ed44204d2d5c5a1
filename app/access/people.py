"""People who use the explorer: name, role, accounts; and the user of the present request."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from flask import g, has_request_context

from app.config.access import ANYONE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.config.access import Access

LONGEST = 256
"""Characters of a name of a person or group."""

MOST_GROUPS = 2_000
"""Groups of one person that are looked at."""


class Role(IntEnum):
    """Roles of people; each role has the permissions of those below it."""

    NOBODY = 0
    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3


@dataclass(frozen=True)
class Person:
    """A user of the explorer.

    Attributes:
        name: as in Slurm's accounting; empty without a login.
        role: what they may do.
        accounts: accounts whose runs they may see, as groups name them.
        groups: how many groups the proxy or the provider named.
    """

    name: str
    role: Role
    accounts: tuple[str, ...] = ()
    groups: int = 0

    @property
    def sees_all(self) -> bool:
        """Whether other people's runs are theirs to see."""
        return self.role >= Role.OPERATOR


LOCAL = Person("", Role.ADMIN)
"""The user of this machine, without a login."""


def person_of(access: Access, name: str, groups: Iterable[str]) -> Person:
    """A person with the highest role that a name or a group gives.

    >>> from app.config.access import Access
    >>> access = Access(operators=("group:ops",), account_groups="^slurm-(.+)$")
    >>> person_of(access, "ada", ["ops", "slurm-vision"])
    Person(name='ada', role=<Role.OPERATOR: 2>, accounts=('vision',), groups=2)
    >>> person_of(access, "user:ops", []).role.name
    'VIEWER'
    """
    held = tuple(dict.fromkeys(group for group in groups if 0 < len(group) <= LONGEST))[:MOST_GROUPS]
    members = {ANYONE, f"user:{name}", *(f"group:{group}" for group in held)}
    lists = ((Role.ADMIN, access.admins), (Role.OPERATOR, access.operators), (Role.VIEWER, access.viewers))
    role = next((role for role, named in lists if members & set(named)), Role.NOBODY)
    return Person(name, role, accounts_of(access.account_groups, held), len(held))


def accounts_of(pattern: str, groups: Iterable[str]) -> tuple[str, ...]:
    """Accounts that groups name.

    >>> accounts_of("slurm-(.+)", ["slurm-a", "x-slurm-b", "slurm-"]), accounts_of("", ["a"])
    (('a',), ())
    """
    found = (re.fullmatch(pattern, group) for group in groups) if pattern else ()
    return tuple(sorted({match[1] for match in found if match and match[1]}))


def is_name(text: str) -> bool:
    """Whether a text can be a user's name: one word that is shown as it is written.

    >>> is_name("ada"), is_name("a.b@example.com"), is_name("eve, ada"), is_name(""), is_name("a" * 300)
    (True, True, False, False, False)
    """
    return 0 < len(text) <= LONGEST and text.isprintable() and not re.search(r"[\s,;\"'<>\\]", text)


def current() -> Person:
    """User of the present request; `LOCAL` outside of requests. A request that was not checked has no permissions."""
    if not has_request_context():
        return LOCAL
    person: Person = g.get("person", Person("", Role.NOBODY))
    return person


def can_log_out() -> bool:
    """Whether the login of the present request is a session of this server."""
    return has_request_context() and bool(g.get("session", ""))
