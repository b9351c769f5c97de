"""What is promised of the counts while everything fails, and the check of what was seen.

The loads are known here: a promise is checked against them, not against what a daemon says.
"""

import itertools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks import fleet
from tests.worlds.controlplane.api import Json

PERIOD = 5.0
"""`syncPeriod`, seconds."""
WINDOW = 60
"""`scaleDown.stabilizationWindowSeconds`."""
RANGE = 30
"""The range of `rate()`, seconds."""
PER_REPLICA = 10
LOWEST, HIGHEST = 1, 20
FALLBACK = 3
POLICY_PODS, POLICY_SECONDS = 2, 20
LOOK_SECONDS = 0.25
"""How often the counts are looked at."""

_MARGIN = 2 * PERIOD
"""How much later than it happens a load may be read, and a recommendation expire, seconds."""

_STEPS, _STEP_SECONDS = 3, 15
"""From 1 to 20 the default policies take three steps after the first: 5, 10, 20."""

Courses = Mapping[str, Sequence[tuple[float, int]]]
"""Of each target, when (Unix time) it came to which count."""


@dataclass(frozen=True)
class Kind:
    """A target: the Prometheus servers that it asks, and how."""

    name: str
    servers: tuple[str, ...]
    rate: bool = False
    policy: bool = False
    up_window: int = 0
    more: Json = field(default_factory=dict)

    @property
    def lag(self) -> float:
        """The seconds after which a reading has nothing of an earlier load in it."""
        return (RANGE if self.rate else 2) + _MARGIN


KINDS = (
    Kind("instant-a", ("a",)),
    Kind("instant-b", ("b",)),
    Kind("rate-a", ("a",), rate=True),
    Kind("rate-b", ("b",), rate=True),
    Kind("both", ("a", "b")),
    Kind("policy", ("a",), policy=True),
    Kind("fallback", ("b",), more={"fallback": {"replicas": FALLBACK, "failureThreshold": 3}}),
    Kind("window-up", ("a",), up_window=15),
)


def target(kind: Kind) -> Json:
    """Return the target as the configuration says it."""
    name = "done" if kind.rate else "depth"
    metrics = [
        {
            "type": "External",
            "external": {
                "metric": {
                    "name": f"{name}-{server}",
                    "selector": {"matchLabels": {"queue": kind.name}},
                },
                "target": {"type": "AverageValue", "averageValue": str(PER_REPLICA)},
            },
        }
        for server in kind.servers
    ]
    down: Json = {"stabilizationWindowSeconds": WINDOW}
    if kind.policy:
        policy = {"type": "Pods", "value": POLICY_PODS, "periodSeconds": POLICY_SECONDS}
        down["policies"] = [policy]
    up = {"stabilizationWindowSeconds": kind.up_window}
    return {
        "namespace": fleet.NAMESPACE,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": kind.name},
        "minReplicas": LOWEST,
        "maxReplicas": 2 * HIGHEST,
        "metrics": metrics,
        "behavior": {"scaleDown": down, "scaleUp": up},
        **kind.more,
    }


@dataclass(frozen=True)
class Outage:
    """Parts that did not work, from when to when (Unix times)."""

    begin: float
    end: float
    parts: frozenset[str]


@dataclass(frozen=True)
class Seen:
    """What was needed, what was there, what did not work, and when the looking ended."""

    needed: Courses
    counts: Courses
    outages: Sequence[Outage]
    ended: float


def between(course: Sequence[tuple[float, int]], begin: float, end: float) -> list[int]:
    """Return the counts of some time of [begin, end]."""
    before = [count for at, count in course if at <= begin]
    return [*before[-1:], *(count for at, count in course if begin < at <= end)]


def broken(seen: Seen) -> Iterator[str]:
    """Yield each count that broke a promise, as a line."""
    for kind in KINDS:
        for (_, before), (at, after) in itertools.pairwise(seen.counts[kind.name]):
            line = f"{_clock(at)} {kind.name} {before} -> {after}"
            wrong = _too_low if after < before else _too_high
            if because := wrong(seen, kind, at, after):
                yield f"{line}: {because}"
        if kind.policy:
            yield from _too_fast(seen.counts[kind.name], kind.name)
        yield from _late(seen, kind)


def _too_low(seen: Seen, kind: Kind, at: float, after: int) -> str:
    """Below what was needed, and could be read, within the stabilization window."""
    if after == FALLBACK and _falls_back(seen, kind, at):
        return ""
    course, proven = seen.needed[kind.name], 0
    moment = at - WINDOW + _MARGIN
    while moment <= at - 2:
        if not _away(seen, kind, moment - kind.lag, moment):
            # A reading shows at least the least of the time that it covers.
            proven = max(proven, min(between(course, moment - kind.lag, moment)))
        moment += 1
    return f"{proven} was needed, and read, within the window" if after < proven else ""


def _too_high(seen: Seen, kind: Kind, at: float, after: int) -> str:
    if after == FALLBACK and _falls_back(seen, kind, at):
        return ""
    most = max(between(seen.needed[kind.name], at - WINDOW - kind.lag, at))
    if kind.rate:
        # `rate()` extrapolates to the ends of its range.
        most = math.ceil(most * 1.15) + 1
    return f"at most {most} was needed" if after > most else ""


def _away(seen: Seen, kind: Kind, begin: float, end: float) -> bool:
    """Whether something that a reading or a decision needs was away at some time."""
    own = {"api", *(f"prometheus-{server}" for server in kind.servers)}
    return any(one.parts & own and one.begin <= end and one.end >= begin for one in seen.outages)


def _falls_back(seen: Seen, kind: Kind, at: float) -> bool:
    """Whether the fallback is in force, as a server of it is away or has just returned."""
    if "fallback" not in kind.more:
        return False
    parts = {f"prometheus-{server}" for server in kind.servers}
    return any(one.parts & parts and one.begin <= at <= one.end + 30 for one in seen.outages)


def _too_fast(course: Sequence[tuple[float, int]], name: str) -> Iterator[str]:
    """Yield where more went in one period than the policy permits, however often it was led."""
    period = POLICY_SECONDS - 1 - 2 * LOOK_SECONDS
    for index, (at, count) in enumerate(course):
        for begin, most in course[:index]:
            gone_until = next(when for when, _ in course if when > begin)
            if gone_until > at - period and most - count > POLICY_PODS:
                yield f"{_clock(at)} {name}: {most} -> {count} in {at - gone_until:.0f} s"
                break


def _late(seen: Seen, kind: Kind) -> Iterator[str]:
    """Yield loads that were not followed though everything worked."""
    course = seen.needed[kind.name]
    for index, (at, needed) in enumerate(course):
        follow = kind.lag + kind.up_window + PERIOD + 5 + _STEPS * _STEP_SECONDS
        down = index > 0 and needed < course[index - 1][1]
        until = at + follow + (WINDOW + 2 * RANGE if down else 0)
        ends = course[index + 1][0] if index + 1 < len(course) else math.inf
        # What goes wrong before a step may delay it by a takeover or a range that fills again.
        disturbed = any(one.begin < until and one.end > at - 60 for one in seen.outages)
        if disturbed or until > min(ends, seen.ended) or (kind.policy and down):
            continue
        last = between(seen.counts[kind.name], until, until)[-1]
        if last < needed or last > needed + kind.rate:
            later = f"{until - at:.0f} s later"
            yield f"{_clock(at)} {kind.name}: {needed} needed, {last} there {later}"


def _clock(at: float) -> str:
    return time.strftime("%T", time.gmtime(at))
