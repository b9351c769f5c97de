"""The state, cause and marks of a decision and of its write.

docs/reference/states.md describes each state. The log, the pages, the API, the metrics, the
filters and the record all take these facts from here.
"""

from enum import Enum, IntFlag, StrEnum, auto
from functools import cache
from itertools import compress
from typing import NamedTuple

from autoscaler.core.decision import (
    TOO_FEW,
    TOO_MANY,
    Decision,
    MetricFailure,
    MetricResult,
    Outcome,
    Zone,
)
from autoscaler.core.observation import LONGEST_SENTENCE, why_held
from autoscaler.core.spec import ConditionStatus
from autoscaler.core.status import (
    ABLE_TO_SCALE,
    INVALID_ANNOTATION,
    MIN_REPLICAS_UNKNOWN,
    SCALE_DOWN_BREAKER,
    SCALE_DOWN_HELD,
    SCALING_ACTIVE,
)
from autoscaler.core.text import printable
from autoscaler.core.writes import SkippedWrite, WriteFailure, WriteOutcome

MISSING_BOUND, MISSING_HOLD = "MissingBound", "MissingHold"
"""The query of a bound or of the hold has no valid answer."""


class Mark(IntFlag):
    """The facts of a decision apart from its counts; the record stores these values."""

    WRITTEN = auto()
    """This daemon changed the count."""
    FOREIGN = auto()
    """Another client changed the count since the previous sync."""
    FAILED = auto()
    """The scale, the pods, a metric, the query of a bound or of the hold, or the write failed.
    While everything is paused only a failed write counts; while the target is idle, only metrics
    that its `idle` rule uses."""
    FALLBACK = auto()
    """A fallback proposes for a failed metric."""
    PAUSED = auto()
    """The target is paused, or one direction of it."""
    IDLE = auto()
    """No metric is active, and has not been for long enough."""
    HELD = auto()
    """`holdScaleDownQuery` or the scale-down breaker prevents a scale-down."""
    LIMITED = auto()
    """maxReplicas or a scaling policy permits less change than the metrics ask for."""
    AT_MAXIMUM = auto()
    """The metrics ask for more than the maximum in force, even if something else prevents the
    change."""
    BREAKER = auto()
    """The scale-down breaker prevents a scale-down."""
    CONTROLLED = auto()
    """Another autoscaler controls the target: decisions are made and never written."""
    CONTESTED = auto()
    """Other clients reverse the writes, so nothing is written for a while."""
    DISABLED = auto()
    """Another client set the count to zero."""
    STANDBY = auto()
    """The write was omitted, because another process is the leader."""
    REMOVED = auto()
    """The target is no longer configured: only the record has it, without a decision."""
    QUERY_HOLD = auto()
    """`holdScaleDownQuery` forbids scale-downs, whether or not the metrics ask for one."""
    SHADOW = auto()
    """The target has `mode: shadow`: decisions are made and never written."""
    STABILIZING = auto()
    """A stabilization window, or a reading after a gap, changes the count."""

    @property
    def word(self) -> str:
        """The name of one mark in camelCase, such as `atMaximum`."""
        first, *others = (self.name or "").lower().split("_")
        return first + "".join(part.capitalize() for part in others)


class State(StrEnum):
    """The state of a target; if several apply, `classify` returns the first of `_STATES`."""

    FAILING = "failing"
    SHADOW = "shadow"
    CONTROLLED = "controlled"
    CONTESTED = "contested"
    PAUSED = "paused"
    DISABLED = "disabled"
    AT_MAXIMUM = "atMaximum"
    LIMITED = "limited"
    HELD = "held"
    STABILIZING = "stabilizing"
    IDLE = "idle"
    OK = "ok"
    """None of the other states applies."""
    UNKNOWN = "unknown"
    """The target has not been synced yet."""


class Restraint(Enum):
    """What keeps the count from what the metrics ask for."""

    OTHERS = "others"
    PAUSE = "pause"
    QUERY = "query"
    UNKNOWN_MINIMUM = "unknown minimum"
    BREAKER = "breaker"
    LIMIT = "limit"
    """maxReplicas or a policy; a minimum permits more than the metrics ask for."""
    STABILIZATION = "stabilization"


