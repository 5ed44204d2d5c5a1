"""Settings that answers depend on, watched while they are served: a change of the file takes effect at once."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.config import settings
from app.config.watched_file import WatchedFile
from app.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from app.config.cost import Cost
    from app.config.scaling import Scaling

logger = logging.getLogger("trackside.config")


@dataclass(frozen=True)
class Configured:
    """Settings that answers depend on. Two of these differ if the settings do.

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


class WatchedConfig(WatchedFile[Configured]):
    """The watched settings that answers depend on.

    Args:
        config: as it was read; None: the defaults, without a file.
    """

    errors = (ConfigError, OSError)

    def __init__(self, config: settings.Config | None = None) -> None:
        config = settings.Config() if config is None else config
        self._file = config.file
        super().__init__(Configured.of(config), read_at=None)

    def files(self) -> Iterable[Path]:
        """The file, if there is one."""
        return filter(None, (self._file,))

    def read(self) -> Configured:
        """Read the settings from the file; its mistakes are logged."""
        try:
            return Configured.of(settings.Config() if self._file is None else settings.of_file(self._file))
        except self.errors as error:
            logger.warning("prices and references stay as they were: %s", error)
            raise
