"""Quantities such as ``500m`` or ``1Gi``: integers of nano-units (semantics 0, 2.8)."""

import re
from decimal import ROUND_UP, Context, Decimal

from autoscaler.core.numbers import INT64_MAX, NANO, NANO_PER_MILLI, milli_value
from autoscaler.core.text import printable

_MAX_NANO = INT64_MAX * NANO
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_FORM = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]{1,4}))?"
)
_EXACT = Context(prec=400)
_LONGEST = 400
"""The most characters; the largest number that is not saturated has 19 digits."""
_LONGEST_SHOWN = 60


def parse_quantity(text: str) -> int:
    """Parse a quantity as Kubernetes does and return it in nano-units.

    Finer digits are rounded away from zero.  Values beyond the range of int64 units saturate.
    Raises ValueError if the text is not a quantity.
    """
    form = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
    if form is None:
        raise ValueError(
            f"{printable(text, _LONGEST_SHOWN)!r} is not a Kubernetes quantity; write a number "
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


def parse_milli(text: str) -> int:
    """Parse a quantity and return it in milli-units; ValueError as `parse_quantity`."""
    return milli_value(parse_quantity(text))


def parse_fine(text: str) -> float:
    """Parse a quantity to milli-units with nano precision, an int if whole; ValueError as above."""
    nano = parse_quantity(text)
    whole, rest = divmod(nano, NANO_PER_MILLI)
    return nano / NANO_PER_MILLI if rest else whole


def format_fine(milli: float) -> str:
    """Format a result of `parse_fine` as Kubernetes' canonical quantity."""
    return _format_scaled(round(milli * NANO_PER_MILLI), 1000, tuple(_DECIMAL))


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
