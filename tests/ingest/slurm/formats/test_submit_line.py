"""What a person put into a job's environment on the command line is not kept, but for what names a run."""

from __future__ import annotations

import polars as pl
import pytest

from ingest.context import ParseContext
from ingest.slurm.accounting.sacct import parse_accounting
from ingest.slurm.accounting.sacct_json import parse_accounting_json
from ingest.slurm.formats.submit_line import without_values
from tests.support.slurm.answers import NEWEST, answer, job
from tests.support.slurm.parsing import text


def one(line: str) -> str:
    return str(without_values(pl.Series([line]))[0])


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("sbatch --export=ALL,WANDB_API_KEY=s3cr3t job.sh", "sbatch --export=ALL,WANDB_API_KEY=... job.sh"),
        ("sbatch --export ALL,A=s3cr3t,B=s3cr3t job.sh", "sbatch --export ALL,A=...,B=... job.sh"),
        ("sbatch --export=A=s3cr3t -N 2 job.sh", "sbatch --export=A=... -N 2 job.sh"),
        ("srun A='s3cr3t and more' B=\"s3cr3t\" x", "srun A=... B=... x"),
        ("A=s3cr3t sbatch job.sh", "A=... sbatch job.sh"),
        ("sbatch --export=ALL,PW=s3,cr3t,B=b job.sh", "sbatch --export=ALL,PW=...,B=... job.sh"),
        ("sbatch --export=ALL,URL=http://u:s3cr3t@h?a=b job.sh", "sbatch --export=ALL,URL=... job.sh"),
        ("sbatch --wrap=KEY=s3cr3t python x.py", "sbatch --wrap=KEY=... python x.py"),
        ("sbatch x.sh http://h/?token=s3cr3t&key=s3cr3t", "sbatch x.sh http://h/?token=..."),
        ("sbatch --export=ALL,A='s3cr3t that was cut", "sbatch --export=ALL,A=..."),
        ("sbatch --export=ALL,XRUN_IDS=s3cr3t j", "sbatch --export=ALL,XRUN_IDS=... j"),
        ("sbatch --export=ALL,A=RUN_ID=s3cr3t j", "sbatch --export=ALL,A=... j"),
    ],
)
def test_values_of_variables_are_blanked_at_any_position(line: str, kept: str) -> None:
    assert one(line) == kept
    assert one(kept) == kept


@pytest.mark.parametrize(
    "line",
    [
        "sbatch --export=ALL,TRACKSIDE_RUN_ID=llama-7,WANDB_NAME='a' job.sh",
        "sbatch --export=WANDB_RUN_GROUP=g,MY_RUN_NAME=n,MLFLOW_RUN_ID=m job.sh",
        "sbatch --mem=4G --gres=gpu:8 --job-name=x /data/lr=1/job.sh",
        "",
    ],
)
def test_what_names_a_run_and_options_stay(line: str) -> None:
    assert one(line) == line


def test_a_column_keeps_its_order_and_its_nulls() -> None:
    lines = pl.Series(["b", None, "A=1 c", None, "a", "A=1 RUN_ID=2"])
    assert without_values(lines).to_list() == ["b", None, "A=... c", None, "a", "A=... RUN_ID=2"]
    assert without_values(pl.Series([], dtype=pl.String)).to_list() == []


SUBMITTED = "sbatch --export=ALL,WANDB_API_KEY=s3cr3t,TRACKSIDE_RUN_ID=llama job.sh"
SHOWN = "sbatch --export=ALL,WANDB_API_KEY=...,TRACKSIDE_RUN_ID=llama job.sh"


def test_text_and_json_are_read_without_the_values() -> None:
    listed = parse_accounting(text({"SubmitLine": SUBMITTED}), ParseContext(origin="x"))
    reported = parse_accounting_json(
        answer(NEWEST, jobs=[job(NEWEST) | {"submit_line": SUBMITTED}]), ParseContext(origin="x")
    )
    for parsed in (listed, reported):
        assert parsed.frames["attempts"]["submit_line"].to_list() == [SHOWN]
