"""What answers take from the configuration, watched while it is served: a change of it counts at once."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.config import settings
from app.config.toml_file import stamp
from app.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from app.config.cost import Cost
    from app.config.scaling import Scaling

logger = logging.getLogger("trackside.config")


@dataclass(frozen=True)
class Configured:
    """What answers take from the configuration; they differ where it differs.

    Attributes:
        cost: prices and factors.
        scaling: results that runs are compared with.
    """

    cost: Cost
    scaling: Scaling

    @classmethod
    def of(cls, config: settings.Config) -> Configured:
        """That of a configuration."""
        return cls(config.cost, config.scaling)


class WatchedConfig:
    """What answers take from a configuration, whose file is read again when it has changed. Safe for threads.

    While the file has mistakes, or is away, what it said last stays in use, and `mistakes` describes the mistakes.

    Args:
        config: as it was read; None: the defaults, without a file.
    """

    def __init__(self, config: settings.Config | None = None) -> None:
        config = settings.Config() if config is None else config
        self._file = config.file
        self._lock = threading.Lock()
        self._stamp: tuple[int, ...] | None = None
        self._configured = Configured.of(config)
        self._mistakes: str | None = None

    def now(self) -> Configured:
        """What counts at present."""
        with self._lock:
            self._follow()
            return self._configured

    def mistakes(self) -> str | None:
        """Why the present file cannot be used; None if it can."""
        with self._lock:
            self._follow()
            return self._mistakes

    def _follow(self) -> None:
        if self._file is None:
            return
        present = stamp(self._file)
        if present != self._stamp:
            self._stamp = present
            self._read_again(self._file)

    def _read_again(self, file: Path) -> None:
        try:
            self._configured, self._mistakes = Configured.of(settings.of_file(file)), None
        except (ConfigError, OSError) as error:
            self._mistakes = str(error)
            logger.warning("prices and references stay as they were: %s", error)
