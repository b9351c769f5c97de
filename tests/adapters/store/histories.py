"""Histories to keep: any, or the ones of a count."""

from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from autoscaler.core.history import (
    Condition,
    Contention,
    History,
    IntegerBounds,
    PendingWrite,
    Recommendation,
    ScaleEvent,
)
from autoscaler.core.spec import ConditionStatus
from tests.adapters.store.opening import T0

SLOTS = 5

_instants = st.floats(-1e9, T0 - 2e7)
"""So early that no clock that a test sets puts one into the future."""

_PLAIN: dict[object, st.SearchStrategy[Any]] = {
    NoneType: st.none(),
    bool: st.booleans(),
    float: _instants,
    # Any characters, and the half of one that a server might send.
    str: st.text(max_size=8) | st.just("\ud800"),
}


def any_of(kind: Any) -> st.SearchStrategy[Any]:
    """Return any value of a field's type, as far as what that is marked with allows."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        mark = args[1]
        return st.integers(mark.least, mark.most) if isinstance(mark, IntegerBounds) else _instants
    if origin in {Union, UnionType}:
        return st.one_of([any_of(arg) for arg in args])
    if origin is tuple:
        several = st.lists(any_of(args[0]), max_size=6).map(tuple)
        return several if args[-1] is ... else st.tuples(*map(any_of, args))
    if kind in _PLAIN:
        return _PLAIN[kind]
    if issubclass(kind, Enum):
        return st.sampled_from(kind)
    hints = get_type_hints(kind, include_extras=True)
    return st.builds(kind, **{name: any_of(hint) for name, hint in hints.items()})


histories: st.SearchStrategy[History] = any_of(History)


def nth(number: int, *, pending: bool = False) -> History:
    """Return the history after some syncs: every field depends on their number, one slot is new."""
    time = T0 + 15.1 * number
    latest = [number - (number - 1 - slot) % SLOTS for slot in range(min(number, SLOTS))]
    return History(
        tuple(Recommendation(sync, T0 + 15.1 * sync, first=sync == 1) for sync in latest),
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
    return T0 + 15.1 * number
