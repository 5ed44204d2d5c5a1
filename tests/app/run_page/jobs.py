"""A warehouse with a run of each kind that the page must describe, and the pages that are expected.

`python -m tests.app.run_page.jobs` renews the expected pages: read the difference before you commit it.
"""

from __future__ import annotations

import json
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from app.compute import pipeline as computing
from app.config.settings import Config
from app.run_page.contents import gather
from app.run_page.page import page_of
from app.run_page.request import choose
from app.terminal.terminal import Terminal
from ingest.prometheus.load_files import ingest_files as ingest_telemetry
from ingest.prometheus.target import TelemetryRequest
from ingest.runlog import store as runlogs
from ingest.slurm import load_files as ingesting
from ingest.store.report import first_error
from queries.warehouse import open_reader, open_writer
from tests.support.warehouses import copy_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.run_page.contents import RunContents

T: Final = 1_790_000_000  # 2026-09-21T14:13:20Z
HOUR: Final = 3600
NOW: Final = datetime.fromtimestamp(T + 12 * HOUR, UTC)
PAGES: Final = Path(__file__).with_name("pages")

HEAD: Final = (
    "JobID|JobIDRaw|Cluster|User|Account|Partition|QOS|State|ExitCode|Submit|Eligible|Start|End|NNodes|NCPUS|"
    "ReqTRES|AllocTRES|TimelimitRaw|Reason|NodeList|JobName\n"
)
HOSTILE: Final = "\x1b[2J\x1b[31mred\u202egpj.exe\u200b\x07 very long name " + "\u6771\u4eac" * 30

EVENTS: Final = (
    "Cluster|NodeName|TimeStart|TimeEnd|State|StateRaw|Reason|User\n"
    f"c|n2|{T + 5 * HOUR}|{T + 6 * HOUR}|DOWN|DOWN|Not responding|slurm\n"
)

MODEL: Final = {"gpu_model": "NVIDIA H100 80GB HBM3", "dtype": "bf16", "params_active": 8.03e9, "layers": 32,
                "heads": 32, "head_dim": 128, "seq_len": 8192}  # fmt: skip

KINDS: Final = {
    "healthy": "101", "node_failure": "102", "preempted": "103", "pending": "104", "running": "105", "array": "106_3",
    "het": "110+1", "cpu_only": "112", "unknown_gpus": "201", "hostile": "114", "log_only": "laptop",
    "log_only_no_gpus": "mystery", "everything": "llama-8b", "evaluation": "113",
}  # fmt: skip
"""The text that a person types, by what its run is."""


def _row(
    job: str, state: str, start: float | None, end: float | None, nodes: str, *, gpus: int | None = 8, **other: object
) -> str:
    """A line of accounting; times are hours after `T`, `gpus` those of each node (None: none recorded)."""
    submit = T + round(HOUR * (other.pop("submit", start) or 0))  # type: ignore[operator]  # a number
    names = nodes.split(",") if nodes else []
    count = max(1, len(names))
    tres = "" if gpus is None else f",gres/gpu:h100={gpus * count},gres/gpu={gpus * count}"
    if gpus == 0:
        tres = ""
    held = "" if start is None else f"cpu={16 * count}{tres},mem={64 * count}G,node={count}"
    asked = f"cpu={16 * count}{tres.replace(':h100', '')},node={count}"
    cells = {
        "JobID": job, "JobIDRaw": job, "Cluster": "c", "User": "alice", "Account": "lab", "Partition": "main",
        "QOS": "normal", "State": state, "ExitCode": "0:0", "Submit": submit, "Eligible": submit,
        "Start": "Unknown" if start is None else round(T + HOUR * start),
        "End": "Unknown" if end is None else round(T + HOUR * end), "NNodes": count, "NCPUS": 16 * count,
        "ReqTRES": asked, "AllocTRES": held,
        "TimelimitRaw": 600, "Reason": "None", "NodeList": nodes or "None assigned", "JobName": "train",
    } | other  # fmt: skip
    return "|".join(str(cells[name]) for name in HEAD.strip().split("|")) + "\n"


def accounting() -> str:
    """Accounting of cluster c."""
    return HEAD + "".join(
        [
            _row("101", "COMPLETED", 0.25, 4.0, "n3,n4", submit=0.0, JobName="healthy"),
            _row("102", "NODE_FAIL", 0.0, 5.0, "n1,n2", JobName="llama-8b"),
            _row("102", "COMPLETED", 5.1, 8.0, "n1,n5", submit=5.0, JobName="llama-8b"),
            _row("103", "PREEMPTED", 0.0, 2.0, "n6", User="bob"),
            _row("103", "COMPLETED", 3.0, 6.0, "n6", submit=2.0, User="bob"),
            _row("104", "PENDING", None, None, "", submit=9.0, Reason="Resources", JobName="waits"),
            _row("105", "RUNNING", 7.0, None, "n7", JobName="runs"),
            _row("106_2", "COMPLETED", 0.0, 1.0, "n8", JobIDRaw="107", JobName="sweep"),
            _row("106_3", "TIMEOUT", 1.0, 2.0, "n8", JobIDRaw="108", JobName="sweep", ExitCode="0:1"),
            _row("110+0", "COMPLETED", 2.0, 3.0, "n8", JobIDRaw="110", JobName="het"),
            _row("110+1", "COMPLETED", 2.0, 3.0, "n9", JobIDRaw="111", JobName="het", gpus=4),
            _row("112", "COMPLETED", 3.0, 3.5, "c1", gpus=0, JobName="preprocess"),
            _row("113", "COMPLETED", 4.0, 4.5, "n9", JobName="eval-mmlu"),
            _row("114", "FAILED", 4.0, 5.0, "n8", JobName=HOSTILE, ExitCode="1:0"),
        ]
    )


