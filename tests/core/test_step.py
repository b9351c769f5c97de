"""The step that every sync takes: its instants, breakers, and writes that are left out."""

import math
from collections.abc import Sequence
from dataclasses import fields, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autoscaler.core.decide import decide
from autoscaler.core.extensions import Extensions, Schedule
from autoscaler.core.history import History, PendingWrite, shifted
from autoscaler.core.observation import Hpa, Observation, OpenWindow, Scale, Values
from autoscaler.core.series import QueryResult, Series
from autoscaler.core.spec import (
    Flags,
    HorizontalPodAutoscalerSpec,
    PolicyType,
    ScalingPolicy,
    ScalingRules,
    SelectPolicy,
)
from autoscaler.core.step import Step, SyncTimes, inputs_of, instants_of, step_of
from autoscaler.core.sync_result import Rules, SyncResult
from autoscaler.core.target import Query, Target
from autoscaler.core.writes import SkippedWrite, SkippedWriteReason, settle
from tests.core.builders import (
    BASE,
    average,
    behavior,
    external,
    percent_policy,
    pods_policy,
    rules,
    spec,
    values,
)
from tests.core.entries import entries

NIGHT = Schedule("night", "0 22 * * *", "0 6 * * *", "UTC", min_replicas=1)
QUEUES = spec(
    external(average("10")),
    external(average("10"), "mails"),
    maximum=20,
    behavior=behavior(down=rules(percent_policy(100), window=0)),
)
TARGET = Target(
    "shop",
    QUEUES,
    (Query("queue", range_seconds=60.0), Query("mails", server="mimir")),
    extensions=Extensions(schedules=(NIGHT,)),
)
SEEN = Observation(Scale(10, 10, "app=web"), None, ())
ANSWERS = {query.key: QueryResult([Series({}, 20.0, BASE)]) for query in TARGET.queries}
ON_TIME = SyncTimes(BASE, BASE, BASE)


def closed(_schedules: Sequence[Schedule], _now: float) -> tuple[OpenWindow, ...]:
    return ()


def going_down() -> Step:
    """Return the step of a target that goes from 10 replicas to 2."""
    inputs = inputs_of(TARGET, History(recommendations=()), SEEN, ANSWERS, ON_TIME, closed)
    step = step_of(Rules(TARGET, Flags()), inputs)
    assert (step.decision.current, step.decision.desired) == (10, 2)
    return step


def test_an_observation_is_passed_on_unchanged() -> None:
    seen = Observation(
        SEEN.scale,
        (),
        (),
        ambiguous_with=("shop/Deployment/other",),
        controller="HorizontalPodAutoscaler web",
        sole_writer=False,
        last_read=BASE - 15,
        last_sync=BASE - 15,
        hpa=Hpa("web"),
    )
    found = inputs_of(TARGET, History(), seen, ANSWERS, ON_TIME, closed).observation
    filled = {"readings", "ranges", "windows", "metric_keys", "hold", "deletion_costs"}
    for field in fields(Observation):
        if field.name not in filled and not field.name.endswith("_replicas_reading"):
            assert getattr(found, field.name) == getattr(seen, field.name), field.name
            assert getattr(seen, field.name) != field.default, field.name


def test_a_late_sync_is_decided_as_of_its_instants_and_sees_the_windows_of_then() -> None:
    asked: list[tuple[Sequence[Schedule], float]] = []

    def opened(schedules: Sequence[Schedule], now: float) -> tuple[OpenWindow, ...]:
        asked.append((schedules, now))
        return (OpenWindow(NIGHT, BASE + 60, "06:00 UTC"),)

    times, read_before = SyncTimes(BASE, BASE + 3, BASE + 5), replace(SEEN, last_read=BASE - 15)
    inputs = inputs_of(TARGET, History(recommendations=()), read_before, ANSWERS, times, opened)
    assert (inputs.stamp, inputs.now) == (BASE + 3.5, BASE + 5)
    assert asked == [((NIGHT,), BASE + 5)]
    seen = inputs.observation
    assert [window.schedule for window in seen.windows] == [NIGHT]
    assert seen.readings == (Values((20_000,)), Values((20_000,)))
    assert (seen.last_read, seen.last_sync, seen.ranges) == (BASE - 15, None, (60.0, 0.0))


@pytest.mark.parametrize(("absent", "gaps"), [(15.0, 0), (22.5, 0), (23.0, 2), (1e9, 2)])
def test_an_absence_opens_a_gap_of_each_metric(absent: float, gaps: int) -> None:
    away = replace(SEEN, last_sync=BASE - absent)
    inputs = inputs_of(TARGET, History(recommendations=()), away, ANSWERS, ON_TIME, closed)
    assert len(inputs.history.gaps) == gaps
    assert inputs.observation.last_sync == BASE - absent


@pytest.mark.parametrize(
    ("holds", "server"),
    [
        ({}, None),
        ({"other": BASE + 900}, None),
        ({"": BASE + 600, "other": BASE + 900}, ""),
        ({"": BASE + 600, "mimir": BASE + 601}, "mimir"),
    ],
)
def test_the_breaker_that_holds_longest_of_the_own_servers_counts(
    holds: dict[str, float], server: str | None
) -> None:
    step = going_down()
    held = step.held_back(holds)
    if server is None:
        assert held is step
        return
    assert held.decision.breaker is not None
    assert (held.decision.breaker.server, held.decision.breaker.until) == (server, holds[server])
    assert (held.decision.desired, held.decision.rescale) == (10, False)
    assert held.history.desired_replicas == 10
    assert held.held_back(holds) is held, "what is held does not go down"


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(entries, st.sampled_from([None, PendingWrite(2, 4, BASE - 15, "11")]))
def test_a_skipped_write_changes_nothing(entry: SyncResult, earlier: PendingWrite | None) -> None:
    step = step_of(entry.rules, entry.inputs)
    step = replace(step, history=replace(step.history, pending=earlier))
    for reason in SkippedWriteReason:
        settled = step.settled(SkippedWrite(reason))
        assert settled == replace(step, write=SkippedWrite(reason))


