"""What a person should know about a load: records, and the one formatter that makes messages of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MESSAGES: Final[Mapping[str, str]] = {
    "text": "{detail}",
}
"""The message of each code, with `{count}` and `{detail}`. `text` is what loads of earlier versions kept as a text."""


@dataclass(frozen=True, slots=True)
class LoadWarning:
    """One warning, as the column `warnings` of `loads` keeps it.

    Attributes:
        code: which warning, a key of `MESSAGES`.
        count: how many rows, values or things it concerns; None where they are not counted.
        detail: its particulars: names, or what somebody else reported.
    """

    code: str
    count: int | None = None
    detail: str = ""

    @property
    def message(self) -> str:
        """The warning as people read it.

        >>> LoadWarning("text", None, "slurmdbd was late").message
        'slurmdbd was late'
        """
        count = "" if self.count is None else f"{self.count:,}"
        return MESSAGES[self.code].format(count=count, detail=self.detail)


def messages(records: Iterable[Mapping[str, object]] | None) -> list[str]:
    """The messages of warnings as a query returns them: structures of `code`, `count` and `detail`.

    A code of a newer version has no message here: its particulars stand for it.
    """
    return [_message(dict(record)) for record in records or ()]


def _message(record: dict[str, object]) -> str:
    code, detail = str(record["code"]), str(record["detail"] or "")
    count = record["count"]
    known = code if code in MESSAGES else "text"
    return LoadWarning(known, count if isinstance(count, int) else None, detail).message
