"""Sessions, and logins that have begun: kept on the server, so that ending one ends it for every copy of its cookie.

A cookie holds a random name and nothing else; only the digest of the name is kept. They live in memory: when the
server is restarted, people log in again.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.access.people import Person

MOST = 10_000
"""Sessions, and logins that have begun, at once; the oldest go first."""

PENDING_S = 600.0
"""A login must be finished so long after it was begun."""

T = TypeVar("T")


@dataclass(frozen=True)
class LoginSession:
    """A person who has logged in.

    Attributes:
        person: who.
        began: when, in seconds of the clock.
        seen: time of the last request.
        id_token: the provider's token of the login.
    """

    person: Person
    began: float
    seen: float
    id_token: str = ""


@dataclass(frozen=True)
class Pending:
    """A login that has begun: values that the provider's response must match, and the page to open afterwards."""

    state: str
    nonce: str
    verifier: str
    target: str
    began: float


class _Kept(Generic[T]):
    """Values by the digest of a random name."""

    def __init__(self) -> None:
        self._values: OrderedDict[bytes, T] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def add(self, value: T) -> str:
        name = secrets.token_urlsafe(32)
        self._values[_digest(name)] = value
        while len(self._values) > MOST:
            self._values.popitem(last=False)
        return name

    def get(self, name: str) -> T | None:
        return self._values.get(_digest(name))

    def put(self, name: str, value: T) -> None:
        self._values[_digest(name)] = value

    def take(self, name: str) -> T | None:
        return self._values.pop(_digest(name), None)

    def drop(self, unwanted: Callable[[T], bool]) -> None:
        for key in [key for key, value in self._values.items() if unwanted(value)]:
            del self._values[key]


def _digest(name: str) -> bytes:
    return hashlib.sha256(name.encode(errors="replace")).digest()


class Sessions:
    """Sessions of users who are logged in. Safe for threads.

    Args:
        lasts_s: a session ends so long after the login ...
        idle_s: ... or after so long without a request.
        clock: seconds that only grow.
    """

    def __init__(self, *, lasts_s: float, idle_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.lasts_s, self.idle_s = lasts_s, idle_s
        self._clock = clock
        self._lock = threading.Lock()
        self._sessions: _Kept[LoginSession] = _Kept()
        self._pending: _Kept[Pending] = _Kept()

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, person: Person, id_token: str = "") -> str:
        """A new session, under a new random name."""
        with self._lock:
            now = self._clock()
            self._sessions.drop(lambda each: self._is_expired(each, now))
            return self._sessions.add(LoginSession(person, now, now, id_token))

    def person(self, name: str) -> Person | None:
        """User of a session; None if there is no such session, or it has ended or expired."""
        with self._lock:
            session, now = self._sessions.get(name), self._clock()
            if session is None or self._is_expired(session, now):
                self._sessions.take(name)
                return None
            self._sessions.put(name, replace(session, seen=now))
            return session.person

    def close(self, name: str) -> LoginSession | None:
        """End a session."""
        with self._lock:
            return self._sessions.take(name)

    def begin(self, target: str, state: str, nonce: str, verifier: str) -> str:
        """A login has begun; the name is for the browser that began it."""
        with self._lock:
            now = self._clock()
            self._pending.drop(lambda each: now - each.began > PENDING_S)
            return self._pending.add(Pending(state, nonce, verifier, target, now))

    def finish(self, name: str, state: str) -> Pending | None:
        """The login that this browser began with this state. It can be finished once; a wrong state ends it, too."""
        with self._lock:
            begun = self._pending.take(name)
            if begun is None or self._clock() - begun.began > PENDING_S:
                return None
            return begun if secrets.compare_digest(begun.state.encode(), state.encode(errors="replace")) else None

    def _is_expired(self, session: LoginSession, now: float) -> bool:
        return now - session.began > self.lasts_s or now - session.seen > self.idle_s
