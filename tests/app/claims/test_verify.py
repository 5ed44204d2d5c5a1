"""Claims: one verdict on a period everywhere, nothing read and not applied, targets beside their own numbers."""

from __future__ import annotations

import json
import math
import shlex
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.claims import verify as verifying
from app.claims.file import read_claims, read_contract
from app.claims.stored import StoredClaims
from app.claims.targets import targets_of
from app.claims.verify import verify
from app.claims.watched import WatchedClaims
from app.compute import pipeline as computing
from app.config.settings import Config
from app.errors import ClaimsError, UsageError
from app.explorer import filters
from app.explorer.drawers import drawer
from app.explorer.pages import overview
from app.reports.sla import document as sla
from app.results import headline_text
from app.results.coverage import covered
from app.results.ettr import ettr_rows
from app.results.headlines import Headline, headline_is_of, headlines
from app.results.serving.cache import AnswerCache
from app.service import exporter
from app.times import parse_period
from app.window import Window
from dashboards.boards import fleet
from ingest.runlog import store as runlogs
from ingest.slurm import load_files as ingesting
from ingest.store.report import first_error
from metrics.catalog import METRICS
from metrics.claims.verdict import Claim
from queries.warehouse import open_reader, open_writer
from tests.app.compute.test_evidence import HOUR, START, log
from tests.support.command import trackside
from tests.support.warehouses import NOW

if TYPE_CHECKING:
    from pathlib import Path

    from metrics.statistics import Verdict


def written(value: object) -> str:
    """A value as TOML has it."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {written(each)}" for name, each in value.items()) + " }"
    if isinstance(value, list):
        return "[ " + ", ".join(map(written, value)) + " ]"
    return str(value) if isinstance(value, float) else json.dumps(value)


def entry(**fields: object) -> str:
    """A claim as it stands in a file; `fields` add to one that can be judged, None takes away."""
    known = {"id": "x", "metric": "ettr", "quoted": "q", "read_as": "r", "kind": "delivered", "target": 0.9,
             "direction": "at_least"}  # fmt: skip
    lines = [f"{name} = {written(value)}" for name, value in {**known, **fields}.items() if value is not None]
    return "\n".join(["[[claim]]", *lines, ""])


def mistakes(folder: Path, *entries: str) -> list[str]:
    """What is said of a file with these claims, by line."""
    path = folder / "claims.toml"
    path.write_text("\n".join(entries))
    with pytest.raises(ClaimsError) as caught:
        read_claims(path)
    return str(caught.value).splitlines()


def claim(metric: str, *, gpus: float | None = None, min_run_s: float = 0.0, convention: str | None = None) -> Claim:
    return Claim("x", metric, "q", "r", "delivered", 0.5, "at_least", "ratio", gpus, min_run_s, convention)


# --- one verdict -------------------------------------------------------------------------------------------


def day(number: int, month: int = 9) -> datetime:
    return datetime(2026, month, number, tzinfo=UTC)


LOADS = [(day(1), day(10)), (day(20), day(1, 10)), (day(1, 10), day(11, 10))]
"""What accounting speaks for: ten days of September are missing, and October is not over."""


@pytest.fixture(scope="module")
def claims(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A claim that every number of the warehouse below meets."""
    path = tmp_path_factory.mktemp("claims") / "claims.toml"
    path.write_text(entry(id="up", metric="mttf", target=0.001, gpus=8.0))
    return path


