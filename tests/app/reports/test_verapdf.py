"""The reports' PDFs by veraPDF, the PDF Association's reference checker: PDF/UA-1; without it the tests are skipped."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typst

from app.config.cost import Cost
from app.reports.digest import document as digest
from app.reports.digest.render import rendered
from app.reports.sla import pdf
from app.reports.sla.document import sealed
from app.times import parse_period
from app.window import Window
from queries.warehouse import open_reader
from tests.app.reports.test_forms import HOSTILE, WEEK, made
from tests.support.warehouses import from_accounting

if TYPE_CHECKING:
    from collections.abc import Iterable

pytestmark = pytest.mark.slow

VERAPDF = Path("/opt/trackside-lab/verapdf/verapdf.jar")
"""Where tests/lab/verapdf/build.sh puts it."""


def mistakes(files: Iterable[Path]) -> dict[str, list[str]]:
    """By file: the clauses of PDF/UA-1 that it breaks."""
    if not VERAPDF.exists() or shutil.which("java") is None:
        pytest.skip("no veraPDF; get it with: make verapdf")
    command = ["java", "-cp", str(VERAPDF), "org.verapdf.apps.GreenfieldCliWrapper", "-f", "ua1", "--format", "json"]
    done = subprocess.run([*command, *map(str, files)], capture_output=True, text=True, check=False, timeout=300)
    return {
        Path(job["itemDetails"]["name"]).name: _clauses(job["validationResult"])
        for job in json.loads(done.stdout)["report"]["jobs"]
    }


def _clauses(results: list[dict[str, Any]]) -> list[str]:
    broken = [each for result in results for each in result["details"]["ruleSummaries"]]
    return [f"{each['clause']}: {each['description']}" for each in broken]


def test_verapdf_finds_nothing_in_reports(tmp_path: Path) -> None:
    root = from_accounting(tmp_path, jobs=300)
    report = made(root, tmp_path, WEEK)
    odd = json.loads(json.dumps(report))
    odd["contract"]["customer"] = "日本支社 | *x* <y>"
    odd["objectives"][0] |= {"id": HOSTILE, "quoted": "wort" * 40, "value": None, "low": None, "high": None}
    odd["incidents"]["shown"][0]["run_id"] = "r" * 90
    empty = json.loads(json.dumps(report))
    empty["incidents"] |= {"n": 0, "shown": []}
    empty |= {"failure_rates": [], "objectives": []}
    with open_reader(root) as reader:
        window = Window("tiny", *parse_period("2026-10"))
        of_user = digest.document(reader, window, "2026-10", digest.Subject("user", "user1"), Cost())
    files = {"report": pdf.render(report), "odd": pdf.render(odd), "empty": pdf.render(empty),
             "digest": rendered(sealed(of_user), "pdf")}  # fmt: skip
    for name, content in files.items():
        (tmp_path / f"{name}.pdf").write_bytes(content)
    found = mistakes(sorted(tmp_path.glob("*.pdf")))
    assert found == {f"{name}.pdf": [] for name in files}


def test_verapdf_finds_what_is_not_accessible(tmp_path: Path) -> None:
    (tmp_path / "plain.pdf").write_bytes(typst.compile(b"= Heading\ntext", format="pdf"))
    found = mistakes([tmp_path / "plain.pdf"])
    assert any(each.startswith("5: ") for each in found["plain.pdf"]), "no identification as PDF/UA"
