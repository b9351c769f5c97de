"""`/targets/.../chart` and `/targets/.../explanation`: a target over time, and at an instant."""

from typing import Any

from autoscaler.core.text import printable, rfc3339_milli
from autoscaler.daemon.api.finding import record_of
from autoscaler.daemon.api.history import period
from autoscaler.daemon.api.parameters import ChartParameters, ExplanationParameters
from autoscaler.daemon.api.problems import ProblemError
from autoscaler.daemon.exposition.views import Views
from autoscaler.record.finding import last_count_change
from autoscaler.rendering.chart import Band, Chart, Line, MetricLines, chart_of
from autoscaler.rendering.instant import explanation_at, explanation_json
from autoscaler.rendering.record import Json

_USUAL_SECONDS = 3600.0


def chart(views: Views, key: str, asked: ChartParameters, now: float) -> Json:
    """Return a target's chart."""
    record = record_of(views, [key])
    begin, end = period(asked.from_, asked.to, now, _USUAL_SECONDS)
    found = chart_of(record, key, begin, end, most_points=asked.points)
    if found is None:
        raise _nothing(key, f"from {rfc3339_milli(begin)} to {rfc3339_milli(end)}")
    return chart_json(found)


def explanation(views: Views, key: str, asked: ExplanationParameters, now: float) -> Json:
    """Return the explanation of an instant."""
    record = record_of(views, [key])
    at = now if asked.at is None else asked.at
    if asked.last_change:
        last = last_count_change(record, key, at)
        if last is None:
            raise ProblemError(404, f"no change of the count of {printable(key)} is recorded")
        at = last.time
    found = explanation_at(record, key, at)
    if found is None:
        raise _nothing(key, f"at {rfc3339_milli(at)}")
    return explanation_json(found)


def _nothing(key: str, when: str) -> ProblemError:
    return ProblemError(404, f"nothing is recorded of {printable(key)} {when}")


def chart_json(one: Chart) -> Json:
    """Return a chart as the API shows it."""
    lines = {name: _line(getattr(one, name)) for name in ("current", "desired")}
    lines |= {name: _line(getattr(one, name)) for name in ("minimum", "maximum")}
    return {
        "target": one.target,
        "from": rfc3339_milli(one.begin),
        "to": rfc3339_milli(one.end),
        "times": [rfc3339_milli(time) for time in one.times],
        **lines,
        "stabilization": _band(one.stabilization),
        "policies": _band(one.policies),
        "metrics": [_metric(metric) for metric in one.metrics],
        "shades": [
            {
                "kind": str(shade.kind),
                "begin": rfc3339_milli(shade.begin),
                "end": rfc3339_milli(shade.end),
                "text": shade.text,
            }
            for shade in one.shades
        ],
        "marks": [
            {
                "time": rfc3339_milli(mark.time),
                "kind": str(mark.kind),
                "before": mark.before,
                "after": mark.after,
                "text": mark.text,
            }
            for mark in one.marks
        ],
    }


def _metric(one: MetricLines) -> Json:
    return {
        "name": one.name,
        "unit": one.unit,
        "target": _number(one.target),
        "targets": _line(one.targets),
        "value": _line(one.value),
        "low": _line(one.low),
        "high": _line(one.high),
        "proposal": _line(one.proposal),
        "proposalLow": _line(one.proposal_low),
        "proposalHigh": _line(one.proposal_high),
    }


def _band(one: Band) -> Json:
    return {"low": _line(one.low), "high": _line(one.high)}


def _line(one: Line) -> list[float | None]:
    return [None if number is None else _number(number) for number in one]


def _number(value: float) -> Any:
    """Return a whole number without its fraction, which is most of a chart."""
    return int(value) if value == int(value) else value
