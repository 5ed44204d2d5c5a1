"""The SLA report: it says what `show` and `verify` say, is the same for the same data, and says what it cannot tell."""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import polars as pl
import pytest

from app.claims.file import read_contract
from app.config.settings import Config
from app.reports.sla import charts, data_quality, page
from app.reports.sla import document as sla
from app.reports.sla.commands import ledger_sql
from app.reports.sla.incidents import INCIDENTS_SHOWN
from app.reports.sla.write import file_name, write_sla
from app.times import parse_period
from app.window import Window
from dashboards.palette import SWATCHES
from ingest.slurm import load_files as ingesting
from ingest.store.report import first_error
from queries.sandbox.run import SandboxLimits, user_sql
from queries.warehouse import open_reader, open_writer
from tests.support.command import trackside
from tests.support.warehouses import NOW, from_accounting

if TYPE_CHECKING:
    from pathlib import Path

COVERED = "2026-10-02..2026-10-14"
"""A period that the data cover wholly."""


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return from_accounting(tmp_path_factory.mktemp("report"), jobs=300)


def covered(warehouse: Path) -> dict[str, Any]:
    """The report of the covered period, made once; a test may change what it gets."""
    return copy.deepcopy(_covered(warehouse))


@functools.cache
def _covered(warehouse: Path) -> dict[str, Any]:
    return made(warehouse, COVERED)


def made(warehouse: Path, period: str, claims: Path | None = None) -> dict[str, Any]:
    with open_reader(warehouse) as reader:
        window = Window("tiny", *parse_period(period))
        document = sla.document(reader, window, period, read_contract(claims), sla.origin_of_claims(claims))
        return sla.sealed(document)


def html(document: dict[str, Any]) -> str:
    return page.render(document).decode()


