"""The record of one decision: what was read, what was made of it at each stage, and why."""

from dataclasses import dataclass
from enum import StrEnum

from autoscaler.core.grouping import PodGroups
from autoscaler.core.history import Condition, Recommendation
from autoscaler.core.numbers import Tolerance
from autoscaler.core.observation import Reading, Scale, Unavailable
from autoscaler.core.spec import MetricSpec, ScalingPolicy


class Rule(StrEnum):
    """Which line of the arithmetic gave a proposal."""

    WITHIN_TOLERANCE = "WithinTolerance"
    """The ratio is within tolerance: no change is proposed."""
    READY_PODS = "ReadyPods"
    """The ratio times the ready pods, rounded up."""
    REBALANCED = "Rebalanced"
    """The ratio with missing and unready pods filled in, times all samples, rounded up."""
    REBALANCED_AWAY = "RebalancedAway"
    """With missing and unready pods filled in no change is justified."""
    USAGE_OVER_TARGET = "UsageOverTarget"
    """The total usage divided by the target average, rounded up."""
    FROM_ZERO = "FromZero"
    """At zero replicas the ratio itself, rounded up."""


@dataclass(frozen=True, slots=True)
class MetricValueStatus:
    """`MetricValueStatus`: what was measured; milli-units, utilization in percent.

    ``average_request`` is no field of the API: what ``average_utilization`` is a percentage of.
    """

    value: int | None = None
    average_value: int | None = None
    average_utilization: int | None = None
    average_request: int | None = None


@dataclass(frozen=True, slots=True)
class Calculation:
    """How one metric came to its proposal.

    ``ratio`` is usage over target as first computed; ``rebalanced_ratio`` the one after
    missing and unready pods were filled in; ``multiplier`` the count that the ratio in force
    was multiplied by.  ``negative_sum`` is set where an External metric's values add up to
    less than zero, which counts as zero.
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
    """Why a metric proposes nothing: a reason of the HPA's, and a sentence."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Refill:
    """A reading returned after a gap, and until its range is whole again it may understate.

    ``first`` says that it is the first one, and that whether there was a gap is not known.
    """

    returned: float
    until: float
    first: bool = False


@dataclass(frozen=True, slots=True)
class MetricResult:
    """One metric of the spec: its reading, and what came of it.

    ``name`` is the one that the HPA's reasons use (semantics 1.7).  ``refill`` is set while the
    metric may take nothing down, since it has just returned.
    """

    metric: MetricSpec
    name: str
    reading: Reading
    outcome: Calculation | MetricFailure
    refill: Refill | None = None

    @property
    def proposal(self) -> int | None:
        """The replicas that this metric proposes; None when it failed."""
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


class Outcome(StrEnum):
    """How the decision ended."""

    OK = "ok"
    PARTIAL = "partial"
    """Some metric failed, and the others decided."""
    BLOCKED = "blocked"
    """Nothing was decided, and nothing changes."""


@dataclass(frozen=True, slots=True)
class Combination:
    """Several metrics, one proposal: the largest wins and gives its name."""

    before: int
    after: int
    winner: str
    failed: int


@dataclass(frozen=True, slots=True)
class Stabilization:
    """What recent recommendations made of the proposal (semantics 4.1, 4.2).

    ``held_by`` is the recommendation that holds the result away from the proposal, or ``refill``
    the reading that has just returned (`autoscaler.core.gaps`), and ``until`` the instant from
    which it no longer does.
    """

    before: int
    after: int
    reason: str
    held_by: Recommendation | None = None
    until: float | None = None
    refill: Refill | None = None


@dataclass(frozen=True, slots=True)
class Limit:
    """What rate limits and bounds made of the stabilized count (semantics 4.1, 4.3).

    ``allowed`` is the furthest count that was permitted, ``policy`` the rate limit that set
    it (None for a bound), ``until`` the instant from which the policies permit more.  ``unseen``
    is set where the policy permits nothing, since another instance of ours may have used its
    allowance up to that instant.
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
    """One step of a decision: a count before, a count after, and the reason."""

    name: str
    before: int
    after: int
    reason: str


@dataclass(frozen=True, slots=True)
class ForeignChange:
    """Somebody else set the replicas since the last sync.

    ``manager`` is the field manager that did, empty where the API does not tell; ``reversal``
    says that it undid our last write.
    """

    before: int
    after: int
    manager: str = ""
    reversal: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """A Kubernetes Event about the decision."""

    type: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Decision:
    """All of one decision.  Every log line, table, event and page is rendered from it.

    ``time`` is the instant of the decision, and ``stamp`` the one as of which it is remembered.
    ``desired`` is the count to be written if ``rescale``, else the count as it stands (0 and
    without meaning while the scale cannot be read);
    ``written`` tells after `settle` whether the API server took it.
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
    foreign: ForeignChange | None = None
    """What somebody else did to the count since the last sync."""
    held_until: float | None = None
    """Set where we hold because others reversed our writes (`autoscaler.core.contention`)."""

    @property
    def current(self) -> int | None:
        """The replicas as they were read; None when they could not be."""
        return self.scale.spec_replicas if isinstance(self.scale, Scale) else None

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages that ran, in order."""
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
        """The reading that returned last, where one may still understate."""
        refills = [one.refill for one in self.metrics if one.refill is not None]
        return max(refills, key=lambda one: one.until, default=None)

    @property
    def releases_at(self) -> float | None:
        """The next instant at which a limit that binds now lets go, where that is known."""
        instants = [
            stage.until
            for stage in (self.stabilization, self.limit)
            if stage is not None and stage.until is not None
        ]
        return min(instants, default=None)
