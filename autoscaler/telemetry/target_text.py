"""The metrics of each target: their meaning, and their lines.

10,000 targets have some 190,000 lines, for which prometheus-client takes seconds: it sorts and
escapes the labels of each line again. With cached label texts it takes a fifth of a second.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter

from autoscaler.core.classification import Mark, failure_of, limit_of
from autoscaler.core.decision import Activity, Calculation, MetricResult, Outcome
from autoscaler.core.spec import ConditionStatus
from autoscaler.rendering.wording import measured_number
from autoscaler.telemetry.metric_catalog import Family, MetricKind
from autoscaler.telemetry.target_states import TargetRow

_Samples = Callable[[Sequence[TargetRow]], Iterable[tuple[str, float]]]
"""Yields the labels of each sample, without the closing brace, and its value."""

PER_TARGET: dict[Family, _Samples] = {}
"""The functions of all metrics, in the page's order; omitted by `perTargetMetrics: false`."""
_ACTIVE = {Activity.ACTIVE: 1, Activity.INACTIVE: 0}
_LIMITED, _CONTESTED = int(Mark.LIMITED), int(Mark.CONTESTED)


def target_text(rows: Sequence[TargetRow], *, openmetrics: bool) -> Iterator[bytes]:
    """Yield the text of one metric after another, in either of the text formats."""
    for family, samples in PER_TARGET.items():
        name = family.name
        lines = [f"{name}{labels}}} {value!r}\n" for labels, value in samples(rows)]
        yield (_head(family, openmetrics=openmetrics) + "".join(lines)).encode()


def _head(family: Family, *, openmetrics: bool) -> str:
    # OpenMetrics names a counter without the ending of its samples.
    counts = openmetrics and family.kind is MetricKind.COUNTER
    name = family.name.removesuffix("_total") if counts else family.name
    return f"# HELP {name} {family.meaning}\n# TYPE {name} {family.kind}\n"


# -- the shapes of metrics -------------------------------------------------------------------------


def _family(
    name: str, meaning: str, *labels: str, kind: MetricKind = MetricKind.GAUGE
) -> Callable[[_Samples], _Samples]:
    """Return a decorator that adds a metric whose function yields its samples."""

    def add(samples: _Samples) -> _Samples:
        family = Family(f"autoscaler_target_{name}", kind, meaning, ("target", *labels))
        PER_TARGET[family] = samples
        return samples

    return add


def _number(
    name: str,
    meaning: str,
    number_of: Callable[[TargetRow], float | None],
    kind: MetricKind = MetricKind.GAUGE,
) -> None:
    """Add a metric with one number per target; None means no sample."""
    _family(name, meaning, kind=kind)(
        lambda rows: [
            (row.labels.target, number) for row in rows if (number := number_of(row)) is not None
        ]
    )


def _labelled(
    name: str, label: str, meaning: str, value_of: Callable[[TargetRow], tuple[str, float] | None]
) -> None:
    """Add a metric with one number per target and value of a label."""
    _family(name, meaning, label)(
        lambda rows: [
            (f'{row.labels.target},{label}="{value[0]}"', value[1])
            for row in rows
            if (value := value_of(row)) is not None
        ]
    )


def _of_metrics(name: str, meaning: str, number_of: Callable[[MetricResult], float | None]) -> None:
    """Add a metric with one number per metric of each target."""
    _family(name, meaning, "metric_name", "type")(
        lambda rows: [
            (metric, number)
            for labels, decision, *_ in rows
            for metric, result in zip(labels.metrics, decision.metrics, strict=False)
            if (number := number_of(result)) is not None
        ]
    )


# -- the metrics -----------------------------------------------------------------------------------


@_family(
    "info",
    "Always 1; the parts of a target's name.",
    *("target_namespace", "target_kind", "target_name"),
)
def _info(rows: Sequence[TargetRow]) -> Iterable[tuple[str, float]]:
    return [(row.labels.info, 1) for row in rows]


@_family(
    "outcome",
    "Always 1; the outcome of the last sync (ok, partial, blocked), and the reason where it is "
    "not ok.",
    *("outcome", "reason"),
)
def _outcome(rows: Sequence[TargetRow]) -> Iterable[tuple[str, float]]:
    for labels, decision, *_ in rows:
        failure = None if decision.outcome is Outcome.OK else failure_of(decision)
        reason = "" if failure is None else failure.reason
        yield f'{labels.target},outcome="{decision.outcome}",reason="{reason}"', 1


_number(
    "last_success_timestamp_seconds",
    "The last sync with a decision whose write did not fail.",
    attrgetter("succeeded"),
)


@_family(
    "spec_target_metric",
    "What one metric is held to, in base units, a utilization in percent.",
    *("metric_name", "type", "metric_target_type"),
)
def _spec_target(rows: Sequence[TargetRow]) -> Iterable[tuple[str, float]]:
    return [
        (metric + kind, value)
        for labels, *_ in rows
        for metric, kind, value in zip(
            labels.metrics, labels.target_types, labels.target_values, strict=True
        )
    ]


@_family(
    "status_target_metric",
    "What one metric measures now, in the unit of its target; absent while the metric is missing.",
    *("metric_name", "type", "metric_target_type"),
)
def _status_target(rows: Sequence[TargetRow]) -> Iterable[tuple[str, float]]:
    return [
        (metric + kind, measured_number(result.outcome.current))
        for labels, decision, *_ in rows
        for metric, kind, result in zip(
            labels.metrics, labels.target_types, decision.metrics, strict=False
        )
        if type(result.outcome) is Calculation
    ]


