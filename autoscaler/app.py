"""The command line: the commands of all packages, in the order of `--help`."""

from typing import Annotated

import typer

from autoscaler import __version__
from autoscaler.cli import commands as cli
from autoscaler.cli.command import PurposeGroup
from autoscaler.demo import commands as demo
from autoscaler.lab import commands as lab
from autoscaler.migrate import commands as migrate

app = typer.Typer(
    name="autoscaler",
    cls=PurposeGroup,
    help="Scale Kubernetes workloads on Prometheus metrics exactly as the "
    "HorizontalPodAutoscaler would, and explain every decision.",
    no_args_is_help=True,
    rich_markup_mode=None,  # Importing rich is too slow for --help.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(requested: bool) -> None:  # noqa: FBT001 - the signature of a typer callback
    if requested:
        typer.echo(f"autoscaler {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Define the options before a command."""


for purpose, commands in {
    "Run": (cli.run, cli.validate, cli.plan, lab.schema),
    "Look": (cli.status, cli.explain, cli.history),
    "Change": (cli.pause, cli.resume),
    "Migrate": (migrate.import_, cli.agreement, migrate.adopt),
    "Try out": (demo.demo, lab.replay, lab.tune, lab.test),
}.items():
    for command in commands:
        command.add_to(app, purpose)
lab.replay.add_to(app, "Try out", former="compare")


def main() -> None:
    """Run the command line."""
    app()
