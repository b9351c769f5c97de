"""The record of one target at one sync: what the log, `plan -o json` and `/api/v1/targets` show.

`record_of` makes what all of them show, quickly, since a page shows thousands; `details_of` and
`metric_details` add what only some show.  `as_json` and `as_fields` make keys of the names of
fields, so that each field has one name everywhere.
"""

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from typing import Any, NamedTuple

from autoscaler.core.decision import (
    Activity,
    Bounds,
    BreakerHold,
    Calculation,
    Decision,
    IdleStatus,
    MetricResult,
    Outcome,
    Stage,
)
from autoscaler.core.extensions import FallbackBehavior, Pause, PauseMode
from autoscaler.core.grouping import Unready
from autoscaler.core.observation import (
    LONGEST_SENTENCE,
    Gap,
    PodSamples,
    Reading,
    Scale,
    Unavailable,
    Values,
)
from autoscaler.core.quantity import format_milli
from autoscaler.core.spec import MetricSpec
from autoscaler.core.status import current_metrics
from autoscaler.core.text import printable, rfc3339
from autoscaler.core.writes import NotWritten, Superseded, WriteFailed, WriteOutcome, Written
from autoscaler.rendering import extension_words, wording
from autoscaler.rendering.verdict import State, cause_of, state_of, verdict
from autoscaler.sync.ports import SyncResult

Json = dict[str, object]

WRITTEN = "written"
"""The word for a write that the API server accepted."""
UNKNOWN, NOT_ASKED = "<unknown>", "-"
"""In place of the value of a metric that is missing, and of one that the decision did not need."""


class QuerySource(NamedTuple):
    """Where a metric's PromQL comes from: `queries.NAME`, the metric's own, a built-in one.

    ``default`` is of the metric that a target without `metrics` has.
    """

    name: str
    default: bool = False


@dataclass(frozen=True, slots=True)
class FallbackRecord:
    """The fallback's proposal stands for a metric that failed in so many syncs in a row."""

    behavior: FallbackBehavior
    failed_syncs: int


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
    activity: Activity | None = None
    fallback: FallbackRecord | None = None


@dataclass(frozen=True, slots=True)
class PauseRecord:
    """A pause: what it prevents, whose it is, the count that it asks for, and when it ends.

    ``prevented_replicas`` is the count that the target would have without it, if another.
    """

    mode: PauseMode
    by: str
    replicas: int | None = None
    until: float | None = None
    prevented_replicas: int | None = None


@dataclass(frozen=True, slots=True)
class IdleRecord:
    """How a target stands with its `idle` rule; ``goes_idle`` is None if it is so or will not."""

    asleep: bool
    active: bool
    last_active: float
    goes_idle: float | None = None


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
    breaker: BreakerHold | None = None
    releases_at: float | None = None
    min_replicas_by: str | None = None
    """What sets the minimum in force, if not the target itself."""
    max_replicas_by: str | None = None
    missing_bound: str | None = None
    """Why the query of a bound has no value."""
    pause: PauseRecord | None = None
    idle: IdleRecord | None = None


# -- writing it ----------------------------------------------------------------------------------

_INSTANTS = frozenset(
    {
        "goes_idle",
        "held_until",
        "last_active",
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


def as_json(record: object, only: Collection[str] = ()) -> Json:
    """Return a record's fields, or ``only`` some, as JSON: keys in camelCase, instants as text.

    A field that has a default is left out while it has that, as are details that are None.
    """
    return _fields(record, _camel, only)


def as_fields(record: object, only: Collection[str] = ()) -> Json:
    """Return the same with keys in snake_case, as of a log line."""
    return _fields(record, str, only)


def _fields(record: Any, key: Callable[[str], str], only: Collection[str]) -> Json:
    named: list[tuple[str, object, object]]
    if isinstance(record, dict):
        named = [(name, value, None) for name, value in record.items()]
    else:
        defaults = _defaults(record.__class__).items()
        named = [(name, getattr(record, name), default) for name, default in defaults]
    return {
        key(name): value if type(value) in _PLAIN else _plain(name, value, key)
        for name, value, default in named
        if value != default and (not only or name in only)
    }


def _plain(name: str, value: object, key: Callable[[str], str]) -> object:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple) and not isinstance(value, Unready):
        return [one if type(one) in _PLAIN else _plain("", one, key) for one in value]
    # A list is JSON already: the HPA's own status.
    if isinstance(value, list):
        return value
    if not isinstance(value, float):
        return _fields(value._asdict() if isinstance(value, Unready) else value, key, ())
    if name in _INSTANTS:
        return rfc3339(value)
    # JSON has no infinities and no NaN.
    return value if math.isfinite(value) else str(value)


@cache
def _defaults(kind: Any) -> Mapping[str, object]:
    return {one.name: one.default for one in dataclasses.fields(kind)}


@cache
def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(one.capitalize() for one in others)


# -- making it -----------------------------------------------------------------------------------


def record_of(result: SyncResult, state: State) -> Record:
    """Make what every rendering shows of a result; ``state`` is that of `state_of`."""
    decision = result.decision
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
        breaker=decision.breaker,
        releases_at=decision.releases_at,
        pause=None if decision.pause is None else _pause(decision.pause, decision),
        idle=None if decision.idle is None else _idle(decision.idle, decision),
        **_bounds(decision.bounds),
    )


def _bounds(bounds: Bounds | None) -> dict[str, str | None]:
    if bounds is None:
        return {}
    return {
        "min_replicas_by": bounds.minimum.by or None,
        "max_replicas_by": bounds.maximum.by or None,
        "missing_bound": printable(bounds.missing, LONGEST_SENTENCE) or None,
    }


