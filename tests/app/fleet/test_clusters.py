"""Which clusters a fleet has, and which fleets are refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app.config import settings as config
from app.errors import ConfigError, UsageError
from app.fleet import clusters
from app.fleet.clusters import tasks_of
from queries.lake.address import Address, address_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.config.settings import Config


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Config]:
    """Makes the configuration of a fleet of files in `clusters/`, by the text of each."""
    monkeypatch.delenv("TRACKSIDE_WAREHOUSE", raising=False)

    def made(**texts: str) -> Config:
        (tmp_path / "clusters").mkdir()
        for name, text in texts.items():
            (tmp_path / "clusters" / f"{name}.toml").write_text(text)
        top = tmp_path / "trackside.toml"
        top.write_text('[fleet]\nclusters = ["clusters/*.toml"]\nlake = "ducklake:lake.db"\nlake_files = "files"\n')
        return config.load(top)

    return made


def cluster(name: str, more: str = "") -> str:
    return f'cluster = "{name}"\nwarehouse = "../{name}"\n{more}'


def test_task_names_files_and_no_secret(fleet: Callable[..., Config], tmp_path: Path) -> None:
    tasks, broken = tasks_of(fleet(a=cluster("alpha")))
    [task] = tasks
    assert broken == []
    assert (task.cluster, task.directory) == ("alpha", str(tmp_path / "alpha"))
    assert task.config == str(tmp_path / "clusters" / "a.toml")
    assert (task.lake, task.lake_files) == (f"ducklake:{tmp_path}/lake.db", str(tmp_path / "files"))
    assert re.fullmatch("[0-9a-f]{64}", task.config_sha256)


def test_own_lake_of_a_cluster_beats_the_fleets(fleet: Callable[..., Config], tmp_path: Path) -> None:
    [task] = tasks_of(fleet(a=cluster("alpha", '[serve]\nlake = "ducklake:own.db"\n')))[0]
    assert task.lake == f"ducklake:{tmp_path}/clusters/own.db"
    assert task.lake_files == ""


def test_lake_of_a_task_is_one_in_any_directory(
    fleet: Callable[..., Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker elsewhere would make a second catalogue over the same files."""
    fleet(a=cluster("alpha"), b=cluster("beta", '[serve]\nlake = "ducklake:sqlite:own.db"\n'))
    monkeypatch.chdir(tmp_path)
    [one, other] = tasks_of(config.load(Path("trackside.toml")))[0]
    assert (one.lake, other.lake) == (f"ducklake:{tmp_path}/lake.db", f"ducklake:sqlite:{tmp_path}/clusters/own.db")
    assert (one.config, one.directory) == (str(tmp_path / "clusters" / "a.toml"), str(tmp_path / "alpha"))
    monkeypatch.chdir("/")
    assert address_of(Path(one.lake)) == Address("duckdb", f"{tmp_path}/lake.db")


@pytest.mark.parametrize(
    ("lake", "reason"),
    [("ducklake:postgres:dbname=lake password=hush", "must not hold a password"), ("lake", "is no lake")],
)
def test_lake_that_no_task_may_name_is_refused(
    lake: str, reason: str, fleet: Callable[..., Config], tmp_path: Path
) -> None:
    settings = fleet(a=cluster("alpha", f'[serve]\nlake = "{lake}"\n'), b=cluster("beta"))
    tasks, [broken] = tasks_of(settings)
    assert [task.cluster for task in tasks] == ["beta"]
    assert (broken.cluster, broken.failures[0].status) == ("a", 10)
    assert re.search(rf"clusters/a.toml: \[serve\] lake: .*{reason}", broken.failures[0].message)
    of_all = settings.fleet.model_copy(update={"lake": tmp_path / lake})
    with pytest.raises(ConfigError, match=rf"\[fleet\] lake: .*{reason}") as raised:
        tasks_of(settings.model_copy(update={"fleet": of_all}))
    assert "hush" not in f"{broken} {raised.value}"


def test_largest_directory_is_begun_first(fleet: Callable[..., Config], tmp_path: Path) -> None:
    settings = fleet(a=cluster("alpha"), b=cluster("beta"), c=cluster("gamma"))
    for name, size in (("beta", 10), ("gamma", 20)):
        (tmp_path / name / "published").mkdir(parents=True)
        (tmp_path / name / "published" / "00000001.duckdb").write_bytes(b"x" * size)
    assert [task.cluster for task in tasks_of(settings)[0]] == ["gamma", "beta", "alpha"]


def test_mistake_in_one_configuration_stops_no_other(fleet: Callable[..., Config]) -> None:
    tasks, broken = tasks_of(fleet(a=cluster("alpha"), b='warehous = "x"', c="not TOML", d='warehouse = "../d"'))
    assert [task.cluster for task in tasks] == ["alpha"]
    assert [(each.cluster, each.failures[0].status) for each in broken] == [("b", 10), ("c", 10), ("d", 10)]
    assert 'write cluster = "NAME" into it' in broken[2].failures[0].message


def test_files_that_cannot_be_read_stop_no_other(
    fleet: Callable[..., Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = fleet(a=cluster("alpha"), b=cluster("beta"))

    def denied(root: Path) -> Path | None:
        raise PermissionError(13, "Permission denied", str(root))

    monkeypatch.setattr("queries.directory.current_copy", denied)
    monkeypatch.setattr(clusters, "digest_of", lambda file: denied(file) if file.stem == "a" else "")
    tasks, [broken] = tasks_of(settings)
    assert [task.cluster for task in tasks] == ["beta"]
    message = f"{tmp_path}/clusters/a.toml cannot be read: Permission denied"
    assert [(each.message, each.status) for each in broken.failures] == [(message, 10)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('cluster = "x"\nwarehouse = "ducklake:lake.db"', "warehouse is a lake"),
        ('cluster = "x"\n[fleet]\nclusters = ["*.toml"]', "is the configuration of a fleet"),
    ],
)
def test_configuration_of_no_cluster_is_refused(text: str, reason: str, fleet: Callable[..., Config]) -> None:
    [outcome] = tasks_of(fleet(a=text))[1]
    assert reason in outcome.failures[0].message


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        ('cluster = "alpha"\nwarehouse = "../other"', "both have cluster alpha"),
        ('cluster = "beta"\nwarehouse = "../clusters/../alpha"', "both have warehouse"),
    ],
)
def test_two_clusters_never_share(second: str, reason: str, fleet: Callable[..., Config]) -> None:
    with pytest.raises(ConfigError, match=reason):
        tasks_of(fleet(a=cluster("alpha"), b=second))


def test_names_choose_clusters(fleet: Callable[..., Config]) -> None:
    settings = fleet(a=cluster("alpha"), b=cluster("beta"), c="broken")
    tasks, broken = tasks_of(settings, ["beta"])
    assert ([task.cluster for task in tasks], broken) == (["beta"], [])
    with pytest.raises(UsageError, match=r"no cluster 'bata'.*beta"):
        tasks_of(settings, ["bata"])


def test_fleet_without_clusters_is_refused(fleet: Callable[..., Config]) -> None:
    with pytest.raises(UsageError, match=r"no file matches .*clusters/\*\.toml"):
        tasks_of(fleet())
    with pytest.raises(UsageError, match="names no clusters"):
        tasks_of(config.Config())


def test_one_directory_of_the_environment_is_refused(
    fleet: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = fleet(a=cluster("alpha"))
    monkeypatch.setenv("TRACKSIDE_WAREHOUSE", "/srv/one")
    with pytest.raises(UsageError, match="all clusters in one directory"):
        tasks_of(settings)
