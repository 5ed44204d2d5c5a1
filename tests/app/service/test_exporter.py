"""`/metrics`: every declared family that has data, nothing else, no number where none can be told."""

from __future__ import annotations

import re
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest
from polars.exceptions import PanicException
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from app.claims import verify as verifying
from app.claims.watched import WatchedClaims
from app.compute import pipeline as computing
from app.compute.stored_results import standard_windows
from app.config.settings import Config
from app.explorer.to_do import costliest
from app.results import headlines
from app.results.goodput import lost_rows
from app.results.serving.cache import AnswerCache
from app.service import exporter
from app.service import server as service
from app.service.samples import ExportedSample as Exported
from app.window import Window
from dashboards import palette
from dashboards.exported_metrics import BY_NAME, FAMILIES, MAX_RUNS
from ingest.slurm import load_files as ingesting
from ingest.store.report import first_error
from metrics.catalog import METRICS
from metrics.categories import COSTLY
from queries.errors import QueryError
from queries.warehouse import open_reader, open_writer
from tests.support.slurm.dumps import tiny
from tests.support.warehouses import NOW, from_accounting, from_everything

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from prometheus_client.samples import Sample

DAY = timedelta(days=1)
FLAGGED = {"trackside_flagged_node", "trackside_straggler_gpu_seconds"}
"""Families without a series where all is well, or where nobody writes rank times."""
TIMED = "trackside_export_seconds"
"""The family that has another value each time."""


@pytest.fixture(scope="module")
def accounting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return from_accounting(tmp_path_factory.mktemp("accounting"), jobs=300)


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return from_everything(tmp_path_factory.mktemp("everything"))


def scraped(answers: AnswerCache, *, now: datetime, claims: WatchedClaims | None = None) -> bytes:
    """All metrics in Prometheus's text format."""
    return exporter.negotiated(answers, "", now=now, claims=claims)[0]


@pytest.fixture(scope="module")
def of_accounting(accounting: Path) -> str:
    """A scrape of it; each takes more than a second."""
    return scraped(AnswerCache(accounting), now=NOW).decode()


@pytest.fixture(scope="module")
def of_everything(everything: Path) -> str:
    return scraped(AnswerCache(everything), now=NOW).decode()


def samples(root: Path) -> list[Sample]:
    return parsed(scraped(AnswerCache(root), now=NOW).decode())


def parsed(text: str) -> list[Sample]:
    families = [family for family in text_string_to_metric_families(text) if family.name != TIMED]
    return [sample for family in families for sample in family.samples]


def of(result: Iterable[Sample], family: str, **labels: str) -> dict[tuple[str, ...], float]:
    """Values of a family by the labels that are not fixed."""
    order = [label for label in BY_NAME[family].labels if label not in labels]
    return {
        tuple(each.labels[label] for label in order): each.value
        for each in result
        if each.name == family and labels.items() <= each.labels.items()
    }


def test_with_all_sources_every_family_has_data(of_everything: str) -> None:
    assert {each.name for each in parsed(of_everything)} == set(BY_NAME) - FLAGGED - {TIMED}
    assert f'{TIMED}{{cluster="demo"}}' in of_everything


@pytest.mark.parametrize("which", ["of_accounting", "of_everything"])
def test_families_labels_and_values_are_as_declared(which: str, request: pytest.FixtureRequest) -> None:
    result = parsed(request.getfixturevalue(which))
    for each in result:
        assert set(each.labels) == set(BY_NAME[each.name].labels), each
        assert each.value == each.value, f"NaN: {each}"
        assert abs(each.value) != float("inf"), each
        for label, known in BY_NAME[each.name].values.items():
            assert each.labels[label] in known, each
        if BY_NAME[each.name].unit == "ratio":
            assert 0 <= each.value <= 1, each
    assert len({(each.name, tuple(sorted(each.labels.items()))) for each in result}) == len(result)


def test_every_declared_label_value_is_exported_with_full_data(of_everything: str) -> None:
    declared = {(label, value) for family in FAMILIES for label, known in family.values.items() for value in known}
    result = {(label, each.labels[label]) for each in parsed(of_everything) for label in BY_NAME[each.name].values}
    not_there = {
        ("state", "unknown"),
        ("verdict", "lemon"),
        ("verdict", "suspect"),
        *(("kind", kind) for kind in ("unused_gpus", "never_stepped", "failed_at_once")),
    }  # all GPUs are known and used, no node fails
    assert result == declared - not_there


