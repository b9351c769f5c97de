"""Rate limits, bounds and scale events (semantics 4.1, 4.3, 4.4)."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from autoscaler.core.decision import Limit
from autoscaler.core.history import ScaleEvent
from autoscaler.core.numbers import ceil32, saturate32, trunc32
from autoscaler.core.spec import Behavior, PolicyType, ScalingPolicy, ScalingRules, SelectPolicy

WITHIN_RANGE = "DesiredWithinRange"
TOO_FEW = "TooFewReplicas"
TOO_MANY = "TooManyReplicas"
SCALE_UP_LIMIT = "ScaleUpLimit"
SCALE_DOWN_LIMIT = "ScaleDownLimit"

Events = tuple[ScaleEvent, ...]
Allowance = tuple[int, ScalingPolicy | None]
"""The count at the limit, and the policy that sets it; None if scaling is disabled."""


def limit_legacy(current: int, stabilized: int, minimum: int, maximum: int) -> Limit:
    """Permit at most a doubling (at least 4) within the bounds: the path without behavior."""
    doubled = trunc32(max(2.0 * float(current), 4.0))
    allowed, reason = (doubled, SCALE_UP_LIMIT) if maximum > doubled else (maximum, TOO_MANY)
    if stabilized < minimum:
        return Limit(stabilized, minimum, TOO_FEW, minimum)
    if stabilized > allowed:
        return Limit(stabilized, allowed, reason, allowed)
    return Limit(stabilized, stabilized, WITHIN_RANGE)


@dataclass(frozen=True, slots=True)
class Changes:
    """The scale events of both directions.

    Until ``unseen`` other instances of ours may have written unseen; None if they cannot have.
    """

    ups: Events = ()
    downs: Events = ()
    unseen: float | None = None


def limit(
    current: int,
    stabilized: int,
    bounds: tuple[int, int],
    behavior: Behavior,
    changes: Changes,
    now: float,
) -> Limit:
    """Apply the policies and the bound of the direction: the path with behavior.

    ``bounds`` are minReplicas and maxReplicas.
    """
    minimum, maximum = bounds
    if stabilized > current:
        rates = _Rates(current, behavior.scale_up, changes, _permitted_up)
        return _limit_up(stabilized, maximum, rates, now)
    if stabilized < current:
        rates = _Rates(current, behavior.scale_down, changes, _permitted_down)
        return _limit_down(stabilized, minimum, rates, now)
    return Limit(stabilized, stabilized, WITHIN_RANGE)


@dataclass(frozen=True, slots=True)
class _Rates:
    """The policies of one direction: what they permit at any time."""

    current: int
    rules: ScalingRules
    changes: Changes
    permitted: Callable[[int, ScalingRules, Changes, float], Allowance]

    def at(self, time: float) -> Allowance:
        return self.permitted(self.current, self.rules, self.changes, time)

    def unseen_at(self, policy: ScalingPolicy | None, now: float) -> float | None:
        """Return `Changes.unseen` if the policy permits no change because of it."""
        if policy is None or not _unseen_within(policy, self.changes, now):
            return None
        return self.changes.unseen

    def first(self, permits_more: Callable[[int], bool], now: float) -> float | None:
        """Return the first instant at which an event leaves a period and more is permitted."""
        if self.rules.select_policy is SelectPolicy.DISABLED:
            return None
        times = {event.time for event in (*self.changes.ups, *self.changes.downs)}
        if self.changes.unseen is not None:
            times.add(self.changes.unseen)
        instants = {
            time + policy.period_seconds
            for policy in self.rules.policies
            for time in times
            if time > now - policy.period_seconds
        }
        return next((at for at in sorted(instants) if permits_more(self.at(at)[0])), None)


def _limit_up(stabilized: int, maximum: int, rates: _Rates, now: float) -> Limit:
    allowed, policy = rates.at(now)
    if stabilized <= min(allowed, maximum):
        return Limit(stabilized, stabilized, WITHIN_RANGE)
    if maximum <= allowed:
        return Limit(stabilized, maximum, TOO_MANY, maximum)
    until = rates.first(lambda then: then > allowed, now)
    unseen = rates.unseen_at(policy, now)
    return Limit(stabilized, allowed, SCALE_UP_LIMIT, allowed, policy, until, unseen)


def _limit_down(stabilized: int, minimum: int, rates: _Rates, now: float) -> Limit:
    allowed, policy = rates.at(now)
    if stabilized >= max(allowed, minimum):
        return Limit(stabilized, stabilized, WITHIN_RANGE)
    if minimum >= allowed:
        return Limit(stabilized, minimum, TOO_FEW, minimum)
    until = rates.first(lambda then: then < allowed, now)
    unseen = rates.unseen_at(policy, now)
    return Limit(stabilized, allowed, SCALE_DOWN_LIMIT, allowed, policy, until, unseen)


def release_after_write(limited: Limit, behavior: Behavior, changes: Changes, now: float) -> Limit:
    """Return the limit with the instant from which more is permitted than has just been written.

    ``changes`` include the scale event of that write.
    """
    replicas = limited.after
    if limited.reason == SCALE_UP_LIMIT:
        rates = _Rates(replicas, behavior.scale_up, changes, _permitted_up)
        return replace(limited, until=rates.first(lambda then: then > replicas, now))
    if limited.reason == SCALE_DOWN_LIMIT:
        rates = _Rates(replicas, behavior.scale_down, changes, _permitted_down)
        return replace(limited, until=rates.first(lambda then: then < replicas, now))
    return limited


def _permitted_up(current: int, rules: ScalingRules, changes: Changes, now: float) -> Allowance:
    """Return the scale-up limit (`calculateScaleUpLimitWithScalingRules`)."""
    if rules.select_policy is SelectPolicy.DISABLED:
        return current, None
    proposals: list[Allowance] = []
    for policy in rules.policies:
        start = saturate32(current - _used(changes.ups, changes.downs, policy, now))
        if _unseen_within(policy, changes, now):
            proposals.append((current, policy))
        elif policy.type is PolicyType.PODS:
            proposals.append((saturate32(start + policy.value), policy))
        else:
            factor = 1 + float(policy.value) / 100
            proposals.append((ceil32(float(start) * factor), policy))
    choose = min if rules.select_policy is SelectPolicy.MIN else max
    replicas, chosen = choose(proposals, key=_replicas)
    return max(replicas, current), chosen


def _permitted_down(current: int, rules: ScalingRules, changes: Changes, now: float) -> Allowance:
    """Return the scale-down limit (`calculateScaleDownLimitWithBehaviors`)."""
    if rules.select_policy is SelectPolicy.DISABLED:
        return current, None
    proposals: list[Allowance] = []
    for policy in rules.policies:
        start = saturate32(current + _used(changes.downs, changes.ups, policy, now))
        if _unseen_within(policy, changes, now):
            proposals.append((current, policy))
        elif policy.type is PolicyType.PODS:
            proposals.append((saturate32(start - policy.value), policy))
        else:
            factor = 1 - float(policy.value) / 100
            proposals.append((trunc32(float(start) * factor), policy))
    choose = max if rules.select_policy is SelectPolicy.MIN else min
    replicas, chosen = choose(proposals, key=_replicas)
    return min(replicas, current), chosen


def _replicas(allowance: Allowance) -> int:
    return allowance[0]


def _used(own: Events, other: Events, policy: ScalingPolicy, now: float) -> int:
    """Return the net change in a direction within a policy's period (`getReplicasChangePerPeriod`).

    If the time of an event is uncertain, one of the ``own`` direction counts as long as it may be
    within the period, one of the ``other`` direction only while it certainly is.
    """
    cutoff = now - policy.period_seconds
    used = sum(event.change for event in own if event.may_be_after(cutoff))
    return used - sum(event.change for event in other if event.is_after(cutoff))


def _unseen_within(policy: ScalingPolicy, changes: Changes, now: float) -> bool:
    """Return whether unseen changes may be within a policy's period."""
    return changes.unseen is not None and changes.unseen > now - policy.period_seconds


def record_event(
    events: Events, rules: ScalingRules, entry: ScaleEvent, now: float | None = None
) -> Events:
    """Store a scale event in the last outdated slot, else append it (`storeScaleEvent`).

    Ages are taken at ``now``, by default at the time of the event.
    """
    at = entry.time if now is None else now
    longest = max(policy.period_seconds for policy in rules.policies)
    slot = None
    marked: list[ScaleEvent] = []
    for index, event in enumerate(events):
        outdated = event.outdated or event.time < at - longest
        marked.append(replace(event, outdated=outdated))
        if outdated:
            slot = index
    if slot is None:
        marked.append(entry)
    else:
        marked[slot] = entry
    return tuple(marked)
