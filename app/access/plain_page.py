"""Pages that need no explorer: refused, logged out. They have no script, and no text of a request is markup."""

from __future__ import annotations

from html import escape

from flask import Response

PAGE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{title} · Trackside</title>
<style>body {{ font: 16px/1.5 system-ui, sans-serif; margin: 15vh auto; max-width: 34rem; padding: 0 1rem; }}</style>
</head>
<body><main><h1>{title}</h1><p>{text}</p>{links}</main></body>
</html>
"""


def plain_page(title: str, text: str, *, links: tuple[tuple[str, str], ...] = (), status: int = 200) -> Response:
    """A page of a heading, a sentence, and links (words and address)."""
    shown = "".join(f'<p><a href="{escape(url)}">{escape(words)}</a></p>' for words, url in links)
    body = PAGE.format(title=escape(title), text=escape(text), links=shown)
    return Response(body, status=status, mimetype="text/html")
