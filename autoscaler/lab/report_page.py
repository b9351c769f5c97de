"""A report of rehearsals: one HTML file that opens anywhere, also without a network.

It has the charts and the style of the pages, and its data, in itself.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from markupsafe import Markup

from autoscaler.cli.output import ArgumentError, CommandError
from autoscaler.core.text import duration
from autoscaler.file_contents import write_output
from autoscaler.lab.options import ReportOptions
from autoscaler.lab.rendering import (
    MEASURES,
    ReasonAnswer,
    RehearsalAnswer,
    RehearsedChangeAnswer,
    RehearsedTarget,
    measure_text,
    told_measures,
)
from autoscaler.rendering.wording import counted
from autoscaler.web import pages
from autoscaler.web.pages.frame import environment

_STATIC = Path(pages.__file__).parent / "static"
_SCRIPTS = ("times.js", "charts.js", "report.js")
_IMPORT = re.compile(r"^import .*$", re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)
_COLOURS = ("--current", "--metric-0", "--metric-2", "--metric-1", "--metric-4")
"""Of the lines of rehearsals, as report.js has them."""
_IN_INDEX = ("tau_under", "theta_over", "replica_hours", "changes")
_MOST_LISTED = 200
"""Changes and reasons of a target that stand in its tables."""
_MOST_TRIANGLES = 100
"""With more changes than this, none is marked in the chart."""
_MOST_DRAWN = 500
"""Those that are drawn, and told under the chart."""


class MeasureRow(NamedTuple):
    """A line of a table of measures."""

    heading: str
    texts: list[str]
    meaning: str


class IndexCell(NamedTuple):
    """A cell of the index."""

    heading: str
    text: str


class ComparisonTable(NamedTuple):
    """How the second of two rehearsals differs from the first, measure by measure.

    A row has the measure, both values, their difference, the verdict, the days and the chance.
    """

    title: str
    rows: Sequence[Sequence[str]]


class ReportSection(NamedTuple):
    """One target in a report; columns are the rehearsals and what really ran."""

    key: str
    counts: list[str]
    columns: list[str]
    rows: list[MeasureRow]
    in_index: list[IndexCell]
    notes: list[str]
    changes: list[RehearsedChangeAnswer]
    changes_title: str
    reasons: list[ReasonAnswer]
    """Those of the first rehearsal, where it is the only one."""
    comparisons: Sequence[ComparisonTable]
    marks_changes: bool


def report_of(
    rehearsals: Mapping[str, RehearsalAnswer],
    title: str,
    comparisons: Mapping[str, Sequence[ComparisonTable]] = MappingProxyType({}),
) -> str:
    """Return the HTML of some rehearsals of one time, by their names, the first one first.

    ``comparisons`` are by the key of a target; those of all targets together have an empty one.
    """
    names, answers = list(rehearsals), list(rehearsals.values())
    sections = [
        _section(names, answers, target, comparisons.get(target.target, ()))
        for target in answers[0].targets
    ]
    told = {
        "title": title,
        "begin": answers[0].begin,
        "end": max(one.end for one in answers),
        "names": names,
        "sections": sections,
        "comparisons": comparisons.get("", ()),
        "refused": [sentence for one in answers for sentence in one.refused],
        "index_measures": [one for one in MEASURES if one.field in _IN_INDEX],
        "line_colours": _COLOURS,
        "styles": Markup(_read("uplot/uPlot.min.css") + _read("pages.css")),  # noqa: S704 - our own
        "chart_library": Markup(_read("uplot/uPlot.iife.min.js")),  # noqa: S704 - our own
        "scripts": Markup(_bundled()),  # noqa: S704 - our own
        "data": Markup(_data(rehearsals)),  # noqa: S704 - JSON without <
    }
    return environment().get_template("report.html").render(told)


def _data(rehearsals: Mapping[str, RehearsalAnswer]) -> str:
    """Return what is drawn as JSON that may stand within HTML."""
    found = []
    for name, answer in rehearsals.items():
        targets = [
            one.model_copy(update={"changes": one.changes[:_MOST_DRAWN], "days": ()})
            for one in answer.targets
        ]
        drawn = answer.model_copy(update={"targets": tuple(targets)})
        found.append({"name": name, "answer": drawn.document()})
    text = json.dumps({"rehearsals": found}, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("&", "\\u0026")


def _section(
    names: Sequence[str],
    answers: Sequence[RehearsalAnswer],
    first: RehearsedTarget,
    comparisons: Sequence[ComparisonTable] = (),
) -> ReportSection:
    """Return what is told of a target that is ``first`` in the first of some named rehearsals."""
    of_target = [
        (name, one)
        for name, answer in zip(names, answers, strict=True)
        for one in answer.targets
        if one.target == first.target
    ]
    columns = [name for name, _ in of_target]
    measured = [one.measures for _, one in of_target]
    if first.ran is not None:
        columns.append("really ran")
        measured.append(first.ran)
    rows = [
        MeasureRow(
            measure.heading,
            [measure_text(measure, getattr(one, measure.field)) for one in measured],
            measure.meaning,
        )
        for measure in told_measures(measured)
    ]
    single = len(names) == 1
    counts = [
        ("" if single else f"{name}: ")
        + f"{one.first_replicas} → {counted(one.last_replicas, 'replica')}"
        for name, one in of_target
    ]
    index = [
        IndexCell(measure.heading, measure_text(measure, getattr(one.measures, measure.field)))
        for _, one in of_target
        for measure in MEASURES
        if measure.field in _IN_INDEX
    ]
    changes = list(first.changes[:_MOST_LISTED]) if single else []
    reasons = list(first.reasons[:_MOST_LISTED]) if single else []
    more = first.measures.changes - len(changes)
    title = counted(first.measures.changes, "change")
    title += f", the first {len(changes)}" if more else ""
    notes = list(dict.fromkeys(note for _, one in of_target for note in _notes(one)))
    return ReportSection(
        *(first.target, counts, columns, rows, index, notes, changes, title, reasons, comparisons),
        marks_changes=single and 0 < first.measures.changes <= _MOST_TRIANGLES,
    )


def _notes(one: RehearsedTarget) -> Iterator[str]:
    """Yield how the load follows the count, what was assumed, and what is missing."""
    words = {
        "recorded": "is read as it was recorded, whatever the count",
        "shared": "is shared by the pods that are ready",
        "queue": "is a queue that fills with what arrives and that ready pods empty",
    }
    for name, model in one.models.items():
        yield f"{name} {words.get(model, model)}"
    yield from one.assumed
    for what, seconds in (
        ("the demand is not known, and nothing scored, for", one.measures.gap_seconds),
        ("a metric had no value for", one.failed_seconds),
        ("the recorded pods were at their capacity for", one.censored_seconds),
    ):
        if seconds:
            yield f"{what} {duration(seconds)}"


@cache
def _bundled() -> str:
    """Return the scripts as one module: in one file nothing is imported."""
    text = "\n".join(_read(name) for name in _SCRIPTS)
    return _EXPORT.sub("", _IMPORT.sub("", text))


@cache
def _read(name: str) -> str:
    return (_STATIC / name).read_text("utf-8")


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
