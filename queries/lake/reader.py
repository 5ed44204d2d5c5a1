"""Reading a lake: as a published copy of a directory, but that samples in a bucket are fetched when they are read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from queries.lake import snapshot
from queries.lake.storage import storage_of
from queries.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queries.integrity import ManifestFile


class LakeReader(Reader):
    """A published copy of a lake's snapshot."""

    @property
    def place(self) -> str:
        """The address of the lake."""
        return str(self._description()["address"])

    def token(self) -> str | None:
        """The last commit of the warehouse that this copy is of; None if it is of several."""
        return self._description().get("token")

    def have(self, files: Sequence[ManifestFile]) -> None:
        """Have files of samples be readable below the directory."""
        missing = [file for file in files if not (self.root / file.path).exists()]
        if not missing:
            return
        about = self._description()
        storage = storage_of(about["data_path"])
        if not storage.local:
            origins = about["clusters"]
            named = [(f"{origins[file.cluster]}/{file.path}", self.root / file.path) for file in missing]
            snapshot.fetch(storage, named)

    def require(self, files: Sequence[ManifestFile]) -> None:
        """Fetch files, and have every one be as it was written."""
        self.have(files)
        super().require(files)

    def files_here(self) -> list[ManifestFile]:
        """Files of samples that are below the directory: those of a bucket are fetched when they are read."""
        return [file for file in self.files() if (self.root / file.path).exists()]

    def _description(self) -> dict[str, Any]:
        about: dict[str, Any] = json.loads(self.meta(snapshot.ABOUT) or "{}")
        return about
