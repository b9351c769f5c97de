"""What a metric finds in an answer, and why a query finds none, as a real Prometheus knows it."""

import math
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from autoscaler import clock
from autoscaler.config.promql import selectors_of
from autoscaler.core.observation import Gap, GapKind, Observation, Pod, ReadFailure, Scale, Values
from autoscaler.core.selectors import parse
from autoscaler.core.series import QueryFailure, QueryResult, Series
from autoscaler.core.spec import (
    ContainerResourceMetric,
    ExternalMetric,
    HorizontalPodAutoscalerSpec,
    LabelSelector,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    ObjectMetric,
    Operator,
    PodsMetric,
    Requirement,
    ResourceMetric,
    ScaleTargetRef,
    TargetType,
)
from autoscaler.core.target import Query, SeriesLabels, Target
from autoscaler.prometheus import PrometheusReader
from autoscaler.rendering import no_series, wording
from autoscaler.rendering.no_series import (
    Ask,
    Findings,
    MissingSeries,
    coverage,
    missing_in,
    of_target,
    why_no_series,
)
from tests.adapters.prometheus.reading import settings
from tests.core.builders import BASE, average, external, spec
from tests.narrowing import instance
from tests.tables import rows
from tests.worlds.prometheus.exporter import Exporter
from tests.worlds.prometheus.server import PrometheusServer
from tests.worlds.waiting import wait_until

SELECTORS = r"""
sum by (queue) (ready{namespace="rabbitmq"}) | ready{namespace="rabbitmq"}
rate(x{a="b",c=~"d|e"}[5m] offset 1h) / on (pod) group_left (x) y > bool 3
    | last_over_time(x{a="b",c=~"d|e"}[5m] offset 1h) | y
sum(a) by (b) + {__name__="z", j!="k"} | a | {__name__="z",j!="k"}
{"my.metric", a="b"} | {__name__="my.metric",a="b"}
max_over_time(rate(x[1m])[5m:10s]) | last_over_time(x[1m])
histogram_quantile(0.9, sum(rate(h[2m])) by (le)) | last_over_time(h[2m])
a offset -5m or a offset 5m | a offset -5m | a offset 5m
x @ start() unless count | x | count
label_replace(up{job='a'}, "pod", "$1", "instance", "(.*)") | up{job='a'}
vector(1) > inf
rate(a[2m*2:1m]) + b | last_over_time(a[2m*2]) | b
x{a="b" or c="d"} + y | y
x{
{
x{}[ | x
x offset | x
"""
"""What is not understood is left out."""


@pytest.mark.parametrize(
    ("promql", "expected"),
    [*((promql, found) for promql, *found in rows(SELECTORS)), ("a # b\n+ a", ["a"])],
)
def test_the_selectors_of_an_expression_keep_their_ranges(promql: str, expected: list[str]) -> None:
    assert [*map(no_series.samples_of, selectors_of(promql))] == expected


@pytest.fixture(scope="module")
def ask(prometheus_server: PrometheusServer, prometheus_exporter: Exporter) -> Iterator[Ask]:
    """Ask a Prometheus that has eight queues of two teams."""
    for number in range(7):
        prometheus_exporter.set("ns_ready", {"queue": f"q{number}", "team": "mail"}, number)
    prometheus_exporter.set("ns_ready", {"queue": "orders", "team": "shop"}, 3.0)
    prometheus_server.wait_for("ns_ready", count=8)
    reader = PrometheusReader(settings(prometheus_server.url), threading.Event())
    with closing(reader):
        yield lambda promql: reader.query(promql, None, clock.monotonic() + 20)


REASONS = """
sum(ns_redy) | there are no series ns_redy
rate(ns_redy{queue="a"}[2m]) | there are no series ns_redy within 2m
sum(ns_ready{team="mails"})
    | ns_ready has 8 series, but none with team="mails": team is "mail", "shop"
max_over_time(ns_ready{team="shop", queue=~"x.*"}[2m])
    | ns_ready has 8 series, but none with queue=~"x.*": queue is
ns_ready{vhost="/"}
    | ns_ready has 8 series, but none with vhost="/": no series has the label vhost;
    their labels are __name__, instance, job, queue, team
{__name__="ns_ready", team="mail", queue="orders"}
    | {__name__="ns_ready"} has 8 series, but none with all of its matchers;
    without team="mail" there are 1: team is "shop"
{queue="none"} | there are no series {queue="none"}
ns_ready > 100 | ns_ready has 8 series, and what the query does with that leaves none
rate(ns_ready[1ms]) + ns_redy
    | there are no series ns_ready within 1ms; there are no series ns_redy
vector(1) > 2 | -
"""


