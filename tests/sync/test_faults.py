"""Defects and slowness of one thing leave everything else alone."""

import re
import threading
import time
from concurrent.futures import Future

import pytest

from autoscaler import clock
from autoscaler.core.decision import Outcome
from autoscaler.core.observation import Scale
from autoscaler.core.series import QueryFailure
from autoscaler.core.target import Query, Target
from autoscaler.core.writes import WriteFailure
from autoscaler.sync import calls
from autoscaler.sync.driver import Coroutine, Driver
from tests.worlds.memory import T0, Memory, answer, external, queue, sync_once

BUDGET = 10.0
TOO_OLD = r"was sampled at [-0-9]+T[:0-9]+Z, and is older than 300 s \(maxAge\)"
"""The message of a target whose metric is older than the usual maxAge."""


def raise_defect(*_: object) -> None:
    raise OverflowError("a defect")


def test_a_defect_within_one_target_keeps_no_other_from_being_synced() -> None:
    world = queue(90.0, a=2, b=2)
    with world.syncer() as syncer:
        register = syncer.overlaps.register

        def fail_for_a(target: str, place: tuple[str, str], selector: str) -> None:
            if selector == "app=a":
                raise_defect()
            register(target, place, selector)

        syncer.overlaps.register = fail_for_a  # type: ignore[method-assign]
        with pytest.raises(ExceptionGroup) as raised:
            syncer.sync([external("shop", "a"), external("shop", "b")], T0, BUDGET)
    assert [type(error) for error in raised.value.exceptions] == [OverflowError]
    assert world.written == [("shop/b", 3)]


