"""Recommended action for a run that straggles, by cause."""

from __future__ import annotations

from typing import Final

ACTIONS: Final = {
    "node": "Compare clocks, throttling and errors of the node with its neighbours'; drain it when another run is slow"
    " there, too.",
    "job_shape": "Balance the work: layers between pipeline stages, lengths of sequences between ranks.",
    "network": "Look at the links between the slow sender and receiver: errors, flaps, a rail that is down.",
    "launch": "Look at the host: data loading, garbage collection, CPU cores shared with other processes.",
    "unknown": "Record stages (stage=) and more intervals, trace some steps, or compare telemetry of the nodes.",
}
"""A cause that needs no action is left out."""
