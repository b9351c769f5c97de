"""What would change a decision: each alternative is compared with a decision that has it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings

from autoscaler.core.breaker import held_back
from autoscaler.core.extensions import Extensions, Idle, Schedule
from autoscaler.core.numbers import INT64_MAX
from autoscaler.core.observation import OpenWindow, PodSamples, Reading, Values
from autoscaler.core.step import step_of
from autoscaler.core.sync_result import SyncResult
from autoscaler.rendering import alternatives
from autoscaler.rendering.alternatives import (
    PARTS,
    OtherBound,
    OtherValue,
    RemovedInput,
    alternatives_of,
)
from tests.core.builders import (
    BASE,
    average,
    behavior,
    cpu,
    external,
    per_pod,
    pods_policy,
    rules,
    spec,
    utilization,
)
from tests.core.entries import decided, entries, of_last
from tests.core.timeline import Timeline
from tests.narrowing import assert_parts, instance, known

QUEUE, MAILS = external(average("5")), external(average("5"), "mails")
NIGHT = Schedule("night", "0 22 * * *", "0 6 * * *", "UTC", 2, 4)
modest = settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow])


def with_reading(entry: SyncResult, index: int, reading: Reading) -> SyncResult:
    readings = list(entry.inputs.observation.readings)
    readings[index] = reading
    seen = replace(entry.inputs.observation, readings=tuple(readings))
    return replace(entry, given=replace(entry.inputs, observation=seen))


def with_history(entry: SyncResult, **changes: Any) -> SyncResult:
    """Return an entry that is decided again with a changed history."""
    history = replace(entry.inputs.history, **changes)
    entry = replace(entry, given=replace(entry.inputs, history=history))
    return replace(entry, decision=decided(entry))


def nearer(entry: SyncResult, found: OtherValue) -> Reading:
    """Return the reading that is one unit nearer to the one that was read."""
    was, now = entry.inputs.observation.readings[found.index], found.result.reading
    target = entry.target.spec.metrics[found.index].target
    if isinstance(was, Values):
        assert isinstance(now, Values)
        whole = [*was.values, target.value or target.average_value or 0]
        unit = 1000 if all(value % 1000 == 0 for value in whole) else 1
        back = -unit if sum(now.values) > sum(was.values) else unit
        return replace(was, values=(sum(now.values) + back,))
    assert isinstance(was, PodSamples)
    assert found.parts is not None
    return loaded(was, found.parts - (1 if found.parts > 0 else -1))


def loaded(was: PodSamples, parts: int) -> PodSamples:
    """Return samples that are larger by parts of 10,000, rounded down."""
    samples = {
        pod: replace(
            sample,
            milli=min(sample.milli + sample.milli * parts // PARTS, max(sample.milli, INT64_MAX)),
        )
        for pod, sample in was.samples.items()
    }
    return replace(was, samples=samples)


@modest
@given(entries)
def test_the_named_value_changes_the_count_and_one_unit_nearer_does_not(entry: SyncResult) -> None:
    before = entry.decision
    for element in other_values(entry):
        was, reading = entry.inputs.observation.readings[element.index], element.result.reading
        if isinstance(was, PodSamples):
            assert element.parts is not None
            reading = loaded(was, element.parts)
        then = decided(with_reading(entry, element.index, reading))
        near = decided(with_reading(entry, element.index, nearer(entry, element)))
        asks = known(then.metrics[element.index].proposal)
        assert (element.result.proposal, element.desired) == (asks, then.desired)
        near_asks = near.metrics[element.index].proposal if near.metrics else None
        if isinstance(was, Values):
            assert isinstance(reading, Values)
            up = sum(reading.values) > sum(was.values)
        else:
            up = (element.parts or 0) > 0
        assert element.desired > before.desired if up else element.desired < before.desired
        is_same = near.desired <= before.desired if up else near.desired >= before.desired
        assert is_same or near_asks is None


@modest
@given(entries)
def test_the_named_bound_changes_the_count_and_one_replica_less_does_not(
    entry: SyncResult,
) -> None:
    seen = entry.inputs.observation
    assume(not seen.windows and not seen.asks_for_bounds)
    for element in alternatives_of(entry):
        if not isinstance(element, OtherBound):
            continue
        up = element.which == "maxReplicas"
        assert element.desired != entry.decision.desired
        assert (element.desired > entry.decision.desired) == up
        assert bounded(entry, element.replicas, up=up) == element.desired
        if not up or element.replicas == element.desired:
            near = element.replicas + (-1 if up else 1)
            assert bounded(entry, near, up=up) != element.desired


def bounded(entry: SyncResult, replicas: int, *, up: bool) -> int:
    bound = "max_replicas" if up else "min_replicas"
    changes: dict[str, Any] = {bound: replicas}
    other = replace(entry.target.spec, **changes)
    return decided(replace(entry, target=replace(entry.target, spec=other))).desired


@modest
@given(entries)
def test_an_input_that_makes_no_difference_is_not_named(entry: SyncResult) -> None:
    found = [element for element in alternatives_of(entry) if not isinstance(element, OtherValue)]
    assert all(other.desired != entry.decision.desired for other in found)
    decision, extensions = entry.decision, entry.target.extensions
    asked, seen = decision.combination, entry.inputs.observation
    plain = extensions == Extensions() and not seen.asks_for_bounds
    if asked is not None and asked.failed == 0 and plain:
        stages = (decision.stabilization, decision.limit)
        if all(stage is not None and stage.before == stage.after for stage in stages):
            assert found == []


# -- one by one ----------------------------------------------------------------------------------


def without(timeline: Timeline) -> dict[str, int]:
    """Return the counts of the last sync without each thing, and with other bounds."""
    return dict(_without(of_last(timeline)))


def _without(entry: SyncResult) -> Iterator[tuple[str, int]]:
    for element in alternatives_of(entry):
        if isinstance(element, RemovedInput):
            yield element.what, element.desired
        elif isinstance(element, OtherBound):
            assert element.which == "maxReplicas" or element.replicas == element.desired
            yield element.which, element.replicas


def assert_only_without(counts: dict[str, int], replicas: int, *parts: str) -> None:
    """Check that without one thing alone there would be that count, and the values that name it."""
    ((what, desired),) = counts.items()
    assert desired == replicas
    assert_parts(what, *parts)


def other_values(entry: SyncResult) -> list[OtherValue]:
    return [element for element in alternatives_of(entry) if isinstance(element, OtherValue)]


def values(entry: SyncResult) -> list[tuple[int, int, int]]:
    """Return the value, what the metric asks for and the count, of each other value."""
    return [
        (_number(other), other.result.proposal or 0, other.desired) for other in other_values(entry)
    ]


def _number(value: OtherValue) -> int:
    if value.parts is not None:
        return value.parts
    return sum(instance(Values, value.result.reading).values)


def target(*metrics: object, extensions: Extensions | None = None, **bounds: int) -> Timeline:
    """Begin a timeline of a target with 8 replicas whose scale-down nothing holds."""
    free = behavior(up=rules(pods_policy(100), window=0), down=rules(pods_policy(100), window=0))
    of = spec(*(metrics or (QUEUE,)), behavior=free, **bounds)  # type: ignore[arg-type]
    return Timeline(of, replicas=8, extensions=extensions or Extensions())


def test_the_nearest_values_respect_the_tolerance() -> None:
    """8 replicas tolerate 36 to 44 messages of 5 each; 41 of 40 asks for no more."""
    timeline = target().sync("0s", queue=40)
    assert values(of_last(timeline)) == [(45_000, 9, 9), (35_000, 7, 7)]


def test_the_neighbours_of_a_fraction_are_in_thousandths() -> None:
    """10.001 messages need a third replica."""
    timeline = target().by_hand(1).sync("0s", queue=9.5)
    assert values(of_last(timeline)) == [(10_001, 3, 3), (5_500, 1, 1)]


def test_the_load_of_pods_is_changed_in_all_of_them() -> None:
    entry = of_last(target(cpu(utilization(80))).sync("0s", cpu=80))
    assert values(entry) == [(1125, 9, 9), (-1126, 7, 7)]


def test_no_alternative_is_a_load_below_zero() -> None:
    timeline = target(per_pod("20")).by_hand(2).sync("0s", rps=1)
    assert all(number >= -PARTS for number, _, _ in values(of_last(timeline)))
    timeline = target(per_pod("20")).by_hand(1).sync("0s", rps=20)
    assert [number for number, _, _ in values(of_last(timeline))] == [1001]


def test_only_a_value_that_moves_the_target_is_named() -> None:
    entry = of_last(target(QUEUE, MAILS).sync("0s", queue=40, mails=20))
    assert values(entry) == [(45_000, 9, 9), (35_000, 7, 7), (45_000, 9, 9)]


def test_a_search_takes_at_most_64_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = of_last(target(external(average("9G"))).sync("0s", queue=0))
    calls: list[int] = []

    def counting(*arguments: object) -> object:
        calls.append(1)
        return step_of(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(alternatives, "step_of", counting)
    assert values(entry) == [(9_000_000_001_000, 2, 2)]
    assert len(calls) < 128


def test_the_largest_of_many_metrics_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """No further search begins after the limit of computed samples."""
    entry = of_last(target(QUEUE, MAILS).sync("0s", queue=20, mails=40))
    assert [element.index for element in other_values(entry)] == [1, 1, 0]
    monkeypatch.setattr(alternatives, "_MOST_COMPUTED", 500)
    assert [element.index for element in other_values(entry)] == [1]


def test_the_count_after_a_hole_in_the_recommendations_is_an_alternative() -> None:
    entry = of_last(Timeline(spec(QUEUE), replicas=8).sync("0s", queue=40).sync("10m", queue=10))
    assert entry.decision.desired == 2
    entry = with_history(entry, unobserved=True)
    assert entry.decision.desired == 8
    assert_only_without(dict(_without(entry)), 2, "8 replicas", "00:10:00Z")


def test_a_new_target_is_not_taken_for_idle() -> None:
    idle = Extensions(idle=Idle(after=0.0, initially=600.0))
    timeline = Timeline(spec(QUEUE), replicas=8, extensions=idle).sync("0s", queue=0)
    assert_only_without(without(timeline), 1, "8 replicas", "00:00:00Z")


def test_a_target_after_an_absence_is_not_taken_for_idle() -> None:
    """Its cooldown begins anew, so that without recommendations it would have gone down to 1."""
    idle = Extensions(idle=Idle(after=60.0))
    timeline = Timeline(spec(QUEUE), replicas=8, extensions=idle).sync("0s", queue=80)
    timeline.away(240)
    assert without(timeline.sync("4m", queue=0)) == {"the earlier recommendations": 1}


def test_a_gap_in_the_readings_is_an_alternative() -> None:
    timeline = target().over(60).sync("0s", queue=40).sync("2m", queue=40).sync("5m", queue=40)
    timeline.sync("5m15s", queue=None).sync("6m15s", queue=20)
    assert_only_without(without(timeline), 4, "gap")


def test_the_doubling_without_a_behavior_is_an_alternative() -> None:
    timeline = Timeline(spec(QUEUE), replicas=8).sync("0s", queue=100)
    assert without(timeline) == {"the scaling policies": 20}


def test_writes_of_other_instances_count_as_all_that_the_policies_permit() -> None:
    limited = behavior(up=rules(pods_policy(1, 60), window=0))
    entry = of_last(Timeline(spec(QUEUE, behavior=limited), replicas=8).sync("0s", queue=100))
    entry = with_history(entry, unseen=BASE - 0.5)
    assert entry.decision.desired == 8
    assert dict(_without(entry)) == {"the scaling policies": 20}


def test_a_recommendation_that_a_limit_cuts_is_named_alone() -> None:
    timeline = Timeline(spec(QUEUE), replicas=8).sync("0s", queue=500).sync("15s", queue=50)
    assert timeline.decision.desired == 32
    assert_only_without(without(timeline), 10, "recommendation", "100", "00:00:00Z")


def test_a_bound_that_holds_is_an_alternative() -> None:
    assert without(target(maximum=10).sync("0s", queue=60)) == {"maxReplicas": 12}
    assert without(target(maximum=6).sync("0s", queue=35)) == {"maxReplicas": 7}
    assert without(target(minimum=6).sync("0s", queue=20)) == {"minReplicas": 4}
    assert without(target(minimum=20).sync("0s", queue=60)) == {"minReplicas": 12}
    assert without(target(cpu(utilization(80)), minimum=2).sync("0s", cpu=0)) == {"minReplicas": 1}


def test_the_bound_of_a_schedule_is_an_alternative() -> None:
    window = OpenWindow(NIGHT, BASE + 60, "06:00 UTC")
    timeline = target(extensions=Extensions(schedules=(NIGHT,))).opened(window)
    assert without(timeline.by_hand(3).sync("0s", queue=60)) == {"maxReplicas": 12}
    assert without(timeline.sync("15s", queue=5)) == {"minReplicas": 1}


def test_a_minimum_that_would_switch_the_target_off_is_not_named() -> None:
    window = OpenWindow(NIGHT, BASE + 60, "06:00 UTC")
    timeline = target(minimum=0, extensions=Extensions(schedules=(NIGHT,))).opened(window)
    found = list(alternatives_of(of_last(timeline.by_hand(0).sync("0s", queue=5))))
    assert found[0] == OtherBound("minReplicas", replicas=0, desired=1)


def test_a_failed_metric_is_an_alternative_beside_an_inactive_one() -> None:
    idle = Extensions(idle=Idle(after=0.0), activations=(0, 100_000))
    timeline = target(QUEUE, MAILS, extensions=idle).sync("0s", queue=None, mails=20)
    assert_only_without(without(timeline), 0, "failed", "queue")


def test_no_lower_value_or_minimum_overrules_the_breaker() -> None:
    entry = of_last(target(minimum=6).sync("0s", queue=20))
    inputs = entry.inputs
    held, _ = held_back(entry.decision, inputs.history, inputs.history, "", BASE + 600)
    entry = replace(entry, decision=held)
    assert dict(_without(entry)) == {"the scale-down breaker": 6}
    assert [desired for _, _, desired in values(entry)] == [9]


def test_an_entry_of_another_version_has_no_alternatives() -> None:
    entry = of_last(target().sync("0s", queue=60))
    assert list(alternatives_of(replace(entry, decision=replace(entry.decision, desired=11)))) == []
    assert list(alternatives_of(entry)) != []


def test_an_alternative_value_has_no_exact_total() -> None:
    """A queue that read a little below 0 would have woken its target at 1."""
    timeline = Timeline(spec(QUEUE), replicas=0, extensions=Extensions(idle=Idle(after=60.0)))
    entry = of_last(timeline.sync("0s", queue=Values((0,), total=-0.0004)))
    found = [(other.result.reading, other.desired) for other in other_values(entry)]
    assert found == [(Values((1000,)), 1)]
