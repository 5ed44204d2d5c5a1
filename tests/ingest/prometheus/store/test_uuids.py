"""GPUs by index in one file and by UUID in another are the same GPUs, whichever file comes first."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import polars as pl
import pytest

from app.config.settings import Config
from ingest.prometheus.gpu.uuids import GPU_UUIDS, by_uuid, indexes_of
from ingest.prometheus.load_files import ingest_files
from ingest.prometheus.target import TelemetryRequest
from queries.warehouse import open_writer
from tests.support.command import contents

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

T = 1_795_248_000  # 2026-11-21T08:00:00Z, an hour
NOW = datetime(2026, 11, 22, tzinfo=UTC)
TABLES = ("gpu_samples", "gpu_hours", "health_events", "gpu_uuids")


def text(series: dict[str, list[int]], begin: int = 0, end: int = 10_000) -> str:
    """Readings every 15 s of series, of those between two seconds after T."""
    lines = [
        f"{name} {value} {T + 15 * number}"
        for name, values in series.items()
        for number, value in enumerate(values)
        if begin <= 15 * number < end
    ]
    return "\n".join([*lines, "# EOF"]) + "\n"


BY_INDEX = {
    'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-A0",Hostname="n1"}': [50] * 300,
    'DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-A1",Hostname="n1"}': [70] * 300,
}
BY_UUID = {
    'nvidia_smi_power_draw_watts{uuid="a0",instance="n1:9835"}': [200] * 300,
    'nvidia_smi_power_draw_watts{uuid="a1",instance="n1:9835"}': [400] * 300,
    'DCGM_FI_DEV_XID_ERRORS{UUID="GPU-a1",Hostname="n1"}': [0] * 100 + [79] * 200,
}


def loaded(folder: Path, texts: Sequence[str]) -> dict[str, pl.DataFrame]:
    """Tables of a warehouse after these files."""
    folder.mkdir()
    names = []
    for number, content in enumerate(texts):
        names.append(folder / f"{number}.txt")
        names[-1].write_text(content)
    with open_writer(folder / "w", verb="test", now=NOW) as writer:
        files = [str(name) for name in names]
        ingest_files(writer, Config(), files, TelemetryRequest(cluster="c"), now=NOW, progress=lambda *_: None)
    tables = contents(folder / "w")
    return {name: tables[name].sort(pl.all()) for name in TABLES}


@pytest.mark.slow
@pytest.mark.parametrize("order", ["iu", "ui", "uiv", "viu"])
def test_index_and_uuid_in_two_files_are_one_gpu(tmp_path: Path, order: str) -> None:
    whole = loaded(tmp_path / "whole", [text(BY_INDEX | BY_UUID)])
    halves = {"u": text(BY_UUID, end=3000), "v": text(BY_UUID, begin=3000)}
    texts = {"i": text(BY_INDEX), **(halves if "v" in order else {"u": text(BY_UUID)})}
    tables = loaded(tmp_path / "parts", [texts[letter] for letter in order])
    assert tables["gpu_samples"]["gpu"].unique().sort().to_list() == ["0", "1"]
    assert tables["health_events"]["gpu"].to_list() == ["1"]
    for name in TABLES:
        assert tables[name].equals(whole[name]), name


@pytest.mark.slow
@pytest.mark.parametrize("name", ['gpu="gpu0"', 'card="card0"', 'gpu="00000000:3B:00.0",UUID="GPU-a0"'])
def test_a_gpu_that_exporters_name_otherwise_is_one(tmp_path: Path, name: str) -> None:
    other = {f'nvidia_smi_power_draw_watts{{{name},instance="n1:9835"}}': [200] * 300}
    samples = loaded(tmp_path / "w", [text(BY_INDEX | other)])["gpu_samples"]
    assert samples["gpu"].unique().sort().to_list() == ["0", "1"]
    assert samples.filter(gpu="0").select("gpu_util", "power_w").unique().rows() == [(0.5, 200.0)]


def test_a_uuid_with_two_indexes_on_a_node_has_none() -> None:
    at = datetime(2026, 11, 21, tzinfo=UTC)
    rows = [("c", "n1", "a", "0", at), ("c", "n2", "a", "3", at), ("c", "n3", "b", "1", at), ("c", "n3", "b", "2", at)]
    known = pl.DataFrame(rows, GPU_UUIDS, orient="row")
    named = [("n1", "GPU-A"), ("n2", "a"), ("n4", "a"), ("n3", "GPU-b"), ("n4", "5")]
    gpus = pl.DataFrame([("c", *each) for each in named], ["cluster", "node", "gpu"], orient="row")
    found = indexes_of(by_uuid(gpus), known).select("node", "gpu", "index").sort("node").rows()
    assert found == [("n1", "GPU-A", "0"), ("n2", "a", "3")]
