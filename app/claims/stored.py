"""Verdicts on the configured claims as `compute` stores them: the ledger does not depend on a file of claims."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.claims import verdict_text
from app.claims import verify as verifying
from app.claims.file import read_claims
from app.errors import ClaimsError
from app.results.stored import Verdicts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from app.window import RowSource, Window
    from metrics.claims.verdict import Claim

NOT_STORED = ("direction", "method", "numerator", "denominator", "level", "beside", "exclusions", "excluded_gpu_hours",
              "failure_class", "population", "gpus")  # fmt: skip
"""Columns of `app.claims.verify.as_rows` that the table `verdicts` does not have."""


@dataclass(frozen=True)
class StoredClaims:
    """The claims whose verdicts are stored next to the numbers.

    Attributes:
        claims: the claims to judge; none where their file cannot be used.
        error: why their file cannot be used.
    """

    claims: Sequence[Claim] = ()
    error: ClaimsError | None = None

    @classmethod
    def read(cls, path: Path | None) -> StoredClaims:
        """The claims of a file, or the vendor's headline claims if None; a mistake in it is kept as `error`."""
        try:
            return cls(read_claims(path))
        except ClaimsError as error:
            return cls(error=error)

    def verdicts(self, source: RowSource, window: Window) -> Verdicts:
        """The verdicts of a cluster, for `app.compute.pipeline.compute`."""
        judged = verifying.judge_claims(source, window, self.claims)
        rows = verifying.as_rows(judged, window).drop(NOT_STORED, strict=False)
        return Verdicts(rows, {verdict_text.fact_of(window.cluster): verdict_text.as_text(judged, window)})