@pytest.mark.parametrize(("promql", "expected"), rows(REASONS))
def test_the_part_that_finds_nothing_is_named(ask: Ask, promql: str, expected: str) -> None:
    answer = instance(QueryResult, ask(promql))
    assert not answer.series
    found = why_no_series(ask, promql)
    assert found.startswith(expected.strip("-"))
    assert bool(found) == (expected != "-")


def test_five_of_many_values_are_named(ask: Ask) -> None:
    found = why_no_series(ask, 'ns_ready{queue="order"}')
    assert found.count('"q') + found.count('"orders"') == 5
    assert found.endswith(" and others")


@pytest.mark.parametrize(
    "answer", [QueryFailure("no answer"), QueryResult((), ("store eu unreachable",))]
)
def test_a_failed_or_partial_answer_gives_no_reason(answer: QueryFailure | QueryResult) -> None:
    assert why_no_series(lambda _: answer, 'x{a="b"}') == ""


def test_queries_are_bounded_and_reasons_printable() -> None:
    asked: list[str] = []

    def hostile(promql: str) -> QueryResult:
        asked.append(promql)
        value = {"a": "\x1b[31m" + "v" * 5000}
        return QueryResult((Series(value, 1.0, 0.0),) if "{" not in promql else ())

    matchers = ",".join(f'a{number}="{"x" * 100}"' for number in range(50))
    found = why_no_series(hostile, " + ".join(f"x{n}{{{matchers}}}" for n in range(50)))
    assert len(asked) <= 20
    assert len(found) <= 1000
    assert found.isprintable()


def test_a_query_of_many_uses_is_asked_once() -> None:
    asked: list[tuple[str, str]] = []
    answer = QueryResult((Series({"queue": "mails"}, 1.0, 0.0),))

    def ask(server: str, promql: str) -> QueryResult:
        asked.append((server, promql))
        return answer if promql == "queues" else QueryResult(())

    queues, none = Query("queues", server="eu"), Query("none")
    findings = Findings(ask)
    texts = [findings.text_of(missing(f"q{number}", queues)) for number in range(3)]
    assert texts == ['the query returns 1 series: queue is "mails"'] * 3
    assert [findings.text_of(missing("q", none)) for _ in range(2)] == [
        "there are no series none"
    ] * 2
    assert asked[:3] == [("eu", "queues"), ("", "none"), ("", "count(none)")]
    assert len(asked) == 4  # the time of the last sample


def test_a_name_is_not_repeated() -> None:
    assert why_no_series(lambda _: QueryResult(()), "sum(queue)", "queue") == (
        "no series have that name"
    )


def test_a_use_is_named_only_if_several_miss_series() -> None:
    uses = [missing("a", Query("x")), missing("b", Query("y"))]
    assert of_target([(uses[0], "found")], uses[:1]) == ["found"]
    assert of_target([(uses[0], "found"), (uses[1], "")], uses) == ['queue{queue="a"}: found']


@pytest.mark.parametrize(("up", "state"), [((0.0,), "down"), ((1.0,), "up"), ((), "gone")])
def test_the_last_sample_and_the_scrape_target_are_named(up: tuple[float, ...], state: str) -> None:
    labels = {"job": "rabbitmq", "instance": "10.0.0.7:9419"}

    def ask(promql: str) -> QueryResult:
        if promql == 'up{job="rabbitmq",instance="10.0.0.7:9419"}':
            return QueryResult(tuple(Series(labels, value, 0.0) for value in up))
        last = (Series(labels, BASE, 0.0),) if "timestamp(ready)" in promql else ()
        return QueryResult(last)

    assert why_no_series(ask, "sum(ready)") == (
        "there are no series ready; the last sample was at 2026-01-01T00:00:00Z, and its scrape "
        f"target 10.0.0.7:9419 is {state}"
    )