class Failure(NamedTuple):
    """A failure: a reason of the HPA or of this project, and a message."""

    reason: str
    message: str


class Classification(NamedTuple):
    """The state, cause and marks of a decision and of its write.

    ``cause`` is the same text for all targets and syncs with the same cause; empty if the state is
    sufficient.
    """

    marks: Mark
    state: State
    cause: str
    restraint: Restraint | None


def classify(decision: Decision, write: WriteOutcome | None = None) -> Classification:
    """Return the state, cause and marks of a decision."""
    zone, restraint = decision.zone, _restraint(decision)
    facts = (
        decision.written,
        decision.foreign is not None,
        _is_failing(decision, write),
        _uses_fallback(decision),
        decision.pause is not None,
        zone is Zone.IDLE,
        restraint in _HOLDING,
        restraint is Restraint.LIMIT,
        _is_at_maximum(decision),
        restraint is Restraint.BREAKER,
        decision.controller != "" and not decision.shadow,
        restraint is Restraint.OTHERS,
        zone is Zone.DISABLED,
        type(write) is SkippedWrite and not decision.in_shadow,
        False,
        decision.hold is not None,
        decision.shadow,
        restraint is Restraint.STABILIZATION,
    )
    bits = sum(compress(_BITS, facts))
    for bit, state in _STATES:
        if bits & bit:
            cause = _cause(state, decision, write)
            shown = State.AT_MAXIMUM if cause == TOO_MANY else state
            return Classification(_marks(bits), shown, cause, restraint)
    return Classification(_marks(bits), _OK, "", restraint)


# Looking up and comparing Enum members is slower than comparing numbers.
_BITS = tuple(map(int, Mark))
_marks = cache(Mark)
_OK = State.OK
_STATES = (
    (int(Mark.CONTESTED), State.CONTESTED),
    (int(Mark.FAILED), State.FAILING),
    (int(Mark.SHADOW), State.SHADOW),
    (int(Mark.CONTROLLED), State.CONTROLLED),
    (int(Mark.PAUSED), State.PAUSED),
    (int(Mark.DISABLED), State.DISABLED),
    (int(Mark.HELD), State.HELD),
    (int(Mark.STABILIZING), State.STABILIZING),
    (int(Mark.IDLE), State.IDLE),
    (int(Mark.LIMITED), State.LIMITED),
)
_HOLDING = (Restraint.QUERY, Restraint.BREAKER)


def _restraint(decision: Decision) -> Restraint | None:
    """Return what restrains the count: the first restraint that applies, in this order."""
    restraint = None
    if decision.held_until is not None:
        restraint = Restraint.OTHERS
    elif decision.breaker is not None:
        restraint = Restraint.BREAKER
    elif decision.zone is Zone.PAUSED or decision.paused_from is not None:
        restraint = Restraint.PAUSE
    elif decision.hold is not None and decision.hold.replicas is not None:
        restraint = Restraint.QUERY
    elif (decision.bounds is not None and decision.bounds.hold_down) and any(
        condition.reason == MIN_REPLICAS_UNKNOWN for condition in decision.conditions
    ):
        restraint = Restraint.UNKNOWN_MINIMUM
    elif limit_of(decision):
        restraint = Restraint.LIMIT
    elif stabilization_holds(decision):
        restraint = Restraint.STABILIZATION
    return restraint


def limit_of(decision: Decision) -> str:
    """Return the HPA's reason for a limit; TooManyReplicas has precedence. Empty without one."""
    limit, combination = decision.limit, decision.combination
    if limit is None or (combination is not None and combination.after == decision.desired):
        return ""
    if _is_at_maximum(decision):
        return TOO_MANY
    return "" if limit.before == limit.after or limit.reason == TOO_FEW else limit.reason


def _is_at_maximum(decision: Decision) -> bool:
    limit, combination, most = decision.limit, decision.combination, decision.max_replicas
    if limit is None or combination is None:
        return False
    rounding = decision.rounding
    if rounding is not None and rounding.after < rounding.before:
        # The maximum permits no further multiple.
        return combination.after > rounding.after
    return limit.after == most and combination.after > most


