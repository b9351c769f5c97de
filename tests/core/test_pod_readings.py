"""From series to samples of pods: Pods, Resource and ContainerResource (semantics 2.1)."""

import math

import pytest

from autoscaler.core.observation import Gap, GapKind, PodRequests, PodSamples, Reading, Sample
from autoscaler.core.readings import read
from autoscaler.core.selectors import parse
from autoscaler.core.series import QueryResult, Series
from autoscaler.core.spec import MetricSpec
from autoscaler.core.target import Query, SeriesLabels
from tests.core.builders import (
    BASE,
    container,
    container_cpu,
    cpu,
    per_pod,
    pod,
    pods,
    series,
    utilization,
)
from tests.narrowing import assert_parts, instance

RPS = per_pod("10")
CPU = cpu(utilization(50))
APP = container_cpu(utilization(50), "app")
TWO = tuple(
    pod(name, requests=PodRequests((container("app", cpu="1"), container("log", cpu="1"))))
    for name in ("p0", "p1")
)
QUERY = Query("q", window=120.0, max_age=300.0)


def reading(metric: MetricSpec, *found: Series, query: Query = QUERY) -> Reading:
    """Read a metric of two pods in the namespace `shop`, each of containers app and log."""
    return read(metric, query, QueryResult(found), "shop", TWO, BASE)


def samples(metric: MetricSpec, *found: Series, query: Query = QUERY) -> PodSamples:
    return instance(PodSamples, reading(metric, *found, query=query))


def of_pod(value: float, pod: str = "p0", *, age: float = 0.0, **labels: str) -> Series:
    return series(value, age=age, **{"namespace": "shop", "pod": pod, **labels})


STRANGER = of_pod(2, "stranger")


def test_each_pod_has_its_sample() -> None:
    result = samples(RPS, of_pod(1.5), of_pod(2, "p1", age=7.0))
    assert result == PodSamples(
        {"p0": Sample(1500, BASE, 120.0), "p1": Sample(2000, BASE - 7.0, 120.0)}
    )


def test_other_workloads_pods_are_left_out() -> None:
    result = samples(RPS, of_pod(1), STRANGER, of_pod(3, "p1", namespace="other"))
    assert (set(result.samples), result.dropped) == ({"p0"}, {})
    assert samples(RPS, of_pod(1)).dropped == {}, "a pod without a series is just absent"


RENAMED = Query("q", labels=SeriesLabels("ns", "exported_pod", "name"))
SCRAPED = tuple(
    series(0.25, ns="shop", exported_pod="p0", name=name, pod="prometheus")
    for name in ("app", "log")
)
VERBS = (of_pod(1, verb="get"), of_pod(2, verb="post"))
NAN, INFINITE = of_pod(math.nan), of_pod(math.inf)
STALE, OF_P1 = of_pod(1, age=300.25), of_pod(1, "p1")
BOTH_OF_P1 = tuple(of_pod(0.2, "p1", container=name) for name in ("app", "log"))
HALF = of_pod(0.2, container="app")
LOGS = (of_pod(9, container="log"), of_pod(9, "p1", container="log"))


@pytest.mark.parametrize(
    ("metric", "query", "found", "milli", "dropped"),
    [
        # A selector filters the series of a pod; without it they would be ambiguous.
        (per_pod("1", parse("verb=get")), QUERY, VERBS, {"p0": 1000}, {}),
        (RPS, QUERY, (*VERBS, OF_P1), {"p1": 1000}, {"p0": (GapKind.AMBIGUOUS, "namespace")}),
        # The query has the names of labels.
        (CPU, RENAMED, SCRAPED, {"p0": 500}, {}),
        (APP, RENAMED, SCRAPED, {"p0": 250}, {}),
        # A bad sample leaves its pod missing; a sample as old as permitted counts.
        (RPS, QUERY, (NAN, OF_P1), {"p1": 1000}, {"p0": (GapKind.NOT_A_NUMBER, "nan")}),
        (
            RPS,
            QUERY,
            (INFINITE, OF_P1),
            {"p1": 1000},
            {"p0": (GapKind.NOT_A_NUMBER, "inf")},
        ),
        (RPS, QUERY, (STALE, OF_P1), {"p1": 1000}, {"p0": (GapKind.STALE, "300 s")}),
        (RPS, QUERY, (of_pod(1, age=300.0),), {"p0": 1000}, {}),
        # The query of a resource may sum by pod itself; half a pod's usage would be too low.
        (CPU, QUERY, (of_pod(0.7),), {"p0": 700}, {}),
        (CPU, QUERY, (HALF, *BOTH_OF_P1), {"p1": 400}, {"p0": (GapKind.PARTIAL, "container log")}),
        (
            *(CPU, Query("q", use_partial=True)),
            *((HALF, *BOTH_OF_P1), {"p1": 400}, {"p0": (GapKind.PARTIAL, "pod p0")}),
        ),
        (
            *(CPU, QUERY, (HALF, of_pod(math.nan, container="log"), *BOTH_OF_P1)),
            *({"p1": 400}, {"p0": (GapKind.NOT_A_NUMBER, "nan")}),
        ),
        # A ContainerResource metric reads its container only.
        (APP, QUERY, (HALF, *LOGS), {"p0": 200}, {"p1": (GapKind.EMPTY, "container app")}),
    ],
)
def test_a_pod_without_one_good_sample_is_missing(
    metric: MetricSpec,
    query: Query,
    found: tuple[Series, ...],
    milli: dict[str, int],
    dropped: dict[str, tuple[GapKind, str]],
) -> None:
    result = samples(metric, *found, query=query)
    assert {name: sample.milli for name, sample in result.samples.items()} == milli
    assert {name: gap.kind for name, gap in result.dropped.items()} == {
        name: kind for name, (kind, _) in dropped.items()
    }
    assert all(part in result.dropped[name].detail for name, (_, part) in dropped.items())