def _pause(pause: Pause, decision: Decision) -> PauseRecord:
    return PauseRecord(pause.mode, pause.by, pause.replicas, pause.until, decision.paused_from)


def _idle(idle: IdleStatus, decision: Decision) -> IdleRecord:
    goes = idle.until if extension_words.goes_idle(decision) else None
    return IdleRecord(idle.asleep, idle.active, idle.last_active, goes)


def metric_record(
    metric: MetricSpec, result: MetricResult | None, absent: str = UNKNOWN
) -> MetricRecord:
    """Make the record of one metric; ``absent`` stands for a value that is not there."""
    name, target_text = wording.metric_name(metric), wording.target_value(metric)
    kind, target = wording.target_number(metric)
    if result is None:
        return MetricRecord(name, metric.type, kind, None, target, f"{absent}/{target_text}", None)
    value, text = None, absent
    if isinstance(result.outcome, Calculation):
        value, text = wording.measured_number(result.outcome.current), wording.usage(result)
    use = result.fallback
    return MetricRecord(
        name,
        metric.type,
        kind,
        value,
        target,
        f"{text}/{target_text}",
        result.proposal,
        result.activity,
        None if use is None else FallbackRecord(use.fallback.behavior, use.syncs),
    )


def details_of(result: SyncResult) -> Json:
    """Return the rest of what is known of a result, by the names that `as_json` makes keys of.

    ``reason`` has the HPA's names of metrics.
    """
    decision = result.decision
    return {
        "zone": decision.zone,
        "scale": _scale(decision.scale),
        "stages": tuple(_stage(one, decision) for one in decision.stages),
        "rescale": decision.rescale,
        "reason": decision.reason,
        "conditions": tuple(
            {
                "type": one.type,
                "status": one.status,
                "reason": one.reason,
                "message": wording.plain(one.message, decision),
                "last_transition_time": one.last_transition,
            }
            for one in decision.conditions
        ),
        "events": tuple(
            replace(one, message=wording.plain(one.message, decision)) for one in decision.events
        ),
        "current_metrics": current_metrics(decision),
        "foreign_change": decision.foreign,
    }


def metric_details(result: MetricResult) -> Json:
    """Return how one metric came to its proposal, or why it did not.

    ``usage`` and ``request`` are averages of the pods that a utilization is made of, ``total`` is
    the sum that an average is made of.
    """
    outcome, reading, refill = result.outcome, result.reading, result.refill
    missing = _gaps(reading) or None
    if not isinstance(outcome, Calculation):
        return {"failed": outcome.reason, "error": outcome.message, "missing": missing}
    usage, request = wording.usage_and_request(result) or (None, None)
    return {
        "usage": usage,
        "request": request,
        "total": wording.total(result),
        "missing": missing,
        "ratio": outcome.ratio,
        "rule": outcome.rule,
        "values": [*map(format_milli, reading.values)] if isinstance(reading, Values) else None,
        "multiplier": outcome.multiplier,
        "rebalanced_ratio": outcome.rebalanced_ratio,
        "pods": outcome.groups,
        "negative_sum": outcome.negative_sum or None,
        "returned": None if refill is None else refill.returned,
        "nothing_down_before": None if refill is None else refill.until,
    }


def whole(result: SyncResult, sources: Sequence[QuerySource] = ()) -> Json:
    """Return all of a result as JSON; ``sources`` are of the target's queries."""
    record, results = record_of(result, state_of(result)), result.decision.metrics
    metrics = [
        as_json(metric) | as_json(metric_details(one)) | _query(result, index, sources)
        for index, (metric, one) in enumerate(zip(record.metrics, results, strict=True))
    ]
    return as_json(record) | as_json(details_of(result)) | {"metrics": metrics}


def write_word(write: WriteOutcome | None) -> str | None:
    """Return a word for what became of the write; None where none was due."""
    words = {Written: WRITTEN, Superseded: "superseded", WriteFailed: "failed"}
    if isinstance(write, NotWritten):
        return write.reason.value
    return None if write is None else words[type(write)]


def _scale(scale: Scale | Unavailable) -> Json:
    if isinstance(scale, Unavailable):
        return {"error": printable(scale.message, LONGEST_SENTENCE)}
    return {
        "spec_replicas": scale.spec_replicas,
        "status_replicas": scale.status_replicas,
        "selector": printable(scale.selector, LONGEST_SENTENCE),
    }


def promql_of(result: SyncResult, index: int) -> str:
    """Return the PromQL of a metric on one line that is no longer than a sentence."""
    queries = result.target.queries
    return printable(queries[index].promql, LONGEST_SENTENCE) if index < len(queries) else ""


def server_of(result: SyncResult, index: int) -> str:
    """Return the Prometheus server that a metric's query asks; empty for the default one."""
    queries = result.target.queries
    return queries[index].server if index < len(queries) else ""


def _query(result: SyncResult, index: int, sources: Sequence[QuerySource]) -> Json:
    query: Json = {"promql": promql_of(result, index)}
    if server := server_of(result, index):
        query["server"] = server
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


def _stage(stage: Stage, decision: Decision) -> Json:
    shown, held, limit = dict(as_fields(stage)), decision.stabilization, decision.limit
    if stage.name == "stabilize" and held is not None:
        shown |= {"held_by": held.held_by, "until": held.until}
    elif stage.name == "limit" and limit is not None and limit.policy is not None:
        shown |= {"policy": limit.policy, "unseen_until": limit.unseen, "until": limit.until}
    return shown
