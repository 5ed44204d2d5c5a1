"""Results of MLPerf Training as they are published: files that become run logs, and the jobs that they imply.

    SUBMITTER/results/SYSTEM/BENCHMARK/result_I.txt   the log of a run; scaling.json has the factor of its time
    SUBMITTER/systems/SYSTEM.json                     nodes, GPUs of a node, and the GPU's name

A submitter is a cluster (several, where it has several benchmarks, kinds of GPU or systems of one size), a result a run
of one attempt on nodes of its own, from its first event to its last.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from app.errors import UsageError
from app.reproduce.publication import Sources
from ingest.files.input import Input
from ingest.plausible import EARLIEST_S, LATEST_S
from ingest.runlog.formats.mlperf import gpu_model_of, has_entry
from metrics.mfu.peaks import gpu_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

COMPARED: Final = "llama31_405b"
"""The benchmark whose published results and claims are compared with ours; it is read where no other is named."""

EVERY: Final = "all"
"""Names every benchmark that there is."""

BENCHMARKS: Final = "benchmarks"
"""The key of the sources' facts that holds the benchmark of each cluster."""


def read(
    path: Path, *, version: str, dtype: str | None, benchmarks: Sequence[str] = (), known: str | None = None
) -> Sources:
    """The results below a path.

    Args:
        path: a folder that has SUBMITTER/results somewhere below it.
        version: the round, such as 5.0.
        dtype: the data types that its runs multiply matrices in, as the caller states them; None: nothing is stated.
        benchmarks: those that are read; none: `COMPARED`, or where it is not there every benchmark.
        known: the data types of `COMPARED` where none are stated; None: unknown.

    Raises:
        UsageError: there are none that can be read.
    """
    sources = Sources()
    systems = list(_systems(path, _benchmarks_to_read(path, benchmarks), sources))
    for system, cluster in zip(systems, _clusters(systems), strict=True):
        system.described["dtype"] = dtype or (known if system.benchmark == COMPARED else None)
        sources.facts.setdefault(BENCHMARKS, {})[cluster] = system.benchmark
        for log in _logs(system.folder):
            _add(sources, log, cluster, system.described)
    if not sources.run_logs:
        raise UsageError(_without_results(path, sources))
    if dtype is None and any("dtype" not in facts for _, facts in sources.run_logs):
        sources.left_out.append(
            f"MFU: logs of round {version} do not record the data type, and it is not known here; state it: "
            "--dtype fp8+bf16 (several: by +)"
        )
    return sources


def _without_results(path: Path, sources: Sources) -> str:
    """The message for a path without results that can be read: the layout, and what is there instead."""
    reasons = sources.left_out or [f"there is {log.name}" for log in sorted(path.rglob("*.txt*"))[:3]]
    found = "".join(f"\n  {line}" for line in reasons)
    layout = "SUBMITTER/results/SYSTEM/BENCHMARK/result_0.txt and SUBMITTER/systems/SYSTEM.json"
    return f"{path}: no result of MLPerf Training lies as published: {layout}{found}"


def _benchmarks_to_read(path: Path, benchmarks: Sequence[str]) -> set[str]:
    """The benchmarks that are read.

    Raises:
        UsageError: one that is named is not there.
    """
    there = {folder.name for folder in _result_folders(path)}
    if missing := sorted(set(benchmarks) - there - {EVERY}):
        raise UsageError(f"{path} has no results of {', '.join(missing)}; it has: {', '.join(sorted(there)) or 'none'}")
    if EVERY in benchmarks or (not benchmarks and COMPARED not in there):
        return there
    return set(benchmarks) or {COMPARED}


class _Submitted(NamedTuple):
    """The results of one system: their folder, who submitted them, and the facts that their logs do not record."""

    folder: Path
    submitter: str
    system: str
    benchmark: str
    described: dict[str, Any]

    @property
    def group(self) -> tuple[str, str]:
        """Results of different groups are never compared."""
        return self.submitter, self.benchmark

    @property
    def size(self) -> tuple[tuple[str, str], str, int]:
        """The group, GPU and their number: two systems of one size are two systems all the same."""
        return self.group, self.described["gpu_model"], self.described["nodes"] * self.described["gpus_per_node"]


def _systems(path: Path, benchmarks: Collection[str], sources: Sources) -> Iterator[_Submitted]:
    """The systems whose results are read; the others are left out with the reason."""
    for folder in sorted(_result_folders(path)):
        benchmark, system, submitter = folder.name, folder.parent.name, folder.parents[2].name
        if benchmark not in benchmarks:
            sources.left_out.append(f"{submitter}/{system}: {benchmark} (to read it: --benchmark {benchmark})")
            continue
        described = _system(folder.parents[2] / "systems" / f"{system}.json", sources)
        if described is None:
            continue
        try:
            factor = _factor(folder / "scaling.json")
        except ValueError as error:
            sources.left_out.append(f"{submitter}/{system}: {error}")
            continue
        yield _Submitted(folder, submitter, system, benchmark, described | {"time_factor": factor})


