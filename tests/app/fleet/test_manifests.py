"""A fleet's manifests: held against Kubernetes' published models, and against what a careful cluster refuses."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from app.cli.main import build_parser
from app.config.settings import load, parse
from app.fleet.manifests import AUDIT, CONFIG, SCHEDULER, SCRATCH, TLS, Deployment, as_yaml
from app.fleet.scheduler import requested
from app.service import server
from tests.support.command import ROOT, trackside
from tests.support.kubernetes.models import MODELS, faults

if TYPE_CHECKING:
    from pathlib import Path

MANUAL = ROOT / "app" / "docs" / "how-to" / "kubernetes-fleet.md"
MADE = Deployment(
    image="registry.example/trackside:1", namespace="ml", workers=(2, 9), cpu=3, memory="12Gi", round_hours=5
)
OBJECTS: list[dict[str, Any]] = list(yaml.safe_load_all(as_yaml(MADE)))


def template_of(one: dict[str, Any]) -> dict[str, Any] | None:
    spec = one.get("spec", {})
    template = spec["jobTemplate"]["spec"]["template"] if one["kind"] == "CronJob" else spec.get("template")
    return template if isinstance(template, dict) else None


TEMPLATES = {one["metadata"]["name"]: found for one in OBJECTS if (found := template_of(one))}


def by_kind(kind: str) -> list[dict[str, Any]]:
    return [one for one in OBJECTS if one["kind"] == kind]


def test_manifests_hold_what_the_api_has() -> None:
    held = [one for one in OBJECTS if one["kind"] in MODELS]
    assert {one["kind"] for one in held} == {"ServiceAccount", "Service", "CronJob", "HorizontalPodAutoscaler"}
    assert [fault for one in held for fault in faults(one)] == []
    for name, template in TEMPLATES.items():
        assert faults({"apiVersion": "v1", "kind": "Pod", **template}) == [], name
    assert {one["kind"] for one in OBJECTS} - set(MODELS) == {"Deployment", "NetworkPolicy"}


def test_manifests_of_a_misspelt_field_are_refused() -> None:
    """The check itself."""
    template = {"metadata": {}, "spec": {"containers": [{"name": "a", "imagePullPolice": "Always"}]}}
    assert faults({"apiVersion": "v1", "kind": "Pod", **template}) == [
        "Pod.spec.containers[0].imagePullPolice is no field"
    ]


@pytest.mark.parametrize("name", TEMPLATES)
def test_pods_keep_to_the_restricted_standard(name: str) -> None:
    """Kubernetes' Pod Security Standards, profile `restricted`; and a read-only root, and no token of the API."""
    pod = TEMPLATES[name]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"memory"} <= container["resources"]["limits"].keys()
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}


def test_manifests_name_secrets_and_hold_none() -> None:
    assert by_kind("Secret") == []
    for template in TEMPLATES.values():
        (container,) = template["spec"]["containers"]
        assert all("value" not in each or each["name"] in {"HOME", "POLARS_MAX_THREADS"} for each in container["env"])
        secrets = [] if container["name"] == "scheduler" else [{"secretRef": {"name": "trackside-secrets"}}]
        assert container["envFrom"] == secrets


def test_explorer_has_no_key_and_writes_its_log_alone() -> None:
    """It answers whoever reaches it, so what may run code in the workers is not there."""
    mounts = {name: template["spec"]["containers"][0]["volumeMounts"] for name, template in TEMPLATES.items()}
    with_key = {name for name, its in mounts.items() if "tls" in {mount["name"] for mount in its}}
    assert with_key == {"trackside-scheduler", "trackside-worker", "trackside-round"}
    writable = {
        each["mountPath"]: each.get("subPath") for each in mounts["trackside-explorer"] if "readOnly" not in each
    }
    assert writable == {AUDIT: "audit", "/tmp": None}


def test_scratch_on_the_node_is_limited() -> None:
    for template in TEMPLATES.values():
        (scratch,) = [each for each in template["spec"]["volumes"] if each["name"] == "scratch"]
        assert scratch["emptyDir"] == {"sizeLimit": SCRATCH}


