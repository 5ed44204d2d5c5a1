"""A person corrects a cause, a node state or a run join, or withdraws a correction.

Author and reason are never guessed. The result has the effect: the verdicts that changed, and the GPU-time that changed
its category.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl

from app.adjudicate.effect import differences, read_figures
from app.adjudicate.requests import WithdrawRequest
from app.adjudicate.resolve import resolve
from app.claims.file import read_claims
from app.claims.stored import StoredClaims
from app.compute import pipeline
from app.compute.unchanged import inputs_digest
from app.corrections import records
from app.corrections.describe import describe, shortened
from app.corrections.records import Correction, stamp
from app.errors import UsageError
from app.times import iso

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from app.adjudicate.requests import Request, Signature
    from app.config.settings import Config
    from app.window import RowSource
    from queries.warehouse import Writer

LONGEST_NAME, LONGEST_REASON = 100, 1000
"""Letters of an author's name and of a reason."""


@dataclass(frozen=True)
class Done:
    """The result of a correction.

    Attributes:
        correction: as it is stored.
        message: what was done, in a sentence.
        changed: whether anything was written.
        effect: the differences; None where nothing was computed.
    """

    correction: Correction
    message: str
    changed: bool
    effect: tuple[str, ...] | None = None


def adjudicate(
    writer: Writer,
    settings: Config,
    request: Request,
    signature: Signature,
    *,
    now: datetime,
    compute: bool = True,
    claims_path: Path | None = None,
    progress: Callable[[str], None],
) -> Done:
    """Store a correction, compute, and compare the numbers.

    Args:
        writer: the warehouse.
        settings: with the rules and claims to compute by.
        request: the correction, or the one to withdraw.
        signature: who makes it, and why.
        now: when it is made.
        compute: whether to compute with it now; otherwise the next computation applies it.
        claims_path: claims whose verdicts are compared; None: those of the configuration.
        progress: receives what is being done.

    Raises:
        UsageError: the subject does not exist or is not unique, nothing would change, or author or reason is missing.
    """
    author, reason = _check_signature(signature)
    if isinstance(request, WithdrawRequest):
        done = _withdraw(writer, request.id, author, reason, now)
    else:
        done = _add_id(writer, replace(resolve(writer, request), made_at=now, author=author, reason=reason))
    if not done.changed:
        return _compute_if_pending(writer, settings, done, now=now, progress=progress) if compute else done
    claims = read_claims(claims_path or settings.claims) if compute else []
    cluster = done.correction.cluster
    if not compute:
        with writer.transaction():
            _write(writer, done.correction)
        return done
    progress("the numbers before")
    before = read_figures(writer, cluster, claims)
    with writer.transaction():
        _write(writer, done.correction)
    _compute(writer, settings, now=now, progress=progress)
    progress("the numbers after")
    return replace(done, effect=tuple(differences(before, read_figures(writer, cluster, claims))))


def _compute_if_pending(
    writer: Writer, settings: Config, done: Done, *, now: datetime, progress: Callable[[str], None]
) -> Done:
    """The result of a correction that exists already; computed now if a computation has not applied it yet."""
    changed_at = done.correction.withdrawn_at or done.correction.made_at
    computed = writer.query("computed", cluster=done.correction.cluster)
    if computed.is_empty() or computed["computed_at"].item() >= changed_at:
        return done
    _compute(writer, settings, now=now, progress=progress)
    return replace(done, message=f"{done.message}; the numbers lacked it and are computed anew")


def _compute(writer: Writer, settings: Config, *, now: datetime, progress: Callable[[str], None]) -> None:
    stored = StoredClaims.read(settings.claims)
    inputs = None if stored.error else inputs_digest(settings, since=None, until=None)
    pipeline.compute(
        writer, settings, now=now, inputs=inputs, verdicts=stored.verdicts, progress=lambda what, *_: progress(what)
    )


def _write(writer: Writer, correction: Correction) -> None:
    if correction.counts:
        writer.append("adjudications", pl.DataFrame([correction.row()], infer_schema_length=None))
        return
    writer.run(
        "withdraw_adjudication",
        id=correction.id,
        at=correction.withdrawn_at,
        author=correction.withdrawn_by,
        reason=correction.withdrawn_reason,
    )


def _check_signature(signature: Signature) -> tuple[str, str]:
    """Author and reason.

    Raises:
        UsageError: one of them is missing, too long, or holds what cannot be printed.
    """
    signed = []
    user = os.environ.get("USER", "")
    hint = f" (you may be {user})" if user.isprintable() and user else ""
    for name, text, longest, meaning in (
        ("--author", signature.author, LONGEST_NAME, f"who makes the correction{hint}"),
        ("--reason", signature.reason, LONGEST_REASON, "why"),
    ):
        value = (text or "").strip()
        if not value:
            raise UsageError(f"{name} is missing: {meaning}; a correction is stored with its author and reason")
        if len(value) > longest or not value.isprintable():
            raise UsageError(f"{name}: at most {longest} characters in one line, without control characters")
        signed.append(value)
    return signed[0], signed[1]


def _add_id(source: RowSource, made: Correction) -> Done:
    """The correction with its id, unless it exists already."""
    counting = [each for each in records.read_corrections(source, made.cluster) if each.counts]
    same = [each for each in counting if each.repeats(made)]
    if same and not any(each.overlaps(made) for each in counting[counting.index(same[-1]) + 1 :]):
        first = same[-1]
        message = f"{first.id} is the same correction (by {first.author} at {iso(first.made_at)}); nothing was changed"
        return Done(first, message, changed=False)
    named = "\0".join([made.cluster, made.kind, str(made.subject), str(made.after), stamp(made.made_at)])
    with_id = replace(made, id=f"adj-{hashlib.sha256(named.encode()).hexdigest()[:10]}")
    others = [each.id for each in counting if each.overlaps(made)]
    over = f"; it replaces {', '.join(others)} where both are about the same thing" if others else ""
    return Done(with_id, f"{with_id.id}: {describe(with_id)}{over}", changed=True)


def _withdraw(source: RowSource, id_: str, author: str, reason: str, now: datetime) -> Done:
    corrections = records.read_corrections(source)
    correction = next((each for each in corrections if each.id == id_), None)
    if correction is None:
        counting = [each.id for each in corrections if each.counts]
        raise UsageError(f"there is no correction {id_!r}; in force: {shortened(counting)}")
    if not correction.counts:
        message = f"{correction.id} is already withdrawn, by {correction.withdrawn_by}; nothing was changed"
        return Done(correction, message, changed=False)
    taken = replace(correction, withdrawn_at=now, withdrawn_by=author, withdrawn_reason=reason)
    return Done(taken, f"{correction.id} is withdrawn: {describe(correction)}", changed=True)
