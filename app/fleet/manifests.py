"""A fleet on Kubernetes, as manifests: scheduler, workers that grow and shrink, rounds, and the explorer of the lake.

Nothing here is secret: passwords, tokens and keys are in Secrets that the cluster's administrators make, and the
manifests only name them. Workers are scaled by their CPU (HorizontalPodAutoscaler). Dask's own scaling would not do:
it counts the tasks at the scheduler, and a round hands out no more than there are workers for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import yaml

from app.fleet.deployment_checks import require_image, require_memory, require_name, require_schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

Manifest = dict[str, Any]

CONFIG: Final = "/etc/trackside/trackside.toml"
"""Where a container finds the configuration: the ConfigMap's file of that name."""

SCHEDULER: Final = "tls://trackside-scheduler:8786"
"""Where workers and rounds find the scheduler: `[fleet] scheduler` of the configuration."""

TLS: Final = "/etc/trackside-tls"
"""Where `ca.crt`, `tls.crt` and `tls.key` of the Secret are: `tls_ca`, `tls_cert` and `tls_key` of `[fleet]`."""

SCRATCH: Final = "16Gi"
"""Most that a pod may have in its /tmp, which is on its node: copies of the lake, and what goes into it."""

AUDIT: Final = "/var/log/trackside"
"""Where the explorer may write: the folder `audit` of the volume, for `audit_file` of `[access]`."""

_USER: Final = 10001
_PORT: Final = 8786
_PAGES: Final = 8050


@dataclass(frozen=True)
class Deployment:
    """The parts of a fleet.

    Attributes:
        image: of the container, with Trackside and its extras lake and fleet.
        claim: PersistentVolumeClaim with the clusters' directories, at /data; ReadWriteMany, for all workers use it.
            Its folder `audit` is for the explorer's audit log.
        config_map: ConfigMap with `trackside.toml` and the clusters' files.
        secret: Secret whose values are environment variables: passwords and tokens that the configuration names.
        tls: Secret with the certificates of the fleet's own authority.
        namespace: of all; None: kubectl's own.
        schedule: when a round begins, as cron writes it.
        round_hours: a round that takes longer is ended, so that the next one can begin.
        workers: how many there are at least and at most.
        cpu: cores of a worker.
        memory: of a worker: that of the largest cluster.
    """

    image: str = "trackside:latest"
    claim: str = "trackside-data"
    config_map: str = "trackside-config"
    secret: str = "trackside-secrets"  # noqa: S105 - its name
    tls: str = "trackside-tls"
    namespace: str | None = None
    schedule: str = "*/15 * * * *"
    round_hours: int = 12
    workers: tuple[int, int] = (1, 4)
    cpu: int = 2
    memory: str = "8Gi"

    def __post_init__(self) -> None:
        """Refuse what Kubernetes would.

        Raises:
            UsageError: an option is out of range; what, and an example.
        """
        require_image(self.image)
        require_name("--claim", self.claim, example="trackside-data")
        require_name("--config-map", self.config_map, example="trackside-config")
        if self.namespace is not None:
            require_name("--namespace", self.namespace, example="trackside", label=True)
        require_schedule(self.schedule)
        require_memory(self.memory)


def manifests(of: Deployment) -> list[Manifest]:
    """All objects of a fleet, in the order in which they are made."""
    return [
        _service_account(of),
        _network_policy(of),
        _service(of, "scheduler", _PORT),
        _scheduler(of),
        _worker(of),
        _scaling(of),
        _round(of),
        _service(of, "explorer", _PAGES),
        _explorer(of),
    ]


def as_yaml(of: Deployment) -> str:
    """The same as a file."""
    return str(yaml.safe_dump_all(manifests(of), sort_keys=False))


# What there is ---------------------------------------------------------------------------------------------------


