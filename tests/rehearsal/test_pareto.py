"""The Pareto front of candidates with three objectives."""

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.lab.engine.tuning import dominates, front

Point = tuple[float, ...]
_POINTS = st.lists(st.tuples(*[st.integers(0, 6).map(float)] * 3), max_size=40)


def itself(point: Point) -> Point:
    return point


def test_a_table_of_points() -> None:
    """Worse in one and better in none is dominated; of equal ones the first stays."""
    points = {"cheap": (9.0, 1.0), "fair": (4.0, 4.0), "dear": (1.0, 9.0), "worse": (4.0, 5.0)}
    points["same"] = points["fair"]
    assert front(points, points.__getitem__) == ["cheap", "fair", "dear"]
    assert front([], itself) == []


@given(_POINTS)
def test_none_of_the_front_is_dominated(points: list[Point]) -> None:
    """By any candidate, on the front or not."""
    for one in front(points, itself):
        assert not any(dominates(other, one) for other in points)


@given(_POINTS)
def test_what_is_left_out_is_dominated_by_the_front_or_equal(points: list[Point]) -> None:
    """So nothing is lost that somebody might prefer."""
    found = front(points, itself)
    for one in points:
        assert one in found or any(dominates(other, one) for other in found)


@given(_POINTS)
def test_a_front_of_a_front_is_the_same(points: list[Point]) -> None:
    """And it does not depend on the order of the candidates."""
    found = front(points, itself)
    assert front(found, itself) == found
    assert sorted(front(reversed(points), itself)) == sorted(found)