@pytest.fixture(scope="module")
def patchy(tmp_path_factory: pytest.TempPathFactory, claims: Path) -> Path:
    """A warehouse whose accounting has a gap."""
    folder = tmp_path_factory.mktemp("patchy")
    root, settings = folder / "w", Config(claims=claims)
    header = "JobIDRaw|Cluster|Submit|Start|End|State|NodeList|AllocTRES\n"
    with open_writer(root, verb="test", now=NOW) as writer:
        for number, (since, until) in enumerate(LOADS):
            begin = int(since.timestamp()) + 6 * 86_400
            file = folder / f"{number}.txt"
            file.write_text(f"{header}{number}|c|{begin}|{begin}|{begin + 86_400}|COMPLETED|n1|gres/gpu=8\n")
            options = ingesting.Options(since=since, until=until)
            reports = ingesting.ingest_files(writer, settings, [str(file)], options, now=NOW, progress=lambda *_: None)
            assert first_error(reports) is None
        computing.compute(writer, settings, now=NOW, verdicts=StoredClaims.read(claims).verdicts)
    return root


class Period(NamedTuple):
    """A period as exporter and report name it, and as both the command line and the explorer ask for it; what is due.

    The gap in September has no window of the exporter to itself.
    """

    window: str | None
    text: str
    asked: dict[str, str]
    share: float
    verdict: Verdict


@pytest.mark.slow
@pytest.mark.parametrize(
    "period",
    [
        Period("all", "2026-09-01..2026-10-11", {}, 30 / 40, "undetermined"),
        Period("month", "2026-10", {"since": "2026-10-01", "until": "2026-11-01"}, 10 / 31, "undetermined"),
        Period("7d", "2026-10-04..2026-10-11", {"since": "7d"}, 1.0, "supported"),
        Period(None, "2026-09", {"since": "2026-09-01", "until": "2026-10-01"}, 20 / 30, "undetermined"),
    ],
    ids=lambda period: period.text,
)
def test_a_claim_has_one_verdict_in_every_output(period: Period, patchy: Path, claims: Path) -> None:
    judged = tuple(read_claims(claims))
    reported = {}
    options = [text for name, value in period.asked.items() for text in (f"--{name}", value)]
    where = ("--warehouse", str(patchy), "--claims", str(claims))
    done = trackside("verify", *options, *where, "--format", "json")
    reported["verify"] = json.loads(done.stdout)[0]["verdict"]
    assert done.returncode == {"undetermined": 4, "supported": 0}[period.verdict]
    assert ("the data cover" in done.stderr) == (period.share < 1)
    with open_reader(patchy) as reader:
        shown = filters.resolve(filters.situation(reader), period.asked)
        reported["explorer"] = overview.gather(reader, shown.window, judged, shown.requested).judged[0].verdict
        document = sla.document(
            reader,
            Window("c", *parse_period(period.text)),
            period.text,
            read_contract(claims),
            sla.origin_of_claims(claims),
        )
    reported["report"] = document["objectives"][0]["verdict"]
    if period.window is not None:
        numbered = {value: name for name, value in exporter.VERDICT.items()}
        reported["exporter"] = numbered[exported(patchy, claims)[period.window]]
    assert reported == dict.fromkeys(reported, period.verdict)
    assert shown.whole == document["covered"]["share"] == pytest.approx(period.share)


def exported(root: Path, claims: Path) -> dict[str, float]:
    """Verdicts on the one claim by window."""
    text = exporter.negotiated(AnswerCache(root), "", now=NOW, claims=WatchedClaims(claims))[0].decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {each.labels["window"]: each.value for each in samples if each.name == "trackside_verdict"}


def test_the_verdicts_that_compute_keeps_are_those_of_verify(patchy: Path) -> None:
    with open_reader(patchy) as reader:
        kept = reader.table("verdicts").to_dicts()
    assert [(row["claim"], row["verdict"]) for row in kept] == [("up", "undetermined")]
    assert kept[0]["needed"] == "data for the whole period: they cover 75.0% of it"


@pytest.mark.slow
def test_printed_verify_command_reproduces_the_reported_verdict(patchy: Path, claims: Path) -> None:
    with open_reader(patchy) as reader:
        window, origin = Window("c", *parse_period("2026-10")), sla.origin_of_claims(claims)
        reported = sla.document(reader, window, "2026-10", read_contract(claims), origin)
    (command,) = (each["command"] for each in reported["reproduce"] if each["what"] == "the verdicts")
    done = trackside(*shlex.split(command)[1:], "--format", "json", "--warehouse", str(patchy), cwd=claims.parent)
    (row,) = json.loads(done.stdout)
    (objective,) = reported["objectives"]
    names = ("verdict", "needed", "value", "low", "n")
    assert {name: row[name] for name in names} == {name: objective[name] for name in names}
    assert row["verdict"] == "undetermined"