def test_selectors_choose_the_pods_that_are_meant() -> None:
    labels = {name: template["metadata"]["labels"] for name, template in TEMPLATES.items()}
    for one in by_kind("Deployment"):
        assert one["spec"]["selector"]["matchLabels"].items() <= labels[one["metadata"]["name"]].items()
    for one in by_kind("Service"):
        chosen = [name for name, its in labels.items() if one["spec"]["selector"].items() <= its.items()]
        assert chosen == [one["metadata"]["name"]]
    assert [one["metadata"]["name"] for one in by_kind("Service")] == ["trackside-scheduler", "trackside-explorer"]
    (policy,) = by_kind("NetworkPolicy")
    (rule,) = policy["spec"]["ingress"]
    (who,) = rule["from"]
    part = "app.kubernetes.io/component"
    selectors = policy["spec"]["podSelector"], who["podSelector"]
    assert [each["matchExpressions"][0]["values"] for each in selectors] == [
        ["scheduler", "worker"],
        ["scheduler", "worker", "round"],
    ]
    # Another program's pods have components of these names, too.
    assert all(each["matchLabels"] == {"app.kubernetes.io/name": "trackside"} for each in selectors)
    assert {its[part] for its in labels.values()} == {"scheduler", "worker", "round", "explorer"}


def test_workers_grow_and_shrink_between_the_bounds() -> None:
    (scaling,) = by_kind("HorizontalPodAutoscaler")
    target = scaling["spec"]["scaleTargetRef"]
    (worker,) = [one for one in by_kind("Deployment") if one["metadata"]["name"] == target["name"]]
    assert (scaling["spec"]["minReplicas"], scaling["spec"]["maxReplicas"]) == (2, 9)
    assert "replicas" not in worker["spec"]  # applying the manifests again must not undo the scaling
    (container,) = worker["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "3", "memory": "12Gi"}


def test_worker_with_one_busy_thread_counts_as_busy() -> None:
    """Whatever its cores: of three, one is 33 %."""
    (scaling,) = by_kind("HorizontalPodAutoscaler")
    (metric,) = scaling["spec"]["metrics"]
    assert metric["resource"] == {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "500m"}}


def test_containers_take_the_threads_of_their_cores() -> None:
    """Without a limit polars would take a thread for each core of the node."""
    for template in TEMPLATES.values():
        (container,) = template["spec"]["containers"]
        threads = {each["name"]: each.get("value") for each in container["env"]}["POLARS_MAX_THREADS"]
        assert threads == container["resources"]["requests"]["cpu"]


def test_round_that_hangs_is_ended() -> None:
    (job,) = by_kind("CronJob")
    assert job["spec"]["concurrencyPolicy"] == "Forbid"
    assert job["spec"]["jobTemplate"]["spec"]["activeDeadlineSeconds"] == 5 * 3600
    (made,) = (one for one in yaml.safe_load_all(trackside("manifests").stdout) if one["kind"] == "CronJob")
    assert made["spec"]["jobTemplate"]["spec"]["activeDeadlineSeconds"] == 12 * 3600


def test_there_is_one_scheduler_at_any_time() -> None:
    """During an update too, else workers join one of two, and rounds the other."""
    (scheduler,) = [one for one in by_kind("Deployment") if one["metadata"]["name"] == "trackside-scheduler"]
    assert (scheduler["spec"]["replicas"], scheduler["spec"]["strategy"]) == (1, {"type": "Recreate"})


@pytest.mark.parametrize("name", ["trackside-worker", "trackside-round", "trackside-explorer"])
def test_commands_are_those_of_this_trackside(name: str) -> None:
    program, *words = TEMPLATES[name]["spec"]["containers"][0]["command"]
    assert program == "trackside"
    options = build_parser().parse_args(words)
    assert str(options.config) == CONFIG


def test_configuration_of_the_manual_fits_the_manifests() -> None:
    settings = parse(tomllib.loads(toml_of_the_manual()), origin="the page")
    assert requested(None, settings.fleet) == SCHEDULER
    files = [settings.fleet.tls_ca, settings.fleet.tls_cert, settings.fleet.tls_key]
    assert [str(file) for file in files] == [f"{TLS}/ca.crt", f"{TLS}/tls.crt", f"{TLS}/tls.key"]
    assert settings.engine.threads is not None


