"""HorizontalPodAutoscalers as JSON: the parts of spec and status that are read or left out."""

from typing import Any

import pytest

from autoscaler import clock
from autoscaler.core.observation import HpaCondition, HpaStatus
from autoscaler.core.spec import (
    ContainerResourceMetric,
    ExternalMetric,
    LabelSelector,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    ObjectMetric,
    Operator,
    PodsMetric,
    PolicyType,
    Requirement,
    ResourceMetric,
    ScaleTargetRef,
    ScalingPolicy,
    ScalingRules,
    SelectPolicy,
    TargetType,
)
from autoscaler.kubernetes.autoscalers import AutoscalerCache, hpa_of
from tests.adapters.watches.targets import WEB, deployment_ref
from tests.narrowing import known
from tests.worlds.cluster.others import autoscaler
from tests.worlds.controlplane.api import Json

ACTIVE = {"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound"}
INACTIVE = {"type": "ScalingActive", "status": "False", "reason": "FailedGetExternalMetric"}
CPU = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}


def made(status: object = None, name: str = "web", **spec: Any) -> Json:
    hpa = autoscaler(name)
    hpa["spec"] |= {"metrics": [{"type": "Resource", "resource": CPU}]} | spec
    return hpa if status is None else hpa | {"status": status}


def decided(desired: object = 4, **more: Any) -> Json:
    read = {"name": "cpu", "current": {"averageUtilization": 93, "averageValue": "465m"}}
    usual = {
        "currentReplicas": 3,
        "desiredReplicas": desired,
        "currentMetrics": [{"type": "Resource", "resource": read}],
        "conditions": [ACTIVE],
    }
    return usual | more


# -- the spec ------------------------------------------------------------------------------------

AVERAGE = {"type": "AverageValue", "averageValue": "2500m"}
PLAIN = {"name": "queue", "selector": {"matchLabels": {"b": "2", "a": "1"}}}
QUEUE = MetricIdentifier("queue", LabelSelector((("b", "2"), ("a", "1"))))
PER_POD = MetricTarget(TargetType.AVERAGE_VALUE, average_value=2500)
PERCENT = MetricTarget(TargetType.UTILIZATION, average_utilization=70)
METRICS: list[tuple[Json, MetricSpec]] = [
    ({"type": "Resource", "resource": CPU}, ResourceMetric("cpu", PERCENT)),
    (
        {"type": "ContainerResource", "containerResource": CPU | {"container": "app"}},
        ContainerResourceMetric("cpu", "app", PERCENT),
    ),
    (
        {"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": AVERAGE}},
        PodsMetric(MetricIdentifier("rps"), PER_POD),
    ),
    (
        {
            "type": "Object",
            "object": {
                "metric": {"name": "rps"},
                "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "web"},
                "target": {"type": "Value", "value": "1k"},
            },
        },
        ObjectMetric(
            ScaleTargetRef("v1", "Service", "web"),
            MetricIdentifier("rps"),
            MetricTarget(TargetType.VALUE, value=1_000_000),
        ),
    ),
    (
        {"type": "External", "external": {"metric": PLAIN, "target": AVERAGE}},
        ExternalMetric(QUEUE, PER_POD),
    ),
]


@pytest.mark.parametrize(
    ("given", "expected"), METRICS, ids=[given["type"] for given, _ in METRICS]
)
def test_each_metric_type_is_read(given: Json, expected: MetricSpec) -> None:
    assert known(hpa_of(made(metrics=[given])).spec).metrics == (expected,)


def test_expressions_and_behavior_are_read() -> None:
    expressions = [{"key": "tier", "operator": "In", "values": ["a", "b"]}]
    metric = {"name": "queue", "selector": {"matchExpressions": expressions}}
    external = {"type": "External", "external": {"metric": metric, "target": AVERAGE}}
    policies = [{"type": "Pods", "value": 4, "periodSeconds": 60}]
    down = {"stabilizationWindowSeconds": 120, "policies": policies, "tolerance": "50m"}
    behavior = {"scaleDown": down | {"selectPolicy": "Min"}, "scaleUp": {}}
    spec = known(hpa_of(made(metrics=[external], behavior=behavior)).spec)
    assert spec.behavior is not None
    assert spec.behavior.scale_down == ScalingRules(
        120, SelectPolicy.MIN, (ScalingPolicy(PolicyType.PODS, 4, 60),), 0.05
    )
    (read,) = spec.metrics
    assert isinstance(read, ExternalMetric)
    assert read.metric.selector == LabelSelector(
        (), (Requirement("tier", Operator.IN, ("a", "b")),)
    )


