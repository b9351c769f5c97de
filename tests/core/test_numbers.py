"""Numbers: saturation, truncation, odd doubles, tolerance borders (semantics 0, 6.1)."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler import quantities
from autoscaler.core import numbers
from autoscaler.core.numbers import (
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
    ceil32,
    ceil64,
    divide,
    ratio_of,
    saturate32,
    saturate64,
    trunc32,
    trunc_div,
)
from autoscaler.core.spec import Tolerance
from autoscaler.quantities import parse_quantity, tolerance_value


@pytest.mark.parametrize(
    ("saturate", "least", "most"),
    [(saturate32, INT32_MIN, INT32_MAX), (saturate64, INT64_MIN, INT64_MAX)],
)
def test_integers_saturate(saturate: Callable[[int], int], least: int, most: int) -> None:
    for number in (-7, 0, least, most):
        assert saturate(number) == number
    assert saturate(most + 1) == saturate(10**40) == most
    assert saturate(least - 1) == least


@pytest.mark.parametrize(
    ("numerator", "denominator", "quotient"),
    [
        *((7, 2, 3), (-7, 2, -3), (7, -2, -3), (-7, -2, 3), (6, 3, 2), (-6, 3, -2), (0, -5, 0)),
        # Exact above doubles.
        (INT64_MAX, 3, 3074457345618258602),
    ],
)
def test_division_truncates_toward_zero(numerator: int, denominator: int, quotient: int) -> None:
    """Go's `/` on integers, where Python's `//` would floor."""
    assert trunc_div(numerator, denominator) == quotient


def test_ratio_converts_before_it_divides() -> None:
    """Two int64 become doubles first; Python's own int / int gives another double here."""
    numerator, denominator = 2**54 + 3, 2**54 + 1
    assert ratio_of(numerator, denominator) == float(numerator) / float(denominator)
    assert ratio_of(numerator, denominator) != numerator / denominator


def test_division_by_zero_is_an_infinity_or_not_a_number() -> None:
    for numerator, quotient in ((5.0, math.inf), (-5.0, -math.inf), (math.inf, math.inf)):
        assert divide(numerator, 0.0) == quotient
    assert math.isnan(divide(0.0, 0.0))
    assert math.isnan(divide(math.nan, 0.0))


@pytest.mark.parametrize(
    ("convert", "given", "rounded"),
    [
        (ceil32, 1.0, 1),
        (ceil32, 1.0000000000000002, 2),
        (ceil32, -0.5, 0),
        (ceil32, -1.5, -1),
        (ceil32, 2147483646.5, INT32_MAX),
        (ceil32, 2147483647.5, INT32_MAX),
        (ceil32, -2147483648.0, INT32_MIN),
        (trunc32, 0.9999999999999998, 0),
        (trunc32, -1.9, -1),
        (trunc32, 2147483647.9, INT32_MAX),
        (trunc32, -2147483649.0, INT32_MIN),
        (ceil64, 0.1, 1),
        (ceil64, -0.1, 0),
        (ceil64, 9223372036854774784.0, 9223372036854774784),
        (ceil64, 9223372036854775808.0, INT64_MAX),
        (ceil64, -9223372036854775808.0, INT64_MIN),
    ],
)
def test_doubles_become_integers(
    convert: Callable[[float], int], given: float, rounded: int
) -> None:
    assert convert(given) == rounded
    least, most = (INT64_MIN, INT64_MAX) if convert is ceil64 else (INT32_MIN, INT32_MAX)
    ends = [convert(odd) for odd in (1e300, -1e300, math.inf, -math.inf, math.nan)]
    assert ends == [most, least, most, least, 0]


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
def test_tolerance_borders(down: str, up: str, ratio: float, covered: bool) -> None:
    tolerance = Tolerance(
        tolerance_value(parse_quantity(down)), tolerance_value(parse_quantity(up))
    )
    assert tolerance.covers(ratio) is covered
    for odd in (math.nan, math.inf, -math.inf):
        assert not tolerance.covers(odd)
        assert not Tolerance(1e9, 1e9).covers(odd)


