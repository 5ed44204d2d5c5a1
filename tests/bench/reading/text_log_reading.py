"""`trackside ingest runlog` of what frameworks print, against polars reading the same lines by the same patterns."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from tests.bench.reading.ingesting import best, ours_of, run
from tests.bench.table import row

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
NOISE: Final = "NCCL INFO Channel 00/32 : 0 1 2 3 4 5 6 7 via P2P/CUMEM and what else a program prints\n"

BARE: Final = r"""
import json, sys
from pathlib import Path
import polars as pl
logs = Path(sys.argv[1])
text, form = pl.col("text"), json.loads(sys.argv[2])
numbers = {name: text.str.extract(pattern).str.replace_all(",", "").cast(pl.Float64)
           for name, pattern in form["fields"].items()}
stamps = {"at": text.str.extract(form["at"]).str.to_datetime(form["stamp"])} if form["at"] else {}
for log in sorted(logs.iterdir()) if logs.is_dir() else [logs]:
    pl.scan_csv(
        log, has_header=False, separator="\x01", quote_char=None, new_columns=["text"], truncate_ragged_lines=True,
        eol_char=form["end"],
    ).filter(text.str.contains(form["starts"])).select(**numbers, **stamps).collect()
"""
"""Reads a log by the patterns of a form and does nothing with it."""


@dataclass(frozen=True)
class Printed:
    """What a framework prints of a step, and the patterns of what is read in it.

    Attributes:
        line: with `at` (when the step ended), `step`, `s` and `ms` (how long it took), `loss`, `samples` (so far), and
            progress bars: `bar` and, drawn over each other, `bars` of ten steps.
        starts: a pattern of such lines.
        fields: patterns of their numbers.
        at: one of their time.
        stamp: how that is written.
        end: with what its lines end.
        options: of `trackside ingest runlog`.
        steps: lines of a log of a few hundred megabytes.
    """

    line: str
    starts: str
    fields: Mapping[str, str]
    at: str = ""
    stamp: str = ""
    end: str = "\n"
    options: list[str] = field(default_factory=list)
    steps: int = 1_000_000

    @property
    def form(self) -> str:
        """What the bare read has to know."""
        known = {name: getattr(self, name) for name in ("starts", "at", "stamp", "end")}
        return json.dumps({**known, "fields": dict(self.fields)})


_BEGIN: Final = ["--begin", f"{BEGIN:%Y-%m-%dT%H:%M:%SZ}"]

PRINTED: Final = {
    "Megatron-LM": Printed(
        "{at:%Y-%m-%dT%H:%M:%S.%f}Z iteration {step:8d}/ 5000000 | consumed samples: {samples:12d} | "
        "elapsed time per iteration (ms): {ms:.1f} | learning rate: 1.200000E-05 | "
        "global batch size:   256 | lm loss: {loss:.6E} | loss scale: 1.0 |",
        r"iteration +\d+/",
        {
            "step": r"iteration +(\d+)/",
            "ms": r"elapsed time per iteration \(ms\): ([\d.]+)",
            "samples": r"global batch size: +(\d+)",
            "loss": r"lm loss: ([-+\w.]+)",
        },
        at=r"^(\S+)Z",
        stamp="%Y-%m-%dT%H:%M:%S%.f",
    ),
    "torchtitan": Printed(
        "[titan] {at:%Y-%m-%d %H:%M:%S},000 - root - INFO - step: {step:2d}  loss: {loss:7.4f}  grad_norm:  1.0000  "
        "memory: 61.50GiB(77.69%)  tps: 5,905  tflops: 345.10  mfu: 34.89%",
        r"step: +\d+ +loss:",
        {
            "step": r"step: +(\d+) ",
            "loss": r" loss: +([-+\w.]+)",
            "tps": r" tps: ([\d,]+)",
            "tflops": r" tflops: ([\d.,]+)",
            "mfu": r" mfu: ([\d.]+)%",
        },
        at=r"^\[titan\] (\S+ \S+),",
        stamp="%Y-%m-%d %H:%M:%S",
        options=["--timezone", "UTC"],
    ),
    "DeepSpeed": Printed(
        "[{at:%Y-%m-%d %H:%M:%S},000] [INFO] [logging.py:96:log_dist] [Rank 0] step={step}, skipped=0, "
        "lr=[5e-05, 5e-05], mom=[[0.9, 0.999], [0.9, 0.999]]",
        r"\[Rank 0\] step=\d+",
        {"step": r"step=(\d+),"},
        at=r"^\[(\S+ [\d:]+)",
        stamp="%Y-%m-%d %H:%M:%S",
        options=["--timezone", "UTC"],
    ),
    "NeMo": Printed(
        "Training epoch 0, iteration {step}/4999999 | lr: 6.897e-06 | global_batch_size: 128 | global_step: {step} | "
        "reduced_train_loss: {loss:.3f} | train_step_timing in s: {s:.3f} | consumed_samples: {samples}",
        r"Training epoch \d+, iteration",
        {
            "step": r"global_step: (\d+)",
            "samples": r"global_batch_size: (\d+)",
            "loss": r"reduced_train_loss: ([-+\w.]+)",
            "s": r"train_step_timing in s: ([-+\w.]+)",
        },
        options=_BEGIN,
    ),
    "nanoGPT": Printed(
        "iter {step}: loss {loss:.4f}, time {ms:.2f}ms, mfu 31.20%",
        r"iter \d+: loss",
        {"step": r"iter (\d+): loss", "loss": r": loss ([-+\w.]+),", "ms": r", time ([\d.]+)ms"},
        options=_BEGIN,
    ),
    "Hugging Face Trainer": Printed(
        "{bars}\r{{'loss': {loss:.4f}, 'grad_norm': 23.40848723206397, 'learning_rate': 7.142857142857143e-06, "
        "'epoch': 0.04}}\n{bar}",
        r"'loss': |%\|",
        {
            "loss": r"'loss': ([-+\w.]+)",
            "step": r"\| (\d+)/\d+ \[",
            "hours": r"\[(\d+):\d+:\d\d<",
            "minutes": r"\[\d+:(\d+):\d\d<",
            "seconds": r"\[\d+:\d+:(\d\d)<",
        },
        end="\r",
        options=_BEGIN,
        steps=200_000,
    ),
}
"""By framework."""


def write_log(file: Path, printed: Printed, steps: int, noise: int) -> None:
    """A log with so many steps, and so many other lines behind each."""
    chance, at = random.Random(1), BEGIN
    with file.open("w", encoding="utf-8") as out:
        for step in range(1, steps + 1):
            s = 1.9 + chance.random() / 10
            at += timedelta(seconds=s)
            values = {"at": at, "step": step, "s": s, "ms": s * 1_000, "samples": 256 * step}
            drawn = _bars(10 * step, (at - BEGIN) * 10) if "{bar" in printed.line else {}
            out.write(printed.line.format(**values, **drawn, loss=2 + chance.random()) + "\n" * (not drawn))
            out.write(NOISE * noise)


def _bars(step: int, since: timedelta) -> dict[str, str]:
    """The bars of a line."""
    bars = [bar(step + each, since + timedelta(seconds=2 * each)) for each in range(-9, 1)]
    return {"bars": "".join(bars), "bar": bars[-1]}


def bar(step: int, since: timedelta) -> str:
    """What tqdm draws over its line."""
    seconds = max(0, int(since.total_seconds()))
    clock = f"{seconds // 3_600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"\r  1%|▏         | {step}/50000000 [{clock}<99:27:23,  2.00s/it]"


def bench_text_log(folder: Path, framework: str, steps: int, *, noise: int, repeats: int = 2) -> list[dict[str, Any]]:
    """Rows for the table: CPU time against the bare read, and peak memory."""
    log, printed = folder / "train.log", PRINTED[framework]
    write_log(log, printed, steps, noise)
    mine, bare = [], []
    for _ in range(repeats):
        bare.append(run("-c", BARE, str(log), printed.form))
        mine.append(ours_of(log, "runlog", *printed.options))
    log.unlink()
    ours, baseline = best(mine), best(bare)
    name = f"stdout of {framework}, {steps:,} steps, {noise:,} other lines each"
    return [
        row(f"{name}, CPU", ours.cpu_s, baseline.cpu_s, "polars reading the lines by the same patterns", 2.0),
        row(f"{name}, peak memory", ours.peak_bytes / 2**20, 2048.0, "2 GiB", 1.0, unit="MiB"),
    ]


def bench_many_logs(folder: Path, count: int, *, steps: int = 50) -> list[dict[str, Any]]:
    """A row for the table: CPU time of a folder of small logs against the bare read of each."""
    logs, printed = folder / "logs", PRINTED["Megatron-LM"]
    logs.mkdir()
    write_log(folder / "whole.log", printed, count * steps, 0)
    lines = (folder / "whole.log").read_text(encoding="utf-8").splitlines(keepends=True)
    for number in range(count):
        (logs / f"{number:05d}.out").write_text("".join(lines[number * steps : (number + 1) * steps]), encoding="utf-8")
    ours, baseline = ours_of(logs, "runlog"), run("-c", BARE, str(logs), printed.form)
    shutil.rmtree(logs)
    return [
        row(f"{count:,} logs of {steps} steps, CPU", ours.cpu_s, baseline.cpu_s, "polars reading each of them", None)
    ]
