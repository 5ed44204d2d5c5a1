"""A stand-in for Grafana's HTTP API as documented: folders, boards with versions, and who may save.

There is no Grafana in the registries that the tests install from, so it is checked against the documentation alone. It
keeps what the documentation says: ids and versions are the server's, a save of an old version is refused (412), and a
board comes to the top level where no folder is named.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import TracebackType

TOKEN = "glsa_of_the_test"


@dataclass
class Board:
    """A board on the server: every version with its message, the newest last."""

    folder: str
    versions: list[tuple[dict[str, Any], str]] = field(default_factory=list)
    provisioned: bool = False


class StandIn:
    """The server; `boards` and `folders` are its state. `plain_versions`: the answer of Grafana 10."""

    def __init__(self, *, plain_versions: bool = False, prefix: str = "") -> None:
        self.boards: dict[str, Board] = {}
        self.folders: dict[str, str] = {}
        self.plain_versions, self.prefix = plain_versions, prefix
        self.may_save = True
        self.saves: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}{prefix}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    def edit(self, uid: str, **keys: object) -> None:
        """A person changes a board in the browser."""
        content, _ = self.boards[uid].versions[-1]
        self.boards[uid].versions.append(({**content, **keys}, ""))

    def get(self, path: str) -> tuple[int, Any]:
        """Answer to GET."""
        match path.partition("?")[0].strip("/").split("/"):
            case ["api", "folders", uid] if uid in self.folders:
                return 200, {"uid": uid, "title": self.folders[uid]}
            case ["api", "dashboards", "uid", uid] if uid in self.boards:
                board = self.boards[uid]
                content = {**board.versions[-1][0], "id": 7, "version": len(board.versions)}
                return 200, {
                    "dashboard": content,
                    "meta": {
                        "folderUid": board.folder,
                        "provisioned": board.provisioned,
                        "version": len(board.versions),
                    },
                }
            case ["api", "dashboards", "uid", uid, "versions"] if uid in self.boards:
                told = [
                    {"version": number, "message": message}
                    for number, (_, message) in enumerate(self.boards[uid].versions, start=1)
                ][::-1][:1]
                return 200, told if self.plain_versions else {"continueToken": "", "versions": told}
        return 404, {"message": "Not found"}

    def post(self, path: str, content: dict[str, Any]) -> tuple[int, Any]:
        """Answer to POST."""
        if not self.may_save:
            return 403, {"message": "You'll need additional permissions"}
        if path == "/api/folders":
            self.folders[content["uid"]] = content["title"]
            return 200, content
        board = content["dashboard"]
        known = self.boards.get(board["uid"])
        if known is not None and board.get("version") != len(known.versions) and not content["overwrite"]:
            return 412, {"status": "version-mismatch", "message": "The dashboard has been changed by someone else"}
        if content["folderUid"] and content["folderUid"] not in self.folders:
            return 400, {"message": "folder not found"}
        self.saves.append(content)
        board = {key: value for key, value in board.items() if key not in {"id", "version"}}
        entry = self.boards.setdefault(board["uid"], Board(content["folderUid"]))
        entry.folder = content["folderUid"]
        entry.versions.append((board, content["message"]))
        return 200, {"status": "success", "uid": board["uid"], "version": len(entry.versions)}


def _handler(server: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(*server.get(self.path.removeprefix(server.prefix)))

        def do_POST(self) -> None:
            content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._answer(*server.post(self.path.removeprefix(server.prefix), content))

        def _answer(self, status: int, content: object) -> None:
            if self.headers["Authorization"] != f"Bearer {TOKEN}":
                status, content = 401, {"message": "Invalid API key"}
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is BaseHTTPRequestHandler's
            """Say nothing."""

    return Handler
