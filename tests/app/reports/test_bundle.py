"""The evidence bundle: it reproduces every verdict, names nobody, and every change to it is found and named."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
import tarfile
from typing import TYPE_CHECKING

import polars as pl
import pytest

from app.errors import UsageError
from app.reports.bundle import archive, sshsig
from app.reports.bundle.check import check
from ingest.errors import InputError
from queries.warehouse import open_reader
from tests.app.reports.test_forms import CALENDAR, CONTRACT
from tests.support.command import trackside
from tests.support.kubernetes.objects import as_list, owner, pod, workload
from tests.support.warehouses import from_accounting

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

PERIOD = ("--period", "2026-10-06..2026-10-10")

SCOPED = """
[[claim]]
id = "some-nodes"
metric = "goodput_allocated"
quoted = "nodes of user1"
read_as = "r"
kind = "delivered"
target = 0.5
direction = "at_least"
scope = { nodes = "n[1-3]", user = "user1" }
exclusions = [{ from = "2026-10-08T08:00", until = "2026-10-08T12:00", nodes = "n2", reason = "n2 mended" }]
"""


def need_ssh_keygen() -> None:
    if shutil.which("ssh-keygen") is None:
        pytest.skip("no ssh-keygen on this machine")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a warehouse, a key, and a bundle as folder and as file."""
    need_ssh_keygen()
    place = tmp_path_factory.mktemp("bundle")
    warehouse = from_accounting(place, jobs=300)
    (place / "m.ics").write_text(CALENDAR.format("1007").replace("SUMMARY:patch", "SUMMARY:patch\nLOCATION:nodes: n1"))
    (place / "sla.toml").write_text(CONTRACT + SCOPED)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / "key"], check=True)
    for target in ("e.tar.gz", "e"):
        done = trackside("report", "bundle", *PERIOD, "--warehouse", str(warehouse), "--claims",
                         str(place / "sla.toml"), "--sign", str(place / "key"), "-o", str(place / target),
                         "--pseudonyms", str(place / "names.json"))  # fmt: skip
        assert done.returncode == 0, done.stderr
    public = (place / "key.pub").read_text().split()
    (place / "signers").write_text(f'me@x namespaces="trackside-evidence" {public[0]} {public[1]}\n')
    return place


