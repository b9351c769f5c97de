"""PromQL as a tree, as far as labels need it: which are in an answer, and how to keep more of them.

https://prometheus.io/docs/prometheus/latest/querying/operators/
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from autoscaler.config.promql_tokens import (
    AGGREGATIONS,
    COMPARISONS,
    MATCHER_OPERATORS,
    PromqlToken,
    tokens_of,
)

LONGEST = 64 << 10
"""Characters of an expression."""
_LONGEST_LINE = 100
_DEEPEST = 60
_MOST_OPERATORS = 200
_PRECEDENCE = {
    "or": 1,
    **dict.fromkeys(("and", "unless"), 2),
    **dict.fromkeys(COMPARISONS, 3),
    **dict.fromkeys(("+", "-"), 4),
    **dict.fromkeys(("*", "/", "%", "atan2"), 5),
    "^": 6,
}
_SIGN = 5
"""How tightly a sign binds: less than a power, more than a product."""
_OF_SETS = frozenset({"or", "and", "unless"})
_CHOOSING = frozenset({"topk", "bottomk", "limitk", "limit_ratio"})
"""Aggregations whose answer has all labels of what they choose."""
_WITHOUT_LABELS = frozenset({"scalar", "vector", "time", "absent", "absent_over_time", "pi"})
_WORDED = {"label_replace", "label_join"}
_AVERAGING = frozenset({"avg", "quantile", "histogram_quantile", "stddev", "stdvar"})
_NAN_FUNCTIONS = frozenset({"histogram_quantile", "quantile", "quantile_over_time", "sqrt", "ln"})


@dataclass(frozen=True, slots=True)
class LabelMatcher:
    """A matcher of a selector; the value is as it is written, without its quotes."""

    label: str
    operator: str
    value: str


@dataclass(frozen=True, slots=True)
class SeriesSelector:
    """A vector selector, its name empty where only matchers say it."""

    name: str
    matchers: tuple[LabelMatcher, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """A number or a string."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function and its arguments."""

    name: str
    arguments: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Aggregation:
    """An aggregation: ``clause`` is by, without or nothing; more labels are written ``at``."""

    name: str
    clause: str
    labels: frozenset[str]
    at: int
    arguments: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Binary:
    """An operation of two sides: ``clause`` is on, ignoring or nothing, with its labels ``at``.

    ``group`` is left, right or nothing.
    """

    operator: str
    clause: str
    labels: frozenset[str]
    at: int
    group: str
    left: "Node"
    right: "Node"


Node: TypeAlias = SeriesSelector | Literal | Call | Aggregation | Binary


def parse(promql: str) -> Node:
    """Read an expression.  Raises ValueError for what is not understood."""
    if len(promql) > LONGEST:
        raise ValueError(f"it has {len(promql):,} characters, and may have {LONGEST:,}")
    return _PromqlParser(promql).parse()


def nodes_of(tree: Node) -> Iterator[Node]:
    """Yield a node and all below it."""
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        stack += reversed(_below(node))


def selectors_of(tree: Node) -> list[SeriesSelector]:
    """Return the vector selectors of an expression, in their order."""
    return [node for node in nodes_of(tree) if isinstance(node, SeriesSelector)]


def has(tree: Node, label: str) -> bool:  # noqa: PLR0911 - one of each
    """Return whether the series of the answer may have a label, if those that are read have it."""
    match tree:
        case SeriesSelector():
            return True
        case Literal():
            return False
        case Call(name, arguments):
            if name in _WITHOUT_LABELS:
                return False
            if name in _WORDED and len(arguments) > 1 and arguments[1] == Literal(label):
                return True
            return any(has(argument, label) for argument in arguments)
        case Aggregation(name, clause, labels, _, arguments):
            if name == "count_values" and Literal(label) in arguments[:1]:
                return True
            kept = bool(clause) and (label in labels) is (clause == "by")
            inner = any(has(argument, label) for argument in arguments)
            return inner and (kept or name in _CHOOSING)
        case Binary():
            return _binary_has(tree, label)


def has_more(tree: Node, labels: Collection[str | None]) -> bool:
    """Return whether the series of the answer may have labels other than these."""
    named = {one for node in nodes_of(tree) for one in getattr(node, "labels", ())}
    return any(has(tree, label) for label in (*(named - {*labels}), "of any other name"))


def _binary_has(tree: Binary, label: str) -> bool:
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
        case Literal():
            return True
        case Call(name, _):
            return name in {"scalar", "time", "pi"}
        case Binary(_, _, _, _, _, left, right):
            return is_number(left) and is_number(right)
    return False


def keeps_apart(tree: Node, label: str) -> bool:
    """Return whether series of different values of a label never come together."""
    for node in nodes_of(tree):
        match node:
            case Aggregation(_, clause, labels) | Binary(_, clause, labels):
                if clause in {"by", "on"} and label not in labels:
                    return False
                if clause in {"without", "ignoring"} and label in labels:
                    return False
                if isinstance(node, Aggregation) and not clause:
                    return False
            case Call(name, _):
                if name in _WITHOUT_LABELS - {"vector", "time", "pi"}:
                    return False
    return True


