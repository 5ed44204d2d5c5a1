"""A real Slurm cluster on loopback for tests: `SlurmLab`, and `Truth`, which watches it from outside."""

from tests.lab.cluster import TERMINAL, SlurmLab, missing
from tests.lab.processes import LabError
from tests.lab.truth import HookCall, NodeInterval, ObservedAttempt, ScriptStart, Truth

__all__ = [
    "TERMINAL",
    "HookCall",
    "LabError",
    "NodeInterval",
    "ObservedAttempt",
    "ScriptStart",
    "SlurmLab",
    "Truth",
    "missing",
]
