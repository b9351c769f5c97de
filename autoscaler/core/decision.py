"""The record of one decision: what was read, the result of each stage, and the reasons."""

from dataclasses import dataclass
from enum import StrEnum

from autoscaler.core.extensions import Fallback, Idle, Pause
from autoscaler.core.grouping import PodGroups
from autoscaler.core.history import Condition, KnownBound, Recommendation
from autoscaler.core.numbers import Tolerance
from autoscaler.core.observation import Reading, Scale, Unavailable
from autoscaler.core.spec import MetricSpec, ScalingPolicy


class Rule(StrEnum):
    """The formula that gave a proposal (semantics 2.2 to 2.5)."""

    WITHIN_TOLERANCE = "WithinTolerance"
    """The ratio is within tolerance: no change."""
    READY_PODS = "ReadyPods"
    """The ratio times the number of ready pods, rounded up."""
    REBALANCED = "Rebalanced"
    """The ratio with missing and unready pods filled in, times all samples, rounded up."""
    REBALANCED_AWAY = "RebalancedAway"
    """No change, since the ratio with missing and unready pods filled in does not confirm it."""
    USAGE_OVER_TARGET = "UsageOverTarget"
    """The total usage divided by the target average, rounded up."""
    FROM_ZERO = "FromZero"
    """The ratio itself, rounded up, at zero replicas."""
    SURGE = "Surge"
    """No change: without the pods of a surge, the ratio does not confirm a scale-down (8.5)."""


@dataclass(frozen=True, slots=True)
class MetricValueStatus:
    """`MetricValueStatus`: the measured value in milli-units, the utilization in percent.

    ``average_request`` is no field of the API: ``average_utilization`` is a percentage of it.
    """

    value: int | None = None
    average_value: int | None = None
    average_utilization: int | None = None
    average_request: int | None = None


@dataclass(frozen=True, slots=True)
class Calculation:
    """The proposal of one metric, and how it was computed.

    ``ratio`` is usage over target; ``rebalanced_ratio`` is that with missing and unready pods
    filled in.  ``multiplier`` is the number of pods or samples that the last of them was
    multiplied by.  ``negative_sum`` is set if the values of an External metric add up to less
    than zero, which counts as zero.
    """

    proposal: int
    rule: Rule
    current: MetricValueStatus
    ratio: float
    multiplier: int | None = None
    groups: PodGroups | None = None
    rebalanced_ratio: float | None = None
    negative_sum: bool = False


@dataclass(frozen=True, slots=True)
class MetricFailure:
    """Why a metric has no proposal: the HPA's reason, and a sentence."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Refill:
    """A reading has returned after a gap, and may understate until its range is full again.

    ``first`` is set if it is the first reading, so that a gap before it is only possible.
    """

    returned: float
    until: float
    first: bool = False


@dataclass(frozen=True, slots=True)
class FallbackUse:
    """The fallback's ``proposal`` for a metric that failed in ``syncs`` syncs in a row."""

    fallback: Fallback
    syncs: int
    proposal: int


class Activity(StrEnum):
    """Whether a metric is above its activation (semantics 8.3)."""

    ACTIVE = "active"
    INACTIVE = "inactive"
    UNKNOWN = "unknown"
    """It failed, or its reading may understate: it keeps a target awake, and wakes none."""


@dataclass(frozen=True, slots=True)
class MetricResult:
    """One metric of the spec: its reading, and its proposal or failure.

    ``name`` is its name in the HPA's reasons (semantics 1.7).  While ``refill`` is set the metric
    cannot scale down.  ``fallback`` is set if the metric failed and the fallback proposes instead,
    ``activity`` if the target has `idle` and the metric takes part in it.
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
        """The replicas that the metric, or the fallback for it, proposes; None if it failed."""
        if self.fallback is not None:
            return self.fallback.proposal
        return self.outcome.proposal if isinstance(self.outcome, Calculation) else None


class Zone(StrEnum):
    """Which part of the rules applied (semantics 1.2)."""

    METRICS = "Metrics"
    DISABLED = "Disabled"
    ABOVE_MAX = "AboveMax"
    BELOW_MIN = "BelowMin"
    CONTROLLED = "Controlled"
    """Another autoscaler controls the target."""
    UNKNOWN = "Unknown"
    """The scale could not be read."""
    PAUSED = "Paused"
    """Everything is paused (semantics 8.1)."""
    IDLE = "Idle"
    """No metric is active, and has not been for long enough (semantics 8.3)."""


class Outcome(StrEnum):
    """How the decision ended."""

    OK = "ok"
    PARTIAL = "partial"
    """Some metrics, or the query of a bound, failed; what there is, or a fallback, decided."""
    BLOCKED = "blocked"
    """Nothing was decided: the replicas stay as they are."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound in force.

    ``by`` says in words where it comes from, if that is not the target's own, such as
    ``schedule office-hours until 18:00 Europe/Berlin``.  A ``gradual`` bound is approached by the
    policies.
    """

    replicas: int
    by: str = ""
    gradual: bool = False


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds in force (semantics 8.2).

    ``missing`` says why the query of a bound has no value that counts, empty if none is missing.
    ``hold_down`` is set if the minimum is unknown because of that, so that nothing goes down.
    ``of_min_query`` and ``of_max_query`` are what the queries give, whatever the bounds of the
    target and its schedules make of it, and when it was read; None where nothing counts.
    """

    minimum: Bound
    maximum: Bound
    missing: str = ""
    hold_down: bool = False
    of_min_query: KnownBound | None = None
    of_max_query: KnownBound | None = None


