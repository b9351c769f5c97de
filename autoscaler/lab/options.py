"""The options of `replay`, `tune` and `test`."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from autoscaler.cli.options import ONE_TARGET, flag, seconds_of
from autoscaler.cli.target_names import complete

_SOURCE = "Where the data come from"


def _of_source(help_text: str, metavar: str | None = None, **more: Any) -> Any:
    return typer.Option(metavar=metavar, rich_help_panel=_SOURCE, help=help_text, **more)


def _percentage(text: str) -> float:
    try:
        share = float(text.removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not 0.0 <= share <= 1.0:
        raise typer.BadParameter("it must be a percentage such as 0.1%")
    return share


@dataclass(frozen=True)
class ReplayOptions:
    """Which targets are replayed, over which time, and with which data."""

    begin: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="When it begins, as `2d ago`.")
    ] = None
    end: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="When it ends; default now.")
    ] = None
    targets: Annotated[
        list[str],
        typer.Option(
            "--target",
            "-t",
            metavar="TARGET",
            help=f"{ONE_TARGET}; default all.",
            autocompletion=complete,
        ),
    ] = field(default_factory=list)
    from_record: Annotated[
        bool,
        typer.Option("--from-record", rich_help_panel=_SOURCE, help="What a daemon has recorded."),
    ] = False
    state_directory: Annotated[
        Path | None, _of_source("The directory of the record; default that of --config.", "DIR")
    ] = None
    csv: Annotated[
        list[str],
        _of_source(
            "Samples in a file, `t,value` or `t,value,replicas`; as NAME=FILE those of a query or "
            "metric. May be given several times.",
            "FILE",
        ),
    ] = field(default_factory=list)
    step: Annotated[
        float | None,
        _of_source(
            "Between two points of Prometheus; default the sync period.", "TIME", parser=seconds_of
        ),
    ] = None
    cache: Annotated[
        Path | None,
        _of_source(
            "Where answers of Prometheus are kept, so that they are asked once; default "
            "~/.cache/autoscaler/ranges.",
            "DIR",
        ),
    ] = None
    no_cache: Annotated[bool, flag("no-cache", "Keep no answers, and use none that are kept.")] = (
        False
    )
    assume: Annotated[
        Path | None, _of_source("What is assumed of loads and pods, YAML.", "FILE")
    ] = None
    processes: Annotated[
        int,
        typer.Option(
            min=1, help="In how many processes; default one for each core.", show_default=False
        ),
    ] = field(default_factory=lambda: os.cpu_count() or 1)


@dataclass(frozen=True)
class ReportOptions:
    """Which file is to be written, and whether over one that is there."""

    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a report, one HTML file that opens anywhere."),
    ] = None
    force: Annotated[bool, flag("force", "Write over a report that is there.")] = False


@dataclass(frozen=True)
class SearchOptions:
    """What `tune` searches, and by which preference it chooses."""

    shortage_cost: Annotated[
        float, typer.Option(min=0.0, help="What an hour of one missing pod costs.")
    ] = 10.0
    replica_hour_cost: Annotated[
        float, typer.Option(min=0.0, help="What an hour of one replica costs.")
    ] = 1.0
    most_shortage: Annotated[
        float | None,
        typer.Option(
            metavar="PERCENT",
            parser=_percentage,
            help="In place of costs: so much of the time may be short.",
        ),
    ] = None
    space: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The values that may be tried, YAML.")
    ] = None
    trials: Annotated[int, typer.Option(min=1, help="How many candidates are tried.")] = 100
    seed: Annotated[int, typer.Option(help="Of the search: the same gives the same.")] = 1


@dataclass(frozen=True)
class PolicyTestOptions:
    """Which tests are run, and where results go."""

    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print each test, and what it assumes.")
    ] = False
    name: Annotated[
        str | None,
        typer.Option(
            *("--name", "-k"),
            metavar="TEXT",
            help="Only tests whose name has this in it, or is like it with *.",
            show_default=False,
        ),
    ] = None
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the results as JUnit XML there.")
    ] = None
