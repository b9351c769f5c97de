"""What happens in a policy test besides: its events, and what takes them back."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from autoscaler.lab.engine.building import is_called
from autoscaler.lab.engine.stated import Fault, FaultyAnswers, FaultyLoad
from autoscaler.lab.engine.world import SimulatedTarget
from autoscaler.lab.policy_tests.kept_world import PolicyTestWorld, restart
from autoscaler.lab.policy_tests.ready import ReadyTest
from autoscaler.lab.policy_tests.series_names import Reader
from autoscaler.lab.policy_tests.settings import WorldEvent


class Happening(NamedTuple):
    """Something that happens at a time, in seconds from the begin; it takes the instant."""

    time: float
    happen: Callable[[float], object]


def happenings(test: ReadyTest, world: PolicyTestWorld) -> Iterator[Happening]:
    """Yield what an event does, and what takes it back when its time is over."""
    for event in test.model.events:
        for target in world.targets:
            if not is_called(target.rules.target, event.target):
                continue
            end = None if event.for_ is None else event.at + event.for_
            for change, back in _changes(event, target, world):
                yield Happening(event.at, change)
                if end is not None and back is not None:
                    yield Happening(end, back)


_Change = tuple[Callable[[float], object], Callable[[float], object] | None]


def _changes(
    event: WorldEvent, target: SimulatedTarget, world: PolicyTestWorld
) -> Iterator[_Change]:
    workload = target.workload
    if event.set_replicas is not None:
        count = event.set_replicas
        yield lambda now: workload.set(count, now, event.by), None
    if event.annotations is not None:
        given = event.annotations
        removed: dict[str, str | None] = dict.fromkeys(given)
        yield (lambda _: _annotate(target, given)), (lambda _: _annotate(target, removed))
    for holder, name, value, usual in (
        (workload, "ready_seconds", event.ready_after, workload.ready_seconds),
        (workload, "unreadable", event.unreadable, ""),
        (target, "write_fails", event.write_fails, ""),
        (target, "controller", event.controlled_by, None),
    ):
        if value is not None:
            yield partial(_set, holder, name, value), partial(_set, holder, name, usual)
    if event.restart:
        yield partial(restart, target), None
    if event.lose_state:
        yield (lambda _: target.forget()), None
    if event.takeover:
        yield (lambda _: world.take_over(target)), None
    if event.down:
        yield (lambda _: world.away.add(target.key)), partial(world.start_again, target)


def _set(holder: object, name: str, value: object, _now: float) -> None:
    setattr(holder, name, value)


def _annotate(target: SimulatedTarget, changes: Mapping[str, str | None]) -> None:
    merged = {**dict(target.workload.annotations), **changes}
    target.workload.annotate({name: text for name, text in merged.items() if text is not None})


def add_faults(test: ReadyTest, target: SimulatedTarget) -> None:
    """Let the queries of a target fail, or warn, when the test's events say so."""
    own = [event for event in test.model.events if is_called(target.rules.target, event.target)]
    of_query = [event for event in own if event.query_fails or event.partial]
    if not of_query:
        return

    def faults(reader: Reader) -> list[Fault]:
        return [
            _fault(event, test)
            for event in of_query
            if event.query is None or reader in test.faulty[event.query]
        ]

    target.loads = tuple(
        FaultyLoad(load, faults((target.key, number))) for number, load in enumerate(target.loads)
    )
    target.others = {
        key: FaultyAnswers(answers, faults(key)) for key, answers in target.others.items()
    }


def _fault(event: WorldEvent, test: ReadyTest) -> Fault:
    seconds = test.duration + 1.0 if event.for_ is None else event.for_
    begin = test.model.start.at + event.at
    return Fault(begin, begin + seconds, event.query_fails or "", event.partial or "")