def test_explorer_of_the_manual_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its folder for the log elsewhere; up to where it would listen."""
    text = toml_of_the_manual()
    assert AUDIT in text
    (tmp_path / "trackside.toml").write_text(text.replace(AUDIT, str(tmp_path)))
    monkeypatch.setenv("TRACKSIDE_OIDC_SECRET", "x")
    settings = load(tmp_path / "trackside.toml")
    assert server.address(settings, host="0.0.0.0")[0] == "0.0.0.0"
    server.make_application(settings.warehouse, settings, trusted=True)
    assert (tmp_path / "audit.jsonl").exists()


def test_manual_makes_each_object_that_is_named() -> None:
    """In the namespace of the manifests, too."""
    made = [line for line in MANUAL.read_text().splitlines() if line.startswith("kubectl") and " create " in line]
    names = Deployment()
    for kind, name in (
        ("configmap", names.config_map),
        ("secret generic", names.secret),
        ("secret generic", names.tls),
    ):
        assert any(f"-n trackside create {kind} {name} --from" in line for line in made), name
    assert "trackside manifests --namespace trackside " in MANUAL.read_text()


def toml_of_the_manual() -> str:
    return MANUAL.read_text().split("```toml")[1].split("```")[0]


def test_manifests_are_written_to_a_file(tmp_path: Path) -> None:
    printed = trackside("manifests", "--max-workers", "9", "--min-workers", "2")
    assert (printed.returncode, len(list(yaml.safe_load_all(printed.stdout)))) == (0, len(OBJECTS))
    written = trackside("manifests", "--max-workers", "9", "--min-workers", "2", "-o", str(tmp_path / "fleet.yaml"))
    assert (written.returncode, (tmp_path / "fleet.yaml").read_text()) == (0, printed.stdout)
    refused = trackside("manifests", "--min-workers", "9")
    assert refused.returncode != 0
    assert "--min-workers 9 is more than --max-workers 4" in refused.stderr


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("--memory", "24", "such as 8Gi"),
        ("--memory", "24GB", "such as 8Gi"),
        ("--memory", "8gi", "such as 8Gi"),
        ("--memory", "", "such as 8Gi"),
        ("--memory", "511Mi", "too little for a worker: at least 512Mi"),
        ("--schedule", "hourly", "has 1 fields, not the five of cron, such as */15"),
        ("--schedule", "*/15 * * * * *", "has 6 fields"),
        ("--schedule", "60 * * * *", "'60' is no minute of cron (0 to 59)"),
        ("--schedule", "0 mon * * *", "'mon' is no hour of cron"),
        ("--schedule", "0 1,,2 * * *", "'1,,2' is no hour of cron"),
        ("--schedule", "0 5-1 * * *", "'5-1' is no hour of cron"),
        ("--schedule", "*/0 * * * *", "'*/0' is no minute of cron"),
        ("--image", "", "is no image: write it like registry"),
        ("--image", "a b", "is no image"),
        ("--claim", "Data", "such as trackside-data"),
        ("--claim", "a" * 254, "at most 253 lower-case letters"),
        ("--config-map", "config_map", "such as trackside-config"),
        ("--config-map", "", "such as trackside-config"),
        ("--namespace", "ml.teams", "such as trackside"),
        ("--namespace", "-ml", "at most 63 lower-case letters"),
    ],
)
def test_option_that_kubernetes_refuses_is_refused_here(option: str, value: str, why: str) -> None:
    refused = trackside("manifests", f"{option}={value}")
    assert (refused.returncode != 0, refused.stdout) == (True, "")
    assert option in refused.stderr
    assert why in refused.stderr


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--memory", "512Mi"),
        ("--memory", "1.5Gi"),
        ("--memory", "600M"),
        ("--schedule", "0,30 1-5 * JAN-MAR/2 mon-fri"),
        ("--image", "registry.example:5000/a/trackside@sha256:" + "0" * 64),
        ("--claim", "data.of-2"),
        ("--config-map", "c"),
        ("--namespace", "ml-2"),
    ],
)
def test_option_that_kubernetes_takes_is_written(option: str, value: str) -> None:
    written = trackside("manifests", f"{option}={value}")
    assert (written.returncode, written.stderr) == (0, "")
    assert value in written.stdout
