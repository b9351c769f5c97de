"""Numbers: saturation, truncation, odd doubles, tolerance borders (semantics 0, 6.1)."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core import numbers
from autoscaler.core.numbers import (
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
    ceil32,
    ceil64,
    divide,
    parse_quantity,
    ratio_of,
    saturate32,
    saturate64,
    tolerance_value,
    trunc32,
    trunc_div,
)
from autoscaler.core.spec import Tolerance


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
    """Rounds up; beyond int32 it saturates, where Kubernetes 1.37 wraps on amd64; NaN is 0."""
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
    tolerance = Tolerance(
        tolerance_value(parse_quantity(down)), tolerance_value(parse_quantity(up))
    )
    assert tolerance.covers(ratio) is covered


@pytest.mark.parametrize("ratio", [math.nan, math.inf, -math.inf])
def test_odd_ratios_are_never_tolerated(ratio: float) -> None:
    """NaN and the infinities are outside any tolerance."""
    assert not Tolerance(1e9, 1e9).covers(ratio)


# -- quantities are read, rounded and written exactly as Kubernetes does ---------------------------


MILLI = [
    ("15", 15_000),
    ("0", 0),
    ("+3", 3000),
    ("-2", -2000),
    ("500m", 500),
    ("1.5", 1500),
    (".5", 500),
    ("5.", 5000),
    ("1k", 10**6),
    ("1M", 10**9),
    ("1Ki", 1_024_000),
    ("0.5Gi", 536_870_912_000),
    ("1Mi", 1_048_576_000),
    ("2e3", 2_000_000),
    ("2E3", 2_000_000),
    ("1e-3", 1),
    ("489151208n", 490),
    ("1n", 1),
    ("1500u", 2),
    ("-1500u", -2),
    ("0.0005", 1),
    ("-1n", -1),
]


@pytest.mark.parametrize(("text", "milli"), MILLI)
def test_milli(text: str, milli: int) -> None:
    """A quantity becomes milli-units, rounded away from zero."""
    assert numbers.parse_milli(text) == milli


def test_milli_is_rounded_per_container() -> None:
    """Two containers' cpu are each rounded before they are summed: 490 + 1, not 490."""
    assert sum(numbers.parse_milli(text) for text in ("489151208n", "1n")) == 491


@pytest.mark.parametrize("text", ["1E", "10P", "1Ei", "10000000000000000", "9e4000", "9" * 40])
def test_milli_saturates(text: str) -> None:
    """What int64 cannot hold in milli-units is the largest number, never 0 and never negative."""
    assert numbers.parse_milli(text) == INT64_MAX
    assert numbers.parse_milli(f"-{text}") < -INT64_MAX + 1


def test_finer_than_nano_is_rounded_away_from_zero() -> None:
    """A tenth of a nano-unit counts as one, in either direction."""
    assert numbers.parse_quantity("0.0000000001") == 1
    assert numbers.parse_quantity("-0.1n") == -1
    assert numbers.parse_quantity("1e-300") == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        "1\n",
        "1.5Gb",
        "1kb",
        "1K",
        "1ki",
        "1 Gi",
        "one",
        "0x10",
        "1_000",
        "1,5",
        "--1",
        "+-1",
        ".",
        "1e",
        "1e1.5",
        "1mm",
        "NaN",
        "inf",
        "1Gi2",
        "²",
        "٣",
    ],
)
def test_not_a_quantity(text: str) -> None:
    """What Kubernetes refuses is refused, with the forms that would be right."""
    with pytest.raises(ValueError, match="is not a Kubernetes quantity; right are"):
        numbers.parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "double"),
    [
        ("0.1", 0.1),
        ("100m", 0.1),
        ("13m", 0.013000000000000001),
        ("0.013", 0.013000000000000001),
        ("2", 2.0),
        ("1.5", 1.5),
        ("0", 0.0),
        ("500u", 500 * 1e-6),
        ("0.0005", 500 * 1e-6),
        ("7n", 7 * 1e-9),
    ],
)
def test_tolerance_goes_through_the_canonical_mantissa(text: str, double: float) -> None:
    """A tolerance is mantissa times a power of 1000, which is not always the literal's double."""
    assert numbers.tolerance_value(numbers.parse_quantity(text)) == double


def test_tolerances_that_differ_from_their_literals() -> None:
    """Of 0.001 to 0.999, the controller sees another double than the literal's for 144."""
    literals = [f"0.{number:03}" for number in range(1, 1000)]
    values = [numbers.tolerance_value(numbers.parse_quantity(literal)) for literal in literals]
    assert sum(value != float(text) for value, text in zip(values, literals, strict=True)) == 144


@pytest.mark.parametrize(
    ("milli", "binary", "text"),
    [
        (1_024_000, True, "1Ki"),
        (1_000_000, True, "1k"),
        (1_536_000, True, "1536"),
        (1_048_576_001, True, "1048576001m"),
        (1_048_576_000, True, "1Mi"),
        (123_456_789_000, True, "123456789"),
        (1500, True, "1500m"),
        (1000, False, "1"),
        (1500, False, "1500m"),
        (12_000_000, False, "12k"),
        (0, False, "0"),
        (0, True, "0"),
        (-2000, False, "-2"),
    ],
)
def test_status_format(milli: int, binary: bool, text: str) -> None:  # noqa: FBT001 - a table
    """Reported values have Kubernetes' canonical form; memory counts in powers of 1024."""
    assert numbers.format_milli(milli, binary=binary) == text


@given(st.integers(-(2**62), 2**62), st.booleans())
def test_format_round_trip(milli: int, binary: bool) -> None:  # noqa: FBT001 - given
    """A formatted value reads back as itself."""
    assert numbers.parse_milli(numbers.format_milli(milli, binary=binary)) == milli


@pytest.mark.parametrize(
    ("text", "milli", "units", "shown"),
    [
        ("5", 5000, 5.0, "5"),
        ("0", 0, 0.0, "0"),
        ("0.0005", 0.5, 0.0005, "500u"),
        ("0.1234567", 123.4567, 0.1234567, "123456700n"),
        ("1n", 1e-06, 1e-09, "1n"),
        ("-0.07", -70, -0.07, "-70m"),
        ("9223372036854775807m", 9223372036854775807, 9.223372036854776e15, "9223372036854775807m"),
    ],
)
def test_fine_quantities_come_back_as_they_were_written(
    text: str, milli: float, units: float, shown: str
) -> None:
    """In units the double is the one that the text stands for."""
    assert numbers.parse_fine(text) == milli
    assert numbers.in_units(milli) == units
    assert numbers.format_fine(milli) == shown
