"""Weights & Biases' server: the queries of its public API that list runs and read their history, and nothing else.

They are those of W&B's own package (`wandb.Api`): GraphQL by POST, with the key as the password of the user `api`. The
key comes from the environment alone, goes to no other server (redirects are not followed), nowhere without TLS but to
this machine, and into no message.
"""

from __future__ import annotations

import base64
import os
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from ingest.errors import InputError, OptionError, ServerDownError, shorten
from ingest.http_address import is_address, without_secrets
from ingest.retry import RetryableError, RetryPolicy, retry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

SERVER: Final = "WANDB_BASE_URL"
KEY: Final = "WANDB_API_KEY"
"""Environment variables, as W&B's package has them."""

PAGE: Final = 1_000
"""Steps whose rows are requested at a time, as W&B's package does."""

LARGEST: Final = 1 << 28
"""Bytes of an answer."""

METADATA: Final = "wandb-metadata.json"

_TIMEOUT_S: Final = 60.0
_POLICY: Final = RetryPolicy(retries=4, pause_s=1.0, longest_pause_s=30.0, jitter=0.2)
_LATER: Final = frozenset({408, 429, 500, 502, 503, 504})
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})

_RUNS: Final = """\
query Runs($project: String!, $entity: String!, $cursor: String, $perPage: Int = 50, $order: String) {
  project(name: $project, entityName: $entity) {
    runs(after: $cursor, first: $perPage, order: $order) {
      edges { node { name } cursor }
      pageInfo { endCursor hasNextPage }
    }
  }
}"""
_RUN: Final = """\
query Run($project: String!, $entity: String!, $name: String!) {
  project(name: $project, entityName: $entity) {
    run(name: $name) { name displayName state config createdAt heartbeatAt historyKeys }
  }
}"""
_HISTORY: Final = """\
query HistoryPage($entity: String!, $project: String!, $run: String!,
                  $minStep: Int64!, $maxStep: Int64!, $pageSize: Int!) {
  project(name: $project, entityName: $entity) {
    run(name: $run) { history(minStep: $minStep, maxStep: $maxStep, samples: $pageSize) }
  }
}"""
_FILES: Final = """\
query RunFiles($project: String!, $entity: String!, $name: String!, $fileNames: [String] = []) {
  project(name: $project, entityName: $entity) {
    run(name: $name) { files(names: $fileNames, first: 1) { edges { node { name url directUrl } } } }
  }
}"""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """The key is for one server."""


