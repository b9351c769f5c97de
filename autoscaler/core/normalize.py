"""Normalization: stabilization, then policies and bounds, and the scale events (semantics 4)."""

import math
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter

from autoscaler.core.decision import (
    READY,
    SCALE_DOWN_LIMIT,
    SCALE_DOWN_STABILIZED,
    SCALE_UP_LIMIT,
    SCALE_UP_STABILIZED,
    TOO_FEW,
    TOO_MANY,
    WITHIN_RANGE,
    Limit,
    Stabilization,
)
from autoscaler.core.history import History, Recommendation, ScaleEvent
from autoscaler.core.numbers import ceil32, saturate32, trunc32
from autoscaler.core.spec import (
    Behavior,
    Flags,
    PolicyType,
    ScalingPolicy,
    ScalingRules,
    SelectPolicy,
    down_window,
)

Recommendations = tuple[Recommendation, ...]
Events = tuple[ScaleEvent, ...]
_TIME = attrgetter("time")


# -- stabilization -------------------------------------------------------------------------------


def stabilize_legacy(
    desired: int,
    recommendations: Recommendations,
    window: float,
    now: float,
    stamp: float | None = None,
) -> tuple[Stabilization, Recommendations]:
    """Return the largest of the desired count and the recommendations of the window.

    This is the path without behavior (semantics 4.1): an entry exactly as old as the window counts.
    The desired count is recorded with ``stamp``, by default ``now``.
    """
    cutoff = now - window
    largest = desired
    old_slot = None
    for slot, entry in enumerate(recommendations):
        if entry.time < cutoff:
            old_slot = slot
        elif entry.replicas > largest:
            largest = entry.replicas
    recorded = _record(recommendations, old_slot, desired, now if stamp is None else stamp)
    if largest == desired:
        return Stabilization(desired, desired, READY), recorded
    holder = _last([entry for entry in recommendations if entry.replicas >= largest])
    # An entry exactly at the end of the window counts: the next instant is the first without it.
    until = math.nextafter(holder.time + window, math.inf)
    return Stabilization(desired, largest, SCALE_DOWN_STABILIZED, holder, until), recorded


def stabilize(
    current: int,
    desired: int,
    recommendations: Recommendations,
    behavior: Behavior | None,
    flags: Flags,
    now: float,
    stamp: float | None = None,
) -> tuple[Stabilization, Recommendations]:
    """Move from the current count toward the desired one as far as both windows permit (4.2)."""
    down_seconds = down_window(behavior, flags)
    if behavior is None:
        return stabilize_legacy(desired, recommendations, down_seconds, now, stamp)
    up_cutoff = now - (up_seconds := float(behavior.scale_up.stabilization_window_seconds or 0))
    down_cutoff = now - down_seconds
    low = high = desired
    old_slot = None
    # An entry exactly as old as a window does not count.
    for slot, entry in enumerate(recommendations):
        time, count = entry.time, entry.replicas
        if time > up_cutoff and count < low and not entry.only_down:
            low = count
        if time > down_cutoff and count > high:
            high = count
        elif time < up_cutoff and time < down_cutoff:
            old_slot = slot
    after = min(max(current, low), high)
    recorded = _record(recommendations, old_slot, desired, now if stamp is None else stamp)
    if after == desired:
        return Stabilization(desired, desired, READY), recorded
    # The recommendation nearest to the count on that side: no change passes it for a window.
    if desired >= current:
        holders = [
            entry for entry in recommendations if entry.replicas <= after and not entry.only_down
        ]
        reason, seconds = SCALE_UP_STABILIZED, up_seconds
    else:
        holders = [entry for entry in recommendations if entry.replicas >= after]
        reason, seconds = SCALE_DOWN_STABILIZED, down_seconds
    holder = _last(holders)
    return Stabilization(desired, after, reason, holder, holder.time + seconds), recorded


def _last(recommendations: Sequence[Recommendation]) -> Recommendation:
    return max(recommendations, key=_TIME)


def _record(
    recommendations: Recommendations, slot: int | None, desired: int, stamp: float
) -> Recommendations:
    entry = Recommendation(desired, stamp)
    if slot is None:
        return (*recommendations, entry)
    return (*recommendations[:slot], entry, *recommendations[slot + 1 :])


# -- policies and bounds -------------------------------------------------------------------------


def limit_legacy(current: int, stabilized: int, minimum: int, maximum: int) -> Limit:
    """Permit at most a doubling (at least 4), within the bounds: the path without behavior."""
    doubled = trunc32(max(2.0 * float(current), 4.0))
    allowed, reason = (doubled, SCALE_UP_LIMIT) if maximum > doubled else (maximum, TOO_MANY)
    if stabilized < minimum:
        return Limit(stabilized, minimum, TOO_FEW, minimum)
    if stabilized > allowed:
        return Limit(stabilized, allowed, reason, allowed)
    return Limit(stabilized, stabilized, WITHIN_RANGE)