def _scheduler(of: Deployment) -> Manifest:
    """One at any time: workers would join one of two, and rounds the other."""
    files = ("--tls-ca-file", f"{TLS}/ca.crt", "--tls-cert", f"{TLS}/tls.crt", "--tls-key", f"{TLS}/tls.key")
    place = ("--protocol", "tls", "--host", "$(POD_IP)", "--port", str(_PORT))
    command = ["dask", "scheduler", *place, "--no-dashboard", "--dashboard-address", "127.0.0.1:0", *files]
    container = _container(of, "scheduler", command, cpu=1, memory="1Gi")
    container |= {"ports": [{"containerPort": _PORT}], "readinessProbe": _connects(_PORT)}
    made = _deployment(of, "scheduler", container, replicas=1)
    made["spec"]["strategy"] = {"type": "Recreate"}
    return made


def _worker(of: Deployment) -> Manifest:
    command = ["trackside", "worker", SCHEDULER, "--host", "$(POD_IP)", "--config", CONFIG]
    container = _container(of, "worker", command, cpu=of.cpu, memory=of.memory)
    made = _deployment(of, "worker", container, replicas=None)
    made["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    return made


def _scaling(of: Deployment) -> Manifest:
    """More workers while those that are there are busy; fewer only after half an hour, for a task takes minutes.

    A worker is busy when it uses half a core: much of a task has one thread, whatever cores were requested.
    """
    least, most = of.workers
    busy = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "500m"}},
    }
    one = {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 300}]}
    return _object(of, "autoscaling/v2", "HorizontalPodAutoscaler", "worker") | {
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": _name("worker")},
            "minReplicas": least,
            "maxReplicas": most,
            "metrics": [busy],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 1800, **one}},
        }
    }


def _round(of: Deployment) -> Manifest:
    """The coordinator: one round at a time. What one leaves, the next one does; one that hangs is ended."""
    command = ["trackside", "fleet", "--scheduler", SCHEDULER, "--config", CONFIG]
    pod = _pod(of, _container(of, "round", command, cpu=1, memory="1Gi")) | {"restartPolicy": "Never"}
    job: Manifest = {"backoffLimit": 0, "activeDeadlineSeconds": of.round_hours * 3600}
    job |= {"template": {"metadata": _labelled("round"), "spec": pod}}
    return _object(of, "batch/v1", "CronJob", "round") | {
        "spec": {
            "schedule": of.schedule,
            "timeZone": "Etc/UTC",
            "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": 600,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 3,
            "jobTemplate": {"spec": job},
        }
    }


def _explorer(of: Deployment) -> Manifest:
    """Pages, `/metrics` and `/healthz` of the lake, for people who log in: `[access]` of the configuration.

    It is ready when it listens: `/healthz` also reports missing numbers, and pages are served all the same.
    """
    command = ["trackside", "serve", "--every", "0", "--host", "0.0.0.0", "--config", CONFIG]  # noqa: S104 - the pod's own
    container = _container(of, "explorer", command, cpu=1, memory="4Gi")
    container |= {"ports": [{"containerPort": _PAGES}], "readinessProbe": _connects(_PAGES)}
    return _deployment(of, "explorer", container, replicas=1)


def _service(of: Deployment, part: str, port: int) -> Manifest:
    spec = {"selector": _labels(part), "ports": [{"port": port, "targetPort": port}]}
    return _object(of, "v1", "Service", part) | {"spec": spec}


def _service_account(of: Deployment) -> Manifest:
    """Of all: with no rights at the API server, and no token."""
    return _object(of, "v1", "ServiceAccount", "fleet") | {"automountServiceAccountToken": False}


