"""How attempts were joined into a run, as people read it."""

from __future__ import annotations

from typing import Final

JOINED_BY: Final = {
    "single": "-",
    "requeue_chain": "the scheduler's requeue",
    "resize": "a resize of the job",
    "het": "one heterogeneous job",
    "explicit": "the name in its log",
    "environment": "an environment variable",
    "comment": "the job's comment",
    "wckey": "the job's wckey",
    "name_pattern": "the job's name",
    "heuristic": "a guess: alike, and one after the other",
    "adjudicated": "a correction",
}
"""The text after the words "joined by", by rule; of what nothing was joined to, a dash."""
