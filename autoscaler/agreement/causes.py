"""Why a decision is not that of the HPA beside it: decided again with one thing as it is there.

No rule is repeated: what makes the decision give the HPA's count is the cause (semantics 8.11).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import compress

from autoscaler.agreement.spec_differences import Counterpart, FieldDifference
from autoscaler.core.calculator import combine
from autoscaler.core.decide import decide
from autoscaler.core.decision import (
    Calculation,
    Combination,
    Decision,
    MetricFailure,
    Outcome,
)
from autoscaler.core.extensions import NO_EXTENSIONS, Extensions
from autoscaler.core.history import ExtensionHistory, History
from autoscaler.core.load_in_pods import in_pods, live, pods_for
from autoscaler.core.normalize import SCALE_DOWN_STABILIZED, SCALE_UP_STABILIZED, WITHIN_RANGE
from autoscaler.core.numbers import ceil32
from autoscaler.core.observation import HpaStatus, Observation, Scale
from autoscaler.core.spec import Flags, HorizontalPodAutoscalerSpec, MetricSpec, down_window
from autoscaler.core.status import ABLE_TO_SCALE, SCALING_LIMITED
from autoscaler.core.sync_result import SyncResult

_ANY_TOLERANCE = 1e9
_TOLERANCE_FLAG = "--horizontal-pod-autoscaler-tolerance"
_WINDOW_FLAG = "--horizontal-pod-autoscaler-downscale-stabilization"
_READINESS_FLAGS = (
    "--horizontal-pod-autoscaler-cpu-initialization-period or "
    "--horizontal-pod-autoscaler-initial-readiness-delay"
)


class Deviation(StrEnum):
    """A difference from the HPA on purpose that gives another count."""

    AFTER_GAP = "afterGap"
    """Readings that have returned after a gap take nothing down (semantics 7.2)."""
    AFTER_ABSENCE = "afterAbsence"
    """Syncs began, or were missing, within a stabilization window: recommendations lack (4.5)."""
    INCOMPLETE = "incomplete"
    """An incomplete or failed reading scales nothing down (2.1)."""
    NEGATIVE = "negative"
    """A negative sum of an External metric is no infinite load (6.4)."""
    ZERO = "zero"
    """A target at zero (1.2)."""
    FORGOTTEN = "forgotten"
    """The HPA has lost its recommendations: its controller was restarted, or another one leads."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was found at a sync whose count is not that of the HPA's status of a time.

    With the ``fields`` as they are there the decision would have been the HPA's, and with its
    readings if it is ``by_readings``; with ``flags`` as said.  The ``related`` fields differ too.
    """

    status_time: float
    fields: tuple[FieldDifference, ...] = ()
    by_readings: bool = False
    deviation: Deviation | None = None
    flags: tuple[FieldDifference, ...] = ()
    related: tuple[FieldDifference, ...] = ()
    held: bool = False
    """Whether a recommendation of ours holds the count."""
    expires: bool = False
    """Whether it does not for longer than two periods."""


def evidence_of(
    result: SyncResult,
    status: HpaStatus,
    theirs: Sequence[int | None],
    counterpart: Counterpart,
    around: float,
) -> Evidence:
    """Look for what makes the decision that of the HPA; ``theirs`` are its values, as ours.

    ``around`` are the seconds of one period.
    """
    again = _DecidedAgain(result, status.desired_replicas)
    decision = result.decision
    stable = decision.stabilization
    counts, current = (status.desired_replicas, decision.desired), decision.current or 0
    up, down = max(counts) > current, min(counts) < current
    found = Evidence(
        status.time,
        related=tuple(
            other.difference
            for other in counterpart.others
            if (other.up and up) or (other.down and down)
        ),
        held=stable is not None and stable.before != stable.after,
        expires=stable is not None
        and stable.until is not None
        and stable.until - decision.time <= 2 * around,
    )
    fields = _fields(again, counterpart)
    if fields:
        return replace(found, fields=fields)
    if decision.outcome is Outcome.BLOCKED and not decision.metrics:
        return found
    if again.gives_theirs(*again.with_values(theirs, status.current_replicas)):
        return replace(found, by_readings=True)
    deviation = _deviation(again, status)
    if deviation is not None:
        return replace(found, deviation=deviation)
    return replace(found, flags=tuple(_flags(again, status)))


def guard_of(decision: Decision) -> Deviation | None:
    """Return what of our own rules keeps the count from going down in a decision."""
    stable = decision.stabilization
    if stable is None:
        return None
    if stable.refill is not None:
        return Deviation.AFTER_GAP
    first = stable.held_by is not None and stable.held_by.first
    return Deviation.AFTER_ABSENCE if first else None


def proposal_there(
    result: SyncResult, status: HpaStatus, theirs: Sequence[int | None], counterpart: Counterpart
) -> int | None:
    """Return the proposal of the HPA's values and targets; None where it would decide nothing."""
    decision = result.decision
    scale, spec = decision.scale, None if decision.hpa is None else decision.hpa.spec
    if not isinstance(scale, Scale):
        return None
    results = []
    for one, value, index in zip(decision.metrics, theirs, counterpart.metrics, strict=False):
        metric = one.metric if spec is None or index is None else spec.metrics[index]
        if value is None:
            results.append(replace(one, outcome=MetricFailure("", ""), fallback=None))
        elif isinstance(one.outcome, Calculation):
            replicas = status.current_replicas
            pods = pods_for(metric, value, one, scale, replicas, decision.tolerance)
            results.append(replace(one, outcome=replace(one.outcome, proposal=ceil32(pods))))
    combined = combine(results, scale.spec_replicas) if results else None
    return combined.after if isinstance(combined, Combination) else None


