"""Writing a file that a person named: it is whole or it is as it was."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from shlex import quote

from app.errors import UsageError


def write_file(target: Path, content: bytes) -> None:
    """Write a file in one step, so that a reader or a kill sees the old content or the new, never a part.

    A device, a pipe, or a file in a folder that may not be written is written in place.

    Args:
        target: where to; a link is followed, an existing file keeps its permissions.
        content: all of it.

    Raises:
        UsageError: the file cannot be written.
    """
    folder = target.parent
    if not folder.exists():
        raise UsageError(
            f"{target} cannot be written: there is no folder {folder}; to make it: mkdir -p {quote(str(folder))}"
        )
    try:
        _write(Path(os.path.realpath(target)), content)
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror}") from None


def _write(target: Path, content: bytes) -> None:
    exists = target.exists()
    if (exists and not target.is_file()) or not os.access(target.parent, os.W_OK | os.X_OK):
        target.write_bytes(content)
        return
    if exists and not os.access(target, os.W_OK):
        raise PermissionError(
            errno.EACCES, os.strerror(errno.EACCES)
        )  # renaming over it would be possible, and not what was meant
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".trackside-", delete=False) as file:
        unfinished = Path(file.name)
        try:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), target.stat().st_mode & 0o7777 if exists else 0o666 & ~_UMASK)
            os.fsync(file.fileno())
            unfinished.replace(target)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise


_UMASK = os.umask(0o077)
"""The process's umask: it can only be read by setting it."""
os.umask(_UMASK)
