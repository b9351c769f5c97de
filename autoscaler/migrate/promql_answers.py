"""The possible answers of a PromQL expression: labels, a ratio, NaN; and how to keep more labels.

https://prometheus.io/docs/prometheus/latest/querying/operators/
"""

from collections.abc import Collection, Sequence

from autoscaler.config.promql_parser import (
    AGGREGATIONS,
    COMPARISONS,
    DEEPEST,
    Aggregation,
    BinaryOperation,
    Call,
    Literal,
    Node,
    Subquery,
    VectorSelector,
    below,
    nodes_of,
    parse,
    tokens_of,
    with_insertions,
)

_LONGEST_LINE = 100
_OF_SETS = frozenset({"or", "and", "unless"})
_CHOOSING = frozenset({"topk", "bottomk", "limitk", "limit_ratio"})
"""Aggregations whose answer has all labels of the series that they select."""
_WITHOUT_LABELS = frozenset({"scalar", "vector", "time", "absent", "absent_over_time", "pi"})
_WORDED = {"label_replace", "label_join"}
_AVERAGING = frozenset({"avg", "quantile", "histogram_quantile", "stddev", "stdvar"})
_NAN_FUNCTIONS = frozenset({"histogram_quantile", "quantile", "quantile_over_time", "sqrt", "ln"})


def has(tree: Node, label: str) -> bool:
    """Return whether the answer's series may have a label, if the series that are read do."""
    match tree:
        case BinaryOperation():
            return _binary_has(tree, label)
        case Call(name) if name in _WITHOUT_LABELS:
            return False
        case Call(name, (_, Literal(text), *_)) if name in _WORDED and text == label:
            return True
        case Aggregation("count_values", arguments=(Literal(text), *_)) if text == label:
            return True
        case Aggregation(name, clause, labels) if name not in _CHOOSING:
            if not clause or (label in labels) is (clause == "without"):
                return False
    return isinstance(tree, VectorSelector) or any(has(part, label) for part in below(tree))


def has_more(tree: Node, labels: Collection[str | None]) -> bool:
    """Return whether the series of the answer may have labels other than these."""
    named = {label for node in nodes_of(tree) for label in getattr(node, "labels", ())}
    return any(has(tree, label) for label in (*(named - {*labels}), "of any other name"))


def _binary_has(tree: BinaryOperation, label: str) -> bool:
    left, right = has(tree.left, label), has(tree.right, label)
    if tree.operator in _OF_SETS:
        return left or (right and tree.operator == "or")
    if is_number(tree.left) or is_number(tree.right):
        return left or right
    if tree.group:
        return left if tree.group == "left" else right
    if tree.clause:
        return left and (label in tree.labels) is (tree.clause == "on")
    return left and right


def is_number(tree: Node) -> bool:
    """Return whether an expression is a scalar."""
    match tree:
        case Literal() | Call("scalar" | "time" | "pi"):
            return True
        case BinaryOperation() | Call("-") | Subquery():
            return all(map(is_number, below(tree)))
    return False


def keeping(promql: str, labels: Sequence[str]) -> str | None:
    """Return the expression with these labels kept in all of its parts; None if that is impossible.

    For each value of the labels, the series of the answer with it equal the expression's if all its
    selectors required that value.
    """
    edits: list[tuple[int, str]] = []
    for node in nodes_of(parse(promql)):
        match node:
            case Call(name, arguments):
                texts = {argument.text for argument in arguments if isinstance(argument, Literal)}
                worded = name in _WORDED and not texts.isdisjoint(labels)
                if worded or name in _WITHOUT_LABELS - {"time", "pi"}:
                    return None
            case Aggregation(_, clause, known, at) | BinaryOperation(_, clause, known, at):
                if clause in {"without", "ignoring"} and not known.isdisjoint(labels):
                    return None
                more = ", ".join(label for label in labels if label not in known)
                if clause in {"by", "on"} and more:
                    edits.append((at, f"{more}, " if known else more))
                elif isinstance(node, Aggregation) and more and not clause:
                    edits.append((at, f" by ({more}) "))
    return with_insertions(promql, edits)


def may_be_nan(tree: Node) -> bool:
    """Return whether an expression can give NaN for usual samples, such as 0/0."""
    for node in nodes_of(tree):
        match node:
            case BinaryOperation("/" | "%"):
                return True
            case Call(name) | Aggregation(name) if name in _NAN_FUNCTIONS:
                return True
            case VectorSelector(_, matchers):
                if any(matcher.label == "quantile" for matcher in matchers):
                    return True
    return False


A_RATIO_IS_DIVIDED = (
    "a ratio, an average or a quantile is divided by the replicas as AverageValue, as in {}: type "
    "Value, with the same number as `value`, was probably meant"
)
"""The note on a ratio with an AverageValue target, and on the origin of this behavior."""


def is_ratio(tree: Node) -> bool:
    """Return whether an expression is a ratio, an average or a quantile, not a total."""
    match tree:
        case BinaryOperation("/", left=left, right=right):
            return not is_number(right) or is_ratio(left)
        case BinaryOperation(operator, left=left) if operator in COMPARISONS | {"and", "unless"}:
            return is_ratio(left)
        case Aggregation(name) | Call(name) if name in _AVERAGING:
            return True
        case Aggregation("sum" | "count" | "group" | "count_values"):
            return False
    return any(map(is_ratio, below(tree)))


def tidied(promql: str) -> str:
    """Return the expression without comments, with single spaces.

    A long one keeps its lines; any other is on one line.
    """
    flat = _joined(promql, keep_lines=False)
    return flat if len(flat) <= _LONGEST_LINE else _joined(promql, keep_lines=True)


def _joined(promql: str, *, keep_lines: bool) -> str:
    written, end, depth = [""], 0, 0
    for token in tokens_of(promql):
        gap, closes = promql[end : token.start], token.text in {")", "}", "]"}
        inside = written[-1] in {"", "(", "{", "["} or closes or token.text == ","
        depth -= closes
        if keep_lines and "\n" in gap and end:
            written.append("\n" + "  " * min(depth, DEEPEST))
        elif gap and not inside:
            written.append(" ")
        written.append(token.text)
        depth += token.text in {"(", "{", "["}
        end = token.end
    return "".join(written)


_SINGLE = AGGREGATIONS - _CHOOSING - {"count_values"}
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
"""The labels that the quantile of a histogram removes."""


def operand(promql: str, *, missing_is_zero: bool) -> str:
    """Return an expression with one element without labels for KEDA's reading of a query.

    NaN and infinity, if a ratio or a quantile can give them, are missing; a missing value is 0 if
    requested, else no element. Raises ValueError for PromQL that is not understood.
    """
    tree, text = parse(promql), tidied(promql)
    if is_number(tree):
        text = f"vector({text})"
    elif not is_one_value(tree):
        text = f"sum({text})"
    elif isinstance(tree, BinaryOperation):
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
        case BinaryOperation() | Subquery():
            return all(map(is_one_value, below(tree)))
    return False