def test_what_costs_most_is_the_same_as_in_the_explorer(everything: Path, of_everything: str) -> None:
    lost = of(parsed(of_everything), "trackside_gpu_lost_seconds", cluster="demo", window="all")
    with open_reader(everything) as reader:
        computed = reader.query("computed", cluster="demo").row(0, named=True)
        window = Window("demo", computed["since"], computed["until"])
        shown = costliest.costs_by_cause(lost_rows(reader, window))
    rows = shown.select("category", "cause", "gpu_hours").rows()
    assert lost == pytest.approx({(name, cause or "none"): 3600 * hours for name, cause, hours in rows})
    assert {category for category, _ in lost} > {"pending_demand", "startup", "lost"}


def test_cost_categories_are_one_set_and_named_in_the_help() -> None:
    assert tuple(swatch.name for swatch in palette.SWATCHES if swatch.cost) == COSTLY
    listed, rest = BY_NAME["trackside_gpu_lost_seconds"].help.split("by category and cause: ")[1].split(". ", 1)
    assert tuple(listed.split(", ")) == COSTLY
    assert set(re.findall(r"\w+", rest)) & set(palette.ORDER) == set(palette.ORDER) - set(COSTLY) - {"productive"}


def test_help_and_type_are_as_declared(of_everything: str) -> None:
    for family in FAMILIES:
        if family.name in FLAGGED:
            continue
        assert f"# HELP {family.name} {family.help}\n# TYPE {family.name} gauge\n" in of_everything


def test_promtool_reports_no_problem(of_everything: str) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("no promtool on this machine; get it with: make test REAL=1")
    command = ["promtool", "check", "metrics"]
    done = subprocess.run(command, input=of_everything.encode(), capture_output=True, check=False)
    complaints = set(done.stderr.decode().splitlines())
    assert not complaints


def test_unknown_values_have_bounds_and_no_point(of_accounting: str) -> None:
    result = parsed(of_accounting)
    assert set(of(result, "trackside_goodput_ratio", window="all", cluster="tiny", of="allocated")) == {
        ("lower",),
        ("upper",),
    }
    assert not of(result, "trackside_mfu_ratio")


@pytest.mark.slow
def test_numbers_are_those_of_the_headlines_for_each_window(accounting: Path, of_accounting: str) -> None:
    result = parsed(of_accounting)
    with open_reader(accounting) as reader:
        computed = reader.query("computed", cluster="tiny").row(0, named=True)
        whole = Window("tiny", computed["since"], computed["until"])
        named = exporter.windows(whole)
        assert set(named) == {"all", "7d", "month"}  # the data are too short for 28 days
        assert set(named.values()) <= set(standard_windows(whole))
        for name, window in named.items():
            shown = {each.metric: each for each in headlines.headlines(reader, window)}
            key = {"cluster": "tiny", "window": name}
            assert of(result, "trackside_occupancy_ratio", **key)[()] == shown["occupancy"].value
            assert of(result, "trackside_ettr_ratio", **key)["upper",] == shown["ettr"].bound_high
            mttf, restart = shown["mttf"].value, shown["time_to_job_restart"].value
            assert mttf is not None
            assert of(result, "trackside_mttf_seconds", bound="point", **key)["1024",] == mttf * 86_400
            assert of(result, "trackside_restart_seconds", statistic="median", **key)[()] == restart
            assert of(result, "trackside_failures_observed", **key)["infrastructure",] == shown["mttf"].n


def test_the_month_is_the_one_that_the_data_end_in() -> None:
    def month(since: datetime, until: datetime) -> Window:
        whole = Window("c", since, until)
        result = exporter.windows(whole)["month"]
        assert result in standard_windows(whole)
        return result

    first, november = datetime(2026, 9, 10, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)
    assert month(first, november).since == datetime(2026, 10, 1, tzinfo=UTC)
    assert month(first, november + timedelta(seconds=1)).since == november
    assert month(datetime(2026, 10, 20, tzinfo=UTC), november).since == datetime(2026, 10, 20, tzinfo=UTC)


