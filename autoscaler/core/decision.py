"""The record of one decision: its inputs, the result of each stage, and the reasons."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from autoscaler.core.extensions import Fallback, Idle, Pause
from autoscaler.core.history import Condition, KnownBound, Recommendation
from autoscaler.core.observation import Gap, GapKind, HoldReading, Hpa, ReadFailure, Reading, Scale
from autoscaler.core.quick import quick
from autoscaler.core.spec import MetricSpec, ScalingPolicy, Tolerance


class Formula(StrEnum):
    """The formula that gave a proposal (semantics 2.2 to 2.5)."""

    WITHIN_TOLERANCE = "WithinTolerance"
    """The ratio is within tolerance: no change."""
    READY_PODS = "ReadyPods"
    """The ratio times the number of ready pods, rounded up."""
    ABOVE_TARGET = "AboveTarget"
    """No change, since the usage is above the target and few pods are ready (6.18)."""
    REBALANCED = "Rebalanced"
    """The ratio with assumed values for missing and unready pods, times all samples, rounded up."""
    REBALANCED_AWAY = "RebalancedAway"
    """No change, since the ratio with assumed values for missing and unready pods disagrees."""
    USAGE_OVER_TARGET = "UsageOverTarget"
    """The total usage divided by the target average, rounded up."""
    FROM_ZERO = "FromZero"
    """The ratio itself, rounded up, at zero replicas."""
    SURGE = "Surge"
    """No change: the ratio without the pods of a surge does not confirm a scale-down (8.5)."""


class UnreadyRule(StrEnum):
    """Why a pod is unready (semantics 3); all rules but the first apply to cpu only."""

    PENDING = "Pending"
    """Its phase is Pending."""
    NO_STATUS = "NoStatus"
    """It has no Ready condition or no start time yet."""
    NOT_READY = "NotReady"
    """It is not Ready, and within the CPU initialization period."""
    SAMPLE_WINDOW = "SampleWindow"
    """It is Ready, but its sample covers a time before it was Ready."""
    NEVER_READY = "NeverReady"
    """It has never been Ready."""


class Unready(NamedTuple):
    """An unready pod, the rule, and the instant from which the rule no longer applies, if known."""

    pod: str
    rule: UnreadyRule
    until: float | None = None


@quick
@dataclass(frozen=True, slots=True)
class PodGroups:
    """The number of ready pods, and the names of all others; ``unready`` has the rule of each."""

    ready: int
    unready: tuple[str, ...]
    missing: tuple[str, ...]
    ignored: tuple[str, ...]
    unready_by: tuple[Unready, ...] = field(default=(), compare=False)


@quick
@dataclass(frozen=True, slots=True)
class MetricValueStatus:
    """`MetricValueStatus`: values in milli-units, the utilization in percent.

    ``average_request``, the base of the percentage, is not a field of the API.
    """

    value: int | None = None
    average_value: int | None = None
    average_utilization: int | None = None
    average_request: int | None = None

    @property
    def number(self) -> int | None:
        """The number that an HPA compares with its target: the percentage, or milli-units."""
        if self.average_utilization is not None:
            return self.average_utilization
        return self.value if self.average_value is None else self.average_value


@quick
@dataclass(frozen=True, slots=True)
class Calculation:
    """The proposal of one metric, and how it was computed.

    ``ratio`` is usage over target, ``rebalanced_ratio`` the ratio with assumed values for missing
    and unready pods, ``multiplier`` the number of pods or samples that the last of the two was
    multiplied by. ``negative_sum`` means that the values of an External metric have a negative sum,
    which counts as zero.
    """

    proposal: int
    rule: Formula
    current: MetricValueStatus
    ratio: float
    multiplier: int | None = None
    groups: PodGroups | None = None
    rebalanced_ratio: float | None = None
    negative_sum: bool = False


@dataclass(frozen=True, slots=True)
class MetricFailure:
    """Why a metric has no proposal; an incomplete reading asks for ``at_least`` replicas."""

    reason: str
    message: str
    at_least: int | None = None


@dataclass(frozen=True, slots=True)
class Refill:
    """The time after a gap in which a reading may be too low, until its range is full again.

    Before the ``first`` reading a gap is only possible. ``after_hold`` means that the gap was a
    hold by `holdScaleDownQuery` (semantics 8.9).
    """

    returned: float
    until: float
    first: bool = False
    after_hold: bool = False


@dataclass(frozen=True, slots=True)
class FallbackUse:
    """The proposal for a metric that failed in ``syncs`` consecutive syncs.

    It is the fallback's count, or the count that an incomplete reading asks for, if that is larger.
    """

    fallback: Fallback
    syncs: int
    proposal: int


class Activity(StrEnum):
    """Whether a metric is above its activation (semantics 8.3)."""

    ACTIVE = "active"
    INACTIVE = "inactive"
    UNKNOWN = "unknown"
    """The reading failed or may be too low: it keeps a target awake and wakes none."""


@quick
@dataclass(frozen=True, slots=True)
class MetricResult:
    """One metric of the spec: its reading, and its proposal or failure.

    ``name`` is the name in the HPA's reasons (semantics 1.7). During a ``refill`` the metric cannot
    scale down. A ``fallback`` replaces a failed metric's proposal. ``activity`` is set if the
    metric is part of the `idle` rule.
    """

    metric: MetricSpec
    name: str
    reading: Reading
    outcome: Calculation | MetricFailure
    refill: Refill | None = None
    fallback: FallbackUse | None = None
    activity: Activity | None = None

    @property
    def proposal(self) -> int | None:
        """The replicas that the metric or its fallback proposes; None if it failed."""
        if self.fallback is not None:
            return self.fallback.proposal
        return self.outcome.proposal if isinstance(self.outcome, Calculation) else None

    @property
    def groups(self) -> PodGroups | None:
        """The groups of the pods; None if the metric failed, or is not a per-pod metric."""
        return self.outcome.groups if isinstance(self.outcome, Calculation) else None


class Zone(StrEnum):
    """Which part of the rules applied (semantics 1.2)."""

    METRICS = "Metrics"
    DISABLED = "Disabled"
    ABOVE_MAX = "AboveMax"
    BELOW_MIN = "BelowMin"
    UNKNOWN = "Unknown"
    """The scale could not be read."""
    PAUSED = "Paused"
    """Everything is paused (semantics 8.1)."""
    IDLE = "Idle"
    """No metric has been active for the period of the `idle` rule."""


class Outcome(StrEnum):
    """How the decision ended."""

    OK = "ok"
    PARTIAL = "partial"
    """Some metrics, or the query of a bound, failed; the others or a fallback decided."""
    BLOCKED = "blocked"
    """Nothing was decided: the replicas stay as they are."""


@quick
@dataclass(frozen=True, slots=True)
class Bound:
    """A bound in force and its origin in words; the origin is empty for the target's own bound.

    The policies limit the changes toward a ``gradual`` bound.
    """

    replicas: int
    by: str = ""
    gradual: bool = False


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds in force (semantics 8.2).

    ``missing`` says why the query of a bound has no value, or only the value of an incomplete
    answer. With ``hold_down`` the minimum is unknown for that reason, and nothing scales down.
    ``of_min_query`` and ``of_max_query`` are the values of the queries before other bounds apply,
    and when they were read; None where no value counts.
    """

    minimum: Bound
    maximum: Bound
    missing: str = ""
    hold_down: bool = False
    of_min_query: KnownBound | None = None
    of_max_query: KnownBound | None = None


