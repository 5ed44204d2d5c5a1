"""Targets whose address has the user of a digest in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from app.config.deliver import USER, FolderTarget, Smtp
from app.reports.delivery.outcomes import DeliveryRefusedError

if TYPE_CHECKING:
    from app.config.deliver import Target
    from app.reports.delivery.parcel import Parcel

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,63}")
"""Names of users that are allowed in a mail's address and in a path."""


def addressed(target: Target, parcel: Parcel) -> Target:
    """The target with the user that a parcel is about in place of `{user}`.

    Raises:
        RefusedError: it is about no user, or the name is not allowed there.
    """
    match target:
        case Smtp() if any(USER in each for each in target.to):
            return target.model_copy(update={"to": tuple(_with_user(each, parcel) for each in target.to)})
        case FolderTarget() if USER in str(target.path):
            return target.model_copy(update={"path": Path(_with_user(str(target.path), parcel))})
    return target


def _with_user(address: str, parcel: Parcel) -> str:
    if parcel.user is None:
        raise DeliveryRefusedError(f"the report is about no user, and the target is {address}")
    if not _NAME.fullmatch(parcel.user):
        raise DeliveryRefusedError(f"the user's name {parcel.user!r} is not allowed in {address}")
    return address.replace(USER, parcel.user)
