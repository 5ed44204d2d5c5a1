"""`trackside report bundle`: inputs, claims, method and report, reproduced once before they leave the house."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from app.claims import verify
from app.claims.file import read_contract
from app.config.settings import Rules
from app.errors import UsageError
from app.json_text import as_json
from app.reports.bundle import archive, sshsig
from app.reports.bundle.claims import FILE, claims_files, patterns
from app.reports.bundle.compare import differences
from app.reports.bundle.inputs import BundleScope, inputs, known_names
from app.reports.bundle.leaks import refuse_leaks
from app.reports.bundle.names import Pseudonyms, read_secret, write_names
from app.reports.bundle.rebuild import Method, bundle_rules, rebuilt
from app.reports.sla import document as sla

if TYPE_CHECKING:
    from collections.abc import Callable

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from app.window import Window
    from queries.reader import Reader

MANIFEST: Final = "MANIFEST.json"
SIGNATURE: Final = "MANIFEST.json.sig"
METHOD: Final = "method.json"
REPORT: Final = "report.json"
INPUTS: Final = "inputs"
KIND: Final = "trackside-evidence"
FORM_VERSION: Final = 1

README: Final = """\
Evidence for a report of Trackside on the cluster {cluster}, period {period}.

Check it:  trackside report check BUNDLE            (pip install trackside; nothing else is needed)
With the sender's public key in a file of allowed signers:  trackside report check BUNDLE --signer FILE
By hand:   sha256sum of each file is in MANIFEST.json;
           ssh-keygen -Y verify -n trackside-evidence -f FILE -I SIGNER -s MANIFEST.json.sig < MANIFEST.json