@pytest.mark.slow
def test_verb_writes_both_forms_and_reports_the_result(warehouse: Path, tmp_path: Path) -> None:
    where = ("--warehouse", str(warehouse))
    done = trackside("report", "sla", "--period", COVERED, *where, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "refuted" in done.stderr
    (written,) = tmp_path.glob("*.html")
    assert written.name == "sla-tiny-2026-10-02-2026-10-14.html"
    done = trackside("report", "sla", "--period", COVERED, "-o", str(tmp_path / "r.json"), "-q", *where)
    assert (done.returncode, done.stderr) == (0, "")
    reported = json.loads((tmp_path / "r.json").read_text())
    assert reported["cluster"] == "tiny"
    assert f"sha256 <code>{reported['sha256']}</code>" in written.read_text()


@pytest.mark.slow
def test_same_data_same_bytes(warehouse: Path) -> None:
    first, second = made(warehouse, "2026-10"), made(warehouse, "2026-10")
    assert sla.encoded(first) == sla.encoded(second)
    assert page.render(first) == page.render(second)


def test_the_digest_is_over_all_else_as_the_page_describes(warehouse: Path) -> None:
    reported = json.loads(sla.encoded(covered(warehouse)))
    claimed = reported.pop("sha256")
    canonical = json.dumps(reported, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert hashlib.sha256(canonical.encode()).hexdigest() == claimed


def test_the_page_runs_and_loads_nothing(warehouse: Path) -> None:
    text = html(covered(warehouse))
    assert "<script" not in text
    assert not re.search(r"\b(?:src|href|onload|onclick)=|@import|url\((?!#)", text)
    assert "default-src 'none'" in text


def test_invisible_characters_are_shown(warehouse: Path) -> None:
    document = covered(warehouse)
    page_of_that = page.render({**document, "cluster": "a\x1b[31m\x9b\u202eb\u2066c\ttab"}).decode()
    assert "a\ufffd[31m\ufffd\\u202eb\\u2066c" in page_of_that
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page_of_that)
    assert page.render(document).decode().count("\ufffd") == 0


def test_drawings_are_well_formed_and_have_labels(warehouse: Path) -> None:
    drawings = re.findall(r"<svg.*?</svg>", html(covered(warehouse)), re.DOTALL)
    assert len(drawings) > 8
    for drawing in drawings:
        root = ET.fromstring(drawing)
        if root.get("role") == "img":
            assert root.get("aria-label")


@pytest.mark.slow
def test_gpu_time_sums_to_capacity_exactly(warehouse: Path) -> None:
    reported = made(warehouse, "2026-10-02T03:04:05.678..2026-10-09T10:11:12.131415")["gpu_time"]
    total = sum(Decimal(each["gpu_seconds"]) for each in reported["categories"])
    assert reported["sums_to_capacity"] is True
    assert total == Decimal(reported["capacity_gpu_seconds"]) == Decimal(reported["ledger_gpu_seconds"]) > 0
    for each in reported["categories"]:
        assert sum(Decimal(part["gpu_seconds"]) for part in each["parts"]) == Decimal(each["gpu_seconds"])
    whole = 64 * Decimal((datetime(2026, 10, 9, 10, 11, 12, 131415) - datetime(2026, 10, 2, 3, 4, 5, 678000))  # noqa: DTZ001 - only their distance counts
                         .total_seconds()).quantize(Decimal("0.000001"))  # fmt: skip
    assert Decimal(reported["capacity_gpu_seconds"]) == whole


def test_ledger_that_misses_time_is_reported_not_to_sum(warehouse: Path) -> None:
    reported = covered(warehouse)
    reported["gpu_time"]["sums_to_capacity"] = False
    assert "do not use this report" in page.render(reported).decode()
    assert "do not use this report" not in html(covered(warehouse))


def test_days_add_up_to_the_period(warehouse: Path) -> None:
    reported = covered(warehouse)
    days = [Decimal(amount) for day in reported["daily"]["gpu_seconds"] for amount in day.values()]
    assert sum(days) == Decimal(reported["gpu_time"]["capacity_gpu_seconds"])
    assert len(reported["daily"]["days"]) == 12


@pytest.mark.slow
def test_partly_covered_period_leaves_delivered_objectives_open(warehouse: Path) -> None:
    """The document says how much of the period is covered."""
    reported = made(warehouse, "2026-10")
    assert 0.4 < reported["covered"]["share"] < 0.5
    assert {each["verdict"] for each in reported["objectives"] if each["kind"] == "delivered"} == {"undetermined"}
    assert all(each["needed"] for each in reported["objectives"] if each["verdict"] == "undetermined")
    text = html(reported)
    assert text.index("of the period is covered by data") < text.index("1. Verdicts")
    assert "of the period is covered by data" not in html(covered(warehouse))
    assert covered(warehouse)["covered"]["share"] == 1


@pytest.mark.slow
def test_a_hole_between_loads_is_not_covered(tmp_path: Path) -> None:
    root, settings = tmp_path / "w", Config()
    header = "JobIDRaw|Cluster|Submit|Start|End|State|NodeList|AllocTRES\n"
    day = 1_790_812_800
    texts = [f"{day + at}|{day + at + 3600}|COMPLETED|n1|gres/gpu=8\n" for at in (0, 5 * 86_400)]
    with open_writer(root, verb="test", now=NOW) as writer:
        for number, text in enumerate(texts):
            file = tmp_path / f"{number}.txt"
            file.write_text(f"{header}{number}|c|{text.split('|')[0]}|{text}")
            reports = ingesting.ingest_files(
                writer, settings, [str(file)], ingesting.Options(), now=NOW, progress=lambda *_: None
            )
            assert first_error(reports) is None
        from app.compute import pipeline as computing

        computing.compute(writer, settings, now=NOW)
    period = "2026-10-01..2026-10-06T01:00"
    with open_reader(root) as reader:
        window = Window("c", *parse_period(period))
        reported = sla.document(reader, window, period, read_contract(None), sla.origin_of_claims(None))
    assert reported["covered"]["share"] == pytest.approx(2 / 121)
    assert reported["covered"]["gaps"] == [{"since": "2026-10-01T01:00:00Z", "until": "2026-10-06T00:00:00Z"}]


def test_objectives_are_those_of_verify(warehouse: Path) -> None:
    where = ("--since", "2026-10-02", "--until", "2026-10-14", "--warehouse", str(warehouse))
    verified = json.loads(trackside("verify", "--format", "json", *where).stdout)
    reported = covered(warehouse)["objectives"]
    names = ("quoted", "read_as", "kind", "target", "value", "low", "high", "n", "verdict", "needed", "method")
    assert [{name: each[name] for name in names} for each in reported] == [
        {name: each[name] for name in names} for each in verified
    ]
    goodput = reported[0]
    assert goodput["numerator"] / goodput["denominator"] == goodput["low"]
    assert sum(goodput["evidence"].values()) == pytest.approx(1)


def test_kinds_of_evidence_have_the_width_of_the_page(warehouse: Path) -> None:
    assert '<div class="row"><dt>Evidence</dt>' in html(covered(warehouse))


def test_the_claims_that_come_along_are_called_examples(warehouse: Path) -> None:
    text = html(covered(warehouse))
    assert "the vendor's headlines that come with Trackside: examples, not a contract" in text
    assert '<td class="more">ETTR, runs of 24 h or more</td>' in text


def test_mttf_shows_its_gpu_days_and_gpus(warehouse: Path) -> None:
    reported = covered(warehouse)
    days = sum(
        each["exposure_gpu_days"]
        for each in reported["failure_rates"]
        if (each["size"], each["class"], each["counted"]) == ("pooled", "infrastructure", "attempts")
    )
    assert f"<dd>{days:,.2f} GPU-days / 1,024 GPUs</dd>" in page.render(reported).decode()


@pytest.mark.slow
def test_tables_have_whole_seconds_and_their_total_is_all_of_it(warehouse: Path) -> None:
    reported = made(warehouse, "2026-10-02T03:04:05.678..2026-10-09T10:11:12.131415")
    assert any("." in each["gpu_seconds"] for each in reported["gpu_time"]["categories"])
    tables = re.findall(r"<table>.*?</table>", page.render(reported).decode(), re.DOTALL)
    ledger = next(each for each in tables if "GPU-seconds" in each)
    cells = re.findall(r'<td class="n more">(.*?)</td>', ledger)
    assert len(cells) > 3
    assert all(re.fullmatch(r"[\d,]+", cell) for cell in cells)
    assert ledger.count('<td class="n">100.0 %</td></tr></tfoot>') == 1


def test_gap_filled_by_another_source_is_listed_last_and_named(warehouse: Path) -> None:
    reported = covered(warehouse)
    since, middle, until = "2026-10-02T00:00:00Z", "2026-10-05T00:00:00Z", "2026-10-14T00:00:00Z"
    reported["data_quality"]["sources"][0] |= {
        "source": "prometheus.gpu",
        "gaps": [
            {"since": since, "until": middle, "covered_by": "prometheus.gpu_hours"},
            {"since": middle, "until": until, "covered_by": None},
        ],
    }
    text = page.render(reported).decode()
    silent = text[text.index("Time without data in the period") : text.index("Rejected rows")]
    items = [" ".join(each.split()) for each in re.findall(r"<li.*?>(.*?)</li>", silent, re.DOTALL)]
    assert items == [
        "prometheus.gpu: 2026-10-05 00:00:00 to 2026-10-14 00:00:00",
        "prometheus.gpu: 2026-10-02 00:00:00 to 2026-10-05 00:00:00 (covered by prometheus.gpu_hours)",
    ]


def test_samples_are_silent_only_where_their_hours_are_too() -> None:
    def moment(day: int) -> datetime:
        return datetime(2026, 10, day, tzinfo=UTC)

    class Loads:
        """Samples of one day; hours of the days before and after it, but not of the last one."""

        known = {  # noqa: RUF012 - a constant of this test
            "prometheus.gpu": [(moment(3), moment(4))], "prometheus.gpu_hours": [(moment(1), moment(5))],
        }  # fmt: skip

        def query(self, _: str, *, cluster: str, source: str) -> pl.DataFrame:
            result = [(cluster, source, *each) for each in self.known[source]]
            names = ["cluster", "source", "started_at", "ended_at"]
            return pl.DataFrame(result, schema=names, orient="row")

    counts = ("loads", "rows_read", "rows_loaded", "rows_duplicate", "rows_skipped", "rows_rejected")
    row = {"source": "prometheus.gpu", "covers_from": moment(3), "covers_until": moment(4), "last_warnings": []}
    reported = data_quality._source(  # noqa: SLF001 - the report has many more parts
        Loads(),  # type: ignore[arg-type]  # all that is asked of it
        row | dict.fromkeys(counts, 1),
        Window("c", moment(1), moment(6)),
        3600.0,
    )
    assert [(gap["since"][:10], gap["until"][:10], gap["covered_by"]) for gap in reported["gaps"]] == [
        ("2026-10-01", "2026-10-03", "prometheus.gpu_hours"),
        ("2026-10-04", "2026-10-05", "prometheus.gpu_hours"),
        ("2026-10-05", "2026-10-06", None),
    ]


def test_definitions_refer_to_what_readers_have(warehouse: Path) -> None:
    sources = " ".join(each["source"] for each in covered(warehouse)["definitions"])
    assert "our definitions" not in sources
    assert "Trackside's own definition (manual, The ledger)" in sources


@pytest.mark.slow
def test_a_claims_file_of_ones_own_is_judged_and_named(warehouse: Path, tmp_path: Path) -> None:
    claims = tmp_path / "sla.toml"
    claims.write_text(
        '[[claim]]\nid = "o"\nmetric = "occupancy"\nquoted = "busy <b>&</b>"\nread_as = "busy"\nkind = "delivered"\n'
        'target = 0.5\ndirection = "at_least"\n'
    )
    reported = made(warehouse, COVERED, claims)
    assert reported["summary"] == {"supported": 1, "refuted": 0, "undetermined": 0}
    assert reported["claims"] == {"file": "sla.toml", "sha256": hashlib.sha256(claims.read_bytes()).hexdigest()}
    text = page.render(reported).decode()
    assert "busy &lt;b&gt;&amp;&lt;/b&gt;" in text
    assert set(reported["daily"]["metrics"]) == {"goodput_allocated", "occupancy"}


@pytest.mark.slow
def test_exclusions_and_corrections_are_on_the_page(warehouse: Path, tmp_path: Path) -> None:
    claims = tmp_path / "sla.toml"
    claims.write_text(
        '[[claim]]\nid = "busy"\nmetric = "occupancy"\nquoted = "busy"\nread_as = "busy"\nkind = "delivered"\n'
        'target = 0.5\ndirection = "at_least"\n'
        '[[claim.exclusions]]\nreason = "power cut"\nfrom = "2026-10-03T00:00:00Z"\nuntil = "2026-10-04T00:00:00Z"\n'
    )
    document = made(warehouse, COVERED, claims)
    excluded = document["exclusions"]
    assert [each["claim"] for each in excluded["declared"]] == ["busy"]
    assert float(excluded["gpu_seconds"]) > 0
    text = page.render(document).decode()
    assert "power cut" in text
    assert "No exclusions are declared" not in text
    assert "No correction by hand counts" in text
    author = {
        "id": 7,
        "author": "A. Person",
        "made_at": "2026-10-20T10:00:00Z",
        "says": "job 1 failed",
        "reason": "<disk>",
    }
    text = page.render({**document, "adjudications": [author]}).decode()
    assert "No correction by hand counts" not in text
    assert all(each in text for each in ("A. Person", "job 1 failed", "&lt;disk&gt;"))
    assert "No exclusions are declared" in html(covered(warehouse))


@pytest.mark.slow
def test_names_that_people_chose_cannot_write_html(tmp_path: Path) -> None:
    evil = "<img/onerror=x>"
    sacct = tmp_path / "sacct.txt"
    sacct.write_text(
        "JobIDRaw|Cluster|Submit|Start|End|State|NodeList|AllocTRES|JobName\n"
        f"1|{evil}|1790812800|1790812801|1790816401|NODE_FAIL|n1|gres/gpu=8|{evil}\n"
    )
    where = ("--warehouse", str(tmp_path / "w"))
    assert trackside("ingest", "slurm", str(sacct), *where).returncode == 0
    assert trackside("compute", *where).returncode == 0
    done = trackside("report", "sla", "--period", "2026-10-01", *where, "-o", str(tmp_path / "r.html"))
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "r.html").read_text()
    assert evil not in text
    assert "&lt;img/onerror=x&gt;" in text