@pytest.mark.slow
def test_categories_sum_to_capacity_and_include_lost_time(of_everything: str) -> None:
    result = parsed(of_everything)
    key = {"cluster": "demo", "window": "all"}
    by_category = {category: value for (_, category), value in of(result, "trackside_gpu_seconds", **key).items()}
    assert sum(by_category.values()) == pytest.approx(64 * 32 * 86_400, rel=1e-12)
    lost = of(result, "trackside_gpu_lost_seconds", **key)
    assert lost
    for category in {category for category, _ in lost}:
        assert category in COSTLY
        parts = sum(value for (own, _), value in lost.items() if own == category)
        assert parts == pytest.approx(by_category[category], rel=1e-9)
    assert sum(of(result, "trackside_gpus", cluster="demo").values()) == 64
    assert sum(of(result, "trackside_evidence_ratio", **key).values()) == pytest.approx(1)


def test_runs_are_bounded(of_everything: str) -> None:
    result = parsed(of_everything)
    runs = of(result, "trackside_run_info", cluster="demo")
    assert 0 < len(runs) <= MAX_RUNS
    assert set(runs.values()) == {1.0}
    assert {run for (run,) in of(result, "trackside_run_gpus", cluster="demo")} == {run for run, *_ in runs}


def test_gpus_that_jobs_hold_sum_to_the_allocated_gpus(of_everything: str) -> None:
    result = parsed(of_everything)
    held = of(result, "trackside_job_gpus", cluster="demo")
    assert sum(held.values()) == of(result, "trackside_gpus", cluster="demo")[("allocated",)]
    on_nodes: dict[str, float] = {}
    for (node, *_), gpus in held.items():
        on_nodes[node] = on_nodes.get(node, 0) + gpus
    assert max(on_nodes.values()) <= 8


@pytest.mark.slow
def test_ages_follow_the_clock_and_nothing_else_does(accounting: Path) -> None:
    answers = AnswerCache(accounting)
    early = scraped(answers, now=NOW).decode().splitlines()
    late = scraped(answers, now=NOW + timedelta(hours=1)).decode().splitlines()
    changed = [(a, b) for a, b in zip(early, late, strict=True) if a != b]
    assert changed
    for before, after in changed:
        assert before.startswith("trackside_input_lag_seconds{")
        assert float(after.split()[-1]) - float(before.split()[-1]) == 3600


