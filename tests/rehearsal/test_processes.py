"""A rehearsal divided over processes: the whole of it, interrupted, and with one that dies."""

import os
import signal
import threading
from collections.abc import Callable, Sequence

import pytest

from autoscaler.lab.engine.building import Built
from autoscaler.lab.engine.processes import LostProcessError, in_processes
from autoscaler.lab.engine.rehearse import Rehearsal, rehearse
from tests.core.builders import BASE
from tests.rehearsal.fleets import PERIOD, fleet

SYNCS = 40
END = BASE + SYNCS * PERIOD
Tell = Callable[[float], object]


def part(numbers: Sequence[int], tell: Tell) -> Rehearsal:
    targets = fleet(BASE, SYNCS, 5, 5)
    chosen = [Built(targets[number]) for number in numbers]
    return rehearse(chosen, BASE, END, progress=tell, refused=tuple(f"no {n}" for n in numbers))


def test_a_divided_rehearsal_is_the_same() -> None:
    """With more processes than targets, too; refusals and models are of all parts."""
    whole = in_processes(part, 5, 1)
    for processes in (2, 9):
        reached: list[float] = []
        divided = in_processes(part, 5, processes, reached.append)
        by_key = sorted(whole.outcomes, key=lambda one: one.key)
        assert list(divided.outcomes) == by_key
        assert divided.models == whole.models
        assert sorted(divided.refused) == sorted(whole.refused)
        assert (divided.begin, divided.end) == (BASE, END)
        assert reached == sorted(reached)


def test_an_interrupt_leaves_what_is_done() -> None:
    """All parts end where the interrupt has found them, and their outcomes are returned."""
    own, (reading, writing) = os.getpid(), os.pipe()

    def interrupted(numbers: Sequence[int], tell: Tell) -> Rehearsal:
        def at(instant: float) -> None:
            tell(instant)
            if instant == BASE + 10 * PERIOD:
                if 0 in numbers:
                    os.read(reading, 1)
                    os.kill(own, signal.SIGINT)
                else:
                    os.write(writing, b".")
                # Both end by the interrupt that the parent hands on.
                threading.Event().wait(30)

        return part(numbers, at)

    try:
        done = in_processes(interrupted, 5, 2)
    finally:
        os.close(reading)
        os.close(writing)
    assert done.end == BASE + 10 * PERIOD
    assert [one.end for one in done.outcomes] == [BASE + 11 * PERIOD] * 5


def test_a_process_that_dies_is_told() -> None:
    """In a sentence; the others end."""

    def dying(numbers: Sequence[int], tell: Tell) -> Rehearsal:
        if 1 in numbers:
            os.kill(os.getpid(), signal.SIGKILL)
        return part(numbers, tell)

    with pytest.raises(LostProcessError, match="a process of the rehearsal has died"):
        in_processes(dying, 5, 2)


def test_what_a_part_raises_is_raised() -> None:
    """With its own type and words, not as the death of a process."""

    def failing(numbers: Sequence[int], tell: Tell) -> Rehearsal:
        if 1 in numbers:
            raise ValueError("there is no such thing")
        return part(numbers, tell)

    with pytest.raises(ValueError, match="there is no such thing"):
        in_processes(failing, 5, 2)
