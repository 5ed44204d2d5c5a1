"""Worker processes that join a Dask scheduler and do the tasks of fleets: `trackside worker`."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from app.fleet.scheduler import (
    DASK_SETTINGS,
    refuse_without_tls,
    require_dask,
    security_of,
    share_of_cores,
    unreachable,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from distributed import Nanny

    from app.config.fleet import FleetSettings

_CONNECT_S: Final = 60
"""How long to try to reach the scheduler."""


def join(
    address: str,
    fleet: FleetSettings,
    *,
    host: str = "127.0.0.1",
    processes: int = 1,
    without_tls: bool = False,
    started: Callable[[], None] = lambda: None,
) -> None:
    """Have processes of this machine do what a scheduler hands out, until it ends.

    A process that dies is replaced.

    Args:
        address: of the scheduler.
        fleet: with the files of TLS.
        host: address of this machine that the scheduler and other workers reach it by.
        processes: how many; each does one cluster at a time.
        without_tls: whether other machines may be reached, and reach these, without.
        started: called when all have joined.

    Raises:
        UsageError: Dask is not installed, or something is on another machine, and without TLS.
        ServerDownError: the scheduler does not answer.
    """
    refuse_without_tls(address, host, without_tls=without_tls)
    require_dask()
    asyncio.run(_work(address, fleet, host, processes, started))


async def _work(address: str, fleet: FleetSettings, host: str, processes: int, started: Callable[[], None]) -> None:
    import dask  # noqa: PLC0415 - an extra

    with dask.config.set(DASK_SETTINGS):
        async with contextlib.AsyncExitStack() as stack:
            nannies = [_nanny(address, fleet, host, processes) for _ in range(processes)]
            for nanny in nannies:
                await _enter(stack, nanny, address)
            started()
            await asyncio.gather(*(nanny.finished() for nanny in nannies))


def _nanny(address: str, fleet: FleetSettings, host: str, processes: int) -> Nanny:
    """The supervisor that starts a worker process, and starts it again when it dies."""
    from distributed import Nanny  # noqa: PLC0415 - an extra

    return Nanny(
        address,
        nthreads=1,
        host=host,
        protocol=address.partition("://")[0],
        security=security_of(address, fleet),
        dashboard=False,
        memory_limit=0,
        death_timeout=_CONNECT_S,
        env=share_of_cores(processes),
    )


async def _enter(stack: contextlib.AsyncExitStack, nanny: Nanny, address: str) -> None:
    try:
        await stack.enter_async_context(nanny)
    except (OSError, TimeoutError, RuntimeError) as error:
        raise unreachable(address, error) from None
