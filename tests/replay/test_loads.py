"""How readings follow a count that is not the recorded one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.observation import PodSamples, Values
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.core.target import Query
from autoscaler.lab.engine.answers import Answers
from autoscaler.lab.engine.loads import Average, QueueLoad, RecordedLoad, SharedLoad, Total, Totals
from autoscaler.lab.engine.workloads import SimulatedWorkload
from tests.core.builders import BASE, external, per_pod, value
from tests.replay.fleets import series

_PODS = PodSamples({})


def known(total: Total | Average | QueryFailure | None) -> Totals:
    return lambda _: total


def answers(*values: float) -> Answers:
    return series(list(values), BASE, {})


def shared(
    total: Total | Average | QueryFailure | None, capacity: float | None = None
) -> SharedLoad:
    return SharedLoad(known(total), per_pod("10"), Query("rps"), "shop", 10.0, capacity)


def milli(answer: QueryResult | QueryFailure) -> list[int]:
    assert isinstance(answer, QueryResult)
    return [round(series.value * 1000) for series in answer.series]


@given(st.floats(0, 1e6), st.integers(1, 50), st.integers(1, 50))
def test_thousandths_of_a_shared_total_add_up(total: float, pods: int, ready: int) -> None:
    load = shared(Total(total, pods))
    found = milli(load.answer(BASE, SimulatedWorkload("web", BASE, ready)))
    assert len(found) == ready
    assert max(found) - min(found) <= 1
    assert abs(sum(found) - total * 1000) <= max(1.0, total * 1e-9)


def test_pods_that_are_not_ready_take_no_part() -> None:
    web = SimulatedWorkload("web", BASE, 2, ready_seconds=30.0)
    web.set(4, BASE)
    load = shared(Total(80.0, 4))
    assert milli(load.answer(BASE + 15, web)) == [40_000, 40_000]
    assert milli(load.answer(BASE + 30, web)) == [20_000] * 4
    assert load.demand(_PODS) == 8.0


def test_a_pod_reads_no_more_than_its_capacity() -> None:
    load = shared(Total(80.0, 6), capacity=15.0)
    assert milli(load.answer(BASE, SimulatedWorkload("web", BASE, 4))) == [15_000] * 4
    assert load.demand(_PODS) == 8.0
    assert not load.censored
    load.totals = known(Total(75.0, 5))
    load.answer(BASE, SimulatedWorkload("web", BASE, 5))
    assert load.censored


def test_in_a_gap_nothing_is_censored() -> None:
    load, web = shared(Total(75.0, 5), capacity=15.0), SimulatedWorkload("web", BASE, 0)
    found = []
    for total in (Total(75.0, 5), None, Total(75.0, 5), QueryFailure("no answer")):
        load.totals = known(total)
        load.answer(BASE, web)
        found.append(load.censored)
    assert found == [True, False, True, False]


def test_at_the_recorded_count_a_reading_is_as_it_was() -> None:
    web = SimulatedWorkload("web", BASE, 2, ready_seconds=30.0)
    web.set(4, BASE)
    load = shared(Average(20.0, 4, 1, 4))
    assert milli(load.answer(BASE, web)) == [20_000, 20_000]


@pytest.mark.parametrize(
    ("least", "most", "early", "late"), [(1, 4, 2, 4), (3, 4, 3, 4), (1, 3, 2, 3)]
)
def test_an_average_is_of_recorded_ready_pods(least: int, most: int, early: int, late: int) -> None:
    web = SimulatedWorkload("web", BASE, 9, ready_seconds=30.0)
    load = shared(Average(20.0, 2, 1, 2))
    load.answer(BASE, web)
    load.totals = known(Average(20.0, 4, least, most))
    found = []
    for at in (15.0, 30.0):
        load.answer(BASE + at, web)
        found.append(load.demand(_PODS))
    assert found == [2.0 * early, 2.0 * late]


def test_an_unknown_load_has_no_reading() -> None:
    web = SimulatedWorkload("web", BASE, 2)
    missing = shared(None)
    assert missing.answer(BASE, web) == QueryResult(())
    assert missing.demand(_PODS) is None
    failed = QueryFailure("no answer")
    assert shared(failed).answer(BASE, web) == failed
    load = shared(Total(80.0, 4))
    assert load.answer(BASE, SimulatedWorkload("web", BASE, 0)) == QueryResult(())
    assert load.demand(_PODS) == 8.0


def test_a_shared_value_is_one_series() -> None:
    load = SharedLoad(known(Total(90.0, 3)), external(value("20")), Query("q"), "shop", None)
    assert milli(load.answer(BASE, SimulatedWorkload("web", BASE, 6))) == [15_000]
    assert load.demand(Values((15_000,))) is None


def test_a_recorded_load_is_as_it_was() -> None:
    load = RecordedLoad(answers(45.0), 10.0)
    web = SimulatedWorkload("web", BASE, 2)
    assert milli(load.answer(BASE, web)) == [45_000]
    assert load.demand(Values((45_000,))) == 4.5
    assert RecordedLoad(answers(45.0), None).demand(Values((45_000,))) is None


# -- queues --------------------------------------------------------------------------------------


def test_a_queue_fills_and_drains() -> None:
    """10 a second come, each pod takes 4: with 2 pods it grows by 2 a second, with 4 it drains."""
    load = QueueLoad(answers(10.0, 10.0, 10.0), 4.0, {"queue": "mail"}, length=5.0)
    web = SimulatedWorkload("web", BASE, 2)
    assert milli(load.answer(BASE, web)) == [5_000]
    load.advance(BASE, BASE + 15, ready=2)
    assert load.length == pytest.approx(35.0)
    load.answer(BASE + 15, web)
    load.advance(BASE + 15, BASE + 30, ready=4)
    assert load.length == 0.0
    filled, drained = load.passed
    assert filled.length == pytest.approx(20.0)
    assert filled.served == pytest.approx(120.0)
    assert filled.wait == pytest.approx(35 / 8)
    # It is empty after 35/6 s, and stays so.
    assert drained.length == pytest.approx(35 / 2 * (35 / 6) / 15)
    assert drained.served == pytest.approx(35.0 + 150.0)
    assert load.demand(Values((0,))) == 2.5


@given(
    st.lists(st.tuples(st.floats(0, 100), st.integers(0, 30)), min_size=1, max_size=40),
    st.floats(0, 1000),
)
def test_arrivals_are_served_or_wait(course: list[tuple[float, int]], length: float) -> None:
    load = QueueLoad(answers(*(rate for rate, _ in course)), 3.0, {}, length)
    web = SimulatedWorkload("web", BASE, 1)
    for number, (_, ready) in enumerate(course):
        at = BASE + 15 * number
        load.answer(at, web)
        load.advance(at, at + 15, ready)
        assert load.length >= 0.0
    arrived = sum(rate * 15 for rate, _ in course)
    served = sum(time.served for time in load.passed)
    assert served + load.length == pytest.approx(arrived + length, abs=1e-6)


def test_in_a_gap_of_the_arrivals_a_queue_is_not_read() -> None:
    load = QueueLoad(answers(10.0), 4.0, {}, length=7.0)
    web = SimulatedWorkload("web", BASE, 1)
    assert load.answer(BASE + 60, web) == QueryResult(())
    load.advance(BASE + 60, BASE + 75, ready=1)
    assert load.length == 7.0
    assert load.demand(Values((0,))) is None
