"""`trackside report check`: checks the signature of a bundle, and whether its rows give its verdicts."""

from __future__ import annotations

import hashlib
import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import jsonschema
import polars as pl

from app.config import toml_file
from app.reports.bundle import archive, sshsig
from app.reports.bundle.claims import FILE
from app.reports.bundle.columns import TABLES
from app.reports.bundle.compare import NUMBERS, differences, same
from app.reports.bundle.rebuild import Method, rebuilt
from app.reports.bundle.write import (
    FORM_VERSION,
    INPUTS,
    KIND,
    MANIFEST,
    METHOD,
    REPORT,
    SIGNATURE,
    file_name,
)
from app.reports.sla import document as sla
from app.reports.sla.model import schema
from ingest.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.reports.bundle.compare import Difference

LARGEST_TEXT: Final = 64 << 20
"""Bytes of a text file of a bundle."""


@dataclass(frozen=True)
class BundleCheck:
    """What the check of a bundle found.

    Attributes:
        trackside: version that made the bundle.
        period: of the report.
        cluster: of the report.
        report_sha256: of the report with names, which its other forms carry.
        altered: what is wrong with its files, by file.
        signer: who signed the manifest; None if it is unsigned.
        unsigned: what is wrong with the signature; None if nothing is.
        rows: a row for each objective: reported and found; None where files were altered.
        differences: where they differ.
    """

    trackside: str
    cluster: str
    period: str
    report_sha256: str
    altered: tuple[str, ...]
    signer: sshsig.Signer | None
    unsigned: str | None
    rows: pl.DataFrame | None = None
    differences: tuple[Difference, ...] = field(default=())

    @property
    def holds(self) -> bool:
        """Whether files and signature (where there is one, or one is required) hold, and all numbers are reproduced."""
        return not (self.altered or self.unsigned or self.differences) and self.rows is not None


