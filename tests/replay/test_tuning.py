"""Candidates for the settings of a target, and which is chosen by which days."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.spec import PolicyType
from autoscaler.lab.engine.measures import A_DAY, Measures
from autoscaler.lab.engine.tuning import (
    Candidate,
    Preference,
    TuningSpace,
    applied_to,
    best,
    dominates,
    on_front,
    settings_of,
)
from tests.core.builders import average, cpu, external, utilization
from tests.narrowing import known
from tests.replay.fleets import measures
from tests.worlds.memory import external as external_target

ALL = slice(None)


def space_of(**given: object) -> TuningSpace:
    return TuningSpace.model_validate(given)


def day(short: float, hours: float) -> Measures:
    return measures(
        scored_seconds=A_DAY, shortage_pod_hours=short, replica_hours=hours, tau_under=short / 100
    )


def candidate(*days: tuple[float, float]) -> Candidate:
    return Candidate({"target_factors": 1}, tuple(day(*row) for row in days))


_CANDIDATES = st.lists(
    st.tuples(st.integers(0, 20), st.integers(1, 20)), min_size=1, max_size=30
).map(lambda found: [candidate((float(short), float(hours))) for short, hours in found])
_COSTS = st.sampled_from([0.0, 1.0, 10.0])
_PREFERENCES = st.one_of(
    st.builds(Preference, _COSTS, _COSTS), st.builds(Preference, most_short=st.floats(0, 0.3))
)


@given(_CANDIDATES, _PREFERENCES)
def test_the_preferred_candidate_is_on_the_front(
    candidates: list[Candidate], preference: Preference
) -> None:
    assert best(candidates, preference, ALL) in on_front(candidates, preference, ALL)


def test_costs_choose_one_of_the_front() -> None:
    few, many = candidate((10.0, 50.0)), candidate((0.0, 100.0))
    assert best([few, many], Preference(1.0, 1.0), ALL) is few
    assert best([few, many], Preference(10.0, 1.0), ALL) is many


def test_a_bound_chooses_the_cheapest_that_keeps_it() -> None:
    cheap, fair, dear = candidate((10.0, 50.0)), candidate((2.0, 70.0)), candidate((0.0, 100.0))
    assert best([cheap, fair, dear], Preference(most_short=0.03), ALL) is fair
    assert best([cheap, fair], Preference(most_short=0.001), ALL) is fair


@given(_CANDIDATES)
def test_candidates_outside_the_front_are_dominated(candidates: list[Candidate]) -> None:
    front = on_front(candidates, Preference(), ALL)
    assert on_front(front, Preference(), ALL) == front
    for candidate in candidates:
        own = Preference().objectives(candidate.days[0])
        others = [Preference().objectives(other.days[0]) for other in front]
        assert (own in others) != any(dominates(other, own) for other in others)


def test_a_choice_is_applied_to_the_target() -> None:
    target = external_target("shop", "web")
    space = space_of(targetFactors=[0.5, 1.0], scaleDownWindows=["60s"], minReplicas=[3])
    found = applied_to(
        target,
        space,
        {"target_factors": 0, "scale_down_windows": 0, "min_replicas": 0, "scale_down_percents": 0},
    )
    (metric,) = found.spec.metrics
    assert metric.target.average_value == 15_000
    assert found.spec.min_replicas == 3
    behavior = known(found.spec.behavior)
    assert behavior.scale_down.stabilization_window_seconds == 60
    assert [policy.type for policy in behavior.scale_down.policies] == [PolicyType.PERCENT]
    assert len(behavior.scale_up.policies) == 2
    assert applied_to(target, space, {}) is target


@pytest.mark.parametrize("factor", [0.001, 0.5, 1.3])
def test_a_scaled_metric_target_is_at_least_1(factor: float) -> None:
    for metric in (external(average("1m")), cpu(utilization(60))):
        spec = replace(external_target("shop", "web").spec, metrics=(metric,))
        target = replace(external_target("shop", "web"), spec=spec)
        space = space_of(targetFactors=[factor])
        (found,) = applied_to(target, space, {"target_factors": 0}).spec.metrics
        numbers = {found.target.average_value, found.target.average_utilization} - {None}
        assert all(number >= 1 for number in numbers if number is not None)


def test_a_setting_without_values_is_not_searched() -> None:
    assert settings_of(space_of(tolerances=[], scaleUpPercents=[])).keys() == {
        "target_factors",
        "scale_up_windows",
        "scale_down_windows",
        "scale_down_percents",
    }