def _network_policy(of: Deployment) -> Manifest:
    """Any client of a scheduler or a worker can run any code there: only scheduler, workers and rounds reach them."""
    ours, listening = _any_of("scheduler", "worker", "round"), _any_of("scheduler", "worker")
    spec = {"podSelector": listening, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": ours}]}]}
    return _object(of, "networking.k8s.io/v1", "NetworkPolicy", "workers") | {"spec": spec}


# What they are made of -------------------------------------------------------------------------------------------

_NAME: Final = "app.kubernetes.io/name"
_PART: Final = "app.kubernetes.io/component"


def _name(part: str) -> str:
    return f"trackside-{part}"


def _labels(part: str) -> dict[str, str]:
    return {_NAME: "trackside", _PART: part}


def _any_of(*parts: str) -> Manifest:
    """The selector of some parts of a fleet, and of nothing else that has a component of that name."""
    parts_of = {"key": _PART, "operator": "In", "values": [*parts]}
    return {"matchLabels": {_NAME: "trackside"}, "matchExpressions": [parts_of]}


def _labelled(part: str) -> Manifest:
    return {"labels": _labels(part)}


def _object(of: Deployment, version: str, kind: str, part: str) -> Manifest:
    metadata = {"name": _name(part), **_labelled(part)}
    metadata |= {} if of.namespace is None else {"namespace": of.namespace}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def _deployment(of: Deployment, part: str, container: Manifest, *, replicas: int | None) -> Manifest:
    """`replicas`: None where something else sets them."""
    spec: Manifest = {} if replicas is None else {"replicas": replicas}
    spec |= {"selector": {"matchLabels": _labels(part)}}
    spec |= {"template": {"metadata": _labelled(part), "spec": _pod(of, container)}}
    return _object(of, "apps/v1", "Deployment", part) | {"spec": spec}


def _pod(of: Deployment, container: Manifest) -> Manifest:
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    return {
        "serviceAccountName": _name("fleet"),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [each for each in _volumes(of) if each["name"] in mounted],
    }


def _volumes(of: Deployment) -> list[Manifest]:
    return [
        {"name": "data", "persistentVolumeClaim": {"claimName": of.claim}},
        {"name": "config", "configMap": {"name": of.config_map}},
        {"name": "tls", "secret": {"secretName": of.tls, "defaultMode": 0o440}},
        {"name": "scratch", "emptyDir": {"sizeLimit": SCRATCH}},
    ]


_SCRATCH: Final[Manifest] = {"name": "scratch", "mountPath": "/tmp"}  # noqa: S108 - the pod's own
_CONFIG: Final[Manifest] = {"name": "config", "mountPath": "/etc/trackside", "readOnly": True}
_TLS: Final[Manifest] = {"name": "tls", "mountPath": TLS, "readOnly": True}
_DATA: Final[Manifest] = {"name": "data", "mountPath": "/data"}
_AUDIT: Final[Manifest] = {"name": "data", "mountPath": AUDIT, "subPath": "audit"}

_MOUNTS: Final = {
    "scheduler": (_TLS,),
    "worker": (_DATA, _CONFIG, _TLS),
    "round": (_DATA, _CONFIG, _TLS),
    "explorer": (_DATA | {"readOnly": True}, _AUDIT, _CONFIG),
}
"""Mounts of each part. Only parts that need the fleet's key have it: its holder can run code in the workers."""


def _container(of: Deployment, part: str, command: Sequence[str], *, cpu: int, memory: str) -> Manifest:
    """A container that writes to its mounts and to its own /tmp, in which caches are, and nowhere else.

    It may use more than its cores where the node has them. So polars would take a thread for each core of the node, and
    DuckDB in a worker as many as polars, each with memory of its own; so the container sets their numbers.
    """
    return {
        "name": part,
        "image": of.image,
        "command": [*command],
        "env": [
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "HOME", "value": "/tmp"},  # noqa: S108 - the pod's own
            {"name": "POLARS_MAX_THREADS", "value": str(cpu)},
        ],
        "envFrom": [] if part == "scheduler" else [{"secretRef": {"name": of.secret}}],
        "resources": {"requests": {"cpu": str(cpu), "memory": memory}, "limits": {"memory": memory}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [*_MOUNTS[part], _SCRATCH],
    }


def _connects(port: int) -> Manifest:
    return {"tcpSocket": {"port": port}, "periodSeconds": 20}
