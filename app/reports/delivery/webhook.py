"""Delivery to any webhook by Standard Webhooks 1.0: a signature over key, time and body by a shared secret."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import TYPE_CHECKING

from app import clock
from app.json_text import as_json
from app.reports.delivery.http_post import post
from app.reports.delivery.secrets import secret

if TYPE_CHECKING:
    from app.config.deliver import Deliver, Webhook
    from app.reports.delivery.parcel import Parcel

PREFIX = "whsec_"
"""What a secret begins with that is base64, as Standard Webhooks writes them; any other is used as it is."""


def send(target: Webhook, parcel: Parcel, settings: Deliver) -> str | None:
    """Send the report as JSON, signed.

    Raises:
        RefusedError: the receiver refuses it, or cannot be trusted.
        UnreachableError: no answer, or an error of the receiver.
        RetryableError: the same, with the pause that the receiver requests.
    """
    key = secret(target.secret_env, target.secret_file)
    body = body_of(parcel)
    at = str(int(clock.now().timestamp()))
    headers = {
        "webhook-id": parcel.key,
        "webhook-timestamp": at,
        "webhook-signature": signature(key, parcel.key, at, body),
        "Idempotency-Key": parcel.key,
    }
    post(target.url, body, headers, ca_file=target.ca_file, timeout_s=settings.timeout_s, secrets=(key,))
    return None


def body_of(parcel: Parcel) -> bytes:
    """The body: what was made, and the report itself in its JSON form."""
    made = {"type": "report.made", "timestamp": parcel.document["period"]["until"], "data": parcel.manifest()}
    return as_json(made | {"report": parcel.document}, compact=True).encode()


def signature(key: str, identity: str, at: str, body: bytes) -> str:
    """The signature of a message: HMAC-SHA256 over `identity.at.body`, in base64.

    >>> body = b'{"event_type":"ping","data":{"success":true}}'
    >>> signature("whsec_plJ3nmyCDGBKInavdOK15jsl", "msg_loFOjxBNrRLzqYUf", "1731705121", body)
    'v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0='
    """
    signed = f"{identity}.{at}.".encode() + body
    return f"v1,{base64.b64encode(hmac.new(_bytes_of(key), signed, hashlib.sha256).digest()).decode()}"


def _bytes_of(key: str) -> bytes:
    if key.startswith(PREFIX):
        try:
            return base64.b64decode(key.removeprefix(PREFIX), validate=True)
        except binascii.Error:
            pass
    return key.encode()
