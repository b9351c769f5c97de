"""Targets of several clusters: their names, and which series are theirs (semantics 8.12)."""

from dataclasses import replace

import pytest

from autoscaler.core.observation import Gap, GapKind, PodSamples, Sample, Values
from autoscaler.core.readings import read
from autoscaler.core.series import QueryResult, Series
from autoscaler.core.spec import LabelSelector, MetricSpec
from autoscaler.core.target import Query, TargetName, metric_key
from tests.core.builders import (
    BASE,
    cpu,
    external,
    of_object,
    per_pod,
    pod,
    series,
    utilization,
    value,
)

EU, US = (("cluster", "eu"),), (("cluster", "us"), ("region", "us-1"))
RPS = per_pod("10")
QUERY = Query("q")
KEYS = (
    ("shop/Deployment/web", TargetName("", "shop", "Deployment", "web"), "shop/web"),
    ("eu/shop/Deployment/web", TargetName("eu", "shop", "Deployment", "web"), "eu/shop/web"),
    ("a/Rollout.argoproj.io/c", TargetName("", "a", "Rollout.argoproj.io", "c"), "a/c"),
)


@pytest.mark.parametrize(("key", "name", "short"), KEYS)
def test_a_key_is_taken_apart_and_put_together(key: str, name: TargetName, short: str) -> None:
    assert TargetName.of(key) == name
    assert name.key == key
    assert name.short == short


@pytest.mark.parametrize("text", ["", "web", "shop/web", "a/b/c/d/e", "//"])
def test_another_text_has_a_name_too(text: str) -> None:
    """What a person types, or a damaged record holds, raises nothing."""
    assert TargetName.of(text).name == text.split("/", 3)[-1]


def labelled(sample: float, *labels: tuple[str, str]) -> Series:
    return Series(dict(labels), sample, BASE)


def both(value_eu: float, value_us: float, labels: dict[str, str]) -> QueryResult:
    """Return one series of each cluster with the same labels but these."""
    of_pod = tuple(labels.items())
    return QueryResult([labelled(value_eu, *of_pod, *EU), labelled(value_us, *of_pod, *US)])


def of_cluster(
    metric: MetricSpec, answer: QueryResult, labels: tuple[tuple[str, str], ...]
) -> object:
    """Read a metric of a target of the namespace `shop` with one pod, in a cluster."""
    return read(metric, replace(QUERY, series_labels=labels), answer, "shop", (pod("p0"),), BASE)


@pytest.mark.parametrize(
    ("names", "selector", "expected"),
    [
        ((), None, Values((1000, 2000))),
        (("cluster",), None, GapKind.AMBIGUOUS),
        (("zone", "cluster"), None, GapKind.AMBIGUOUS),
        (("zone", "region"), None, Values((1000, 2000))),
        (("cluster",), LabelSelector((("cluster", "us"),)), Values((2000,))),
    ],
)
def test_an_external_metric_sums_no_series_of_different_clusters(
    names: tuple[str, ...], selector: LabelSelector | None, expected: object
) -> None:
    """Its query has to select one, or to leave the label out; a series without it is of none."""
    metric = external(value("1"), selector=selector)
    query = replace(QUERY, cluster_labels=names)
    reading = read(metric, query, both(1.0, 2.0, {"queue": "a"}), "shop", (), BASE)
    if isinstance(expected, GapKind):
        assert isinstance(reading, Gap)
        assert reading.kind is expected
        assert 'cluster="eu" and "us"' in reading.detail
    else:
        assert reading == expected


POD = {"namespace": "shop", "pod": "p0"}
OF_PODS = {"pods": (RPS, POD), "cpu": (cpu(utilization(50)), {**POD, "container": "app"})}


@pytest.mark.parametrize(("metric", "labels"), OF_PODS.values(), ids=OF_PODS)
def test_equal_names_of_pods_in_two_clusters_are_not_mixed(
    metric: MetricSpec, labels: dict[str, str]
) -> None:
    """Each reads the sample of its own cluster; without labels two series are ambiguous."""
    answer = both(1.0, 2.0, labels)
    for own, milli in ((EU, 1000), (US, 2000)):
        reading = of_cluster(metric, answer, own)
        assert isinstance(reading, PodSamples), reading
        assert reading.samples == {"p0": Sample(milli, BASE, 60.0)}
    mixed = of_cluster(metric, answer, ())
    assert isinstance(mixed, Gap)
    assert mixed.kind is GapKind.AMBIGUOUS


def test_an_object_of_equal_name_in_two_clusters_is_not_mixed() -> None:
    """A series without a namespace counts where none of its cluster's has one."""
    answer = QueryResult(
        [
            labelled(1.0, ("ingress", "front"), *EU),
            labelled(2.0, ("ingress", "front"), ("namespace", "shop"), *US),
        ]
    )
    for own, milli in ((EU, 1000), (US, 2000)):
        assert of_cluster(of_object(value("10")), answer, own) == Values((milli,))


def test_a_series_with_only_some_of_the_labels_is_of_no_cluster() -> None:
    """All labels have to match, and the sentence names them."""
    answer = QueryResult([series(1.0, namespace="shop", pod="p0", cluster="us", region="us-2")])
    reading = of_cluster(RPS, answer, US)
    assert isinstance(reading, Gap)
    assert reading.kind is GapKind.EMPTY
    expected = 'none of the series is labelled cluster="us" and region="us-1" (seriesLabels)'
    assert reading.detail == expected


def test_an_incomplete_answer_without_series_of_the_cluster_says_so() -> None:
    """They may be in the part that is missing."""
    answer = QueryResult([labelled(1.0, *POD.items(), *EU)], warnings=("a store is away",))
    reading = of_cluster(RPS, answer, US)
    assert isinstance(reading, Gap)
    assert reading.kind is GapKind.PARTIAL


@pytest.mark.parametrize("found", [[], [series(1.0, ingress="front", cluster="us")]])
def test_no_series_of_the_cluster_may_count_as_0(found: list[Series]) -> None:
    """`empty: zero` of an Object metric means those of the cluster."""
    query = replace(QUERY, series_labels=EU, empty_is_zero=True)
    metric = of_object(value("10"))
    none = read(metric, query, QueryResult(found), "shop", (), BASE)
    assert none == Values((0,), empty=True)


def test_the_labels_name_the_metric_in_the_history() -> None:
    """Without any it is what it was."""
    keys = {metric_key(RPS, replace(QUERY, series_labels=own)) for own in ((), EU, US)}
    assert len(keys) == 3


def test_an_answer_is_divided_once() -> None:
    """Many targets of a cluster share its part of an answer."""
    answer = both(1.0, 2.0, POD)
    assert answer.only(EU) is answer.only(EU)
    assert answer.only(()) is answer
    assert [one.value for one in answer.only(US).series] == [2.0]
    assert isinstance(answer.series[0], Series)
