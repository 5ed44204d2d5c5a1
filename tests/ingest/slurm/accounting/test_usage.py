"""What Slurm records of the use of steps: real text and JSON, units, gaps, and the same step seen again."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from ingest.context import ParseContext
from ingest.slurm.accounting.sacct import parse_accounting
from ingest.slurm.accounting.sacct_json import parse_accounting_json
from ingest.slurm.accounting.usage import KEY, MEASURES, merge_usage
from ingest.tables import STEP_USAGE
from tests.support.command import trackside
from tests.support.slurm.answers import VERSIONS, answer, job, number
from tests.support.slurm.parsing import DATA, ROW, at, parse, text

if TYPE_CHECKING:
    from pathlib import Path

REAL = DATA / "usage.sacct.txt"
"""Made by the lab with `sacct -a -D -P --noconvert -o ALL`: two steps of `srun`, a job killed for its memory, one
requeued, an array, one that runs."""

START = int(ROW["Start"])
_MB = 21794 << 20


def usage(data: bytes) -> pl.DataFrame:
    parsed = parse_accounting(data, ParseContext(origin="x"))
    assert parsed.rejects.is_empty()
    return parsed.frames["step_usage"].sort(KEY)


def step(name: str = "batch", **more: str) -> dict[str, str]:
    ids = {"JobID": f"7.{name}", "JobIDRaw": f"7.{name}"}
    return {**ids, "Submit": str(START), "NTasks": "1", "ReqTRES": "", "User": "", "Partition": "", **more}


def only(**more: str) -> dict[str, Any]:
    rows = usage(text({}, step(**more))).filter(pl.col("step") != "")
    return rows.row(0, named=True)


def test_real_steps_have_what_slurm_measured() -> None:
    rows = usage(REAL.read_bytes()).filter(pl.col("job_id") == "4")
    shown = ["step", "n_nodes", "n_tasks", "cpu_s", "max_rss_bytes", "max_rss_node", "max_rss_task", "tasks_rss_bytes"]
    assert rows.select(shown).rows() == [
        ("", 2, None, 3.603, None, None, None, None),
        ("0", 2, 4, 3.554, 260_055_040, "n2", 3, 662_806_528),
        ("1", 2, 2, 0.005, 1_691_648, "n1", 0, 3_379_200),
        ("batch", 1, 1, 0.04, 12_980_224, "n1", 0, 12_980_224),
        ("extern", 2, 2, 0.002, 1_740_800, "n1", 0, 3_448_832),
    ]


def test_what_was_not_measured_is_unknown_and_never_0() -> None:
    rows = usage(REAL.read_bytes())
    lost = rows.filter((pl.col("job_id") == "5") & (pl.col("step") == "extern")).sort("started_at")
    assert lost["cpu_s"].to_list() == [0.001, None]
    assert rows.filter((pl.col("job_id") == "8") & pl.col("cpu_s").is_not_null()).is_empty()
    assert rows["energy_j"].null_count() == rows.height
    assert rows["gpu_util_max"].null_count() == rows.height


def test_unread_values_of_steps_are_counted_once() -> None:
    """A row of a job counts its own columns where attempts are read, so it is not counted here again."""
    bad = {"ElapsedRaw": "later", "TotalCPU": "much", "MaxRSS": "huge", "NTasks": "many"}
    unset = {"MaxRSS": "16?", "TotalCPU": "00:01:00"}
    rows = text({"ElapsedRaw": "later", "TotalCPU": "00:01:00"}, step("batch", **bad), step("0", **unset),
                step("1", Start="soon", TotalCPU="00:01:00"))  # fmt: skip
    parsed = parse_accounting(rows, ParseContext(origin="x"))
    unread = {each.detail: each.count for each in parsed.warnings if each.code == "values_unread"}
    assert unread == {"elapsedraw": 2, "totalcpu": 1, "maxrss": 1, "ntasks": 1, "start": 1}
    kept = parsed.frames["step_usage"].sort(KEY).filter(pl.col("step") != "")
    assert kept.select("step", "cpu_s", "max_rss_bytes").rows() == [("0", 60.0, None), ("batch", None, None)]


@pytest.mark.parametrize(
    ("column", "bad", "unset"),
    [
        ("ConsumedEnergyRaw", "lots", "18446744073709551614"),
        ("ConsumedEnergy", "1.5X", "16E"),
        ("TRESUsageInMax", "cpu=00:00:01,mem=much", "mem=16?,gres/gpumem=18446744073709551614M"),
        ("TRESUsageInTot", "gres/gpuutil:h100=high", "fs/disk=what"),
        ("TRESUsageInAve", "5 GB", ""),
    ],
)
def test_unread_energy_and_tres_are_counted(column: str, bad: str, unset: str) -> None:
    rows = text({}, *(step(name, TotalCPU="00:01:00", **{column: each}) for name, each in (("0", bad), ("1", unset))))
    warnings = parse_accounting(rows, ParseContext(origin="x")).warnings
    assert {each.detail: each.count for each in warnings if each.code == "values_unread"} == {column.lower(): 1}


def test_jobs_without_their_steps_have_no_use() -> None:
    """`sacct -X` prints a TotalCPU of 0 for each."""
    lines = REAL.read_text().splitlines()
    place = lines[0].split("|").index("JobIDRaw")
    total = lines[0].split("|").index("TotalCPU")
    jobs = [cells for cells in (line.split("|") for line in lines[1:]) if "." not in cells[place]]
    alone = [lines[0], *("|".join([*cells[:total], "00:00:00", *cells[total + 1 :]]) for cells in jobs)]
    assert usage("\n".join(alone).encode()).is_empty()


def test_json_equals_text_but_for_fractions_of_cpu_time() -> None:
    parsed = parse_accounting_json((DATA / "usage.sacct.json").read_bytes(), ParseContext(origin="x"))
    there = parsed.frames["step_usage"].sort(KEY)
    own = usage(REAL.read_bytes()).filter(pl.col("step") != "")
    compared = [name for name in STEP_USAGE if name not in {"db_index", "cpu_s", "elapsed_s"}]
    assert there.select(compared).equals(own.select(compared))
    assert (there["cpu_s"] - own["cpu_s"]).abs().max() < 0.0011  # type: ignore[operator]  # numbers


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("identity", ["batch", "700.batch", {"step_id": "batch", "job_id": 700}])
def test_json_steps_of_every_version_are_read(version: str, identity: object) -> None:
    most = [
        {"type": "mem", "name": "", "count": 4096, "task": 3, "node": "n2"},
        {"type": "gres", "name": "gpuutil", "count": 97},
    ]
    one = {
        "step": {"id": identity, "name": "batch"},
        "time": {"start": number(version, START), "end": number(version, START + 9), "elapsed": 9,
                 "total": {"seconds": 3, "microseconds": 250_000}},
        "tasks": {"count": 4}, "nodes": {"count": 2}, "tres": {"requested": {"max": most, "total": []}},
        "statistics": {"energy": {"consumed": number(version, 1000)}},
    }  # fmt: skip
    data = answer(version, jobs=[job(version, steps=[one, {"step": {}}])])
    parsed = parse_accounting_json(data, ParseContext(origin="x"))
    row = parsed.frames["step_usage"].row(0, named=True)
    assert parsed.frames["step_usage"].height == 1
    shown = ("job_id", "step", "n_tasks", "cpu_s", "max_rss_bytes", "max_rss_node", "max_rss_task", "gpu_util_max")
    assert tuple(row[name] for name in shown) == ("700", "batch", 4, 3.25, 4096, "n2", 3, 97.0)
    assert row["energy_j"] == 1000.0


def test_steps_in_json_that_are_none_leave_the_job_alone() -> None:
    wrong: list[object] = ["gpu", [{"step": 7}], [[]], {"a": 1}]
    for steps in wrong:
        data = answer(jobs=[job(steps=steps)])
        parsed = parse_accounting_json(data, ParseContext(origin="x"))
        assert (parsed.rows_loaded, parsed.frames["step_usage"].height) == (1, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        ({"MaxRSS": "4936K"}, {"max_rss_bytes": 4936 * 1024}),
        ({"MaxRSS": "1.50G", "MaxRSSNode": "n1"}, {"max_rss_bytes": 3 << 29, "max_rss_node": "n1"}),
        ({"MaxRSS": "0", "MaxRSSNode": "n1"}, {"max_rss_bytes": None, "max_rss_node": None}),
        ({"MaxRSS": "16?"}, {"max_rss_bytes": None}),
        ({"TRESUsageInMax": "cpu=00:00:01,mem=5M"}, {"max_rss_bytes": 5 << 20}),
        ({"TRESUsageInTot": "mem=5M,vmem=9M"}, {"tasks_rss_bytes": 5 << 20, "max_rss_bytes": None}),
        ({"TotalCPU": "1-02:03:04"}, {"cpu_s": 93_784.0}),
        ({"TotalCPU": "00:00:00"}, {"cpu_s": None}),
        ({"TotalCPU": "00:00:00", "MaxRSS": "1M"}, {"cpu_s": 0.0}),
        ({"TRESUsageInMax": "gres/gpumem=21794M,gres/gpuutil=0"}, {"gpu_util_max": 0.0, "gpu_mem_max_bytes": _MB}),
        ({"TRESUsageInMax": "gres/gpuutil:a100=50,gres/gpuutil:h100=97"}, {"gpu_util_max": 97.0}),
        ({"TRESUsageInTot": "gres/gpuutil:a100=50,gres/gpuutil:h100=97"}, {"gpu_util_total": 147.0}),
        ({"TRESUsageInMax": "gres/gpuutil:a100=50,gres/gpuutil=97"}, {"gpu_util_max": 97.0}),
        ({"TRESUsageInMax": "gres/gpuutil=many,,=,mem"}, {"gpu_util_max": None, "max_rss_bytes": None}),
        ({"ConsumedEnergyRaw": "0"}, {"energy_j": None}),
        ({"ConsumedEnergyRaw": "18446744073709551614"}, {"energy_j": None}),
        ({"ConsumedEnergy": "1.5K"}, {"energy_j": 1500.0}),
        ({"ConsumedEnergyRaw": "1490", "ConsumedEnergy": "1.5K"}, {"energy_j": 1490.0}),
    ],
)  # fmt: skip
def test_values_of_a_step_are_read(cells: dict[str, str], wanted: dict[str, object]) -> None:
    row = only(**cells)
    assert {name: row[name] for name in wanted} == wanted


@pytest.mark.slow
def test_any_subset_of_columns_gives_its_values_and_no_others() -> None:
    cells = {
        "TotalCPU": "00:01:00", "MaxRSS": "4096", "ConsumedEnergyRaw": "7", "TRESUsageInMax": "mem=4096,gres/gpuutil=9",
        "TRESUsageInTot": "mem=8192",
    }  # fmt: skip
    whole = only(**cells)
    fills = {"TotalCPU": {"cpu_s"}, "MaxRSS": {"max_rss_bytes"}, "ConsumedEnergyRaw": {"energy_j"},
             "TRESUsageInMax": {"max_rss_bytes", "gpu_util_max"}, "TRESUsageInTot": {"tasks_rss_bytes"}}  # fmt: skip
    for size in range(1, len(cells) + 1):
        for names in itertools.combinations(cells, size):
            row = only(**{name: cells[name] for name in names})
            told = set().union(*(fills[name] for name in names))
            assert {name: row[name] for name in told} == {name: whole[name] for name in told}
            assert {row[name] for name in set().union(*fills.values()) - told} <= {None}


def test_means_over_tasks_stand_for_a_total_not_exported() -> None:
    mean = "cpu=00:00:01,gres/gpumem=1024M,gres/gpuutil=40,mem=5000K"
    row = only(NTasks="4", TRESUsageInAve=mean)
    shown = ("gpu_util_total", "gpu_mem_total_bytes", "tasks_rss_bytes", "gpu_util_max")
    assert [row[name] for name in shown] == [160.0, 4 << 30, 4 * 5000 << 10, None]
    assert only(NTasks="4", TRESUsageInAve=mean, TRESUsageInTot="gres/gpuutil=163")["gpu_util_total"] == 163.0
    assert only(NTasks="", TRESUsageInAve=mean)["gpu_util_total"] is None


def test_dumps_without_these_columns_have_no_use() -> None:
    assert {name.lower() for name in ROW}.isdisjoint(MEASURES)
    assert usage(text({}, step(NTasks="2"))).is_empty()


@pytest.mark.slow
def test_records_of_a_step_merge_alike_in_any_order() -> None:
    running = usage(text({}, step(End="Unknown", ElapsedRaw="5", TotalCPU="00:00:00", MaxRSS="")))
    one = usage(text({}, step(TotalCPU="00:01:00", DBIndex="")))
    other = usage(text({}, step(TotalCPU="00:00:00", MaxRSS="4096", MaxRSSNode="n1", MaxRSSTask="2")))
    again = usage(text({}, step(TotalCPU="00:00:30", MaxRSS="2048", MaxRSSNode="n9", MaxRSSTask="7")))
    results = set()
    for frames in itertools.permutations([running, one, other, again]):
        for cut in range(1, 4):
            merged = merge_usage(merge_usage(*frames[:cut]), merge_usage(*frames[cut:]), *frames)
            results.add(tuple(merged.filter(pl.col("step") == "batch").rows()))
    (rows,) = results
    (row,) = (dict(zip(STEP_USAGE, each, strict=True)) for each in rows)
    shown = ("cpu_s", "max_rss_bytes", "max_rss_node", "max_rss_task", "db_index", "elapsed_s")
    assert tuple(row[name] for name in shown) == (60.0, 4096, "n1", 2, 70, 100.0)


@pytest.mark.slow
def test_loading_twice_in_any_form_equals_once(tmp_path: Path) -> None:
    def rows(*files: str) -> str:
        root = tmp_path / str(len(list(tmp_path.iterdir())))
        for name in files:
            loaded = trackside("ingest", "slurm", str(DATA / name), "--warehouse", str(root))
            assert loaded.returncode == 0, loaded.stderr
        tables = [
            trackside("export", name, "--warehouse", str(root)).stdout for name in ("step_usage", "job_summaries")
        ]
        return "".join("\n".join(sorted(table.splitlines())) for table in tables)

    once = rows(REAL.name)
    assert once.count("\n") > 25
    assert rows(REAL.name, REAL.name) == once
    assert rows("usage.sacct.json", REAL.name) == rows(REAL.name, "usage.sacct.json", REAL.name)


def test_texts_parse_alike_at_once_and_in_blocks() -> None:
    parsed = parse(REAL.read_bytes())
    assert parsed.frames["step_usage"].schema == pl.Schema(STEP_USAGE)
    assert parsed.rows_skipped == parsed.frames["step_usage"].filter(pl.col("step") != "").height


def test_steps_of_the_future_are_left_out_as_their_jobs_are() -> None:
    parsed = parse(text({}, step(MaxRSS="1M", NTasks="1")), now=at(START - 3600))
    assert (parsed.rows_rejected, parsed.rows_skipped, parsed.frames["step_usage"].height) == (1, 1, 0)
    assert parse(text({}, step(MaxRSS="1M")), now=at(START + 3600)).frames["step_usage"].height == 1
