"""Whether a target is active, and when it may go idle (semantics 8.3)."""

from collections.abc import Sequence
from dataclasses import replace

from autoscaler.core.decision import Activity, IdleStatus
from autoscaler.core.extensions import Extensions, Idle
from autoscaler.core.gaps import current_refill
from autoscaler.core.history import UNKNOWN, ExtensionHistory, History
from autoscaler.core.observation import Observation, Values
from autoscaler.core.spec import MetricSpec, measures_pods

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
        if measures_pods(metric):
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
    known: ExtensionHistory, stamp: float, *, active: bool, is_new: bool
) -> ExtensionHistory:
    """Return what is known of the target's activity after this sync.

    ``is_new`` says that it had no sync before.
    """
    first_seen, last_active = known.first_seen, known.last_active
    if first_seen is None:
        first_seen = stamp if is_new else UNKNOWN
    if last_active is None or active:
        last_active = stamp
    if first_seen == known.first_seen and last_active == known.last_active:
        return known
    return replace(known, first_seen=first_seen, last_active=last_active)


def idle_status(
    idle: Idle,
    activities: Activities,
    known: ExtensionHistory,
    current: int,
    kept_awake: bool,  # noqa: FBT001 - a fact of the bounds
) -> IdleStatus:
    """Return how the target stands with its rule, after `note_activity`."""
    last_active = known.last_active or UNKNOWN
    until = max(last_active + idle.after, (known.first_seen or UNKNOWN) + idle.initially)
    asleep = current <= idle.replicas
    return IdleStatus(idle, is_active(activities), last_active, until, asleep, kept_awake)


def is_active(activities: Activities) -> bool:
    """Return whether a metric is active, or may be."""
    return Activity.ACTIVE in activities or Activity.UNKNOWN in activities