# -- quantities are read, rounded and written exactly as Kubernetes does ---------------------------


MILLI = """
15=15000 0=0 +3=3000 -2=-2000 500m=500 1.5=1500 .5=500 5.=5000 1k=1000000 1M=1000000000
1Ki=1024000 0.5Gi=536870912000 1Mi=1048576000 2e3=2000000 2E3=2000000 1e-3=1 489151208n=490 1n=1
1500u=2 -1500u=-2 0.0005=1 -1n=-1
"""


@pytest.mark.parametrize(("text", "milli"), [row.split("=") for row in MILLI.split()])
def test_a_quantity_has_milli_units(text: str, milli: str) -> None:
    assert quantities.parse_milli(text) == int(milli)


@pytest.mark.parametrize("text", ["1E", "10P", "1Ei", "10000000000000000", "9e4000", "9" * 40])
def test_milli_units_saturate(text: str) -> None:
    """What int64 cannot hold in milli-units is the largest number, never 0 and never negative."""
    assert quantities.parse_milli(text) == INT64_MAX
    assert quantities.parse_milli(f"-{text}") < -INT64_MAX + 1


def test_finer_than_nano_is_rounded_away_from_zero() -> None:
    assert quantities.parse_quantity("0.0000000001") == 1
    assert quantities.parse_quantity("-0.1n") == -1
    assert quantities.parse_quantity("1e-300") == 1


WRONG = "1.5Gb 1kb 1K 1ki one 0x10 1_000 1,5 --1 +-1 . 1e 1e1.5 1mm NaN inf 1Gi2 \u00b2 \u0663"


@pytest.mark.parametrize("text", ["", " 1", "1 ", "1\n", "1 Gi", *WRONG.split()])
def test_a_text_that_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Kubernetes quantity"):
        quantities.parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "double"),
    [
        *(("0.1", 0.1), ("100m", 0.1), ("2", 2.0), ("1.5", 1.5), ("0", 0.0)),
        *(("13m", 0.013000000000000001), ("0.013", 0.013000000000000001)),
        *(("500u", 500 * 1e-6), ("0.0005", 500 * 1e-6), ("7n", 7 * 1e-9)),
    ],
)
def test_tolerance_goes_through_the_canonical_mantissa(text: str, double: float) -> None:
    """A tolerance is mantissa times a power of 1000, which is not always the literal's double."""
    assert tolerance_value(parse_quantity(text)) == double


def test_144_of_999_tolerances_differ_from_their_literals() -> None:
    literals = [f"0.{number:03}" for number in range(1, 1000)]
    values = (tolerance_value(parse_quantity(literal)) for literal in literals)
    assert sum(value != float(text) for value, text in zip(values, literals, strict=True)) == 144


WRITTEN = """
1024000=1Ki 1000000=1k 1536000=1536 1048576001=1048576001m 1048576000=1Mi 123456789000=123456789
1500=1500m 0=0
"""
DECIMAL = "1000=1 1500=1500m 12000000=12k 0=0 -2000=-2"


def test_reported_values_have_the_canonical_form() -> None:
    for texts, binary in ((WRITTEN, True), (DECIMAL, False)):
        for milli, text in (row.split("=") for row in texts.split()):
            assert quantities.format_milli(int(milli), binary=binary) == text


@given(st.integers(-(2**62), 2**62), st.booleans())
def test_format_round_trip(milli: int, binary: bool) -> None:
    assert quantities.parse_milli(quantities.format_milli(milli, binary=binary)) == milli


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
def test_fine_quantities_are_written_as_they_were_read(
    text: str, milli: float, units: float, shown: str
) -> None:
    assert quantities.parse_fine(text) == milli
    assert numbers.in_units(milli) == units
    assert quantities.format_fine(milli) == shown