def test_incidents_are_the_interruptions_by_infrastructure(warehouse: Path) -> None:
    reported = covered(warehouse)["incidents"]
    with open_reader(warehouse) as reader:
        since, until = parse_period(COVERED)
        result = reader.query("interruptions", cluster="tiny", since=since, until=until)
    failed = result.filter(pl.col("class") == "infrastructure")
    assert reported["n"] == failed.height == len(reported["shown"]) + reported["not_shown"]["n"]
    assert len(reported["shown"]) == min(failed.height, INCIDENTS_SHOWN)
    sizes = [each["n_gpus"] for each in reported["shown"]]
    assert sizes == sorted(sizes, reverse=True)
    gpus = sum(sizes) + reported["not_shown"]["gpus"]
    assert gpus == float(failed["n_gpus"].sum())
    assert sum(reported["interruptions_by_class"].values()) == result.height


@pytest.mark.slow
def test_the_sql_it_prints_gives_its_numbers(warehouse: Path) -> None:
    period = "2026-10-02T03:04:05..2026-10-09T10:11:12.5"
    since, until = parse_period(period)
    rows, more = user_sql(warehouse, ledger_sql(Window("tiny", since, until)), SandboxLimits())
    assert not more
    reported = {each["category"]: each["gpu_seconds"] for each in made(warehouse, period)["gpu_time"]["categories"]}
    for category, seconds in rows.select("category", "gpu_seconds").iter_rows():
        assert float(seconds) == float(reported.pop(category))
    assert set(reported.values()) == {"0"}


