"""Histories to keep: any, or the ones of a count."""

from hypothesis import strategies as st

from autoscaler.core.history import (
    Condition,
    Contention,
    ExtensionHistory,
    FailureStreak,
    History,
    KnownBound,
    PendingWrite,
    ReadingGap,
    Recommendation,
    ScaleEvent,
)
from autoscaler.core.observation import ConditionStatus
from tests.adapters.store.opening import T0

SLOTS = 5

_instants = st.floats(-1e9, T0 - 2e7)
"""So early that no clock that a test sets puts one into the future."""

_changes = st.integers(-(2**31), 2**31 - 1)
_counts = st.integers(0, 2**31 - 1)
_texts = st.text(max_size=8) | st.just("\ud800")
"""Any characters, and the half of one that a server might send."""

_scale_events = st.lists(
    st.builds(ScaleEvent, _counts, _instants, st.booleans(), st.none() | _instants), max_size=4
).map(tuple)
_losses = st.lists(st.tuples(_instants, _instants), max_size=2).map(tuple)
_gaps = st.builds(
    ReadingGap, _texts, _texts, st.none() | _instants, _instants, st.booleans(), _losses
)
histories = st.builds(
    History,
    recommendations=st.none()
    | st.lists(
        st.builds(Recommendation, _changes, _instants, st.booleans(), st.booleans()), max_size=9
    ).map(tuple),
    scale_ups=_scale_events,
    scale_downs=_scale_events,
    conditions=st.lists(
        st.builds(Condition, _texts, st.sampled_from(ConditionStatus), _texts, _texts, _instants),
        max_size=3,
    ).map(tuple),
    desired_replicas=_counts,
    last_scale_time=st.none() | _instants,
    zeroed_by_us=st.booleans(),
    pending=st.none() | st.builds(PendingWrite, _counts, _counts, _instants, _texts),
    contention=st.builds(
        Contention,
        st.none() | _counts,
        _changes,
        st.lists(_instants, max_size=3).map(tuple),
        st.integers(0, 2**62),
    ),
    unobserved=st.booleans(),
    gaps=st.lists(_gaps, max_size=3).map(tuple),
    unseen=st.none() | _instants,
    controller=_texts,
    extended=st.builds(
        ExtensionHistory,
        st.none() | _instants,
        st.none() | _instants,
        st.lists(st.builds(FailureStreak, _texts, st.integers(1, 2**31 - 1)), max_size=2).map(
            tuple
        ),
        st.none() | st.builds(KnownBound, _counts, _instants),
        st.none() | st.builds(KnownBound, _counts, _instants),
        st.none() | _instants,
        st.none() | _gaps,
        st.none() | _instants,
    ),
    metric_keys=st.lists(_texts, max_size=2).map(tuple),
)
"""Any history that can be."""


def nth(number: int, *, pending: bool = False) -> History:
    """Return the history after so many syncs: all of it tells which, one slot is new each time."""
    time = T0 + 15.1 * number
    latest = [number - (number - 1 - slot) % SLOTS for slot in range(min(number, SLOTS))]
    return History(
        tuple(Recommendation(one, T0 + 15.1 * one, first=one == 1) for one in latest),
        (ScaleEvent(1, T0, outdated=True), ScaleEvent(number, time)),
        (ScaleEvent(number, time, outdated=number % 2 == 0),),
        (Condition("AbleToScale", ConditionStatus.TRUE, "Ready", f"after {number}", T0),),
        number,
        time,
        number % 3 == 0,
        PendingWrite(number, number + 1, time, str(number)) if pending else None,
        Contention(number, 1, (time,)),
        unobserved=number % 4 == 0,
    )


def decided_at(number: int) -> float:
    """Return when the sync of this number decided."""
    return T0 + 15.1 * number
