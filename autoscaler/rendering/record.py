"""The record of one target at one sync: what the log, `plan -o json` and `/api/v1/targets` show.

`record_of` makes what all of them show, and is quick, since a page shows thousands; `details_of`
makes the rest.  `as_json` and `as_fields` write either, so that a field has one name everywhere.
"""

import dataclasses
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from typing import Any, NamedTuple

from autoscaler.core.decision import (
    Calculation,
    Decision,
    Event,
    ForeignChange,
    MetricResult,
    Outcome,
    Rule,
    Zone,
)
from autoscaler.core.grouping import PodGroups, Unready
from autoscaler.core.history import Recommendation
from autoscaler.core.observation import (
    LONGEST_SENTENCE,
    ConditionStatus,
    Gap,
    PodSamples,
    Reading,
    Scale,
    Unavailable,
    Values,
)
from autoscaler.core.printable import printable
from autoscaler.core.quantity import format_milli
from autoscaler.core.rfc3339 import instant
from autoscaler.core.spec import MetricSpec, ScalingPolicy
from autoscaler.core.status import current_metrics
from autoscaler.core.writes import NotWritten, Superseded, WriteFailed, WriteOutcome, Written
from autoscaler.rendering import wording
from autoscaler.rendering.verdict import State, cause_of, state_of, verdict
from autoscaler.sync.ports import SyncResult

Json = dict[str, object]

UNKNOWN, NOT_ASKED = "<unknown>", "-"
"""In place of the value of a metric that is missing, and of one that the decision did not need."""


class QuerySource(NamedTuple):
    """Where a metric's PromQL comes from: `queries.NAME`, the metric's own, a built-in one.

    ``default`` is of the metric that a target without `metrics` has.
    """

    name: str
    default: bool = False


@dataclass(frozen=True, slots=True)
class MetricRecord:
    """One metric.  ``value`` and ``target`` are in base units, a utilization in percent.

    ``text`` is both as `kubectl get hpa` writes them.
    """

    name: str
    type: str
    target_type: str
    value: float | None
    target: float
    text: str
    proposed_replicas: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricDetails:
    """How one metric came to its proposal, or why it did not.

    ``usage`` and ``request`` are averages of the pods that a utilization is made of, ``total`` is
    the sum that an average is made of.
    """

    failed: str | None = None
    error: str | None = None
    usage: str | None = None
    request: str | None = None
    total: str | None = None
    missing: tuple[Gap, ...] = ()
    ratio: float | None = None
    rule: Rule | None = None
    values: tuple[str, ...] | None = None
    multiplier: int | None = None
    rebalanced_ratio: float | None = None
    pods: PodGroups | None = None
    negative_sum: bool = False
    returned: float | None = None
    nothing_down_before: float | None = None


@dataclass(frozen=True, slots=True)
class ScaleRecord:
    """The scale as it was read."""

    spec_replicas: int
    status_replicas: int
    selector: str


@dataclass(frozen=True, slots=True)
class Failure:
    """In place of what could not be read."""

    error: str


@dataclass(frozen=True, slots=True)
class StageRecord:
    """One stage of the decision, and what made it so."""

    name: str
    before: int
    after: int
    reason: str
    held_by: Recommendation | None = None
    policy: ScalingPolicy | None = None
    unseen_until: float | None = None
    until: float | None = None


@dataclass(frozen=True, slots=True)
class ConditionRecord:
    """A condition with the names that people give to metrics."""

    type: str
    status: ConditionStatus
    reason: str
    message: str
    last_transition_time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One target at one sync.  Instants are in Unix seconds; counts that are not known are None."""

    target: str
    time: float
    state: State
    message: str
    outcome: Outcome
    min_replicas: int
    max_replicas: int
    current_replicas: int | None
    desired_replicas: int | None
    metrics: tuple[MetricRecord, ...]
    cause: str | None = None
    write: str | None = None
    controlled_by: str | None = None
    held_until: float | None = None
    releases_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """How the decision of a record was made; ``reason`` has the HPA's names of metrics."""

    zone: Zone
    scale: ScaleRecord | Failure
    metrics: tuple[MetricDetails, ...]
    stages: tuple[StageRecord, ...]
    rescale: bool
    reason: str
    conditions: tuple[ConditionRecord, ...]
    events: tuple[Event, ...]
    current_metrics: list[Json]
    foreign_change: ForeignChange | None = None