def stabilization_holds(decision: Decision) -> bool:
    """Return whether stabilization changes the count, and the bounds would not have."""
    stage = decision.stabilization
    if stage is None or stage.before == stage.after:
        return False
    within_bounds = min(max(stage.before, decision.min_replicas), decision.max_replicas)
    return within_bounds != decision.desired


def _uses_fallback(decision: Decision) -> bool:
    for metric in decision.metrics:  # noqa: SIM110 - `any` takes three times as long
        if metric.fallback is not None:
            return True
    return False


# -- what failed ---------------------------------------------------------------------------------


def _is_failing(decision: Decision, write: WriteOutcome | None) -> bool:
    if type(write) is WriteFailure:
        return True
    if decision.outcome is Outcome.OK or decision.zone is Zone.PAUSED:
        return False
    is_blocked = decision.outcome is Outcome.BLOCKED and decision.held_until is None
    return is_blocked or _missing(decision) is not None


def failure_of(decision: Decision) -> Failure | None:
    """Return the first failure; one that blocks the decision comes first. None without one."""
    if decision.outcome is Outcome.BLOCKED:
        kinds = (ABLE_TO_SCALE,) if failed_metrics(decision) else (ABLE_TO_SCALE, SCALING_ACTIVE)
        for kind in kinds:
            for condition in decision.conditions:
                if condition.type == kind and condition.status is not ConditionStatus.TRUE:
                    return Failure(condition.reason, condition.message)
    return _missing(decision) or _warned_of(decision)


def failed_metrics(decision: Decision) -> tuple[MetricResult, ...]:
    """Return the metrics that failed; an idle target has no pods to measure."""
    is_idle = decision.zone is Zone.IDLE
    return tuple(
        metric
        for metric in decision.metrics
        if type(metric.outcome) is MetricFailure and not (is_idle and metric.activity is None)
    )


def _missing(decision: Decision) -> Failure | None:
    """Return which metric, bound or hold query has no value, and why; None if all have one."""
    for metric in failed_metrics(decision):
        if isinstance(metric.outcome, MetricFailure):
            reason, message = metric.outcome.reason, metric.outcome.message
            return Failure(reason, printable(message, LONGEST_SENTENCE))
    if decision.bounds is not None and decision.bounds.missing:
        return Failure(MISSING_BOUND, printable(decision.bounds.missing, LONGEST_SENTENCE))
    if decision.hold is not None and decision.hold.reading.gap is not None:
        return Failure(MISSING_HOLD, printable(why_held(decision.hold.reading), LONGEST_SENTENCE))
    return None


def _warned_of(decision: Decision) -> Failure | None:
    """Return the warning for metrics that could not be read; a pause may hide the condition."""
    for event in () if decision.outcome is Outcome.OK else decision.events:
        if event.type == "Warning" and event.reason != INVALID_ANNOTATION:
            return Failure(event.reason, event.message)
    return None


def _cause(state: State, decision: Decision, write: WriteOutcome | None) -> str:
    """Return the cause of a state; empty if the state is sufficient."""
    cause = ""
    if state is State.CONTESTED:
        cause = "others undo our changes"
    elif state is State.FAILING and isinstance(write, WriteFailure):
        cause = f"FailedRescale: {printable(write.message, LONGEST_SENTENCE)}"
    elif state is State.FAILING:
        used = " (a fallback is in use)" if _uses_fallback(decision) else ""
        cause = ": ".join(failure_of(decision) or ()) + used
    elif state is State.PAUSED and decision.pause is not None:
        cause = decision.pause.by
    elif state is State.LIMITED:
        cause = limit_of(decision)
    elif state is State.HELD and decision.breaker is not None:
        cause = SCALE_DOWN_BREAKER
    elif state is State.HELD:
        cause = SCALE_DOWN_HELD
    elif state is State.STABILIZING and decision.stabilization is not None:
        cause = decision.stabilization.reason
    return cause
