"""Options of a fleet that Kubernetes would refuse or kill: reported before anything is written."""

from __future__ import annotations

import re
from typing import Final

from app.errors import UsageError

_LABEL: Final = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"

_BYTES: Final = {"Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "M": 10**6, "G": 10**9, "T": 10**12}

LEAST_MEMORY: Final = 512 * 2**20
"""Bytes that a worker takes for a small cluster."""

_FIELDS: Final = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 6))

_PART: Final = re.compile(r"(?:\*|([0-9]{1,2}|[A-Za-z]{3})(?:-([0-9]{1,2}|[A-Za-z]{3}))?)(?:/([1-9][0-9]?))?")
"""Of a field of cron, between commas: `*`, `5`, `1-5`, `MON-FRI`, each with a step."""


def require_image(image: str) -> None:
    """Refuse an image without a name.

    Raises:
        UsageError: it is empty, or holds a space.
    """
    if not image or re.search(r"\s", image):
        raise UsageError(f"--image {image!r} is no image: write it like registry.example.org/trackside:0.1.0")


def require_name(option: str, name: str, *, example: str, label: bool = False) -> None:
    """Refuse what is no name of an object.

    Args:
        option: whose value it is.
        name: the value.
        example: a name that is one.
        label: whether it may have no dots, and 63 characters at most (a namespace); else 253 and dots.

    Raises:
        UsageError: it is none.
    """
    pattern, longest = (_LABEL, 63) if label else (rf"{_LABEL}(\.{_LABEL})*", 253)
    if len(name) > longest or not re.fullmatch(pattern, name):
        dots = "" if label else " and dots"
        raise UsageError(
            f"{option} {name!r} is no name of Kubernetes: at most {longest} lower-case letters, digits, hyphens{dots}, "
            f"such as {example}"
        )


def require_memory(memory: str) -> None:
    """Refuse what is no amount of memory in which a worker can run.

    Raises:
        UsageError: it has no unit, or is too little.
    """
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)(Mi|Gi|Ti|M|G|T)", memory)
    if found is None:
        raise UsageError(f"--memory {memory!r} is no amount of memory: a number and Mi, Gi, Ti, M, G or T, such as 8Gi")
    if float(found[1]) * _BYTES[found[2]] < LEAST_MEMORY:
        raise UsageError(f"--memory {memory} is too little for a worker: at least 512Mi, such as 8Gi")


def require_schedule(schedule: str) -> None:
    """Refuse what is no time of cron with five fields.

    Raises:
        UsageError: it has more or fewer, or one is out of range.
    """
    example = "such as */15 * * * * (every 15 minutes) or 0 */2 * * *"
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        raise UsageError(f"--schedule {schedule!r} has {len(fields)} fields, not the five of cron, {example}")
    for text, (name, least, most) in zip(fields, _FIELDS, strict=True):
        if not all(_is_time(part, name, least, most) for part in text.split(",")):
            raise UsageError(f"--schedule {schedule!r}: {text!r} is no {name} of cron ({least} to {most}), {example}")


def _is_time(part: str, name: str, least: int, most: int) -> bool:
    found = _PART.fullmatch(part)
    if found is None:
        return False
    ends = [end for end in found.groups()[:2] if end is not None]
    numbers = [int(end) for end in ends if end.isdecimal()]
    named = len(numbers) < len(ends)
    if numbers != sorted(numbers):
        return False
    return (not named or name in {"month", "weekday"}) and all(least <= each <= most for each in numbers)
