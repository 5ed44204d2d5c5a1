"""`trackside worker`: join a Dask scheduler, and do the clusters of fleets that it hands out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.options import add_verb, number_of

if TYPE_CHECKING:
    import argparse

    from app.cli.options import Subparsers

EPILOG = """\
A scheduler is Dask's own, on one machine of the fleet; it runs any code of whoever reaches it, so give it certificates:
  dask scheduler --protocol tls --host ADDRESS --port 8786 --no-dashboard --dashboard-address 127.0.0.1:0 \\
      --tls-ca-file CA --tls-cert CERT --tls-key KEY
Then, on each machine that works, and where the fleet is:
  trackside worker tls://ADDRESS:8786 --host ADDRESS_OF_THIS_MACHINE
  trackside fleet --scheduler tls://ADDRESS:8786
Certificates of workers and of `trackside fleet` are in the configuration: tls_ca, tls_cert, tls_key under [fleet]."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its options."""
    parser = add_verb(
        subparsers,
        "worker",
        "join a Dask scheduler, and bring up to date the clusters of fleets that it hands out",
        warehouse=False,
        epilog=EPILOG,
        manual="how-to/past-one-machine",
    )
    parser.set_defaults(kept="what was committed is kept, and another worker does the rest")
    parser.add_argument(
        "scheduler",
        metavar="SCHEDULER",
        nargs="?",
        help="its address, such as tls://scheduler.example.org:8786 (default: [fleet] scheduler)",
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="address of this machine at which scheduler and workers reach it (default: 127.0.0.1, this machine only)",
    )
    parser.add_argument(
        "--processes",
        type=number_of("processes", least=1, most=1024),
        default=1,
        metavar="N",
        help="worker processes, which share the cores; each does one cluster at a time (default: 1)",
    )
    parser.add_argument(
        "--without-tls",
        action="store_true",
        help="reach, and be reached by, other machines without TLS: whoever can connect can run any code",
    )


def run(options: argparse.Namespace) -> int:
    """Work until the scheduler ends, or a signal comes."""
    from app import console
    from app.config import settings as config
    from app.fleet.join import join
    from app.fleet.scheduler import requested

    settings = config.load(options.config)
    address = requested(options.scheduler, settings.fleet)

    def started() -> None:
        if not options.quiet:
            console.echo(f"working for {address} with {options.processes} process(es) (stop: Ctrl-C)", error=True)

    join(
        address,
        settings.fleet,
        host=options.host,
        processes=options.processes,
        without_tls=options.without_tls,
        started=started,
    )
    return 0
