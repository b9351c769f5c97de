"""A replay divided over processes: the whole of it, interrupted, and with one that dies."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from autoscaler.cli.output import CommandError
from autoscaler.core.breaker import Breaker
from autoscaler.lab.engine.answers import Answer
from autoscaler.lab.engine.building import BuiltTarget
from autoscaler.lab.engine.loads import RecordedLoad
from autoscaler.lab.engine.replay import run_replay
from tests.core.builders import BASE
from tests.narrowing import instance
from tests.replay.fleets import PERIOD, FleetPlan, fleet, plan_of

SYNCS = 40


def plan(
    happens: Callable[[Sequence[int], list[BuiltTarget]], object] = lambda *_: None,
) -> FleetPlan:
    return replace(plan_of(fleet(BASE, SYNCS, 5, 5), SYNCS), happens=happens, refuses=True)


def test_a_divided_replay_is_the_same() -> None:
    whole = run_replay(plan())
    for processes in (2, 9):
        reached: list[float] = []
        divided = run_replay(plan(), processes, reached.append)
        by_key = sorted(whole.outcomes, key=lambda outcome: outcome.key)
        assert list(divided.outcomes) == by_key
        assert divided.models == whole.models
        assert sorted(divided.refused) == sorted(whole.refused)
        assert (divided.begin, divided.end) == (BASE, BASE + SYNCS * PERIOD)
        assert reached == sorted(reached)


def test_targets_that_share_a_breaker_stay_together() -> None:
    seen = []
    together = plan(lambda numbers, _: seen.append(list(numbers)))
    run_replay(replace(together, breaker=Breaker()), 2)
    assert seen == [[0, 1, 2, 3, 4]]


def test_an_interrupt_keeps_the_syncs_so_far() -> None:
    own, (reading, writing) = os.getpid(), os.pipe()

    def interrupted(numbers: Sequence[int], found: list[BuiltTarget]) -> None:
        load = instance(RecordedLoad, found[0].target.loads[0])
        answers = load.answers

        def answer(instant: float) -> Answer:
            if instant == BASE + 11 * PERIOD:
                if 0 in numbers:
                    os.read(reading, 1)
                    os.kill(own, signal.SIGINT)
                else:
                    os.write(writing, b".")
                # Both end by the interrupt that the parent hands on, even just before a wait.
                for _ in range(600):
                    time.sleep(0.05)
            return answers(instant)

        load.answers = answer

    try:
        done = run_replay(plan(interrupted), 2)
    finally:
        os.close(reading)
        os.close(writing)
    assert done.end == BASE + 10 * PERIOD
    assert [outcome.end for outcome in done.outcomes] == [BASE + 11 * PERIOD] * 5


def test_a_process_that_dies_fails_the_replay() -> None:
    def dies(numbers: Sequence[int], _: object) -> None:
        if 1 in numbers:
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(CommandError, match="died"):
        run_replay(plan(dies), 2)


def test_an_exception_in_a_process_is_raised_again() -> None:
    def fails(numbers: Sequence[int], _: object) -> None:
        if 1 in numbers:
            raise ValueError("of target 1")

    with pytest.raises(ValueError, match="of target 1"):
        run_replay(plan(fails), 2)