@pytest.mark.slow
def test_a_second_scrape_reads_nothing_of_the_warehouse(everything: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = AnswerCache(everything)
    first = scraped(answers, now=NOW)
    monkeypatch.setattr(answers.pool, "reader", lambda *_: pytest.fail("it reads the warehouse again"))
    assert scraped(answers, now=NOW) == first


@pytest.mark.slow
def test_new_data_are_in_the_next_scrape(tmp_path: Path) -> None:
    root = from_accounting(tmp_path, jobs=20)
    answers = AnswerCache(root)
    before = scraped(answers, now=NOW)
    from_accounting(tmp_path, jobs=40)
    assert scraped(answers, now=NOW) != before


HOSTILE = 'west "2"\\n\nübung {a="b"} 1'
"""A cluster name with all that the text format gives a meaning to."""


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three clusters: one of which all is known, a hostile name without inventory or jobs in its last weeks, one that
    was loaded without accounting."""
    folder = tmp_path_factory.mktemp("quiet")
    dump = tiny(20)
    files = dump.write(folder)
    (folder / "few.txt").write_text(dump.accounting.replace("|tiny|", "||"))
    settings, root = Config(), folder / "w"
    with open_writer(root, verb="test", now=NOW) as writer:
        for names, requested in (
            (files, ingesting.Options()),
            ([str(folder / "few.txt")], ingesting.Options(cluster=HOSTILE, since=NOW - 40 * DAY, until=NOW - DAY)),
            ([files[2]], ingesting.Options(cluster="inventory only")),
        ):
            reports = ingesting.ingest_files(writer, settings, names, requested, now=NOW, progress=lambda *_: None)
            assert first_error(reports) is None
        computing.compute(writer, settings, now=NOW)
    return root


def _of_tiny(result: list[Sample]) -> list[Sample]:
    """Samples of that cluster; an input of several clusters counts with the first of them, so no rows of loads."""
    counted = "trackside_last_load_rows"
    return [each for each in result if each.labels.get("cluster") == "tiny" and each.name != counted]


@pytest.mark.slow
def test_quiet_week_of_one_cluster_omits_only_its_own_numbers(
    quiet: Path, of_quiet: list[Sample], tmp_path: Path
) -> None:
    result, last = of_quiet, exporter.LastScrape()
    alone = samples(from_accounting(tmp_path, jobs=20))
    assert _of_tiny(result) == _of_tiny(alone)
    given = {each.labels.get("window") for each in result if each.labels.get("cluster") == HOSTILE}
    assert {"all", "28d", "7d", "month"} <= given  # verdicts can be given, goodput cannot
    assert set(of(result, "trackside_goodput_ratio", cluster=HOSTILE, of="allocated", bound="upper")) == {("all",)}
    assert not of(result, "trackside_occupancy_ratio", cluster=HOSTILE)
    exporter.negotiated(AnswerCache(quiet), "", now=NOW, last=last)
    missing = {(each.window, each.part): each for each in last.missing if each.cluster == HOSTILE}
    assert missing["7d", "goodput"].reason == "this window has no GPU-time"
    assert "no node inventory" in missing["all", "availability"].reason
    assert not [each for each in last.missing if each.failed]
    assert of(result, "trackside_export_failures") == {("tiny",): 0.0, (HOSTILE,): 0.0}


@pytest.mark.slow
def test_a_hostile_name_comes_back_as_it_was(quiet: Path) -> None:
    answers = AnswerCache(quiet)
    for form, read in (
        ("", text_string_to_metric_families),
        ("application/openmetrics-text;version=1.0.0", openmetrics_families),
    ):
        families = read(exporter.negotiated(answers, form, now=NOW)[0].decode())
        assert HOSTILE in {each.labels.get("cluster") for family in families for each in family.samples}


@pytest.fixture(scope="module")
def of_quiet(quiet: Path) -> list[Sample]:
    return samples(quiet)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [("headlines.stored_or", "goodput", KeyError), ("exporter.lost_rows", "gpu_time", PanicException),
     ("exporter.ettr_run_rows", "runs", QueryError), ("verifying.verify", "verdict on restart", ZeroDivisionError),
     ("exporter.windows", "all its numbers", OverflowError)],
)  # fmt: skip
def test_failure_of_one_cluster_is_omitted_counted_and_reported(
    quiet: Path,
    of_quiet: list[Sample],
    monkeypatch: pytest.MonkeyPatch,
    case: tuple[str, str, type[BaseException]],
) -> None:
    broken, part, kind = case
    module, _, name = broken.partition(".")
    owner = {"headlines": headlines, "verifying": verifying, "exporter": exporter}[module]
    real = getattr(owner, name)

    def fails(*args: Any, **kwargs: Any) -> Any:
        if any(getattr(each, "cluster", None) == HOSTILE for each in args):
            raise kind("a fault")
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, name, fails)
    last = exporter.LastScrape()
    text = exporter.negotiated(AnswerCache(quiet), "", now=NOW, last=last)[0].decode()
    after = parsed(text)
    others = [each for each in of_quiet if each.labels.get("cluster") != HOSTILE]
    assert [each for each in after if each.labels.get("cluster") != HOSTILE] == others
    failed = [each for each in last.missing if each.failed]
    assert {each.cluster for each in failed} == {HOSTILE}
    assert part in {each.part for each in failed}
    assert all("a fault" in each.reason for each in failed)
    counted = of(after, "trackside_export_failures", cluster=HOSTILE)
    assert counted == ({} if name == "windows" else {(): len(failed)})
    reported, status = service.health_of(AnswerCache(quiet), None, now=NOW, scrape=last)
    assert status == 503
    assert all(output.startswith(f"metrics of {HOSTILE}: not exported: ") for output in reported["failures"])
    assert any(part in output for output in reported["failures"])
    assert {(each["cluster"], each["part"]) for each in reported["metrics"]["missing"]} >= {(HOSTILE, part)}


@pytest.mark.slow
@pytest.mark.parametrize("values", [(float("nan"), float("inf")), (None, "many")])
def test_a_number_that_is_none_is_never_exported(
    values: tuple[object, object], quiet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them for each of the two computed clusters."""
    left = iter(values)
    gpus = BY_NAME["trackside_gpus"]
    monkeypatch.setattr(exporter, "_of_gpus", lambda *_: [Exported(gpus, ("c", "idle"), cast("float", next(left)))])
    assert not of(samples(quiet), "trackside_gpus")
    assert not list(left)


@pytest.mark.slow
def test_a_scrape_that_reads_nothing_is_reported(tmp_path: Path) -> None:
    root, last = from_accounting(tmp_path, jobs=5), exporter.LastScrape()
    (root / "published" / (root / "published" / "current").readlink()).write_bytes(b"no database")
    text = exporter.negotiated(AnswerCache(root), "", now=NOW, last=last)[0].decode()
    assert "trackside_build_info" in text
    assert [(each.part, each.failed) for each in last.missing] == [("everything", True)]


@pytest.mark.parametrize("accept", ["application/openmetrics-text; version=new", "text/plain; version=", "\x00"])
def test_an_invalid_accept_header_gets_text(accept: str, tmp_path: Path) -> None:
    assert exporter.negotiated(AnswerCache(tmp_path), accept, now=NOW)[1].startswith("text/plain")


def test_without_a_warehouse_only_the_build_is_exported(tmp_path: Path) -> None:
    (only,) = samples(tmp_path / "none")
    assert only.name == "trackside_build_info"


@pytest.mark.slow
def test_last_published_numbers_stay_during_a_write(tmp_path: Path) -> None:
    root = from_accounting(tmp_path, jobs=20)
    before = samples(root)
    with open_writer(root, verb="test", now=NOW):
        assert samples(root) == before


@pytest.mark.slow
def test_loaded_but_not_computed_cluster_exports_its_sources(tmp_path: Path) -> None:
    names = {each.name for each in samples(from_accounting(tmp_path, jobs=5, compute=False))}
    of_loads = {"trackside_last_load_rows", "trackside_last_load_timestamp_seconds"}
    assert names == {"trackside_build_info", "trackside_input_lag_seconds", "trackside_rows_rejected"} | of_loads


@pytest.mark.slow
def test_claims_of_ones_own_are_judged(accounting: Path, tmp_path: Path) -> None:
    claims = tmp_path / "claims.toml"
    claims.write_text(
        '[[claim]]\nid = "o"\nmetric = "occupancy"\nquoted = "q"\nread_as = "r"\nkind = "delivered"\ntarget = 0.99\n'
        'direction = "at_least"\n'
    )
    text = scraped(AnswerCache(accounting), now=NOW, claims=WatchedClaims(claims)).decode()
    assert 'trackside_verdict{claim="o",cluster="tiny",kind="delivered",window="all"} -1.0' in text


@pytest.mark.slow
def test_openmetrics_is_sent_when_accepted(accounting: Path) -> None:
    answers = AnswerCache(accounting)
    content, kind = exporter.negotiated(answers, "application/openmetrics-text;version=1.0.0", now=NOW)
    assert kind.startswith("application/openmetrics-text")
    names = {family.name for family in openmetrics_families(content.decode())}
    assert "trackside_occupancy_ratio" in names
    assert exporter.negotiated(answers, "*/*", now=NOW)[1].startswith("text/plain")


def test_metrics_are_exported_in_families_with_their_labels() -> None:
    exported = [metric.exported for metric in METRICS if metric.exported is not None]
    assert len(exported) >= 5
    for each in exported:
        labels = BY_NAME[f"trackside_{each.family}"].labels
        assert labels == ("cluster", "window", *dict(each.labels), *(["bound"] if each.bounds else []))


def test_an_interrupt_is_no_part_that_failed(monkeypatch: pytest.MonkeyPatch, accounting: Path) -> None:
    """DuckDB reports a Ctrl-C as an error of its query; `backfill` went on for minutes."""

    def interrupted(*_: Any, **__: Any) -> Any:
        raise QueryError("Query interrupted")

    monkeypatch.setattr(exporter, "lost_rows", interrupted)
    with open_reader(accounting) as reader, pytest.raises(KeyboardInterrupt):
        exporter.exported(reader, ())
