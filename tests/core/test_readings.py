"""From series to readings of External and Object metrics, and failed queries (semantics 2.1)."""

import math

import pytest

from autoscaler.core.numbers import INT64_MAX
from autoscaler.core.observation import Gap, GapKind, PodSamples, Reading, Values
from autoscaler.core.readings import read, read_bound
from autoscaler.core.selectors import parse
from autoscaler.core.series import QueryFailure, QueryResult, Series
from autoscaler.core.spec import MetricSpec, ScaleTargetRef
from autoscaler.core.target import Query, SeriesLabels
from tests.core.builders import (
    BASE,
    average,
    cpu,
    external,
    of_object,
    per_pod,
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
def test_external_skips_nan_and_infinity_as_a_gap(odd: float) -> None:
    mixed = instance(Values, reading(QUEUE, series(5, queue="a"), series(odd, queue="b")))
    assert mixed.values == (5_000,)
    (lapse,) = mixed.gaps
    assert lapse.kind is GapKind.NOT_A_NUMBER
    assert_parts(lapse.detail, '{queue="b"}', str(odd))
    assert gap(QUEUE, series(odd, queue="b")).kind is GapKind.NOT_A_NUMBER


def test_external_skips_a_stale_sample_as_a_gap() -> None:
    query = Query("q", max_age=300.0)
    assert reading(QUEUE, series(5, age=300.0), query=query) == Values((5_000,))
    old = gap(QUEUE, series(5, age=300.25, queue="a"), query=query)
    assert old.kind is GapKind.STALE
    assert_parts(old.detail, '{queue="a"}', "2025-12-31T23:54:59Z", "300 s (maxAge)")
    mixed = instance(Values, reading(QUEUE, series(5, age=301.0), series(6), query=query))
    assert (mixed.values, [lapse.kind for lapse in mixed.gaps]) == ((6_000,), [GapKind.STALE])
    assert gap(QUEUE, Series({}, 1.0, math.nan)).kind is GapKind.STALE, "it has no time"


def test_external_names_ten_series_without_a_value_and_counts_the_others() -> None:
    odd = [series(math.nan, queue=f"q{number:02}") for number in range(100)]
    mixed = instance(Values, reading(QUEUE, series(5), *odd))
    assert len(mixed.gaps) == 11
    assert_parts(mixed.gaps[-2].detail, '{queue="q09"}', "nan")
    assert "90" in mixed.gaps[-1].detail


def test_the_labels_of_a_series_are_short_and_printable() -> None:
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
    if isinstance(expected, GapKind):
        assert gap(INGRESS, *found).kind is expected
    else:
        assert reading(INGRESS, *found) == Values((expected,))


def test_an_object_metric_applies_its_selector_and_names_the_labels() -> None:
    assert_parts(gap(INGRESS, OTHER).detail, 'ingress="front"', "namespace shop")
    two = '{code="200", ingress="front"} and {code="500", ingress="front"}'
    assert two in gap(INGRESS, *BY_CODE).detail
    selecting = of_object(value("100"), selector=parse("code=200"))
    assert reading(selecting, *BY_CODE) == Values((3_000,))
    assert reading(INGRESS, STRAY, OTHER, query=RENAMED) == Values((1_000,))


def test_an_object_of_kind_namespace_is_the_targets_own() -> None:
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
def test_a_sum_finer_than_thousandths_is_kept(
    samples: tuple[float, ...], milli: tuple[int, ...], total: float | None
) -> None:
    answer = QueryResult(tuple(series(sample, pod=str(n)) for n, sample in enumerate(samples)))
    reading = instance(Values, read(external(average("10")), Query("q"), answer, "shop", (), BASE))
    assert (reading.values, reading.total) == (milli, total)
    if len(samples) == 1:
        bound = instance(Values, read_bound(Query("q"), answer, BASE))
        assert bound.total == total


# -- what missing data means by the words of its query, and the one value of a bound (8.2, 8.8) ----


ZERO = Values((0,))
PLAIN = Query("q")
EMPTY_IS_ZERO = Query("q", empty_is_zero=True)
NAN_IS_ZERO = Query("q", nan_is_zero=True)
USE_PARTIAL = Query("q", use_partial=True)
EVERY_WORD = Query("q", empty_is_zero=True, nan_is_zero=True, use_partial=True)
NAN, INFINITE = series(math.nan, ingress="front"), series(math.inf)
STALE, STALE_NAN = (series(sample, age=301.0, ingress="front") for sample in (5, math.nan))


def assert_read(found: Reading, expected: Values | GapKind) -> None:
    """Check the values of a reading, or the kind of its gap."""
    assert (found.kind if isinstance(found, Gap) else found) == expected


@pytest.mark.parametrize(
    ("metric", "query", "found", "expected"),
    [
        # No series of the metric is zero, whether the answer is empty or has series of others.
        *(
            (metric, query, found, expected)
            for metric, found in (
                (QUEUE, ()),
                (INGRESS, ()),
                (ORDERS, (series(5, queue="mails"),)),
                (INGRESS, (series(5, ingress="back"),)),
            )
            for query, expected in ((EMPTY_IS_ZERO, ZERO), (PLAIN, GapKind.EMPTY))
        ),
        # No sample of a pod is invented.
        (per_pod("1"), EMPTY_IS_ZERO, (), GapKind.EMPTY),
        (cpu(utilization(50)), EMPTY_IS_ZERO, (), GapKind.EMPTY),
        # NaN is zero series by series; an infinity is no number all the same.
        (QUEUE, NAN_IS_ZERO, (NAN, series(5)), Values((0, 5_000))),
        (INGRESS, NAN_IS_ZERO, (NAN,), ZERO),
        (QUEUE, NAN_IS_ZERO, (INFINITE,), GapKind.NOT_A_NUMBER),
        (QUEUE, EMPTY_IS_ZERO, (NAN,), GapKind.NOT_A_NUMBER),
        # Series without a value may be left out, but not all of them.
        (QUEUE, USE_PARTIAL, (NAN, STALE, series(6)), Values((6_000,))),
        (QUEUE, USE_PARTIAL, (NAN, STALE), GapKind.STALE),
        (QUEUE, EVERY_WORD, (STALE_NAN,), GapKind.STALE),
        (INGRESS, EVERY_WORD, (STALE_NAN,), GapKind.STALE),
    ],
)
def test_missing_data_is_zero_only_where_the_query_says_so(
    metric: MetricSpec, query: Query, found: tuple[Series, ...], expected: Values | GapKind
) -> None:
    assert_read(reading(metric, *found, query=query), expected)


@pytest.mark.parametrize("metric", [QUEUE, INGRESS])
def test_only_a_complete_answer_can_be_empty(metric: MetricSpec) -> None:
    assert_read(reading(metric, query=EVERY_WORD, warnings=PARTIAL), GapKind.PARTIAL)
    failed = read(metric, EVERY_WORD, QueryFailure("down"), "shop", (), BASE)
    assert failed == Gap(GapKind.ERROR, "down")


def test_nan_of_a_pod_is_zero_where_the_query_says_so() -> None:
    found = (series(math.nan, namespace="shop", pod="p0"), series(7, namespace="shop", pod="p1"))
    samples = instance(PodSamples, reading(per_pod("1"), *found, query=NAN_IS_ZERO)).samples
    assert {name: sample.milli for name, sample in samples.items()} == {"p0": 0, "p1": 7_000}


@pytest.mark.parametrize(
    ("metric", "only"),
    [
        (QUEUE, series(5)),
        (INGRESS, series(5, ingress="front")),
        (per_pod("1"), series(5, namespace="shop", pod="p0")),
    ],
)
def test_a_partial_reading_is_whole_if_the_query_says_so(metric: MetricSpec, only: Series) -> None:
    for query, gaps in ((USE_PARTIAL, 0), (PLAIN, 1)):
        found = reading(metric, only, query=query, warnings=PARTIAL)
        assert isinstance(found, Values | PodSamples)
        assert len(found.gaps) == gaps


@pytest.mark.parametrize(
    ("query", "answer", "expected"),
    [
        (PLAIN, QueryResult(()), GapKind.EMPTY),
        (PLAIN, QueryResult((series(4), series(5, queue="a"))), GapKind.AMBIGUOUS),
        (PLAIN, QueryResult((NAN,)), GapKind.NOT_A_NUMBER),
        (PLAIN, QueryResult((INFINITE,)), GapKind.NOT_A_NUMBER),
        (PLAIN, QueryResult((STALE,)), GapKind.STALE),
        (PLAIN, QueryResult((series(4.2),)), Values((4_200,))),
        (PLAIN, QueryFailure("down"), GapKind.ERROR),
        (EMPTY_IS_ZERO, QueryResult(()), ZERO),
        (EMPTY_IS_ZERO, QueryResult((), PARTIAL), GapKind.PARTIAL),
        (NAN_IS_ZERO, QueryResult((NAN,)), ZERO),
        (USE_PARTIAL, QueryResult((series(4),), PARTIAL), Values((4_000,))),
    ],
)
def test_a_bound_is_one_value(
    query: Query, answer: QueryResult | QueryFailure, expected: Values | GapKind
) -> None:
    assert_read(read_bound(query, answer, BASE), expected)
    partial = instance(Values, read_bound(PLAIN, QueryResult((series(4),), PARTIAL), BASE))
    assert partial.gaps


def test_a_reading_has_the_number_of_zeros_that_were_not_measured() -> None:
    for metric, query, found, nans in (
        (QUEUE, EMPTY_IS_ZERO, (), 0),
        (QUEUE, NAN_IS_ZERO, (NAN, NAN, series(5), STALE_NAN), 2),
        (INGRESS, NAN_IS_ZERO, (NAN,), 1),
        (QUEUE, NAN_IS_ZERO, (series(0),), 0),
    ):
        read_now = instance(Values, reading(metric, *found, query=query))
        assert (read_now.nans, read_now.empty) == (nans, not found)