def test_the_commands_it_prints_parse(warehouse: Path) -> None:
    import shlex

    from app.cli.main import build_parser

    for each in covered(warehouse)["reproduce"]:
        build_parser().parse_args(shlex.split(each["command"])[1:])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "output"),
    [(["--period", "October"], "is not a period"), (["--period", "2026-13"], "is not a period"),
     (["--period", "2025-01"], "there are no data"), (["--period", "2026-10", "--cluster", "x"], "there are: tiny"),
     (["--period", "2026-10", "-o", "report.docx"], "html, json, pdf, md, csv"),
     (["--period", "2026-10", "-o", "no/such/folder.html"], "cannot be written")],
)  # fmt: skip
def test_unreportable_period_is_refused_with_the_reason(
    arguments: list[str], output: str, warehouse: Path, tmp_path: Path
) -> None:
    done = trackside("report", "sla", *arguments, "--warehouse", str(warehouse), cwd=tmp_path)
    assert done.returncode == 2
    assert output in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_empty_or_uncomputed_warehouse_names_the_first_step(tmp_path: Path) -> None:
    where = ("--period", "2026-10", "--warehouse")
    assert trackside("report", "sla", *where, str(tmp_path / "none")).returncode == 40
    loaded = from_accounting(tmp_path, jobs=5, compute=False)
    refused = trackside("report", "sla", *where, str(loaded))
    assert refused.returncode == 2
    assert "trackside compute" in refused.stderr


