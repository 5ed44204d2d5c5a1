"""What attempts and users did by all samples of a window, without sums that `compute` stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.results.telemetry.gpu_activity import summed, sums_of_days

if TYPE_CHECKING:
    from app.results.telemetry.gpu_activity import Activity
    from app.results.telemetry.occupancy import Known
    from app.window import Window
    from queries.warehouse import Reader


def activity_of_samples(reader: Reader, window: Window, facts: Known) -> Activity | None:
    """What GPUs did in a window; None where there are neither samples nor roll-ups."""
    days = reader.query("gpu_sample_days", cluster=window.cluster)["day"].to_list()
    return summed(sums_of_days(reader, window, facts.rules, facts.held, days), facts.rules, facts.held)
