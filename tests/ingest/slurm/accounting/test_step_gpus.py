"""GPUs of job steps: evidence of what an attempt held whose own TRES names none, in any order of rows."""

from __future__ import annotations

import itertools
from decimal import Decimal

import polars as pl
import pytest

from ingest.context import ParseContext
from ingest.slurm.accounting.row_counts import RowCounts
from ingest.slurm.accounting.sacct import accounting_blocks
from ingest.slurm.accounting.sacct_json import parse_accounting_json
from tests.support.slurm.answers import VERSIONS, answer, job, tres
from tests.support.slurm.parsing import ROW, parse, text

CPUS = {"ReqTRES": "cpu=2,node=2", "AllocTRES": "billing=2,cpu=2,node=2"}
START = int(ROW["Start"])
COLUMNS = [*ROW]


def step(name: str, gpus: int | None, began: int = START, job_id: str = "7", **more: str) -> dict[str, str]:
    """A step as sacct shows it: its Submit is its own start."""
    held = "cpu=2,node=2" + ("" if gpus is None else f",gres/gpu={gpus}")
    times = {"Submit": str(began), "Eligible": str(began), "Start": str(began), "End": str(began + 10)}
    ids = {"JobID": f"{job_id}.{name}", "JobIDRaw": f"{job_id}.{name}"}
    return {**ids, **times, "ElapsedRaw": "10", "ReqTRES": "", "AllocTRES": held, "User": "", "Partition": "", **more}


def gpus_of(*rows: dict[str, str], **options: object) -> list[object]:
    parsed = parse(text(*rows, columns=COLUMNS), **options)  # type: ignore[arg-type]  # the parser's own
    assert parsed.rejects.is_empty()
    return parsed.frames["attempts"].sort("submitted_at")["gpus_steps"].to_list()


@pytest.mark.parametrize(
    ("steps", "most"),
    [
        ([step("batch", 8), step("0", 16, START + 20), step("1", 4, START + 40)], 16),
        ([step("batch", 8), step("extern", None)], 8),
        ([step("batch", None), step("0", None)], None),
        ([step("0", 0)], None),
        ([step("0", 16, int(ROW["End"]))], 16),
        ([step("0", 16, int(ROW["End"]) + 1)], None),
        ([step("0", 16, START - 1)], None),
        ([step("0", 16, job_id="70")], None),
        ([step("0", 1_000)], None),
        ([step("0", None, ReqTRES="gres/gpu=8")], 8),
    ],
    ids=[
        "the most of several", "the batch step", "steps without GPUs", "a step with none", "begun at the end",
        "begun after the end", "begun before the start", "of another job", "more than nodes can have", "of a request",
    ],
)  # fmt: skip
def test_attempt_without_gpus_in_tres_has_the_most_of_its_steps(steps: list[dict[str, str]], most: int | None) -> None:
    assert gpus_of(CPUS, *steps) == [most]


def test_steps_do_not_change_the_jobs_own_tres() -> None:
    parsed = parse(text({}, step("0", 4), columns=COLUMNS)).frames["attempts"]
    assert parsed.select("n_gpus", "gpus_steps").row(0) == (Decimal(16), None)


@pytest.mark.slow
def test_steps_of_requeued_attempts_are_separate_in_any_order() -> None:
    later = START + 1_000
    again = {**CPUS, "Submit": str(START + 100), "Start": str(later), "End": str(later + 100), "DBIndex": "71"}
    rows = [{**CPUS, "State": "REQUEUED"}, step("batch", 16, START), again, step("batch", 8, later)]
    for order in itertools.permutations(rows):
        assert gpus_of(*order) == [16, 8]


def test_steps_of_array_tasks_are_theirs_without_a_raw_id_too() -> None:
    columns = [name for name in COLUMNS if name != "JobIDRaw"]
    rows = [{**CPUS, "JobID": f"9_{task}"} for task in (1, 2)] + [
        step("0", 4 * task, job_id=f"9_{task}") for task in (1, 2)
    ]
    result = parse(text(*rows, columns=columns)).frames["attempts"].sort("job_id")
    assert result.select("job_id", "gpus_steps").rows() == [("9_1", 4), ("9_2", 8)]


def test_steps_of_attempts_in_other_blocks_stay_separate() -> None:
    rows = [{**CPUS, "JobID": str(n), "JobIDRaw": str(n)} for n in range(1, 41)]
    steps = [step("0", 8, job_id=str(n)) for n in range(1, 41)]
    data = text(*rows, *steps, columns=COLUMNS)
    blocks = list(
        accounting_blocks([data[at : at + 100] for at in range(0, len(data), 100)], RowCounts("x"), block=1_000)
    )
    apart = pl.concat(block.steps for block in blocks)
    placed = sum(block.attempts["gpus_steps"].count() for block in blocks)
    assert len(blocks) > 2
    assert apart.height + placed == 40
    assert apart.height > 20


@pytest.mark.parametrize("version", VERSIONS)
def test_steps_within_a_json_job_give_its_gpus(version: str) -> None:
    none = [each for each in tres(version, gpus=0) if each["name"] != "gpu"]
    steps = [
        {"tres": {"requested": {"max": []}, "allocated": tres(version, gpus=gpus, kind="h100")}} for gpus in (8, 16)
    ]
    own = job(version, tres={"allocated": none, "requested": none}, steps=steps)
    other = job(version, job_id=701, tres={"allocated": none, "requested": none}, steps=[{"tres": None}, *steps[:1]])
    strange = job(version, job_id=702, tres={"allocated": none, "requested": none}, steps=[{"tres": "gpu"}])
    known = job(version, job_id=703, steps=steps)
    result = parse_accounting_json(answer(version, jobs=[own, other, strange, known]), ParseContext(origin="x"))
    assert result.rejects.is_empty()
    rows = result.frames["attempts"].sort("job_id").select("n_gpus", "gpus_steps").rows()
    assert rows == [(None, 16), (None, 8), (None, None), (16, None)]
