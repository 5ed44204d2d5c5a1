"""Digests: the numbers of `show` for one user or one run, the same bytes again, hostile names, on the schedule."""

from __future__ import annotations

import json
import re
import shutil
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import polars as pl
import pytest

from app.config import settings as config
from app.config.cost import Cost
from app.config.deliver import FolderTarget, Smtp
from app.errors import ConfigError, UsageError
from app.reports.delivery.addressed import addressed
from app.reports.delivery.outcomes import DeliveryRefusedError
from app.reports.delivery.parcel import KEPT, Parcel, read_parcel
from app.reports.delivery.smtp import message_of
from app.reports.digest import document as digest
from app.reports.digest.advice import advice
from app.reports.digest.render import file_name, rendered
from app.reports.digest.words import lines_of
from app.reports.forms import FORMS
from app.reports.schedule.assemble import runner_of
from app.reports.sla.document import sealed
from app.results.people.use import use_rows
from app.times import parse_period
from app.window import Window
from queries.warehouse import open_reader
from tests.support.warehouses import from_everything

if TYPE_CHECKING:
    from app.config.settings import Config

PERIOD = "2026-10"
HOSTILE = "../<script>x</script>\n| # *b* [l](javascript:1) =1+1\u202e"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return from_everything(tmp_path_factory.mktemp("digest"))


def made(root: Path, kind: str = "user", name: str | None = None, period: str = PERIOD) -> dict[str, Any]:
    with open_reader(root) as reader:
        cluster = reader.query("clusters")["cluster"].item(0)
        window = Window(cluster, *parse_period(period))
        if name is None:
            name = use_rows(reader, window, "user" if kind == "user" else "run_id")["subject"].item(0)
        return sealed(digest.document(reader, window, period, digest.Subject(kind, name), Cost()))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["user", "run"])
def test_gpu_time_of_a_subject_is_counted_exactly_once(root: Path, kind: str) -> None:
    found = made(root, kind)
    assert found["use"]["gpu_s"] > 0
    assert float(sum(Decimal(each["gpu_seconds"]) for each in found["time"])) == pytest.approx(found["use"]["gpu_s"])
    assert sum(each["share"] for each in found["time"]) == pytest.approx(1)
    assert found["runs"]["count"] >= found["use"]["n_runs"] >= 1


@pytest.mark.slow
def test_digests_of_all_users_add_up_to_what_all_held(root: Path) -> None:
    with open_reader(root) as reader:
        window = Window(reader.query("clusters")["cluster"].item(0), *parse_period(PERIOD))
        users, held = (
            use_rows(reader, window, "user")["subject"],
            reader.query("allocated_in_window", **window.parameters),
        )
    total = sum(made(root, "user", name)["use"]["gpu_s"] for name in users)
    assert total == pytest.approx(held["gpu_s"].item())


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_the_same_data_give_the_same_bytes(root: Path, form: str) -> None:
    assert rendered(made(root), form) == rendered(made(root), form)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_who_held_nothing_gets_a_digest_that_says_so(root: Path, form: str) -> None:
    found = made(root)
    found["use"] = dict.fromkeys(found["use"])
    found["cost"] = dict.fromkeys(found["cost"])
    found |= {"time": [], "advice": [], "runs": {"count": 0, "shown": []}, "interruptions": {"count": 0, "shown": []}}
    assert lines_of(found) == ["GPU-time held: none in this period"]
    assert rendered(found, form)


@pytest.mark.slow
def test_an_unknown_user_is_refused_with_a_near_name(root: Path) -> None:
    name = made(root)["subject"]["name"]
    with pytest.raises(UsageError, match=f"there is no user '{name}x'; did you mean {name}"):
        made(root, "user", f"{name}x")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["user", "run"])
