"""A server on this machine that answers the queries of W&B's public API as W&B's own package sends them."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = "k" * 40


@dataclass
class WandbServer:
    """What it has: of each run its record, its history and its environment.

    Attributes:
        runs: by id: the fields of a run; `history` (rows) and `metadata` are not among those that are answered.
        failures: statuses that the next requests get instead of an answer.
        keys: the keys that requests came with, None for none, and the paths that they were for.
    """

    runs: dict[str, dict[str, Any]]
    failures: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    keys: list[tuple[str, str | None]] = field(default_factory=list)
    url: str = ""
    per_page: int = 2

    def answer(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        """The data of an answer."""
        if "viewer" in query.lower():
            return {"viewer": {"id": "u", "entity": "team", "username": "me", "teams": {"edges": []}, "flags": "{}"}}
        if (variables.get("entity"), variables.get("project")) != ("team", "llama"):
            return {"project": None}
        if "runs(" in query:
            return {"project": self._page(variables)}
        return {"project": self._of_run(query, variables)}

    def _of_run(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        run = self.runs.get(str(variables.get("name") or variables.get("run")))
        if run is None:
            return {"run": None}
        if "history(" in query:
            low, high = variables["minStep"], variables["maxStep"]
            rows = [json.dumps(row) for row in run["history"] if low <= row["_step"] < high]
            return {"run": {"history": rows[: variables["pageSize"]]}}
        return {"run": self._files(run) if "files(" in query else _fields(run)}

    def _files(self, run: dict[str, Any]) -> dict[str, Any]:
        node = {"name": "wandb-metadata.json", "url": f"{self.url}/files/{run['name']}", "directUrl": "http://other/x"}
        return {"files": {"edges": [{"node": node}] if "metadata" in run else []}}

    def _page(self, variables: dict[str, Any]) -> dict[str, Any]:
        names, begin = list(self.runs), int(variables.get("cursor") or 0)
        end = begin + self.per_page
        nodes = [_fields(self.runs[name]) for name in names[begin:end]]
        edges = [{"node": node, "cursor": str(number)} for number, node in enumerate(nodes, begin + 1)]
        return {
            "runCount": len(names),
            "runs": {"edges": edges, "pageInfo": {"endCursor": str(end), "hasNextPage": end < len(names)}},
        }


def _fields(run: dict[str, Any]) -> dict[str, Any]:
    """What of a run is answered when its fields are requested."""
    return {name: value for name, value in run.items() if name not in {"history", "metadata"}}


def run_of(name: str, history: list[dict[str, Any]], config: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A run as the server keeps it."""
    last = max((row["_step"] for row in history), default=-1)
    return {
        "id": f"internal-{name}",
        "name": name,
        "displayName": f"calm-sea-{name}",
        "state": "finished",
        "config": json.dumps({key: {"value": value, "desc": None} for key, value in config.items()}),
        "createdAt": "2026-10-01T08:00:00",
        "heartbeatAt": "2026-10-01T09:00:00",
        "historyKeys": {"lastStep": last, "keys": {}},
        "history": history,
        **more,
    }


class _Handler(BaseHTTPRequestHandler):
    """Answers for the `WandbServer` of its class."""

    of: WandbServer

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def _key(self) -> str | None:
        scheme, _, text = self.headers.get("Authorization", "").partition(" ")
        return base64.b64decode(text).decode().removeprefix("api:") if scheme == "Basic" else None

    def _send(self, status: int, content: object, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _is_refused(self) -> bool:
        self.of.keys.append((self.path, self._key()))
        if self.of.failures:
            status, headers = self.of.failures.pop(0)
            self._send(status, {"errors": [{"message": "later"}]}, headers)
        elif self._key() != KEY:
            self._send(401, {"errors": [{"message": "user is not logged in"}]})
        else:
            return False
        return True

    def do_POST(self) -> None:
        """A query."""
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not data.startswith(b"{"):
            self._send(404, {})
        elif not self._is_refused():
            body = json.loads(data)
            self._send(200, {"data": self.of.answer(body["query"], body.get("variables") or {})})

    def do_GET(self) -> None:
        """A file of a run."""
        if not self._is_refused():
            self._send(200, self.of.runs[self.path.rpartition("/")[2]]["metadata"])


@contextlib.contextmanager
def serving(server: WandbServer) -> Iterator[WandbServer]:
    """The server while it serves; its `url` is set."""
    http = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"of": server}))
    threading.Thread(target=http.serve_forever, daemon=True).start()
    server.url = f"http://127.0.0.1:{http.server_port}"
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
