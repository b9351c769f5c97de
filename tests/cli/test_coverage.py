"""What a metric finds in an answer is what a sync would use; what it lacks is told by labels."""

import math

import pytest

from autoscaler.cli.coverage import coverage
from autoscaler.core.selectors import LabelSelector, Operator, Requirement
from autoscaler.core.series import QueryResult, Series
from autoscaler.core.spec import (
    ContainerResourceMetric,
    ExternalMetric,
    HorizontalPodAutoscalerSpec,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    ObjectMetric,
    PodsMetric,
    ResourceMetric,
    ScaleTargetRef,
    TargetType,
)
from autoscaler.core.target import Query, SeriesLabels, Target

NOW = 1000.0
QUERY = Query("up")
VALUE = MetricTarget(TargetType.VALUE, value=1000)
AVERAGE = MetricTarget(TargetType.AVERAGE_VALUE, average_value=1000)


def answer(*series: dict[str, str], value: float = 2.0) -> QueryResult:
    """Return an answer of series with these labels."""
    return QueryResult([Series(labels, value, NOW) for labels in series])


def external(**labels: str) -> ExternalMetric:
    """Return an External metric with this selector."""
    selector = LabelSelector(tuple(labels.items())) if labels else None
    return ExternalMetric(MetricIdentifier("q", selector), VALUE)


PODS = PodsMetric(MetricIdentifier("rps"), AVERAGE)
CPU = ResourceMetric("cpu", AVERAGE)
SERVICE = ObjectMetric(ScaleTargetRef("v1", "Service", "front"), MetricIdentifier("hits"), VALUE)


Found = tuple[tuple[int, ...] | int, tuple[str, ...]]


def of(
    metric: MetricSpec, found: QueryResult, query: Query = QUERY, kind: str = "Deployment"
) -> Found:
    """Return what a metric of shop/KIND/web finds, and the faults."""
    spec = HorizontalPodAutoscalerSpec(ScaleTargetRef("apps/v1", kind, "web"), 1, 5, (metric,))
    seen = coverage(Target("shop", spec, (query,)), metric, query, found, NOW)
    return seen.used, seen.faults


def test_external() -> None:
    """All series that the selector leaves count."""
    orders, mails = {"queue": "orders"}, {"queue": "mails"}
    assert of(external(), answer(orders, mails)) == ((2000, 2000), ())
    assert of(external(queue="orders"), answer(orders, mails)) == ((2000,), ())


def test_external_that_matches_nothing() -> None:
    """The values that the labels have are told, and the labels where one is not there."""
    found = answer({"queue": "orders", "vhost": "/"}, {"queue": "mails", "vhost": "/"})
    nothing = "none of the series matches the selector: "
    assert of(external(queue="order"), found) == ((), (f'{nothing}queue is "mails", "orders"',))
    without = "no series has the label name; their labels are queue, vhost"
    assert of(external(name="orders"), found) == ((), (nothing + without,))
    _, (fault,) = of(external(name="orders"), answer({}))
    assert fault.endswith(": no series has the label name; they have no labels")


def test_expressions_are_looked_at_too() -> None:
    """The label of a matchExpressions is told like that of a matchLabels."""
    requirement = Requirement("queue", Operator.IN, ("order",))
    metric = ExternalMetric(MetricIdentifier("q", LabelSelector((), (requirement,))), VALUE)
    assert of(metric, answer({"queue": "orders"})) == (
        (),
        ('none of the series matches the selector: queue is "orders"',),
    )


def test_what_is_told_is_bounded_and_printable() -> None:
    """Five values are told of any number, each short and without characters that act."""
    found = answer(*({"queue": f"\x1b[31m{one:03}{'x' * 500}"} for one in range(500)))
    _, (fault,) = of(external(queue="a"), found)
    assert fault.endswith(" and 495 more")
    assert fault.isprintable()
    assert len(fault) < 600


def test_no_number() -> None:
    """A value that is none is told like in a sync."""
    assert of(external(), answer({}, value=math.nan)) == ((), ("{} is nan, not a number",))


@pytest.mark.parametrize("metric", [external(), PODS, CPU, SERVICE])
def test_no_series(metric: MetricSpec) -> None:
    """An empty answer is told as such, whatever the metric."""
    assert of(metric, answer()) == ((), ("the query returned no series",))


def test_pods_of_the_target() -> None:
    """Those count whose series name the namespace, and whose name begins with the workload's."""
    found = answer(
        {"namespace": "shop", "pod": "web-1"},
        {"namespace": "shop", "pod": "web-2"},
        {"namespace": "shop", "pod": "other-1"},
        {"namespace": "b", "pod": "web-3"},
    )
    assert of(PODS, found) == (2, ())
    assert of(PODS, found, kind="Rollout") == (3, ())


def test_no_pods() -> None:
    """Told is which label is not there, or which values it has."""
    begin = 'labelled namespace="shop" and pod=<a name beginning with web->: '
    without = 'pod is "web-1"; no series has the label namespace; their labels are pod'
    fault = f"none of the 1 series is {begin}{without}"
    assert of(PODS, answer({"pod": "web-1"})) == (0, (fault,))
    elsewhere = answer({"namespace": "b", "pod": "web-1"})
    assert of(CPU, elsewhere) == (
        0,
        (f'none of the 1 series is {begin}namespace is "b"; pod is "web-1"',),
    )
    others = answer({"namespace": "shop", "pod": "a-1"}, {"namespace": "b", "pod": "c-1"})
    assert of(CPU, others) == (
        0,
        (f'none of the 2 series is {begin}in namespace shop pod is "a-1"',),
    )


def test_labels_of_other_names() -> None:
    """Those of the query's `labels` are looked at."""
    query = Query("up", labels=SeriesLabels(namespace="ns", pod="instance"))
    assert of(PODS, answer({"ns": "shop", "instance": "web-1"}), query) == (1, ())


def test_a_container_that_is_not_there() -> None:
    """The containers that are there are told."""
    metric = ContainerResourceMetric("cpu", "app", AVERAGE)
    found = answer({"namespace": "shop", "pod": "web-1", "container": "main"})
    used, (fault,) = of(metric, found)
    assert used == 0
    assert fault.startswith("pod web-1 has no series of container app")


def test_object() -> None:
    """The label of the kind tells the object; its values are told where none fits."""
    found = answer({"service": "front", "namespace": "shop"})
    assert of(SERVICE, found) == ((2000,), ())
    _, (fault,) = of(SERVICE, answer({"service": "back", "namespace": "shop"}))
    assert fault.endswith('labelled service="front" in namespace shop: service is "back"')


def test_several_series_of_one_pod() -> None:
    """What a sync would call ambiguous is told."""
    labels = {"namespace": "shop", "pod": "web-1"}
    used, (fault,) = of(PODS, answer(labels | {"a": "1"}, labels | {"a": "2"}))
    assert used == 0
    assert "aggregate the query by namespace and pod" in fault