def test_names_never_become_markup(root: Path, kind: str) -> None:
    found = made(root)
    found["subject"] = {"kind": kind, "name": HOSTILE}
    found["advice"] = [{"run_id": HOSTILE, "says": "save less often", "gpu_seconds": 7200.0}]
    found["runs"]["shown"] = [each | {"run_id": HOSTILE, "name": HOSTILE} for each in found["runs"]["shown"]]
    found["time"] = [each | {"cause": HOSTILE} for each in found["time"]]
    html, md, csv = (rendered(found, form).decode() for form in ("html", "md", "csv"))
    assert "<script" not in html
    assert "\u202e" not in html + md
    assert not re.search(r"(?<!\\)[<\[*]", md.replace("**", ""))
    assert all(line[0] in "#-|2NATEGs" for line in md.splitlines() if line)
    assert "\n=1" not in csv
    assert rendered(found, "pdf").startswith(b"%PDF-")
    assert file_name(found, "md").startswith(f"digest-{kind}-script-x-script-b-l-javascript-1-1-1-")
    assert not any("\n" in line for line in lines_of(found))


def test_advice_is_by_gpu_hours_and_time_limits_are_last() -> None:
    kinds = ("idle", "unused_gpus", "never_stepped", "failed_at_once", "short_of_limit", "at_maximum")
    none = {f"gpu_s_{kind}": 0.0 for kind in kinds}
    saving = {"run_id": "a", "advice": "save less often", "interval_s": 60.0, "optimal_s": 600.0, "gain_gpu_s": 7200.0}
    unknown = saving | {"run_id": "b", "gain_gpu_s": None}
    small = saving | {"run_id": "c", "gain_gpu_s": 3599.0}
    waste = [{"subject": "d", **none, "gpu_s_idle": 9000.0, "gpu_s_unused_gpus": 4000.0, "gpu_s_short_of_limit": 9e9}]
    found = advice(pl.DataFrame([saving, unknown, small]), pl.DataFrame(waste))
    assert [(each["run_id"], each["gpu_seconds"]) for each in found] == [
        ("a", 7200.0), ("d", 5000.0), ("d", 4000.0), ("d", 9e9)]  # fmt: skip
    assert found[0]["says"] == "save less often: every 10 min instead of every 1 min"


