"""A stand-in for dcgm-exporter: its text format, its names and labels, values that the test sets while it runs.

    with DcgmExporter("n1", gpus=8) as exporter:
        exporter.set("DCGM_FI_DEV_GPU_UTIL", 97, gpu=3)
        print(exporter.address)

Without a value a metric is left out, as the exporter leaves out blank ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.lab.exporter import Exporter

MODEL = "NVIDIA H100 80GB HBM3"


@dataclass
class DcgmExporter(Exporter):
    """One node's exporter. `host_label` is Hostname, or hostname as newer releases write it."""

    node: str
    gpus: int = 8
    host_label: str = "Hostname"
    _values: dict[tuple[str, int], float] = field(default_factory=dict)
    _jobs: dict[int, tuple[str, ...]] = field(default_factory=dict)

    def set(self, metric: str, value: float, *, gpu: int | None = None) -> None:
        """From now on a GPU, or each of them, has this value."""
        for index in range(self.gpus) if gpu is None else [gpu]:
            self._values[metric, index] = value

    def run_jobs(self, gpu: int, *jobs: str) -> None:
        """From now on these Slurm jobs share a GPU: each of its series comes once per job."""
        self._jobs[gpu] = jobs

    def text(self) -> str:
        """What a scrape gets."""
        lines = []
        for metric in sorted({metric for metric, _ in self._values}):
            lines += [f"# HELP {metric} {metric}", f"# TYPE {metric} gauge"]
            for (name, gpu), value in sorted(self._values.items()):
                if name == metric:
                    shown = f"{value:f}" if "_PROF_" in name else f"{value:g}"
                    lines += [f"{name}{{{labels}}} {shown}" for labels in self._labels(gpu)]
        return "\n".join(lines) + "\n"

    def _labels(self, gpu: int) -> list[str]:
        own = (
            f'gpu="{gpu}",UUID="GPU-{self.node}-{gpu}",pci_bus_id="00000000:{gpu:02X}:00.0",device="nvidia{gpu}",'
            f'modelName="{MODEL}",{self.host_label}="{self.node}",DCGM_FI_DRIVER_VERSION="580.65.06"'
        )
        return [f'{own},hpc_job="{job}"' for job in self._jobs.get(gpu, ())] or [own]
