"""A Grafana's HTTP API, as far as boards need it: folders, boards and the messages of their versions."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import requests

from dashboards.errors import BoardError
from ingest.errors import ServerDownError
from ingest.http_address import is_open_address, without_secrets

if TYPE_CHECKING:
    from dashboards.grafana import Json

TIMEOUT_S: Final = 30.0
"""How long one answer may take."""

MAX_TEXT: Final = 200
"""How much of an answer that is not understood is shown, in characters."""

IS_IT_THERE: Final = "Is this the address of Grafana, and can it be reached from here?"

MORE_RIGHTS: Final = (
    "the token may not do this (HTTP {status}: {text}).\n"
    "In Grafana: Administration > Users and access > Service accounts, role Editor, or permissions dashboards:write, "
    "dashboards:create and folders:create"
)


class Grafana:
    """A Grafana server, and who we are for it."""

    def __init__(self, url: str, token: str) -> None:
        """Remember them; nothing is sent yet.

        Args:
            url: base address; one below a path (`https://host/grafana`) is fine, one with a password is not.
            token: of a service account.

        Raises:
            BoardError: this can be no such address.
        """
        if not is_open_address(url):
            raise BoardError("the address of Grafana must be http://HOST:PORT or https://HOST/PATH, without a password")
        self.url = without_secrets(url)
        self._session = requests.Session()
        self._session.headers.update({"Authorization": f"Bearer {token}", "Accept": "application/json"})
        self._session.auth = _keep_our_header

    def folder(self, uid: str) -> str | None:
        """The title of a folder; None: there is none of that uid."""
        found = self._send("GET", f"/api/folders/{uid}", missing=True)
        return None if found is None else str(found.get("title", ""))

    def make_folder(self, uid: str, title: str) -> None:
        """Make a folder at the top level."""
        self._send("POST", "/api/folders", {"uid": uid, "title": title})

    def board(self, uid: str) -> Json | None:
        """A board with its `meta`, as Grafana keeps it; None: there is none of that uid."""
        found: Json | None = self._send("GET", f"/api/dashboards/uid/{uid}", missing=True)
        return found

    def last_message(self, uid: str) -> str:
        """The message of the newest version of a board; empty if there is none."""
        found = self._send("GET", f"/api/dashboards/uid/{uid}/versions?limit=1", missing=True)
        versions = found.get("versions", []) if isinstance(found, dict) else found  # a plain list until Grafana 10
        return str(versions[0].get("message", "")) if versions else ""

    def save(self, board: Json, folder: str, message: str, *, version: int | None) -> None:
        """Save a board as a new version.

        Args:
            board: as built.
            folder: uid of its folder; empty: the top level.
            message: the message of this version.
            version: the version that it replaces, so that a change made meanwhile is not lost; None: it is new.
        """
        content = {**board, "id": None} | ({} if version is None else {"version": version})
        self._send(
            "POST",
            "/api/dashboards/db",
            {"dashboard": content, "folderUid": folder, "message": message, "overwrite": False},
        )

    def _send(self, method: str, path: str, content: Json | None = None, *, missing: bool = False) -> Any:
        """Send a request.

        Args:
            method: of HTTP.
            path: below the base address.
            content: sent as JSON.
            missing: whether 404 means None.

        Raises:
            ServerDownError: no answer, or not one of a Grafana.
            BoardError: Grafana refuses.
        """
        try:
            answer = self._session.request(
                method, self.url + path, json=content, timeout=TIMEOUT_S, allow_redirects=False
            )
        except requests.RequestException as error:
            what = f"did not answer ({type(error).__name__})"
            raise ServerDownError(self.url, what, IS_IT_THERE, unreachable=True) from None
        if missing and answer.status_code == HTTPStatus.NOT_FOUND:
            return None
        if not answer.ok or answer.is_redirect:
            raise self._refused(answer)
        try:
            return answer.json()
        except ValueError:
            raise ServerDownError(
                self.url, f"does not respond like Grafana: {answer.text[:MAX_TEXT]!r}", IS_IT_THERE
            ) from None

    def _refused(self, answer: requests.Response) -> Exception:
        text = _message(answer)
        if answer.is_redirect:
            target = without_secrets(requests.compat.urljoin(self.url, answer.headers.get("Location", "")))
            return BoardError(f"{self.url} redirects to {target}; give the address of Grafana itself")
        if answer.status_code == HTTPStatus.UNAUTHORIZED:
            return BoardError(f"{self.url} does not accept the token (HTTP 401: {text})")
        if answer.status_code == HTTPStatus.FORBIDDEN:
            return BoardError(f"{self.url}: {MORE_RIGHTS.format(status=403, text=text)}")
        if answer.status_code == HTTPStatus.PRECONDITION_FAILED:
            return BoardError(f"{self.url} did not save the board (HTTP 412: {text}); run the command again")
        return ServerDownError(self.url, f"answered HTTP {answer.status_code}: {text}", "See Grafana's own log.")


def _keep_our_header(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Without this a .netrc would replace the token."""
    return request


def _message(answer: requests.Response) -> str:
    """Grafana's message about a failure, else the beginning of the text."""
    try:
        content = answer.json()
    except ValueError:
        content = None
    return str(content["message"] if isinstance(content, dict) and "message" in content else answer.text)[:MAX_TEXT]