class _DecidedAgain:
    """Decides a result again with other inputs, and compares with the count of the HPA."""

    def __init__(self, result: SyncResult, theirs: int) -> None:
        self.result = result
        self.theirs = theirs
        self.spec, self.flags = result.target.spec, result.flags
        self.seen, self.history = result.inputs.observation, result.inputs.history

    def gives_theirs(
        self,
        spec: HorizontalPodAutoscalerSpec | None = None,
        observation: Observation | None = None,
        extensions: Extensions | None = None,
        *,
        flags: Flags | None = None,
        history: History | None = None,
    ) -> bool:
        """Return whether the decision is the HPA's with these; None stands for our own."""
        inputs = self.result.inputs
        decision, _ = decide(
            spec or self.spec,
            flags or self.flags,
            observation or self.seen,
            history or self.history,
            inputs.now,
            inputs.stamp,
            self.result.target.extensions if extensions is None else extensions,
        )
        return decision.desired == self.theirs

    def with_values(
        self, theirs: Sequence[int | None], replicas: int
    ) -> tuple[HorizontalPodAutoscalerSpec, Observation, Extensions]:
        """Return spec, observation and extensions with the HPA's values of the metrics."""
        decision, scale = self.result.decision, self.seen.scale
        assert isinstance(scale, Scale)  # noqa: S101 - else there is no count to be compared
        loads = [
            None
            if value is None
            else pods_for(one.metric, value, one, scale, replicas, decision.tolerance)
            for one, value in zip(decision.metrics, theirs, strict=False)
        ]
        spec, seen = in_pods(decision, self.spec, self.seen, loads, scale)
        extensions = self.result.target.extensions
        return spec, seen, replace(live(extensions), mode=extensions.mode)


# -- what is configured --------------------------------------------------------------------------


def _fields(again: _DecidedAgain, counterpart: Counterpart) -> tuple[FieldDifference, ...]:
    """Return the fields that make it the HPA's decision if they are as there: one, or all."""
    others = [other for other in counterpart.others if other.spec is not None]
    for other in others:
        if other.spec is not None and _decides(again, other.spec):
            return (other.difference,)
    only_here = tuple(other.difference for other in counterpart.others if other.spec is None)
    extensions = again.result.target.extensions
    plain = replace(NO_EXTENSIONS, mode=extensions.mode)
    if extensions != plain or again.seen.hold is not None or again.seen.asks_for_bounds:
        seen = replace(
            again.seen, hold=None, windows=(), min_replicas_reading=None, max_replicas_reading=None
        )
        history = replace(again.history, extended=ExtensionHistory())
        if again.gives_theirs(observation=seen, extensions=plain, history=history):
            return only_here
    theirs = again.result.decision.hpa
    spec = None if theirs is None else theirs.spec
    if spec is not None and len(others) > 1:
        changed = replace(
            again.spec,
            min_replicas=spec.min_replicas,
            max_replicas=spec.max_replicas,
            behavior=spec.behavior,
        )
        if again.gives_theirs(changed):
            return tuple(
                other.difference
                for other in others
                if not other.difference.field.startswith("metrics")
            )
    return ()


def _decides(again: _DecidedAgain, spec: HorizontalPodAutoscalerSpec) -> bool:
    """Return whether it is the HPA's decision with another spec, whose metrics may be fewer."""
    if len(spec.metrics) == len(again.spec.metrics):
        return again.gives_theirs(spec)
    kept = [metric in spec.metrics for metric in again.spec.metrics]
    seen = replace(
        again.seen,
        readings=tuple(compress(again.seen.readings, kept)),
        ranges=None,
        metric_keys=(),
    )
    return sum(kept) == len(spec.metrics) and again.gives_theirs(spec, seen)


