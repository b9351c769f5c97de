"""Prometheus answers: milli-values, and the index that lets one answer serve many targets."""

import math
from dataclasses import replace

import pytest

from autoscaler.core.numbers import INT64_MAX, INT64_MIN
from autoscaler.core.observation import Gap, GapKind, PodSamples, Sample, Values
from autoscaler.core.readings import read
from autoscaler.core.selectors import LONGEST, go_string, parse, selector_problem
from autoscaler.core.series import QueryResult, Series, milli_of
from autoscaler.core.spec import LabelSelector, MetricSpec, Operator, Requirement
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
from tests.narrowing import instance, known


@pytest.mark.parametrize(
    ("values", "milli"),
    [
        ((1.0,), 1000),
        ((0.0, -0.0, 0.0004), 0),
        ((0.0006,), 1),
        ((1.2345,), 1234),
        ((1.2346,), 1235),
        ((-1.2346,), -1235),
        # 1e306 is finite, and no longer so in milli-units.
        ((1e300, 1e306), INT64_MAX),
        ((-1e300, -1e306), INT64_MIN),
        ((math.nan, math.inf, -math.inf), None),
    ],
)
def test_a_sample_becomes_a_milli_value(values: tuple[float, ...], milli: int | None) -> None:
    """Rounded to the nearest, saturating; NaN and infinities are no samples."""
    assert {milli_of(value) for value in values} == {milli}


QUEUES = QueryResult(
    (
        series(1, queue="orders", env="prod"),
        series(2, queue="orders", env="test"),
        series(3, queue="mails", env="prod"),
        series(4, env="prod"),
    )
)


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        (None, [1, 2, 3, 4]),
        (LabelSelector(), [1, 2, 3, 4]),
        (parse("queue=orders,env=prod"), [1]),
        (parse("queue=none"), []),
        (parse("queue=orders,env!=prod"), [2]),
        (parse("!queue"), [4]),
    ],
)
def test_selectors_filter_series(selector: LabelSelector | None, found: list[float]) -> None:
    for _ in range(2):  # the second time from the index
        assert [item.value for item in QUEUES.select(selector)] == found


def test_series_are_found_by_label() -> None:
    left, right = replace(QUEUES), replace(QUEUES)
    assert [item.value for item in left.with_label("queue", "mails")] == [3]
    assert list(left.with_label("queue", "")) == []
    assert list(left.with_label("pod", "p0")) == []
    assert left == right
    assert repr(left) == repr(right)


# -- label selectors: the string form of a scale, the four operators, Go's printed form ------------


WEB = {"app": "web", "tier": "front"}


IN, NOT_IN, EXISTS, ABSENT = Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST
TIER = Requirement("tier", IN, ("a", "b"))


@pytest.mark.parametrize(
    ("text", "labels", "expressions"),
    [
        ("", {}, ()),
        ("app=web", {"app": "web"}, ()),
        ("app==web", {"app": "web"}, ()),
        (" app = web , tier=front ", {"app": "web", "tier": "front"}, ()),
        ("app=", {"app": ""}, ()),
        ("app!=web", {}, (Requirement("app", NOT_IN, ("web",)),)),
        ("app", {}, (Requirement("app", EXISTS),)),
        ("!app", {}, (Requirement("app", ABSENT),)),
        ("! app", {}, (Requirement("app", ABSENT),)),
        ("tier in (a, b)", {}, (TIER,)),
        ("tier in(a)", {}, (Requirement("tier", IN, ("a",)),)),
        ("tier notin (a,b)", {}, (Requirement("tier", NOT_IN, ("a", "b")),)),
        ("a.io/b=web,tier in (a,b),!c", {"a.io/b": "web"}, (TIER, Requirement("c", ABSENT))),
    ],
)
def test_equality_terms_become_labels_and_others_requirements(
    text: str, labels: dict[str, str], expressions: tuple[Requirement, ...]
) -> None:
    assert parse(text) == LabelSelector(tuple(labels.items()), expressions)


NO_SELECTORS = ("app=web,", "=web", "app web", "app=web tier=x", "tier in a", "tier in (a", "a,,b")


@pytest.mark.parametrize("text", [*NO_SELECTORS, "!", "a>5", "b in (a b)"])
def test_a_text_that_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="label selector") as refused:
        parse(text)
    assert repr(text) in str(refused.value)


OPERATORS = [
    ("app in (web,api)", (True, False, False)),
    ("app notin (web,api)", (False, True, True)),
    ("app", (True, True, False)),
    ("!app", (False, False, True)),
    ("", (True, True, True)),
    ("app=web,tier in (front)", (True, False, False)),
    ("app=web,tier in (back)", (False, False, False)),
    ("app=db,tier in (front)", (False, False, False)),
    # The label with an empty value, which is not an absent label.
    ("app=", (False, False, False)),
]


@pytest.mark.parametrize(("text", "matched"), OPERATORS)
def test_a_selector_matches_if_all_terms_match(text: str, matched: tuple[bool, ...]) -> None:
    selector = parse(text)
    found = [selector.matches(labels) for labels in (WEB, {"app": "db"}, {"tier": "front"})]
    assert tuple(found) == matched
    assert selector.matches({"app": ""}) is (text in {"", "app=", "app", "app notin (web,api)"})
    assert selector.empty is (text == "")


