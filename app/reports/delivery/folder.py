"""Delivery to a folder: one below it for each report, which is there whole or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.errors import UsageError
from app.json_text import as_json
from app.output_file import write_file
from app.reports.delivery.outcomes import DeliveryRefusedError

if TYPE_CHECKING:
    from app.config.deliver import Deliver, FolderTarget
    from app.reports.delivery.parcel import Parcel

MANIFEST = "manifest.json"
"""The file that is written last: where it is, the report is whole."""


def send(target: FolderTarget, parcel: Parcel, settings: Deliver) -> str | None:  # noqa: ARG001 - as every target
    """Write the report's files; the same bytes again where they are there.

    Raises:
        RefusedError: they cannot be written.
    """
    folder = target.path / parcel.key
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in parcel.files:
            write_file(folder / file.name, file.content)
        write_file(folder / MANIFEST, (as_json(parcel.manifest(), indent=2) + "\n").encode())
    except OSError as error:
        raise DeliveryRefusedError(f"{folder}: {error.strerror}") from None
    except UsageError as error:
        raise DeliveryRefusedError(str(error)) from None
    return None