class OwnTime(threading.local):
    """A clock of each thread, which only the slow queries of the test move."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_slow_queries_do_not_delay_a_quick_one(monkeypatch: pytest.MonkeyPatch) -> None:
    own_time = OwnTime()
    monkeypatch.setattr(calls, "clock", own_time)
    release, written = threading.Event(), threading.Event()
    slow = [f"slow{number}" for number in range(40)]
    first = threading.Event()

    def dawdle() -> None:
        if first.is_set():
            assert written.wait(10), "the quick query waited for slow ones"
            release.wait(10)
        else:
            own_time.now += 0.02

    def note_write(_name: str) -> None:
        written.set()
        release.set()

    names = [f"t{number}" for number in range(40)]
    world = queue(30.0, **dict.fromkeys([*names, "quick"], 1))
    world.answers |= {promql: answer(30.0) for promql in slow}
    world.on_query = dict.fromkeys(slow, dawdle)
    world.on_write = note_write
    pairs = zip(names, slow, strict=True)
    targets = [external("shop", name, promql=promql) for name, promql in pairs]
    targets.append(external("shop", "quick"))
    with world.syncer(slow_seconds=0.01) as syncer:
        syncer.sync(targets, T0, BUDGET, steady=0.0)
        first.set()
        world.answers["queue"] = answer(90.0)
        syncer.sync(targets, T0 + 15, BUDGET, steady=15.0)
    assert world.written == [("shop/quick", 3)]


def test_a_clock_that_is_set_frees_no_limit_early() -> None:
    """The clock jumps an hour ahead: the recommendation of 20 still holds its five minutes."""
    world = queue(600.0, a=20)
    targets = [external("shop", "a")]
    with world.syncer() as syncer:
        syncer.sync(targets, T0, BUDGET, steady=100.0)
        steps = len(world.steps)
        for later in (15.0 * sync for sync in range(1, 21)):
            now = T0 + 3600 + later
            world.answers["queue"] = answer(0.0, now=now)
            syncer.sync(targets, now, BUDGET, steady=100.0 + later)
            # The decision is taken after the sync was due: five minutes have passed at 300 s.
            assert world.written == ([("shop/a", 1)] if later >= 300 else [])
        assert world.steps[steps:] == [3600.0]


def test_while_the_clock_is_ahead_of_prometheus_nothing_moves() -> None:
    names, loads = ("up", "down"), {"up": 600.0, "down": 0.0}
    world = Memory(scales={f"shop/{name}": Scale(5, 5, f"app={name}") for name in names})
    targets = [external("shop", name, promql=name) for name in names]
    with world.syncer() as syncer:
        for sync, ahead in enumerate((301.0, 3600.0, 301.0, 299.0)):
            passed = 15.0 * sync
            now, steady = T0 + passed, 100.0 + passed
            world.answers.update({name: answer(loads[name], now=now) for name in names})
            syncer.sync(targets, now + ahead, BUDGET, steady=steady)
            for name in names:
                decision = world.result(f"shop/{name}").decision
                if ahead > 300:
                    assert decision.outcome is Outcome.BLOCKED
                    assert re.search(TOO_OLD, decision.events[0].message)
            # That of 0 is held by its window.
            assert world.written == ([] if ahead > 300 else [("shop/up", 10)])


def test_a_clock_that_is_set_back_moves_the_histories_with_it() -> None:
    """An hour back; a sync that began before it still counts by its own time."""
    world = queue(600.0, a=20)
    target = external("shop", "a")
    with world.syncer() as syncer:
        syncer.sync([target], T0, BUDGET, steady=100.0)
        as_of = syncer.histories.as_of
        syncer.histories.follow_clock(T0 - 3600 + 15, 115.0)
        for view, seen in ((syncer.histories.as_of, T0 - 3600), (as_of, T0)):
            recommendations = syncer.histories.get(target.key, view).recommendations
            assert recommendations is not None
            assert {recommendation.time for recommendation in recommendations} == {seen}


def test_a_backlog_of_writes_ends_with_the_sync() -> None:
    names = [f"t{number}" for number in range(30)]
    world = queue(90.0, **dict.fromkeys(names, 2))
    stop, begun = threading.Event(), clock.monotonic()
    with world.syncer(stop, writes_per_second={"": 1.0}) as syncer:
        syncer.sync([external("shop", name) for name in names], T0, 4.0)
        took = clock.monotonic() - begun
        # Else the end waits for turns that nobody needs any more.
        stop.set()
    assert took < 15.0
    assert 10 <= len(world.written) <= 12 + took
    failed = [result for result in world.results if isinstance(result.write, WriteFailure)]
    assert len(failed) + len(world.written) == len(names)
    assert "no turn came" in failed[0].decision.events[-1].message


def test_a_stop_with_thousands_of_calls_outstanding_is_quick() -> None:
    stop, driver = threading.Event(), Driver()
    dropped: list[Future[None]] = []
    futures: list[Future[None]] = [Future() for _ in range(5000)]

    def wait_for(future: Future[None]) -> Coroutine[None]:
        yield future
        dropped.append(future)

    for future in futures:
        driver.start(wait_for(future))
    stop.set()
    begun = time.thread_time()
    driver.run(stop, clock.monotonic() + 60)
    assert dropped == futures
    assert all(future.cancelled() for future in futures)
    assert time.thread_time() - begun < 2.0


def test_a_slow_namespace_leaves_room_for_the_others() -> None:
    """Forty writes of one namespace hang until one of another namespace has been carried out."""
    other = threading.Event()

    def hang(name: str) -> None:
        if name.startswith("bad/"):
            assert other.wait(10), "the other namespace waited for the slow one"
        else:
            other.set()

    names = [f"t{number}" for number in range(40)]
    world = Memory(answers={"queue": answer(90.0)}, on_write=hang)
    world.scales = {f"bad/{name}": Scale(1, 1, f"app={name}") for name in names}
    world.scales["good/x"] = Scale(2, 2, "app=x")
    sync_once(world, *(external("bad", name) for name in names), external("good", "x"))
    assert len(world.written) == 41


PERIOD = 15
EVERY = 50
"""One query of so many fails."""
LOWERED = 5
"""The sync from which on there is nothing to do."""


def down_after(first_failure: int, promql: str, seconds: float) -> float:
    """Return the seconds from the end of a load to the first count below."""
    whole = external("shop", "worker")
    target = Target(whole.namespace, whole.spec, (Query(promql, range_seconds=seconds),))
    world = Memory(scales={"shop/worker": Scale(10, 10, "app=worker")})
    with world.syncer() as syncer:
        for sync in range(4 * EVERY):
            now = T0 + sync * PERIOD
            fails = sync % EVERY == first_failure
            load = answer(300.0 if sync < LOWERED else 0.0, now=now)
            world.answers[promql] = QueryFailure("no head") if fails else load
            syncer.sync([target], now, budget=10.0, steady=float(sync * PERIOD))
            if world.written:
                return float((sync - LOWERED) * PERIOD)
    raise AssertionError("it never went down")


@pytest.mark.parametrize("first_failure", [0, LOWERED, 10, 24, 26, 30, 49])
@pytest.mark.parametrize(
    ("promql", "seconds"), [("sum(rate(jobs_total[2m]))", 120.0), ("sum(queue_depth)", 0.0)]
)
def test_a_query_that_fails_at_times_delays_no_scale_down(
    first_failure: int, promql: str, seconds: float
) -> None:
    """A load that ends takes its target down, at most one and a half ranges after its window."""
    # The last recommendation of the load is one sync older than its end.
    assert (
        300 - PERIOD <= down_after(first_failure, promql, seconds) <= 300 + 1.5 * 120 + 3 * PERIOD
    )
