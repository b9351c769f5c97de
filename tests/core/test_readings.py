"""From series to readings of External and Object metrics, and failed queries (semantics 2.1)."""

import math

import pytest

from autoscaler.core.numbers import INT64_MAX
from autoscaler.core.observation import Gap, GapKind, PodRequests, PodSamples, Reading, Values
from autoscaler.core.readings import read, read_bound
from autoscaler.core.selectors import parse
from autoscaler.core.series import QueryFailure, QueryResult, Series
from autoscaler.core.spec import MetricSpec, ScaleTargetRef
from autoscaler.core.target import Query, SeriesLabels
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
from tests.narrowing import assert_parts, instance

QUEUE = external(average("30"))
ORDERS = external(average("30"), selector=parse("queue=orders"))


def reading(
    metric: MetricSpec,
    *found: Series,
    query: Query = Query("q"),  # noqa: B008 - frozen
    warnings: tuple[str, ...] = (),
) -> Reading:
    """Read a metric of the namespace `shop` with pods p0, p1 out of an answer."""
    return read(metric, query, QueryResult(found, warnings), "shop", pods(2), BASE)


def gap(metric: MetricSpec, *found: Series, query: Query = Query("q")) -> Gap:  # noqa: B008
    return instance(Gap, reading(metric, *found, query=query))


INGRESS = of_object(value("100"))
PARTIAL = ("store eu-1 timed out",)


@pytest.mark.parametrize("metric", [QUEUE, INGRESS, per_pod("1"), cpu(utilization(50))])
def test_an_answer_that_fails_is_empty_or_incomplete(metric: MetricSpec) -> None:
    """Whatever the type of the metric: an empty one is not zero, nor whole beside a warning."""
    failed = read(metric, Query("q"), QueryFailure("parse error"), "shop", pods(1), BASE)
    assert failed == Gap(GapKind.ERROR, "parse error")
    assert gap(metric).kind is GapKind.EMPTY
    nothing = instance(Gap, reading(metric, warnings=("store s3 is down",)))
    assert (nothing.kind, "store s3 is down" in nothing.detail) == (GapKind.PARTIAL, True)
    found = series(5, ingress="front", namespace="shop", pod="p0", container="app")
    for warnings in ((), PARTIAL):
        whole = reading(metric, found, warnings=warnings)
        assert not isinstance(whole, Gap)
        assert [lapse.kind for lapse in whole.gaps] == [GapKind.PARTIAL] * len(warnings)
        assert all(PARTIAL[0] in lapse.detail for lapse in whole.gaps)


def test_external_takes_all_series_that_the_selector_leaves() -> None:
    """One value each; labels of namespace or pod mean nothing."""
    found = (
        series(120, queue="orders"),
        series(7.5, queue="mails"),
        series(3, queue="orders", namespace="other"),
    )
    assert reading(ORDERS, *found) == Values((120_000, 3_000))
    assert reading(QUEUE, *found) == Values((120_000, 7_500, 3_000))
    assert reading(ORDERS, series(0, queue="orders")) == Values((0,)), "a zero is a value"


def test_a_wrong_selector_and_an_empty_answer_have_different_messages() -> None:
    other, nothing = gap(ORDERS, series(1, queue="mails"), series(2, queue="bills")), gap(ORDERS)
    assert (other.kind, nothing.kind) == (GapKind.EMPTY, GapKind.EMPTY)
    assert ("selector" in other.detail, "selector" in nothing.detail) == (True, False)


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_external_leaves_out_what_is_no_number_and_remembers_it(odd: float) -> None:
    """Beside good values it is a gap of the whole; alone it is the reading's gap."""
    mixed = instance(Values, reading(QUEUE, series(5, queue="a"), series(odd, queue="b")))
    assert mixed.values == (5_000,)
    (lapse,) = mixed.gaps
    assert lapse.kind is GapKind.NOT_A_NUMBER
    assert_parts(lapse.detail, '{queue="b"}', str(odd))
    assert gap(QUEUE, series(odd, queue="b")).kind is GapKind.NOT_A_NUMBER


