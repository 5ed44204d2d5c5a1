"""Tagged PDFs (PDF/UA-1) by Typst, for every report: the same bytes for the same contents on any machine.

Fonts come with the compiler; those of the machine are not used. They have Latin, Greek, Cyrillic, Hebrew, Arabic and
more, but neither Chinese, Japanese and Korean nor emoji. A missing character is shown by its number, with a notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import typst

from app.json_text import as_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from typing import Any

STANDARD: Final = "ua-1"
"""PDF/UA-1 (ISO 14289-1): tagged, titled, with alternative texts."""

NOTICE: Final = (
    "The fonts of this PDF lack some characters: ‹U+65E5› stands for the one with that number in Unicode. "
    "The other forms of this report have them."
)
"""The notice of a PDF that shows characters by their numbers."""

_PROBE: Final = b'#set document(title: "probe")\n#set text(lang: "en", font: "Libertinus Serif")\n#sys.inputs.text'


def render(template: bytes, contents: Mapping[str, Any], *, until: datetime) -> bytes:
    """A PDF of a template and its inputs.

    Args:
        template: in Typst; it reads each input as JSON, and shows `sys.inputs.lacking` if it is not empty.
        contents: inputs by name. Texts in them are data and never become markup.
        until: the end of the report's period, which dates the PDF.
    """
    inputs = {name: as_json(value) for name, value in contents.items()}
    try:
        return _compiled(template, inputs | {"lacking": ""}, until)
    except typst.TypstError as error:
        if not _is_lacking(error):
            raise
    return _with_stand_ins(template, inputs, until)


def stand_in(character: str) -> str:
    """What is shown in place of a character that no font has.

    >>> stand_in("日")
    '‹U+65E5›'
    """
    return f"‹U+{ord(character):04X}›"


def _with_stand_ins(template: bytes, inputs: dict[str, str], until: datetime) -> bytes:
    """The same with stand-ins for what the fonts lack; for all beyond Latin where only a sequence is lacking."""
    present = sorted({each for text in inputs.values() for each in text if ord(each) > 0x7F})
    for absent in (lacking(present), [each for each in present if ord(each) > 0xFF and each not in NOTICE]):
        table = {ord(each): stand_in(each) for each in absent}
        shown = {name: text.translate(table) for name, text in inputs.items()}
        try:
            return _compiled(template, shown | {"lacking": NOTICE}, until)
        except typst.TypstError as error:
            if not _is_lacking(error):
                raise
            last = error
    raise last


def lacking(characters: list[str]) -> list[str]:
    """Those that no font has, by halving: a probe of many takes no longer than one of few."""
    if not characters or _is_shown(characters):
        return []
    if len(characters) == 1:
        return characters
    half = len(characters) // 2
    return [*lacking(characters[:half]), *lacking(characters[half:])]


def _is_shown(characters: list[str]) -> bool:
    """Whether each can be shown, alone and on a letter (some only combine)."""
    text = " ".join(f"{each} a{each}" for each in characters)
    try:
        typst.compile(
            _PROBE, format="pdf", sys_inputs={"text": text}, pdf_standards=[STANDARD], ignore_system_fonts=True
        )
    except typst.TypstError as error:
        if _is_lacking(error):
            return False
        raise
    return True


def _is_lacking(error: typst.TypstError) -> bool:
    return "could not be displayed" in str(error)


def _compiled(template: bytes, inputs: dict[str, str], until: datetime) -> bytes:
    made: bytes = typst.compile(
        template,
        format="pdf",
        sys_inputs=inputs,
        pdf_standards=[STANDARD],
        ignore_system_fonts=True,
        timestamp=int(until.timestamp()),
    )
    return made