PRINTED = (
    "LabelSelectorRequirement{Key:queue,Operator:NotIn,Values:[a b],},",
    "LabelSelectorRequirement{Key:old,Operator:DoesNotExist,Values:[],},",
)


@pytest.mark.parametrize(
    ("selector", "labels", "expressions"),
    [
        ("", "", ""),
        ("queue=orders,env=prod", "env: prod,queue: orders,", ""),
        ("queue notin (a,b),!old", "", "".join(PRINTED)),
    ],
)
def test_a_selector_is_printed_as_in_go(selector: str, labels: str, expressions: str) -> None:
    assert go_string(parse(selector)) == (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
    assert go_string(None) == "nil"


def test_a_selector_above_the_limit_is_refused_unread() -> None:
    """An API server does not check the selectors of custom resources, and any size fits in etcd."""
    assert parse("a," * (LONGEST // 2 - 1) + "a").match_expressions
    with pytest.raises(ValueError, match="65,537 characters"):
        parse("a" * (LONGEST + 1))


def test_a_huge_invalid_selector_has_a_short_message() -> None:
    problem = known(selector_problem("a in (" + " " * 900_000, ()))
    assert problem[:2] == ("InvalidSelector", "InvalidSelector")
    assert len(problem[2]) < 200


# -- targets of several clusters: their names, and which series are theirs (semantics 8.12) --------


EU, US = (("cluster", "eu"),), (("cluster", "us"), ("region", "us-1"))
RPS = per_pod("10")
QUERY = Query("q")


@pytest.mark.parametrize(
    ("key", "name", "short"),
    [
        ("shop/Deployment/web", TargetName("", "shop", "Deployment", "web"), "shop/web"),
        ("eu/shop/Deployment/web", TargetName("eu", "shop", "Deployment", "web"), "eu/shop/web"),
        ("a/Rollout.argoproj.io/c", TargetName("", "a", "Rollout.argoproj.io", "c"), "a/c"),
    ],
)
def test_a_key_has_the_parts_of_a_name(key: str, name: TargetName, short: str) -> None:
    assert TargetName.parse(key) == name
    assert name.key == key
    assert name.short == short


@pytest.mark.parametrize("text", ["", "web", "shop/web", "a/b/c/d/e", "//"])
def test_any_text_has_a_name(text: str) -> None:
    assert TargetName.parse(text).name == text.split("/", 3)[-1]


def both(value_eu: float, value_us: float, labels: dict[str, str]) -> QueryResult:
    """Return one series of each cluster with the same labels but these."""
    clusters = ((EU, value_eu), (US, value_us))
    return QueryResult([Series({**labels, **dict(own)}, item, BASE) for own, item in clusters])


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
def test_pods_of_two_clusters_are_not_mixed(metric: MetricSpec, labels: dict[str, str]) -> None:
    answer = both(1.0, 2.0, labels)
    for own, milli in ((EU, 1000), (US, 2000)):
        reading = instance(PodSamples, of_cluster(metric, answer, own))
        assert reading.samples == {"p0": Sample(milli, BASE, 60.0)}
    mixed = instance(Gap, of_cluster(metric, answer, ()))
    assert mixed.kind is GapKind.AMBIGUOUS


def test_an_object_of_equal_name_in_two_clusters_is_not_mixed() -> None:
    """A series without a namespace counts where none of its cluster's has one."""
    of_eu, of_us = both(1.0, 2.0, {"ingress": "front"}).series
    of_us = replace(of_us, labels={**of_us.labels, "namespace": "shop"})
    answer = QueryResult([of_eu, of_us])
    for own, milli in ((EU, 1000), (US, 2000)):
        assert of_cluster(of_object(value("10")), answer, own) == Values((milli,))


SOME = series(1.0, namespace="shop", pod="p0", cluster="us", region="us-2")


@pytest.mark.parametrize(
    ("answer", "kind", "part"),
    [
        (QueryResult([SOME]), GapKind.EMPTY, 'cluster="us" and region="us-1"'),
        # They may be in the part that is missing.
        (QueryResult([SOME], warnings=("store eu",)), GapKind.PARTIAL, "store eu"),
    ],
)
def test_a_series_with_only_some_of_the_labels_is_of_no_cluster(
    answer: QueryResult, kind: GapKind, part: str
) -> None:
    reading = instance(Gap, of_cluster(RPS, answer, US))
    assert reading.kind is kind
    assert part in reading.detail


@pytest.mark.parametrize("found", [[], [series(1.0, ingress="front", cluster="us")]])
def test_no_series_of_the_cluster_may_count_as_0(found: list[Series]) -> None:
    """`empty: zero` of an Object metric means those of the cluster."""
    query = replace(QUERY, series_labels=EU, empty_is_zero=True)
    metric = of_object(value("10"))
    none = read(metric, query, QueryResult(found), "shop", (), BASE)
    assert none == Values((0,), empty=True)


def test_series_labels_are_part_of_the_metric_key() -> None:
    keys = {metric_key(RPS, replace(QUERY, series_labels=own)) for own in ((), EU, US)}
    assert len(keys) == 3


def test_the_targets_of_a_cluster_share_a_part_of_an_answer() -> None:
    answer = both(1.0, 2.0, POD)
    assert answer.only(EU) is answer.only(EU)
    assert answer.only(()) is answer
    assert [series.value for series in answer.only(US).series] == [2.0]
    assert isinstance(answer.series[0], Series)
