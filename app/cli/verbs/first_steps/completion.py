"""`trackside completion SHELL`: the script that completes command lines of trackside in a shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.options import add_verb

if TYPE_CHECKING:
    import argparse

    from app.cli.options import Subparsers


EPILOG = """\
For each new shell:
  bash    source <(trackside completion bash)      in ~/.bashrc
  zsh     source <(trackside completion zsh)       in ~/.zshrc, after compinit
  fish    trackside completion fish | source       in ~/.config/fish/config.fish

Verbs, questions, options and their values are completed, and runs, jobs, nodes and clusters of the warehouse that the
command line, the environment or the configuration names. A name with characters that mean something in a shell is not
offered."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its options."""
    parser = add_verb(
        subparsers, "completion", "print the completion script of a shell", warehouse=False, config=False, epilog=EPILOG
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="bash, zsh or fish")


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    from app.cli.completion.scripts import SCRIPTS
    from app.terminal_text import echo

    echo(SCRIPTS[options.shell].rstrip("\n"))
    return 0
