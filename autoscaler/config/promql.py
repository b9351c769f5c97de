"""Properties of PromQL: its range, whether it is a condition, its selectors.

Each function defines its result for parts that are not understood.
"""

import math
import re
from collections.abc import Sequence

from autoscaler.config import durations
from autoscaler.config.promql_parser import (
    COMPARISONS,
    Aggregation,
    BinaryOperation,
    Call,
    Node,
    Subquery,
    UnsupportedExpression,
    VectorSelector,
    below,
    read,
    selectors_in,
)

_NUMBER = r"[0-9]{1,18}(?:\.[0-9]{1,18})?"
_DURATION = re.compile(rf"(?:{_NUMBER}(?:ms|[smhdwy]))++|{_NUMBER}")
_PART = re.compile(rf"({_NUMBER})(ms|[smhdwy])")

UNKNOWN_RANGE = 300.0
"""The seconds of a range that is not understood, and of an omitted one in MetricsQL."""
_OF_THE_LAST_SAMPLES = frozenset({"last_over_time", "irate", "idelta"})
"""Functions that use only the end of their range: samples lost before do not matter."""
_OF_A_RANGE = re.compile(
    r"(?:rate|increase|delta|deriv|changes|resets|predict_linear|holt_winters|rollup|integrate"
    r"|double_exponential_smoothing|lag|lifetime)(?:_\w+)?|\w+_over_time"
)
"""Functions of a range that may be omitted in MetricsQL."""
_NEVER_ZERO = re.compile(r"count(?:_values)?|group|absent|(?:count|absent|present)_over_time")
"""Functions whose value is never 0, whatever their arguments."""


def _seconds(text: str) -> float | None:
    """Return the seconds of a duration; None for anything else, such as arithmetic."""
    if _DURATION.fullmatch(text) is None:
        return None
    if not text[-1].isalpha():
        return float(text)
    return math.fsum(float(count) * durations.UNITS[unit] for count, unit in _PART.findall(text))


def range_of(promql: str, unknown: float = UNKNOWN_RANGE) -> float:
    """Return how many seconds before its evaluation an expression may use samples.

    0 for an instant selector: the lookback of Prometheus does not count, since a series ends with
    the first failed scrape. A subquery begins where the ranges inside begin. A range or offset that
    is not understood counts as ``unknown``.
    """
    return _range(read(promql), unknown)


def _range(node: Node, unknown: float, caller: str = "") -> float:
    inner = node.name if isinstance(node, Call) else ""
    seconds = max((_range(part, unknown, inner) for part in below(node)), default=0.0)
    match node:
        case UnsupportedExpression(is_selector=False):
            return unknown
        case Call(name, arguments):
            has_range = any(getattr(part, "range", None) is not None for part in arguments)
            if has_range or name in _OF_THE_LAST_SAMPLES or _OF_A_RANGE.fullmatch(name) is None:
                return seconds
            return seconds + unknown
        case VectorSelector(range=written, offset=offset) | Subquery(range=written, offset=offset):
            if written is not None and caller not in _OF_THE_LAST_SAMPLES:
                known = _seconds(written)
                seconds += unknown if known is None else known
            if offset:
                known = _seconds(offset.removeprefix("-"))
                seconds += unknown if known is None else known * (offset[0] != "-")
    return seconds


def is_condition(promql: str) -> bool | None:
    """Return whether the outermost operation compares, without ``bool``; None if it is unclear.

    A comparison returns the series for which it is true: ``up == 0`` those with the value 0. The
    meaning of a 0 is unclear if these are processed further, as in ``sort(up == 0)``.
    """
    return _condition(read(promql))


def _condition(node: Node) -> bool | None:
    parts = below(node)
    match node:
        case BinaryOperation(operator, is_bool=False) if operator in COMPARISONS:
            return True
        case BinaryOperation("and" | "unless"):  # The right side only selects.
            parts = parts[:1]
        case Call(name) | Aggregation(name) if _NEVER_ZERO.fullmatch(name):
            return False
        case UnsupportedExpression(is_selector=False):
            return None
    conditions = [_condition(part) for part in parts]
    match node:
        case BinaryOperation("and" | "unless"):
            return conditions[0]
        case BinaryOperation("or" | "default") | Call("union") if True in conditions:
            return True
    return False if all(condition is False for condition in conditions) else None


def selectors_of(promql: str) -> Sequence[VectorSelector]:
    """Return the different vector selectors of an expression, in their order."""
    found = dict.fromkeys(selectors_in(read(promql)))
    return tuple(selector for selector in found if selector.name or selector.matchers)