def test_a_write_is_pending_before_it_is_sent() -> None:
    step = going_down()
    assert step.intended().pending == PendingWrite(10, 2, step.inputs.stamp, "")
    assert step.history.pending is None


# -- syncs that begin early or late decide as those on the grid and as the HPA ---------------------


PERIODS = (1.0, 2.5, 5.0, 0.7, 15.0)
"""Periods of a sync, in seconds; 0.7 is no binary fraction."""

EARLY, LATE = -0.02, 0.2
"""The jitter of a sync, in seconds."""

jitters = st.floats(EARLY, LATE)
loads = st.lists(st.integers(0, 400), min_size=4, max_size=24)


def multiples(period: float, most: int) -> st.SearchStrategy[int]:
    """Draw whole seconds that are a multiple of a period."""
    step = next(
        round(count * period)
        for count in range(1, 11)
        if math.isclose(count * period, round(count * period))
    )
    return st.integers(1, max(1, most // step)).map(lambda n: n * step)


@st.composite
def specs(draw: st.DrawFn, period: float) -> HorizontalPodAutoscalerSpec:
    """Draw a spec whose windows and policies last whole periods."""

    def drawn() -> ScalingRules:
        seconds = multiples(period, 60)
        policy = st.builds(ScalingPolicy, st.sampled_from(PolicyType), st.integers(1, 100), seconds)
        return rules(
            *draw(st.lists(policy, min_size=1, max_size=3)),
            window=draw(st.just(0) | multiples(period, 120)),
            select=draw(st.sampled_from([SelectPolicy.MAX, SelectPolicy.MIN])),
        )

    chosen = behavior(drawn(), drawn()) if draw(st.booleans()) else None
    return spec(external(average("1")), maximum=300, behavior=chosen)


class Loop:
    """One target that is synced on a grid; every write is accepted."""

    def __init__(self, of: HorizontalPodAutoscalerSpec, period: float, origin: float) -> None:
        self.spec, self.period, self.origin = of, period, origin
        self.flags = Flags(downscale_stabilization=round(20 * period))
        self.replicas, self.history = 1, History()
        self.changes: list[tuple[float, int]] = []

    def sync(self, number: int, load: int, late: float) -> int:
        """Sync for the given number in the grid, some seconds late; return the count."""
        due = self.origin + number * self.period
        stamp, now = instants_of(due, due + late, self.period)
        scale = Scale(self.replicas, self.replicas, "app=web")
        seen = Observation(scale, (), (values(load),))
        decision, self.history = decide(self.spec, self.flags, seen, self.history, now, stamp)
        if decision.rescale:
            self.changes.append((due + late, decision.desired - self.replicas))
            decision, self.history = settle(self.spec, decision, self.history)
            self.replicas = decision.desired
        return self.replicas


@given(st.data(), st.sampled_from(PERIODS), st.floats(0, 15), loads)
def test_jitter_changes_no_count(
    data: st.DataObject, period: float, offset: float, loads: list[int]
) -> None:
    """Any policy and window of whole periods: the counts are those of syncs without jitter.

    Also where the clock is set, and the histories moved with it, or the process starts again.
    """
    of = data.draw(specs(period))
    even, uneven = (Loop(of, period, BASE + offset) for _ in range(2))
    for number, load in enumerate(loads):
        if data.draw(st.integers(0, 9)) == 0:
            step = data.draw(st.floats(-1e5, 1e5))
            uneven.history = shifted(uneven.history, step)
            uneven.origin += step
        late = data.draw(jitters)
        assert uneven.sync(number, load, late) == even.sync(number, load, 0.0)


@given(st.data(), st.sampled_from(PERIODS), loads)
def test_an_event_as_old_as_the_period_has_left_it(
    data: st.DataObject, period: float, loads: list[int]
) -> None:
    of = data.draw(specs(period))
    ours, theirs = Loop(of, period, BASE), Loop(of, period, BASE)
    theirs.period = period + 0.003
    for number, load in enumerate(loads):
        assert ours.sync(number, load, data.draw(jitters)) == theirs.sync(number, load, 0.0)


@given(st.data(), st.sampled_from([1.0, 5.0, 15.0]), st.lists(st.floats(0, 0.99), min_size=4))
def test_a_late_sync_lets_no_more_through(
    data: st.DataObject, period: float, parts: list[float]
) -> None:
    pods, seconds = data.draw(st.integers(1, 9)), data.draw(multiples(period, 60))
    up = rules(pods_policy(pods, seconds), window=0)
    of = spec(external(average("1")), maximum=10_000, behavior=behavior(up))
    loop = Loop(of, period, BASE)
    for number, part in enumerate(parts):
        loop.sync(number, 9_000, part * period)
    slack = max(0.25, period / 10) + 0.001  # `now` is at least a millisecond after `due`
    for at, _ in loop.changes:
        within = sum(change for time, change in loop.changes if at - seconds + slack < time <= at)
        assert within <= pods


@given(st.floats(1, 60), st.floats(-100, 100), st.floats(0, 1e9))
def test_a_stamp_is_not_after_its_decision(period: float, late: float, origin: float) -> None:
    due = BASE + origin
    stamp, now = instants_of(due, due + late, period)
    assert stamp < now or math.isclose(stamp, now)
    if EARLY <= late <= LATE:
        assert stamp == due
        assert now > due
    elif late >= -1:
        assert now == max(due + late, now)
        assert stamp >= due
