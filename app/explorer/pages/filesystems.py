"""The page Filesystems and network: operations, bytes, response times."""

from __future__ import annotations

from app.explorer.questions import QuestionSpec, page_of

PAGE = page_of(
    "/filesystems",
    "Filesystems and network",
    [
        QuestionSpec("filesystems", days=7, by="mount", title="Filesystems"),
        QuestionSpec("network", days=7, by="port", title="InfiniBand ports"),
    ],
    icon="disk",
    group="Where it goes",
    position=18,
    lead="What filesystems and InfiniBand ports carried, and for whom.",
)
