"""slurmrestd, over a unix socket or over TCP: only GET requests, one at a time.

The version of its API is detected, newest first. It serves neither node events nor most settings, so these are not
requested here. Addresses in messages and origins hold neither user nor token.
"""

from __future__ import annotations

import http.client
import re
import socket
import ssl
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode, urlsplit

import msgspec

from ingest.errors import InputError, ServerDownError, shorten
from ingest.http_address import is_address, without_secrets
from ingest.slurm.commands.runner import Fetched
from ingest.slurm.formats.json_answer import (
    NO_RESULTS,
    NOT_ALLOWED,
    SUPPORTED_VERSIONS,
    Envelope,
    is_json,
    judged,
    raw_rows,
    reported_problems,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

UNIX: Final = "unix:"
"""How the address of a socket begins; a path follows."""

PART: Final = 1 << 20
"""Bytes of an answer read at a time."""

LARGEST_ANSWER: Final = 1 << 30
"""Largest answer in bytes; above it a shorter window has to be requested."""

BAD_TOKEN: Final = frozenset({401, 403, 511})
"""Statuses by which the versions refuse a token; others do it with 500 or 200 and an error inside."""

EPOCHS_FROM: Final = "0.0.40"
"""From this version on a time is plain seconds; before, seconds behind `uts`."""

_VERSION: Final = re.compile(r"/slurm(?:db)?/v(\d+\.\d+\.\d+)/")
_SAFE_HEADER: Final = re.compile(r"[\x21-\x7e]+")

NO_ADDRESS: Final = "cannot be used (not shown: it may hold a password)."
ADDRESS_HINT: Final = "Write it as unix:/path/of/the.socket, or http://HOST:PORT"
ACCESS_HINT: Final = (
    "Get a new token (scontrol token lifespan=3600), put it into the environment variable that slurm.rest_token_env\n"
    "names, and the user it is of into slurm.rest_user. A user who may see all jobs is needed (PrivateData)."
)
DOWN_HINT: Final = "Is slurmrestd running, and is slurm.rest_url its address? Loaded data stays."
BEHIND_HINT: Final = (
    "slurmrestd is up, but Slurm behind it did not answer properly: check `scontrol ping` and `sacctmgr show\n"
    "cluster` on its host (or the token has expired). Loaded data stays; try again later."
)
NOT_SLURM_HINT: Final = "Is slurm.rest_url really the address of slurmrestd, and of no proxy before it?"


WHAT_HAPPENED: Final[Mapping[tuple[type[Exception], ...], str]] = {
    (FileNotFoundError,): "does not exist: no such socket.",
    (ConnectionRefusedError,): "refuses the connection: no server listens there.",
    (PermissionError,): "may not be opened by this user.",
    (TimeoutError,): "did not answer within {timeout_s:g} s.",
    (http.client.IncompleteRead, http.client.RemoteDisconnected, ConnectionResetError): (
        "broke off in the middle of its answer; nothing of it was used."
    ),
    (ssl.SSLError,): "cannot be connected to securely: check its certificate, and whether it is https at all.",
    (socket.gaierror,): "cannot be found: no such host.",
}
"""Reasons for a missing answer, in words; the first match counts."""


class TooSlowError(ServerDownError):
    """No whole answer arrived in time: a smaller request may succeed."""


class TooLargeError(ServerDownError):
    """The answer is over the limit: less has to be requested."""


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Take the socket instead of a host and port."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        try:
            self.sock.connect(self._path)
        except OSError:
            self.sock.close()
            raise


@dataclass(frozen=True)
class _RestResponse:
    status: int
    kind: str
    data: bytes


@dataclass
class Client:
    """One slurmrestd.

    Attributes:
        url: `unix:/path`, or `http(s)://host:port`.
        version: The API's version (0.0.41); detected by default.
        user: Whose token it is; without one slurmrestd takes the user from the token.
        token: A JWT. It is only sent: no message and no origin holds it.
        timeout_s: Longest wait for a whole answer.
    """

    url: str
    version: str | None = None
    user: str | None = None
    token: str | None = field(default=None, repr=False)
    timeout_s: float = 60.0
    _versions: dict[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not self.url.startswith(UNIX) and not is_address(self.url):
            raise ServerDownError("The address of slurmrestd", NO_ADDRESS, ADDRESS_HINT)
        if self.url == UNIX:
            raise ServerDownError(UNIX, "names no socket.", ADDRESS_HINT)
        for what, value in (("user", self.user), ("token", self.token)):
            if value is not None and not _SAFE_HEADER.fullmatch(value):
                raise ServerDownError(self.shown, f"cannot be sent this {what}: it holds blanks.", ACCESS_HINT)

    @property
    def shown(self) -> str:
        """The address without secrets."""
        return self.url if self.url.startswith(UNIX) else without_secrets(self.url)

    def get(self, family: str, what: str, parameters: Mapping[str, Mapping[str, str]] | None = None) -> Fetched:
        """The answer to `/slurm/vX/nodes` or its like, in the newest version that both sides support.

        Args:
            family: `slurm` (slurmctld answers) or `slurmdb` (slurmdbd does).
            what: The end of the path.
            parameters: Parameters of the request by version, for all of `SUPPORTED_VERSIONS`.

        Raises:
            ServerDownError: There is no answer, or it reports an error.
        """
        for version in self._candidates(family):
            query = parameters[judged(f"v{version}")[0]] if parameters else {}
            path = f"/{family}/v{version}/{what}" + (f"?{urlencode(query)}" if query else "")
            answer = self._get(path)
            if answer.status == http.client.NOT_FOUND:
                continue
            self._versions[family] = version
            return Fetched(self._judged(answer, path), f"slurmrestd {self.shown}{path}")
        raise self._no_version(family)

    def _candidates(self, family: str) -> Iterator[str]:
        """Versions to try: supported ones, newest first; then those that the server lists."""
        if self.version is not None or family in self._versions:
            yield self.version or self._versions[family]
            return
        yield from reversed(SUPPORTED_VERSIONS)
        yield from (version for version in reversed(self.served(family)) if version not in SUPPORTED_VERSIONS)

    def _no_version(self, family: str) -> ServerDownError:
        served = ", ".join(f"v{version}" for version in self.served(family)) or "none"
        versions_text = (
            f"v{self.version}" if self.version else f"any of v{SUPPORTED_VERSIONS[0]} to v{SUPPORTED_VERSIONS[-1]}"
        )
        hint = (
            f"It serves: {served}. Set one as slurm.rest_version, or start slurmrestd with the plugin (option -s,\n"
            f"openapi/dbv... for accounting)."
        )
        return ServerDownError(self.shown, f"does not serve /{family}/ in {versions_text}.", hint)

    def served(self, family: str) -> list[str]:
        """The versions that it serves by its own description, oldest first.

        Raises:
            ServerDownError: There is no answer.
        """
        answer = self._get("/openapi/v3")
        text = answer.data.decode(errors="replace").replace("\\/", "/") if answer.status == http.client.OK else ""
        served = {match[1] for match in _VERSION.finditer(text) if match[0].startswith(f"/{family}/")}
        return sorted(served, key=lambda version: [int(part) for part in version.split(".")])

    def _judged(self, answer: _RestResponse, path: str) -> bytes:
        """The body of a successful answer."""
        endpoint = f"{self.shown}{path.partition('?')[0]}"
        problems = reported_problems(answer.data)
        beginning = shorten(answer.data[:200].decode(errors="replace"))
        errors = "; ".join(text for _, text in problems)
        unlike = "" if is_json(answer.data) or answer.status < http.client.BAD_REQUEST else beginning
        if answer.status in BAD_TOKEN or NOT_ALLOWED.search(errors or unlike):
            what = f"refuses us (access denied, {answer.status}): {errors or beginning}"
            raise ServerDownError(endpoint, what, ACCESS_HINT)
        if not is_json(answer.data):
            what = f"answered {answer.status} with something else than JSON ({answer.kind}):\n  {beginning}"
            raise ServerDownError(endpoint, what, NOT_SLURM_HINT)
        real = [text for number, text in problems if number != NO_RESULTS]
        if real or (answer.status != http.client.OK and not problems):
            raise ServerDownError(endpoint, f"answered {answer.status}: {'; '.join(real) or 'no reason'}", BEHIND_HINT)
        return answer.data

    def _get(self, path: str) -> _RestResponse:
        """Send one request; returns the answer whatever its status."""
        connection = self._connection()
        headers = {"Accept": "application/json", "Connection": "close"}
        if self.token:
            headers["X-SLURM-USER-TOKEN"] = self.token
            headers |= {"X-SLURM-USER-NAME": self.user} if self.user else {}
        prefix = "" if self.url.startswith(UNIX) else urlsplit(self.url).path.rstrip("/")
        deadline = time.monotonic() + self.timeout_s
        try:
            connection.request("GET", prefix + path, headers=headers)
            with connection.getresponse() as response:
                data = _whole_body(response, self.shown, deadline)
        except (OSError, http.client.HTTPException) as error:
            kind = TooSlowError if isinstance(error, TimeoutError) else ServerDownError
            raise kind(self.shown, _what_happened(error, self.timeout_s), DOWN_HINT) from None
        finally:
            connection.close()
        return _RestResponse(response.status, response.headers.get_content_type(), data)

    def _connection(self) -> http.client.HTTPConnection:
        if self.url.startswith(UNIX):
            return _UnixConnection(self.url.removeprefix(UNIX), self.timeout_s)
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        if parts.scheme == "https":
            return http.client.HTTPSConnection(
                host, parts.port, timeout=self.timeout_s, context=ssl.create_default_context()
            )
        return http.client.HTTPConnection(host, parts.port, timeout=self.timeout_s)


def _whole_body(response: http.client.HTTPResponse, shown: str, deadline: float) -> bytes:
    """The body, if it is neither too large nor too slow.

    Raises:
        TooLargeError: It is larger.
        TimeoutError: It is slower.
        http.client.IncompleteRead: It ends too early.
    """
    promised = response.headers.get("Content-Length", "")
    parts, size = [], 0
    while part := response.read1(PART):
        parts.append(part)
        size += len(part)
        if size > LARGEST_ANSWER:
            hint = "Request less at a time: make slurm.window_days smaller."
            raise TooLargeError(shown, f"answers with more than {LARGEST_ANSWER >> 20} MB.", hint)
        if time.monotonic() > deadline:
            raise TimeoutError
        if promised.isdigit() and size == int(promised):
            break
    if promised.isdigit() and size < int(promised):
        raise http.client.IncompleteRead(b"", int(promised) - size)
    return b"".join(parts)


def _what_happened(error: OSError | http.client.HTTPException, timeout_s: float) -> str:
    """The reason for a missing answer, in words."""
    for kinds, text in WHAT_HAPPENED.items():
        if isinstance(error, kinds):
            return text.format(timeout_s=timeout_s)
    return f"cannot be queried: {shorten(str(error) or type(error).__name__)}"


# --- requests ------------------------------------------------------------------------------------------


def fetch_accounting_rest(client: Client, since: datetime, until: datetime) -> Fetched:
    """Request all attempts, requeued ones too, that were held at any time in [since, until).

    Version 0.0.38 returns the newest row of an id without parameters, and all rows with any parameter. Later versions
    are requested to return all rows, without steps, and with times that are not cut to the window.

    Raises:
        ServerDownError: There is no answer, or it reports an error.
        InputError: The window is empty.
    """
    if until <= since:
        message = f"the window is empty: from {since.isoformat()} to {until.isoformat()}"
        raise InputError(message)
    return client.get("slurmdb", "jobs", {version: _window(version, since, until) for version in SUPPORTED_VERSIONS})


def _window(version: str, since: datetime, until: datetime) -> dict[str, str]:
    low, high = int(since.timestamp()), int(until.timestamp())
    if version < EPOCHS_FROM:
        return {"start_time": f"uts{low}", "end_time": f"uts{high}"}
    # scheduler_unset: without it some releases of 0.0.40 and 0.0.41 find nothing once another flag is given.
    flags = ("scheduler_unset", "show_duplicates", "skip_steps", "disable_truncate_usage_time")
    return {"start_time": str(low), "end_time": str(high), **dict.fromkeys(flags, "true")}


def fetch_jobs_rest(client: Client, job_ids: Sequence[str]) -> Fetched:
    """Request all attempts of these jobs (raw ids), whenever they were: one request each, one answer of them all.

    Raises:
        ServerDownError: There is no answer, or it reports an error.
        InputError: An id is none, or an answer has no jobs.
    """
    strange = [job for job in job_ids if not (job.isascii() and job.isdigit())]
    if strange or not job_ids:
        message = f"no raw job ids: {', '.join(strange)}" if strange else "no job ids"
        raise InputError(message)
    answers = [client.get("slurmdb", f"job/{job}").data for job in job_ids]
    try:
        rows = [msgspec.Raw(row) for data in answers for row in raw_rows(data, "jobs")]
        about = msgspec.json.decode(answers[0], type=Envelope).meta
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = f"slurmrestd {client.shown}: an answer about a job is malformed ({error})"
        raise InputError(message) from None
    origin = f"slurmrestd {client.shown}/slurmdb/job: {len(job_ids)} open jobs, {job_ids[0]} to {job_ids[-1]}"
    return Fetched(msgspec.json.encode({"meta": about, "errors": [], "jobs": rows}), origin)


@dataclass(frozen=True)
class RestTransport:
    """Requests of a live ingest to slurmrestd, in place of commands. `ingest.slurm.parsers` parses the answers."""

    client: Client

    def accounting(self, since: datetime, until: datetime) -> Fetched:
        """Attempts of a window: `ingest.slurm.accounting.sacct_json.parse_accounting_json`."""
        return fetch_accounting_rest(self.client, since, until)

    def jobs(self, job_ids: Sequence[str]) -> Fetched:
        """Single jobs, read as a window is."""
        return fetch_jobs_rest(self.client, job_ids)

    def nodes(self) -> Fetched:
        """Inventory: `ingest.slurm.nodes.inventory_json.parse_nodes_json`.

        Raises:
            ServerDownError: There is no answer, or it reports an error (slurmctld is down).
        """
        return self.client.get("slurm", "nodes")

    def reservations(self) -> Fetched:
        """Current reservations: `ingest.slurm.nodes.reservations_json.parse_reservations_json`.

        Raises:
            ServerDownError: There is no answer, or it reports an error.
        """
        return self.client.get("slurm", "reservations")

    def settings(self) -> Fetched:
        """The cluster's name and Slurm's release: `ingest.slurm.nodes.inventory_json.parse_settings_json`.

        Of slurmdbd: nothing else in 0.0.38 names the cluster.

        Raises:
            ServerDownError: There is no answer, or it reports an error.
        """
        return self.client.get("slurmdb", "clusters")
