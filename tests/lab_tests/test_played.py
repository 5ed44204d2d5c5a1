"""A scenario is played twice at most, and only where the lab failed."""

from contextlib import nullcontext

import pytest

from tests.lab import LabError, SlurmLab
from tests.lab.scenario import played as module


@pytest.fixture(autouse=True)
def _no_real_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "need", lambda *_: None)
    monkeypatch.setattr(module, "SlurmLab", lambda: nullcontext(object()))


@pytest.mark.parametrize("failures", [0, 1])
def test_a_lab_that_fails_once_is_replaced(failures: int) -> None:
    labs: list[SlurmLab] = []

    def play(lab: SlurmLab) -> str:
        labs.append(lab)
        if len(labs) <= failures:
            raise LabError
        return "played"

    with module.played(play) as scenario:
        assert scenario == "played"
    assert len({id(lab) for lab in labs}) == failures + 1


@pytest.mark.parametrize(("error", "plays"), [(LabError, 2), (AssertionError, 1)])
def test_a_lab_that_fails_twice_and_a_failed_assertion_fail(error: type[Exception], plays: int) -> None:
    labs: list[SlurmLab] = []

    def play(lab: SlurmLab) -> None:
        labs.append(lab)
        raise error

    with pytest.raises(error), module.played(play):
        pass
    assert len(labs) == plays
