"""A report of a contract in every form: the same numbers, the same bytes twice, and no name that becomes markup."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from app.claims.file import read_contract
from app.errors import UsageError
from app.reports import typst_pdf
from app.reports.forms import FORMS
from app.reports.sla import document as sla
from app.reports.sla import markdown, page, pdf, rows, words
from app.reports.sla.write import form_of, rendered
from app.times import parse_period
from app.window import Window
from metrics.failures.published import REFERENCES
from queries.warehouse import open_reader
from tests.support.warehouses import from_accounting

if TYPE_CHECKING:
    from pathlib import Path

CONTRACT = """
[contract]
provider = "P"
customer = "C"
monthly_fee = 1000
currency = "EUR"
cutoff_days = 3
maintenance = ["m.ics"]

[[claim]]
id = "availability"
metric = "availability"
quoted = "q"
read_as = "r"
kind = "delivered"
target = 0.99
direction = "at_least"
rule = "worse_end"
credits = [{ below = 0.99, percent = 10 }, { below = 0.5, percent = 50 }]

[[claim]]
id = "goodput"
metric = "goodput_allocated"
quoted = "q"
read_as = "r"
kind = "delivered"
target = 0.5
direction = "at_least"
credits = [{ below = 0.5, percent = 20 }]
"""

CALENDAR = (
    "BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:{0}\nDTSTART:2026{0}T000000Z\nDURATION:PT6H\nSUMMARY:patch\nEND:VEVENT\n"
    "END:VCALENDAR\n"
)

WEEK = "2026-10-06..2026-10-10"


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return from_accounting(tmp_path_factory.mktemp("forms"), jobs=300)


@pytest.fixture(scope="module")
def report(warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return made(warehouse, tmp_path_factory.mktemp("contract"), WEEK)


def made(
    warehouse: Path,
    folder: Path,
    period: str,
    text: str = CONTRACT,
    day: str = "1007",
    *,
    earlier: dict[str, Any] | None = None,
) -> dict[str, Any]:
    claims = folder / "sla.toml"
    claims.write_text(text)
    (folder / "m.ics").write_text(CALENDAR.format(day))
    contract = read_contract(claims)
    with open_reader(warehouse) as reader:
        window = Window("tiny", *parse_period(period, contract.time_zone))
        return sla.sealed(sla.document(reader, window, period, contract, sla.origin_of_claims(claims), earlier))


def objective(report: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = (each for each in report["objectives"] if each["id"] == name)
    return dict(found)


def test_what_is_refuted_of_up_to_is_its_reading_in_every_form(report: dict[str, Any]) -> None:
    """As in `verify` and the explorer: of what is promised "up to" a number, none below it is a breach."""
    one = report["objectives"][0] | {"verdict": "refuted", "quoted": "Up to 99 % available"}
    document = report | {"objectives": [one]}
    assert words.words_of(document)["objectives"][0]["verdict"] == "refuted as read"
    assert '<span class="word refuted">refuted as read</span>' in page.render(document).decode()
    assert ": refuted as read\n" in markdown.render(document).decode()
    assert pdf.render(document).startswith(b"%PDF-")


def test_a_budget_is_what_the_objectives_parts_leave(report: dict[str, Any]) -> None:
    availability = objective(report, "availability")
    budget, whole = availability["budget"], availability["denominator"]
    assert budget["allowed"] == pytest.approx((1 - 0.99) * whole)
    assert budget["spent"] == pytest.approx(whole - availability["numerator"])
    last = budget["by_day"][-1]
    for name in ("spent_low", "spent", "spent_high"):
        assert last[name] == pytest.approx(budget[name])
    days = [row["spent_high"] for row in budget["by_day"]]
    assert days == sorted(days)


@pytest.mark.slow
def test_maintenance_of_the_period_alone_is_left_out(warehouse: Path, tmp_path: Path, report: dict[str, Any]) -> None:
    assert [each["says"] for each in report["exclusions"]["declared"]] == [
        "2026-10-07T00:00:00Z to 2026-10-07T06:00:00Z: patch (m.ics)"
    ] * 2
    elsewhere = made(warehouse, tmp_path, WEEK, day="1107")
    assert elsewhere["exclusions"]["declared"] == []
    left_out = objective(elsewhere, "availability")["denominator"] - objective(report, "availability")["denominator"]
    assert left_out == pytest.approx(64 * 6 * 3600)
    assert elsewhere["contract"]["calendars"][0]["events"] == 0


@pytest.mark.slow
def test_trend_has_the_numbers_of_the_periods_own_reports(
    warehouse: Path, tmp_path: Path, report: dict[str, Any]
) -> None:
    before = objective(report, "availability")["trend"]
    assert len(before) == 12
    assert before[-1]["period"] == "2026-10-02T00:00:00Z..2026-10-06T00:00:00Z"
    assert [each["verdict"] for each in before[:11]] == [None] * 10 + ["undetermined"], "data of a part of the last"
    own = objective(made(warehouse, tmp_path, before[-1]["period"]), "availability")
    for name in ("value", "low", "high", "verdict"):
        assert before[-1][name] == own[name]
    assert before[-1]["result"] == own["outcome"]["result"]
    assert objective(report, "availability")["before"]["value"] == own["value"]


@pytest.mark.slow
def test_credits_are_amounts_of_whole_months_alone(warehouse: Path, tmp_path: Path, report: dict[str, Any]) -> None:
    assert report["credits"]["agreed"] is True
    assert report["credits"]["least_amount"] is None
    month = made(warehouse, tmp_path, "2026-10", CONTRACT.replace("0.99", "0.999999"))
    credits = month["credits"]  # noqa: A001 - the contract's word
    assert objective(month, "availability")["outcome"]["result"] == "undecided", "data of a part of the month"
    assert (credits["least_percent"], credits["least_amount"]) == (0.0, "0.00")
    assert credits["most_amount"] == f"{10 * credits['most_percent']:.2f}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cutoff", "final"), [(3, True), (366, False)]
)  # the numbers are computed at the end of a month that ends later than the data
def test_a_report_is_final_after_its_cutoff(warehouse: Path, tmp_path: Path, cutoff: int, *, final: bool) -> None:
    made_then = made(warehouse, tmp_path, WEEK, CONTRACT.replace("cutoff_days = 3", f"cutoff_days = {cutoff}"))
    assert made_then["status"]["final"] is final
    assert bool(made_then["status"]["reasons"]) is not final


@pytest.mark.slow
def test_periods_are_of_the_contracts_zone(warehouse: Path, tmp_path: Path) -> None:
    local = made(warehouse, tmp_path, "2026-10-07", CONTRACT.replace("[contract]", '[contract]\nzone = "Asia/Tokyo"'))
    assert local["period"]["since"] == "2026-10-06T15:00:00Z"
    assert "midnight of Asia/Tokyo" in page.render(local).decode()


def test_a_month_across_a_clock_change_is_an_hour_longer(warehouse: Path, tmp_path: Path) -> None:
    """October of Berlin begins in summer time and ends in winter time; so do the months of its trend."""
    berlin = made(warehouse, tmp_path, "2026-10", CONTRACT.replace("[contract]", '[contract]\nzone = "Europe/Berlin"'))
    since, until = (datetime.fromisoformat(berlin["period"][end]) for end in ("since", "until"))
    assert (until - since).total_seconds() == 745 * 3600
    assert berlin["period"]["since"] == "2026-09-30T22:00:00Z"
    assert berlin["covered"]["missing_s"] == pytest.approx((1 - berlin["covered"]["share"]) * 745 * 3600)
    assert berlin["objectives"][0]["trend"][0]["period"] == "2025-10"


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_every_objective_and_the_same_bytes_twice(report: dict[str, Any], form: str) -> None:
    content = rendered(report, form)
    assert content == rendered(report, form)
    if form != "pdf":
        text = content.decode()
        assert all(name in text for name in ("availability", "goodput", report["sha256"]))


def test_rows_are_those_of_the_value(report: dict[str, Any]) -> None:
    read = list(csv.DictReader(io.StringIO(rows.render(report).decode())))
    own = [row for row in read if row["period"] == WEEK]
    assert [row["id"] for row in own] == ["availability", "goodput"]
    for row, each in zip(own, report["objectives"], strict=True):
        for name in ("value", "low", "high", "numerator", "denominator"):
            assert (float(row[name]) if row[name] else None) == each[name]
        assert (row["result"], row["verdict"]) == (each["outcome"]["result"], each["verdict"])
        assert float(row["budget_allowed"]) == each["budget"]["allowed"]
    assert len(read) == 6, "each objective has two periods before with data"


def test_the_pdf_is_tagged_dated_by_its_period_and_has_bookmarks(report: dict[str, Any]) -> None:
    content = pdf.render(report)
    assert content.startswith(b"%PDF-")
    assert b"/MarkInfo" in content
    assert b"pdfuaid" in content
    assert b"/Outlines" in content
    assert b"2026-10-10" in content
    other = json.loads(json.dumps(report))
    other["objectives"][0]["value"] = 0.123
    assert pdf.render(other) != content


HOSTILE = '#read("/etc/passwd") *b* [l](javascript:x) <script>alert(1)</script> | $x$ `c`\n= h \\ @r {{ 1 }} \u202e'


def test_names_never_become_markup(report: dict[str, Any]) -> None:
    hostile = json.loads(json.dumps(report))
    hostile["cluster"] = hostile["contract"]["provider"] = hostile["objectives"][0]["quoted"] = HOSTILE
    hostile["objectives"][0]["id"] = HOSTILE
    assert pdf.render(hostile).startswith(b"%PDF-"), "the texts compile, whatever is in them"
    text = markdown.render(hostile).decode()
    assert not re.search(r"(?<!\\)<script", text)
    assert not re.search(r"(?<!\\)\[l(?<!\\)\]\(", text)
    lines = [line for line in text.splitlines() if "passwd" in line]
    assert lines
    assert all(line.count("|") == line.count("\\|") or line.startswith("| **") for line in lines)
    assert "<script>alert" not in page.render(hostile).decode()
    assert "'" not in rows.render(hostile).decode()[:1]


@pytest.mark.parametrize(
    ("cost", "without", "said"),
    [
        (2.5, 0, " They cost 2.50 GPU-hours."),
        (2.5, 1, " They cost 2.50 GPU-hours, without 1 of unknown cost."),
        (0.0, 3, " What they cost is unknown."),
    ],
)
def test_unknown_costs_of_interruptions_are_no_zero(cost: float, without: int, said: str) -> None:
    assert words.incident_cost({"n": 3, "n_without_cost": without, "cost_gpu_hours": cost}) == said


@pytest.mark.parametrize("form", ["html", "md"])
def test_an_interruption_has_its_user_duration_and_cost(report: dict[str, Any], form: str) -> None:
    found = json.loads(sla.encoded(report))
    first = found["incidents"]["shown"][0] | {"user": "<u>|*", "runtime_s": 5400.0, "cost_gpu_hours": 12.34}
    found["incidents"] |= {"n": 1, "n_without_cost": 0, "cost_gpu_hours": 12.34, "shown": [first]}
    text = rendered(found, form).decode()
    assert {"html": "(&lt;u&gt;|*)", "md": "(\\<u\\>\\|\\*)"}[form] in text
    assert all(each in text for each in ("1 h 30 min", "12.34", "They cost 12.34 GPU-hours."))


def test_a_file_name_says_its_form(tmp_path: Path) -> None:
    names = {"r.pdf": "pdf", "r.MD": "md", "r.markdown": "md", "r.csv": "csv", "r.htm": "html", "r": "html"}
    assert {name: form_of(None, tmp_path / name) for name in names} == names
    with pytest.raises(UsageError, match="html, json, pdf, md, csv"):
        form_of(None, tmp_path / "r.docx")


BEFORE = "2026-10-02T00:00:00Z..2026-10-06T00:00:00Z"


@pytest.mark.slow
def test_an_earlier_report_is_corrected_where_data_differ(warehouse: Path, tmp_path: Path) -> None:
    earlier = made(warehouse, tmp_path, BEFORE)
    assert made(warehouse, tmp_path, WEEK, earlier=earlier)["corrected"]["changes"] == []
    changed = json.loads(json.dumps(earlier))
    changed["objectives"][0]["value"] -= 0.001
    report = made(warehouse, tmp_path, WEEK, earlier=changed)
    (found,) = report["corrected"]["changes"]
    assert (found["objective"], found["was"]["value"]) == ("availability", changed["objectives"][0]["value"])
    assert found["now"]["value"] == earlier["objectives"][0]["value"]
    assert "Corrections to the report on" in page.render(report).decode()
    assert "Correction to the report on" in markdown.render(report).decode()


@pytest.mark.slow
def test_an_earlier_report_must_be_whole_and_of_this_cluster(warehouse: Path, tmp_path: Path) -> None:
    earlier = made(warehouse, tmp_path, BEFORE)
    file = tmp_path / "r.json"
    file.write_bytes(sla.encoded(earlier))
    assert sla.read_report(file) == earlier
    file.write_bytes(sla.encoded(earlier).replace(b'"availability"', b'"availabilitx"', 1))
    with pytest.raises(UsageError, match="is not as it was written"):
        sla.read_report(file)
    for content in (b"", b"{}", b"[1]", b'{"report": "other", "form_version": 2}'):
        file.write_bytes(content)
        with pytest.raises(UsageError):
            sla.read_report(file)
    with pytest.raises(UsageError, match="is on the cluster other"):
        made(warehouse, tmp_path, WEEK, earlier=earlier | {"cluster": "other"})
    with pytest.raises(UsageError, match="is none of the 12 periods before"):
        made(warehouse, tmp_path, "2026-10-07", earlier=earlier)


@pytest.mark.parametrize("form", ["html", "md"])
def test_every_form_has_scope_rates_and_constants(report: dict[str, Any], form: str) -> None:
    """What was left out of an objective, its rates beside published ones, and the constants of the computation."""
    narrowed = json.loads(json.dumps(report))
    narrowed["objectives"][0] |= {"narrowed": "partition p7, with 2 exclusions", "excluded_s": 5400.0,
                                  "excluded_gpu_seconds": 36_000_000.0}  # fmt: skip
    text = rendered(narrowed, form).decode()
    for words_ in ("partition p7, with 2 exclusions", "1 h 30 min: 10,000.00 GPU-h", "Meta RSC-1", "3,748.25",
                   "failure\\_after\\_end\\_s" if form == "md" else "failure_after_end_s"):  # fmt: skip
        assert words_ in text


@pytest.mark.parametrize("form", ["html", "md"])
def test_a_category_left_out_is_in_every_form(report: dict[str, Any], form: str) -> None:
    """It takes GPU-time out of an objective, and no time of the window."""
    agreed = json.loads(json.dumps(report))
    agreed["objectives"][0] |= {"excluded_s": 0.0, "excluded_gpu_seconds": 172_800.0}
    assert re.search(r"Left out\W{0,6}(?:<.dt><dd>)?48\.00 GPU-h", rendered(agreed, form).decode())


def test_rows_of_a_markdown_table_have_as_many_cells(report: dict[str, Any]) -> None:
    tables = re.findall(r"(?:^\|.*\n)+", rendered(report, "md").decode(), flags=re.MULTILINE)
    cells = [{len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()} for table in tables]
    assert len(cells) > 5
    assert all(len(counts) == 1 for counts in cells)


def test_a_report_is_compared_with_each_published_rate(report: dict[str, Any]) -> None:
    assert [each["reference"] for each in report["published_rates"]] == [each.name for each in REFERENCES]
    for each in report["published_rates"]:
        ours = each["n_failures"] / each["exposure_gpu_days"] if each["exposure_gpu_days"] else None
        if ours is None or each["rate_ratio"] is None:
            continue
        assert each["rate_per_gpu_day"] == pytest.approx(ours)
        assert each["rate_ratio"] == pytest.approx(ours / each["reference_rate_per_gpu_day"])
        assert each["ci_low"] <= each["rate_ratio"] <= (each["ci_high"] or float("inf"))


def test_amounts_of_credits_have_groups_of_three(report: dict[str, Any]) -> None:
    month = json.loads(json.dumps(report))
    month["credits"] |= {"least_amount": "30864.20", "most_amount": "1092592.59", "currency": "CHF"}
    assert "30,864.20 to 1,092,592.59 CHF" in str(words.credits_in_words(month))


@pytest.mark.slow
def test_the_pdf_shows_what_its_fonts_lack_by_number(report: dict[str, Any]) -> None:
    """Without a font for them Typst refuses PDF/UA, which ended the command with a fault."""
    foreign = json.loads(json.dumps(report))
    foreign["contract"]["customer"] = "日本支社 e\u20dd \U0001f600 Zürich Ω"
    content = pdf.render(foreign)
    assert content == pdf.render(foreign)
    assert typst_pdf.lacking(sorted("日\u20dd\U0001f600üΩ≥")) == sorted("日\u20dd\U0001f600")
    assert pdf.render(report) != content
