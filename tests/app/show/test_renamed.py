"""`trackside show people` and `cost` where users were renamed, and where names and uids do not go together."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from app.api import QUESTIONS
from app.show.answer import Answer, Question
from app.window import Window
from queries.warehouse import open_reader
from tests.support.command import trackside

if TYPE_CHECKING:
    from pathlib import Path

DAY = 86_400
FIRST = 1_790_812_800  # 2026-10-01T00:00:00Z
UNTIL = datetime.fromtimestamp(FIRST, UTC) + timedelta(days=6)
HEAD = "JobIDRaw|JobID|Cluster|User|UID|Account|Partition|Submit|Start|End|State|NNodes|AllocTRES|NodeList|ElapsedRaw\n"


def job(day: int, user: str, uid: int) -> str:
    """A job of an hour on eight GPUs."""
    begin = FIRST + day * DAY
    times = f"{begin}|{begin}|{begin + 3600}"
    return f"{day + 1}|{day + 1}|c|{user}|{uid}|llm|main|{times}|COMPLETED|1|cpu=8,gres/gpu=8|n1|3600\n"


SACCT = HEAD + "".join(
    (
        job(0, "dan", 1001),
        job(1, "eva", 1002),
        job(2, "daniel", 1001),  # dan, who was renamed
        job(3, "dan", 1003),  # somebody else who was given the name
        job(4, "fay", 1002),  # eva renamed, or her number given again
        job(5, "eva", 1002),
    )
)
MADE = "mod_time=1, acct='llm', user='dan', `partition`='', shares=1"
CHANGES = (
    "TimeStamp|Action|Actor|Where|Cluster|ID|Info\n"
    f"{FIRST + DAY}|Modify Users|root|(name='dan')||3|name='daniel'\n"
    f"{FIRST + 2 * DAY + 9}|Add Associations|root|id_assoc=9|c|4|{MADE}\n"
)
NODES = "NodeName=n1 CPUTot=8 Gres=gpu:h100:8 State=IDLE Partitions=main\n"
PRICES = '[cost]\ncurrency = "EUR"\n[[cost.prices]]\nper_gpu_hour = 2.0\n'


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("renamed")
    for name, text in (("changes", CHANGES), ("sacct", SACCT), ("nodes", NODES), ("prices.toml", PRICES)):
        (root / name).write_text(text)
    where = ("--warehouse", str(root / "w"))
    for name, until in (("sacct", UNTIL), ("changes", UNTIL), ("nodes", UNTIL - timedelta(days=6))):
        moment = ("--cluster", "c", "--until", until.isoformat())
        done = trackside("ingest", "slurm", str(root / name), *moment, *where)
        assert done.returncode == 0, done.stderr
    assert trackside("compute", *where).returncode == 0
    return root


def answered(root: Path, question: str, by: str = "user") -> Answer:
    with open_reader(root / "w") as reader:
        window = Window("c", datetime.fromtimestamp(FIRST, UTC), UNTIL)
        return QUESTIONS[question](reader, window, Question(by=by, config=root / "prices.toml"))


def values(answer: Answer, column: str) -> dict[str, Any]:
    return dict(answer.rows.select("subject", column).rows())


def test_people_lists_a_renamed_user_once(root: Path) -> None:
    answer = answered(root, "people")
    hours = {user: seconds / 3600 for user, seconds in values(answer, "gpu_s").items()}
    assert hours == {"daniel": 16, "dan": 8, "eva": 16, "fay": 8}
    assert values(answer, "cost") == {user: 2 * spent for user, spent in hours.items()}
    assert "dan is daniel since 2026-10-02" in " ".join(answer.notes)


def test_cost_lists_a_renamed_user_once(root: Path) -> None:
    found = values(answered(root, "cost"), "cost")
    assert {user: found[user] for user in ("daniel", "dan")} == {"daniel": 32, "dan": 16}


@pytest.mark.slow
def test_people_says_which_uids_had_several_names(root: Path) -> None:
    said = " ".join(answered(root, "people").notes)
    assert "no account change has a new name: eva and fay (1002)." in said
    assert "perhaps several people" not in said  # daniel is 1001, the other dan 1003
    assert "eva and fay" not in " ".join(answered(root, "people", by="account").notes)
