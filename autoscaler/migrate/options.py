"""Options of `import` and `adopt`."""

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
    """The sources and the output of an import."""

    from_cluster: Annotated[
        bool, flag("from-cluster", "Read from the cluster, with your kubeconfig.")
    ] = False
    namespace: Annotated[
        str | None,
        typer.Option(
            *("--namespace", "-n"),
            metavar="NAME",
            help="Namespace to read, and of manifests without one; default: `default`.",
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
            help="Rules of prometheus-adapter: its chart values, ConfigMap or configuration; "
            "default: the ones among the manifests or in the cluster.",
            show_default=False,
        ),
    ] = field(default_factory=list)
    prometheus: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            callback=_prometheus_url,
            help="Prometheus, to look up which series the adapter's rules match.",
        ),
    ] = None
    as_: Annotated[
        Literal["targets", "objects"],
        typer.Option("--as", help="What to write: a configuration, or PromqlAutoscalers."),
    ] = "targets"
    output: Annotated[
        Path | None,
        typer.Option(
            *("--output", "-o"),
            metavar="FILE",
            help="File for the configuration; default: standard output.",
        ),
    ] = None
    report: Annotated[
        Literal["text", "json"],
        typer.Option(help="Format of the report; without --output it goes to stderr."),
    ] = "text"
    shadow: Annotated[bool, flag("shadow", "Set `mode: shadow` for all targets.")] = False
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Report every key.")] = False
    force: Annotated[bool, flag("force", "Overwrite an existing file.")] = False


@dataclass(frozen=True)
class AdoptOptions:
    """The direction, and where manifests are saved."""

    context: Context = None
    execute: Annotated[bool, flag("execute", "Execute the steps instead of printing them.")] = False
    back: Annotated[bool, flag("back", "Return the target to its previous autoscaler.")] = False
    backup: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of the saved manifests; default: `replaced` next to --config.",
        ),
    ] = None
    force: Annotated[
        bool, flag("force", "Adopt although it fails, stays at 0 or disagrees with the HPA.")
    ] = False


@dataclass(frozen=True)
class AdoptionSource(SourceOptions):
    """The configuration of the targets, and their daemon."""

    config: Annotated[Path | None, config_option(TARGETS_FILE)] = None
    state_directory: None = None
