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
    """Read what must be a gap."""
    result = reading(metric, *found, query=query)
    assert isinstance(result, Gap), result
    return result


@pytest.mark.parametrize(
    "metric", [QUEUE, of_object(value("1")), per_pod("1"), cpu(utilization(50))]
)
def test_a_failed_query_is_an_error_with_the_servers_text(metric: MetricSpec) -> None:
    """Whatever the type of the metric."""
    answer = QueryFailure("parse error: unexpected end of input")
    assert read(metric, Query("q"), answer, "shop", pods(1), BASE) == Gap(
        GapKind.ERROR, "parse error: unexpected end of input"
    )


@pytest.mark.parametrize(
    "metric", [QUEUE, of_object(value("1")), per_pod("1"), cpu(utilization(50))]
)
def test_an_empty_answer_is_empty_and_not_zero(metric: MetricSpec) -> None:
    """Whatever the type of the metric."""
    assert gap(metric).kind is GapKind.EMPTY


def test_external_takes_all_series_that_the_selector_leaves() -> None:
    """One value each; labels of namespace or pod mean nothing."""
    found = (
        series(120, queue="orders"),
        series(7.5, queue="mails"),
        series(3, queue="orders", namespace="other"),
    )
    assert reading(ORDERS, *found) == Values((120_000, 3_000))
    assert reading(QUEUE, *found) == Values((120_000, 7_500, 3_000))


def test_a_zero_is_a_value() -> None:
    """An empty queue that says so is not a missing one."""
    assert reading(ORDERS, series(0, queue="orders")) == Values((0,))


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


@pytest.mark.parametrize(
    "metric", [QUEUE, of_object(value("1")), per_pod("1"), cpu(utilization(50))]
)
def test_warnings_make_a_reading_partial(metric: MetricSpec) -> None:
    """The values stand, and the gap carries Prometheus' own words."""
    found = series(5, ingress="front", namespace="shop", pod="p0", container="app")
    result = reading(metric, found, warnings=("store eu-1 timed out",))
    assert not isinstance(result, Gap)
    assert result.gaps == (
        Gap(
            GapKind.PARTIAL, "Prometheus warned that its answer is incomplete: store eu-1 timed out"
        ),
    )


def test_a_complete_reading_has_no_gaps() -> None:
    """Nothing hints at incompleteness where nothing is missing."""
    result = reading(per_pod("1"), series(1, namespace="shop", pod="p0"))
    assert not isinstance(result, Gap)
    assert result.gaps == ()


INGRESS = of_object(value("100"))


def test_object_matches_by_lower_case_kind_and_namespace() -> None:
    """The label is `ingress`; another object's series and another namespace's do not count."""
    found = (
        series(1, ingress="back", namespace="shop"),
        series(2, ingress="front", namespace="other"),
        series(3, ingress="front", namespace="shop"),
        series(4, Ingress="front", namespace="shop"),
    )
    assert reading(INGRESS, *found) == Values((3_000,))


def test_object_takes_a_series_without_a_namespace() -> None:
    """Where the series has no namespace label the name alone tells."""
    assert reading(INGRESS, series(3, ingress="front")) == Values((3_000,))


def test_object_takes_no_series_without_a_namespace_beside_those_that_have_one() -> None:
    """If any series has the namespace label, one without it does not count."""
    other, stray = series(7, ingress="back", namespace="shop"), series(1, ingress="front")
    assert gap(INGRESS, stray, other).kind is GapKind.EMPTY
    own = series(2, ingress="front", namespace="shop")
    assert reading(INGRESS, stray, own) == Values((2_000,))
    renamed = Query("q", labels=SeriesLabels(namespace="exported_namespace"))
    assert reading(INGRESS, stray, other, query=renamed) == Values((1_000,))


def test_object_obeys_the_metrics_selector() -> None:
    """The selector chooses among several series of the object."""
    metric = of_object(value("100"), selector=parse("code=200"))
    found = (series(3, ingress="front", code="200"), series(4, ingress="front", code="500"))
    assert reading(metric, *found) == Values((3_000,))


def test_object_with_several_series_is_ambiguous() -> None:
    """Exactly one is needed; the sentence shows two of them."""
    found = (series(3, ingress="front", code="200"), series(4, ingress="front", code="500"))
    result = gap(INGRESS, *found)
    assert result.kind is GapKind.AMBIGUOUS
    assert '{code="200", ingress="front"} and {code="500", ingress="front"}' in result.detail


def test_object_without_a_series_names_the_label() -> None:
    """The operator learns which label and value were looked for."""
    result = gap(INGRESS, series(1, ingress="back"))
    assert result == Gap(
        GapKind.EMPTY, 'none of the series is labelled ingress="front" in namespace shop'
    )


@pytest.mark.parametrize(
    ("one", "kind"),
    [
        (series(math.nan, ingress="front"), GapKind.NOT_A_NUMBER),
        (series(1, age=301.0, ingress="front"), GapKind.STALE),
    ],
)
def test_object_with_a_bad_sample_is_a_gap(one: Series, kind: GapKind) -> None:
    """There is no other value to go by."""
    assert gap(INGRESS, one).kind is kind


def test_an_object_of_kind_namespace_is_the_targets_own() -> None:
    """The core Namespace is the one the target is in, whatever name is given."""
    metric = of_object(value("1"), ScaleTargetRef("v1", "Namespace", "elsewhere"))
    found = (series(1, namespace="elsewhere"), series(2, namespace="shop"))
    assert reading(metric, *found) == Values((2_000,))
    custom = of_object(value("1"), ScaleTargetRef("example.com/v1", "Namespace", "tenant"))
    # A Namespace of another group has no special rule: neither series is about it.
    both = gap(custom, series(1, namespace="tenant"), series(2, namespace="shop"))
    assert both.kind is GapKind.EMPTY
    renamed = Query("q", labels=SeriesLabels(namespace="exported_namespace"))
    tenant = series(1, namespace="tenant", exported_namespace="shop")
    assert reading(custom, tenant, query=renamed) == Values((1_000,))


def test_label_names_come_from_the_query() -> None:
    """Where scraping renamed the namespace label, both object rules follow."""
    query = Query("q", labels=SeriesLabels(namespace="exported_namespace"))
    found = (
        series(1, ingress="front", exported_namespace="other", namespace="shop"),
        series(2, ingress="front", exported_namespace="shop", namespace="monitoring"),
    )
    assert reading(INGRESS, *found, query=query) == Values((2_000,))
    metric = of_object(value("1"), ScaleTargetRef("v1", "Namespace", "any"))
    assert reading(metric, *found, query=query) == Values((2_000,))


@pytest.mark.parametrize(
    "metric", [QUEUE, of_object(value("1")), per_pod("1"), cpu(utilization(50))]
)
def test_nothing_in_an_incomplete_answer_is_partial_not_empty(metric: MetricSpec) -> None:
    """What is not there may be in the part that is missing, and the warning is kept."""
    result = reading(metric, warnings=("store s3 is down",))
    assert isinstance(result, Gap)
    assert result.kind is GapKind.PARTIAL
    assert "store s3 is down" in result.detail


def test_a_sample_without_a_time_is_stale() -> None:
    """A timestamp of NaN is no proof of freshness."""
    assert gap(QUEUE, Series({}, 1.0, math.nan)).kind is GapKind.STALE


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