def keeping(promql: str, labels: Sequence[str]) -> str | None:
    """Return the expression with these labels kept apart all the way; None where that cannot be.

    For each value of the labels the series of the answer with it are then those that the
    expression would give if all its selectors asked for that value.
    """
    edits: list[tuple[int, str]] = []
    for node in nodes_of(parse(promql)):
        match node:
            case Call(name, arguments):
                texts = {one.text for one in arguments if isinstance(one, Literal)}
                worded = name in _WORDED and not texts.isdisjoint(labels)
                if worded or name in _WITHOUT_LABELS - {"time", "pi"}:
                    return None
            case Aggregation(_, clause, known, at) | Binary(_, clause, known, at):
                if clause in {"without", "ignoring"} and not known.isdisjoint(labels):
                    return None
                more = ", ".join(label for label in labels if label not in known)
                if clause in {"by", "on"} and more:
                    edits.append((at, f"{more}, " if known else more))
                elif isinstance(node, Aggregation) and more and not clause:
                    edits.append((at, f" by ({more}) "))
    written, begin = [], 0
    for at, text in sorted(edits):
        written += [promql[begin:at], text]
        begin = at
    return "".join((*written, promql[begin:]))


def may_be_nan(tree: Node) -> bool:
    """Return whether an expression can give NaN for usual samples, such as 0/0."""
    for node in nodes_of(tree):
        match node:
            case Binary(operator):
                if operator in {"/", "%"}:
                    return True
            case Call(name, _) | Aggregation(name):
                if name in _NAN_FUNCTIONS:
                    return True
            case SeriesSelector(_, matchers):
                if any(matcher.label == "quantile" for matcher in matchers):
                    return True
    return False


A_RATIO_IS_DIVIDED = (
    "a ratio, an average or a quantile is divided by the replicas as AverageValue, as in {}: type "
    "Value, with the same number as `value`, was probably meant"
)
"""What is to be said of a ratio that is held at AverageValue, with whose behaviour that is."""


def is_ratio(tree: Node) -> bool:
    """Return whether an expression is a ratio, an average or a quantile, and no total."""
    match tree:
        case Binary("/", _, _, _, _, left, right):
            return not is_number(right) or is_ratio(left)
        case Binary(operator, _, _, _, _, left, right):
            both = operator not in COMPARISONS | {"and", "unless"}
            return is_ratio(left) or (both and is_ratio(right))
        case Aggregation(name, _, _, _, arguments):
            of_several = name in {"sum", "count", "group", "count_values"}
            return name in _AVERAGING or (not of_several and any(map(is_ratio, arguments)))
        case Call(name, arguments):
            return name in _AVERAGING or any(map(is_ratio, arguments))
    return False


def tidied(promql: str) -> str:
    """Return the expression without comments, blanks only where there were some.

    A long one keeps its lines; any other stands on one.
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
            written.append("\n" + "  " * min(depth, _DEEPEST))
        elif gap and not inside:
            written.append(" ")
        written.append(token.text)
        depth += token.text in {"(", "{", "["}
        end = token.start + len(token.text)
    return "".join(written)


def quoted(value: str) -> str:
    """Return a text as a string of PromQL."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def unquoted(text: str) -> str:
    """Return what a string of PromQL says; escapes other than of a sign stay as they are."""
    if text[:1] not in {'"', "'"}:
        return text[1:-1]
    inner = text[1:-1].split("\\\\")
    return "\\".join(part.replace('\\"', '"').replace("\\'", "'") for part in inner)


def _below(node: Node) -> tuple[Node, ...]:
    match node:
        case Call(_, arguments) | Aggregation(_, _, _, _, arguments):
            return arguments
        case Binary(_, _, _, _, _, left, right):
            return (left, right)
    return ()


