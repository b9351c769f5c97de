"""What missing data means by the words of its query, and the one value of a bound (8.2, 8.8)."""

import math

import pytest

from autoscaler.core.observation import Gap, GapKind, PodRequests, PodSamples, Reading, Values
from autoscaler.core.readings import read, read_bound
from autoscaler.core.selectors import parse
from autoscaler.core.series import QueryFailure, QueryResult, Series
from autoscaler.core.spec import MetricSpec
from autoscaler.core.target import Query
from tests.core.builders import (
    BASE,
    average,
    container,
    cpu,
    external,
    of_object,
    per_pod,
    pod,
    pods,
    series,
    utilization,
    value,
)

QUEUE = external(average("30"))
ORDERS = external(average("30"), selector=parse("queue=orders"))
INGRESS = of_object(value("1"))
ZERO = Values((0,))
EMPTY_IS_ZERO = Query("q", empty_is_zero=True)
NAN_IS_ZERO = Query("q", nan_is_zero=True)
USE_PARTIAL = Query("q", use_partial=True)
PARTIAL = ("store eu-1 timed out",)
OLD = 301.0


def reading(
    metric: MetricSpec, query: Query, *found: Series, warnings: tuple[str, ...] = ()
) -> Reading:
    """Read a metric of the namespace `shop` with pods p0, p1 out of an answer."""
    return read(metric, query, QueryResult(found, warnings), "shop", pods(2), BASE)


def kind(found: Reading) -> GapKind:
    assert isinstance(found, Gap), found
    return found.kind


@pytest.mark.parametrize(
    ("metric", "found"),
    [
        (QUEUE, ()),
        (INGRESS, ()),
        (ORDERS, (series(5, queue="mails"),)),
        (INGRESS, (series(5, ingress="back"),)),
    ],
)
def test_no_series_of_the_metric_is_zero_where_the_query_says_so(
    metric: MetricSpec, found: tuple[Series, ...]
) -> None:
    """Whether the answer is empty or has series of others; without the word it is missing."""
    assert reading(metric, EMPTY_IS_ZERO, *found) == ZERO
    assert kind(reading(metric, Query("q"), *found)) is GapKind.EMPTY


@pytest.mark.parametrize("metric", [QUEUE, INGRESS])
def test_only_a_whole_answer_can_be_empty(metric: MetricSpec) -> None:
    """What a server warns of, did not answer or sampled long ago is missing, whatever the words."""
    query = Query("q", empty_is_zero=True, nan_is_zero=True, use_partial=True)
    assert kind(reading(metric, query, warnings=PARTIAL)) is GapKind.PARTIAL
    failed = read(metric, query, QueryFailure("down"), "shop", (), BASE)
    assert failed == Gap(GapKind.ERROR, "down")
    stale = series(math.nan, age=OLD, ingress="front")
    assert kind(reading(metric, query, stale)) is GapKind.STALE


@pytest.mark.parametrize("metric", [per_pod("1"), cpu(utilization(50))])
def test_no_sample_of_a_pod_is_invented(metric: MetricSpec) -> None:
    """A per-pod metric without series is missing, whatever its query says."""
    assert kind(reading(metric, EMPTY_IS_ZERO)) is GapKind.EMPTY


def test_nan_is_zero_series_by_series_where_the_query_says_so() -> None:
    """Also of a pod; an infinity is no number all the same."""
    nan = series(math.nan, ingress="front")
    assert reading(QUEUE, NAN_IS_ZERO, nan, series(5)) == Values((0, 5_000))
    assert reading(INGRESS, NAN_IS_ZERO, nan) == ZERO
    assert kind(reading(QUEUE, NAN_IS_ZERO, series(math.inf))) is GapKind.NOT_A_NUMBER
    assert kind(reading(QUEUE, EMPTY_IS_ZERO, nan)) is GapKind.NOT_A_NUMBER
    found = (series(math.nan, namespace="shop", pod="p0"), series(7, namespace="shop", pod="p1"))
    samples = reading(per_pod("1"), NAN_IS_ZERO, *found)
    assert isinstance(samples, PodSamples)
    assert {name: one.milli for name, one in samples.samples.items()} == {"p0": 0, "p1": 7_000}


