"""The one door of the web server: each request is checked here before any page, section, callback or file is.

In this order: no posts from other sites; the user; their permission; the rate limit. Each page that is seen is logged.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from flask import Response, g, has_request_context, redirect, request

from app.access.addresses import client_of, is_from, own_path, same_site
from app.access.limits import RateLimit
from app.access.people import LOCAL, Person, Role, is_name, person_of
from app.access.plain_page import plain_page

if TYPE_CHECKING:
    from flask import Flask
    from werkzeug.wrappers import Response as Answer

    from app.access.audit import AuditLog
    from app.access.sessions import Sessions
    from app.config.access import Access

LONGEST_BODY: Final = 1 << 20
"""Bytes of a request's body."""

LONGEST_QUERY: Final = 8_000
"""Characters of the part of an address after the question mark."""

READ_ONLY = frozenset({"GET", "HEAD", "OPTIONS"})

HEALTH, METRICS = "/healthz", "/metrics"

OPEN = {"none": frozenset(), "header": frozenset({HEALTH}),
        "oidc": frozenset({HEALTH, "/login", "/login/callback", "/logged-out"})}  # fmt: skip
"""Paths that need no login."""

CROSS_SITE = (
    "A page of another site may not send this. If it is your own, behind a proxy, give its address in trackside.toml: "
    'url = "https://..." under [access].'
)

UNKNOWN = Person("", Role.NOBODY)


class Guard:
    """Checks requests.

    Args:
        access: the rules.
        audit: the log.
        sessions: of users who are logged in; None where a proxy names the user, or without a login.
        metrics_token: with which `/metrics` is read; empty: operators only.
    """

    def __init__(
        self, access: Access, audit: AuditLog, sessions: Sessions | None = None, metrics_token: str = ""
    ) -> None:
        self.access, self.audit, self.sessions = access, audit, sessions
        self._metrics_token = metrics_token
        self._request_limit = RateLimit(access.requests_per_minute)
        self._login_limit = RateLimit(access.logins_per_minute)

    def protect(self, application: Flask) -> None:
        """Check every request of an application."""
        application.config["MAX_CONTENT_LENGTH"] = LONGEST_BODY
        application.before_request(self.check)
        application.after_request(self.finish)

    def check(self) -> Answer | None:
        """Refuse a request, or let it through with `g.person` and `g.address`."""
        proxies = self.access.proxies if self.access.needs_login else ()
        g.address = client_of(request.remote_addr or "", request.headers.get("X-Forwarded-For", ""), proxies)
        g.person = UNKNOWN if self.access.needs_login else LOCAL
        g.seen = []
        if len(request.query_string) > LONGEST_QUERY:
            return self._refused(414, "address too long", "The address of this request is too long.")
        if request.method not in READ_ONLY and not self._is_our_page():
            return self._refused(403, "cross-site", CROSS_SITE)
        if not self.access.needs_login or self._reads_metrics():
            return None
        person = self._authenticated_user()
        if person is None:
            return self._without_login()
        g.person = person
        if lacking := _missing_role(person, request.path.rstrip("/")):
            return self._refused(403, "no role", lacking)
        wait = self._request_limit.wait_s(person.name)
        return self._too_many_requests(wait) if wait else None

    def finish(self, answer: Response) -> Response:
        """Write what was seen into the log; keep answers that are for one person out of caches."""
        for action, about in g.get("seen", []):
            self.audit.write(action, g.person, g.address, status=answer.status_code, **about)
        if self.access.needs_login and not request.path.startswith(("/assets/", "/_dash-component-suites/")):
            answer.headers["Cache-Control"] = "no-store"
        return answer

    def _is_our_page(self) -> bool:
        """Whether a page of this explorer sends it. Programs that are no browsers send no origin."""
        fetch_site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
        if fetch_site not in {None, "same-origin", "none"}:
            return False
        if fetch_site == "same-origin" and origin in {None, "null"}:  # a form's, where no referrer is sent
            return True
        if origin is not None and (self.access.url or fetch_site != "same-origin"):
            return same_site(origin, request.headers.get("Host", ""), self.access.url)
        return fetch_site == "same-origin" or not self.access.needs_login

    def _reads_metrics(self) -> bool:
        if not self._metrics_token or request.path.rstrip("/") != METRICS:
            return False
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        given = token.strip().encode(errors="replace")
        return kind.lower() == "bearer" and hmac.compare_digest(given, self._metrics_token.encode())

    def _authenticated_user(self) -> Person | None:
        """User of the request; None without a login."""
        if self.access.login == "header":
            return self._named_by_proxy()
        assert self.sessions is not None  # noqa: S101 - for the type checker: `oidc` has them
        g.session = request.cookies.get(cookie_name(self.access), "")
        return self.sessions.person(g.session)

    def _named_by_proxy(self) -> Person | None:
        """The person of the header, where the peer is one of the named proxies. Nobody else's header is looked at."""
        name = request.headers.get(self.access.user_header, "").strip()
        if not is_from(request.remote_addr or "", self.access.proxies) or not is_name(name):
            return None
        groups = request.headers.get(self.access.groups_header, "")
        return person_of(self.access, name, (each.strip() for each in groups.split(",")))

    def _without_login(self) -> Answer | None:
        wait = self._login_limit.wait_s(g.address)
        if wait:
            return self._too_many_requests(wait)
        if request.path.rstrip("/") in OPEN[self.access.login]:
            return None
        wants_page = request.method == "GET" and not request.path.startswith(("/_", "/assets/", METRICS))
        if self.access.login == "oidc" and wants_page:
            path = own_path(request.full_path.rstrip("?"))
            return redirect("/login" if path == "/" else f"/login?{_next(path)}")
        return self._refused(401, "no login", "You are not logged in, or the login has ended. Load the page again.")

    def _too_many_requests(self, wait: float) -> Answer:
        answer = self._refused(429, "too often", "Too many requests; try again in a moment.")
        answer.headers["Retry-After"] = str(int(wait) + 1)
        return answer

    def _refused(self, status: int, reason: str, text: str) -> Answer:
        self.audit.write("refused", g.person, g.address, path=request.path, status=status, reason=reason)
        return plain_page("Refused", text, status=status)


def _missing_role(person: Person, path: str) -> str:
    """Why a role does not suffice for a path; empty where it does."""
    if person.role == Role.NOBODY:
        return f"{person.name} has no role here. Ask the administrator of this Trackside for one."
    return "The metrics name users: they are for operators." if path == METRICS and not person.sees_all else ""


def saw(action: str, **about: str) -> None:
    """Description of what this request shows or changes, for the log."""
    if has_request_context() and "seen" in g:
        g.seen.append((action, about))


def cookie_name(access: Access) -> str:
    """The cookie of a session; `__Host-` keeps other machines of the domain from setting it."""
    return "__Host-trackside" if access.url.startswith("https://") else "trackside"


def _next(path: str) -> str:
    return urlencode({"next": path})