def limit(
    current: int,
    stabilized: int,
    bounds: tuple[int, int],
    behavior: Behavior | None,
    history: History,
    now: float,
) -> Limit:
    """Apply the policies and the ``bounds``, which are minReplicas and maxReplicas (4.3)."""
    if behavior is None:
        return limit_legacy(current, stabilized, *bounds)
    if stabilized == current:
        return Limit(stabilized, stabilized, WITHIN_RANGE)
    rates = _Rates(current, behavior, history, up=stabilized > current)
    bound = bounds[rates.up]
    allowed, policy = rates.limit_at(now)
    if rates.beyond(stabilized, bound) and not rates.beyond(bound, allowed):
        return Limit(stabilized, bound, TOO_MANY if rates.up else TOO_FEW, bound)
    if not rates.beyond(stabilized, allowed):
        return Limit(stabilized, stabilized, WITHIN_RANGE)
    reason, until = rates.reason, rates.first_beyond(allowed, now)
    if policy is None:
        return Limit(stabilized, allowed, reason, allowed, policy, until)
    unseen = history.unseen if rates.unseen_within(policy, now) else None
    start = rates.start_of(policy, now)
    return Limit(stabilized, allowed, reason, allowed, policy, until, unseen, start)


def release_after_write(limited: Limit, behavior: Behavior, history: History, now: float) -> Limit:
    """Return a limit after the write: when the policies permit more."""
    if limited.reason not in {SCALE_UP_LIMIT, SCALE_DOWN_LIMIT}:
        return limited
    rates = _Rates(limited.after, behavior, history, up=limited.reason == SCALE_UP_LIMIT)
    return replace(limited, until=rates.first_beyond(limited.after, now))


class _Rates:
    """The policies of one direction: what they permit at any time."""

    def __init__(self, current: int, behavior: Behavior, history: History, *, up: bool) -> None:
        self.up = up
        self.reason = SCALE_UP_LIMIT if up else SCALE_DOWN_LIMIT
        self._current = current
        self._rules = behavior.scale_up if up else behavior.scale_down
        self._history = history

    def beyond(self, count: int, other: int) -> bool:
        """Return whether the first count is further in the direction than the second."""
        return count > other if self.up else count < other

    def limit_at(self, time: float) -> tuple[int, ScalingPolicy | None]:
        """Return the limit at an instant, and the policy that sets it; None if it is disabled.

        Upstream: `calculateScaleUpLimitWithScalingRules`, `calculateScaleDownLimitWithBehaviors`.
        """
        select = self._rules.select_policy
        if select is SelectPolicy.DISABLED:
            return self._current, None
        limits = [(self._limit_of(policy, time), policy) for policy in self._rules.policies]
        choose = max if self.up is (select is SelectPolicy.MAX) else min
        replicas, policy = choose(limits, key=lambda allowance: allowance[0])
        return self._current if self.beyond(self._current, replicas) else replicas, policy

    def _limit_of(self, policy: ScalingPolicy, time: float) -> int:
        if self.unseen_within(policy, time):
            return self._current
        change = policy.value if self.up else -policy.value
        start = self.start_of(policy, time)
        if policy.type is PolicyType.PODS:
            return saturate32(start + change)
        scaled = float(start) * (1 + float(change) / 100)
        return ceil32(scaled) if self.up else trunc32(scaled)

    def start_of(self, policy: ScalingPolicy, time: float) -> int:
        """Return the count at the start of a policy's period (`getReplicasChangePerPeriod`).

        If the time of an event is uncertain, one of this direction counts as long as it may be
        within the period, one of the other direction only while it certainly is.
        """
        cutoff = time - policy.period_seconds
        ups, downs = self._history.scale_ups, self._history.scale_downs
        own, other = (ups, downs) if self.up else (downs, ups)
        used = sum(event.change for event in own if event.time > cutoff)
        used -= sum(event.change for event in other if event.since > cutoff)
        return saturate32(self._current - used if self.up else self._current + used)

    def unseen_within(self, policy: ScalingPolicy, now: float) -> bool:
        """Return whether other instances may have written unseen in the policy's period."""
        unseen = self._history.unseen
        return unseen is not None and unseen > now - policy.period_seconds

    def first_beyond(self, replicas: int, now: float) -> float | None:
        """Return the first instant at which an event leaves a period and more is permitted."""
        if self._rules.select_policy is SelectPolicy.DISABLED:
            return None
        history = self._history
        times = {event.time for event in (*history.scale_ups, *history.scale_downs)}
        if history.unseen is not None:
            times.add(history.unseen)
        instants = {
            time + policy.period_seconds
            for policy in self._rules.policies
            for time in times
            if time > now - policy.period_seconds
        }
        later = (at for at in sorted(instants) if self.beyond(self.limit_at(at)[0], replicas))
        return next(later, None)


def record_event(
    events: Events, rules: ScalingRules, entry: ScaleEvent, now: float | None = None
) -> Events:
    """Store a scale event in the last slot outdated ``now``, else append it (`storeScaleEvent`)."""
    at = entry.time if now is None else now
    longest = max(policy.period_seconds for policy in rules.policies)
    slot = len(events)
    marked: list[ScaleEvent] = []
    for index, event in enumerate(events):
        outdated = event.outdated or event.time < at - longest
        marked.append(event if event.outdated is outdated else replace(event, outdated=outdated))
        if outdated:
            slot = index
    marked[slot : slot + 1] = [entry]
    return tuple(marked)
