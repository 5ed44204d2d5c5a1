"""Context of most verbs: the configuration, the warehouse, progress on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app import console
from app.config import place
from app.progress import progress as progress  # noqa: PLC0414 - part of what a verb needs
from queries.opening import use_engine
from queries.warehouse import open_reader

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from app.config.settings import Config


def settings_and_root(options: argparse.Namespace) -> tuple[Config, Path]:
    """The configuration and the warehouse directory that the common options name.

    From then on warehouses are opened with the settings of the configuration's section `engine`.
    """
    from app.config import settings

    config = settings.load(options.config)
    use_engine(config.engine.chosen)
    return config, options.warehouse or config.warehouse


def warehouse_root(options: argparse.Namespace) -> Path:
    """The warehouse directory alone. Without a configuration file no settings are imported.

    Raises:
        ConfigError: the configuration file has mistakes.
    """
    if place.config_file(options.config) is not None:
        return settings_and_root(options)[1]
    root: Path = options.warehouse or place.warehouse_of_environment() or place.DEFAULT_WAREHOUSE
    return root


def require_warehouse(root: Path) -> None:
    """Refuse a directory without a warehouse: a verb that only recomputes makes none out of a mistyped name.

    Raises:
        NoWarehouseError: there is none.
    """
    if not (root / "warehouse.duckdb").exists():
        with open_reader(root):  # raises, with what to do
            pass


def note(text: str, *, quiet: bool) -> None:
    """Print notes for a person on stderr, apart from the results on stdout."""
    if not quiet:
        console.echo(text, error=True)