@pytest.mark.parametrize(("bad", "kind"), [(NAN, GapKind.NOT_A_NUMBER), (STALE, GapKind.STALE)])
def test_a_reading_without_any_good_sample_is_a_gap(bad: Series, kind: GapKind) -> None:
    assert instance(Gap, reading(RPS, bad)).kind is kind


def test_a_reading_without_a_series_of_a_pod_is_empty() -> None:
    nothing, other = (instance(Gap, answer) for answer in (reading(RPS), reading(RPS, STRANGER)))
    assert (nothing.kind, other.kind) == (GapKind.EMPTY, GapKind.EMPTY)
    assert 'namespace="shop"' not in nothing.detail
    assert 'namespace="shop" and pod=' in other.detail
    without = instance(Gap, read(RPS, QUERY, QueryResult((of_pod(1),)), "shop", (), BASE))
    assert without.kind is GapKind.EMPTY


def test_a_resource_sums_the_containers() -> None:
    result = samples(
        CPU, of_pod(0.2504, container="app", age=9.0), of_pod(0.1004, container="log", age=3.0)
    )
    assert result.samples == {"p0": Sample(350, BASE - 9.0, 120.0)}


@pytest.mark.parametrize("restartable", [True, False])
def test_a_sidecar_counts_as_it_counts_in_the_requests(*, restartable: bool) -> None:
    init = (container("proxy", restartable=restartable, cpu="1"),)
    with_init = pod("p0", requests=PodRequests((container("app", cpu="1"),), init))
    result = read(CPU, QUERY, QueryResult((HALF,)), "shop", (with_init,), BASE)
    assert isinstance(result, Gap if restartable else PodSamples)


def test_only_containers_whose_requests_count_are_summed() -> None:
    """A sidecar counts; an init container that has finished and an ephemeral one do not."""
    init = (container("setup", cpu="1"), container("proxy", restartable=True, cpu="1"))
    of = PodRequests((container("app", cpu="1"),), init, pod_level={"cpu": 10**9})
    found = [
        of_pod(0.1, container=name, id=f"/{name}") for name in ("app", "proxy", "setup", "debug")
    ]
    twice = of_pod(0.1, container="setup", id="/again")
    for requests in (of, PodRequests(of.containers, of.init_containers)):
        pods = (pod("p0", requests=requests),)
        result = read(CPU, QUERY, QueryResult([*found, twice]), "shop", pods, BASE)
        assert isinstance(result, PodSamples)
        assert result.samples["p0"].milli == 200


@pytest.mark.parametrize(
    ("ids", "outermost"),
    [
        (["/a"], "/a"),
        (["", "/a"], ""),
        (["/a", "/b", ""], ""),
        (["/a/c", "/a", "/a/b"], "/a"),
        (["/docker/n/a", "/a"], "/a"),
        (["/docker/n/a", "/a", "/a/b"], "/a"),
        (["/a", "/b"], None),
        (["/a", "/ab"], None),
        (["/n/a", "/m/a"], None),
        (["/a", "/a/b", "/c"], None),
    ],
)
def test_cgroups_of_one_container_count_once(ids: list[str], outermost: str | None) -> None:
    found = [of_pod(1.0 if name == outermost else 5.0, container="app", id=name) for name in ids]
    others = [of_pod(1, "p1", container="app"), of_pod(9, container="log", id="/x")]
    result = samples(APP, *found, *others)
    assert [result.samples[name].milli for name in result.samples] == [1000] * (
        1 if outermost is None else 2
    )
    if outermost is None:
        assert result.dropped["p0"].kind is GapKind.AMBIGUOUS
        assert "container_start_time_seconds" in result.dropped["p0"].detail


def test_many_cgroups_take_linear_time() -> None:
    inner = [of_pod(1, container="app", id=f"/a/{number}") for number in range(20_000)]
    assert samples(APP, of_pod(3, container="app", id="/a"), *inner).samples["p0"].milli == 3000


@pytest.mark.parametrize(
    "found",
    [
        (of_pod(0.1, container="app", image="a"), of_pod(0.1, container="app", image="b")),
        (of_pod(0.7), of_pod(0.1, container="app")),
        (of_pod(0.7, image="a"), of_pod(0.7, image="b")),
    ],
)
@pytest.mark.parametrize("metric", [CPU, APP])
def test_two_series_of_one_container_are_ambiguous(
    metric: MetricSpec, found: tuple[Series, ...]
) -> None:
    """Summing them would count twice; so would a pod's total beside its containers.

    The pod has no sample then, as the others have; the metric fails where none has.
    """
    whole = [of_pod(0.1, "p1", container=name) for name in ("app", "log")]
    result = samples(metric, *whole, *found)
    assert set(result.samples) == {"p1"}
    ambiguous = result.dropped["p0"]
    assert ambiguous.kind is GapKind.AMBIGUOUS
    assert_parts(ambiguous.detail, "pod p0", "namespace, pod and container")
    assert reading(metric, *found) == ambiguous


def test_a_pod_without_containers_has_the_sum_of_its_series() -> None:
    bare = (pod("p0", requests=PodRequests(())), *pods(1)[1:])
    result = read(CPU, QUERY, QueryResult((of_pod(0.5, container="x"),)), "shop", bare, BASE)
    assert isinstance(result, PodSamples)
    assert result.samples["p0"].milli == 500