# -- writing it ----------------------------------------------------------------------------------

_INSTANTS = frozenset(
    {
        "held_until",
        "last_transition_time",
        "nothing_down_before",
        "releases_at",
        "returned",
        "time",
        "unseen_until",
        "until",
    }
)
_PLAIN = frozenset({str, int, bool, type(None)})
"""The types of most values, which are shown as they are."""


def as_json(record: Any, only: Collection[str] = ()) -> Json:
    """Return a record's fields, or ``only`` some, as JSON: keys in camelCase, instants as text.

    A field that has a default is left out while it has that.
    """
    return _fields(record, _camel, only)


def as_fields(record: Any, only: Collection[str] = ()) -> Json:
    """Return the same with keys in snake_case, as of a log line."""
    return _fields(record, str, only)


def _fields(record: Any, key: Callable[[str], str], only: Collection[str]) -> Json:
    shown: Json = {}
    for name, default in _defaults(record.__class__):
        if not only or name in only:
            value = getattr(record, name)
            if default is dataclasses.MISSING or value != default:
                shown[key(name)] = _plain(name, value, key)
    return shown


def _plain(name: str, value: object, key: Callable[[str], str]) -> object:
    if type(value) in _PLAIN:
        return value
    if isinstance(value, float):
        # JSON has no infinities and no NaN.
        finite = value if value - value == 0.0 else str(value)
        return instant(value) if name in _INSTANTS else finite
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Unready):
        return {part: _plain(part, one, key) for part, one in value._asdict().items()}
    if isinstance(value, tuple):
        return [_plain("", one, key) for one in value]
    return _fields(value, key, ()) if dataclasses.is_dataclass(value) else value


@cache
def _defaults(kind: Any) -> Sequence[tuple[str, object]]:
    return [(one.name, one.default) for one in dataclasses.fields(kind)]


@cache
def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(one.capitalize() for one in others)


# -- making it -----------------------------------------------------------------------------------


def record_of(result: SyncResult) -> Record:
    """Make what every rendering shows of a result."""
    decision, state = result.decision, state_of(result)
    current = decision.current
    return Record(
        target=wording.target_key(result.target),
        time=decision.time,
        state=state,
        message=printable(verdict(result), LONGEST_SENTENCE),
        outcome=decision.outcome,
        min_replicas=decision.min_replicas,
        max_replicas=decision.max_replicas,
        current_replicas=current,
        desired_replicas=None if current is None else decision.desired,
        metrics=tuple([metric_record(one.metric, one) for one in decision.metrics]),
        cause=cause_of(result, state) or None,
        write=write_word(result.write),
        controlled_by=result.controller or None,
        held_until=decision.held_until,
        releases_at=decision.releases_at,
    )


def metric_record(
    metric: MetricSpec, result: MetricResult | None, absent: str = UNKNOWN
) -> MetricRecord:
    """Make the record of one metric; ``absent`` stands for a value that is not there."""
    name, target_text = wording.metric_name(metric), wording.target_value(metric)
    kind, target = wording.target_number(metric)
    if result is None or not isinstance(result.outcome, Calculation):
        return MetricRecord(name, metric.type, kind, None, target, f"{absent}/{target_text}", None)
    value, text = wording.measured_number(result.outcome.current), wording.usage(result)
    proposal = result.outcome.proposal
    return MetricRecord(name, metric.type, kind, value, target, f"{text}/{target_text}", proposal)


