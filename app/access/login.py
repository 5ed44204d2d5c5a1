"""The paths of a login by OpenID Connect: begin it, finish it, end it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import g, redirect, request

from app.access.addresses import own_path
from app.access.guard import cookie_name
from app.access.oidc import LoginError, Provider, new_value
from app.access.people import Role
from app.access.plain_page import plain_page
from app.access.sessions import PENDING_S

if TYPE_CHECKING:
    from flask import Flask
    from werkzeug.wrappers import Response as Answer

    from app.access.audit import AuditLog
    from app.access.sessions import Sessions
    from app.config.access import Access

BEGUN = "-login"
"""End of the name of the cookie of a login that has begun."""


class LoginPaths:
    """Paths of the login.

    Args:
        access: the rules.
        provider: the OpenID provider.
        sessions: of users who are logged in.
        audit: the log.
    """

    def __init__(self, access: Access, provider: Provider, sessions: Sessions, audit: AuditLog) -> None:
        self.access, self.provider, self.sessions, self.audit = access, provider, sessions, audit
        self._secure = access.url.startswith("https://")
        self._session = cookie_name(access)
        self._begun = self._session + BEGUN

    def register(self, application: Flask) -> None:
        """Add the paths to an application."""
        application.add_url_rule("/login", "login", self.begin, methods=["GET"])
        application.add_url_rule("/login/callback", "login_callback", self.finish, methods=["GET"])
        application.add_url_rule("/logout", "logout", self.end, methods=["POST"])
        application.add_url_rule("/logged-out", "logged_out", self.ended, methods=["GET"])

    def begin(self) -> Answer:
        """Send the browser to the provider; it carries the name of this login in a cookie."""
        state, nonce, verifier = new_value(), new_value(), new_value()
        try:
            address = self.provider.address(state, nonce, verifier)
        except LoginError as error:
            return self._failed(error)
        target = own_path(request.args.get("next", "/"))
        answer = redirect(address)
        self._set(answer, self._begun, self.sessions.begin(target, state, nonce, verifier), PENDING_S)
        return answer

    def finish(self) -> Answer:
        """The provider sends the browser back: open a session, under a new name, if its response is valid."""
        begun = self.sessions.finish(request.cookies.get(self._begun, ""), request.args.get("state", ""))
        if "code" not in request.args:
            return self._failed(LoginError("the provider did not let you in"))
        if begun is None:
            return self._failed(LoginError("this login was not begun in this browser, is over, or was used before"))
        try:
            person, id_token = self.provider.person(request.args["code"], begun.nonce, begun.verifier)
        except LoginError as error:
            return self._failed(error)
        self.sessions.close(request.cookies.get(self._session, ""))
        if person.role == Role.NOBODY:
            self.audit.write("login refused", person, g.address, reason="no role")
            return plain_page("Refused", f"{person.name} has no role here.", status=403)
        self.audit.write("login", person, g.address, groups=person.groups)
        answer = redirect(begun.target)
        self._set(answer, self._session, self.sessions.open(person, id_token), self.sessions.lasts_s)
        self._unset(answer, self._begun)
        return answer

    def end(self) -> Answer:
        """End the session here, whoever has a copy of its cookie."""
        self.sessions.close(request.cookies.get(self._session, ""))
        self.audit.write("logout", g.person, g.address)
        answer = redirect("/logged-out", code=303)
        self._unset(answer, self._session)
        return answer

    def ended(self) -> Answer:
        """The page after a logout."""
        provider = self.provider.end_session_address("")
        links = (("Log in again", "/"), *((("Log out of the provider, too", provider),) if provider else ()))
        return plain_page("Logged out", "This session has ended.", links=links)

    def _failed(self, error: LoginError) -> Answer:
        self.audit.write("login failed", g.person, g.address, reason=str(error))
        answer = plain_page("The login failed", f"{error}.", links=(("Try again", "/"),), status=403)
        self._unset(answer, self._begun)
        return answer

    def _set(self, answer: Answer, name: str, value: str, seconds: float) -> None:
        answer.set_cookie(name, value, max_age=int(seconds), path="/", secure=self._secure, httponly=True,
                          samesite="Lax")  # fmt: skip

    def _unset(self, answer: Answer, name: str) -> None:
        answer.delete_cookie(name, path="/", secure=self._secure, httponly=True, samesite="Lax")
