"""PromQL of one trigger as an operand: one value without labels, or none.

A query of KEDA returns at most one element; what is made of it here has no labels, so that several
can be computed with each other.  https://prometheus.io/docs/prometheus/latest/querying/operators/
"""

from autoscaler.config.promql_parser import parse
from autoscaler.config.promql_tree import (
    AGGREGATIONS,
    Aggregation,
    Binary,
    Call,
    Node,
    Subquery,
    below,
)
from autoscaler.migrate.promql_answers import is_number, may_be_nan, tidied

_KEEPING_LABELS = frozenset({"topk", "bottomk", "limitk", "limit_ratio", "count_values"})
_SINGLE = AGGREGATIONS - _KEEPING_LABELS
_OF_NUMBERS = frozenset(
    {
        *("vector", "minute", "hour", "day_of_week", "day_of_month", "day_of_year"),
        *("days_in_month", "month", "year"),
    }
)
"""Functions that make one value without labels of numbers, or of nothing."""
_OF_EACH = _OF_NUMBERS | {
    "-",
    *("abs", "ceil", "floor", "round", "sgn", "exp", "ln", "log2", "log10", "sqrt"),
    *("clamp", "clamp_max", "clamp_min", "sort", "sort_desc", "timestamp", "histogram_quantile"),
    *("rate", "increase", "delta", "irate", "idelta", "deriv", "predict_linear", "changes"),
    *("resets", "avg_over_time", "min_over_time", "max_over_time", "sum_over_time"),
    *("count_over_time", "last_over_time", "quantile_over_time", "stddev_over_time"),
}
"""Functions that give one value for each series that they read, also of a subquery."""
_BUCKETS = frozenset({"le"})
"""The labels that the quantile of a histogram takes away."""


def operand(promql: str, *, missing_is_zero: bool) -> str:
    """Return an expression of one element without labels for what KEDA reads of a query.

    NaN and infinity, if a ratio or a quantile can give them, are missing; what is missing is 0
    where that is asked for, and no element otherwise.  Raises ValueError for PromQL that is not
    understood.
    """
    tree, text = parse(promql), tidied(promql)
    if is_number(tree):
        text = f"vector({text})"
    elif not is_one_value(tree):
        text = f"sum({text})"
    elif isinstance(tree, Binary):
        text = f"({text})"
    finite = f"{text} > -Inf < Inf" if may_be_nan(tree) else text
    if missing_is_zero:
        return f"({finite} or vector(0))"
    return text if finite == text else f"({finite})"


def is_one_value(tree: Node) -> bool:
    """Return whether an expression surely has at most one element, without labels."""
    if is_number(tree):
        return True
    match tree:
        case Aggregation(name, clause, labels):
            return name in _SINGLE and (not clause or (clause == "by" and not labels))
        case Call("histogram_quantile", (_, Aggregation(name, "by", labels))):
            return name in _SINGLE and labels == _BUCKETS
        case Call(name, arguments):
            vectors = [argument for argument in arguments if not is_number(argument)]
            known = name in _OF_EACH if vectors else name in _OF_NUMBERS
            return known and all(map(is_one_value, vectors))
        case Binary() | Subquery():
            return all(map(is_one_value, below(tree)))
    return False