@dataclass(frozen=True, slots=True)
class IdleStatus:
    """The state of the target's `idle` rule (semantics 8.3).

    ``active``: a metric is active or unknown. ``until``: when the target may go idle if no metric
    is active before. ``asleep``: it has `Idle.replicas` or fewer. ``kept_awake``: a schedule or
    query sets a minimum.
    """

    idle: Idle
    active: bool
    last_active: float
    until: float
    asleep: bool = False
    kept_awake: bool = False


@dataclass(frozen=True, slots=True)
class Saturation:
    """The replicas that bounds or policies withhold, and why (semantics 8.6)."""

    missing: int
    since: float
    reason: str


SATURATION_SECONDS = 900.0
"""After this time, in seconds, a saturation is reported."""


@dataclass(frozen=True, slots=True)
class BreakerHold:
    """The breaker of a server prevents a scale-down to ``replicas`` until a Unix time (8.7)."""

    server: str
    until: float
    replicas: int


@dataclass(frozen=True, slots=True)
class QueryHold:
    """`holdScaleDownQuery` prevents scale-downs (semantics 8.9).

    If the reading of this sync does not hold, the previous one did: the metrics are not read at the
    same instant. ``replicas`` is the count that the target would scale down to; None if it would
    not.
    """

    reading: HoldReading
    replicas: int | None = None