def test_external_leaves_out_what_is_too_old_and_remembers_it() -> None:
    """A sample exactly as old as permitted still counts."""
    query = Query("q", max_age=300.0)
    assert reading(QUEUE, series(5, age=300.0), query=query) == Values((5_000,))
    old = gap(QUEUE, series(5, age=300.25, queue="a"), query=query)
    assert old.kind is GapKind.STALE
    assert_parts(old.detail, '{queue="a"}', "2025-12-31T23:54:59Z", "300 s (maxAge)")
    mixed = instance(Values, reading(QUEUE, series(5, age=301.0), series(6), query=query))
    assert (mixed.values, [lapse.kind for lapse in mixed.gaps]) == ((6_000,), [GapKind.STALE])
    assert gap(QUEUE, Series({}, 1.0, math.nan)).kind is GapKind.STALE, "it has no time"


def test_external_tells_of_a_few_series_without_a_value_and_counts_the_others() -> None:
    """Whoever writes series does not choose how much is told and kept of them."""
    odd = [series(math.nan, queue=f"q{number:02}") for number in range(100)]
    mixed = instance(Values, reading(QUEUE, series(5), *odd))
    assert len(mixed.gaps) == 11
    assert_parts(mixed.gaps[-2].detail, '{queue="q09"}', "nan")
    assert "90" in mixed.gaps[-1].detail


def test_the_labels_of_a_series_are_short_and_printable() -> None:
    """Twenty labels, names of 100 and values of 200 characters, and 600 of all of them."""

    def shortened(labels: dict[str, str]) -> str:
        labels_text, _, _ = gap(QUEUE, Series(labels, math.nan, BASE)).detail.partition(" is nan")
        return labels_text

    many = shortened({f"l{number:02}": "\x1b" for number in range(25)})
    assert many.startswith('{l00="\\x1b", l01=')
    assert many.endswith('l19="\\x1b", and 5 more}')
    assert shortened({"n" * 1000: "v" * 1000}) == f'{{{"n" * 99}…="{"v" * 199}…"}}'
    assert len(shortened({f"l{number}": "v" * 200 for number in range(9)})) == 600


RENAMED = Query("q", labels=SeriesLabels(namespace="exported_namespace"))
OTHER, STRAY = series(7, ingress="back", namespace="shop"), series(1, ingress="front")
BY_CODE = (series(3, ingress="front", code="200"), series(4, ingress="front", code="500"))
OF_A_FRONT = {
    "own-namespace": (
        (
            OTHER,
            series(2, ingress="front", namespace="other"),
            series(3, ingress="front", namespace="shop"),
            series(4, Ingress="front", namespace="shop"),
        ),
        3_000,
    ),
    "no-namespaces": ((series(3, ingress="front"),), 3_000),
    "without-namespace-beside-another": ((STRAY, OTHER), GapKind.EMPTY),
    "without-namespace-beside-own": (
        (STRAY, series(2, ingress="front", namespace="shop")),
        2_000,
    ),
    "several": (BY_CODE, GapKind.AMBIGUOUS),
    "nan": ((series(math.nan, ingress="front"),), GapKind.NOT_A_NUMBER),
    "stale": ((series(1, age=301.0, ingress="front"),), GapKind.STALE),
    "another-object": ((OTHER,), GapKind.EMPTY),
}


@pytest.mark.parametrize(("found", "expected"), OF_A_FRONT.values(), ids=OF_A_FRONT)
def test_an_object_needs_one_series(found: tuple[Series, ...], expected: int | GapKind) -> None:
    """The series of the object, by the label of its kind in lower case."""
    if isinstance(expected, GapKind):
        assert gap(INGRESS, *found).kind is expected
    else:
        assert reading(INGRESS, *found) == Values((expected,))


