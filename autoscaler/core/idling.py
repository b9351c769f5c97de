"""Whether a target is active, and when it may go idle (semantics 8.3)."""

from collections.abc import Sequence
from dataclasses import replace

from autoscaler.core.decision import Activity, IdleStatus
from autoscaler.core.extensions import Extensions, Idle
from autoscaler.core.gaps import current_refill
from autoscaler.core.history import UNKNOWN, History
from autoscaler.core.observation import Observation, Values
from autoscaler.core.spec import ExternalMetric, MetricSpec, ObjectMetric

Activities = tuple[Activity | None, ...]
"""One for each metric of the spec; None for a metric that takes no part."""


def activities_of(
    metrics: Sequence[MetricSpec],
    extensions: Extensions,
    observation: Observation,
    history: History,
    now: float,
) -> Activities:
    """Return whether each metric is above its activation."""
    count = len(metrics)
    activations = extensions.activations or (0,) * count
    ranges = observation.ranges or (None,) * count
    found: list[Activity | None] = []
    for metric, reading, activation, seconds in zip(
        metrics, observation.readings, activations, ranges, strict=True
    ):
        if not isinstance(metric, ExternalMetric | ObjectMetric):
            found.append(None)
        elif not isinstance(reading, Values):
            found.append(Activity.UNKNOWN)
        elif sum(reading.values) > activation:
            found.append(Activity.ACTIVE)
        elif reading.gaps or (
            seconds is not None and current_refill(history, metric, seconds, now) is not None
        ):
            found.append(Activity.UNKNOWN)
        else:
            found.append(Activity.INACTIVE)
    return tuple(found)


def note_activity(
    idle: Idle, activities: Activities, current: int, history: History, stamp: float
) -> tuple[IdleStatus, History]:
    """Return how the target stands with its idle rule, and the history with this sync in it."""
    active = any(one in {Activity.ACTIVE, Activity.UNKNOWN} for one in activities)
    first_seen, last_active = history.first_seen, history.last_active
    if first_seen is None:
        first_seen = stamp if history.recommendations is None else UNKNOWN
    if active or last_active is None:
        last_active = stamp
    if (first_seen, last_active) != (history.first_seen, history.last_active):
        history = replace(history, first_seen=first_seen, last_active=last_active)
    until = max(last_active + idle.after, first_seen + idle.initially)
    return IdleStatus(idle, active, last_active, until, current <= idle.replicas), history