# -- our own rules -------------------------------------------------------------------------------


def _deviation(again: _DecidedAgain, status: HpaStatus) -> Deviation | None:
    """Return the first rule of ours, or of a process that forgets, that sets both apart."""
    decision, history = again.result.decision, again.history
    stable, outcomes = decision.stabilization, [one.outcome for one in decision.metrics]
    calculations = [one for one in outcomes if isinstance(one, Calculation)]
    failures = [one for one in outcomes if isinstance(one, MetricFailure)]
    whole = replace(again.seen, ranges=None)
    guard = guard_of(decision)
    held_by = None if stable is None else stable.held_by
    goes_down = again.theirs < decision.desired
    tests = {
        Deviation.ZERO: decision.current == 0,
        Deviation.NEGATIVE: any(one.negative_sum for one in calculations),
        Deviation.AFTER_GAP: guard is Deviation.AFTER_GAP
        or (
            decision.refill is not None
            and again.gives_theirs(observation=whole, history=replace(history, gaps=()))
        ),
        Deviation.AFTER_ABSENCE: guard is Deviation.AFTER_ABSENCE
        or (held_there(status) and _is_new(again)),
        Deviation.INCOMPLETE: any(one.at_least is not None for one in failures),
        Deviation.FORGOTTEN: held_by is not None
        and goes_down
        and again.gives_theirs(history=replace(history, recommendations=())),
    }
    return next((deviation for deviation, is_so in tests.items() if is_so), None)


def held_there(status: HpaStatus) -> bool:
    """Return whether an earlier recommendation of the HPA holds its count."""
    return status.reason(ABLE_TO_SCALE) in {SCALE_DOWN_STABILIZED, SCALE_UP_STABILIZED}


def _is_new(again: _DecidedAgain) -> bool:
    """Return whether recommendations of ours begin, or have a hole, within the longest window."""
    behavior, flags = again.spec.behavior, again.flags
    window = down_window(behavior, flags)
    if behavior is not None:
        window = max(window, float(behavior.scale_up.stabilization_window_seconds or 0))
    since = again.result.inputs.now - window
    return any(one.first and one.time > since for one in again.history.recommendations or ())


# -- flags of the controller ---------------------------------------------------------------------


def _flags(again: _DecidedAgain, status: HpaStatus) -> Iterator[FieldDifference]:
    """Yield flags of kube-controller-manager whose other value would explain the HPA's count."""
    flags, behavior = again.flags, again.spec.behavior
    decision, down = again.result.decision, None if behavior is None else behavior.scale_down
    held = status.reason(ABLE_TO_SCALE) == SCALE_DOWN_STABILIZED
    if down is None or down.stabilization_window_seconds is None:
        without = replace(flags, downscale_stabilization=0.0)
        shorter = again.theirs < decision.desired and again.gives_theirs(flags=without)
        longer = held and again.theirs > decision.desired
        if longer or shorter:
            window = f"{down_window(behavior, flags):g}s"
            yield FieldDifference(_WINDOW_FLAG, window, "more" if longer else "less")
            return
    if _by_flag(again) and not held and status.reason(SCALING_LIMITED) in {WITHIN_RANGE, ""}:
        for tolerance, word in ((_ANY_TOLERANCE, "more"), (0.0, "less")):
            if again.gives_theirs(flags=replace(flags, tolerance=tolerance)):
                yield FieldDifference(_TOLERANCE_FLAG, f"{flags.tolerance:g}", word)
                return
    if _counts_unready(decision, again.spec.metrics):
        for seconds in (0.0, 86400.0):
            other = replace(
                flags, cpu_initialization_period=seconds, initial_readiness_delay=seconds
            )
            if again.gives_theirs(flags=other):
                ours = f"{flags.cpu_initialization_period:g}s"
                yield FieldDifference(_READINESS_FLAGS, ours, "another one")
                return


def _by_flag(again: _DecidedAgain) -> bool:
    """Return whether the HPA's tolerance is that of the flag, in the direction of the metrics."""
    decision, theirs = again.result.decision, again.result.decision.hpa
    behavior = None if theirs is None or theirs.spec is None else theirs.spec.behavior
    if behavior is None:
        return True
    combined = decision.combination
    down = combined is not None and combined.after < combined.before
    return (behavior.scale_down if down else behavior.scale_up).tolerance is None


def _counts_unready(decision: Decision, metrics: Sequence[MetricSpec]) -> bool:
    return any(
        metric.type in {"Resource", "ContainerResource"}
        and one.groups is not None
        and bool(one.groups.unready)
        for metric, one in zip(metrics, decision.metrics, strict=False)
    )
