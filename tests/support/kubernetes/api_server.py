"""A stand-in for an API server of Kubernetes: pages of lists, watches, what it forgets, whom it lets in.

What it does is what the real one of the lab does (`tests.lab.apiserver`), which the tests there check.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from types import TracebackType

    from tests.support.kubernetes.objects import Object

BEGAN = 1_793_491_200  # 2026-11-01: after what objects of tests report
KINDS = {"pods": "Pod", "nodes": "Node", "jobs": "Job", "workloads": "Workload"}
GROUPS = {"": ("v1", ("pods", "nodes")), "batch": ("v1", ("jobs",)), "kueue.x-k8s.io": ("v1beta1", ("workloads",))}


@dataclass
class ApiServer:
    """The stand-in.

    Attributes:
        tokens: those that it lets in.
        forbidden: plurals that nobody may list.
        broken: plurals that are answered with an error that no other try helps against.
        starting: so many requests are answered with 403 first, as by a server that has not read its roles yet.
        failures: so many requests are answered with 503 first.
        forgotten: versions up to this one are gone.
        forget_pages: the next continuation of a list is gone.
        requests: all that were sent.
    """

    tokens: set[str] = field(default_factory=lambda: {"secret"})
    forbidden: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    starting: int = 0
    failures: int = 0
    forgotten: int = 0
    forget_pages: bool = False
    requests: list[str] = field(default_factory=list)
    _objects: dict[tuple[str, str], Object] = field(default_factory=dict)
    _events: list[tuple[int, str, str, Object]] = field(default_factory=list)
    _version: int = 100
    _server: ThreadingHTTPServer | None = None

    def __enter__(self) -> Self:
        handler = type("Handler", (_Handler,), {"api": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Its address."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def put(self, *objects: Object) -> None:
        """Create or change objects."""
        for each in objects:
            plural = next(name for name, kind in KINDS.items() if kind == each["kind"])
            key = (plural, each["metadata"]["uid"])
            self._event("MODIFIED" if key in self._objects else "ADDED", plural, each)
            self._objects[key] = each

    def remove(self, *objects: Object) -> None:
        """Remove objects."""
        for each in objects:
            plural = next(name for name, kind in KINDS.items() if kind == each["kind"])
            self._objects.pop((plural, each["metadata"]["uid"]))
            self._event("DELETED", plural, each)

    def forget(self) -> None:
        """Compact: what changed until now is gone."""
        self.forgotten = self._version

    def _event(self, kind: str, plural: str, each: Object) -> None:
        self._version += 1
        stamped = {**each, "metadata": {**each["metadata"], "resourceVersion": str(self._version)}}
        self._events.append((self._version, kind, plural, stamped))

    def answer(self, path: str, query: dict[str, str], token: str) -> tuple[int, list[Any]]:
        """Status and the JSON documents of an answer."""
        self.requests.append(f"{path}?{'&'.join(f'{name}={value}' for name, value in sorted(query.items()))}")
        if refusal := self._refusal(path, token):
            return refusal[0], [{"message": refusal[1]}]
        if path == "/readyz":
            return 200, ["ok"]
        if path == "/apis":
            groups = [{"name": name, "preferredVersion": {"version": GROUPS[name][0]}} for name in GROUPS if name]
            return 200, [{"kind": "APIGroupList", "groups": groups}]
        for group, (version, plurals) in GROUPS.items():
            base = f"/apis/{group}/{version}" if group else f"/api/{version}"
            if path == base:
                verbs = ["list", "watch"]
                return 200, [{"resources": [{"name": one, "kind": KINDS[one], "verbs": verbs} for one in plurals]}]
            plural = path.removeprefix(f"{base}/")
            if path != plural and plural in plurals:
                return self._read(plural, query)
        return 404, [{"message": "not found"}]

    def _refusal(self, path: str, token: str) -> tuple[int, str] | None:
        """Status and message of a request that gets no answer."""
        if token not in self.tokens:
            return 401, "Unauthorized"
        if self.failures:
            self.failures -= 1
            return 503, "the server is overloaded"
        if self.starting:
            self.starting -= 1
            return 403, f"{path} is forbidden: RBAC: clusterrole not found"
        return None

    def _read(self, plural: str, query: dict[str, str]) -> tuple[int, list[Any]]:
        if plural in self.broken:
            return 418, [{"message": "etcd is unwell"}]
        if plural in self.forbidden:
            return 403, [{"message": f"{plural} is forbidden"}]
        if "watch" in query:
            return self._watched(plural, int(query["resourceVersion"]))
        items = [each for (name, _), each in sorted(self._objects.items()) if name == plural]
        begin, limit = int(query.get("continue", 0)), int(query.get("limit", 0)) or len(items)
        if begin and self.forget_pages:
            self.forget_pages = False
            return 410, [{"message": "The provided continue parameter is too old"}]
        end = begin + limit
        following = {"continue": str(end)} if end < len(items) else {}
        bare = [{name: value for name, value in one.items() if name not in {"kind", "apiVersion"}} for one in items]
        metadata = {"resourceVersion": str(self._version), **following}
        return 200, [{"kind": f"{KINDS[plural]}List", "metadata": metadata, "items": bare[begin:end]}]

    def _watched(self, plural: str, since: int) -> tuple[int, list[Any]]:
        if since < self.forgotten:
            return 200, [{"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}]
        events = [
            {"type": kind, "object": each}
            for number, kind, name, each in self._events
            if name == plural and number > since
        ]
        mark = {"kind": KINDS[plural], "metadata": {"resourceVersion": str(self._version)}}
        return 200, [*events, {"type": "BOOKMARK", "object": mark}]


class _Handler(BaseHTTPRequestHandler):
    api: ApiServer

    def do_GET(self) -> None:
        """Answer."""
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        status, documents = self.api.answer(parts.path, query, self.headers.get("Authorization", "").partition(" ")[2])
        text = b"".join(json.dumps(each).encode() + b"\n" for each in documents)
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def date_time_string(self, timestamp: float | None = None) -> str:  # noqa: ARG002 - as theirs
        """The server's time: a second later with each request."""
        return formatdate(BEGAN + len(self.api.requests), usegmt=True)

    def log_message(self, *_: object) -> None:
        """Print nothing."""