@quick
@dataclass(frozen=True, slots=True)
class Combination:
    """The combined proposal: the largest one, the name of its metric, and how many failed."""

    before: int
    after: int
    winner: str
    failed: int


READY = "ReadyForNewScale"
SCALE_DOWN_STABILIZED, SCALE_UP_STABILIZED = "ScaleDownStabilized", "ScaleUpStabilized"
WITHIN_RANGE = "DesiredWithinRange"
TOO_FEW, TOO_MANY = "TooFewReplicas", "TooManyReplicas"
SCALE_UP_LIMIT, SCALE_DOWN_LIMIT = "ScaleUpLimit", "ScaleDownLimit"


@quick
@dataclass(frozen=True, slots=True)
class Stabilization:
    """The result of stabilization (4.1, 4.2, 7.2): the recommendation that applies, and its end."""

    before: int
    after: int
    reason: str
    held_by: Recommendation | None = None
    until: float | None = None
    refill: Refill | None = None


@quick
@dataclass(frozen=True, slots=True)
class Limit:
    """The result of rate limits and bounds (semantics 4.1, 4.3).

    Where it changes the count, ``allowed`` is the count at the limit, ``policy`` the policy that
    sets it (None for a bound), and ``until`` when the policies permit more. ``start`` is the count
    at the start of the policy's period, the base of its percentage. Until ``unseen`` other
    instances of this daemon may have written, so the policy permits no change (semantics 7.4).
    """

    before: int
    after: int
    reason: str
    allowed: int | None = None
    policy: ScalingPolicy | None = None
    until: float | None = None
    unseen: float | None = None
    # It follows from the other fields, and older records lack it.
    start: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Rounding:
    """The change of a count to a multiple (semantics 8.13); ``after`` may be the current count."""

    multiple_of: int
    before: int
    after: int


class RemovalReason(StrEnum):
    """Why a pod is among the first that a scale-down removes."""

    NOT_READY = "NotReady"
    """It is not running and ready."""
    OTHER_COST = "OtherCost"
    """Another client gave it a negative deletion cost."""
    LOWEST_VALUE = "LowestValue"
    """Its value is one of the lowest, and it gets a deletion cost."""


class Removal(NamedTuple):
    """A pod that a scale-down removes, its value in milli-units, and its deletion cost, if any."""

    pod: str
    reason: RemovalReason
    value: int | None = None
    cost: int | None = None


@dataclass(frozen=True, slots=True)
class Removals:
    """The pods that a scale-down removes, in the order of their removal (semantics 8.14).

    Of ``count`` pods these are the known ones; Kubernetes chooses the others. A ``gap`` says why no
    value counts, or why pods did not get their cost.
    """

    count: int
    pods: tuple[Removal, ...]
    gap: Gap | None = None

    @property
    def costs(self) -> dict[str, int]:
        """The deletion costs to set, by pod."""
        chosen = (pod for pod in self.pods if pod.reason is RemovalReason.LOWEST_VALUE)
        return {pod.pod: pod.cost for pod in chosen if pod.cost is not None}

    def without(self, pods: Collection[str], why: str) -> "Removals":
        """Return the removals after some pods did not get their cost, and why, if known."""
        left = tuple(pod for pod in self.pods if pod.pod not in pods)
        return Removals(self.count, left, Gap(GapKind.ERROR, why) if why else self.gap)


@quick
@dataclass(frozen=True, slots=True)
class RulesOutcome:
    """The result of the rules of a zone; `Decision` has fields with the same names.

    ``recommendations`` are the history's with the one of this sync; None without a history.
    """

    zone: Zone
    outcome: Outcome
    desired: int
    reason: str = ""
    metrics: tuple[MetricResult, ...] = ()
    combination: Combination | None = None
    stabilization: Stabilization | None = None
    limit: Limit | None = None
    recommendations: tuple[Recommendation, ...] | None = None
    wanted_by: MetricSpec | None = None
    rounding: Rounding | None = None


