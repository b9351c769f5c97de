"""Reports of rehearsals as HTML files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from autoscaler.cli.output import ArgumentError, CommandError
from autoscaler.file_contents import write_output
from autoscaler.lab.rendering import RehearsalAnswer
from autoscaler.lab.report_page import ComparisonTable, report_of


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """Which file is to be written, and whether over one that is there."""

    report: Path | None = None
    force: bool = False


def refuse_to_overwrite(options: ReportOptions) -> None:
    """Refuse, before any work, a file that is there already.  Raises CommandError."""
    path = options.report
    if path is not None and not path.parent.is_dir():
        raise ArgumentError(f"{path} cannot be written: there is no folder {path.parent}")
    if path is not None and path.is_file() and not options.force:
        raise ArgumentError(f"{path} is there already; --force writes over it")


def write_report(
    rehearsals: Mapping[str, RehearsalAnswer],
    title: str,
    options: ReportOptions,
    comparisons: Mapping[str, Sequence[ComparisonTable]] = MappingProxyType({}),
) -> None:
    """Write the report if one is asked for, in one step.  Raises CommandError."""
    if options.report is None:
        return
    try:
        html = report_of(rehearsals, title, comparisons).encode(errors="replace")
        write_output(options.report, html)
    except OSError as error:
        raise CommandError(f"{options.report} cannot be written: {error.strerror}") from None