@pytest.mark.slow
def test_a_window_beyond_the_named_period_is_its_own_period(warehouse: Path) -> None:
    with open_reader(warehouse) as reader:
        requested = Window("tiny", datetime(2026, 10, 3, tzinfo=UTC), datetime(2026, 10, 5, tzinfo=UTC))
        reported = sla.document(reader, requested, "2026-11", read_contract(None), sla.origin_of_claims(None))
    assert reported["period"]["since"] == "2026-10-03T00:00:00Z"
    assert reported["covered"]["share"] == 1


@pytest.mark.slow
def test_data_quality_lists_refused_rows_and_gaps(tmp_path: Path) -> None:
    root = from_accounting(tmp_path, jobs=30)
    bad = tmp_path / "bad.txt"
    bad.write_text("JobIDRaw|Cluster|Submit|Start|End|State|NodeList|AllocTRES\n7|tiny|yesterday|1|2|COMPLETED|n1|\n")
    with open_writer(root, verb="test", now=NOW) as writer:
        ingesting.ingest_files(writer, Config(), [str(bad)], ingesting.Options(), now=NOW, progress=lambda *_: None)
    document = made(root, "2026-10")
    reported = document["data_quality"]
    assert sum(each["n"] for each in reported["rejected"]) == 1
    accounting = next(each for each in reported["sources"] if each["source"] == "slurm.accounting")
    assert accounting["rows_rejected"] == 1
    assert accounting["gaps"][-1]["until"] == "2026-11-01T00:00:00Z"
    inventory = next(each for each in reported["sources"] if each["source"] == "slurm.nodes")
    assert inventory["share_of_period"] is None
    text = html(document)
    assert reported["rejected"][0]["reason"].split(":")[0] in text


@pytest.mark.slow
def test_a_report_takes_the_place_of_an_older_one(warehouse: Path, tmp_path: Path) -> None:
    target = tmp_path / "r.html"
    target.write_text("older")
    with open_reader(warehouse) as reader:
        write_sla(reader, Window("tiny", *parse_period(COVERED)), COVERED, None, target, "html")
    assert target.read_text().startswith("<!DOCTYPE html>")


def test_no_upper_limit_is_drawn_as_an_arrow() -> None:
    drawn = charts.range_chart(
        unit="d", target=3.66, direction="at_least", value=None, low=1.2, high=None, unlimited=True,
        verdict="undetermined", kind="capability",
    )  # fmt: skip
    assert "no limit" in drawn
    assert 'class="arrow' in drawn
    assert 'class="point' not in drawn


def test_nothing_measured_is_reported_and_not_drawn_as_zero() -> None:
    drawn = charts.range_chart(
        unit="ratio", target=0.5, direction="at_least", value=None, low=None, high=None, unlimited=False,
        verdict="undetermined", kind="capability",
    )  # fmt: skip
    assert "nothing measured" in drawn
    assert 'class="bar' not in drawn


def test_category_text_colour_is_that_of_the_explorer() -> None:
    for swatch in SWATCHES:
        drawn = ET.fromstring(charts.category_bar([(swatch.name, 1.0)]))
        (text,) = (each for each in drawn.iter() if each.get("class") == "onbar")
        assert text.get("style") == f"fill:{swatch.ink}", swatch.name


def test_file_names_hold_no_path() -> None:
    assert file_name("../../etc", "2026-10", "html") == "sla-etc-2026-10.html"