def test_bundle_reproduces_every_verdict_elsewhere(made: Path) -> None:
    """The file; the folder has the same bytes, as the test of them shows."""
    done = trackside("report", "check", str(made / "e.tar.gz"), "--signer", str(made / "signers"), "--format", "json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert {row["reproduced"] for row in rows} == {"yes"}
    assert len(rows) == 3
    assert "me@x" in done.stderr


def test_bundle_has_no_name_of_the_cluster(made: Path) -> None:
    with open_reader(next(each for each in made.iterdir() if (each / "published").exists())) as reader:
        attempts = reader.table("attempts")
    names = {name for column in ("user", "account", "name") for name in attempts[column].drop_nulls()}
    names |= {"n1", "n2", "n8"}
    report = (made / "e" / "report.json").read_text()
    texts = [path.read_text() for path in (made / "e").glob("*") if path.suffix in {".toml", ".ics", ".txt"}]
    words = {word for text in [*texts, report] for word in archive_words(text)}
    assert words & (names - {"train"}) == set()
    held = json.loads((made / "names.json").read_text())["names"]
    assert "user1" in held["user"]
    assert (made / "names.json").stat().st_mode & 0o077 == 0
    for path in (made / "e" / "inputs").iterdir():
        rows = pl.read_parquet(path)
        cells = {str(cell) for column in rows.select(pl.col(pl.String)) for cell in column.drop_nulls()}
        assert cells & names == set(), path


def archive_words(text: str) -> set[str]:
    from app.reports.bundle.names import TOKEN

    return set(TOKEN.findall(text))


def test_same_data_and_secret_same_bytes(made: Path, tmp_path: Path) -> None:
    archive.unpack(made / "e.tar.gz", tmp_path)
    folder = {path.relative_to(made / "e"): path.read_bytes() for path in (made / "e").rglob("*") if path.is_file()}
    packed = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert folder == packed


@pytest.mark.parametrize("name", ["report.json", "inputs/attempts.parquet", "claims.toml", "MANIFEST.json"])
def test_changed_byte_is_found_and_named(made: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(made / "e", tmp_path / "e")
    content = bytearray((tmp_path / "e" / name).read_bytes())
    at = content.index(b"sha256") if name == "MANIFEST.json" else len(content) // 2
    content[at + (12 if name == "MANIFEST.json" else 0)] ^= 1
    (tmp_path / "e" / name).write_bytes(content)
    found = check(tmp_path / "e")
    assert not found.holds
    assert found.rows is None
    if name == "MANIFEST.json":
        assert "not a signature" in str(found.unsigned)
    else:
        assert [each.partition(":")[0] for each in found.altered] == [name]


def test_missing_and_surplus_files_are_named(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "e", tmp_path / "e")
    (tmp_path / "e" / "method.json").rename(tmp_path / "e" / "other.json")
    assert [each.partition(",")[0] for each in check(tmp_path / "e").altered] == [
        "method.json: missing",
        "other.json: surplus",
    ]


def test_ssh_keygen_accepts_the_signature(made: Path) -> None:
    command: list[str | Path] = ["ssh-keygen", "-Y", "verify", "-n", sshsig.NAMESPACE, "-I", "me@x"]
    command += ["-f", made / "signers", "-s", made / "e" / "MANIFEST.json.sig"]
    done = subprocess.run(command, input=(made / "e" / "MANIFEST.json").read_bytes(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_stranger_and_unsigned_do_not_hold(made: Path, tmp_path: Path) -> None:
    (tmp_path / "signers").write_text(
        "other@x ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n"
    )
    assert "is not in" in str(check(made / "e", tmp_path / "signers").unsigned)
    shutil.copytree(made / "e", tmp_path / "e")
    (tmp_path / "e" / "MANIFEST.json.sig").unlink()
    assert check(tmp_path / "e", made / "signers").unsigned == "it is not signed"


def test_encrypted_key_is_refused_plainly(tmp_path: Path) -> None:
    need_ssh_keygen()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", tmp_path / "key"], check=True)
    with pytest.raises(UsageError, match="is encrypted"):
        sshsig.read_key(tmp_path / "key")


def hostile(name: str, kind: bytes = tarfile.REGTYPE, size: int | None = None) -> bytes:
    member = tarfile.TarInfo(name)
    member.type, member.size, member.linkname = kind, 1 if size is None else size, "/etc/passwd"
    return gzip.compress(member.tobuf(tarfile.USTAR_FORMAT) + b"x" + bytes(511))


HOSTILE = {
    "above": hostile("../evil"),
    "absolute": hostile("/etc/evil"),
    "above_within": hostile("inputs/../../evil"),
    "symbolic_link": hostile("claims.toml", tarfile.SYMTYPE),
    "hard_link": hostile("claims.toml", tarfile.LNKTYPE),
    "device": hostile("dev", tarfile.CHRTYPE),
    "long_header": hostile("x", tarfile.XHDTYPE, 1 << 32),
    "too_big": hostile("big", size=(4 << 30) + 1),
    "cut": hostile("cut", size=4096),
    "no_gzip": b"no gzip",
    "no_tar": gzip.compress(b"no tar" * 200),
}
"""Archives by what is wrong with them: gzip writes the time into its head, so the bytes themselves make no name."""


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_hostile_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "b.tar.gz").write_bytes(content)
    with pytest.raises(InputError):
        check(tmp_path / "b.tar.gz")
    assert not (tmp_path.parent / "evil").exists()


def test_link_in_a_folder_is_refused(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "e", tmp_path / "e")
    (tmp_path / "e" / "claims.toml").unlink()
    (tmp_path / "e" / "claims.toml").symlink_to("/etc/passwd")
    with pytest.raises(InputError, match="no plain file"):
        check(tmp_path / "e")


def test_bundle_with_corrections_reproduces_without_names(tmp_path: Path) -> None:
    """Each kind of correction, by a named author for a reason that names people and nodes."""
    root = from_accounting(tmp_path, jobs=300)
    with open_reader(root) as reader:
        attempts = reader.table("attempts").sort("submitted_at")
    failed = attempts.filter(attempts["state"] == "FAILED")["job_id"].item(0)
    run = (
        attempts.unique("job_id", keep="none")
        .sort("submitted_at")
        .filter(pl.col("ended_at").is_not_null())
        .row(0, named=True)
    )
    job = attempts.filter(pl.col("started_at") > run["ended_at"]).row(0, named=True)
    run_id = f"{run['job_id']}-{run['submitted_at']:%Y%m%dT%H%M%SZ}"
    (tmp_path / "m.ics").write_text(CALENDAR.format("1007"))
    (tmp_path / "sla.toml").write_text(CONTRACT)
    for what in (
        ("cause", "--job", failed, "--class", "infrastructure", "--cause", "nvlink"),
        (
            "node-state",
            "--node",
            "n3",
            "--from",
            "2026-10-07T08:00",
            "--until",
            "2026-10-07T14:00",
            "--state",
            "maintenance",
        ),
        ("run-join", "--run", run_id, "--job", job["job_id"]),
    ):
        done = trackside("adjudicate", *what, "--author", "Petra Quist", "--reason", "RMA-9 of user1 on n3",
                         "--warehouse", str(root))  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert trackside("compute", "--warehouse", str(root)).returncode == 0
    done = trackside("report", "bundle", *PERIOD, "--warehouse", str(root), "--claims",
                     str(tmp_path / "sla.toml"), "-o", str(tmp_path / "e"))  # fmt: skip
    assert done.returncode == 0, done.stderr
    done = trackside("report", "check", str(tmp_path / "e"), "--format", "json")
    assert done.returncode == 0, done.stderr
    assert {row["reproduced"] for row in json.loads(done.stdout)} == {"yes"}
    for path in sorted((tmp_path / "e" / "inputs").iterdir()):
        rows = pl.read_parquet(path)
        cells = [str(cell) for column in rows.select(pl.col(pl.String)) for cell in column.drop_nulls()]
        assert not [cell for cell in cells if "Quist" in cell or "RMA" in cell or "user1" in cell], path
    assert "Quist" not in (tmp_path / "e" / "report.json").read_text()
    found = pl.read_parquet(tmp_path / "e" / "inputs" / "adjudications.parquet")
    assert found.height == 3


def test_bundle_holds_work_of_kubernetes_without_its_names(tmp_path: Path) -> None:
    """Their attempts are derived from objects, which are full of names: the attempts are in it, the objects are not."""
    root = from_accounting(tmp_path, jobs=300)
    day = 24 * 60
    above = owner("Job", "secret-llama")
    objects = [
        workload("Job", "secret-llama", created=6 * day),
        pod("secret-llama-a", above=above, created=6 * day, ended=7 * day, exit_code=137, node="aisle-7"),
        pod("secret-llama-b", above=above, created=7 * day + 30, ended=8 * day, node="aisle-8"),
        pod("my-notebook", created=7 * day, node="aisle-8", gpus=2),
    ]
    (tmp_path / "objects.json").write_bytes(as_list(*objects))
    where = ("--warehouse", str(root))
    done = trackside("ingest", "kubernetes", str(tmp_path / "objects.json"), "--cluster", "tiny", *where)
    assert done.returncode == 0, done.stderr
    assert trackside("compute", *where).returncode == 0
    (tmp_path / "m.ics").write_text(CALENDAR.format("1007"))
    (tmp_path / "sla.toml").write_text(CONTRACT)
    done = trackside("report", "bundle", *PERIOD, *where, "--claims", str(tmp_path / "sla.toml"),
                     "-o", str(tmp_path / "e"))  # fmt: skip
    assert done.returncode == 0, done.stderr
    attempts = pl.read_parquet(tmp_path / "e" / "inputs" / "attempts.parquet")
    assert attempts.filter(pl.col("scheduler") == "kubernetes").height == 3
    placed = pl.read_parquet(tmp_path / "e" / "inputs" / "placements.parquet")
    assert placed.join(attempts, on=["scheduler", "job_id", "submitted_at"], how="anti").is_empty()
    for path in sorted((tmp_path / "e").rglob("*")):
        texts = [path.read_text()] if path.suffix not in {".parquet", ""} else []
        rows = pl.read_parquet(path) if path.suffix == ".parquet" else pl.DataFrame()
        texts += [str(cell) for column in rows.select(pl.col(pl.String)) for cell in column.drop_nulls()]
        assert not [text for text in texts if re.search("secret-llama|my-notebook|aisle|team-a", text)], path
    found = check(tmp_path / "e")
    assert found.holds, found


def test_inputs_of_an_unknown_table_are_refused(made: Path, tmp_path: Path) -> None:
    """A later version may add some; to leave them out would give other numbers."""
    shutil.copytree(made / "e", tmp_path / "e")
    (tmp_path / "e" / "MANIFEST.json.sig").unlink()
    content = (tmp_path / "e" / "inputs" / "nodes.parquet").read_bytes()
    (tmp_path / "e" / "inputs" / "fabric.parquet").write_bytes(content)
    manifest = json.loads((tmp_path / "e" / "MANIFEST.json").read_text())
    manifest["files"]["inputs/fabric.parquet"] = manifest["files"]["inputs/nodes.parquet"]
    (tmp_path / "e" / "MANIFEST.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="of the bundle is of no table"):
        check(tmp_path / "e")