def _clusters(systems: Sequence[_Submitted]) -> list[str]:
    """The cluster of each system: its submitter, with the GPU or the system where those of one submitter differ.

    Times and speeds are compared and averaged within a cluster: two kinds of GPU, or two systems of one size, are not,
    and neither are two benchmarks. Every benchmark but `COMPARED` is in the name.
    """
    models = {one.group: {each.size[1] for each in systems if each.group == one.group} for one in systems}
    alike = Counter(one.size for one in systems)
    names = []
    for one in systems:
        own = one.system if alike[one.size] > 1 else one.size[1] if len(models[one.group]) > 1 else None
        benchmark = None if one.benchmark == COMPARED else one.benchmark
        names.append(_cluster("-".join(each for each in (one.submitter, own, benchmark) if each is not None)))
    return names


def _result_folders(path: Path) -> set[Path]:
    return {log.parent for log in path.rglob("result_*.txt*") if log.parents[2].name == "results"}


def _logs(folder: Path) -> list[Path]:
    """The logs of a folder; one that is there packed and unpacked counts once."""
    every = {log.name.partition(".")[0]: log for log in sorted(folder.glob("result_*.txt*"), reverse=True)}
    return [every[name] for name in sorted(every)]


def _system(path: Path, sources: Sources) -> dict[str, Any] | None:
    """Nodes, GPUs of a node, and the name of the GPU; None where the description cannot be used."""
    try:
        described = json.loads(path.read_text("utf-8"))
        sizes = {"nodes": int(described["number_of_nodes"]), "gpus_per_node": int(described["accelerators_per_node"])}
        named = {"gpu_model": str(described["accelerator_model_name"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        sources.left_out.append(f"{path}: the system's description cannot be used: {error}")
        return None
    if min(sizes.values()) < 1:
        sources.left_out.append(f"{path}: the system's description cannot be used: it has no accelerators")
        return None
    return {**sizes, **named}


def _cluster(submitter: str) -> str:
    """A submitter's name as that of a cluster.

    >>> _cluster("IBM+CoreWeave+NVIDIA")
    'IBM-CoreWeave-NVIDIA'
    """
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", submitter)


def _add(sources: Sources, log: Path, cluster: str, described: Mapping[str, Any]) -> None:
    """A log, and the job that it implies."""
    nodes, gpus = described["nodes"], described["nodes"] * described["gpus_per_node"]
    number = len(sources.run_logs) + 1
    facts = {
        "run_id": _run_id(log),
        "cluster": cluster,
        "scheduler": "slurm",
        "job_id": str(number),
        "n_gpus": gpus,
        "gpu_model": described["gpu_model"],
        "dtype": described["dtype"],
        "time_factor": described["time_factor"],
    }
    facts = {name: value for name, value in facts.items() if value is not None}
    try:
        data = Input(str(log)).whole()
        begin, end = _span(data)
    except ValueError as error:
        sources.left_out.append(f"{log}: {error}")
        return
    if other := _other_gpu(data, described["gpu_model"]):
        sources.left_out.append(f"{log}: its platform, {other}: the system's description says {described['gpu_model']}")
    names = f"r{number}-[{1:04d}-{nodes:04d}]" if nodes > 1 else f"r{number}-0001"
    who = ("mlperf", "mlperf", "batch", facts["run_id"], "COMPLETED", "0:0")
    held = f"gres/gpu={gpus},node={nodes}"
    sources.accounting.append((number, number, cluster, *who, begin, begin, begin, end, nodes, names, held))
    sources.run_logs.append((log, facts))


def _run_id(log: Path) -> str:
    """System and number of a result; the benchmark, too, where it is not `COMPARED`."""
    benchmark, system = log.parent.name, log.parents[1].name
    named = system if benchmark == COMPARED else f"{system}/{benchmark}"
    return f"{named}/{log.name.partition('.')[0]}"


def _span(data: bytes) -> tuple[int, int]:
    """The first and the last time of a log's entries, in whole seconds around them.

    Raises:
        ValueError: it has none.
    """
    times = [float(each) / 1000 for each in _TIME.findall(data)]
    known = [each for each in times if EARLIEST_S <= each <= LATEST_S]
    if not known or not has_entry(data):
        raise ValueError("there is no line `:::MLLOG` with a time in it")
    return math.floor(min(known)), math.ceil(max(known))


def _other_gpu(data: bytes, described: str) -> str | None:
    """The GPU that a log names where it is not the one of the system's description."""
    platform = _PLATFORM.search(data)
    named = gpu_model_of(platform[1].decode(errors="replace")) if platform else None
    return named if named is not None and gpu_of(named) != gpu_of(described) else None


_PLATFORM: Final = re.compile(rb':::MLLOG [^\n]*?"key": ?"submission_platform"[^\n]*?"value": ?"([^"\n]*)"')

_TIME: Final = re.compile(rb':::MLLOG [^\n]*?"time_ms": ?(\d+(?:\.\d+)?)')


def _factor(path: Path) -> float:
    """What the official time is multiplied by: submitters with fewer steps than the reference scale it up.

    Raises:
        ValueError: the file is there and has no such number.
    """
    try:
        factor = float(json.loads(path.read_text("utf-8"))["scaling_factor"])
    except FileNotFoundError:
        return 1.0
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path.name} has no scaling_factor: {error}") from None
    if not 0 < factor < math.inf:
        raise ValueError(f"{path.name}: scaling_factor is {factor}")
    return factor
