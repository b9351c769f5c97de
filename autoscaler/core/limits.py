"""Rate limits, bounds and scale events (semantics 4.1, 4.3, 4.4)."""

from dataclasses import dataclass, replace

from autoscaler.core.decision import Limit
from autoscaler.core.history import ScaleEvent
from autoscaler.core.numbers import INT32_MAX, ceil32, saturate32, trunc32
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
    if stabilized == current:
        return Limit(stabilized, stabilized, WITHIN_RANGE)
    rates = _Rates(current, behavior, changes, up=stabilized > current)
    minimum, maximum = bounds
    bound = maximum if rates.up else minimum
    allowed, policy = rates.limit_at(now)
    if rates.beyond(stabilized, bound) and not rates.beyond(bound, allowed):
        return Limit(stabilized, bound, TOO_MANY if rates.up else TOO_FEW, bound)
    if rates.beyond(stabilized, allowed):
        reason = SCALE_UP_LIMIT if rates.up else SCALE_DOWN_LIMIT
        until, unseen = rates.first_beyond(allowed, now), rates.unseen_at(policy, now)
        return Limit(stabilized, allowed, reason, allowed, policy, until, unseen)
    return Limit(stabilized, stabilized, WITHIN_RANGE)


def permitted(
    current: int,
    bounds: tuple[int, int],
    behavior: Behavior | None,
    changes: Changes,
    now: float,
) -> tuple[int, int]:
    """Return the least and the largest count that policies and bounds permit to go to at once."""
    minimum, maximum = bounds
    if behavior is None:
        return min(current, minimum), max(
            current, limit_legacy(current, INT32_MAX, minimum, maximum).after
        )
    down, up = (_Rates(current, behavior, changes, up=up).limit_at(now)[0] for up in (False, True))
    return min(current, max(minimum, down)), max(current, min(maximum, up))


def release_after_write(limited: Limit, behavior: Behavior, changes: Changes, now: float) -> Limit:
    """Return the limit with the instant from which more is permitted than has just been written.

    ``changes`` include the scale event of that write.
    """
    if limited.reason not in {SCALE_UP_LIMIT, SCALE_DOWN_LIMIT}:
        return limited
    rates = _Rates(limited.after, behavior, changes, up=limited.reason == SCALE_UP_LIMIT)
    return replace(limited, until=rates.first_beyond(limited.after, now))


class _Rates:
    """The policies of one direction: what they permit at any time."""

    def __init__(self, current: int, behavior: Behavior, changes: Changes, *, up: bool) -> None:
        self.up = up
        self._current = current
        self._rules = behavior.scale_up if up else behavior.scale_down
        self._changes = changes

    def beyond(self, one: int, other: int) -> bool:
        """Return whether one count is further in the direction than the other."""
        return one > other if self.up else one < other

    def limit_at(self, time: float) -> Allowance:
        """Return the limit of all policies at an instant.

        Upstream: `calculateScaleUpLimitWithScalingRules`, `calculateScaleDownLimitWithBehaviors`.
        """
        select = self._rules.select_policy
        if select is SelectPolicy.DISABLED:
            return self._current, None
        limits = [(self._limit_of(policy, time), policy) for policy in self._rules.policies]
        choose = max if self.up is (select is SelectPolicy.MAX) else min
        replicas, policy = choose(limits, key=_replicas)
        return self._current if self.beyond(self._current, replicas) else replicas, policy

    def _limit_of(self, policy: ScalingPolicy, time: float) -> int:
        if self._unseen_within(policy, time):
            return self._current
        change = policy.value if self.up else -policy.value
        start = self._start(time - policy.period_seconds)
        if policy.type is PolicyType.PODS:
            return saturate32(start + change)
        scaled = float(start) * (1 + float(change) / 100)
        return ceil32(scaled) if self.up else trunc32(scaled)

    def _start(self, cutoff: float) -> int:
        """Return the count without our changes after an instant (`getReplicasChangePerPeriod`).

        If the time of an event is uncertain, one of this direction counts as long as it may be
        after the instant, one of the other only while it certainly is.
        """
        ups, downs = self._changes.ups, self._changes.downs
        own, other = (ups, downs) if self.up else (downs, ups)
        used = sum(event.change for event in own if event.may_be_after(cutoff))
        used -= sum(event.change for event in other if event.is_after(cutoff))
        return saturate32(self._current - used if self.up else self._current + used)

    def _unseen_within(self, policy: ScalingPolicy, now: float) -> bool:
        unseen = self._changes.unseen
        return unseen is not None and unseen > now - policy.period_seconds

    def unseen_at(self, policy: ScalingPolicy | None, now: float) -> float | None:
        """Return `Changes.unseen` if the policy permits no change because of it."""
        if policy is None or not self._unseen_within(policy, now):
            return None
        return self._changes.unseen

    def first_beyond(self, replicas: int, now: float) -> float | None:
        """Return the first instant at which an event leaves a period and more is permitted."""
        if self._rules.select_policy is SelectPolicy.DISABLED:
            return None
        times = {event.time for event in (*self._changes.ups, *self._changes.downs)}
        if self._changes.unseen is not None:
            times.add(self._changes.unseen)
        instants = {
            time + policy.period_seconds
            for policy in self._rules.policies
            for time in times
            if time > now - policy.period_seconds
        }
        later = (at for at in sorted(instants) if self.beyond(self.limit_at(at)[0], replicas))
        return next(later, None)


def _replicas(allowance: Allowance) -> int:
    return allowance[0]


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
