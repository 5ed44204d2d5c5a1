"""Requests for corrections, as a command line or a page passes them: nothing in them is checked yet."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Signature:
    """Author and reason of a correction; both are required, and None where they are missing."""

    author: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class WhichAttempts:
    """Selection of the attempts that a correction is about; None leaves a restriction out.

    Attributes:
        job: a raw job id, or as Slurm displays it.
        attempt: the number of the attempt in its run.
        submitted: a time as typed.
    """

    job: str | None = None
    attempt: int | None = None
    submitted: str | None = None


@dataclass(frozen=True)
class CauseRequest:
    """The class, cause or node of one interruption; None leaves it as it is."""

    cluster: str | None = None
    run: str | None = None
    which: WhichAttempts = WhichAttempts()
    kind: str | None = None
    cause: str | None = None
    node: str | None = None


@dataclass(frozen=True)
class NodeStateRequest:
    """The state of a node in an interval; times are as typed."""

    node: str
    since: str
    until: str
    state: str
    cluster: str | None = None


@dataclass(frozen=True)
class RunJoinRequest:
    """Attempts that are part of a run, or with `apart` are not."""

    run: str
    which: WhichAttempts = WhichAttempts()
    apart: bool = False
    cluster: str | None = None


@dataclass(frozen=True)
class WithdrawRequest:
    """The correction to withdraw."""

    id: str


Request = CauseRequest | NodeStateRequest | RunJoinRequest | WithdrawRequest
"""Any of them."""