@dataclass(frozen=True)
class WandbApi:
    """A server, and a key that may read there."""

    url: str
    _key: str
    sleep: Callable[[float], None] = time.sleep

    def __repr__(self) -> str:
        """Without the key."""
        return f"WandbApi({without_secrets(self.url)!r})"

    def runs(self, entity: str, project: str) -> list[str]:
        """The ids of a project's runs, the oldest first.

        Raises:
            ServerDownError: the server cannot be reached, or refuses the key.
            InputError: there is no such project.
        """
        found: list[str] = []
        cursor: str | None = None
        while True:
            variables = {"entity": entity, "project": project, "cursor": cursor, "order": "+created_at"}
            runs = _part(_part(self._data(_RUNS, variables), f"{entity}/{project}", "project"), project, "runs")
            found += [str(edge["node"]["name"]) for edge in runs.get("edges") or []]
            page = runs.get("pageInfo") or {}
            if not page.get("hasNextPage") or page.get("endCursor") in {None, cursor}:
                return found
            cursor = page["endCursor"]

    def run(self, entity: str, project: str, name: str) -> dict[str, Any]:
        """The record of a run: `state`, `config` and `historyKeys` (JSON), `createdAt`, `heartbeatAt`.

        Raises:
            ServerDownError, InputError: as above.
        """
        variables = {"entity": entity, "project": project, "name": name}
        return _part(self._data(_RUN, variables), f"{entity}/{project}/{name}", "project", "run")

    def history(self, entity: str, project: str, name: str, last: int) -> Iterator[bytes]:
        """The rows of a run's history, as JSON, up to a step.

        Raises:
            ServerDownError, InputError: as above.
        """
        for begin in range(0, last + 1, PAGE):
            variables = {"entity": entity, "project": project, "run": name, "pageSize": PAGE}
            steps = {"minStep": begin, "maxStep": min(begin + PAGE, last + 1)}
            run = _part(self._data(_HISTORY, variables | steps), f"{entity}/{project}/{name}", "project", "run")
            yield from (row.encode() for row in run.get("history") or [] if isinstance(row, str))

    def metadata(self, entity: str, project: str, name: str) -> dict[str, Any]:
        """`wandb-metadata.json` of a run: host, start, Slurm's ids; empty where it has none.

        Raises:
            ServerDownError, InputError: as above.
        """
        variables = {"entity": entity, "project": project, "name": name, "fileNames": [METADATA]}
        run = _part(self._data(_FILES, variables), f"{entity}/{project}/{name}", "project", "run")
        nodes = [edge["node"] for edge in (run.get("files") or {}).get("edges") or []]
        for node in nodes:
            url = self._own_address(node.get("url")) or node.get("directUrl")
            if node.get("name") == METADATA and isinstance(url, str) and _is_safe(url):
                content = _object(self._got(url, None))
                return content if isinstance(content, dict) else {}
        return {}

    def _own_address(self, url: object) -> str | None:
        """An address on this server; None for any other."""
        if not isinstance(url, str):
            return None
        whole = url if "://" in url else f"{self.url}/{url.lstrip('/')}"
        return whole if _origin(whole) == _origin(self.url) else None

    def _data(self, query: str, variables: Mapping[str, object]) -> dict[str, Any]:
        body = msgspec.json.encode({"query": query, "variables": dict(variables)})
        content = _object(self._got(f"{self.url}/graphql", body))
        if isinstance(content, dict) and content.get("errors"):
            messages = [
                str(each.get("message", each) if isinstance(each, dict) else each) for each in content["errors"]
            ]
            raise InputError(f"{without_secrets(self.url)} refused the query: {shorten('; '.join(messages))}")
        data = content.get("data") if isinstance(content, dict) else None
        if not isinstance(data, dict):
            raise self._down("did not answer as a server of W&B does")
        return data

    def _got(self, url: str, body: bytes | None) -> bytes:
        return retry(lambda: self._try(url, body), _POLICY, sleep=self.sleep)

    def _try(self, url: str, body: bytes | None) -> bytes:
        request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})  # noqa: S310 - checked
        if _origin(url) == _origin(self.url):
            login = base64.b64encode(f"api:{self._key}".encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {login}")
        try:
            with urllib.request.build_opener(_NoRedirects).open(request, timeout=_TIMEOUT_S) as answer:
                data: bytes = answer.read(LARGEST + 1)
        except urllib.error.HTTPError as error:
            raise self._refused(error) from None
        except (OSError, ValueError) as error:
            reason = shorten(str(getattr(error, "reason", error)))
            raise RetryableError(self._down(f"cannot be reached: {reason}", unreachable=True)) from None
        if len(data) > LARGEST:
            raise self._down(f"answered with more than {LARGEST >> 20} MiB")
        return data

    def _refused(self, error: urllib.error.HTTPError) -> Exception:
        if error.code in {401, 403}:
            return self._down(f"refuses the key in ${KEY} ({error.code})", f"Get one at {without_secrets(self.url)}")
        down = self._down(f"answered {error.code} {error.reason}")
        pause = error.headers.get("Retry-After", "0")
        return RetryableError(down, pause_s=float(pause) if pause.isdigit() else 0.0) if error.code in _LATER else down

    def _down(self, what: str, hint: str = "", *, unreachable: bool = False) -> ServerDownError:
        hint = hint or f"Is it W&B's API? ${SERVER} names it: https://api.wandb.ai, or that of your own server"
        return ServerDownError(without_secrets(self.url), what, hint, unreachable=unreachable)


def server_of_environment(environment: Mapping[str, str] = os.environ) -> WandbApi:
    """The server and the key that the environment names.

    Raises:
        OptionError: one is lacking, or the address cannot be used.
    """
    url, key = environment.get(SERVER, "").rstrip("/"), environment.get(KEY, "")
    if not url or not key:
        lacking = " and ".join(f"${name}" for name, value in ((SERVER, url), (KEY, key)) if not value)
        raise OptionError(
            f"to read runs from W&B's server, set {lacking}:\n"
            f"  export {SERVER}=https://api.wandb.ai {KEY}=...\n"
            "Without a server: trackside ingest runlog wandb/   # the folder that W&B keeps on disk"
        )
    if not is_address(url) or "@" in urlsplit(url).netloc:
        raise OptionError(f"${SERVER} is no address (not shown: it may hold a password); write https://HOST")
    if not _is_safe(url):
        raise OptionError(f"{without_secrets(url)}: the key would be sent unencrypted; write https://")
    return WandbApi(url, key)


def _is_safe(url: str) -> bool:
    """Whether others cannot read the requests: they go over TLS, or to this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def _part(data: Mapping[str, Any], what: str, *names: str) -> dict[str, Any]:
    """The part of an answer under these names."""
    part: Any = data
    for name in names:
        part = part.get(name) if isinstance(part, dict) else None
    if not isinstance(part, dict):
        raise InputError(f"wandb:{what}: there is no such {names[-1].removesuffix('s')} that this key may read")
    return part


def _object(data: bytes) -> object:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None
