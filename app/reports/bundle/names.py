"""Pseudonyms: the same name has the same one within a bundle, and without the secret none can be computed."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
import secrets
from typing import TYPE_CHECKING, Any

from app.claims.scope import matching
from app.errors import UsageError
from app.json_text import as_json
from app.output_file import write_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

LETTERS = 10
"""Of a pseudonym: 50 bits."""

SHORTEST = 3
"""Letters of a name that is looked for in texts; a shorter one is in many words."""

KINDS = ("node", "user", "account", "job", "person", "partition")
"""Kinds of names that are looked for in texts."""

TOKEN = re.compile(r"[\w.-]+")
"""What may be a name in a text."""

_OWN_RUN = re.compile(r"[\d_+]+-\d{8}T\d{6}(\.\d+)?Z(@\S+)?")


class Pseudonyms:
    """Pseudonyms by a secret.

    Attributes:
        used: kind -> name -> pseudonym, of what was given one.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._patterns: dict[str, dict[str, int]] = {"node": {}, "run": {}}
        self._marks: dict[str, Callable[[str], str]] = {}
        self.used: dict[str, dict[str, str]] = {}

    def of(self, kind: str, name: str) -> str:
        """The pseudonym of a name."""
        known = self.used.setdefault(kind, {})
        if name not in known:
            digest = hmac.new(self._secret, f"{kind}\0{name}".encode(), hashlib.sha256).digest()
            short = base64.b32encode(digest).decode().lower()[:LETTERS]
            known[name] = f"{kind}-{short}{self._marks.get(kind, _no_mark)(name)}"
        return known[name]

    def node_list(self, text: str, nodes: Iterable[str]) -> str:
        """The pseudonyms of a list of nodes, in the order of the pseudonyms."""
        return ",".join(sorted(self.of("node", each) for each in nodes)) if text else text

    def run(self, run_id: str) -> str:
        """The pseudonym of a run's name; an id that is made of a job's number stays as it is."""
        return run_id if _OWN_RUN.fullmatch(run_id) else self.of("run", run_id)

    def mark_matches(self, kind: str, patterns: Iterable[str]) -> None:
        """Have the pseudonyms of names that a claim's pattern matches carry a mark, before any is given.

        A pattern such as `gpu[1-8]` matches no pseudonym; `pattern` gives the one that does.
        """
        numbered = self._patterns[kind]
        for each in patterns:
            numbered.setdefault(each, len(numbered) + 1)
        if numbered:
            self._marks[kind] = lambda name: _marks(kind, name, numbered)

    def pattern(self, kind: str, pattern: str) -> str:
        """What matches the pseudonyms of the names that a pattern matches."""
        return f"*.s{self._patterns[kind][pattern]}.*"

    def in_text(self, text: str, known: dict[str, set[str]]) -> str:
        """A text with pseudonyms in place of the names in it."""

        def replaced(found: re.Match[str]) -> str:
            word, rest = _without_dot(found[0])
            for kind in KINDS:
                if word in known.get(kind, ()):
                    return self.of(kind, word) + rest
            return found[0]

        return TOKEN.sub(replaced, text)


def _without_dot(word: str) -> tuple[str, str]:
    bare = word.rstrip(".")
    return bare, word[len(bare) :]


def _no_mark(_: str) -> str:
    return ""


def _marks(kind: str, name: str, numbered: dict[str, int]) -> str:
    import fnmatch  # noqa: PLC0415 - only here

    found = [
        number
        for pattern, number in numbered.items()
        if (matching(pattern, [name]) if kind == "node" else fnmatch.fnmatchcase(name, pattern))
    ]
    return "".join(f".s{number}" for number in found) + (".x" if found else "")


# The sender's file -----------------------------------------------------------------------------------------------


def read_secret(path: Path) -> bytes:
    """The secret in a sender's file, a new one if there is no file.

    Raises:
        UsageError: the file is none of this kind.
    """
    try:
        held: Any = json.loads(path.read_bytes())
        secret = bytes.fromhex(held["secret"])
    except FileNotFoundError:
        return secrets.token_bytes(32)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"{path} is no file of pseudonyms (trackside report bundle writes one)") from None
    if len(secret) < 16:
        raise UsageError(f"{path}: the secret is shorter than 16 bytes")
    return secret


def write_names(path: Path, secret: bytes, names: Pseudonyms) -> None:
    """Write the secret and the names for the sender alone: the file's owner may read it.

    Raises:
        UsageError: it cannot be written.
    """
    held = {"secret": secret.hex(), "names": {kind: names.used[kind] for kind in sorted(names.used)}}
    if not path.exists():
        try:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    write_file(path, (as_json(held, indent=1, sort_keys=True) + "\n").encode())
