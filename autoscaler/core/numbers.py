"""Numbers: 64-bit milli-units, 32-bit replica counts, doubles for ratios (semantics 0, 6.1).

Where Kubernetes v1.37 wraps around on overflow, they saturate (kubernetes/kubernetes#141397).
"""

import math

INT32_MAX = 2**31 - 1
INT32_MIN = -(2**31)
INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)
NANO = 10**9
NANO_PER_MILLI = 10**6


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


def milli_value(nano: int) -> int:
    """Convert nano-units to int64 milli-units, rounding away from zero (`MilliValue`)."""
    return saturate64(-(-nano // NANO_PER_MILLI) if nano >= 0 else nano // NANO_PER_MILLI)


def in_units(milli: float) -> float:
    """Convert milli-units, or parts of them, to units, as the nearest double."""
    return round(milli * NANO_PER_MILLI) / NANO if milli else 0.0