def test_a_real_prometheus_knows_the_last_sample(
    ask: Ask, prometheus_exporter: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(no_series, "_LOOK_BACK", "5m:1s")
    prometheus_exporter.set("ns_ended", {}, 1.0)
    wait_until("it is scraped", lambda: _has_series(ask("ns_ended")))
    prometheus_exporter.remove("ns_ended", {})
    wait_until("it has ended", lambda: not _has_series(ask("ns_ended")))
    found = why_no_series(ask, "sum(ns_ended)")
    assert found.startswith("there are no series ns_ended; the last sample was at 2")
    assert found.endswith(f"its scrape target {prometheus_exporter.target} is up")


def _has_series(answer: QueryResult | QueryFailure) -> bool:
    assert isinstance(answer, QueryResult)
    return bool(answer.series)


def missing(queue: str, query: Query) -> MissingSeries:
    """Return a use of a query that found no series of a queue."""
    metric = external(average("30"), selector=parse(f"queue={queue}"))
    return MissingSeries(
        Target("shop", spec(metric), (query,)), wording.metric_name(metric), query, metric
    )


def test_only_empty_metrics_and_bounds_miss_series() -> None:
    metrics = [external(average("30"), name) for name in ("a", "b", "c")]
    queries = tuple(Query(name) for name in "abc")
    target = Target("shop", spec(*metrics), queries, max_replicas_query=Query("most"))
    empty = Gap(GapKind.EMPTY, "the query returned no series")
    readings = (empty, Gap(GapKind.ERROR, "refused"), Values((0,), empty=True))
    observation = Observation(Scale(1, 1, "a=b"), None, readings, max_replicas_reading=empty)
    found = [(series.what, series.query.promql) for series in missing_in(target, observation)]
    assert found == [("a", "a"), ("maxReplicasQuery", "most")]


@pytest.mark.parametrize(
    ("pods", "lacks"), [(None, 0), (ReadFailure("no answer came"), 0), ((), 1)], ids=str
)
def test_without_pods_no_series_are_missing(
    pods: tuple[Pod, ...] | ReadFailure | None, lacks: int
) -> None:
    target = Target("shop", spec(PODS), (Query("rps"),))
    empty = Gap(GapKind.EMPTY, "the query returned no series")
    seen = Observation(Scale(1, 1, "a=b"), pods, (empty,))
    assert len(missing_in(target, seen)) == lacks


# -- what a metric finds in an answer --------------------------------------------------------------


NOW = 1000.0
QUERY = Query("up")
VALUE = MetricTarget(TargetType.VALUE, value=1000)
AVERAGE = MetricTarget(TargetType.AVERAGE_VALUE, average_value=1000)


def selecting(**labels: str) -> ExternalMetric:
    """Return an External metric with this selector."""
    selector = LabelSelector(tuple(labels.items())) if labels else None
    return ExternalMetric(MetricIdentifier("q", selector), VALUE)


PODS = PodsMetric(MetricIdentifier("rps"), AVERAGE)
CPU = ResourceMetric("cpu", AVERAGE)
SERVICE = ObjectMetric(ScaleTargetRef("v1", "Service", "front"), MetricIdentifier("hits"), VALUE)


def finds(
    metric: MetricSpec,
    *series: dict[str, str],
    query: Query = QUERY,
    kind: str = "Deployment",
    value: float = 2.0,
) -> tuple[str, str]:
    """Return what a metric of shop/KIND/web finds in series of these labels, and the fault."""
    spec = HorizontalPodAutoscalerSpec(ScaleTargetRef("apps/v1", kind, "web"), 1, 5, (metric,))
    found = QueryResult([Series(labels, value, NOW) for labels in series])
    seen, faults = coverage(Target("shop", spec, (query,)), metric, query, found, NOW)
    assert len(faults) <= 1
    return seen.removeprefix("finds "), "".join(faults)


ORDERS, MAILS = {"queue": "orders", "vhost": "/"}, {"queue": "mails", "vhost": "/"}
EMPTY, NAN = Query("q", empty_is_zero=True), Query("q", nan_is_zero=True)
IN_ORDER = Requirement("queue", Operator.IN, ("order",))
IN = ExternalMetric(MetricIdentifier("q", LabelSelector((), (IN_ORDER,))), VALUE)
NOTHING = "none of the series matches the selector: "
QUEUES = f'{NOTHING}queue is "mails", "orders"'
NO_NAME = f"{NOTHING}no series has the label name; "
WEB = {"namespace": "shop", "pod": "web-1"}
SECOND, OTHER = WEB | {"pod": "web-2"}, WEB | {"pod": "a-1"}
ELSEWHERE = {"namespace": "b", "pod": "web-1"}
RENAMED = Query("up", labels=SeriesLabels(namespace="ns", pod="instance"))
NONE_OF_1 = (
    'none of the 1 series is labelled namespace="shop" and pod=<a name beginning with web->: '
)
NONE_OF_2 = NONE_OF_1.replace("1 series", "2 series")
WITHOUT = 'pod is "web-1"; no series has the label namespace; their labels are pod'
APP = ContainerResourceMetric("cpu", "app", AVERAGE)
FRONT = {"service": "front", "namespace": "shop"}
BACK = FRONT | {"service": "back"}


@pytest.mark.parametrize(
    ("found", "seen", "fault"),
    [
        (finds(selecting(), ORDERS, MAILS), "2 of 2 series, their sum is 4", ""),
        (finds(selecting(queue="orders"), ORDERS, MAILS), "1 of 2 series, 2", ""),
        (finds(selecting(queue="order"), ORDERS, MAILS), "nothing", QUEUES),
        (finds(IN, ORDERS, MAILS), "nothing", QUEUES),
        (finds(selecting(name="a"), ORDERS), "nothing", f"{NO_NAME}their labels are queue, vhost"),
        (finds(selecting(name="a"), {}), "nothing", f"{NO_NAME}they have no labels"),
        (finds(selecting(), {}, value=math.nan), "no value that counts", "{} is nan, not a number"),
        (
            finds(selecting(queue="orders"), MAILS, query=EMPTY),
            "no series, counted as 0 (empty: zero)",
            "",
        ),
        (
            finds(selecting(queue="orders"), ORDERS, query=NAN, value=math.nan),
            "1 of 1 series, 0; 1 NaN, counted as 0 (nan: zero)",
            "",
        ),
        (finds(PODS, WEB, SECOND, OTHER, ELSEWHERE), "2 pods", ""),
        (finds(PODS, WEB, SECOND, OTHER, ELSEWHERE, kind="Rollout"), "3 pods", ""),
        (finds(PODS, {"ns": "shop", "instance": "web-1"}, query=RENAMED), "1 pod", ""),
        (finds(PODS, {"pod": "web-1"}), "nothing", NONE_OF_1 + WITHOUT),
        (finds(CPU, ELSEWHERE), "nothing", f'{NONE_OF_1}namespace is "b"; pod is "web-1"'),
        (
            finds(CPU, OTHER, ELSEWHERE | {"pod": "c-1"}),
            "nothing",
            f'{NONE_OF_2}in namespace shop pod is "a-1"',
        ),
        (
            finds(APP, WEB | {"container": "main"}),
            "nothing",
            "pod web-1 has no series of container app",
        ),
        (
            finds(PODS, WEB | {"a": "1"}, WEB | {"a": "2"}),
            "nothing",
            "aggregate the query by namespace and pod",
        ),
        (finds(SERVICE, FRONT), "1 of 1 series, 2", ""),
        (
            finds(SERVICE, BACK),
            "nothing",
            'labelled service="front" in namespace shop: service is "back"',
        ),
    ],
)
def test_a_metric_finds_its_series_or_names_their_labels(
    found: tuple[str, str], seen: str, fault: str
) -> None:
    assert found[0] == seen
    assert fault in found[1]
    assert bool(fault) == bool(found[1])


def test_a_fault_is_bounded_and_printable() -> None:
    queues = ({"queue": f"\x1b[31m{number:03}{'x' * 500}"} for number in range(500))
    _, fault = finds(selecting(queue="a"), *queues)
    assert fault.endswith(" and 495 more")
    assert fault.isprintable()
    assert len(fault) < 600