claims.toml    the claims as they were judged
method.json    the period, and the settings that the numbers depend on
inputs/        the rows that the numbers are computed from, with pseudonyms in place of names
report.json    the report that they give (its schema: trackside report schema)
MANIFEST.json  the digest of each file, and of the report with names that this bundle is the evidence of
"""


@dataclass(frozen=True)
class Bundle:
    """A bundle that was written.

    Attributes:
        document: the report with names.
        files: how many files it has.
        rows: how many rows of inputs.
        whole: whether it holds all time of the cluster: the period alone did not give the same numbers.
        unsure: names that are words of the report, too, and so could not be looked for.
        fingerprint: of the key that signed it; None if it is not signed.
    """

    document: sla.Document
    files: int
    rows: int
    whole: bool
    unsure: tuple[str, ...]
    fingerprint: str | None


def write_bundle(
    reader: Reader,
    window: Window,
    period_text: str,
    *,
    claims_path: Path | None,
    target: Path,
    names_path: Path,
    key_path: Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Bundle:
    """Write the evidence for the report of a period.

    Args:
        reader: a published copy.
        window: the cluster and the period.
        period_text: the period as typed.
        claims_path: claims to judge; the vendor's headlines if None.
        target: where to: a folder, or a file that ends in .tar.gz.
        names_path: the sender's file of the secret and the names; made if missing.
        key_path: private key that signs the manifest; not signed if None.
        progress: receives what is being done.

    Raises:
        UsageError: the bundle would not reproduce the report, or would contain a name; nothing is written then.
    """
    key = None if key_path is None else sshsig.read_key(key_path)
    contract = read_contract(claims_path)
    document = sla.sealed(sla.document(reader, window, period_text, contract, sla.origin_of_claims(claims_path)))
    _refuse_what_is_not_computed(window.cluster, document)
    secret = read_secret(names_path)
    rules, method = _method(reader, window, period_text)
    known = known_names(reader, window.cluster)
    scopes = [_scope(reader, window, contract.claims), BundleScope(window.cluster)]
    with tempfile.TemporaryDirectory(prefix="trackside-bundle-") as folder:
        for number, scope in enumerate(scopes):
            names = Pseudonyms(secret)
            for kind, own in zip(("node", "run"), patterns(contract), strict=True):
                names.mark_matches(kind, own)
            place = Path(folder) / str(number)
            made = _Staged(place, names, known)
            made.stage(reader, scope, rules, claims_path, method, progress)
            wrong = differences(document, made.report, other_order=True)
            if not wrong:
                break
            progress("the period alone does not give the same numbers: all time of the cluster is taken")
        else:
            listed = "\n".join(f"  {each}" for each in wrong[:10])
            raise UsageError(f"the inputs do not reproduce the report, so no bundle is written:\n{listed}")
        unsure = refuse_leaks(place, known, made.report)
        files = made.files(document["sha256"], key)
        archive.write(target, files)
    write_names(names_path, secret, names)
    fingerprint = None if key is None else sshsig.verify(_read(files[MANIFEST]), _read(files[SIGNATURE])).fingerprint
    return Bundle(document, len(files), made.rows, scope.since is None, tuple(unsure), fingerprint)


def _read(content: Path | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.read_bytes()


def _refuse_what_is_not_computed(cluster: str, document: sla.Document) -> None:
    if document["data"]["loads_since_computed"]:
        raise UsageError(f"{cluster}: data were loaded that the numbers do not contain yet. Run: trackside compute")


def _method(reader: Reader, window: Window, period_text: str) -> tuple[Rules, Method]:
    """The settings of the sender, and how the other party makes the report."""
    computed = reader.query("computed", cluster=window.cluster).row(0, named=True)
    constants: dict[str, Any] = json.loads(computed["constants"])
    rules = Rules.model_validate({name: value for name, value in constants.items() if name in Rules.model_fields})
    moments = {name: computed[name] for name in ("since", "until", "computed_at")}
    return rules, Method(window.cluster, period_text.strip(), **moments, rules=bundle_rules(rules))


def _scope(reader: Reader, window: Window, claims: Any) -> BundleScope:  # noqa: ANN401 - a sequence of claims
    """The time that the report and every claim is about."""
    own = [verify.own_period(reader, window.cluster, each) for each in claims if each.window is not None]
    return BundleScope(
        window.cluster, min(each.since for each in (window, *own)), max(each.until for each in (window, *own))
    )


class _Staged:
    """The files of a bundle in a folder, and the report that they give."""

    def __init__(self, place: Path, names: Pseudonyms, known: dict[str, set[str]]) -> None:
        self._place = place
        self._names = names
        self._known = known
        self.rows = 0
        self.report: sla.Document = {}

    def stage(  # noqa: PLR0917 - all are needed, in their natural order
        self,
        reader: Reader,
        scope: BundleScope,
        rules: Rules,
        claims_path: Path | None,
        method: Method,
        progress: Callable[[str], None],
    ) -> None:
        """Write inputs, claims and method, and make the report of them."""
        folder = self._place / INPUTS
        folder.mkdir(parents=True)
        progress("collecting inputs")
        tables = {}
        for table, rows in inputs(reader, scope, rules, self._names).items():
            tables[table] = folder / file_name(table)
            rows.write_parquet(tables[table], compression="zstd", statistics=False)
            self.rows += rows.height
        for name, content in claims_files(claims_path, self._names, self._known).items():
            (self._place / name).write_bytes(content)
        self._put(METHOD, method.as_dict())
        text = README.format(cluster=method.cluster, period=method.period)
        (self._place / "README.txt").write_text(text, encoding="utf-8")
        progress("making the report from the inputs, as the other party will")
        with tempfile.TemporaryDirectory(prefix="trackside-bundle-") as warehouse:
            self.report = rebuilt(Path(warehouse), tables, method, self._place / FILE, progress)
        (self._place / REPORT).write_bytes(sla.encoded(self.report))

    def _put(self, name: str, value: object) -> None:
        (self._place / name).write_text(as_json(value, indent=1, sort_keys=True) + "\n", encoding="utf-8")

    def files(self, report_sha256: str, key: Ed25519PrivateKey | None) -> dict[str, Path | bytes]:
        """Every file by its name in the bundle, with manifest and signature."""
        paths = sorted(each for each in self._place.rglob("*") if each.is_file())
        listed = {each.relative_to(self._place).as_posix(): each for each in paths}
        manifest = {
            "bundle": KIND,
            "form_version": FORM_VERSION,
            "trackside": importlib.metadata.version("trackside"),
            "report_sha256": report_sha256,
            "files": {
                name: {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "bytes": path.stat().st_size}
                for name, path in listed.items()
            },
        }
        content = (as_json(manifest, indent=1, sort_keys=True) + "\n").encode()
        signed: dict[str, Path | bytes] = {} if key is None else {SIGNATURE: sshsig.sign(content, key)}
        return {**listed, MANIFEST: content, **signed}


def file_name(table: str) -> str:
    """The file of a table in a bundle.

    >>> file_name("stored.attempts")
    'attempts.parquet'
    """
    return f"{table.rpartition('.')[2]}.parquet"
