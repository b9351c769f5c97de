"""Which states of targets are worth a log line: changes, and a summary each minute.

An outage lasts for hundreds of syncs of thousands of targets.  A line for each would be gigabytes
a day, which hide its beginning and its end.
"""

import threading
from collections import defaultdict
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from autoscaler.daemon.token_bucket import TokenBucket
from autoscaler.rendering import wording
from autoscaler.rendering.verdict import State

SUMMARY_SECONDS = 60.0
"""How often lasting trouble is summed up."""
LINES, REFILL_SECONDS = 3, 1800.0
"""A target has so many lines about failures at once, and one more each so many seconds."""
QUIET_LINES, QUIET_REFILL_SECONDS = 10, 600.0
"""The same for holds, limits, pauses and idling, which come and go with the load."""

TROUBLE = frozenset({State.FAILING, State.CONTROLLED, State.CONTESTED})
"""States that an operator should look at: warnings, and summed up while they last."""

_OFTEN = frozenset({State.HELD, State.LIMITED, State.PAUSED, State.IDLE})
"""States that are as they should be, and may come and go all day."""

_MOST_CAUSES = 10
"""So many causes have a summary of their own each minute."""
_MOST_NAMES = 5


class Change(NamedTuple):
    """A change of a target's state, which was ``before`` for so many seconds, if that is known.

    ``before`` is None at its first sync.  ``logged`` says whether the change is worth a line,
    ``silent_until`` that there are no more lines of its kind before that Unix time.
    """

    before: State | None
    seconds: float | None
    logged: bool = True
    silent_until: float | None = None


class Summary(NamedTuple):
    """Targets in the same state for the same cause, which the first of them has had since then."""

    state: State
    cause: str
    targets: int
    names: tuple[str, ...]
    since: float


@dataclass(slots=True)
class _Known:
    """The state of a target, since when, and whether there was a line about it."""

    state: State | None = None
    cause: str = ""
    since: float | None = None
    """Unix time; None where it was so at the first sync already."""
    cause_since: float | None = None
    """The same for its cause, which may be another one than at first."""
    logged: bool = False
    failures: TokenBucket = field(default_factory=partial(TokenBucket, LINES, REFILL_SECONDS))
    quiet: TokenBucket = field(
        default_factory=partial(TokenBucket, QUIET_LINES, QUIET_REFILL_SECONDS)
    )

    def lines(self, state: State) -> TokenBucket | None:
        """Return what bounds the lines about a state; None for those that cannot come often.

        A target that comes and goes all day must not fill the log.
        """
        if state is State.FAILING:
            return self.failures
        return self.quiet if state in _OFTEN else None


class StateChanges:
    """The state of each target, and which changes of it are worth a log line.

    Several threads may note targets at the same time, each target by one of them.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._always_ok: set[str] = set()
        """Targets that were never in another state."""
        self._summed_up: float | None = None
        self._lock = threading.Lock()

    def note(self, target: str, state: State, cause: str, now: float) -> Change | None:
        """Note the state of a target at a Unix time; return the change, if there is one.

        The end of a state that was logged is logged.  A beginning, or another cause of the same
        trouble, is logged while the target has lines left.
        """
        known = self._known.get(target)
        if known is None:
            if state is State.OK:
                self._always_ok.add(target)
                return None
            known = self._known[target] = _Known(State.OK if target in self._always_ok else None)
        if state is known.state and (cause == known.cause or state not in TROUBLE):
            return None
        other = state is not known.state
        lines = known.lines(state)
        begins = state is not State.OK and (lines is None or lines.take(now))
        ends = known.logged and other
        silent = lines.empty_until() if lines is not None and begins else None
        seconds = None if known.since is None else now - known.since
        change = Change(known.state, seconds, begins or ends, silent)
        if other:
            known.since = now
        known.cause_since = now
        known.state, known.cause, known.logged = (
            state,
            cause,
            begins or (known.logged and not other),
        )
        return change

    def retain(self, targets: AbstractSet[str]) -> None:
        """Forget all targets but these, which have all their lines again."""
        self._known = {
            target: _Known(known.state, known.cause, known.since, known.cause_since, known.logged)
            for target, known in self._known.items()
            if target in targets
        }
        self._always_ok &= targets

    def shift(self, seconds: float) -> None:
        """Move with a clock that was set."""
        for known in self._known.copy().values():
            known.since = None if known.since is None else known.since + seconds
            known.cause_since = None if known.cause_since is None else known.cause_since + seconds
            known.failures.refilled += seconds
            known.quiet.refilled += seconds
        if self._summed_up is not None:
            self._summed_up += seconds

    def due_summaries(self, now: float) -> list[Summary]:
        """Sum up lasting trouble, once a minute; the most frequent cause first."""
        with self._lock:
            if self._summed_up is not None and now - self._summed_up < SUMMARY_SECONDS:
                return []
            self._summed_up = now
        return list(self._summaries(now))

    def _summaries(self, now: float) -> Iterator[Summary]:
        alike: dict[tuple[State, str], list[tuple[float, str]]] = defaultdict(list)
        lasting: set[tuple[State, str]] = set()
        for target, known in self._known.copy().items():
            state = known.state
            since, cause_since = known.since, known.cause_since
            if state in TROUBLE and since is not None and cause_since is not None:
                kind = (state, known.cause)
                alike[kind].append((cause_since, target))
                # What began within the last minute has just been logged in full.
                if not known.logged or now - since >= SUMMARY_SECONDS:
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