def check(bundle: Path, signers: Path | None = None, progress: Callable[[str], None] = lambda _: None) -> BundleCheck:
    """Check a bundle, and make its report once more of its inputs.

    Nothing is computed of a bundle whose files are not those of its manifest, or whose signature does not hold.

    Args:
        bundle: a folder or a .tar.gz.
        signers: a file of allowed signers: one of them must have signed; None: any signature is accepted.
        progress: receives what is being done.

    Raises:
        InputError: it is no bundle, or its inputs cannot be used.
        UsageError: the file of signers cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="trackside-check-") as temporary:
        folder, place = Path(temporary) / "bundle", Path(temporary) / "warehouse"
        folder.mkdir()
        progress("reading the bundle")
        names = archive.unpack(bundle, folder)
        if MANIFEST not in names:
            raise InputError(f"{bundle} is no bundle of Trackside: it has no {MANIFEST}")
        manifest = _manifest(bundle, _text(folder / MANIFEST))
        altered = _altered(folder, names, manifest)
        signer, unsigned = _signature(folder, names, signers)
        claimed = _json(folder / REPORT) if not altered else {}
        found = BundleCheck(
            str(manifest.get("trackside")),
            str(claimed.get("cluster", "")),
            str(claimed.get("period", {}).get("asked", "") if isinstance(claimed.get("period"), dict) else ""),
            str(manifest.get("report_sha256")),
            tuple(altered),
            signer,
            unsigned,
        )
        if altered or unsigned:
            return found
        _valid_report(claimed)
        again = _rebuilt_document(folder, names, place, progress)
    rows, wrong = _rows(claimed, again), differences(claimed, again)
    return BundleCheck(**{**found.__dict__, "rows": rows, "differences": tuple(wrong)})


def _rebuilt_document(folder: Path, names: list[str], place: Path, progress: Callable[[str], None]) -> sla.Document:
    tables = {table: folder / INPUTS / file_name(table) for table in TABLES}
    inputs = {table: path for table, path in tables.items() if f"{INPUTS}/{path.name}" in names}
    _refuse_unknown_inputs(names)
    _refuse_calendars_elsewhere(folder / FILE, names)
    return rebuilt(place, inputs, Method.of(_json(folder / METHOD)), folder / FILE, progress)


def _refuse_unknown_inputs(names: list[str]) -> None:
    """Without the rows that it cannot read, this version would find other numbers and blame the bundle."""
    known = {f"{INPUTS}/{file_name(table)}" for table in TABLES}
    strange = sorted(each for each in names if each.startswith(f"{INPUTS}/") and each not in known)
    if strange:
        raise InputError(f"{strange[0]} of the bundle is of no table that this Trackside reads: use a newer one")


def _refuse_calendars_elsewhere(claims: Path, names: list[str]) -> None:
    """A claims file of another party must not read files of this machine."""
    try:
        values = toml_file.parse(_text(claims).decode())
        named = values.get("contract", {}).get("maintenance", [])
    except (toml_file.NotTomlError, UnicodeDecodeError, AttributeError) as error:
        raise InputError(f"{FILE} of the bundle cannot be used: {error}") from None
    strange = [each for each in named if each not in names]
    if strange:
        raise InputError(f"{FILE} of the bundle names the calendar {strange[0]!r}, which is not in the bundle")


def _manifest(bundle: Path, content: bytes) -> dict[str, Any]:
    try:
        made = json.loads(content)
        kind, version, files = made["bundle"], made["form_version"], made["files"]
        listed = {str(name): (str(each["sha256"]), int(each["bytes"])) for name, each in files.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(f"{bundle}: {MANIFEST} is none of a bundle of Trackside") from None
    if (kind, version) != (KIND, FORM_VERSION):
        raise InputError(f"{bundle}: a bundle of form {version}; this Trackside reads {FORM_VERSION}")
    return {**made, "files": listed}


def _altered(folder: Path, names: list[str], manifest: dict[str, Any]) -> list[str]:
    """What is wrong with the files: each by its name."""
    listed: dict[str, tuple[str, int]] = manifest["files"]
    found = []
    for name in sorted({*listed, *names} - {MANIFEST, SIGNATURE}):
        if name not in names:
            found.append(f"{name}: missing")
        elif name not in listed:
            found.append(f"{name}: surplus, the manifest does not list it")
        elif _sha256(folder / name) != listed[name][0]:
            found.append(f"{name}: changed, its sha256 is not the one in the manifest")
    needed = [FILE, METHOD, REPORT, f"{INPUTS}/{file_name('loads')}", f"{INPUTS}/{file_name('stored.attempts')}"]
    return found + [f"{name}: missing, and not listed" for name in needed if name not in {*names, *listed}]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _signature(folder: Path, names: list[str], signers: Path | None) -> tuple[sshsig.Signer | None, str | None]:
    """Who signed, and what is wrong with that."""
    if SIGNATURE not in names:
        return None, None if signers is None else "it is not signed"
    try:
        signer = sshsig.verify(_text(folder / MANIFEST), _text(folder / SIGNATURE))
    except sshsig.SignatureError as error:
        return None, f"{SIGNATURE}: {error}"
    if signers is None:
        return signer, None
    named = sshsig.allowed(signer, signers)
    return (signer, f"the key {signer.fingerprint} is not in {signers}") if named is None else (named, None)


def _text(path: Path) -> bytes:
    if path.stat().st_size > LARGEST_TEXT:
        raise InputError(f"{path.name} of the bundle has more than {LARGEST_TEXT >> 20} MiB")
    return path.read_bytes()


def _json(path: Path) -> dict[str, Any]:
    try:
        made = json.loads(_text(path))
    except (ValueError, RecursionError):
        raise InputError(f"{path.name} of the bundle is no JSON") from None
    if not isinstance(made, dict):
        raise InputError(f"{path.name} of the bundle is no JSON object")
    return made


def _valid_report(claimed: dict[str, Any]) -> None:
    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema()).iter_errors(claimed))
    if error is not None:
        raise InputError(f"{REPORT} of the bundle keeps not to the schema: {error.json_path}: {error.message[:200]}")
    if claimed["sha256"] != sla.digest(claimed):
        raise InputError(f"{REPORT} of the bundle is not as it was written: its digest is another one")


_SHOWN = ("value", "low", "high", "numerator", "denominator")


def _rows(claimed: sla.Document, again: sla.Document) -> pl.DataFrame:
    ours = {each["id"]: each for each in again["objectives"]}
    rows = []
    for one in claimed["objectives"]:
        other = ours.get(one["id"])
        verdict = None if other is None else other["verdict"]
        alike = other is not None and all(same(one[name], other[name]) for name in NUMBERS)
        rows.append(
            (
                one["id"],
                one["verdict"],
                verdict,
                *(one[name] for name in _SHOWN),
                "yes" if alike and verdict == one["verdict"] else "NO",
            )
        )
    schema_: dict[str, Any] = {"objective": pl.String, "verdict": pl.String, "found": pl.String}
    schema_ |= dict.fromkeys(_SHOWN, pl.Float64) | {"reproduced": pl.String}
    return pl.DataFrame(rows, schema=schema_, orient="row")