class _PromqlParser:
    def __init__(self, promql: str) -> None:
        self._tokens = list(tokens_of(promql))
        self._end = PromqlToken("", "", len(promql))
        self._at = 0
        self._depth = 0
        self._operators = 0

    def parse(self) -> Node:
        tree = self._expression(0)
        if self._at < len(self._tokens):
            raise self._error()
        return tree

    def _error(self) -> ValueError:
        token = self._peek()
        if token is self._end:
            return ValueError("it ends too early")
        return ValueError(f"{token.text[:20]!r} at character {token.start + 1} is not understood")

    def _peek(self, ahead: int = 0) -> PromqlToken:
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else self._end

    def _next(self) -> PromqlToken:
        token = self._peek()
        self._at += 1
        return token

    def _take(self, text: str) -> bool:
        if self._peek().text.lower() != text or self._peek().kind == "string":
            return False
        self._at += 1
        return True

    def _need(self, text: str) -> None:
        if not self._take(text):
            raise self._error()

    def _expression(self, least: int) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError(f"it is more than {_DEEPEST} levels deep")
        signed = self._peek().text in {"+", "-"} and self._peek().kind == "sign"
        if signed:
            self._next()
        left = self._expression(_SIGN) if signed else self._postfixed()
        while (operator := self._operator()) and _PRECEDENCE[operator] > least:
            left = self._binary(operator, left)
        self._depth -= 1
        return left

    def _operator(self) -> str:
        token = self._peek()
        text = token.text.lower()
        return text if text in _PRECEDENCE and token.kind != "string" else ""

    def _binary(self, operator: str, left: Node) -> Node:
        self._operators += 1
        if self._operators > _MOST_OPERATORS:
            raise ValueError(f"it has more than {_MOST_OPERATORS} operators")
        self._next()
        self._take("bool")
        clause, labels, at, group = "", frozenset[str](), 0, ""
        for word in ("on", "ignoring"):
            if self._take(word):
                clause = word
                labels, at = self._labels()
        for side in ("left", "right"):
            if self._take(f"group_{side}"):
                group = side
                if self._peek().text == "(":
                    self._labels()
        # Powers bind from the right.
        right = self._expression(_PRECEDENCE[operator] - (operator == "^"))
        return Binary(operator, clause, labels, at, group, left, right)

    def _labels(self) -> tuple[frozenset[str], int]:
        """Read a list of labels; return it and where more can be written."""
        at = self._peek().start + 1
        self._need("(")
        labels = set()
        while not self._take(")"):
            token = self._next()
            if token.kind not in {"word", "string"}:
                self._at -= 1
                raise self._error()
            labels.add(unquoted(token.text) if token.kind == "string" else token.text)
            if not self._take(",") and self._peek().text != ")":
                raise self._error()
        return frozenset(labels), at

    def _postfixed(self) -> Node:
        node = self._primary()
        while True:
            if self._take("["):
                while not self._take("]"):
                    if self._next() is self._end:
                        raise self._error()
            elif self._take("offset"):
                self._take("-")
                self._next()
            elif self._take("@"):
                if self._next().text in {"start", "end"}:
                    self._need("(")
                    self._need(")")
            else:
                return node

    def _primary(self) -> Node:  # noqa: PLR0911 - one of each
        token = self._next()
        word = token.text.lower()
        if token.kind == "string":
            return Literal(unquoted(token.text))
        if token.kind == "number" or token.text == ".":
            if token.kind != "number":
                self._next()
            return Literal(token.text)
        if token.text == "(":
            node = self._expression(0)
            self._need(")")
            return node
        if token.text == "{":
            self._at -= 1
            return self._selector("")
        if token.kind == "word":
            if word in AGGREGATIONS and self._peek().text.lower() in {"(", "by", "without"}:
                return self._aggregation(word, token.start + len(token.text))
            if self._peek().text == "(":
                return Call(word, self._arguments())
            if word in {"inf", "nan"}:
                return Literal(token.text)
            return self._selector(token.text)
        self._at -= 1
        raise self._error()

    def _aggregation(self, name: str, at: int) -> Node:
        clause, labels = "", frozenset[str]()
        arguments: tuple[Node, ...] | None = None
        for _ in range(2):
            for word in ("by", "without"):
                if not clause and self._take(word):
                    clause = word
                    labels, at = self._labels()
            if arguments is None:
                arguments = self._arguments()
        return Aggregation(name, clause, labels, at, arguments or ())

    def _arguments(self) -> tuple[Node, ...]:
        self._need("(")
        arguments: list[Node] = []
        while not self._take(")"):
            arguments.append(self._expression(0))
            if not self._take(",") and self._peek().text != ")":
                raise self._error()
        return tuple(arguments)

    def _selector(self, name: str) -> Node:
        matchers: list[LabelMatcher] = []
        if self._take("{"):
            while not self._take("}"):
                matchers.append(self._matcher())
                if not self._take(",") and self._peek().text != "}":
                    raise self._error()
        return SeriesSelector(name, tuple(matchers))

    def _matcher(self) -> LabelMatcher:
        label = self._next()
        if label.kind == "string" and self._peek().text in {",", "}"}:
            return LabelMatcher("__name__", "=", unquoted(label.text))
        operator, value = self._next(), self._next()
        if operator.text not in MATCHER_OPERATORS or value.kind != "string":
            self._at -= 2
            raise self._error()
        name = unquoted(label.text) if label.kind == "string" else label.text
        return LabelMatcher(name, operator.text, unquoted(value.text))


def metric_names(selectors: Iterable[SeriesSelector]) -> list[str]:
    """Return the names of the metrics that selectors name literally, each once."""
    names = [
        name
        for selector in selectors
        for name in (
            selector.name,
            *(one.value for one in selector.matchers if (one.label, one.operator) == _NAMED),
        )
        if name
    ]
    return list(dict.fromkeys(names))


_NAMED = ("__name__", "=")
