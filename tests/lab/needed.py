"""What to do where a real component is not installed or not wanted: skip, or fail where nothing may be skipped."""

from collections.abc import Sequence

import pytest

from tests import tiers

HOW_TO_GET_IT = "get it with: make test REAL=1"


def need(what: str, lacking: Sequence[str]) -> None:
    """Skip the test if anything is lacking; fail it under `make test REAL=1`, which installs it all."""
    if not tiers.real_components_wanted():
        pytest.skip(f"real {what}; run it with: make test REAL=1")
    if not lacking:
        return
    reason = f"no {what} on this machine, missing: {', '.join(lacking)}"
    if tiers.tier() == tiers.REAL:
        pytest.fail(f"{reason}; tests/lab/install.sh installs it (as root, on Debian)")
    pytest.skip(f"{reason}; {HOW_TO_GET_IT}")
