r"""Escape sequences of terminals in logs: colours, titles of windows, character sets (ECMA-48); as of rsyslog, too."""

from __future__ import annotations

import re
from typing import Final

_SEQUENCE: Final = re.compile(
    rb"(?:\x1b|#033)\[[0-?]*[ -/]*[@-~]"  # CSI: colours, movements; rsyslog writes ESC as #033
    rb"|\x1b\](?:[^\x07\x1b\r\n]*(?:\x07|\x1b\\))?"  # OSC: a window's title, a link; without an end its mark alone
    rb"|\x1b[ -/][0-~]"  # a character set: tput sgr0 begins with one
    rb"|\x1b[0-Z\\^-~]"  # all others
)


def without_escapes(text: bytes) -> bytes:
    r"""A text without the sequences with which programs move the cursor and colour what they print.

    >>> without_escapes(b"\x1b]0;train\x07\x1b[1;32mstep 1\x1b(B\x1b[m #033[31mloss 2.5#033[0m")
    b'step 1 loss 2.5'
    """
    may_have = b"\x1b" in text or (b"#" in text and b"#033[" in text)  # one byte is found ten times as fast
    return _SEQUENCE.sub(b"", text) if may_have else text
