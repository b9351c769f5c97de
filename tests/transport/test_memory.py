"""How much memory answers may take together, and how much one takes."""

import io
import json
import threading
import tracemalloc
import weakref

import pytest
from urllib3 import HTTPResponse

from autoscaler import clock
from autoscaler.transport.answers import (
    MIB,
    Answer,
    AnswerMemory,
    BodyTooLargeError,
    Budget,
    DocumentTooLargeError,
    memory_of,
    parse,
)
from autoscaler.transport.redaction import Redactor
from tests.narrowing import known
from tests.worlds.waiting import wait_until


def at_once(budget: Budget, size: int) -> bool:
    room = budget.reserve(size, clock.monotonic())
    if room is not None:
        room.shrink()
    return room is not None


def test_memory_is_returned_once() -> None:
    budget = Budget(10)
    room = known(budget.reserve(7, clock.monotonic()))
    assert not at_once(budget, 4)
    assert at_once(budget, 3)
    room.shrink()
    room.shrink()
    assert at_once(budget, 10)
    assert not at_once(budget, 11)


def test_large_answers_leave_memory_for_small_ones() -> None:
    budget = Budget(10, small=1, kept_for_small=4)
    assert budget.most == 6
    large = budget.reserve(6, clock.monotonic())
    assert large is not None
    assert not at_once(budget, 2)
    assert at_once(budget, 1)


def test_a_waiting_reservation_gets_freed_memory() -> None:
    budget = Budget(10)
    room = known(budget.reserve(10, clock.monotonic()))
    timer = threading.Timer(0.1, room.shrink)
    timer.start()
    assert budget.reserve(10, clock.monotonic() + 20) is not None
    timer.join()


@pytest.mark.usefixtures("no_garbage_collection")
def test_memory_is_reserved_as_long_as_the_result_lives() -> None:
    class Kept:
        pass

    size = memory_of(b"[]")
    memory, kept = AnswerMemory(100, parsed=size, kept_for_small=0), Kept()
    answer = Answer(memory, clock.monotonic() + 5, 5)
    answer.parse(b"[]")
    answer.keep(kept)
    del answer
    assert not at_once(memory.parsed, size)
    del kept
    wait_until("memory freed", lambda: at_once(memory.parsed, size))


@pytest.mark.usefixtures("no_garbage_collection")
def test_a_refused_answer_reserves_no_memory() -> None:
    most = MIB
    memory = AnswerMemory(most, parsed=1, at_once=1)
    body = HTTPResponse(io.BytesIO(bytes(most + 1)), preload_content=False)
    answer = Answer(memory, clock.monotonic() + 5, 5).receive(body, Redactor())
    assert isinstance(answer.unread, BodyTooLargeError)
    assert at_once(memory.received, most)
    gone = weakref.ref(answer)
    del answer
    assert gone() is None


BODIES = {
    "empty lists": "[" + ",".join(["[]"] * 50_000) + "]",
    "lists of one": "[" + ",".join(["[0]"] * 50_000) + "]",
    "lists in lists": "[" * 900 + "]" * 900,
    "empty objects": "[" + ",".join(["{}"] * 50_000) + "]",
    "objects of one": "[" + ",".join(['{"":0}'] * 50_000) + "]",
    "one object": json.dumps({str(number): 0 for number in range(100_000)}),
    "numbers": json.dumps(list(range(1000, 90_000)), separators=(",", ":")),
    "strings": "[" + ",".join(['"ab"'] * 50_000) + "]",
    "a wide text": json.dumps(["\u4e2d" + "a" * 100_000], ensure_ascii=False),
    "the widest text": json.dumps(["\U0001f600" + "a" * 100_000], ensure_ascii=False),
    "an accent": json.dumps(["\u00e4" + "a" * 100_000], ensure_ascii=False),
    "wide escapes": json.dumps(["\u4e2d" + "a" * 1000] * 99),
    "widest escapes": json.dumps(["\U0001f600" + "a" * 1000] * 99),
    "escapes": json.dumps(["\u00e4" + "a" * 1000] * 99),
}


@pytest.mark.parametrize("what", BODIES)
def test_parsing_takes_no_more_memory_than_estimated(what: str) -> None:
    body = BODIES[what].encode()
    estimate = memory_of(body)
    tracemalloc.start()
    try:
        document = parse(body, estimate)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert document
    assert peak <= estimate * 1.05
    with pytest.raises(DocumentTooLargeError):
        parse(body, estimate - 1)
