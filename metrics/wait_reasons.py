"""Slurm's reasons for waiting: those that no idle node could end, and those of a rule that holds the job back."""

from __future__ import annotations

NOT_WAITING = r"^(JobHeld|Dependency|BadConstraints|PartitionNodeLimit|PartitionTimeLimit|.*NotAllowed|Invalid)"
"""Slurm's reasons of jobs that no idle node could start."""

BY_A_RULE = (
    r"^(QOS|Assoc(Grp|Max|iation)|Max\w+Per(Account|User|Job|Node|Limit)|AccountingPolicy|Licenses|JobArrayTaskLimit|"
    r"Reservation$)"
)
"""Slurm's reasons of jobs that wait for a rule: a limit, a licence, the beginning of a reservation."""
