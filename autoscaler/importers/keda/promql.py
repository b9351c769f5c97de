"""PromQL of one trigger as an operand: one value without labels, or none.

A query of KEDA returns at most one element; what is made of it here has no labels, so that several
can be computed with each other.  https://prometheus.io/docs/prometheus/latest/querying/operators/
"""

import re

from autoscaler.promql_tokens import TOKEN

_PAIRS = {"(": ")", "[": "]", "{": "}"}
_AGGREGATIONS = frozenset(
    {"sum", "avg", "min", "max", "count", "group", "stddev", "stdvar", "quantile"}
)
_WITHOUT_LABELS = _AGGREGATIONS | {"vector"}
_SCALARS = frozenset({"scalar", "time", "pi"})
_NUMBER = re.compile(r"[-+]?[0-9.]++(?:[eE][-+]?[0-9]++)?")


def one_line(promql: str) -> str:
    """Return PromQL without comments and line breaks.  Raises ValueError where it is not closed."""
    parts, lacking = [], []
    for match in TOKEN.finditer(promql):
        kind, text = match.lastgroup, match[0]
        if kind == "string" and not _is_closed(text):
            raise ValueError(f"its PromQL has a {text[0]} that nothing closes")
        if kind == "sign" and text in _PAIRS:
            lacking.append(_PAIRS[text])
        elif kind == "sign" and text in _PAIRS.values() and (not lacking or lacking.pop() != text):
            raise ValueError(f"its PromQL has a {text} that nothing opens")
        if kind != "blank":
            parts.append(text)
        elif parts and parts[-1] != " ":
            parts.append(" ")
    if lacking:
        raise ValueError(f"its PromQL lacks a {lacking[-1]}")
    return "".join(parts).strip()


def _is_closed(string: str) -> bool:
    inner = string[1:-1]
    escapes = 0 if string[0] == "`" else len(inner) - len(inner.rstrip("\\"))
    return len(string) > 1 and string[-1] == string[0] and escapes % 2 == 0


def operand(promql: str, *, missing_is_zero: bool) -> str:
    """Return an expression of one element without labels for what KEDA reads of a query.

    NaN and infinity are missing; what is missing is 0 where that is asked for, and no element
    otherwise.  Raises ValueError for a query that is not closed.
    """
    finite = f"{_without_labels(one_line(promql))} > -Inf < Inf"
    return f"({finite} or vector(0))" if missing_is_zero else f"({finite})"


def _without_labels(promql: str) -> str:
    called = _called(promql)
    if called in _WITHOUT_LABELS:
        return promql
    if called in _SCALARS or _NUMBER.fullmatch(promql):
        return f"vector({promql})"
    return f"sum({promql})"


def _called(promql: str) -> str:
    """Return the function or aggregation that a whole expression is a call of, else nothing."""
    depth, called, tokens = 0, "", list(TOKEN.finditer(promql))
    for index, match in enumerate(tokens):
        text = match[0] if match.lastgroup != "string" else ""
        if index == 0:
            called = text.lower() if match.lastgroup == "word" else ""
        elif depth == 0 and match.lastgroup != "blank" and text != "(":
            return ""  # `by (...)`, an operator or a second term
        depth += {"(": 1, ")": -1}.get(text, 0)
        if depth == 0 and text == ")" and index < len(tokens) - 1:
            return ""
    return called if len(tokens) > 1 else ""


def is_one_element(promql: str) -> bool:
    """Return whether an expression surely returns at most one element."""
    return _called(promql) in _WITHOUT_LABELS | _SCALARS or _NUMBER.fullmatch(promql) is not None