@pytest.mark.slow
def test_time_left_out_by_compute_is_not_covered(tmp_path: Path) -> None:
    file = tmp_path / "sacct.txt"
    begin = int(day(2).timestamp())
    file.write_text(
        "JobIDRaw|Cluster|Submit|Start|End|State|NodeList|AllocTRES\n"
        f"1|c|{begin}|{begin}|{begin + 20 * 86_400}|COMPLETED|n1|gres/gpu=8\n"
    )
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        options = ingesting.Options(since=day(1), until=day(1, 10))
        ingesting.ingest_files(writer, Config(), [str(file)], options, now=NOW, progress=lambda *_: None)
        computing.compute(writer, Config(), now=NOW, since=day(16))
    with open_reader(tmp_path / "w") as reader:
        result = covered(reader, Window("c", *parse_period("2026-09")))
    assert result.share == 0.5
    assert result.gaps == ((day(1), day(16)),)
    assert result.window == Window("c", day(16), day(1, 10))


def test_a_capability_is_judged_on_the_existing_data(patchy: Path, tmp_path: Path) -> None:
    path = tmp_path / "claims.toml"
    path.write_text(entry(metric="mttf", kind="capability", target=0.1, gpus=8.0))
    with open_reader(patchy) as reader:
        (judged,) = verifying.verify(reader, Window("c", *parse_period("2026-09")), read_claims(path))
    assert judged.verdict == "supported"  # two days without a failure; 3.69 x 0.1 are needed


@pytest.mark.parametrize(("zone", "begins"), [("Europe/Berlin", "2026-09-23T22:00"), (None, "2026-09-24T00:00")])
@pytest.mark.parametrize("window", ["2026-09-24", "2026-09-24..2026-09-25"])
def test_window_of_a_claim_is_in_the_contracts_zone(
    patchy: Path, tmp_path: Path, window: str, zone: str | None, begins: str
) -> None:
    path = tmp_path / "claims.toml"
    path.write_text((f'contract.zone = "{zone}"\n' if zone else "") + entry(metric="mttf", gpus=8.0, window=window))
    contract = read_contract(path)
    with open_reader(patchy) as reader:
        (judged,) = verifying.verify(reader, Window("c", day(1), day(2)), contract.claims)
    expected = datetime.fromisoformat(begins).replace(tzinfo=UTC)
    assert (judged.since, judged.until) == (expected, expected + timedelta(days=1))
    assert parse_period(window, contract.time_zone) == (judged.since, judged.until)


def test_without_data_nothing_is_judged(patchy: Path) -> None:
    with open_reader(patchy) as reader, pytest.raises(UsageError, match="the data cover 2026-09-01"):
        verifying.verify(reader, Window("c", *parse_period("2026-12")), [])


SCALING = {"metric": "scaling_efficiency", "gpus": 8.0, "base_gpus": 4.0, "scaling": "weak"}

