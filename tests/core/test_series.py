"""Prometheus answers: milli-values, and the index that lets one answer serve many targets."""

import math

import pytest

from autoscaler.core.numbers import INT64_MAX, INT64_MIN
from autoscaler.core.selectors import LabelSelector, Operator, Requirement, parse
from autoscaler.core.series import QueryResult, milli_of
from tests.core.builders import series


@pytest.mark.parametrize(
    ("value", "milli"),
    [
        (1.0, 1000),
        (0.0, 0),
        (-0.0, 0),
        (0.0004, 0),
        (0.0006, 1),
        (1.2345, 1234),
        (1.2346, 1235),
        (-1.2346, -1235),
        (1e300, INT64_MAX),
        (-1e300, INT64_MIN),
        # Finite, and no longer so in milli-units.
        (1e306, INT64_MAX),
        (-1e306, INT64_MIN),
        (math.nan, None),
        (math.inf, None),
        (-math.inf, None),
    ],
)
def test_a_sample_becomes_a_milli_value(value: float, milli: int | None) -> None:
    """Rounded to the nearest, saturating; NaN and infinities are no samples."""
    assert milli_of(value) == milli


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
        (parse("queue=orders"), [1, 2]),
        (parse("queue=orders,env=prod"), [1]),
        (parse("queue=none"), []),
        (parse("queue=orders,env!=prod"), [2]),
        (LabelSelector((), (Requirement("queue", Operator.IN, ("orders", "mails")),)), [1, 2, 3]),
        (LabelSelector((), (Requirement("queue", Operator.NOT_IN, ("orders",)),)), [3, 4]),
        (LabelSelector((), (Requirement("queue", Operator.EXISTS),)), [1, 2, 3]),
        (LabelSelector((), (Requirement("queue", Operator.DOES_NOT_EXIST),)), [4]),
    ],
)
def test_selectors_filter_series(selector: LabelSelector | None, found: list[float]) -> None:
    """Every operator, here and not in the query, so that one query serves many targets."""
    for _ in range(2):  # the second time from the index
        assert [one.value for one in QUEUES.select(selector)] == found


def test_series_are_found_by_label() -> None:
    """By its exact value; an absent label is no value."""
    assert [one.value for one in QUEUES.with_label("queue", "mails")] == [3]
    assert list(QUEUES.with_label("queue", "")) == []
    assert list(QUEUES.with_label("pod", "p0")) == []


def test_the_index_is_no_part_of_the_value() -> None:
    """Two equal answers stay equal whichever was searched."""
    left, right = QueryResult((series(1, pod="a"),)), QueryResult((series(1, pod="a"),))
    left.with_label("pod", "a")
    assert left == right
    assert repr(left) == repr(right)
