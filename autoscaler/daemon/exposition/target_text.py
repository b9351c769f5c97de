"""The lines of each target's metrics.

With 10,000 targets they are some 190,000, for which prometheus-client takes seconds: it makes an
object and sorts and escapes the labels for each of them anew.  Label texts that are made once,
and one expression per metric, take a tenth of a second.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter

from autoscaler.core.decision import Activity, Calculation
from autoscaler.core.observation import ConditionStatus
from autoscaler.daemon.exposition import metric_catalog
from autoscaler.daemon.exposition.metric_catalog import Family, Kind
from autoscaler.daemon.exposition.target_states import Row, reason_of
from autoscaler.rendering.wording import measured_number

_Lines = Iterable[str]


def target_text(rows: Sequence[Row], *, openmetrics: bool) -> Iterator[bytes]:
    """Yield the text of one metric after another, in either of the text formats."""
    for family in metric_catalog.PER_TARGET:
        lines = _LINES[family](f"{family.name}", rows)
        yield (_head(family, openmetrics=openmetrics) + "".join(lines)).encode()


def _head(family: Family, *, openmetrics: bool) -> str:
    # OpenMetrics names a counter without the ending of its samples.
    counts = openmetrics and family.kind is Kind.COUNTER
    name = family.name.removesuffix("_total") if counts else family.name
    return f"# HELP {name} {family.meaning}\n# TYPE {name} {family.kind}\n"


def _gauge(attribute: str) -> Callable[[str, Sequence[Row]], _Lines]:
    """Return what writes one number of each decision; a target that has none has no line."""
    value_of = attrgetter(attribute)

    def write(name: str, rows: Sequence[Row]) -> _Lines:
        return [
            f"{name}{labels.target}}} {value!r}\n"
            for labels, decision, _, _ in rows
            if (value := value_of(decision)) is not None
        ]

    return write


def _of_stage(stage: str, attribute: str) -> Callable[[str, Sequence[Row]], _Lines]:
    """Return what writes one number of a stage; a target without the stage has no line."""
    stage_of, value_of = attrgetter(stage), attrgetter(attribute)

    def write(name: str, rows: Sequence[Row]) -> _Lines:
        return [
            f"{name}{labels.target}}} {value!r}\n"
            for labels, decision, _, _ in rows
            if (made := stage_of(decision)) is not None and (value := value_of(made)) is not None
        ]

    return write


def _info(name: str, rows: Sequence[Row]) -> _Lines:
    return [f"{name}{labels.info}}} 1\n" for labels, _, _, _ in rows]


def _outcome(name: str, rows: Sequence[Row]) -> _Lines:
    return [
        f'{name}{labels.target},outcome="{decision.outcome}",reason="{reason_of(decision)}"}} 1\n'
        for labels, decision, _, _ in rows
    ]


def _last_success(name: str, rows: Sequence[Row]) -> _Lines:
    return [
        f"{name}{labels.target}}} {succeeded!r}\n"
        for labels, _, succeeded, _ in rows
        if succeeded is not None
    ]


def _spec_target(name: str, rows: Sequence[Row]) -> _Lines:
    return [
        f"{name}{metric}{kind}}} {value}\n"
        for labels, _, _, _ in rows
        for metric, kind, value in zip(
            labels.metrics, labels.target_types, labels.target_values, strict=True
        )
    ]


def _status_target(name: str, rows: Sequence[Row]) -> _Lines:
    calculation = Calculation
    return [
        f"{name}{metric}{kind}}} {measured_number(one.outcome.current)!r}\n"
        for labels, decision, _, _ in rows
        for metric, kind, one in zip(
            labels.metrics, labels.target_types, decision.metrics, strict=False
        )
        if type(one.outcome) is calculation
    ]


def _proposed(name: str, rows: Sequence[Row]) -> _Lines:
    calculation = Calculation
    return [
        f"{name}{metric}}} {one.outcome.proposal}\n"
        for labels, decision, _, _ in rows
        for metric, one in zip(labels.metrics, decision.metrics, strict=False)
        if type(one.outcome) is calculation
    ]


def _fallback(name: str, rows: Sequence[Row]) -> _Lines:
    return [
        f"{name}{metric}}} {one.fallback.proposal}\n"
        for labels, decision, _, _ in rows
        for metric, one in zip(labels.metrics, decision.metrics, strict=False)
        if one.fallback is not None
    ]


def _active(name: str, rows: Sequence[Row]) -> _Lines:
    return [
        f"{name}{metric}}} {1 if one.activity is Activity.ACTIVE else 0}\n"
        for labels, decision, _, _ in rows
        if decision.idle is not None
        for metric, one in zip(labels.metrics, decision.metrics, strict=False)
        if one.activity is not None and one.activity is not Activity.UNKNOWN
    ]


def _idle(name: str, rows: Sequence[Row]) -> _Lines:
    return [
        f"{name}{labels.target}}} {1 if idle.asleep else 0}\n"
        for labels, decision, _, _ in rows
        if (idle := decision.idle) is not None
    ]


def _paused(name: str, rows: Sequence[Row]) -> _Lines:
    return [
        f'{name}{labels.target},mode="{pause.mode}"}} 1\n'
        for labels, decision, _, _ in rows
        if (pause := decision.pause) is not None
    ]


def _desired(name: str, rows: Sequence[Row]) -> _Lines:
    return [
        f"{name}{labels.target}}} {decision.desired}\n"
        for labels, decision, _, _ in rows
        if decision.current is not None
    ]


def _limited(name: str, rows: Sequence[Row]) -> _Lines:
    return [
        f'{name}{labels.target},reason="{limit.reason}"}} 1\n'
        for labels, decision, _, _ in rows
        if (limit := decision.limit) is not None and limit.after != limit.before
    ]


def _condition(name: str, rows: Sequence[Row]) -> _Lines:
    true = ConditionStatus.TRUE
    return [
        f'{name}{labels.target},condition="{one.type}"}} {1 if one.status is true else 0}\n'
        for labels, decision, _, _ in rows
        for one in decision.conditions
    ]


def _no_scale_down(name: str, rows: Sequence[Row]) -> _Lines:
    for labels, decision, _, _ in rows:
        # Few have one, and to look for it costs less than to ask `Decision.refill` of each.
        for one in decision.metrics:
            if one.refill is not None and (last := decision.refill) is not None:
                yield f"{name}{labels.target}}} {last.until!r}\n"
                break


def _saturated(name: str, rows: Sequence[Row]) -> _Lines:
    return [
        f'{name}{labels.target},reason="{one.reason}"}} {one.missing}\n'
        for labels, decision, _, _ in rows
        if decision.saturation is not None and (one := decision.lasting_saturation) is not None
    ]


def _foreign_changes(name: str, rows: Sequence[Row]) -> _Lines:
    return [f"{name}{labels.target}}} {changes}\n" for labels, _, _, changes in rows]


_LINES: dict[Family, Callable[[str, Sequence[Row]], _Lines]] = {
    metric_catalog.TARGET_INFO: _info,
    metric_catalog.TARGET_OUTCOME: _outcome,
    metric_catalog.TARGET_LAST_SUCCESS: _last_success,
    metric_catalog.TARGET_SPEC_TARGET_METRIC: _spec_target,
    metric_catalog.TARGET_STATUS_TARGET_METRIC: _status_target,
    metric_catalog.TARGET_CURRENT: _gauge("current"),
    metric_catalog.TARGET_PROPOSED: _proposed,
    metric_catalog.TARGET_FALLBACK: _fallback,
    metric_catalog.TARGET_METRIC_ACTIVE: _active,
    metric_catalog.TARGET_IDLE: _idle,
    metric_catalog.TARGET_PAUSED: _paused,
    metric_catalog.TARGET_STABILIZED: _of_stage("stabilization", "after"),
    metric_catalog.TARGET_DESIRED: _desired,
    metric_catalog.TARGET_MIN: _gauge("min_replicas"),
    metric_catalog.TARGET_MAX: _gauge("max_replicas"),
    metric_catalog.TARGET_LIMITED: _limited,
    metric_catalog.TARGET_CONDITION: _condition,
    metric_catalog.TARGET_STABILIZED_UNTIL: _of_stage("stabilization", "until"),
    metric_catalog.TARGET_LIMITED_UNTIL: _of_stage("limit", "until"),
    metric_catalog.TARGET_HELD_UNTIL: _gauge("held_until"),
    metric_catalog.TARGET_NO_SCALE_DOWN_UNTIL: _no_scale_down,
    metric_catalog.TARGET_SATURATED: _saturated,
    metric_catalog.TARGET_FOREIGN_CHANGES: _foreign_changes,
}