def details_of(result: SyncResult) -> Details:
    """Make the rest of what is known of a result."""
    decision = result.decision
    return Details(
        zone=decision.zone,
        scale=_scale(decision.scale),
        metrics=tuple(map(_metric_details, decision.metrics)),
        stages=_stages(decision),
        rescale=decision.rescale,
        reason=decision.reason,
        conditions=tuple(
            ConditionRecord(
                one.type,
                one.status,
                one.reason,
                wording.plain(one.message, decision),
                one.last_transition,
            )
            for one in decision.conditions
        ),
        events=tuple(
            replace(one, message=wording.plain(one.message, decision)) for one in decision.events
        ),
        current_metrics=current_metrics(decision),
        foreign_change=decision.foreign,
    )


def _metric_details(result: MetricResult) -> MetricDetails:
    outcome, reading, refill = result.outcome, result.reading, result.refill
    gaps = _gaps(reading)
    if not isinstance(outcome, Calculation):
        return MetricDetails(failed=outcome.reason, error=outcome.message, missing=gaps)
    usage, request = wording.usage_and_request(result) or (None, None)
    return MetricDetails(
        usage=usage,
        request=request,
        total=wording.total(result),
        missing=gaps,
        ratio=outcome.ratio,
        rule=outcome.rule,
        values=tuple(map(format_milli, reading.values)) if isinstance(reading, Values) else None,
        multiplier=outcome.multiplier,
        rebalanced_ratio=outcome.rebalanced_ratio,
        pods=outcome.groups,
        negative_sum=outcome.negative_sum,
        returned=None if refill is None else refill.returned,
        nothing_down_before=None if refill is None else refill.until,
    )


def whole(result: SyncResult, sources: Sequence[QuerySource] = ()) -> Json:
    """Return all of a result as JSON; ``sources`` are of the target's queries."""
    record, details = record_of(result), details_of(result)
    metrics = [
        as_json(metric) | as_json(more) | _query(result, index, sources)
        for index, (metric, more) in enumerate(zip(record.metrics, details.metrics, strict=True))
    ]
    return as_json(record) | as_json(details) | {"metrics": metrics}


def write_word(write: WriteOutcome | None) -> str | None:
    """Return a word for what became of the write; None where none was due."""
    words = {Written: "written", Superseded: "superseded", WriteFailed: "failed"}
    if isinstance(write, NotWritten):
        return write.reason.value
    return None if write is None else words[type(write)]


def _scale(scale: Scale | Unavailable) -> ScaleRecord | Failure:
    if isinstance(scale, Unavailable):
        return Failure(printable(scale.message, LONGEST_SENTENCE))
    selector = printable(scale.selector, LONGEST_SENTENCE)
    return ScaleRecord(scale.spec_replicas, scale.status_replicas, selector)


def promql_of(result: SyncResult, index: int) -> str:
    """Return the PromQL of a metric on one line that is no longer than a sentence."""
    queries = result.target.queries
    return printable(queries[index].promql, LONGEST_SENTENCE) if index < len(queries) else ""


def _query(result: SyncResult, index: int, sources: Sequence[QuerySource]) -> Json:
    query: Json = {"promql": promql_of(result, index)}
    if index >= len(sources):
        return {"query": query}
    shown: Json = {"query": {"source": sources[index].name} | query}
    return shown | {"default": True} if sources[index].default else shown


def _gaps(reading: Reading) -> tuple[Gap, ...]:
    if isinstance(reading, Gap):
        return (reading,)
    if isinstance(reading, PodSamples):
        return (*reading.gaps, *reading.dropped.values())
    return reading.gaps


def _stages(decision: Decision) -> tuple[StageRecord, ...]:
    held, limit = decision.stabilization, decision.limit
    stages: list[StageRecord] = []
    for one in decision.stages:
        stage = StageRecord(one.name, one.before, one.after, one.reason)
        if one.name == "stabilize" and held is not None:
            stage = replace(stage, held_by=held.held_by, until=held.until)
        elif one.name == "limit" and limit is not None and limit.policy is not None:
            stage = replace(
                stage, policy=limit.policy, unseen_until=limit.unseen, until=limit.until
            )
        stages.append(stage)
    return tuple(stages)
