"""Paths of configuration and warehouse, for verbs that need no other setting: found without pydantic and polars."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

DEFAULT_PATH: Final = Path("trackside.toml")
"""The configuration where no other is named."""

DEFAULT_WAREHOUSE: Final = Path("trackside-data")
"""The warehouse directory where none is named."""


def config_file(path: Path | None = None) -> Path | None:
    """The configuration file: this one, else $TRACKSIDE_CONFIG, else ./trackside.toml if it exists, else None."""
    named = path or (Path(os.environ["TRACKSIDE_CONFIG"]) if os.environ.get("TRACKSIDE_CONFIG") else None)
    if named is None and not DEFAULT_PATH.exists():
        return None
    return named or DEFAULT_PATH


def beside(folder: Path, named: str | None) -> str | None:
    """A folder relative to another; the address of a bucket as it is.

    >>> beside(Path("/etc/trackside"), "files"), beside(Path("/etc/trackside"), "s3://bucket/lake")
    ('/etc/trackside/files', 's3://bucket/lake')
    """
    return named if named is None or "://" in named else str((folder / named).absolute())


def warehouse_of_environment() -> Path | None:
    """The warehouse directory that $TRACKSIDE_WAREHOUSE names, if it does."""
    named = os.environ.get("TRACKSIDE_WAREHOUSE")
    return Path(named) if named else None


def warehouse_directory(config: Path | None = None) -> Path | None:
    """The directory that `app.config.settings.load` gives: $TRACKSIDE_WAREHOUSE, else the configuration's, else ours.

    Only the key `warehouse` is read here; other mistakes in the configuration are not reported. None if the
    configuration cannot be read or this key is not text: `load` raises an error that lists the mistakes.

    Args:
        config: the configuration; by default that of $TRACKSIDE_CONFIG, else ./trackside.toml.
    """
    if warehouse := warehouse_of_environment():
        return warehouse
    file = config_file(config)
    return DEFAULT_WAREHOUSE if file is None else _configured(file)


def _configured(file: Path) -> Path | None:
    from app.config import toml_file  # noqa: PLC0415 - only where there is a configuration
    from ingest.errors import InputError  # noqa: PLC0415 - as above

    try:
        value = toml_file.parse(toml_file.read(file)).get("warehouse", str(DEFAULT_WAREHOUSE))
    except (FileNotFoundError, InputError, toml_file.NotTomlError):
        value = None
    return file.parent / value if isinstance(value, str) else None
