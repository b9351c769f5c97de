"""Reports of rehearsals as files: HTML, and a picture."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autoscaler.cli.output import ArgumentError, CommandError
from autoscaler.file_contents import replace_file
from autoscaler.rendering.rehearsal import RehearsalAnswer
from autoscaler.web.pages.picture import NoLibraryError, picture_of
from autoscaler.web.pages.report import report_of


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """Which files are to be written, and whether over those that are there."""

    report: Path | None = None
    png: Path | None = None
    force: bool = False

    def __bool__(self) -> bool:
        """Whether any file is to be written."""
        return self.report is not None or self.png is not None


def refuse_to_overwrite(options: ReportOptions) -> None:
    """Refuse, before any work, files that are there already.  Raises CommandError."""
    for path in (options.report, options.png):
        if path is not None and not path.parent.is_dir():
            raise ArgumentError(f"{path} cannot be written: there is no folder {path.parent}")
    there = [path for path in (options.report, options.png) if path is not None and path.exists()]
    if there and not options.force:
        named = " and ".join(map(str, there))
        raise ArgumentError(f"{named} is there already; --force writes over it")


def write_report(
    rehearsals: Mapping[str, RehearsalAnswer], title: str, options: ReportOptions
) -> None:
    """Write what is asked for, each file in one step.  Raises CommandError."""
    try:
        if options.report is not None:
            html = report_of(rehearsals, title).encode(errors="replace")
            replace_file(options.report, html)
        if options.png is not None:
            replace_file(options.png, picture_of(rehearsals, title))
    except NoLibraryError as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        where = " or ".join(str(one) for one in (options.report, options.png) if one is not None)
        raise CommandError(f"{where} cannot be written: {error.strerror}") from None