@pytest.mark.parametrize(
    ("metric", "one"),
    [
        (QUEUE, series(5)),
        (INGRESS, series(5, ingress="front")),
        (per_pod("1"), series(5, namespace="shop", pod="p0")),
    ],
)
def test_a_partial_reading_is_whole_where_the_query_says_so(
    metric: MetricSpec, one: Series
) -> None:
    """Without gaps it may scale down (2.1); without the word it may not."""
    for query, gaps in ((USE_PARTIAL, 0), (Query("q"), 1)):
        found = reading(metric, query, one, warnings=PARTIAL)
        assert isinstance(found, Values | PodSamples)
        assert len(found.gaps) == gaps


def test_series_without_a_value_may_be_left_out_where_the_query_says_so() -> None:
    """Those of an External metric; one that has no others is missing as before."""
    odd = series(math.nan), series(5, age=OLD)
    assert reading(QUEUE, USE_PARTIAL, *odd, series(6)) == Values((6_000,))
    assert kind(reading(QUEUE, USE_PARTIAL, *odd)) is GapKind.STALE


def test_a_pod_of_which_a_container_is_missing_has_no_sample_whatever_the_word() -> None:
    """Half of a pod's usage would be an invented sample."""
    one = pod("p0", requests=PodRequests((container("app"), container("proxy"))))
    found = QueryResult([series(1, namespace="shop", pod="p0", container="app")])
    result = read(cpu(utilization(50)), USE_PARTIAL, found, "shop", (one,), BASE)
    assert kind(result) is GapKind.PARTIAL


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ((), GapKind.EMPTY),
        ((series(4), series(5, queue="a")), GapKind.AMBIGUOUS),
        ((series(math.nan),), GapKind.NOT_A_NUMBER),
        ((series(math.inf),), GapKind.NOT_A_NUMBER),
        ((series(4, age=OLD),), GapKind.STALE),
    ],
)
def test_a_bound_is_one_value(found: tuple[Series, ...], expected: GapKind) -> None:
    assert kind(read_bound(Query("q"), QueryResult(found), BASE)) is expected
    assert read_bound(Query("q"), QueryResult((series(4.2),)), BASE) == Values((4_200,))
    assert read_bound(Query("q"), QueryFailure("down"), BASE) == Gap(GapKind.ERROR, "down")


def test_the_words_hold_for_a_bound_as_well() -> None:
    """Empty, NaN and partial, with the same limits."""
    assert read_bound(EMPTY_IS_ZERO, QueryResult(()), BASE) == ZERO
    assert kind(read_bound(EMPTY_IS_ZERO, QueryResult((), PARTIAL), BASE)) is GapKind.PARTIAL
    assert read_bound(NAN_IS_ZERO, QueryResult((series(math.nan),)), BASE) == ZERO
    partial = QueryResult((series(4),), PARTIAL)
    assert read_bound(USE_PARTIAL, partial, BASE) == Values((4_000,))
    held = read_bound(Query("q"), partial, BASE)
    assert isinstance(held, Values)
    assert held.gaps


def test_a_reading_says_which_zeros_nobody_measured() -> None:
    """That there was no series, and how many values were NaN: a stale NaN is no value."""
    empty = reading(QUEUE, EMPTY_IS_ZERO)
    assert isinstance(empty, Values)
    assert empty.empty
    nan, stale = series(math.nan), series(math.nan, age=OLD)
    for metric, found in ((QUEUE, (nan, nan, series(5), stale)), (INGRESS, ())):
        one = series(math.nan, ingress="front")
        read_now = reading(metric, NAN_IS_ZERO, *found or (one,))
        assert isinstance(read_now, Values)
        assert read_now.nans == (2 if found else 1)
        assert not read_now.empty
    measured = reading(QUEUE, NAN_IS_ZERO, series(0))
    assert isinstance(measured, Values)
    assert measured.nans == 0