@pytest.mark.parametrize(
    "odd",
    [
        {"maxReplicas": "many"},
        {"minReplicas": -1},
        {"metrics": [{"type": "Later", "later": {}}]},
        {"metrics": [{"type": "Resource", "resource": {}}]},
        {"behavior": {"scaleUp": 3}},
        {"behavior": {"scaleUp": {"tolerance": "much"}, "scaleDown": {}}},
    ],
)
def test_a_spec_that_cannot_be_read_is_none(odd: Json) -> None:
    """Its decisions are still known."""
    hpa = hpa_of(made(decided(), **odd), 7.0)
    assert hpa.spec is None
    assert hpa.status is not None
    assert hpa.status.desired_replicas == 4


# -- the status ----------------------------------------------------------------------------------


def test_a_status_has_counts_values_and_conditions() -> None:
    condition = HpaCondition("ScalingActive", true=True, reason="ValidMetricFound")
    assert hpa_of(made(decided()), 7.0).statuses == (HpaStatus(7.0, 3, 4, (93,), (condition,)),)


def current(value: object) -> Json:
    return {"type": "External", "external": {"metric": {"name": "queue"}, "current": value}}


@pytest.mark.parametrize(
    ("read", "value"),
    [
        ([current({"averageValue": "2500m", "value": "9"})], 2500),
        ([current({"value": "9"})], 9000),
        ([current({})], None),
        ([current({"averageValue": "much"})], None),
        ([current({"averageUtilization": 0, "averageValue": "0"})], 0),
        ([current(None)], None),
        (None, None),
        ([{"type": ""}], None),
        ([{}] * 9, None),
    ],
)
def test_each_metric_has_its_value_or_none(read: object, value: int | None) -> None:
    metrics = [given for given, _ in METRICS[:2]]
    status = known(hpa_of(made(decided(currentMetrics=read), metrics=metrics)).status)
    assert status.values == (value, None)


@pytest.mark.parametrize(
    ("status", "count"),
    [
        ({}, None),
        ({"desiredReplicas": 0, "currentReplicas": 0}, None),
        (decided(0, conditions=None), None),
        (decided(0, conditions=[INACTIVE]), None),
        (decided(0, conditions=[INACTIVE], currentReplicas=0), 0),
        (decided(0), 0),
        (decided(5, conditions=None), 5),
        (decided("four"), None),
        (decided([4]), None),
        (decided(-1), None),
        (decided(2**31), None),
        (decided(conditions=["odd"]), None),
        ("odd", None),
        ([], None),
    ],
)
def test_an_invalid_count_is_none(status: object, count: int | None) -> None:
    """The 0 of a new HPA is not a decision; values of other programs are left out."""
    found = hpa_of(made(status)).status
    assert (None if found is None else found.desired_replicas) == count


def test_a_status_is_bounded() -> None:
    condition = {"type": "x" * 5000, "status": "True", "reason": "y\x1b" * 5000}
    status = hpa_of(made(decided(conditions=[condition] * 500, currentMetrics=[{}] * 500))).status
    assert status is not None
    assert len(status.values) == 1
    assert len(status.conditions) == 10
    assert all(
        len(condition.reason) <= 100 and condition.reason.isprintable()
        for condition in status.conditions
    )


@pytest.mark.parametrize(
    ("metadata", "scaled_object"),
    [
        ({}, ""),
        ({"labels": {"scaledobject.keda.sh/name": "web"}}, "web"),
        ({"ownerReferences": [{"kind": "ScaledObject", "name": "own"}]}, "own"),
        ({"ownerReferences": [{"kind": "Deployment", "name": "own"}]}, ""),
    ],
)
def test_keda_is_known_by_owner_or_label(metadata: Json, scaled_object: str) -> None:
    hpa = made()
    hpa["metadata"] |= metadata
    assert hpa_of(hpa).scaled_object == scaled_object


