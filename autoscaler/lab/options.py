"""Options of `replay`, `tune` and `test`."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from autoscaler.cli.options import ObjectFiles, flag, seconds_of, time_option

_SOURCE = "Source of the data"


def _of_source(help_text: str, metavar: str | None = None, **more: Any) -> Any:
    return typer.Option(metavar=metavar, rich_help_panel=_SOURCE, help=help_text, **more)


def _percentage(text: str) -> float:
    try:
        share = float(text.removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not 0.0 <= share <= 1.0:
        raise typer.BadParameter("must be a percentage such as 0.1%")
    return share


@dataclass(frozen=True)
class ReplayOptions:
    """The period and the data of a replay."""

    begin: Annotated[
        str | None, time_option("Start of the period, such as 2d or 'monday 9:00'.", "--since")
    ] = None
    end: Annotated[str | None, time_option("End of the period; default: now.", "--until")] = None
    objects: ObjectFiles = None
    from_record: Annotated[
        bool,
        typer.Option("--from-record", rich_help_panel=_SOURCE, help="Use the record of a daemon."),
    ] = False
    state_directory: Annotated[
        Path | None,
        _of_source("State directory with the record; default: the one of --config.", "DIR"),
    ] = None
    csv: Annotated[
        list[str],
        _of_source(
            "File of samples, `t,value` or `t,value,replicas`; NAME=FILE for the samples of one "
            "query or metric. Repeatable.",
            "FILE",
        ),
    ] = field(default_factory=list)
    step: Annotated[
        float | None,
        _of_source("Step of range queries; default: sync period.", "DURATION", parser=seconds_of),
    ] = None
    cache: Annotated[
        Path | None,
        _of_source(
            "Cache for answers of Prometheus; default: ~/.cache/autoscaler/ranges.",
            "DIR",
        ),
    ] = None
    no_cache: Annotated[bool, flag("no-cache", "Do not use the cache.")] = False
    assume: Annotated[
        Path | None, _of_source("Assumptions about loads and pods (YAML).", "FILE")
    ] = None
    processes: Annotated[
        int,
        typer.Option(min=1, help="Number of processes; default: one per core.", show_default=False),
    ] = field(default_factory=lambda: os.cpu_count() or 1)


@dataclass(frozen=True)
class ReportOptions:
    """The report file."""

    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a report as one HTML file."),
    ] = None
    force: Annotated[bool, flag("force", "Overwrite an existing file.")] = False


@dataclass(frozen=True)
class SearchOptions:
    """The search space and the preference of `tune`."""

    shortage_cost: Annotated[
        float, typer.Option(min=0.0, help="Cost of one missing pod for one hour.")
    ] = 10.0
    replica_hour_cost: Annotated[
        float, typer.Option(min=0.0, help="Cost of one replica for one hour.")
    ] = 1.0
    most_shortage: Annotated[
        float | None,
        typer.Option(
            metavar="PERCENT",
            parser=_percentage,
            help="In place of costs: the under-provisioned share of time to accept, such as 0.1%.",
        ),
    ] = None
    space: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The values to try (YAML).")
    ] = None
    trials: Annotated[int, typer.Option(min=1, help="Number of candidates.")] = 100
    seed: Annotated[
        int, typer.Option(help="Seed of the search; the same seed gives the same result.")
    ] = 1


@dataclass(frozen=True)
class PolicyTestOptions:
    """The tests to run and the output of results."""

    objects: ObjectFiles = None
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print each test and its assumptions.")
    ] = False
    name: Annotated[
        str | None,
        typer.Option(
            *("--name", "-k"),
            metavar="TEXT",
            help="Run only tests whose name contains this text or matches it with *.",
            show_default=False,
        ),
    ] = None
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the results as JUnit XML.")
    ] = None
