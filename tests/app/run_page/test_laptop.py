"""A run log alone is enough: the recorder as the manual prints it, two commands, no Slurm, no configuration."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import polars as pl
import pytest

from app.run_page.contents import lacking
from tests.support.command import ROOT, trackside

if TYPE_CHECKING:
    from pathlib import Path

MANUAL = ROOT / "app" / "docs" / "sources" / "run-logs.md"
README = ROOT / "README.md"
AROUND = """\
import time
first, last, batch_tokens = 0, 30, 16
def train(): time.sleep(0.001)
def save(step): time.sleep(0.001)
"""
"""What a training script has besides the recorder's lines."""


def snippet(page: Path) -> str:
    """The recorder's lines as a page prints them."""
    blocks: list[str] = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL)
    return next(block for block in blocks if "trackside_log.start(" in block)


@pytest.mark.slow
@pytest.mark.parametrize("page", [README, MANUAL], ids=["README", "manual"])
def test_two_commands_after_the_recorder_as_printed_show_the_run(tmp_path: Path, page: Path) -> None:
    assert trackside("recorder", "--output", str(tmp_path / "trackside_log.py")).returncode == 0
    (tmp_path / "train.py").write_text(AROUND + snippet(page))
    trained = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (trained.returncode, trained.stderr) == (0, "")
    loaded = trackside("ingest", "runlog", "run.jsonl", cwd=tmp_path)
    assert loaded.returncode == 0, loaded.stderr
    assert "Next: trackside run" in loaded.stderr
    done = trackside("run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Run llama-8b, described by its log alone (cluster local)" in done.stdout
    for label in ("ETTR ", "Steps ", "MFU ", "Job goodput", "Where its GPU-time went"):
        assert f"\n{label}" in done.stdout, done.stdout
    assert "30 executed (0 to 29), none lost" in done.stdout
    refused = trackside("show", "goodput", cwd=tmp_path)
    assert refused.returncode == 2
    assert "only run logs are loaded" in refused.stderr
    assert refused.stderr.endswith("trackside run\n")
    shown = trackside("show", "mfu", "--run", "llama-8b", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert shown.stderr.startswith("Only the log of llama-8b is loaded: its page. ")
    assert "Run llama-8b, described by its log alone (cluster local)" in shown.stdout
    as_rows = trackside("show", "mfu", "--run", "llama-8b", "--format", "json", cwd=tmp_path)
    assert as_rows.returncode == 2
    assert "run 'llama-8b' is described by its log alone" in as_rows.stderr
    assert "trackside run llama-8b\n" in as_rows.stderr


@pytest.mark.slow
def test_log_grows_and_accounting_comes_later(tmp_path: Path) -> None:
    """The run is found by its log until its job's accounting is computed, and by that from then on."""
    from tests.app.run_page.jobs import accounting, logs

    text = logs()["llama.jsonl"].replace('"cluster": "c", ', "")
    (tmp_path / "run.jsonl").write_text(text)
    (tmp_path / "sacct.txt").write_text(accounting())
    warehouse = ("--warehouse", str(tmp_path / "w"))
    assert trackside("ingest", "runlog", str(tmp_path / "run.jsonl"), "--cluster", "c", *warehouse).returncode == 0
    alone = trackside("run", "102", *warehouse).stdout
    assert "described by its log alone (cluster c)" in alone
    assert trackside("ingest", "slurm", str(tmp_path / "sacct.txt"), *warehouse).returncode == 0
    assert trackside("compute", *warehouse).returncode == 0
    both = trackside("run", "102", *warehouse).stdout
    assert "Run llama-8b on c: job 102" in both
    assert "node fail" in both


@pytest.mark.parametrize(
    ("session", "tokens", "expected"),
    [
        ({}, None, ("tokens", "n_gpus", "gpu_model", "dtype", "params")),
        ({"n_gpus": 8, "gpu_model": "H100", "dtype": "bf16"}, 4096, ("params",)),
        ({"n_gpus": 8, "gpu_model": "H100", "params_active": 8e9}, 4096, ("dtype",)),
        ({"n_gpus": 8, "gpu_model": "H100", "dtype": "bf16", "flops_per_token": 5e10}, 4096, ()),
    ],
)
def test_what_a_log_lacks_for_mfu_is_named(
    session: dict[str, object], tokens: int | None, expected: tuple[str, ...]
) -> None:
    names = ("n_gpus", "gpu_model", "dtype", "params", "params_active", "flops_per_token")
    sessions = pl.DataFrame([dict.fromkeys(names) | session])
    assert lacking(sessions, pl.DataFrame({"tokens": [tokens]})) == expected


@pytest.mark.slow
def test_an_mfu_above_the_peak_is_remarked_upon(tmp_path: Path) -> None:
    facts = {"n_gpus": 16, "gpu_model": "H100 SXM", "dtype": "bf16", "params": 8e9, "layers": 32, "heads": 32}
    run = {"type": "run", "t": 1790812800, "run_id": "r", "head_dim": 128, "seq_len": 8192, **facts}
    steps = [
        {"type": "step", "step": n, "t": 1790812800 + 2 * n, "duration_s": 2, "tokens": 800_000} for n in range(1, 9)
    ]
    (tmp_path / "run.jsonl").write_text("".join(json.dumps(line) + "\n" for line in (run, *steps)))
    assert trackside("ingest", "runlog", "run.jsonl", cwd=tmp_path).returncode == 0
    page = " ".join(trackside("run", cwd=tmp_path).stdout.split())
    assert "An MFU of 154 % cannot be: one of its inputs is wrong. Check parameters" in page


@pytest.mark.slow
def test_mfu_over_all_time_is_by_the_convention_shown(tmp_path: Path) -> None:
    """A log that knows the parameters alone has no MFU by the usual convention, and one by 6N: over all time, too."""
    facts = {"n_gpus": 8, "gpu_model": "H100 SXM", "dtype": "bf16", "params": 1e9}
    run = {"type": "run", "t": 1790812800, "run_id": "r", **facts}
    steps = [{"type": "step", "step": n, "t": 1790812800 + 2 * n, "duration_s": 2, "tokens": 10**6} for n in range(8)]
    (tmp_path / "run.jsonl").write_text("".join(json.dumps(line) + "\n" for line in (run, *steps)))
    assert trackside("ingest", "runlog", "run.jsonl", cwd=tmp_path).returncode == 0
    page = trackside("run", cwd=tmp_path).stdout
    assert "MFU          37.9 %, 6N_only" in page
    assert "37.9 % over all the time it held its GPUs" in page