# -- the cache -----------------------------------------------------------------------------------


class Cached:
    """A cache that wants `web`, whose clock a test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(clock, "wall", lambda: self.now)
        self.cache = AutoscalerCache("shop", lambda controlled: controlled[3] == "web")

    def event(self, hpa: Json, at: float, kind: str = "MODIFIED") -> None:
        self.now = at
        self.cache.apply(kind, hpa, "1")

    def relist(self, *hpas: Json, at: float) -> None:
        self.now = at
        self.cache.begin()
        self.cache.add(list(hpas))
        self.cache.commit("9")

    def statuses(self, since: float = 0.0) -> list[tuple[float, int]]:
        hpa = self.cache.hpa("shop", WEB, since)
        return (
            []
            if hpa is None
            else [(status.time, status.desired_replicas) for status in hpa.statuses]
        )


@pytest.fixture
def cached(monkeypatch: pytest.MonkeyPatch) -> Cached:
    return Cached(monkeypatch)


def test_statuses_since_an_instant_begin_with_the_one_in_force_then(cached: Cached) -> None:
    for at, count in ((100.0, 3), (110.0, 4), (120.0, 5)):
        cached.event(made(decided(count)), at)
    assert cached.statuses() == [(100, 3), (110, 4), (120, 5)]
    assert cached.statuses(since=109) == [(100, 3), (110, 4), (120, 5)]
    assert cached.statuses(since=110) == [(110, 4), (120, 5)]
    assert cached.statuses(since=500) == [(120, 5)]


def test_an_unchanged_status_keeps_its_time(cached: Cached) -> None:
    cached.event(made(decided(3)), 100)
    cached.event(made(decided(3)), 110)
    cached.relist(made(decided(3)), at=120)
    assert cached.statuses() == [(100, 3)]
    cached.relist(made(decided(4)), at=130)
    assert cached.statuses() == [(100, 3), (130, 4)]
    cached.relist(at=140)
    assert cached.cache.hpa("shop", WEB, 0.0) is None


def test_statuses_are_bounded(cached: Cached) -> None:
    for number in range(100):
        cached.event(made(decided(number + 1)), 100.0 + number)
    assert cached.statuses()[-1] == (199, 100)
    assert len(cached.statuses()) == 8


def test_a_status_that_is_lost_for_a_moment_ends_what_was_before(cached: Cached) -> None:
    """An HPA that was created again has decided nothing yet."""
    cached.event(made(decided(3)), 100)
    cached.event(made(), 110, "DELETED")
    cached.event(made(), 111, "ADDED")
    assert known(cached.cache.hpa("shop", WEB, 0.0)).statuses == ()


def test_with_several_hpas_there_is_no_hpa(cached: Cached) -> None:
    cached.event(made(decided(3), "one"), 100)
    cached.event(made(decided(4), "two"), 100)
    assert cached.cache.hpa("shop", WEB, 0.0) is None
    cached.event(made(decided(4), "two"), 110, "DELETED")
    assert cached.statuses() == [(100, 3)]


def test_a_retargeted_hpa_loses_its_earlier_statuses(cached: Cached) -> None:
    """Its decisions for one object do not apply to another."""
    cached.cache = AutoscalerCache("shop", lambda _: True)
    cached.event(made(decided(3)), 100)
    moved = made(decided(7))
    moved["spec"]["scaleTargetRef"]["name"] = "api"
    cached.event(moved, 110)
    hpa = known(cached.cache.hpa("shop", deployment_ref("api"), 0.0))
    assert [status.desired_replicas for status in hpa.statuses] == [7]
    assert cached.statuses() == []


def test_an_unwanted_object_has_only_its_controller() -> None:
    """A fleet of live targets keeps no specs."""
    cache = AutoscalerCache("shop")
    cache.apply("ADDED", made(decided()), "1")
    assert cache.controller("shop", WEB) == 'HorizontalPodAutoscaler "web"'
    assert cache.hpa("shop", WEB, 0.0) is None
