"""Defects and slowness of one thing leave everything else alone."""

import threading

import pytest

from autoscaler.app.completions import Completions
from autoscaler.core.decision import Outcome
from autoscaler.core.observation import Scale
from autoscaler.core.series import Answer, QueryFailure
from autoscaler.core.writes import WriteFailed
from tests.app.world import T0, Memory, answer, external

BUDGET = 10.0


def raise_defect(*_: object) -> None:
    """Raise what no port should."""
    raise OverflowError("a defect")


def test_a_query_that_raises_is_a_failed_query_and_a_fault() -> None:
    """Its target is blocked and says that the autoscaler is at fault; the other is scaled."""
    world = Memory(
        answers={"bad": answer(1.0), "queue": answer(90.0)},
        scales={"shop/a": Scale(5, 5, "app=a"), "shop/b": Scale(2, 2, "app=b")},
        on_query={"bad": raise_defect},
    )
    with world.syncer() as syncer:
        syncer.sync([external("shop", "a", promql="bad"), external("shop", "b")], T0, BUDGET)
    assert world.written == [("shop/b", 3)]
    blocked = world.result("shop/a").decision
    assert blocked.outcome is Outcome.BLOCKED
    assert "a fault of the autoscaler, OverflowError" in blocked.events[0].message
    assert [type(error) for error in world.faults] == [OverflowError]


def test_a_write_that_raises_is_a_failed_write_and_a_fault() -> None:
    """The target says so, and nothing is counted as written."""
    world = Memory(
        answers={"queue": answer(90.0)},
        scales={"shop/a": Scale(2, 2, "app=a")},
        on_write=raise_defect,
    )
    with world.syncer() as syncer:
        syncer.sync([external("shop", "a")], T0, BUDGET)
        assert syncer.histories.get("shop/Deployment/a", 0.0).last_scale_time is None
    assert isinstance(world.result("shop/a").write, WriteFailed)
    assert len(world.faults) == 1


def test_a_continuation_that_raises_keeps_no_other_from_running() -> None:
    """All run, and what was raised comes together in the end."""
    ran: list[int] = []
    completions = Completions()
    completions.soon(lambda: ran.append(1))
    completions.soon(raise_defect)
    completions.soon(lambda: ran.append(2))
    with pytest.raises(ExceptionGroup) as raised:
        completions.run(threading.Event())
    assert ran == [1, 2]
    assert [type(error) for error in raised.value.exceptions] == [OverflowError]


def test_queries_that_were_slow_keep_nobody_waiting() -> None:
    """After one slow sync forty slow queries hang; a quick one is answered and acted on at once."""
    release, written = threading.Event(), threading.Event()
    slow = [f"slow{number}" for number in range(40)]
    first = threading.Event()

    def dawdle() -> None:
        if first.is_set():
            assert written.wait(10), "the quick query waited for slow ones"
            release.wait(10)
        else:
            threading.Event().wait(0.02)

    def note_write(_name: str) -> None:
        written.set()
        release.set()

    names = [f"t{number}" for number in range(40)]
    answers: dict[str, Answer | QueryFailure] = {promql: answer(30.0) for promql in slow}
    world = Memory(
        answers=answers | {"queue": answer(30.0)},
        scales={f"shop/{name}": Scale(1, 1, f"app={name}") for name in [*names, "quick"]},
        on_query=dict.fromkeys(slow, dawdle),
        on_write=note_write,
    )
    pairs = zip(names, slow, strict=True)
    targets = [external("shop", name, promql=promql) for name, promql in pairs]
    targets.append(external("shop", "quick"))
    with world.syncer(slow_seconds=0.01) as syncer:
        syncer.sync(targets, T0, BUDGET)
        first.set()
        world.answers["queue"] = answer(90.0)
        syncer.sync(targets, T0 + 15, BUDGET)
    assert world.written == [("shop/quick", 3)]


def test_a_clock_that_is_set_frees_no_limit_early() -> None:
    """The clock jumps an hour ahead: the recommendation of 20 still holds its five minutes."""
    world = Memory(answers={"queue": answer(600.0)}, scales={"shop/a": Scale(20, 20, "app=a")})
    target = external("shop", "a")
    with world.syncer() as syncer:
        syncer.follow_clock(T0, 100.0)
        steps = len(world.steps)
        syncer.sync([target], T0, BUDGET)
        world.answers["queue"] = answer(0.0, now=T0 + 3600)
        syncer.follow_clock(T0 + 3600 + 15, 115.0)
        syncer.sync([target], T0 + 3600 + 15, BUDGET)
        assert world.written == []
        assert world.steps[steps:] == [3600.0]
        world.answers["queue"] = answer(0.0, now=T0 + 3600 + 301)
        syncer.sync([target], T0 + 3600 + 301, BUDGET)
    assert world.written == [("shop/a", 1)]


def test_a_clock_that_is_set_back_frees_no_limit_either() -> None:
    """An hour back: the same, and a sync that began before it counts by its own time."""
    world = Memory(answers={"queue": answer(600.0)}, scales={"shop/a": Scale(20, 20, "app=a")})
    target = external("shop", "a")
    with world.syncer() as syncer:
        syncer.follow_clock(T0, 100.0)
        as_of = syncer.histories.as_of
        syncer.sync([target], T0, BUDGET)
        syncer.follow_clock(T0 - 3600 + 15, 115.0)
        kept = syncer.histories.get(target.key, syncer.histories.as_of).recommendations
        assert kept is not None
        assert {one.time for one in kept} == {T0 - 3600}
        before = syncer.histories.get(target.key, as_of).recommendations
        assert before is not None
        assert {one.time for one in before} == {T0}