# --- the file ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "output"),
    [
        (
            {"metric": "mttf"},
            "claim 1.gpus: an MTTF holds for one job size: add the number of GPUs",
        ),
        ({"metric": "mttf", "gpus": 0.0}, "claim 1.gpus: "),
        ({"metric": "time_to_train", "target": 60.0}, "claim 1.gpus: a time to train holds for one job size"),
        ({"metric": "time_to_train", "gpus": 8.0, "target": 60.0, "scaling": "weak"}, "claim 1.scaling: it applies to"),
        ({"metric": "time_to_train", "gpus": 8.0, "target": 60.0, "tokens": 0.0}, "claim 1.tokens: "),
        (
            {"metric": "time_to_train", "gpus": 8.0, "target": 60.0, "kind": "capability", "score": "mlperf"},
            'claim 1: score = "mlperf" is the result of the runs that there are: kind = "delivered"',
        ),
        ({"metric": "scaling_efficiency", "gpus": 8.0, "scaling": "weak"}, "claim 1.base_gpus: add the number of GPUs"),
        ({"metric": "scaling_efficiency", "gpus": 8.0, "base_gpus": 4.0}, "claim 1.scaling: add scaling = "),
        ({**SCALING, "base_gpus": 8.0}, "claim 1: base_gpus 8 is not below gpus 8"),
        ({**SCALING, "basis": "time"}, "claim 1: weak scaling has no common target"),
        ({**SCALING, "tokens": 1e9}, "claim 1: tokens are the target of a time"),
        ({**SCALING, "target": 90.0}, "claim 1.target: the target of scaling_efficiency is a ratio between 0 and 1"),
        ({**SCALING, "scope": {"nodes": "n1"}}, "claim 1.scope.nodes: scaling_efficiency cannot be limited by nodes"),
        (
            {**SCALING, "exclusions": [{"reason": "x", "from": "2026-09-01", "until": "2026-10-01"}]},
            "claim 1.exclusions.1.reason: scaling_efficiency is of whole runs",
        ),
        ({"metric": "mttf", "gpus": math.inf}, "claim 1.gpus: "),
        (
            {"gpus": 8.0},
            "claim 1.gpus: it applies to claims on mttf and scaling_efficiency and time_to_train and has",
        ),
        ({"metric": "occupancy", "min_run_hours": 24.0}, "claim 1.min_run_hours: it applies to claims on ettr and "),
        ({"min_run_hours": math.nan}, "claim 1.min_run_hours: "),
        ({"min_run_hours": math.inf}, "claim 1.min_run_hours: "),
        ({"flop_convention": "causal_half"}, "claim 1.flop_convention: it applies to claims on mfu and "),
        ({"target": 99.0}, "claim 1.target: the target of ettr is a ratio between 0 and 1; 99 % is 0.99"),
        ({"target": math.nan}, "claim 1.target: the target of ettr is a ratio between 0 and 1, not nan"),
        ({"target": -0.1}, "claim 1.target: the target of ettr is a ratio between 0 and 1, not -0.1"),
        ({"metric": "mttf", "gpus": 8.0, "target": math.nan}, "claim 1.target: the target of mttf is a number of days"),
        ({"metric": "mttf", "gpus": 8.0, "target": math.inf}, "claim 1.target: the target of mttf is a number of days"),
        ({"metric": "time_to_job_restart", "target": 0.0}, "claim 1.target: the target of time_to_job_restart is a "),
        ({"id": ""}, "claim 1.id: "),
        ({"failure_class": "unplanned"}, "claim 1.failure_class: it applies to claims on mttf and "),
        ({"population": "bucket"}, "claim 1.population: it applies to claims on mttf and "),
        ({"window": "October"}, "claim 1.window: 'October' is not a period"),
        ({"window": "999999d"}, "claim 1.window: '999999d' is longer than 36,500 days"),
        (
            {"scope": {"nodes": "n1"}},
            "claim 1.scope.nodes: ettr cannot be limited by nodes; its scope may name partition",
        ),
        ({"metric": "occupancy", "scope": {"user": "u"}}, "claim 1.scope.user: occupancy cannot be limited by user"),
        ({"metric": "occupancy", "scope": {"nodes": "n[3-1]"}}, "claim 1.scope.nodes: "),
        (
            {"metric": "occupancy", "scope": {"nodes": "n[1-3]*"}},
            "claim 1.scope.nodes: 'n[1-3]*' has both brackets",
        ),
        ({"scope": {"gpus_min": 8, "gpus_max": 4}}, "claim 1.scope: gpus_min 8 is above gpus_max 4"),
        ({"scope": {"rack": "r"}}, "claim 1.scope.rack: no such key; known here: partition, account, user, nodes"),
        ({"metrics": "mfu"}, "claim 1.metrics: no such key; did you mean metric?"),
        (
            {"exclusions": [{"reason": "x", "form": "2026-09-01", "from": "2026-09-01", "until": "2026-10-01"}]},
            "claim 1.exclusions.1.form: no such key; did you mean from?",
        ),
        ({"metric": "mtff"}, "claim 1.metric: there is no metric 'mtff'; did you mean mttf?; there are: "),
        ({"metric": 7}, "claim 1.metric: no such choice; allowed: "),
        ({"target": True}, "claim 1.target: true is not a number"),
        ({"target": "96 %"}, "claim 1.target: not a number; allowed: a number"),
        ({"metric": "mttf", "gpus": True}, "claim 1.gpus: true is not a number"),
        ({"kind": "delivred"}, "claim 1.kind: no such choice; allowed: 'delivered' or 'capability'"),
        ({"exclusions": [{"reason": "x"}]}, "claim 1.exclusions.1: from and until are missing (or category"),
        (
            {"exclusions": [{"reason": "x", "from": "soon", "until": "2026-10-01"}]},
            "claim 1.exclusions.1.from: 'soon' is ",
        ),
        (
            {"exclusions": [{"from": "2026-09-01", "until": "2026-10-01"}]},
            "claim 1.exclusions.1.reason: missing; allowed: text in quotes",
        ),
        (
            {"exclusions": [{"reason": "x", "category": "maintenance"}]},
            "claim 1.exclusions.1.category: ettr can exclude",
        ),
        (
            {"metric": "mfu", "exclusions": [{"reason": "x", "category": "lost"}]},
            "claim 1.exclusions.1.category: mfu is ",
        ),
        ({"metric": "ettr", "dtype": "bf16"}, "claim 1.dtype: it applies to claims on mfu"),
        ({"metric": "mfu", "dtype": "fp8+bf16"}, "claim 1.dtype: 'fp8+bf16' is no data type with a dense peak"),
        (
            {"metric": "mfu", "dtype": "int4"},
            "claim 1.dtype: 'int4' is no data type with a dense peak; there are: bf16",
        ),
    ],
)
def test_a_field_that_means_nothing_is_refused(fields: dict[str, Any], output: str, tmp_path: Path) -> None:
    first, only = mistakes(tmp_path, entry(**{"metric": "ettr", **fields}))
    assert first == f"{tmp_path / 'claims.toml'} has 1 mistake:"
    assert only.strip().startswith(output.strip())


