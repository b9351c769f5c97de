"""What counts as a change: a decision that differs from the previous one is stored in full.

It is stored as two deflated texts: its rules, which many changes share, and the body. The rules and
the first body with them are the compression dictionary of all later bodies.
"""

import zlib
from collections.abc import Hashable
from dataclasses import dataclass

from autoscaler.core.classification import Mark, State
from autoscaler.core.decision import (
    READY,
    Bounds,
    Calculation,
    Decision,
    IdleStatus,
    MetricFailure,
    MetricResult,
    QueryHold,
    Stabilization,
)
from autoscaler.core.history import Condition
from autoscaler.core.observation import Hpa
from autoscaler.core.status import ABLE_TO_SCALE
from autoscaler.core.sync_result import Inputs, Rules, SyncResult
from autoscaler.core.writes import WriteOutcome
from autoscaler.persistence.codec import dumps, loads
from autoscaler.persistence.record.rows import Numbers


def change_key(result: SyncResult) -> tuple[object, ...]:
    """Return a key that is equal for successive decisions without a change.

    The values and proposals of metrics are not part of it, nor whether stabilization holds the
    count (`is_held`). The rules, whose hash is slow, come first; the whole key is hashable.
    """
    decision = result.decision
    limit, pause = decision.limit, decision.pause
    about, held = result.classified(), is_held(decision)
    return (
        result.rules,
        about.marks & ~Mark.STABILIZING if held else about.marks,
        "" if held and about.state is State.STABILIZING else about.cause,
        decision.current,
        decision.desired,
        decision.zone,
        decision.outcome,
        decision.min_replicas,
        decision.max_replicas,
        "" if held else decision.reason,
        type(result.write),
        decision.foreign,
        frozenset([_of_condition(condition, held=held) for condition in decision.conditions]),
        tuple([_of_metric(metric) for metric in decision.metrics]),
        (READY, True) if held else of_stabilization(decision.stabilization),
        None if limit is None else (limit.reason, limit.policy),
        None if pause is None else (pause, decision.paused_from is None),
        of_idle(decision.idle),
        decision.held_until,
        decision.lasting_saturation is None,
        _of_bounds(decision.bounds),
        decision.wanted_by,
        _of_hold(decision.hold),
        decision.hold_refill is None,
        of_hpa(decision.hpa),
        decision.rounding is None,
    )


Seen = tuple[Hashable, bool]
"""The memory of a target's last decision: its key, and whether it has been held since."""

_MOST_TEXT = 16 * 2**20


def seen_after(before: Seen | None, key: Hashable, decision: Decision) -> Seen:
    """Return what to remember; the decision is a change if this differs from ``before``."""
    return key, is_held(decision) or before == (key, True)


def is_held(decision: Decision) -> bool:
    """Return whether stabilization keeps the count, though the metrics ask for another.

    A load at the edge of the tolerance starts and ends such a hold many times an hour. So its start
    is a change, and its end is a change only when something else changes: samples have the values.
    """
    stable = decision.stabilization
    return (
        stable is not None
        and stable.before != stable.after
        and stable.after == decision.current == decision.desired
    )


def of_stabilization(stable: Stabilization | None) -> Hashable:
    """Return the part of the stage whose difference is a change."""
    return None if stable is None else (stable.reason, stable.before == stable.after)


def of_hpa(hpa: Hpa | None) -> Hashable:
    """Return the part of the HPA of a shadow target whose difference is a change."""
    if hpa is None:
        return None
    return hpa.name, None if hpa.status is None else hpa.status.desired_replicas


def of_idle(idle: IdleStatus | None) -> Hashable:
    """Return the part of the idle state whose difference is a change."""
    return None if idle is None else (idle.asleep, idle.kept_awake)


def _of_condition(condition: Condition, *, held: bool) -> Hashable:
    is_held = held and condition.type == ABLE_TO_SCALE
    return condition.type, condition.status, READY if is_held else condition.reason


def _of_bounds(bounds: Bounds | None) -> Hashable:
    if bounds is None:
        return "", "", False
    return bounds.minimum.by, bounds.maximum.by, bounds.missing != ""


def _of_hold(hold: QueryHold | None) -> Hashable:
    if hold is None:
        return None
    gap = hold.reading.gap
    return None if gap is None else gap.kind, hold.reading.holds, hold.replicas is None


def _of_metric(metric: MetricResult) -> Hashable:
    outcome = metric.outcome
    how = outcome.reason if type(outcome) is MetricFailure else None
    return how, metric.fallback is None, metric.refill is None, metric.activity


def numbers_of(decision: Decision) -> Numbers:
    """Return the numbers of a sample."""
    current = decision.current
    numbers = [current, None if current is None else decision.desired]
    for metric in decision.metrics:
        value = None
        if type(metric.outcome) is Calculation:
            value = metric.outcome.current.number
        numbers += (value, metric.proposal)
    return tuple(numbers)


@dataclass(frozen=True, slots=True)
class _Body:
    inputs: Inputs
    decision: Decision
    write: WriteOutcome | None = None


def texts_of(result: SyncResult) -> tuple[str, str]:
    """Return a result with its inputs as two texts: the rules, and the rest.

    Equal rules have equal texts. Raises LookupError if the inputs were omitted.
    """
    return dumps(result.rules), dumps(_Body(result.inputs, result.decision, result.write))


def result_of(rules: str, body: str) -> SyncResult:
    """Return the result that two texts contain; raises codec.UnreadableError."""
    read_rules, read = loads(Rules, rules), loads(_Body, body)
    return SyncResult(
        read_rules.target, read.decision, read.write, given=read.inputs, flags=read_rules.flags
    )


def deflated(text: bytes, dictionary: bytes = b"") -> bytes:
    """Deflate a text with a similar text as the dictionary."""
    packer = zlib.compressobj(zdict=dictionary)
    return packer.compress(text) + packer.flush()


def inflated(packed: bytes, dictionary: bytes = b"") -> bytes:
    """Inflate a text with an upper bound; raises ValueError."""
    inflater = zlib.decompressobj(zdict=dictionary)
    try:
        text = inflater.decompress(packed, _MOST_TEXT)
    except zlib.error as error:
        raise ValueError(f"it is damaged: {error}") from None
    if not inflater.eof:
        raise ValueError("it is cut off, or too long")
    return text