def test_object_says_what_it_looked_for_and_obeys_the_metrics_selector() -> None:
    """The sentences show the label and its value, or two of several series."""
    assert_parts(gap(INGRESS, OTHER).detail, 'ingress="front"', "namespace shop")
    two = '{code="200", ingress="front"} and {code="500", ingress="front"}'
    assert two in gap(INGRESS, *BY_CODE).detail
    selecting = of_object(value("100"), selector=parse("code=200"))
    assert reading(selecting, *BY_CODE) == Values((3_000,))
    assert reading(INGRESS, STRAY, OTHER, query=RENAMED) == Values((1_000,))


def test_an_object_of_kind_namespace_is_the_targets_own() -> None:
    """The core Namespace is the one the target is in, whatever name is given."""
    metric = of_object(value("1"), ScaleTargetRef("v1", "Namespace", "elsewhere"))
    found = (series(1, namespace="elsewhere"), series(2, namespace="shop"))
    assert reading(metric, *found) == Values((2_000,))
    custom = of_object(value("1"), ScaleTargetRef("example.com/v1", "Namespace", "tenant"))
    # A Namespace of another group has no special rule: neither series is about it.
    both = gap(custom, series(1, namespace="tenant"), series(2, namespace="shop"))
    assert both.kind is GapKind.EMPTY
    tenant = series(1, namespace="tenant", exported_namespace="shop")
    assert reading(custom, tenant, query=RENAMED) == Values((1_000,))


def test_label_names_come_from_the_query() -> None:
    """Where scraping renamed the namespace label, both object rules follow."""
    found = (
        series(1, ingress="front", exported_namespace="other", namespace="shop"),
        series(2, ingress="front", exported_namespace="shop", namespace="monitoring"),
    )
    metric = of_object(value("1"), ScaleTargetRef("v1", "Namespace", "any"))
    for item in (INGRESS, metric):
        assert reading(item, *found, query=RENAMED) == Values((2_000,))


@pytest.mark.parametrize(
    ("samples", "milli", "total"),
    [
        ((0.0005,), (0,), 0.0005),
        ((0.07,), (70,), None),
        ((0.0004, 0.0004), (0, 0), 0.0008),
        ((1e308, 1e308), (INT64_MAX, INT64_MAX), math.inf),
        ((0.1,) * 1000, (100,) * 1000, None),
        ((-0.0004,), (0,), -0.0004),
    ],
)
def test_what_thousandths_do_not_hold_is_kept(
    samples: tuple[float, ...], milli: tuple[int, ...], total: float | None
) -> None:
    """The sum as the doubles that were read, only where it is another one."""
    answer = QueryResult(tuple(series(sample, pod=str(n)) for n, sample in enumerate(samples)))
    reading = instance(Values, read(external(average("10")), Query("q"), answer, "shop", (), BASE))
    assert (reading.values, reading.total) == (milli, total)
    if len(samples) == 1:
        bound = instance(Values, read_bound(Query("q"), answer, BASE))
        assert bound.total == total


# -- what missing data means by the words of its query, and the one value of a bound (8.2, 8.8) ----


ZERO = Values((0,))
EMPTY_IS_ZERO = Query("q", empty_is_zero=True)
NAN_IS_ZERO = Query("q", nan_is_zero=True)
USE_PARTIAL = Query("q", use_partial=True)
OLD = 301.0


def worded(
    metric: MetricSpec, query: Query, *found: Series, warnings: tuple[str, ...] = ()
) -> Reading:
    return reading(metric, *found, query=query, warnings=warnings)


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
    assert worded(metric, EMPTY_IS_ZERO, *found) == ZERO
    assert kind(worded(metric, Query("q"), *found)) is GapKind.EMPTY


@pytest.mark.parametrize("metric", [QUEUE, INGRESS])
def test_only_a_whole_answer_can_be_empty(metric: MetricSpec) -> None:
    """What a server warns of, did not answer or sampled long ago is missing, whatever the words."""
    query = Query("q", empty_is_zero=True, nan_is_zero=True, use_partial=True)
    assert kind(worded(metric, query, warnings=PARTIAL)) is GapKind.PARTIAL
    failed = read(metric, query, QueryFailure("down"), "shop", (), BASE)
    assert failed == Gap(GapKind.ERROR, "down")
    stale = series(math.nan, age=OLD, ingress="front")
    assert kind(worded(metric, query, stale)) is GapKind.STALE


