"""The lines of each metric: its value against its target, and what it asked for."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from autoscaler.core.entry import Rules
from autoscaler.core.spec import ContainerResourceMetric, MetricSpec, ResourceMetric
from autoscaler.record.rows import Numbers
from autoscaler.rendering import wording
from autoscaler.rendering.chart.model import MetricLines
from autoscaler.rendering.chart.rows import Row
from autoscaler.rendering.chart.rules import RulesOverTime

_FIRST = 2
"""Where the numbers of the first metric are."""
_Key = tuple[str, str, int]
"""Name, unit, and which one of equal ones."""
_Number = float | None


@dataclass(frozen=True, slots=True)
class _Shown:
    """One metric of some rules: where its numbers are, and how they are shown."""

    key: _Key
    column: int
    target: float
    divisor: int


@dataclass(slots=True)
class _Columns:
    """The lines of a metric as they grow, None where it was not configured."""

    target: float
    targets: list[_Number] = field(default_factory=list)
    value: list[_Number] = field(default_factory=list)
    low: list[_Number] = field(default_factory=list)
    high: list[_Number] = field(default_factory=list)
    proposal: list[_Number] = field(default_factory=list)
    proposal_low: list[_Number] = field(default_factory=list)
    proposal_high: list[_Number] = field(default_factory=list)

    def lines(self) -> list[list[_Number]]:
        return [
            self.targets,
            self.value,
            self.low,
            self.high,
            self.proposal,
            self.proposal_low,
            self.proposal_high,
        ]


def metric_lines(
    rows: Sequence[Row], kept: Sequence[int], rules: RulesOverTime
) -> tuple[MetricLines, ...]:
    """Return the lines of each metric that was configured, at the rows that are kept."""
    found: dict[_Key, _Columns] = {}
    shown: dict[int, list[_Shown]] = {}
    for count, (index, after) in enumerate(zip(kept, [*kept[1:], len(rows)], strict=True)):
        row = rows[index]
        own = rules.at(row.time)
        if own is not None and id(own) not in shown:
            shown[id(own)] = _shown(own)
        until = rules.until(row.time)
        those = [one for one in rows[index:after] if one.time < until]
        for metric in () if own is None else shown[id(own)]:
            if metric.key not in found:
                found[metric.key] = _Columns(metric.target)
            columns = found[metric.key]
            _fill(columns, count)
            columns.target = metric.target
            _add(columns, metric, row, those)
    for columns in found.values():
        _fill(columns, len(kept))
    return tuple(
        MetricLines(name, unit, columns.target, *map(tuple, columns.lines()))
        for (name, unit, _), columns in found.items()
    )


def _fill(columns: _Columns, count: int) -> None:
    for line in columns.lines():
        line.extend([None] * (count - len(line)))


def _add(columns: _Columns, metric: _Shown, row: Row, rows: Sequence[Row]) -> None:
    for line, number in zip(columns.lines(), _numbers(metric, row, rows), strict=True):
        line.append(number)


def _numbers(metric: _Shown, row: Row, rows: Sequence[Row]) -> list[_Number]:
    """Return the target, then value and proposal, each with their least and their most."""
    numbers: list[_Number] = [metric.target if row.numbers else None]
    for column, divisor in ((metric.column, metric.divisor), (metric.column + 1, 1)):
        low = min(_known([one.low for one in rows], column), default=None)
        high = max(_known([one.high for one in rows], column), default=None)
        last = row.numbers[column] if column < len(row.numbers) else None
        numbers += [
            one if one is None or divisor == 1 else one / divisor for one in (last, low, high)
        ]
    return numbers


def _known(rows: Sequence[Numbers], column: int) -> list[int]:
    return [
        one for numbers in rows if column < len(numbers) and (one := numbers[column]) is not None
    ]


def _shown(rules: Rules) -> list[_Shown]:
    shown: list[_Shown] = []
    for index, metric in enumerate(rules.target.spec.metrics):
        name, unit = wording.metric_name(metric), _unit(metric)
        equal = sum(one.key[:2] == (name, unit) for one in shown)
        target = wording.target_number(metric)[1]
        column, divisor = _FIRST + 2 * index, 1 if unit == "%" else 1000
        shown.append(_Shown((name, unit, equal), column, target, divisor))
    return shown


def _unit(metric: MetricSpec) -> str:
    if wording.target_number(metric)[0] == "utilization":
        return "%"
    unit = ""
    if isinstance(metric, ResourceMetric | ContainerResourceMetric):
        unit = "cores" if metric.name == "cpu" else "bytes"
    return f"{unit}{wording.per(metric)}".strip()
