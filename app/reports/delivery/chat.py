"""Delivery to channels of Slack, Teams and Mattermost: the report in words, by their incoming webhooks.

They take no files and drop no doubles; the key is in the text. Their payloads: Slack's and Mattermost's incoming
webhooks, and for Teams an Adaptive Card, which is what Workflows takes (the connectors before it are retired).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from app.config.deliver import Slack, Teams
from app.json_text import as_json
from app.reports.delivery.http_post import post
from app.reports.delivery.outcomes import DeliveryRefusedError
from app.reports.delivery.secrets import secret
from ingest.http_address import is_address

if TYPE_CHECKING:
    from app.config.deliver import Deliver, Hook
    from app.reports.delivery.parcel import Parcel

MOST: Final = 2800
"""Characters of the text: Slack's blocks take 3,000; what is longer is in the files of other targets."""


def send(target: Hook, parcel: Parcel, settings: Deliver) -> str | None:
    """Write the report into a channel.

    Raises:
        RefusedError: the receiver refuses it, or cannot be trusted.
        UnreachableError: no answer, or an error of the receiver.
        RetryableError: the same, with the pause that the receiver requests.
    """
    url = secret(target.url_env, target.url_file)
    if not is_address(url):
        raise DeliveryRefusedError("the secret is no address of a webhook (not shown); write https://HOST/PATH")
    body = as_json(payload(target, parcel), compact=True).encode()
    headers = {"Idempotency-Key": parcel.key}
    post(url, body, headers, ca_file=target.ca_file, timeout_s=settings.timeout_s, secrets=(url,))
    return None


def payload(target: Hook, parcel: Parcel) -> dict[str, Any]:
    """What the channel's webhook takes."""
    if isinstance(target, Teams):
        return _teams(parcel)
    return _slack(parcel) if isinstance(target, Slack) else _mattermost(parcel)


def _slack(parcel: Parcel) -> dict[str, Any]:
    """Blocks, and the one line that notifications show."""
    title = {"type": "plain_text", "text": parcel.subject[:150], "emoji": False}
    return {
        "text": _escaped(parcel.subject),
        "blocks": [
            {"type": "header", "text": title},
            {"type": "section", "text": {"type": "mrkdwn", "text": f"```{_escaped(_fenced(parcel))}```"}},
            {"type": "context", "elements": [{"type": "mrkdwn", "text": f"Key: {parcel.key}"}]},
        ],
    }


def _mattermost(parcel: Parcel) -> dict[str, Any]:
    """Text in Markdown; the report in a block of code, in which names are no markup and notify no one."""
    return {
        "username": "Trackside",
        "text": f"```\n{_unfenced(parcel.subject)}\n\n{_fenced(parcel)}\n```\nKey: {parcel.key}",
    }


def _teams(parcel: Parcel) -> dict[str, Any]:
    """An Adaptive Card."""
    texts = [{"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": line}]} for line in _lines(parcel)]
    title = {"type": "TextRun", "text": parcel.subject, "weight": "Bolder"}
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [
            {"type": "RichTextBlock", "inlines": [title]},
            *texts,
            {"type": "TextBlock", "text": f"Key: {parcel.key}", "isSubtle": True, "wrap": True},
        ],
        "msteams": {"width": "Full"},
    }
    kind = "application/vnd.microsoft.card.adaptive"
    return {"type": "message", "attachments": [{"contentType": kind, "contentUrl": None, "content": card}]}


def _lines(parcel: Parcel) -> list[str]:
    """The report's lines, as many as fit."""
    kept: list[str] = []
    length = 0
    for line in filter(None, parcel.lines):
        length += len(line) + 1
        if length > MOST:
            return [*kept, "..."]
        kept.append(line)
    return kept


def _fenced(parcel: Parcel) -> str:
    """The lines for a block of code, which none of them can end."""
    return _unfenced("\n".join(_lines(parcel)))


def _unfenced(text: str) -> str:
    return text.replace("```", "'''")


def _escaped(text: str) -> str:
    """As Slack escapes texts: with these, no name is a link or calls a channel.

    >>> _escaped("<!channel> a&b")
    '&lt;!channel&gt; a&amp;b'
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
