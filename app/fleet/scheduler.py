"""Dask schedulers: which one is meant, how one is reached, and which are refused.

Whoever can reach a scheduler can have its workers execute any code. So what is started here listens on this machine
only, and takes only who holds a key that was made for this one run; other users of the machine do not. Another
scheduler is used on this machine, or by TLS with certificates of one's own authority.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any, Final

from app.access.exposure import is_loopback
from app.config.fleet import scheduler_address
from app.errors import UsageError
from ingest.errors import ServerDownError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from distributed.security import Security

    from app.config.fleet import FleetSettings

INSTALL: Final = "workers need Dask, which is not installed:  pip install 'trackside[fleet]'"

_CONNECT_S: Final = 10.0
"""How long to wait for a connection."""

REMEDY: Final = (
    "whoever reaches a Dask scheduler or worker can run any code as its user.\n"
    "Use tls:// with tls_ca, tls_cert and tls_key under [fleet] in the configuration; or, where only those who may do "
    "that can reach it, use --without-tls."
)

DASK_SETTINGS: Final[Mapping[str, Any]] = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.worker.daemon": True,
    "distributed.worker.preload": ["app.fleet.own_process"],
}
"""Settings of Dask: no pages of the scheduler and of workers, which are served without TLS; no pandas in workers."""


def requested(address: str | None, fleet: FleetSettings) -> str:
    """The scheduler that is meant: the one of the command line, else the configuration's.

    Raises:
        UsageError: there is none, or it is no address.
    """
    try:
        named = scheduler_address(fleet.scheduler if address is None else address)
    except ValueError as error:
        raise UsageError(f"{address!r}: {error}") from None
    if not named:
        raise UsageError("which scheduler? Name it, such as tls://scheduler.example.org:8786, or set [fleet] scheduler")
    return named


def require_dask() -> None:
    """Refuse to go on without Dask.

    Raises:
        UsageError: it is not installed; the message says how to install it.
    """
    try:
        import distributed  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise UsageError(INSTALL) from None


def security_of(address: str, fleet: FleetSettings) -> Security | None:
    """The certificates for a scheduler's address; None: none are needed.

    Raises:
        UsageError: the address needs them, and the configuration names none.
    """
    if not address.startswith("tls://"):
        return None
    if fleet.tls_ca is None:
        raise UsageError(f"{address} needs tls_ca, tls_cert and tls_key under [fleet] in the configuration")
    from distributed.security import Security  # noqa: PLC0415 - an extra

    cert, key = str(fleet.tls_cert), str(fleet.tls_key)
    return Security(
        require_encryption=True,
        tls_ca_file=str(fleet.tls_ca),
        tls_client_cert=cert,
        tls_client_key=key,
        tls_worker_cert=cert,
        tls_worker_key=key,
    )


def refuse_without_tls(address: str, host: str | None = None, *, without_tls: bool) -> None:
    """Refuse to go over a network without TLS.

    Args:
        address: of the scheduler.
        host: that we listen on ourselves; None: nowhere.
        without_tls: whether the option --without-tls allows it.

    Raises:
        UsageError: it would be, and is not allowed; or the host is empty, which to Dask means every address.
    """
    if host is not None and not host.strip():
        raise UsageError("--host is empty: name the address of this machine at which the others reach it")
    named, _ = host_and_port(address)
    here = is_loopback(named) and (host is None or is_loopback(_bare(host)))
    if not (here or address.startswith("tls://") or without_tls):
        raise UsageError(f"{address} is not only this machine's, and without TLS: {REMEDY}")


def host_and_port(address: str) -> tuple[str, str]:
    """The two parts of a scheduler's address.

    >>> host_and_port("tcp://[::1]:8786")
    ('::1', '8786')
    """
    host, _, port = address.partition("://")[2].rpartition(":")
    return _bare(host), port


def _bare(host: str) -> str:
    return host.removeprefix("[").removesuffix("]")


def share_of_cores(processes: int) -> dict[str, str]:
    """The environment of each of so many worker processes: polars and numpy take their share of the cores.

    The cores are as many as `POLARS_MAX_THREADS`, as in a container, which may use more of its node's cores than are
    meant for it; else all. DuckDB takes as many threads as polars: see `app.fleet.task`.
    """
    named = os.environ.get("POLARS_MAX_THREADS", "")
    cores = int(named) if named.isdecimal() else len(os.sched_getaffinity(0))
    threads = str(max(cores // processes, 1))
    return {"POLARS_MAX_THREADS": threads, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def require_answer(address: str) -> None:
    """Refuse an address at which nothing listens: Dask itself tries for more than a minute.

    Raises:
        ServerDownError: there is nothing.
        UsageError: no machine can have this name.
    """
    host, port = host_and_port(address)
    try:
        with socket.create_connection((host, int(port)), timeout=_CONNECT_S):
            pass
    except ValueError as error:  # UnicodeError, too: a label of the name is empty or too long
        raise UsageError(f"{address} is not the address of a scheduler: {error}") from None
    except (OSError, OverflowError) as error:
        raise unreachable(address, error) from None


def unreachable(address: str, error: BaseException) -> ServerDownError:
    """That a scheduler cannot be reached, and why."""
    why = (str(error).strip() or type(error).__name__).splitlines()[0]
    hint = "Is it up, is this its address, and are the certificates of one authority?"
    return ServerDownError(f"the scheduler {address}", f"does not answer: {why}", hint, unreachable=True)