@pytest.mark.slow
def test_a_digest_is_made_and_delivered_once_on_the_schedule(root: Path, tmp_path: Path) -> None:
    name = made(root)["subject"]["name"]
    values = {
        "reports": [{"name": "mine", "what": "digest", "user": name, "period": "month", "forms": list(FORMS),
                     "deliver": ["here"]}],
        "deliver": {"folder": [{"name": "here", "path": str(tmp_path / "here")}]},
    }  # fmt: skip
    settings = config.parse(values, origin="test")
    [report] = settings.reports
    now = datetime(2026, 11, 2, 6, tzinfo=UTC)
    runner = runner_of(root, settings, now=lambda: now, sleep=lambda _: None)
    done = runner.run(report)
    assert (done.failures, [each.outcome for each in done.deliveries]) == ([], ["delivered"])
    [one] = done.made
    parcel = read_parcel(one, runner.outbox.folder_of(one.key))
    assert parcel.subject.startswith(f"User {name} on ")
    assert json.loads((runner.outbox.folder_of(one.key) / KEPT).read_bytes())["subject"]["name"] == name
    assert len(list((tmp_path / "here" / one.key).iterdir())) == len(FORMS) + 1
    again = runner.run(report)
    assert (again.made, again.deliveries) == ([], [])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"what": "digest"}, "it takes one of user, run and users"),
        ({"what": "digest", "user": "a", "run": "b"}, "it takes one of user, run and users"),
        ({"user": "a"}, "takes no user"),
    ],
)
def test_a_digest_is_about_one_user_or_one_run(more: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config.parse({"reports": [{"name": "mine", **more}]}, origin="test")


def everyone(folder: Path, **more: object) -> Config:
    """A configuration with a digest for every user, delivered to a folder of each."""
    report = {"name": "week", "what": "digest", "users": "all", "period": "month", "forms": ["md"], "deliver": ["own"]}
    deliver = {"folder": [{"name": "own", "path": str(folder / "{user}")}]}
    return config.parse({"reports": [report | more], "deliver": deliver}, origin="test")


@pytest.mark.slow
def test_every_user_but_who_opted_out_gets_an_own_digest(root: Path, tmp_path: Path) -> None:
    with open_reader(root) as reader:
        window = Window(reader.query("clusters")["cluster"].item(0), *parse_period(PERIOD))
        holders = digest.gather(reader, window, PERIOD, "user", Cost()).holders
    left_out, *others = holders
    assert others
    settings = everyone(tmp_path / "here", opt_out=[left_out])
    runner = runner_of(root, settings, now=lambda: datetime(2026, 11, 2, 6, tzinfo=UTC), sleep=lambda _: None)
    done = runner.run(settings.reports[0])
    assert done.failures == []
    assert sorted(path.name for path in (tmp_path / "here").iterdir()) == sorted(others)
    for name in others:
        [folder] = (tmp_path / "here" / name).iterdir()
        kept = json.loads((runner.outbox.folder_of(folder.name) / KEPT).read_bytes())
        assert kept == json.loads(json.dumps(made(root, "user", name)))
        assert f"User {name} on" in next(folder.glob("*.md")).read_text()
    assert runner.run(settings.reports[0]).made == []
    for user in holders:
        shutil.rmtree(tmp_path / "here" / user, ignore_errors=True)
    nobody = everyone(tmp_path / "here", name="nobody", opt_out=holders)
    runner = runner_of(root, nobody, now=lambda: datetime(2026, 11, 2, 6, tzinfo=UTC), sleep=lambda _: None)
    done = runner.run(nobody.reports[0])
    assert ([each.summary for each in done.made], done.deliveries) == (["no subscriber held GPUs"], [])
    assert runner.run(nobody.reports[0]).made == []
    assert not any((tmp_path / "here").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["../x", "a@b", "a, b@c", ".hidden", "DOM\\u", "a\nBcc: b", "", "-x"])
def test_names_that_cannot_stand_in_an_address_are_refused(root: Path, name: str) -> None:
    document = made(root) | {"subject": {"kind": "user", "name": name}}
    parcel = Parcel("key", "week", document, ())
    mail = Smtp(name="m", host="h", sender="t@example.com", to=("{user}@example.com", "boss@example.com"))
    for target in (mail, FolderTarget(name="f", path=Path("/srv/{user}"))):
        with pytest.raises(DeliveryRefusedError, match="is not allowed in"):
            addressed(target, parcel)
    fine = Parcel("key", "week", document | {"subject": {"kind": "user", "name": "chen.li"}}, ())
    assert message_of(cast("Smtp", addressed(mail, fine)), fine)["To"] == "chen.li@example.com, boss@example.com"
    of_a_run = Parcel("key", "week", document | {"subject": {"kind": "run", "name": "r"}}, ())
    with pytest.raises(DeliveryRefusedError, match="about no user"):
        addressed(mail, of_a_run)


@pytest.mark.parametrize(
    ("report", "message"),
    [
        ({"what": "digest", "users": "all", "user": "a"}, "it takes one of user, run and users"),
        ({"what": "digest", "user": "a", "opt_out": ["b"]}, 'opt_out, which is for users = "all"'),
        ({"opt_out": ["b"]}, "takes no opt_out"),
        ({"what": "digest", "run": "r", "deliver": ["own"]}, "is about no user, but the target 'own'"),
        ({"deliver": ["own"]}, "is about no user, but the target 'own'"),
    ],
)
def test_users_and_opt_out_belong_to_digests_alone(report: dict[str, Any], message: str) -> None:
    deliver = {"folder": [{"name": "own", "path": "/srv/{user}"}]}
    with pytest.raises(ConfigError, match=message):
        config.parse({"reports": [{"name": "mine", **report}], "deliver": deliver}, origin="test")
