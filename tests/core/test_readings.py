"""From series to readings of External and Object metrics, and failed queries (semantics 2.1)."""

import math

import pytest

from autoscaler.core.numbers import INT64_MAX
from autoscaler.core.observation import Gap, GapKind, Reading, Values
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
    result = reading(metric, *found, query=query)
    assert isinstance(result, Gap), result
    return result


INGRESS = of_object(value("100"))


@pytest.mark.parametrize("metric", [QUEUE, INGRESS, per_pod("1"), cpu(utilization(50))])
def test_an_answer_that_fails_is_empty_or_incomplete(metric: MetricSpec) -> None:
    """Whatever the type of the metric: an empty one is not zero, nor whole beside a warning."""
    failed = read(metric, Query("q"), QueryFailure("parse error"), "shop", pods(1), BASE)
    assert failed == Gap(GapKind.ERROR, "parse error")
    assert gap(metric).kind is GapKind.EMPTY
    nothing = reading(metric, warnings=("store s3 is down",))
    assert isinstance(nothing, Gap)
    assert (nothing.kind, "store s3 is down" in nothing.detail) == (GapKind.PARTIAL, True)
    found = series(5, ingress="front", namespace="shop", pod="p0", container="app")
    warned = "Prometheus warned that its answer is incomplete: store eu-1 timed out"
    for warnings, gaps in (((), ()), (("store eu-1 timed out",), (warned,))):
        whole = reading(metric, found, warnings=warnings)
        assert not isinstance(whole, Gap)
        assert whole.gaps == tuple(Gap(GapKind.PARTIAL, one) for one in gaps)


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


def test_external_without_a_matching_series_says_how_many_there_were() -> None:
    """The sentence tells a wrong selector from an empty answer."""
    other = gap(ORDERS, series(1, queue="mails"), series(2, queue="bills"))
    assert other == Gap(GapKind.EMPTY, "none of the series matches the selector")
    assert gap(ORDERS) == Gap(GapKind.EMPTY, "the query returned no series")


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_external_leaves_out_what_is_no_number_and_remembers_it(odd: float) -> None:
    """Beside good values it is a gap of the whole; alone it is the reading's gap."""
    mixed = reading(QUEUE, series(5, queue="a"), series(odd, queue="b"))
    assert isinstance(mixed, Values)
    assert mixed.values == (5_000,)
    assert [(one.kind, one.detail) for one in mixed.gaps] == [
        (GapKind.NOT_A_NUMBER, f'{{queue="b"}} is {odd}, not a number')
    ]
    assert gap(QUEUE, series(odd, queue="b")).kind is GapKind.NOT_A_NUMBER


def test_external_leaves_out_what_is_too_old_and_remembers_it() -> None:
    """A sample exactly as old as permitted still counts."""
    query = Query("q", max_age=300.0)
    assert reading(QUEUE, series(5, age=300.0), query=query) == Values((5_000,))
    old = gap(QUEUE, series(5, age=300.25, queue="a"), query=query)
    sampled = "was sampled at 2025-12-31T23:54:59Z, and is older than 300 s (maxAge)"
    assert old == Gap(GapKind.STALE, f'{{queue="a"}} {sampled}')
    mixed = reading(QUEUE, series(5, age=301.0), series(6), query=query)
    assert isinstance(mixed, Values)
    assert (mixed.values, [one.kind for one in mixed.gaps]) == ((6_000,), [GapKind.STALE])
    assert gap(QUEUE, Series({}, 1.0, math.nan)).kind is GapKind.STALE, "it has no time"


def test_external_tells_of_a_few_series_without_a_value_and_counts_the_others() -> None:
    """Whoever writes series does not choose how much is told and kept of them."""
    odd = [series(math.nan, queue=f"q{number:02}") for number in range(100)]
    mixed = reading(QUEUE, series(5), *odd)
    assert isinstance(mixed, Values)
    assert [one.detail for one in mixed.gaps[-2:]] == [
        '{queue="q09"} is nan, not a number',
        "nor do 90 more series have a value that counts",
    ]
    assert len(mixed.gaps) == 11


def test_the_labels_of_a_series_are_short_and_printable() -> None:
    """Twenty labels, names of 100 and values of 200 characters, and 600 of all of them."""

    def told(labels: dict[str, str]) -> str:
        return gap(QUEUE, Series(labels, math.nan, BASE)).detail.removesuffix(
            " is nan, not a number"
        )

    many = told({f"l{number:02}": "\x1b" for number in range(25)})
    assert many.startswith('{l00="\\x1b", l01=')
    assert many.endswith('l19="\\x1b", and 5 more}')
    assert told({"n" * 1000: "v" * 1000}) == f'{{{"n" * 99}…="{"v" * 199}…"}}'
    assert len(told({f"l{number}": "v" * 200 for number in range(9)})) == 600


RENAMED = Query("q", labels=SeriesLabels(namespace="exported_namespace"))
OTHER, STRAY = series(7, ingress="back", namespace="shop"), series(1, ingress="front")
BY_CODE = (series(3, ingress="front", code="200"), series(4, ingress="front", code="500"))
OF_A_FRONT = {
    "the label is the kind in lower case, and the namespace is its own": (
        (
            OTHER,
            series(2, ingress="front", namespace="other"),
            series(3, ingress="front", namespace="shop"),
            series(4, Ingress="front", namespace="shop"),
        ),
        3_000,
    ),
    "the name alone tells where no series has a namespace": ((series(3, ingress="front"),), 3_000),
    "one without a namespace counts beside none that has one": ((STRAY, OTHER), GapKind.EMPTY),
    "nor beside its own": ((STRAY, series(2, ingress="front", namespace="shop")), 2_000),
    "several are ambiguous": (BY_CODE, GapKind.AMBIGUOUS),
    "NaN is no number": ((series(math.nan, ingress="front"),), GapKind.NOT_A_NUMBER),
    "an old sample is stale": ((series(1, age=301.0, ingress="front"),), GapKind.STALE),
    "it is another object's": ((OTHER,), GapKind.EMPTY),
}


@pytest.mark.parametrize(("found", "expected"), OF_A_FRONT.values(), ids=OF_A_FRONT)
def test_object_needs_exactly_one_series(
    found: tuple[Series, ...], expected: int | GapKind
) -> None:
    """That of the object, by the label of its kind."""
    if isinstance(expected, GapKind):
        assert gap(INGRESS, *found).kind is expected
    else:
        assert reading(INGRESS, *found) == Values((expected,))


def test_object_says_what_it_looked_for_and_obeys_the_metrics_selector() -> None:
    """The sentences show the label and its value, or two of several series."""
    assert gap(INGRESS, OTHER).detail == (
        'none of the series is labelled ingress="front" in namespace shop'
    )
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
    for one in (INGRESS, metric):
        assert reading(one, *found, query=RENAMED) == Values((2_000,))


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
    answer = QueryResult(tuple(series(one, pod=str(n)) for n, one in enumerate(samples)))
    reading = read(external(average("10")), Query("q"), answer, "shop", (), BASE)
    assert isinstance(reading, Values)
    assert (reading.values, reading.total) == (milli, total)
    if len(samples) == 1:
        bound = read_bound(Query("q"), answer, BASE)
        assert isinstance(bound, Values)
        assert bound.total == total
