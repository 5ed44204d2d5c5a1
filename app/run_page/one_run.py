"""A source of one run: what `app.results` computes of all runs, computed of this one from its own rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.results.runs.some_runs import SomeRuns

if TYPE_CHECKING:
    from queries.warehouse import Reader


class OneRun(SomeRuns):
    """Answers the named queries about runs with the rows of one run; the rows of other queries are as they are.

    Args:
        reader: the published copy.
        cluster: of the run.
        run_id: the run.
    """

    def __init__(self, reader: Reader, cluster: str, run_id: str) -> None:
        super().__init__(reader, cluster, (run_id,))
        self.run_id = run_id
