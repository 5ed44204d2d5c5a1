"""Which schedulers are used: one whose users could run code here from elsewhere is refused."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from app.config.fleet import FleetSettings
from app.errors import UsageError
from app.fleet import scheduler
from app.fleet.dask_workers import DaskWorkers, joined, started
from app.fleet.join import join
from ingest.errors import ServerDownError

if TYPE_CHECKING:
    from distributed import Client

TLS = FleetSettings(tls_ca=Path("/ca.pem"), tls_cert=Path("/cert.pem"), tls_key=Path("/key.pem"))


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("tcp://127.0.0.1:8786", "127.0.0.1"),
        ("tcp://[::1]:8786", None),
        ("tcp://[::1]:8786", "::1"),
        ("tcp://[::1]:8786", "[::1]"),
        ("tls://db.example.org:8786", "10.0.0.1"),
    ],
)
def test_scheduler_here_or_with_tls_is_used(address: str, host: str | None) -> None:
    scheduler.refuse_without_tls(address, host, without_tls=False)


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("tcp://db.example.org:8786", None),
        ("tcp://10.0.0.1:8786", None),
        ("tcp://127.0.0.1:8786", "0.0.0.0"),
        ("tcp://[::1]:8786", "[::]"),
    ],
)
def test_scheduler_elsewhere_without_tls_is_refused(address: str, host: str | None) -> None:
    with pytest.raises(UsageError, match="run any code as its user"):
        scheduler.refuse_without_tls(address, host, without_tls=False)
    scheduler.refuse_without_tls(address, host, without_tls=True)


@pytest.mark.parametrize("host", ["", " "])
@pytest.mark.parametrize("address", ["tcp://127.0.0.1:8786", "tls://db.example.org:8786"])
def test_empty_host_is_refused(address: str, host: str) -> None:
    """Dask would listen on every address of the machine."""
    with pytest.raises(UsageError, match="--host is empty"):
        join(address, TLS, host=host, without_tls=True)


def test_refusal_comes_before_anything_is_reached() -> None:
    with pytest.raises(UsageError, match="--without-tls"), joined("tcp://192.0.2.1:8786", FleetSettings()):
        pass
    with pytest.raises(UsageError, match="--without-tls"):
        join("tcp://127.0.0.1:8786", FleetSettings(), host="192.0.2.1")


@pytest.mark.parametrize("port", [1, 99_999])
def test_scheduler_that_is_not_there_is_named_at_once(port: int) -> None:
    address = f"tcp://127.0.0.1:{port}"
    with (
        pytest.raises(ServerDownError, match=f"the scheduler {address} does not answer"),
        joined(address, FleetSettings()),
    ):
        pass


def test_name_that_no_machine_has_is_refused() -> None:
    with pytest.raises(UsageError, match=r"tcp://db\.\.org:1 is not the address of a scheduler"):
        scheduler.require_answer("tcp://db..org:1")


def test_requested_is_the_command_lines_else_the_configurations() -> None:
    fleet = FleetSettings(scheduler="tls://db:8786")
    assert scheduler.requested(None, fleet) == "tls://db:8786"
    assert scheduler.requested("tcp://127.0.0.1:1", fleet) == "tcp://127.0.0.1:1"
    with pytest.raises(UsageError, match="which scheduler"):
        scheduler.requested(None, FleetSettings())
    with pytest.raises(UsageError, match="not the address of a Dask scheduler"):
        scheduler.requested("db:8786", fleet)


def test_certificates_are_those_of_the_configuration() -> None:
    assert scheduler.security_of("tcp://127.0.0.1:8786", TLS) is None
    with pytest.raises(UsageError, match="needs tls_ca"):
        scheduler.security_of("tls://db:8786", FleetSettings())
    security = scheduler.security_of("tls://db:8786", TLS)
    assert security is not None
    assert security.require_encryption
    for role in ("client", "worker"):
        files = security.get_tls_config_for_role(role)
        assert (files["ca_file"], files["cert"], files["key"]) == ("/ca.pem", "/cert.pem", "/key.pem")


class Frozen:
    """A client whose scheduler is stopped: what is not timed would wait for ever."""

    status = "running"

    def get_executor(self, **_: object) -> None:
        """None is needed."""

    def nthreads(self, *, callback_timeout: float) -> dict[str, int]:
        raise TimeoutError(f"timed out after {callback_timeout} s")

    def close(self, *, timeout: float) -> None:
        raise TimeoutError(f"timed out after {timeout} s")


class GivenUp(Frozen):
    """A client that no longer tries to reach its scheduler, which is None then."""

    status = "closed"
    scheduler: Any = None

    def nthreads(self, *, callback_timeout: float) -> dict[str, int]:
        return dict(self.scheduler.ncores(callback_timeout))

    def get_events(self, topic: str) -> list[object]:
        return list(self.scheduler.events(topic))


@pytest.mark.parametrize("client", [Frozen, GivenUp])
def test_scheduler_that_is_stopped_has_no_slots(client: type[Frozen]) -> None:
    assert DaskWorkers(cast("Client", client())).slots() == 0


def test_scheduler_that_is_given_up_has_no_record() -> None:
    assert DaskWorkers(cast("Client", GivenUp())).begun() == []


def test_mistake_of_a_connected_client_is_raised() -> None:
    client = GivenUp()
    client.status = "running"
    with pytest.raises(AttributeError):
        DaskWorkers(cast("Client", client)).slots()


def test_scheduler_that_is_stopped_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.fleet.dask_workers.require_answer", lambda _: None)
    monkeypatch.setattr("distributed.Client", lambda *_, **__: Frozen())
    with joined("tcp://127.0.0.1:1", FleetSettings()):
        pass
    with pytest.raises(KeyError, match="of the work"), joined("tcp://127.0.0.1:1", FleetSettings()):
        raise KeyError("of the work")


def test_without_dask_the_message_has_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match=r"pip install 'trackside\[fleet\]'"), started(2):
        pass


def test_workers_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.delenv("POLARS_MAX_THREADS", raising=False)
    assert scheduler.share_of_cores(3)["POLARS_MAX_THREADS"] == "2"
    assert scheduler.share_of_cores(9)["POLARS_MAX_THREADS"] == "1"


def test_workers_share_the_cores_of_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    monkeypatch.setenv("POLARS_MAX_THREADS", "4")
    assert scheduler.share_of_cores(1)["POLARS_MAX_THREADS"] == "4"
    assert scheduler.share_of_cores(2)["POLARS_MAX_THREADS"] == "2"
    monkeypatch.setenv("POLARS_MAX_THREADS", "many")
    assert scheduler.share_of_cores(1)["POLARS_MAX_THREADS"] == "64"
