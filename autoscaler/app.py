"""The command line: the commands of all packages, in the order of `--help`."""

from typing import Annotated

import typer

from autoscaler import __version__
from autoscaler.cli import commands as cli
from autoscaler.demo import commands as demo
from autoscaler.lab import commands as lab
from autoscaler.migrate import commands as migrate

app = typer.Typer(
    name="autoscaler",
    help="Scales Kubernetes workloads on Prometheus metrics, exactly as the "
    "HorizontalPodAutoscaler would, and explains every decision.",
    no_args_is_help=True,
    rich_markup_mode=None,  # the import of rich is too slow for --help
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


for command in (
    *(cli.run, cli.validate, migrate.import_, cli.plan, cli.status, cli.explain, cli.history),
    *(lab.replay, lab.tune, cli.agreement, cli.release, cli.pause, cli.resume),
    *(migrate.adopt, lab.test, lab.schema, demo.demo),
):
    command.add_to(app)
lab.replay.add_to(app, former="compare")


def main() -> None:
    """Run the command line."""
    app()
