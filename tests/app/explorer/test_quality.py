from __future__ import annotations

import polars as pl

from app.explorer.pages import quality
from tests.app.explorer.test_pages import words
from tests.app.explorer.test_today import VIEW


def test_data_quality_names_what_was_skipped() -> None:
    rows = pl.DataFrame({"cluster": ["c", "c"], "source": ["slurm.accounting", "slurm.qos"], "rows_skipped": [5306, 0]})
    output = words(quality._table(rows, VIEW, "sources", "Sources", "none"))  # noqa: SLF001 - the page reads all queries
    assert "slurm.accounting, 5,306: steps of jobs, for the job itself holds the GPUs" in output
    assert "slurm.qos, 0" not in output
