"""A report of replays: one HTML file that needs no network.

It contains the charts and the style of the pages, and its data.
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
from autoscaler.lab.engine.measures import Measures
from autoscaler.lab.options import ReportOptions
from autoscaler.lab.rendering import (
    MEASURES,
    MeasureText,
    ReplayAnswer,
    ReplayedTarget,
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
"""The colors of the lines of replays, as in report.js."""
_IN_INDEX = [
    measure
    for measure in MEASURES
    if measure.field in {"tau_under", "theta_over", "replica_hours", "changes"}
]
_MOST_LISTED = 200
"""The most changes and reasons in a target's tables."""
_MOST_TRIANGLES = 100
"""With more changes than this, none is marked in the chart."""
_MOST_DRAWN = 500
"""The most changes and reasons that the chart draws and names."""


class ComparisonTable(NamedTuple):
    """The differences of the second of two replays from the first, by measure.

    A row has the measure, both values, their difference, the verdict, the days and the chance.
    """

    title: str
    rows: Sequence[Sequence[str]]


def report_of(
    replays: Mapping[str, ReplayAnswer],
    title: str,
    comparisons: Mapping[str, Sequence[ComparisonTable]] = MappingProxyType({}),
) -> str:
    """Return the HTML of some replays of one time, by their names, the first one first.

    ``comparisons`` are by the key of a target; the sum of all targets has an empty key.
    """
    names, answers = list(replays), list(replays.values())
    sections = [
        _section(names, answers, target, comparisons.get(target.target, ()))
        for target in answers[0].targets
    ]
    told = {
        "title": title,
        "begin": answers[0].begin,
        "end": max(answer.end for answer in answers),
        "names": names,
        "sections": sections,
        "comparisons": comparisons.get("", ()),
        "refused": [sentence for answer in answers for sentence in answer.refused],
        "index_measures": _IN_INDEX,
        "line_colours": _COLOURS,
        "styles": Markup(_read("uplot/uPlot.min.css") + _read("pages.css")),  # noqa: S704 - our own
        "chart_library": Markup(_read("uplot/uPlot.iife.min.js")),  # noqa: S704 - our own
        "scripts": Markup(_bundled()),  # noqa: S704 - our own
        "data": Markup(_data(replays)),  # noqa: S704 - JSON without <
    }
    return environment().get_template("report.html").render(told)


def _data(replays: Mapping[str, ReplayAnswer]) -> str:
    """Return the drawn data as JSON that is safe within HTML."""
    found = []
    for name, answer in replays.items():
        targets = [
            target.model_copy(update={"changes": target.changes[:_MOST_DRAWN], "days": ()})
            for target in answer.targets
        ]
        drawn = answer.model_copy(update={"targets": tuple(targets)})
        found.append({"name": name, "answer": drawn.document()})
    text = json.dumps({"replays": found}, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("&", "\\u0026")


def _section(
    names: Sequence[str],
    answers: Sequence[ReplayAnswer],
    first: ReplayedTarget,
    comparisons: Sequence[ComparisonTable],
) -> dict[str, object]:
    """Return the template's data of a target; ``first`` is its outcome in the first replay."""
    of_target = {
        name: target
        for name, answer in zip(names, answers, strict=True)
        for target in answer.targets
        if target.target == first.target
    }
    measured = {name: value.measures for name, value in of_target.items()}
    if first.ran is not None:
        measured["actual"] = first.ran
    told = told_measures(list(measured.values()))
    single = len(names) == 1
    changes = first.changes[:_MOST_LISTED] if single else ()
    listed = f", the first {len(changes)}" if first.measures.changes > len(changes) else ""
    return {
        "key": first.target,
        "counts": [
            ("" if single else f"{name}: ")
            + f"{value.first_replicas} → {counted(value.last_replicas, 'replica')}"
            for name, value in of_target.items()
        ],
        "columns": list(measured),
        "rows": [(measure, [_text(measure, of) for of in measured.values()]) for measure in told],
        "in_index": [
            (measure.heading, _text(measure, of.measures))
            for of in of_target.values()
            for measure in _IN_INDEX
        ],
        "notes": dict.fromkeys(
            note for replayed in of_target.values() for note in _notes(replayed)
        ),
        "changes": changes,
        "changes_title": counted(first.measures.changes, "change") + listed,
        "reasons": first.reasons[:_MOST_LISTED] if single else (),
        "comparisons": comparisons,
        "marks_changes": single and 0 < first.measures.changes <= _MOST_TRIANGLES,
    }


def _text(measure: MeasureText, measures: Measures) -> str:
    return measure_text(measure, getattr(measures, measure.field))


def _notes(target: ReplayedTarget) -> Iterator[str]:
    """Yield the load model, the assumptions, and what is missing."""
    words = {
        "recorded": "is read as it was recorded, whatever the count",
        "shared": "is shared by the pods that are ready",
        "queue": "is a queue that fills with what arrives and that ready pods empty",
    }
    for name, model in target.models.items():
        yield f"{name} {words.get(model, model)}"
    yield from target.assumed
    for what, seconds in (
        ("the demand is not known, and nothing scored, for", target.measures.gap_seconds),
        ("a metric had no value for", target.failed_seconds),
        ("the recorded pods were at their capacity for", target.censored_seconds),
    ):
        if seconds:
            yield f"{what} {duration(seconds)}"


@cache
def _bundled() -> str:
    """Return the scripts as one module, since one file cannot import others."""
    text = "\n".join(_read(name) for name in _SCRIPTS)
    return _EXPORT.sub("", _IMPORT.sub("", text))


@cache
def _read(name: str) -> str:
    return (_STATIC / name).read_text("utf-8")


def refuse_to_overwrite(options: ReportOptions) -> None:
    """Refuse an existing file, before any work. Raises CommandError."""
    path = options.report
    if path is not None and not path.parent.is_dir():
        raise ArgumentError(f"{path} cannot be written: there is no folder {path.parent}")
    if path is not None and path.is_file() and not options.force:
        raise ArgumentError(f"{path} exists; overwrite it with --force")


def write_report(
    replays: Mapping[str, ReplayAnswer],
    title: str,
    options: ReportOptions,
    comparisons: Mapping[str, Sequence[ComparisonTable]] = MappingProxyType({}),
) -> None:
    """Write the report if one is requested, atomically. Raises CommandError."""
    if options.report is None:
        return
    try:
        html = report_of(replays, title, comparisons).encode(errors="replace")
        write_output(options.report, html)
    except OSError as error:
        raise CommandError(f"{options.report} cannot be written: {error.strerror}") from None
