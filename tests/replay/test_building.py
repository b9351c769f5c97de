"""Simulated targets of a configuration use stated, known and assumed values, in this order."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.extensions import Extensions, Mode
from autoscaler.core.observation import PodRequests
from autoscaler.core.spec import Flags, MetricSpec
from autoscaler.core.target import Query, QueryKey, Target
from autoscaler.lab.engine.assumptions import Assumptions
from autoscaler.lab.engine.building import BuildError, BuiltTarget, built
from autoscaler.lab.engine.loads import LoadModel, QueueLoad, RecordedLoad, SharedLoad
from autoscaler.lab.engine.stated import StatedData, StatedSeries
from autoscaler.lab.engine.workloads import requests_of
from autoscaler.lab.series_notation import parse, samples_of
from tests.core.builders import (
    BASE,
    average,
    container_cpu,
    cpu,
    external,
    per_pod,
    spec,
    utilization,
    value,
)
from tests.narrowing import assert_parts


class Known(StatedData):
    """A past with more known values than the series."""

    count: int | None = None
    ready: float | None = None
    requested: PodRequests | None = None

    def replicas(self, target: Target) -> int | None:  # noqa: ARG002 - the port's
        return self.count

    def ready_seconds(self, target: Target) -> float | None:  # noqa: ARG002 - the port's
        return self.ready

    def requests(self, target: Target) -> PodRequests | None:  # noqa: ARG002 - the port's
        return self.requested


def target_of(*metrics: MetricSpec, minimum: int = 3) -> Target:
    """Return a target that reads each metric by a query of its own."""
    queries = tuple(Query(f"q{number}") for number in range(len(metrics)))
    return Target("shop", spec(*metrics, minimum=minimum), queries)


def build(target: Target, known: Mapping[str, Any] | None = None, **stated: Any) -> BuiltTarget:
    series = [StatedSeries(samples_of(parse("40x100")))]
    of_metrics = {(target.key, number): series for number in range(len(target.queries))}
    arrivals = {QueryKey("", "rate(published[1m])"): series}
    data = Known(BASE, 15.0, of_metrics, arrivals, {target.key: 2})
    for name, facts in (known or {}).items():
        object.__setattr__(data, name, facts)
    return built(target, Flags(), data, Assumptions.model_validate(stated), BASE)


KNOWN = {"count": 7, "ready": 12.0}
STATED = [
    {"target": "shop/other", "replicas": 50},
    {"target": "shop/w*", "replicas": 4},
    {"target": "shop/Deployment/web", "replicas": 9, "readyAfter": "45s"},
]


@pytest.mark.parametrize(
    ("known", "stated", "replicas", "ready", "assumed"),
    [
        pytest.param({}, [], 3, 30.0, ["3 replicas", "30 s"], id="assumed"),
        pytest.param(KNOWN, [], 7, 12.0, [], id="known"),
        pytest.param(KNOWN, STATED, 4, 45.0, [], id="stated-before-known"),
    ],
)
def test_replicas_and_readiness_are_stated_known_or_assumed(
    known: Mapping[str, Any], stated: list[Any], replicas: int, ready: float, assumed: list[str]
) -> None:
    found = build(target_of(external(average("30"))), known, workloads=stated)
    workload = found.target.workload
    assert (workload.replicas, workload.ready_seconds) == (replicas, ready)
    for sentence, fact in zip(found.assumed, assumed, strict=True):
        assert_parts(sentence, fact)


def test_a_target_in_shadow_is_replayed_as_if_it_were_live() -> None:
    shadow = replace(target_of(external(average("30"))), extensions=Extensions(mode=Mode.SHADOW))
    assert not build(shadow).target.rules.target.in_shadow


@pytest.mark.parametrize(
    ("metric", "model", "units"),
    [
        (external(average("30")), LoadModel.RECORDED, 30.0),
        (external(value("30")), LoadModel.RECORDED, None),
        (per_pod("10"), LoadModel.SHARED, 10.0),
        (cpu(utilization(60)), LoadModel.SHARED, 0.3),
        (cpu(average("200m")), LoadModel.SHARED, 0.2),
        (container_cpu(utilization(50)), LoadModel.SHARED, 0.25),
    ],
)
def test_the_type_of_a_metric_chooses_its_load_model(
    metric: MetricSpec, model: LoadModel, units: float | None
) -> None:
    """What one pod takes is the target, or for a utilization that share of the request."""
    half = requests_of({"app": {"cpu": 500 * 10**6}})
    (load,) = build(target_of(metric), {"requested": half}).target.loads
    assert load.model is model
    assert isinstance(load, RecordedLoad | SharedLoad)
    assert load.per_pod == (None if units is None else pytest.approx(units))


def test_a_capacity_is_what_a_pod_takes() -> None:
    loads = [{"metric": "rps", "capacity": "25"}]
    (load,) = build(target_of(per_pod("10")), loads=loads).target.loads
    assert isinstance(load, SharedLoad)
    assert (load.per_pod, load.capacity) == (25.0, 25.0)


def test_requests_are_stated_known_or_assumed() -> None:
    utilized = target_of(cpu(utilization(60)))
    assumed = build(utilized)
    assert_parts(assumed.assumed[-1], "1 core")
    assert not [text for text in build(target_of(per_pod("10"))).assumed if "core" in text]
    stated = build(utilized, workloads=[{"requests": {"cpu": "250m"}}])
    (container,) = stated.target.workload.requests.counted
    assert container.requests == {"cpu": 250 * 10**6}


def test_a_metric_without_a_capacity_in_pods_is_reported() -> None:
    unknown = build(target_of(external(value("30")))).assumed
    stated = build(target_of(external(value("30"))), loads=[{"capacity": "30"}]).assumed
    assert ["capacity" in text for text in unknown[2:]] == [True, False]
    assert ["capacity" in text for text in stated[2:]] == [False]
    assert unknown[3] == stated[2]
    assert_parts(stated[2], "queue", "model: shared")


def test_a_queue_has_arrivals_and_what_a_pod_serves() -> None:
    loads = [{"model": "queue", "arrivals": "rate(published[1m])", "servedPerPod": "2500m"}]
    (load,) = build(target_of(external(average("30"))), loads=loads).target.loads
    assert isinstance(load, QueueLoad)
    assert (load.served_by_pod, load.length) == (2.5, 40.0)


@pytest.mark.parametrize(
    ("metric", "stated", "why"),
    [
        (external(average("30")), {}, "arrivals"),
        (external(average("30")), {"arrivals": "rate(published[1m])"}, "servedPerPod"),
        (per_pod("10"), {"arrivals": "x", "servedPerPod": "1"}, "each pod"),
    ],
)
def test_a_queue_without_arrivals_or_of_pods_is_refused(
    metric: MetricSpec, stated: Mapping[str, str], why: str
) -> None:
    with pytest.raises(BuildError) as refused:
        build(target_of(metric), loads=[{"model": "queue", **stated}])
    assert_parts(refused.value, "shop/Deployment/web", metric.name, why)


def test_metrics_have_the_loads_of_their_names() -> None:
    found = build(
        target_of(external(average("30")), per_pod("10")),
        loads=[{"metric": "rps", "model": "recorded"}],
    )
    named = [(name, load.model.value) for name, load in found.named_loads()]
    assert named == [("queue", "recorded"), ("rps", "recorded")]
