"""Which cluster is meant: the requested one, the only one, or a message that names them all."""

from __future__ import annotations

import polars as pl
import pytest

from app.clusters import requested_clusters, select_cluster
from app.errors import UsageError


class TwoClusters:
    """A source with the clusters a and b."""

    def query(self, _: str) -> pl.DataFrame:
        return pl.DataFrame({"cluster": ["a", "b"]})


def test_requested_clusters_are_all_or_the_one_that_exists() -> None:
    source = TwoClusters()
    assert requested_clusters(source, None) == ["a", "b"]  # type: ignore[arg-type]  # it asks for the names alone
    assert requested_clusters(source, "b") == ["b"]  # type: ignore[arg-type]  # as above
    with pytest.raises(UsageError, match=r"^there is no cluster 'c'; there are: a, b$"):
        requested_clusters(source, "c")  # type: ignore[arg-type]  # as above


@pytest.mark.parametrize(("names", "requested"), [(["a", "b"], "b"), (["b"], None), (["b"], "b")])
def test_one_cluster_is_the_requested_or_the_only_one(names: list[str], requested: str | None) -> None:
    assert select_cluster("a report", names, requested) == "b"


@pytest.mark.parametrize(
    ("names", "requested", "message"),
    [
        (["a", "b"], None, "a report is about one cluster, and there are several: a, b.\nName it: --cluster NAME"),
        (["a", "b"], "c", "there is no cluster 'c'; there are: a, b"),
        ([], "c", "there is no cluster 'c'; there are: none"),
        ([], None, "no accounting has been loaded yet. Run: trackside ingest slurm"),
    ],
)
def test_one_cluster_refuses_with_the_existing_names(names: list[str], requested: str | None, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        select_cluster("a report", names, requested)
    assert str(refused.value) == message
