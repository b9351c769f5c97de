"""Which of several candidates none is better than in everything: the Pareto front."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

_T = TypeVar("_T")


def dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    """Return whether one is no worse in anything and better in something; less is better."""
    return one != other and all(first <= second for first, second in zip(one, other, strict=True))


def front(candidates: Iterable[_T], objectives: Callable[[_T], Sequence[float]]) -> list[_T]:
    """Return those that no other dominates, in their order; of equal ones the first."""
    first_of: dict[tuple[float, ...], _T] = {}
    for candidate in candidates:
        first_of.setdefault(tuple(objectives(candidate)), candidate)
    return [
        candidate
        for own, candidate in first_of.items()
        if not any(dominates(other, own) for other in first_of)
    ]
