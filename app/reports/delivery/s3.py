"""Delivery to S3, and to servers with its protocol, by `obstore` (the extra `trackside[s3]`)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from app.json_text import as_json
from app.reports.delivery.folder import MANIFEST
from app.reports.delivery.outcomes import DeliveryRefusedError, UnreachableError
from app.reports.delivery.secrets import secret, without

if TYPE_CHECKING:
    from obstore.store import S3Store

    from app.config.deliver import S3, Deliver
    from app.reports.delivery.parcel import Parcel

MISSING = "delivery to S3 needs obstore, which is not installed: pip install 'trackside[s3]'"


def send(target: S3, parcel: Parcel, settings: Deliver) -> str | None:
    """Put the report's files as objects, the list of them last; each is put whole or not at all.

    Raises:
        RefusedError: the server refuses them, or a key is missing.
        UnreachableError: the server cannot be reached, or reports an error of its own.
    """
    try:
        from obstore import exceptions  # noqa: PLC0415 - an extra
    except ImportError:
        raise DeliveryRefusedError(MISSING) from None
    keys = secret(target.access_key_env, None), secret(target.secret_key_env, target.secret_key_file)
    refusals = (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError, FileNotFoundError)
    try:
        store = _store(target, keys, settings.timeout_s)
        for name, content, kind in _objects(parcel):
            store.put(f"{parcel.key}/{name}", content, attributes={"Content-Type": kind}, use_multipart=False)
    except refusals as error:
        raise DeliveryRefusedError(f"{target.bucket}: {_reason(error, keys)}") from None
    except (exceptions.BaseError, OSError, ValueError) as error:
        raise UnreachableError(f"{target.bucket}: {_reason(error, keys)}") from None
    return None


def _objects(parcel: Parcel) -> list[tuple[str, bytes, str]]:
    manifest = (as_json(parcel.manifest(), indent=2) + "\n").encode()
    files = [(file.name, file.content, file.media_type) for file in parcel.files]
    return [*files, (MANIFEST, manifest, "application/json")]


def _store(target: S3, keys: tuple[str, str], timeout_s: float) -> S3Store:
    from obstore.store import S3Store  # noqa: PLC0415 - an extra

    plain = target.endpoint is not None and target.endpoint.startswith("http:")
    return S3Store(
        target.bucket,
        prefix=target.prefix or None,
        endpoint=target.endpoint or f"https://s3.{target.region}.amazonaws.com",
        region=target.region,
        access_key_id=keys[0],
        secret_access_key=keys[1],
        client_options={"timeout": timedelta(seconds=timeout_s), "allow_http": plain},
        retry_config={"max_retries": 0},  # the outbox tries again, for every target in the same way
    )


def _reason(error: Exception, keys: tuple[str, str]) -> str:
    r"""The first line of obstore's message; what follows is its own structure.

    >>> _reason(ValueError("Generic S3 error: refused\n\nDebug source:\nGeneric {"), ("key", "secret"))
    'Generic S3 error: refused'
    """
    return without(str(error).partition("\n\nDebug source")[0], *keys)