_number("current_replicas", "The replicas as they were read.", attrgetter("decision.current"))
_of_metrics(
    "proposed_replicas",
    "What one metric asks for; absent while the metric is missing.",
    lambda metric: metric.outcome.proposal if type(metric.outcome) is Calculation else None,
)
_number(
    "stabilized_replicas",
    "What the stabilization windows made of the largest proposal.",
    lambda row: None if (stage := row.decision.stabilization) is None else stage.after,
)
_number(
    "desired_replicas",
    "What was decided, after rate limits and bounds.",
    lambda row: None if row.decision.current is None else row.decision.desired,
)
_number(
    "min_replicas",
    "The minReplicas in force: of the target, of an open schedule or of a query.",
    attrgetter("decision.min_replicas"),
)
_number("max_replicas", "The maxReplicas in force.", attrgetter("decision.max_replicas"))
_of_metrics(
    "fallback_replicas",
    "What the fallback asks for in place of a metric that keeps failing; absent otherwise.",
    lambda metric: None if metric.fallback is None else metric.fallback.proposal,
)
_of_metrics(
    "metric_active",
    "1 while a metric is above its activation, else 0; absent while that is not known, and "
    "without idle.",
    lambda metric: _ACTIVE.get(metric.activity) if metric.activity is not None else None,
)
_number(
    "idle",
    "1 while the replicas are at most idle.replicas, else 0; absent without idle.",
    lambda row: None if row.decision.idle is None else int(row.decision.idle.asleep),
)


def _shadow(row: TargetRow) -> tuple[str, float] | None:
    decision = row.decision
    if not decision.in_shadow:
        return None
    return "mode" if decision.shadow else "taken" if decision.taken else "controlled", 1


_labelled(
    "shadow",
    "reason",
    "1 while the target is in shadow: decided, and never written; absent otherwise. The reason is "
    "mode, controlled (by another autoscaler), or taken (another one took over a live target).",
    _shadow,
)
_labelled(
    "paused",
    "mode",
    "1 while the target is paused; the mode is all, or the direction that is paused.",
    lambda row: None if row.decision.pause is None else (row.decision.pause.mode, 1),
)
_labelled(
    "limited",
    "reason",
    "1 while maxReplicas or a rate limit permits less than is wanted, with the HPA's reason.",
    lambda row: (limit_of(row.decision), 1) if row.marks & _LIMITED else None,
)


@_family("condition", "The HPA's conditions: 1 where the status is True, else 0.", "condition")
def _condition(rows: Sequence[TargetRow]) -> Iterable[tuple[str, float]]:
    true = ConditionStatus.TRUE
    return [
        (f'{labels.target},condition="{each.type}"', 1 if each.status is true else 0)
        for labels, decision, *_ in rows
        for each in decision.conditions
    ]


_number(
    "stabilized_until_timestamp_seconds",
    "The time at which the current stabilization ends; absent without one.",
    lambda row: None if (stage := row.decision.stabilization) is None else stage.until,
)


def _limited_until(row: TargetRow) -> float | None:
    limit = row.decision.limit
    return limit.until if limit is not None and row.marks & _LIMITED else None


_number(
    "limited_until_timestamp_seconds",
    "When a rate limit that binds now permits more; absent while none binds.",
    _limited_until,
)
_number(
    "held_until_timestamp_seconds",
    "The time until which nothing is written because other clients undid our writes; absent "
    "otherwise.",
    lambda row: row.decision.held_until if row.marks & _CONTESTED else None,
)


def _no_scale_down(row: TargetRow) -> float | None:
    # Few have one, and this check is cheaper than to ask `Decision.refill` of each.
    refills = row.decision.hold_refill is not None
    for metric in row.decision.metrics:
        if metric.refill is not None:
            refills = True
    last = row.decision.refill if refills else None
    return None if last is None else last.until


_number(
    "no_scale_down_until_timestamp_seconds",
    "The time before which nothing scales down because a reading returned after a gap, was "
    "the first "
    "one, or holdScaleDownQuery held until lately; absent otherwise.",
    _no_scale_down,
)


def _scale_down_held(row: TargetRow) -> tuple[str, float] | None:
    if row.decision.hold is None:
        return None
    reading = row.decision.hold.reading
    return (reading.gap.kind if reading.gap else "series" if reading.holds else "ended"), 1


_labelled(
    "scale_down_held",
    "reason",
    "1 while holdScaleDownQuery prevents scale-downs; absent otherwise. Reason: series (a series "
    "holds), error, NaN, stale, partial (no valid answer), or ended (first sync after the hold).",
    _scale_down_held,
)


def _saturated(row: TargetRow) -> tuple[str, float] | None:
    limits = row.decision.saturation is not None and not row.decision.in_shadow
    lasting = row.decision.lasting_saturation if limits else None
    return None if lasting is None else (lasting.reason, lasting.missing)


_labelled(
    "saturated_replicas_missing",
    "reason",
    "By how many replicas a bound or a policy has permitted less than is wanted, for 15 minutes "
    "or longer; absent otherwise, and in shadow.",
    _saturated,
)
_number(
    "off_under_load",
    "1 while others have set the replicas to 0 and a metric asks for some; absent otherwise.",
    lambda row: None if row.decision.wanted_by is None else 1,
)
_number(
    "foreign_changes_total",
    "Changes of the replicas by other clients.",
    attrgetter("foreign_changes"),
    MetricKind.COUNTER,
)
