"""Numbers: saturation, truncation, odd doubles, tolerance borders (semantics 0, 6.1)."""

import math

import pytest

from autoscaler.core.numbers import (
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
    Tolerance,
    ceil32,
    ceil64,
    divide,
    ratio_of,
    saturate32,
    saturate64,
    trunc32,
    trunc_div,
)
from autoscaler.core.quantity import parse, tolerance_value


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (0, 0),
        (INT64_MAX, INT64_MAX),
        (INT64_MAX + 1, INT64_MAX),
        (INT64_MIN, INT64_MIN),
        (INT64_MIN - 1, INT64_MIN),
        (10**40, INT64_MAX),
    ],
)
def test_int64_saturates(given: int, kept: int) -> None:
    """Beyond int64 an integer stays at the nearest end; inside it is untouched."""
    assert saturate64(given) == kept


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (-7, -7),
        (INT32_MAX, INT32_MAX),
        (INT32_MAX + 1, INT32_MAX),
        (INT32_MIN, INT32_MIN),
        (INT32_MIN - 1, INT32_MIN),
    ],
)
def test_int32_saturates(given: int, kept: int) -> None:
    """Beyond int32 an integer stays at the nearest end; inside it is untouched."""
    assert saturate32(given) == kept


@pytest.mark.parametrize(
    ("numerator", "denominator", "quotient"),
    [(7, 2, 3), (-7, 2, -3), (7, -2, -3), (-7, -2, 3), (6, 3, 2), (-6, 3, -2), (0, -5, 0)],
)
def test_integer_division_truncates_toward_zero(
    numerator: int, denominator: int, quotient: int
) -> None:
    """Go's `/` on integers, where Python's `//` would floor."""
    assert trunc_div(numerator, denominator) == quotient


def test_integer_division_is_exact_above_doubles() -> None:
    """Nothing passes through a double on the way."""
    assert trunc_div(INT64_MAX, 3) == 3074457345618258602


def test_ratio_converts_before_it_divides() -> None:
    """Two int64 become doubles first; Python's own int / int gives another double here."""
    numerator, denominator = 2**54 + 3, 2**54 + 1
    assert ratio_of(numerator, denominator) == float(numerator) / float(denominator)
    assert ratio_of(numerator, denominator) != numerator / denominator


@pytest.mark.parametrize(
    ("numerator", "quotient"), [(5.0, math.inf), (-5.0, -math.inf), (math.inf, math.inf)]
)
def test_division_by_zero_is_an_infinity(numerator: float, quotient: float) -> None:
    """As IEEE 754 says, with the sign of the numerator."""
    assert divide(numerator, 0.0) == quotient


def test_zero_by_zero_is_not_a_number() -> None:
    """0/0 and NaN/0 are NaN, and no exception."""
    assert math.isnan(divide(0.0, 0.0))
    assert math.isnan(divide(math.nan, 0.0))


@pytest.mark.parametrize(
    ("given", "rounded"),
    [
        (1.0, 1),
        (1.0000000000000002, 2),
        (0.0001, 1),
        (-0.5, 0),
        (-1.5, -1),
        (2147483646.5, INT32_MAX),
        (2147483647.0, INT32_MAX),
        (2147483647.5, INT32_MAX),
        (-2147483648.0, INT32_MIN),
        (-2147483648.5, INT32_MIN),
        (1e300, INT32_MAX),
        (-1e300, INT32_MIN),
        (math.inf, INT32_MAX),
        (-math.inf, INT32_MIN),
        (math.nan, 0),
    ],
)
def test_ceil32(given: float, rounded: int) -> None:
    """Rounds up; beyond int32 it saturates, where Kubernetes 1.36 wraps on amd64; NaN is 0."""
    assert ceil32(given) == rounded


@pytest.mark.parametrize(
    ("given", "rounded"),
    [
        (0.9999999999999998, 0),
        (-1.9, -1),
        (4.0, 4),
        (2147483647.9, INT32_MAX),
        (-2147483649.0, INT32_MIN),
        (math.inf, INT32_MAX),
        (-math.inf, INT32_MIN),
        (math.nan, 0),
    ],
)
def test_trunc32(given: float, rounded: int) -> None:
    """Truncates toward zero; saturates; NaN is 0."""
    assert trunc32(given) == rounded


@pytest.mark.parametrize(
    ("given", "rounded"),
    [
        (0.1, 1),
        (-0.1, 0),
        (9223372036854774784.0, 9223372036854774784),
        (9223372036854775808.0, INT64_MAX),
        (-9223372036854775808.0, INT64_MIN),
        (math.inf, INT64_MAX),
        (-math.inf, INT64_MIN),
        (math.nan, 0),
    ],
)
def test_ceil64(given: float, rounded: int) -> None:
    """Rounds up; saturates just where a double leaves int64; NaN is 0."""
    assert ceil64(given) == rounded


@pytest.mark.parametrize(
    ("down", "up", "ratio", "covered"),
    [
        ("100m", "100m", 110 / 100, True),
        ("100m", "100m", 90 / 100, True),
        ("100m", "100m", math.nextafter(1.1, 2), False),
        ("100m", "100m", math.nextafter(0.9, 0), False),
        # The double 1.0 - 0.18 lies just above 82/100, and 1.0 + 0.36 just below 136/100.
        ("180m", "100m", 82 / 100, False),
        ("100m", "360m", 136 / 100, False),
        ("0", "0", 1.0, True),
        ("0", "0", 1.01, False),
        ("0", "0", 0.99, False),
        # Each direction has its own.
        ("500m", "0", 0.5, True),
        ("500m", "0", 1.0000001, False),
        ("0", "500m", 1.5, True),
        ("0", "500m", 0.999, False),
        ("2", "100m", -1.0, True),
    ],
)
def test_tolerance_borders(down: str, up: str, ratio: float, covered: bool) -> None:  # noqa: FBT001
    """Both borders are inside, computed as 1.0 - down and 1.0 + up in doubles."""
    tolerance = Tolerance(tolerance_value(parse(down)), tolerance_value(parse(up)))
    assert tolerance.covers(ratio) is covered


@pytest.mark.parametrize("ratio", [math.nan, math.inf, -math.inf])
def test_odd_ratios_are_never_tolerated(ratio: float) -> None:
    """NaN and the infinities are outside any tolerance."""
    assert not Tolerance(1e9, 1e9).covers(ratio)