@pytest.mark.parametrize(
    "fields",
    [
        {"metric": "mttf", "gpus": 0.5, "target": 3.66},
        {"metric": "ettr_without_initial_queue", "min_run_hours": 24.0},
        {"metric": "mfu", "flop_convention": "causal_half"},
        {"metric": "mfu", "dtype": "FP8"},
        {"metric": "time_to_job_restart", "target": 90.0, "direction": "at_most"},
        {"metric": "availability", "target": 1.0},
        {"metric": "mttf", "gpus": 8.0, "failure_class": "unplanned", "population": "bucket"},
        {"window": "2026-10", "scope": {"user": "u", "gpus_min": 8}},
        {"metric": "availability", "exclusions": [{"category": "maintenance", "reason": "agreed"}]},
        {"exclusions": [{"from": "2026-10-05T08:00", "until": "2026-10-06", "nodes": "n[1-2],m*", "reason": "agreed"}]},
    ],
)
def test_a_field_is_taken_where_it_applies(fields: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "claims.toml"
    path.write_text(entry(**fields))
    (result,) = read_claims(path)
    assert result.target == fields.get("target", 0.9)
    assert (result.gpus, result.flop_convention) == (fields.get("gpus"), fields.get("flop_convention"))
    assert result.min_run_s == fields.get("min_run_hours", 0.0) * 3600


def test_duplicate_claim_ids_are_reported_with_other_mistakes(tmp_path: Path) -> None:
    _, first, second, third = mistakes(tmp_path, entry(), entry(target=2.0, gpus=8.0), entry(id="y"), entry(id="z"))
    assert first == "  claim 2.id: an earlier claim has the id 'x', too; an id names one verdict, so change one of them"
    assert "claim 2.target" in second
    assert "claim 2.gpus" in third


# --- a target beside its own number --------------------------------------------------------------------------

MFU = Headline("mfu", "MFU", "ratio", flop_convention="palm_full")
MTTF = Headline("mttf", "MTTF", "d", gpus=1024.0)
ETTR = Headline("ettr", "ETTR", "ratio")


@pytest.mark.parametrize(
    ("of", "headline", "judged"),
    [
        (claim("mfu"), MFU, None),
        (claim("mfu", convention="palm_full"), MFU, None),
        (claim("mfu", convention="causal_half"), MFU, "by the convention causal_half"),
        (claim("mttf", gpus=1024.0), MTTF, None),
        (claim("mttf", gpus=8.0), MTTF, "at 8 GPUs"),
        (claim("ettr"), ETTR, None),
        (claim("ettr", min_run_s=86_400.0), ETTR, "in runs of 24 h or more"),
    ],
)
def test_claim_on_another_convention_names_the_number_it_judges(
    of: Claim, headline: Headline, judged: str | None
) -> None:
    assert headline_is_of(of, headline) == (judged is None)
    assert headline_text.judged_as(of, headline) == judged
    assert targets_of([of], "palm_full") == ({of.metric: (0.5,)} if judged is None else {})


def test_a_headline_of_another_metric_is_not_meant() -> None:
    assert not headline_is_of(claim("ettr_without_initial_queue"), ETTR)


def test_each_judged_metric_has_a_panel_with_its_threshold() -> None:
    judged = [metric.name for metric in METRICS if metric.judged]
    assert len(judged) >= 5
    for metric in judged:
        assert fleet.fleet({metric: (0.5,)}) != fleet.fleet({}), metric


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two jobs of 8 GPUs that ran for an hour; the one with a log had waited for an hour."""
    folder = tmp_path_factory.mktemp("logged")
    line = "{0}|{0}|c|alice|lab|main|train|{1}|0:0|{2}|{2}|{3}|{4}|1|cpu=64,gres/gpu=8,node=1|{5}\n"
    (folder / "sacct.txt").write_text(
        "JobID|JobIDRaw|Cluster|User|Account|Partition|JobName|State|ExitCode|Submit|Eligible|Start|End|NNodes|"
        "AllocTRES|NodeList\n"
        + line.format(7, "COMPLETED", START - HOUR, START, START + HOUR, "n1")
        + line.format(8, "COMPLETED", START, START, START + HOUR, "n2")
    )
    (folder / "run.jsonl").write_text(log())
    root = folder / "w"
    with open_writer(root, verb="test", now=NOW) as writer:
        reports = ingesting.ingest_files(
            writer, Config(), [str(folder / "sacct.txt")], ingesting.Options(), now=NOW, progress=lambda *_: None
        )
        reports += runlogs.ingest_files(
            writer, [str(folder / "run.jsonl")], cluster="c", now=NOW, progress=lambda *_: None
        )
        assert first_error(reports) is None
        computing.compute(writer, Config(), now=NOW)
    return root


def test_an_mfu_is_judged_over_the_peak_that_the_claim_names(logged: Path, tmp_path: Path) -> None:
    path = tmp_path / "claims.toml"
    scope = {"gpus_min": 8}
    path.write_text(
        "\n".join(
            [
                entry(id="of the log", metric="mfu"),
                *(entry(id=dtype, metric="mfu", dtype=dtype) for dtype in ("bf16", "fp8")),
                *(entry(id=f"{dtype} in a scope", metric="mfu", dtype=dtype, scope=scope) for dtype in ("bf16", "fp8")),
            ]
        )
    )
    with open_reader(logged) as reader:
        window = filters.resolve(filters.situation(reader), {}).window
        values = [each.measured.value or 0.0 for each in verify(reader, window, read_claims(path))]
    of_log, bf16, fp8, *scoped = values
    assert of_log == bf16 > 0
    assert fp8 / bf16 == pytest.approx(989 / 1979)
    assert scoped == [bf16, fp8]


@pytest.mark.slow
def test_a_report_gives_the_parts_of_the_number_that_was_judged(logged: Path, tmp_path: Path) -> None:
    path = tmp_path / "claims.toml"
    conventions = (None, "palm_full", "causal_half")
    texts = [entry(id=f"m{n}", metric="mfu", flop_convention=each) for n, each in enumerate(conventions)]
    path.write_text(
        "\n".join([*texts, entry(id="e"), entry(id="l", min_run_hours=0.5), entry(id="n", min_run_hours=2.0)])
    )
    period = "2026-09-21T14..2026-09-21T15"
    with open_reader(logged) as reader:
        asked = Window("c", *parse_period(period))
        reported = sla.document(reader, asked, period, read_contract(path), sla.origin_of_claims(path))
    *mfu, ettr, long, none = reported["objectives"]
    assert len({each["value"] for each in mfu}) == 2
    assert [each["flop_convention"] for each in mfu] == [*conventions]
    for each in mfu:
        assert each["numerator"] / each["denominator"] == each["value"]
        assert each["evidence"] == {"log": 1.0}
    for each in (ettr, long):
        assert each["numerator"] / each["denominator"] == each["low"]
    assert none["denominator"] is None


def test_card_shows_the_judged_number_and_no_other_target(logged: Path) -> None:
    of = claim("mfu", convention="causal_half")
    with open_reader(logged) as reader:
        shown = filters.resolve(filters.situation(reader), {})
        result = overview.gather(reader, shown.window, (of,), shown.requested)
    (judged,) = result.judged
    headline = overview.headline_of(result, "mfu")
    assert judged.measured.value != headline.value
    card = str(overview._card(headline, result.judged))  # noqa: SLF001 - the page has many more parts
    assert f"judged: {headline_text.judged_value(judged)} by the convention causal_half" in card
    assert "span-target" not in card
    assert "by the convention causal_half" in str(drawer.layout(headline, result.judged, {}, shown))


def test_headlines_state_their_denominator(logged: Path) -> None:
    with open_reader(logged) as reader:
        window = filters.resolve(filters.situation(reader), {}).window
        result = {each.metric: each for each in headlines(reader, window, gpus=512.0)}
    assert result["mttf"].gpus == 512
    assert result["mfu"].flop_convention == "palm_full"
    assert result["ettr"].flop_convention is None


# --- evidence ------------------------------------------------------------------------------------------------


def test_ettr_evidence_shares_use_each_forms_own_denominator(logged: Path) -> None:
    """Waiting is known from accounting, so each form divides by its own denominator."""
    with open_reader(logged) as reader:
        window = Window("c", datetime.fromtimestamp(START - HOUR, UTC), datetime.fromtimestamp(START + HOUR, UTC))
        rows = {row["metric"]: row for row in ettr_rows(reader, window).to_dicts()}
    hours = 8 * HOUR
    assert rows["ettr"]["denominator"] == 3 * hours  # one logged, one not, one waited for
    assert rows["ettr"]["evidence_log"] == pytest.approx(1 / 3)
    assert rows["ettr"]["evidence_accounting"] == pytest.approx(2 / 3)
    assert rows["ettr_without_initial_queue"]["denominator"] == 2 * hours
    assert rows["ettr_without_initial_queue"]["evidence_log"] == pytest.approx(1 / 2)
    assert rows["ettr_without_initial_queue"]["evidence_accounting"] == pytest.approx(1 / 2)
    assert rows["ettr_imputed"]["evidence_assumed"] == 1
