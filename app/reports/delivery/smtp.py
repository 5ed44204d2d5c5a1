"""Delivery by mail: the report in words as the text, its forms attached."""

from __future__ import annotations

import smtplib
import ssl
from email.message import EmailMessage
from email.utils import format_datetime
from typing import TYPE_CHECKING

from app import clock
from app.reports.delivery.outcomes import DeliveryRefusedError, UnreachableError
from app.reports.delivery.secrets import secret, without

if TYPE_CHECKING:
    from app.config.deliver import Deliver, Smtp
    from app.reports.delivery.parcel import Parcel

KEY_HEADER = "X-Trackside-Key"
"""Header with the idempotency key; the Message-ID has it, too."""


def send(target: Smtp, parcel: Parcel, settings: Deliver) -> str | None:
    """Send one mail to all recipients.

    Returns:
        Which recipients the server did not accept, where it accepted others.

    Raises:
        RefusedError: the server refuses login, sender, every recipient or the mail, or cannot be trusted.
        UnreachableError: the server cannot be reached, or refuses for now.
    """
    password = secret(target.password_env, target.password_file) if target.user else ""
    try:
        with _connected(target, settings.timeout_s) as server:
            if target.user:
                server.login(target.user, password)
            refused = server.send_message(message_of(target, parcel), target.sender, list(target.to))
    except smtplib.SMTPRecipientsRefused as error:
        raise _by_code(max(code for code, _ in error.recipients.values()), "every recipient was refused") from None
    except smtplib.SMTPResponseException as error:
        text = error.smtp_error.decode("utf-8", "replace") if isinstance(error.smtp_error, bytes) else error.smtp_error
        raise _by_code(error.smtp_code, without(text, password)) from None
    except smtplib.SMTPNotSupportedError as error:
        raise DeliveryRefusedError(f"{target.host}: {without(str(error), password)}; nothing was sent") from None
    except ssl.SSLError as error:
        raise DeliveryRefusedError(f"{target.host}: TLS: {error.reason or error}") from None
    except TimeoutError:
        raise UnreachableError(f"{target.host}: no answer in {settings.timeout_s:g} s") from None
    except (smtplib.SMTPException, OSError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UnreachableError(f"{target.host}: {without(reason, password)}") from None
    return f"not accepted for {', '.join(sorted(refused))}" if refused else None


def _connected(target: Smtp, timeout_s: float) -> smtplib.SMTP:
    """A connection; encrypted before anything is sent, unless the server is on this machine."""
    if target.security == "none":
        return smtplib.SMTP(target.host, target.port or 25, timeout=timeout_s)
    try:
        context = ssl.create_default_context(cafile=None if target.ca_file is None else str(target.ca_file))
    except (OSError, ssl.SSLError):
        raise DeliveryRefusedError(
            f"{target.ca_file} cannot be used: it holds no certificates, or cannot be read"
        ) from None
    if target.security == "tls":
        return smtplib.SMTP_SSL(target.host, target.port or 465, timeout=timeout_s, context=context)
    server = smtplib.SMTP(target.host, target.port or 587, timeout=timeout_s)
    try:
        server.starttls(context=context)
    except BaseException:
        server.close()
        raise
    return server


def message_of(target: Smtp, parcel: Parcel) -> EmailMessage:
    """The mail. Its Message-ID is made of the key: the same at each try."""
    message = EmailMessage()
    message["Subject"] = parcel.subject
    message["From"] = target.sender
    message["To"] = ", ".join(target.to)
    message["Date"] = format_datetime(clock.now())
    message["Message-ID"] = f"<{parcel.key}@{target.sender.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    message[KEY_HEADER] = parcel.key
    message.set_content(parcel.text)
    for file in parcel.files:
        if file.form in target.attach:
            main, _, sub = file.media_type.partition(";")[0].partition("/")
            message.add_attachment(file.content, maintype=main, subtype=sub, filename=file.name)
    return message


def _by_code(code: int, text: str) -> DeliveryRefusedError | UnreachableError:
    """A refusal for good (5xx), or for now (4xx)."""
    message = f"the mail server answered {code}: {text}"
    return DeliveryRefusedError(message) if code >= 500 else UnreachableError(message)
