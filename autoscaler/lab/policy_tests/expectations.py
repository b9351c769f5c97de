"""Which expectations of a test are unmet, in the words of its file."""

import operator
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from autoscaler.config import durations
from autoscaler.config.documents import Location
from autoscaler.core.classification import limit_of, stabilization_holds
from autoscaler.core.contention import REPLICAS_CONTESTED
from autoscaler.core.decision import TOO_FEW, Decision, Zone
from autoscaler.core.status import OWN_REASONS
from autoscaler.core.step import Step
from autoscaler.lab.engine.building import is_called
from autoscaler.lab.policy_tests.running import PolicyTestRun, TargetRun
from autoscaler.lab.policy_tests.settings import Expectation, ForbiddenValues
from autoscaler.rendering import reasons, wording

_TEN_MINUTES = 600.0


@dataclass(frozen=True)
class UnmetExpectation:
    """An unmet expectation: its place in the file, its target and its time.

    ``index`` is the index of the count in the target's run.
    """

    location: Location
    run: TargetRun
    index: int
    what: str
    expected: str
    got: str

    @property
    def time(self) -> float:
        """Its time, in seconds from the begin."""
        return self.run.counts[self.index].time

    @property
    def sentence(self) -> str:
        """The expected and the actual value."""
        at, key = durations.format_seconds(self.time), self.run.target.key
        return f"at {at} {key}: {self.what}: expected {self.expected}, got {self.got}"


def unmet(run: PolicyTestRun) -> list[UnmetExpectation]:
    """Return the unmet expectations of one run, in the order of the file."""
    place: Location = ("tests", run.test.number)
    found: list[UnmetExpectation] = []
    for index, expected in enumerate(run.test.model.expect):
        for target in run.targets.values():
            if is_called(target.target, expected.target):
                at = (*place, "expect", index)
                found += _unmet(expected, target, at)
    for where, never in run.test.never:
        at = ("never",) if where == "never" else (*place, "never")
        for target in run.targets.values():
            found += _broken(never, target, at)
    return found


# -- expectations --------------------------------------------------------------------------------


class _Fact(NamedTuple):
    """An expected fact; ``got`` returns the actual value, and whether it is right."""

    key: str
    expected: object
    got: Callable[[TargetRun, int], tuple[object, bool]]


def _unmet(expected: Expectation, run: TargetRun, at: Location) -> Iterator[UnmetExpectation]:
    """Yield for each expectation the first count at which it is unmet."""
    if expected.at is not None:
        indices = [run.index_at(expected.at)]
    else:
        indices = [*run.within(expected.from_ or 0.0, expected.to or 0.0)]
    for fact in _facts(expected):
        for index in indices:
            got, holds = fact.got(run, index)
            if not holds:
                shown = str(fact.expected)
                yield UnmetExpectation(at, run, index, fact.key, shown, str(got))
                break
    if expected.event is not None:
        yield from _missing_event(expected.event, run, indices, at)
    if expected.no_change:
        first = run.counts[indices[0]].replicas
        other = next((i for i in indices if run.counts[i].replicas != first), None)
        if other is not None:
            got = f"{first} -> {run.counts[other].replicas}"
            yield UnmetExpectation(at, run, other, "replicas", f"{first} all the time", got)


def _facts(expected: Expectation) -> Iterator[_Fact]:
    """Yield the expectations about a count and its sync."""
    for key, got in _NUMBERS.items():
        if (value := getattr(expected, key)) is not None:
            yield _equal(key, value, got)
    if expected.ready is not None:
        yield _equal("ready", expected.ready, partial(_ready, expected.at))
    if expected.above is not None:
        yield _compared("above", expected.above, operator.gt)
    if expected.below is not None:
        yield _compared("below", expected.below, operator.lt)
    if expected.reason is not None:
        yield _part("reason", expected.reason, partial(_value_at, _sentences))
    if expected.limited_by is not None:
        yield _part("limitedBy", expected.limited_by, partial(_value_at, limits_of))
    for kind, status in (expected.conditions or {}).items():
        yield _part(f"conditions.{kind}", status, partial(_value_at, partial(_condition, kind)))


def _compared(key: str, bound: int, holds: Callable[[int, int], bool]) -> _Fact:
    def compared(run: TargetRun, index: int) -> tuple[object, bool]:
        replicas = run.counts[index].replicas
        return replicas, holds(replicas, bound)

    return _Fact(key, f"{key} {bound}", compared)


def _equal(key: str, expected: object, got: Callable[[TargetRun, int], object]) -> _Fact:
    def compared(run: TargetRun, index: int) -> tuple[object, bool]:
        found = got(run, index)
        return "nothing" if found is None else found, found == expected

    return _Fact(key, expected, compared)