@dataclass(frozen=True, slots=True)
class ForeignChange:
    """A change by another client; a ``reversal`` undoes our last write (semantics 7.5)."""

    before: int
    after: int
    manager: str = ""
    reversal: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """A Kubernetes Event about a decision."""

    type: str
    reason: str
    message: str


@quick
@dataclass(frozen=True, slots=True)
class Decision:
    """One decision; every log line, table, Event and page is rendered from it.

    ``time`` is the instant of the decision, ``stamp`` the instant in the history. ``desired`` is
    the count to write if ``rescale``, else the current one; without a scale it has no meaning.
    """

    time: float
    stamp: float
    zone: Zone
    outcome: Outcome
    scale: Scale | ReadFailure
    min_replicas: int
    max_replicas: int
    tolerance: Tolerance
    desired: int
    rescale: bool
    reason: str
    metrics: tuple[MetricResult, ...]
    combination: Combination | None
    stabilization: Stabilization | None
    limit: Limit | None
    conditions: tuple[Condition, ...]
    events: tuple[Event, ...]
    written: bool = False
    """Whether the API server has accepted the write; set by `settle`."""
    foreign: ForeignChange | None = None
    held_until: float | None = None
    """The time until which nothing is written after reversals (semantics 7.5), in Unix seconds."""
    bounds: Bounds | None = None
    """The bounds in force with their origin; None if the target has only fixed ones."""
    pause: Pause | None = None
    paused_from: int | None = None
    """The count that the pause prevented; None if it prevented none."""
    idle: IdleStatus | None = None
    """None if the target has no `idle` rule, or its metrics were not evaluated."""
    saturation: Saturation | None = None
    """Present from the first sync with a saturation; `lasting_saturation` is reported."""
    breaker: BreakerHold | None = None
    """The scale-down breaker's hold, if it prevents a scale-down (semantics 8.7)."""
    wanted_by: MetricSpec | None = None
    """The first metric that asks for replicas of a target that was scaled to zero by another
    client."""
    hold: QueryHold | None = None
    """Present while `holdScaleDownQuery` holds, whether or not it prevents anything."""
    hold_refill: Refill | None = None
    """Present while readings may be too low after a hold by `holdScaleDownQuery`."""
    shadow: bool = False
    """Whether `mode: shadow` prevents writes (semantics 8.10)."""
    controller: str = ""
    """The other autoscaler that controls the target, such as ``HorizontalPodAutoscaler "web"``."""
    unchecked: str = ""
    """Why ``controller`` cannot be checked now; empty if it is known."""
    taken: bool = False
    """Whether ``controller`` took over the target while it was live (semantics 7.6)."""
    hpa: Hpa | None = None
    """The HPA that controls the target; None if none is known."""
    rounding: Rounding | None = None
    """Present if `replicas.multipleOf` changes the count of the other rules (semantics 8.13)."""
    removals: Removals | None = None
    """The pods that a scale-down removes; None without `scaleDown.podDeletionCost`, if the count
    does not fall, and at zero."""

    @property
    def in_shadow(self) -> bool:
        """Whether it is never written: `mode: shadow`, or controlled by another autoscaler."""
        return self.shadow or self.controller != ""

    @property
    def current(self) -> int | None:
        """The replicas of the scale as read; None if it could not be read."""
        return self.scale.spec_replicas if isinstance(self.scale, Scale) else None

    @property
    def refill(self) -> Refill | None:
        """The refill that ends last; None without one."""
        return last_refill(self.metrics, self.hold_refill)

    @property
    def lasting_saturation(self) -> Saturation | None:
        """The saturation, if it has lasted for `SATURATION_SECONDS`."""
        saturation = self.saturation
        if saturation is None or self.stamp - saturation.since < SATURATION_SECONDS:
            return None
        return saturation

    @property
    def releases_at(self) -> float | None:
        """The next instant at which stabilization or the limit may permit more, if known."""
        stages = (self.stabilization, self.limit)
        instants = (None if stage is None else stage.until for stage in stages)
        return min((at for at in instants if at is not None), default=None)


def last_refill(metrics: Sequence[MetricResult], hold_refill: Refill | None) -> Refill | None:
    """Return the refill of a metric or after a hold that ends last; None without one."""
    refills = [result.refill for result in metrics if result.refill is not None]
    if hold_refill is not None:
        refills.append(hold_refill)
    return max(refills, key=lambda refill: refill.until, default=None)