@pytest.mark.parametrize("metric", [per_pod("1"), cpu(utilization(50))])
def test_no_sample_of_a_pod_is_invented(metric: MetricSpec) -> None:
    """A per-pod metric without series is missing, whatever its query says."""
    assert kind(worded(metric, EMPTY_IS_ZERO)) is GapKind.EMPTY


def test_nan_is_zero_series_by_series_where_the_query_says_so() -> None:
    """Also of a pod; an infinity is no number all the same."""
    nan = series(math.nan, ingress="front")
    assert worded(QUEUE, NAN_IS_ZERO, nan, series(5)) == Values((0, 5_000))
    assert worded(INGRESS, NAN_IS_ZERO, nan) == ZERO
    assert kind(worded(QUEUE, NAN_IS_ZERO, series(math.inf))) is GapKind.NOT_A_NUMBER
    assert kind(worded(QUEUE, EMPTY_IS_ZERO, nan)) is GapKind.NOT_A_NUMBER
    found = (series(math.nan, namespace="shop", pod="p0"), series(7, namespace="shop", pod="p1"))
    samples = instance(PodSamples, worded(per_pod("1"), NAN_IS_ZERO, *found))
    assert {name: sample.milli for name, sample in samples.samples.items()} == {
        "p0": 0,
        "p1": 7_000,
    }


@pytest.mark.parametrize(
    ("metric", "only"),
    [
        (QUEUE, series(5)),
        (INGRESS, series(5, ingress="front")),
        (per_pod("1"), series(5, namespace="shop", pod="p0")),
    ],
)
def test_a_partial_reading_is_whole_if_the_query_says_so(metric: MetricSpec, only: Series) -> None:
    """Without gaps it may scale down (2.1); without the word it may not."""
    for query, gaps in ((USE_PARTIAL, 0), (Query("q"), 1)):
        found = worded(metric, query, only, warnings=PARTIAL)
        assert isinstance(found, Values | PodSamples)
        assert len(found.gaps) == gaps


def test_series_without_a_value_may_be_left_out_where_the_query_says_so() -> None:
    """Those of an External metric; one that has no others is missing as before."""
    odd = series(math.nan), series(5, age=OLD)
    assert worded(QUEUE, USE_PARTIAL, *odd, series(6)) == Values((6_000,))
    assert kind(worded(QUEUE, USE_PARTIAL, *odd)) is GapKind.STALE


def test_a_pod_of_which_a_container_is_missing_has_no_sample_whatever_the_word() -> None:
    """Half of a pod's usage would be an invented sample."""
    web_pod = pod("p0", requests=PodRequests((container("app"), container("proxy"))))
    found = QueryResult([series(1, namespace="shop", pod="p0", container="app")])
    result = read(cpu(utilization(50)), USE_PARTIAL, found, "shop", (web_pod,), BASE)
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
    held = instance(Values, read_bound(Query("q"), partial, BASE))
    assert held.gaps


def test_a_reading_says_which_zeros_nobody_measured() -> None:
    """That there was no series, and how many values were NaN: a stale NaN is no value."""
    empty = instance(Values, worded(QUEUE, EMPTY_IS_ZERO))
    assert empty.empty
    nan, stale = series(math.nan), series(math.nan, age=OLD)
    for metric, found in ((QUEUE, (nan, nan, series(5), stale)), (INGRESS, ())):
        nan_series = series(math.nan, ingress="front")
        read_now = instance(Values, worded(metric, NAN_IS_ZERO, *found or (nan_series,)))
        assert read_now.nans == (2 if found else 1)
        assert not read_now.empty
    measured = instance(Values, worded(QUEUE, NAN_IS_ZERO, series(0)))
    assert measured.nans == 0