def accounting_without_gpus() -> str:
    """Accounting of cluster u, which records no GPUs."""
    return HEAD + _row("201", "COMPLETED", 0.0, 2.0, "m1,m2", gpus=None, Cluster="u", JobName="silent")


def _log(run: str, processes: list[tuple[float, int, int]], **facts: object) -> str:
    """A log: of each process its begin in hours after `T`, its first step and its last. Steps take 20 s."""
    lines: list[dict[str, Any]] = []
    for number, (begin, first, last) in enumerate(processes):
        at = T + HOUR * begin
        lines.append(
            {"type": "run", "v": 1, "t": at, "run_id": run, "rank": 0, "restart_count": number, **MODEL, **facts}
        )
        if number:
            lines.append(
                {"type": "event", "kind": "checkpoint_load", "begin": at + 10, "end": at + 40, "step": first - 1}
            )
        at += 60
        for step in range(first, last + 1):
            lines.append({"type": "step", "step": step, "t": at, "duration_s": 20.0, "tokens": 262144, "loss": 2.5})
            at += 20
            if step % 100 == 99:
                lines.append({"type": "ckpt", "step": step, "begin": at, "end": at + 15, "durable": True})
                at += 15
    return "".join(json.dumps(line) + "\n" for line in lines)


def logs() -> dict[str, str]:
    """Run logs by file name."""
    of_job = {"cluster": "c", "scheduler": "slurm", "job_id": "102", "n_gpus": 16}
    return {
        "llama.jsonl": _log("llama-8b", [(0.0, 0, 850), (5.1, 800, 1290)], **of_job),
        "laptop.jsonl": _log("laptop", [(0.0, 0, 150), (1.1, 100, 300)], n_gpus=1),
        "mystery.jsonl": _log("mystery", [(0.0, 0, 60)]),
    }


def telemetry() -> str:
    """Every minute what the GPUs of job 102 did in its first hour."""
    found = []
    for second in range(T + 60, T + HOUR + 1, 60):
        for node in ("n1", "n2"):
            for gpu in range(8):
                labels = f'gpu="{gpu}",UUID="GPU-{node}-{gpu}",Hostname="{node}"'
                found += [f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} 95 {second}",
                          f"DCGM_FI_DEV_POWER_USAGE{{{labels}}} 600 {second}"]  # fmt: skip
    return "\n".join([*sorted(found, key=lambda line: line.partition("{")[0]), "# EOF"]) + "\n"


def load(folder: Path) -> Path:
    """The warehouse, computed."""
    texts = {"sacct.txt": accounting(), "other.txt": accounting_without_gpus(), "events.txt": EVENTS,
             "gpus.om": telemetry(), **logs()}  # fmt: skip
    for name, text in texts.items():
        (folder / name).write_text(text)
    settings, root = Config(), folder / "w"
    with open_writer(root, verb="test", now=NOW) as writer:
        slurm = [str(folder / name) for name in ("sacct.txt", "other.txt", "events.txt")]
        until = ingesting.Options(until=NOW)
        reports = ingesting.ingest_files(writer, settings, slurm, until, now=NOW, progress=_silent)
        by_name = TelemetryRequest(cluster="c")
        gpus = [str(folder / "gpus.om")]
        reports += ingest_telemetry(writer, settings, gpus, by_name, now=NOW, progress=_silent)
        names = [str(folder / name) for name in logs()]
        reports += runlogs.ingest_files(writer, names, cluster=None, now=NOW, progress=_silent)
        assert first_error(reports) is None, first_error(reports)
        computing.compute(writer, settings, now=NOW)
    return root


def loaded(folder: Path) -> Path:
    """The warehouse in a folder, copied from the one that a test of the session made first."""

    def make(place: Path) -> None:
        load(place)

    return copy_of("run-pages", make, folder, "w")


def contents_of(root: Path, text: str, cluster: str | None = None) -> RunContents:
    """The numbers of the page about what a person typed."""
    with open_reader(root) as reader:
        return gather(reader, choose(reader, text, cluster, environment={}, user=None), Config().rules)


def page(root: Path, text: str, terminal: Terminal | None = None) -> str:
    """The page about what a person typed."""
    return page_of(contents_of(root, text), terminal or Terminal(width=80, height=24))


def _silent(_what: str, _done: int, _all: int) -> None:
    pass


def pages(root: Path) -> Iterator[tuple[Path, str]]:
    """Each file of an expected page, and the page as it is."""
    for kind, text in KINDS.items():
        yield PAGES / f"{kind}.txt", page(root, text)


def main() -> None:
    """Write the expected pages."""
    with tempfile.TemporaryDirectory() as folder:
        for file, text in pages(load(Path(folder))):
            file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
