"""Restricts PromQL to the series of one namespace, as prom-label-proxy does.

This is a border between teams: whatever this module and the parser of a Prometheus server could
read differently is refused.
"""

import re
from collections.abc import Sequence
from typing import TypeAlias

from autoscaler.config.promql_parser import (
    AGGREGATIONS,
    LONGEST,
    Aggregation,
    Call,
    Matcher,
    Node,
    UnsupportedExpression,
    VectorSelector,
    nodes_of,
    parse,
    quoted,
    selectors_in,
    tokens_of,
    with_insertions,
)

Matchers: TypeAlias = Sequence[tuple[str, str]]
"""Labels with the values that every series must have."""

_OVER_TIME = "avg min max sum count quantile stddev stdvar last first present absent mad"
_LISTED = """
abs absent ceil changes clamp clamp_max clamp_min day_of_month day_of_week day_of_year
days_in_month delta deriv double_exponential_smoothing exp floor histogram_avg histogram_count
histogram_fraction histogram_quantile histogram_stddev histogram_stdvar histogram_sum holt_winters
hour idelta increase irate label_join label_replace ln log10 log2 minute month pi predict_linear
rate resets round scalar sgn sort sort_by_label sort_by_label_desc sort_desc sqrt time timestamp
ts_of_first_over_time ts_of_last_over_time ts_of_max_over_time ts_of_min_over_time vector year
acos acosh asin asinh atan atanh cos cosh deg rad sin sinh tan tanh
"""
_FUNCTIONS = {*_LISTED.split(), *(f"{name}_over_time" for name in _OVER_TIME.split())}
"""The functions of Prometheus, without `info`, which selects series that the expression does not
name."""

_BLANK = re.compile(r"[ \t\n]+")
_DURATION = r"(?:[0-9]++(?:ms|[smhdwy]))++"
_BRACKETS = re.compile(rf"\[\s*+{_DURATION}\s*+(?::\s*+(?:{_DURATION}\s*+)?+)?+\]")
_MODIFIER = re.compile(
    rf"\s*+(?:-?\s*+(?:{_DURATION}|[0-9]++(?:\.[0-9]++)?)|(?:start|end)\s*+\(\s*+\))"
)


def restricted(promql: str, matchers: Matchers) -> str:
    """Return an expression in which every selector also has the matchers.

    Comments are dropped. Raises ValueError for an expression that cannot be rewritten safely.
    """
    plain = _plain(promql)
    tree = parse(plain)
    for node in nodes_of(tree):
        _check(node)
    inner = ",".join(f"{label}={quoted(value)}" for label, value in matchers)
    insertions = []
    for selector in selectors_in(tree):
        braced = plain[selector.at - 1 : selector.at] == "{"
        insertions.append((selector.at, f"{inner}," if braced else f"{{{inner}}}"))
    result = with_insertions(plain, insertions)
    wanted = {Matcher(label, "=", value) for label, value in matchers}
    # A fault of the rewriting must not open the border.
    if not all(wanted <= set(selector.matchers) for selector in selectors_in(parse(result))):
        raise ValueError("a selector cannot be given another matcher")
    return result


def _plain(promql: str) -> str:
    """Return an expression without comments, with plain blanks; raises ValueError."""
    if len(promql) > LONGEST:
        raise ValueError(f"it has {len(promql):,} characters, and may have {LONGEST:,}")
    parts, end = [], 0
    for token in tokens_of(promql):
        between = promql[end : token.start]
        # Prometheus ends a comment also at a carriage return.
        is_plain = not between or "#" in between or _BLANK.fullmatch(between)
        if "\r" in between or not is_plain:
            raise ValueError("it has a blank that is neither a space, a tab nor a new line")
        parts += [" " if between else "", token.text]
        end = token.end
        if token.kind == "string":
            _check_string(token.text)
        elif not token.text.isascii() or not token.text.isprintable():
            raise ValueError(f"{token.text!r} is not understood")
    if "\r" in promql[end:]:
        raise ValueError("it has a carriage return")
    text = "".join(parts)
    _check_windows(text)
    return text


def _check_string(text: str) -> None:
    """Refuse a string that a server could end elsewhere."""
    if len(text) < 2 or text[-1] != text[0] or (text[0] != "`" and "\n" in text):
        raise ValueError("a string is not closed")


def _check_windows(text: str) -> None:
    """Refuse brackets, offsets and times with anything but plain durations and numbers.

    The parser takes their content as it is written.
    """
    position = 0
    for token in tokens_of(text):
        if token.start < position:
            continue
        word = token.text.lower()
        if token.text == "[":
            found = _BRACKETS.match(text, token.start)
        elif token.text == "@" or (token.kind == "word" and word == "offset"):
            found = _MODIFIER.match(text, token.end)
        else:
            continue
        if found is None:
            raise ValueError(f"{token.text} is followed by more than a duration or a number")
        position = found.end()


def _check(node: Node) -> None:
    match node:
        case UnsupportedExpression():
            raise ValueError("a part of it is not understood")
        case Call(name) if name not in _FUNCTIONS | {"-"}:
            what = f"the function {name}" if name else "an expression without an operator"
            raise ValueError(f"{what} is not permitted here")
        case Aggregation(name) if name not in AGGREGATIONS:
            raise ValueError(f"the aggregation {name} is not permitted here")
        case VectorSelector() if not node.name and not node.matchers:
            raise ValueError("a selector has neither a name nor a matcher")
