"""The options of `import` and `adopt`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import typer

from autoscaler.cli.options import TARGETS_FILE, Context, SourceOptions, config_option, flag


def _prometheus_url(url: str | None) -> str | None:
    from pydantic import ValidationError

    from autoscaler.config.prometheus_connection import PrometheusSettings

    try:
        return url and PrometheusSettings(url=url).url
    except ValidationError as error:
        raise typer.BadParameter(error.errors()[0]["msg"]) from None


@dataclass(frozen=True)
class ImportOptions:
    """What is imported, and what is written."""

    from_cluster: Annotated[
        bool, flag("from-cluster", "Read what the cluster has, with your kubeconfig.")
    ] = False
    namespace: Annotated[
        str | None,
        typer.Option(
            *("--namespace", "-n"),
            help="The namespace to read, and of manifests that name none; else default.",
            show_default=False,
        ),
    ] = None
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Read all namespaces of the cluster.")
    ] = False
    context: Context = None
    adapter_rules: Annotated[
        list[Path],
        typer.Option(
            metavar="FILE",
            help="Rules of prometheus-adapter: values of its chart, its ConfigMap or its "
            "configuration; else those among the manifests, or of the cluster.",
            show_default=False,
        ),
    ] = field(default_factory=list)
    prometheus: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            callback=_prometheus_url,
            help="Your Prometheus; it is asked which series rules are for.",
        ),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option(
            *("--output", "-o"), metavar="FILE", help="The configuration; default standard output."
        ),
    ] = None
    report: Annotated[
        Literal["text", "json"],
        typer.Option(help="What became of each source; on stderr unless there is --output."),
    ] = "text"
    shadow: Annotated[
        bool, flag("shadow", "All targets have `mode: shadow`, and are never written.")
    ] = False
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also say what became of each key.")
    ] = False
    force: Annotated[bool, flag("force", "Write over a file that is there already.")] = False


@dataclass(frozen=True)
class AdoptOptions:
    """What is to be done with the targets that are named, and where the backup is."""

    context: Context = None
    execute: Annotated[bool, flag("execute", "Do it, instead of printing the steps.")] = False
    back: Annotated[bool, flag("back", "Give it back to the autoscaler that was.")] = False
    backup: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder for its manifest [replaced, beside FILE]."),
    ] = None
    anyway: Annotated[bool, flag("anyway", "Also where something speaks against it.")] = False


@dataclass(frozen=True)
class AdoptionSource(SourceOptions):
    """The configuration of the targets, and their daemon."""

    config: Annotated[Path | None, config_option(TARGETS_FILE)] = None
    state_directory: None = None
