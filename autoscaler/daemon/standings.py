"""Which standings of targets are worth a log line: changes, and a summary each minute.

An outage lasts for hundreds of syncs of thousands of targets.  A line for each would be
gigabytes a day, in which nobody finds its beginning or its end.
"""

import threading
from collections import defaultdict
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple

from autoscaler.app import wording
from autoscaler.app.standing import State

SUMMARY_SECONDS = 60.0
"""How often what goes on is summed up."""
LINES = 3
REFILL_SECONDS = 1800.0
"""A target has so many lines at once, and one more each so many seconds; see `_Allowance`."""

TROUBLE = frozenset({State.FAILING, State.CONTROLLED, State.CONTESTED})
"""Standings that want somebody to look: warnings, and summed up while they last."""

_MOST_CAUSES = 10
"""So many causes of a minute are told one by one."""
_MOST_NAMES = 5


class Change(NamedTuple):
    """A target stands otherwise than before, for which it had stood for so many seconds."""

    before: State
    seconds: float


class Summary(NamedTuple):
    """Targets that stand alike for the same cause, the first of them since ``since``."""

    state: State
    cause: str
    targets: int
    names: tuple[str, ...]
    since: float


@dataclass(slots=True)
class _Allowance:
    """How many lines a target still has: one that comes and goes all day must not fill the log."""

    left: float = LINES
    refilled: float = 0.0

    def take(self, now: float) -> bool:
        self.left = min(LINES, self.left + max(0.0, now - self.refilled) / REFILL_SECONDS)
        self.refilled = now
        if self.left < 1.0:
            return False
        self.left -= 1.0
        return True


@dataclass(slots=True)
class _Known:
    """How a target stands, since when, and whether the log has said so."""

    state: State = State.OK
    cause: str = ""
    since: float = 0.0
    told: bool = False
    trouble: _Allowance = field(default_factory=_Allowance)
    other: _Allowance = field(default_factory=_Allowance)


class Standings:
    """How each target stands, as far as the log knows.

    A target is noted by one thread at a time; several targets may be at the same time.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._summed_up: float | None = None
        self._lock = threading.Lock()

    def note(self, target: str, state: State, cause: str, now: float) -> Change | None:
        """Note how a target stands at a Unix time; return the change if it is to be told.

        The end of what was told is told.  A beginning, or another cause of the same trouble, is
        told while the target has lines left.
        """
        known = self._known.get(target)
        if known is None:
            if state is State.OK:
                return None
            known = self._known[target] = _Known(since=now)
        if state is known.state and (cause == known.cause or state not in TROUBLE):
            return None
        ends = known.told and state is not known.state
        begins = state is not State.OK and self._allowance(known, state).take(now)
        change = Change(known.state, now - known.since)
        if state is not known.state:
            known.since = now
        known.state, known.cause, known.told = state, cause, begins or (known.told and not ends)
        return change if begins or ends else None

    @staticmethod
    def _allowance(known: _Known, state: State) -> _Allowance:
        return known.trouble if state in TROUBLE else known.other

    def retain(self, targets: AbstractSet[str]) -> None:
        """Forget all targets but these."""
        for target in self._known.keys() - targets:
            del self._known[target]

    def shift(self, seconds: float) -> None:
        """Move with a clock that was set."""
        for known in self._known.copy().values():
            known.since += seconds
            known.trouble.refilled += seconds
            known.other.refilled += seconds
        if self._summed_up is not None:
            self._summed_up += seconds

    def due_summaries(self, now: float) -> list[Summary]:
        """Sum up the trouble that goes on, once a minute; the most frequent cause first."""
        with self._lock:
            if self._summed_up is not None and now - self._summed_up < SUMMARY_SECONDS:
                return []
            self._summed_up = now
        return list(self._summaries(now))

    def _summaries(self, now: float) -> Iterator[Summary]:
        alike: dict[tuple[State, str], list[tuple[float, str]]] = defaultdict(list)
        lasting: set[tuple[State, str]] = set()
        for target, known in self._known.copy().items():
            if known.state in TROUBLE:
                kind = (known.state, known.cause)
                alike[kind].append((known.since, target))
                # What began within the last minute has just been told in full.
                if not known.told or now - known.since >= SUMMARY_SECONDS:
                    lasting.add(kind)
        ranked = sorted(lasting, key=lambda kind: (-len(alike[kind]), kind))
        for kind in ranked[:_MOST_CAUSES]:
            yield _summary(*kind, alike[kind])
        others = ranked[_MOST_CAUSES:]
        for state in sorted({state for state, _ in others}):
            rest = [kind for kind in others if kind[0] is state]
            targets = [one for kind in rest for one in alike[kind]]
            yield _summary(state, wording.counted(len(rest), "other cause"), targets)


def _summary(state: State, cause: str, targets: list[tuple[float, str]]) -> Summary:
    targets.sort()
    names = tuple(target for _, target in targets[:_MOST_NAMES])
    return Summary(state, cause, len(targets), names, targets[0][0])