def _part(key: str, expected: str, got: Callable[[TargetRun, int], object]) -> _Fact:
    """Return a fact of several texts: one must equal or contain the expected text."""
    is_whole = key != "reason"

    def compared(run: TargetRun, index: int) -> tuple[object, bool]:
        found = got(run, index)
        texts = found if isinstance(found, tuple) else ()
        holds = any(expected == text if is_whole else expected in text for text in texts)
        return " / ".join(texts) or "nothing", holds

    return _Fact(key, expected, compared)


def _value_at(what: Callable[[Step], object], run: TargetRun, index: int) -> object:
    step = run.counts[index].step
    return None if step is None else what(step)


def _ready(at: float | None, run: TargetRun, index: int) -> int:
    return run.ready_at(run.counts[index].time if at is None else at)


def _missing_event(
    event: str, run: TargetRun, indices: list[int], at: Location
) -> Iterator[UnmetExpectation]:
    told: dict[str, None] = {}
    for index in indices:
        step = run.counts[index].step
        # The last sync's events count for that sync only, not for the time after it.
        if step is not None and _is_its_own(run, index):
            told |= dict.fromkeys(reporter.reason for reporter in step.decision.events)
    if event not in told:
        yield UnmetExpectation(at, run, indices[-1], "event", event, ", ".join(told) or "no event")


def _is_its_own(run: TargetRun, index: int) -> bool:
    return index == 0 or run.counts[index - 1].step is not run.counts[index].step


def proposal_of(step: Step) -> int | None:
    """Return the replicas that the metrics ask for; None if they do not count, or have failed."""
    combination = step.decision.combination
    return None if combination is None else combination.after


def desired_of(step: Step) -> int | None:
    """Return the desired replicas; None without a scale."""
    return None if step.decision.current is None else step.decision.desired


def _state(step: Step) -> str:
    return step.result.classified().state.value


def _sentences(step: Step) -> tuple[str, ...]:
    return tuple(filter(None, (reasons.verdict(step.result), step.decision.reason)))


def _condition(kind: str, step: Step) -> tuple[str, ...]:
    found = (condition for condition in step.decision.conditions if condition.type == kind)
    return next(((str(condition.status), condition.reason) for condition in found), ())


_NUMBERS: Mapping[str, Callable[[TargetRun, int], object]] = {
    "replicas": lambda run, index: run.counts[index].replicas,
    "proposal": partial(_value_at, proposal_of),
    "desired": partial(_value_at, desired_of),
    "state": partial(_value_at, _state),
}
"""What is compared directly."""


def limits_of(step: Step) -> tuple[str, ...]:
    """Return why the count is not what the metrics ask for; else nothing."""
    decision = step.decision
    return tuple(dict.fromkeys(_limits(decision))) or ("nothing",)


def _limits(decision: Decision) -> Iterator[str]:
    if decision.held_until is not None:
        yield REPLICAS_CONTESTED
    if decision.zone is not Zone.UNKNOWN:  # Conditions there are from the previous sync.
        yield from (
            condition.reason for condition in decision.conditions if condition.reason in OWN_REASONS
        )
    if limit := limit_of(decision):
        yield limit
    of_limit = decision.limit
    if of_limit is not None and of_limit.reason == TOO_FEW and of_limit.before != of_limit.after:
        yield TOO_FEW
    if decision.stabilization is not None and stabilization_holds(decision):
        yield decision.stabilization.reason


# -- what never happens --------------------------------------------------------------------------


def _broken(never: ForbiddenValues, run: TargetRun, at: Location) -> Iterator[UnmetExpectation]:
    """Yield for each rule the first count that violates it."""
    low, high, most = never.below, never.above, never.changes_per_10m
    for index, count in enumerate(run.counts):
        if low is not None and count.replicas < low:
            yield _never(run, index, (*at, "below"), f"never below {low}")
            low = None
        if high is not None and count.replicas > high:
            yield _never(run, index, (*at, "above"), f"never above {high}")
            high = None
    if most is None:
        return
    changes: deque[float] = deque()
    for index, count in enumerate(run.counts):
        if count.step is None or not count.step.decision.written or not _is_its_own(run, index):
            continue
        changes.append(count.time)
        while changes[0] <= count.time - _TEN_MINUTES:
            changes.popleft()
        if len(changes) > most:
            rule = f"no more than {wording.counted(most, 'change')} in 10 minutes"
            yield UnmetExpectation(
                (*at, "changesPer10m"), run, index, "changes", rule, f"{len(changes)}"
            )
            return


def _never(run: TargetRun, index: int, at: Location, rule: str) -> UnmetExpectation:
    return UnmetExpectation(at, run, index, "replicas", rule, str(run.counts[index].replicas))
