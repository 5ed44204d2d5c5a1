"""`trackside manifests`: a fleet on Kubernetes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.options import add_verb, number_of, path_of

if TYPE_CHECKING:
    import argparse

    from app.cli.options import Subparsers

EPILOG = """\
A Dask scheduler, workers that grow and shrink by their CPU, a round of `trackside fleet` every quarter of an hour, and
the explorer of the lake; as users without rights, on read-only file systems. Scheduler and workers are reached by
scheduler, workers and rounds only, the explorer by whoever logs in. Image, volume, ConfigMap and Secrets are not made
here and must exist: the ConfigMap has trackside.toml and the clusters' files, the Secret trackside-secrets environment
variables, and trackside-tls the fleet's certificates (ca.crt, tls.crt, tls.key)."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its options."""
    parser = add_verb(
        subparsers,
        "manifests",
        "write Kubernetes manifests of a fleet: workers, rounds and explorer",
        warehouse=False,
        epilog=EPILOG,
        manual="how-to/kubernetes-fleet",
    )
    parser.add_argument("--output", "-o", type=path_of, metavar="FILE", help="write the file there (default: print)")
    parser.add_argument(
        "--image",
        default="trackside:latest",
        metavar="IMAGE",
        help="image of all containers (default: trackside:latest)",
    )
    parser.add_argument(
        "--claim",
        default="trackside-data",
        metavar="NAME",
        help="PersistentVolumeClaim with the clusters' directories, at /data (default: trackside-data)",
    )
    parser.add_argument(
        "--config-map",
        default="trackside-config",
        metavar="NAME",
        help="ConfigMap with trackside.toml, at /etc/trackside (default: trackside-config)",
    )
    parser.add_argument(
        "--schedule",
        default="*/15 * * * *",
        metavar="CRON",
        help="when a round begins, in UTC (default: every 15 minutes)",
    )
    parser.add_argument(
        "--round-hours",
        type=number_of("hours", least=1, most=168),
        default=12,
        metavar="N",
        help="longest round; a longer one is stopped, so that the next can begin (default: 12)",
    )
    for name, default, help_ in (
        ("--min-workers", 1, "workers while idle"),
        ("--max-workers", 4, "workers at full load"),
        ("--cpu", 2, "cores of a worker"),
    ):
        kind = number_of(name.removeprefix("--"), least=1, most=1024)
        parser.add_argument(name, type=kind, default=default, metavar="N", help=f"{help_} (default: {default})")
    parser.add_argument(
        "--memory",
        default="8Gi",
        metavar="SIZE",
        help="of a worker, for the largest cluster (default: 8Gi; see the size plan)",
    )
    parser.add_argument("--namespace", metavar="NAME", help="of all objects (default: that of kubectl)")


def run(options: argparse.Namespace) -> int:
    """Write the manifests."""
    from app import console
    from app.errors import UsageError
    from app.fleet.manifests import Deployment, as_yaml
    from app.output_file import write_file

    if options.min_workers > options.max_workers:
        raise UsageError(f"--min-workers {options.min_workers} is more than --max-workers {options.max_workers}")
    text = as_yaml(
        Deployment(
            image=options.image,
            claim=options.claim,
            config_map=options.config_map,
            namespace=options.namespace,
            schedule=options.schedule,
            round_hours=options.round_hours,
            workers=(options.min_workers, options.max_workers),
            cpu=options.cpu,
            memory=options.memory,
        )
    )
    if options.output is None:
        console.echo(text.rstrip("\n"))
    else:
        write_file(options.output, text.encode())
        console.echo(str(options.output), error=True)
    return 0
