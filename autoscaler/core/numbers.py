"""Numbers: 64-bit milli-units, 32-bit replica counts, doubles for ratios (semantics 0, 6.1).

Where Kubernetes v1.37 wraps around on overflow, they saturate (kubernetes/kubernetes#141397).
Quantities such as ``500m`` or ``1Gi`` are integers of nano-units (semantics 0, 2.8).
"""

import math
import re
from decimal import ROUND_UP, Context, Decimal

from autoscaler.core.text import printable

INT32_MAX = 2**31 - 1
INT32_MIN = -(2**31)
INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)


def saturate64(value: int) -> int:
    """Clamp an integer to the range of int64."""
    if INT64_MIN <= value <= INT64_MAX:
        return value
    return INT64_MAX if value > 0 else INT64_MIN


def saturate32(value: int) -> int:
    """Clamp an integer to the range of int32."""
    if INT32_MIN <= value <= INT32_MAX:
        return value
    return INT32_MAX if value > 0 else INT32_MIN


def trunc_div(numerator: int, denominator: int) -> int:
    """Divide integers as Go does: the quotient is truncated toward zero."""
    quotient = abs(numerator) // abs(denominator)
    return quotient if (numerator < 0) == (denominator < 0) else -quotient


def ratio_of(numerator: int, denominator: int) -> float:
    """Divide two int64 as doubles, as the controller does: ``int / int`` differs above 2**53."""
    return divide(float(numerator), float(denominator))


def divide(numerator: float, denominator: float) -> float:
    """Divide doubles as IEEE 754 defines it: x/0 is an infinity, 0/0 is NaN."""
    if denominator != 0.0:
        return numerator / denominator
    if numerator == 0.0 or math.isnan(numerator):
        return math.nan
    return math.copysign(math.inf, numerator)


def ceil32(value: float) -> int:
    """Round a double up to an int32.  NaN becomes 0."""
    if -2147483648.0 <= value <= 2147483647.0:
        return math.ceil(value)
    return _out_of_range(value, INT32_MIN, INT32_MAX)


def trunc32(value: float) -> int:
    """Truncate a double toward zero to an int32.  NaN becomes 0."""
    if -2147483648.0 <= value <= 2147483647.0:
        return int(value)
    return _out_of_range(value, INT32_MIN, INT32_MAX)


def ceil64(value: float) -> int:
    """Round a double up to an int64.  NaN becomes 0."""
    if -9.223372036854775e18 <= value <= 9.223372036854775e18:
        return math.ceil(value)
    return _out_of_range(value, INT64_MIN, INT64_MAX)


def _out_of_range(value: float, low: int, high: int) -> int:
    if math.isnan(value):
        return 0
    return high if value > 0 else low


# -- quantities ----------------------------------------------------------------------------------

NANO = 10**9
_NANO_PER_MILLI = 10**6
_MAX_NANO = INT64_MAX * NANO
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_FORM = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]{1,4}))?"
)
_EXACT = Context(prec=400)
_LONGEST = 400
"""Characters; the largest number that is not saturated has 19 digits."""
_LONGEST_SHOWN = 60


def parse_quantity(text: str) -> int:
    """Parse a quantity as Kubernetes does and return it in nano-units.

    Finer digits are rounded away from zero.  Values beyond the range of int64 units saturate.
    Raises ValueError if the text is not a quantity.
    """
    form = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
    if form is None:
        raise ValueError(
            f"{printable(text, _LONGEST_SHOWN)!r} is not a Kubernetes quantity; right are a number "
            "with an optional suffix (n u m k M G T P E, Ki Mi Gi Ti Pi Ei) or exponent, such as "
            "500m, 1.5, 1Gi or 2e3"
        )
    number, suffix = Decimal(form["number"]), form["suffix"] or ""
    if suffix in _BINARY:
        nano = _EXACT.multiply(number, Decimal(_BINARY[suffix] * NANO))
    else:
        exponent = int(form["exponent"]) if form["exponent"] else _DECIMAL[suffix]
        nano = number.scaleb(min(max(exponent, -300), 300) + 9, context=_EXACT)
    away_from_zero = int(nano.to_integral_value(rounding=ROUND_UP))
    return max(-_MAX_NANO, min(_MAX_NANO, away_from_zero))


def milli_value(nano: int) -> int:
    """Convert nano-units to int64 milli-units, rounding away from zero (`MilliValue`)."""
    return saturate64(-(-nano // _NANO_PER_MILLI) if nano >= 0 else nano // _NANO_PER_MILLI)


def parse_milli(text: str) -> int:
    """Parse a quantity and return it in milli-units; ValueError as `parse_quantity`."""
    return milli_value(parse_quantity(text))


def parse_fine(text: str) -> float:
    """Parse a quantity to milli-units of nano-units, an int if whole; ValueError as above."""
    nano = parse_quantity(text)
    whole, rest = divmod(nano, _NANO_PER_MILLI)
    return nano / _NANO_PER_MILLI if rest else whole


def in_units(milli: float) -> float:
    """Convert what `parse_fine` gives to units: the double nearest to what was written."""
    return round(milli * _NANO_PER_MILLI) / NANO if milli else 0.0


def format_fine(milli: float) -> str:
    """Format what `parse_fine` gives as Kubernetes' canonical quantity."""
    return _format_scaled(round(milli * _NANO_PER_MILLI), 1000, tuple(_DECIMAL))


def tolerance_value(nano: int) -> float:
    """Convert a tolerance in nano-units to the double that the controller computes with.

    The API server stores the canonical form, so the double is the mantissa times a power of
    1000 and not the double nearest to the decimal literal: 13m is 0.013000000000000001.
    """
    for exponent, unit, factor in ((0, NANO, 1.0), (-3, 10**6, 1e-3), (-6, 10**3, 1e-6)):
        if nano % unit == 0:
            mantissa = float(nano // unit)
            return mantissa if exponent == 0 else mantissa * factor
    return float(nano) * 1e-9


def format_milli(milli: int, *, binary: bool = False) -> str:
    """Format milli-units as Kubernetes' canonical quantity; ``binary`` from 1024 whole units on."""
    if binary and milli % 1000 == 0 and abs(milli) >= 1024 * 1000:
        return _format_scaled(milli // 1000, 1024, ("", *_BINARY))
    return _format_scaled(milli, 1000, tuple(_DECIMAL)[2:])


def _format_scaled(value: int, step: int, suffixes: tuple[str, ...]) -> str:
    if value == 0:
        return "0"
    index = 0
    while value % step == 0 and index < len(suffixes) - 1:
        value, index = value // step, index + 1
    return f"{value}{suffixes[index]}"