@dataclass(frozen=True, slots=True)
class IdleStatus:
    """How the target stands with its `idle` rule (semantics 8.3).

    ``active`` is whether a metric is active or unknown, ``last_active`` when one last was.
    ``until`` is when it may go idle if none is before.  ``asleep`` is whether the count is at most
    `Idle.replicas`, ``kept_awake`` whether a minimum of a schedule or query prevents idling.
    """

    idle: Idle
    active: bool
    last_active: float
    until: float
    asleep: bool = False
    kept_awake: bool = False


@dataclass(frozen=True, slots=True)
class Saturation:
    """More replicas are wanted than bounds or policies permit (semantics 8.6).

    ``missing`` is by how many replicas, ``since`` when it began, ``reason`` that of the limit.
    """

    missing: int
    since: float
    reason: str


SATURATION_SECONDS = 900.0
"""A saturation that has lasted for so long is reported (semantics 8.6)."""


@dataclass(frozen=True, slots=True)
class BreakerHold:
    """The scale-down breaker of a Prometheus server prevents a scale-down (semantics 8.7).

    ``server`` is empty for the default one.  Nothing goes down until the Unix time ``until``;
    ``replicas`` is the count that the target would go to.
    """

    server: str
    until: float
    replicas: int


@dataclass(frozen=True, slots=True)
class Combination:
    """The combined proposal: the largest one, the name of its metric, and how many failed."""

    before: int
    after: int
    winner: str
    failed: int


@dataclass(frozen=True, slots=True)
class Stabilization:
    """The result of stabilization (semantics 4.1, 4.2, 7.2).

    If it differs from the proposal, the cause is the recommendation ``held_by`` or the reading
    ``refill``, and ``until`` is the instant from which that no longer counts.
    """

    before: int
    after: int
    reason: str
    held_by: Recommendation | None = None
    until: float | None = None
    refill: Refill | None = None


@dataclass(frozen=True, slots=True)
class Limit:
    """The result of rate limits and bounds (semantics 4.1, 4.3).

    If it differs from the stabilized count, ``allowed`` is the count at the limit, ``policy`` the
    policy that sets it (None for a bound), and ``until`` the instant from which the policies
    permit more.  ``unseen`` is set if the policy permits no change because other instances of
    ours may have written until that instant (semantics 7.4).
    """

    before: int
    after: int
    reason: str
    allowed: int | None = None
    policy: ScalingPolicy | None = None
    until: float | None = None
    unseen: float | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a decision: the count before it, the count after it, and the reason."""

    name: str
    before: int
    after: int
    reason: str


@dataclass(frozen=True, slots=True)
class ForeignChange:
    """A change of the replicas by others since the last sync.

    ``manager`` is their field manager, empty if unknown.  ``reversal`` is set if the change is
    against the direction of our last write (semantics 7.5).
    """

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


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision, from which every log line, table, Event and page is rendered.

    ``time`` is the instant of the decision, ``stamp`` the one that the history records for it.
    ``desired`` is the count to write if ``rescale``, else the current one; it means nothing if
    the scale could not be read.
    """

    time: float
    stamp: float
    zone: Zone
    outcome: Outcome
    scale: Scale | Unavailable
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
    """Until when nothing is written, since others reversed our writes (semantics 7.5)."""
    bounds: Bounds | None = None
    """The bounds in force with their origin; None if the target has only fixed ones."""
    pause: Pause | None = None
    paused_from: int | None = None
    """The count that the pause prevented; None if it prevented none."""
    idle: IdleStatus | None = None
    """None if the target has no `idle` rule, or its metrics were not evaluated."""
    saturation: Saturation | None = None
    """Present from the first sync of it on; `lasting_saturation` is what is reported."""
    breaker: BreakerHold | None = None
    """What keeps the target from going down, if it is the scale-down breaker (semantics 8.7)."""

    @property
    def current(self) -> int | None:
        """The replicas of the scale as read; None if it could not be read."""
        return self.scale.spec_replicas if isinstance(self.scale, Scale) else None

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages that have run, in order."""
        if self.zone in {Zone.ABOVE_MAX, Zone.BELOW_MIN} and isinstance(self.scale, Scale):
            return (Stage("bounds", self.scale.spec_replicas, self.desired, self.reason),)
        stages: list[Stage] = []
        if self.combination is not None:
            combined = self.combination
            stages.append(Stage("combine", combined.before, combined.after, self.reason))
        for name, stage in (("stabilize", self.stabilization), ("limit", self.limit)):
            if stage is not None:
                stages.append(Stage(name, stage.before, stage.after, stage.reason))
        return tuple(stages)

    @property
    def refill(self) -> Refill | None:
        """The refill that ends last; None if no metric has one."""
        refills = [one.refill for one in self.metrics if one.refill is not None]
        return max(refills, key=lambda one: one.until, default=None)

    @property
    def lasting_saturation(self) -> Saturation | None:
        """The saturation, if it has lasted for `SATURATION_SECONDS`."""
        one = self.saturation
        return None if one is None or self.stamp - one.since < SATURATION_SECONDS else one

    @property
    def releases_at(self) -> float | None:
        """The next instant at which stabilization or the limit may permit more, if known."""
        instants = [
            stage.until
            for stage in (self.stabilization, self.limit)
            if stage is not None and stage.until is not None
        ]
        return min(instants, default=None)
