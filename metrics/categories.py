"""The words of the ledger: states, their categories, kinds of evidence. Imports nothing: `help` shows them at once."""

from __future__ import annotations

UNAVAILABLE = ("maintenance", "down", "drained", "unknown")
"""Categories of the state `unavailable`, the strongest first: planned work covers what breaks meanwhile."""

IDLE = ("no_demand", "pending_demand")
ALLOCATED = (
    "productive",
    "lost",
    "startup",
    "checkpoint",
    "stalled",
    "teardown",
    "other_work",
    "unattributed",
)
GPUS_UNKNOWN = "gpus_unknown"
"""Cause of rows that no attempt is known to hold while an attempt with unrecorded GPUs was on the node."""

CATEGORIES = (*UNAVAILABLE, *IDLE, *ALLOCATED)

COSTLY = ("startup", "checkpoint", "teardown", "lost", "stalled", "pending_demand", "maintenance", "drained", "down")
"""Categories of time that could have trained and did not: the terms of "costs most", wherever it is shown. Unobserved
time, work that is not training, and GPUs that no job requested are not in it."""

EVIDENCE_KINDS = ("log", "telemetry", "accounting", "assumed")
"""Kinds of evidence, the strongest first."""

LOCKSTEP = "lockstep"
"""Cause of stalled time of GPUs that were active while another GPU of their attempt was idle.

Only the rule that an attempt works while all its GPUs do calls it stalled; it may have been productive.
"""
