"""The PromQL parser, in linear time: tokens, and the syntax tree.

https://prometheus.io/docs/prometheus/latest/querying/basics/
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple, TypeAlias

# -- tokens ---------------------------------------------------------------------------------------

# An unclosed string extends to the end, so that no part of a text is read twice.
_TOKEN = re.compile(
    r"""(?P<string>"(?:\\.|[^"\\])*+(?:"|\\?\Z)|'(?:\\.|[^'\\])*+(?:'|\\?\Z)|`[^`]*+(?:`|\Z))"""
    r"|(?P<blank>\#[^\n]*+|\s++)"
    r"|(?P<word>[A-Za-z_:][A-Za-z0-9_:]*+)"
    r"|(?P<number>[0-9][A-Za-z0-9_.]*+)"
    r"|(?P<sign>=~|!~|[=!<>]=|.)",
    re.DOTALL,
)
COMPARISONS = frozenset({"==", "!=", ">=", "<=", ">", "<"})
AGGREGATIONS = frozenset(
    {
        *("sum", "avg", "min", "max", "count", "stddev", "stdvar", "topk", "bottomk", "quantile"),
        *("count_values", "group", "limitk", "limit_ratio"),
    }
)


class PromqlToken(NamedTuple):
    """A string, word, number or sign; ``start`` is its position in the expression."""

    kind: str
    text: str
    start: int = 0

    @property
    def end(self) -> int:
        """The position after it."""
        return self.start + len(self.text)

    @property
    def plain(self) -> str:
        """The text; of a string, without its quotes."""
        return unquoted(self.text) if self.kind == "string" else self.text


def tokens_of(promql: str) -> Iterator[PromqlToken]:
    """Yield the tokens of an expression except blanks and comments."""
    for match in _TOKEN.finditer(promql):
        if match.lastgroup != "blank":
            yield PromqlToken(match.lastgroup or "", match[0], match.start())


# -- the tree -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Matcher:
    """A matcher with its label and value unquoted; ``written`` is its text in the expression."""

    label: str
    operator: str
    value: str
    written: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.written or f"{self.label}{self.operator}{quoted(self.value)}"


@dataclass(frozen=True, slots=True)
class VectorSelector:
    """A vector selector; its name is empty if it has only matchers.

    ``range`` and ``offset`` are durations as written; ``at`` is where matchers can be added.
    """

    name: str
    matchers: tuple[Matcher, ...] = ()
    range: str | None = None
    offset: str = ""
    at: int = field(default=0, compare=False)

    def __str__(self) -> str:
        listed = ",".join(map(str, self.matchers))
        return self.name + (f"{{{listed}}}" if listed or not self.name else "")

    @property
    def name_matchers(self) -> tuple[Matcher, ...]:
        """The matchers that name the metric, if the name is not before the braces."""
        named = ("__name__", "=")
        return tuple(
            matcher for matcher in self.matchers if (matcher.label, matcher.operator) == named
        )


@dataclass(frozen=True, slots=True)
class Subquery:
    """Any other expression with a range or an offset, as written."""

    expression: "Node"
    range: str | None = None
    offset: str = ""


@dataclass(frozen=True, slots=True)
class Literal:
    """A number or a string."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function and its arguments: `-` for a sign, empty for parts without an operator."""

    name: str
    arguments: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Aggregation:
    """An aggregation: ``clause`` is by, without or empty; more labels can be added ``at``."""

    name: str
    clause: str
    labels: frozenset[str]
    at: int
    arguments: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class BinaryOperation:
    """A binary operation: ``clause`` is on, ignoring or empty; labels can be added ``at``.

    ``group`` is left, right or empty; ``is_bool`` whether a comparison gives 0 or 1.
    """

    operator: str
    clause: str
    labels: frozenset[str]
    at: int
    group: str
    left: "Node"
    right: "Node"
    is_bool: bool = False


@dataclass(frozen=True, slots=True)
class UnsupportedExpression:
    """A selector that is not understood, or an expression that is too deep or long."""

    is_selector: bool


Node: TypeAlias = (
    VectorSelector
    | Subquery
    | Literal
    | Call
    | Aggregation
    | BinaryOperation
    | UnsupportedExpression
)


def nodes_of(tree: Node) -> Iterator[Node]:
    """Yield a node and all below it, in the order of the text."""
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        stack += reversed(below(node))


def selectors_in(tree: Node) -> list[VectorSelector]:
    """Return the vector selectors of an expression, in their order."""
    return [node for node in nodes_of(tree) if isinstance(node, VectorSelector)]


def below(node: Node) -> tuple[Node, ...]:
    """Return the parts of a node."""
    match node:
        case Call(_, arguments) | Aggregation(_, _, _, _, arguments):
            return arguments
        case BinaryOperation(left=left, right=right):
            return (left, right)
        case Subquery(expression):
            return (expression,)
    return ()


def with_insertions(promql: str, insertions: list[tuple[int, str]]) -> str:
    """Return the expression with texts inserted, each at a position."""
    written, begin = [], 0
    for at, text in sorted(insertions):
        written += [promql[begin:at], text]
        begin = at
    return "".join((*written, promql[begin:]))


def quoted(value: str) -> str:
    """Return a text as a PromQL string."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def unquoted(text: str) -> str:
    """Return the text of a PromQL string; only escapes of quotes and backslashes are replaced."""
    if text[:1] not in {'"', "'"}:
        return text[1:-1]
    inner = text[1:-1].split("\\\\")
    return "\\".join(part.replace('\\"', '"').replace("\\'", "'") for part in inner)


# -- reading --------------------------------------------------------------------------------------

LONGEST = 64 << 10
"""The most characters of an expression that is parsed."""
DEEPEST = 60
_MOST_OPERATORS = 200
_METRICSQL = frozenset({"default", "if", "ifnot"})
_PRECEDENCE = {
    "default": 1,
    "or": 2,
    **dict.fromkeys(("and", "unless"), 3),
    **dict.fromkeys(COMPARISONS, 4),
    **dict.fromkeys(("+", "-"), 5),
    **dict.fromkeys(("*", "/", "%", "atan2"), 6),
    "^": 7,
    **dict.fromkeys(("if", "ifnot"), 8),
}
_SIGN = 6
"""The precedence of a sign: below a power, above a product."""
_MATCHER_OPERATORS = frozenset({"=", "!=", "=~", "!~"})
_CLOSING = frozenset({")", "]", "}", ",", ""})
"""Signs before which an expression ends; empty at the end of the text."""


def parse(promql: str) -> Node:
    """Parse an expression. Raises ValueError for what is not understood."""
    if len(promql) > LONGEST:
        raise ValueError(f"it has {len(promql):,} characters, and may have {LONGEST:,}")
    return _PromqlParser(promql, is_strict=True).parse()


@lru_cache(maxsize=1)  # Callers ask several questions about one expression in a row.
def read(promql: str) -> Node:
    """Parse what is understood of an expression.

    It may have MetricsQL, unfilled variables, and errors.
    """
    try:
        return _PromqlParser(promql, is_strict=False).parse()
    except ValueError:  # It is too long.
        return UnsupportedExpression(is_selector=False)


class _PromqlParser:
    """Reads each token once, and skips what it does not understand unless it is strict."""

    def __init__(self, promql: str, *, is_strict: bool) -> None:
        self._tokens = list(tokens_of(promql))
        self._end = PromqlToken("", "", len(promql))
        self._is_strict = is_strict
        self._at = self._depth = self._operators = self._mistakes = 0

    def parse(self) -> Node:
        parts = [self._parts()]
        while self._peek() is not self._end:
            self._skip()
            parts.append(self._parts())
        return parts[0] if len(parts) == 1 else Call("", tuple(parts))

    def _mistake(self) -> None:
        self._mistakes += 1
        token = self._peek()
        where = f"{token.text[:20]!r} at character {token.start + 1}"
        if self._is_strict:
            raise ValueError(f"{where} is not understood" if token.text else "it ends too early")

    def _skip(self) -> None:
        self._mistake()
        self._at += 1

    def _peek(self, ahead: int = 0) -> PromqlToken:
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else self._end

    def _next(self) -> PromqlToken:
        token = self._peek()
        self._at += 1
        return token

    def _take(self, text: str) -> bool:
        taken = self._peek().text.lower() == text
        self._at += taken
        return taken

    def _need(self, text: str) -> None:
        if not self._take(text):
            self._mistake()

    def _since(self, begin: int) -> str:
        return "".join(token.text for token in self._tokens[begin : self._at])

    def _items(self, close: str) -> Iterator[None]:
        """Yield before each item of a list with commas, up to the closing sign."""
        while not self._take(close):
            if self._peek() is self._end:
                self._mistake()
                return
            yield
            if not self._take(",") and self._peek().text != close:
                self._skip()

    def _count(self) -> None:
        self._operators += 1
        if self._operators > _MOST_OPERATORS:
            raise ValueError(f"it has more than {_MOST_OPERATORS} operators")

    def _parts(self) -> Node:
        """Parse an expression, and others that follow without an operator."""
        parts = [self._expression(0)]
        while self._peek().text not in _CLOSING:
            self._mistake()
            parts.append(self._expression(0))
        return parts[0] if len(parts) == 1 else Call("", tuple(parts))

    def _expression(self, least: int) -> Node:
        self._depth += 1
        if self._depth > DEEPEST:
            raise ValueError(f"it is more than {DEEPEST} levels deep")
        if self._take("-"):
            left: Node = Call("-", (self._expression(_SIGN),))
        elif self._take("+"):
            left = self._expression(_SIGN)
        else:
            left = self._postfixed()
        while _PRECEDENCE.get(self._peek().text.lower(), 0) > least:
            left = self._binary(left)
        self._depth -= 1
        return left

    def _binary(self, left: Node) -> Node:
        self._count()
        operator = self._peek().text.lower()
        if operator in _METRICSQL:
            self._mistake()
        self._at += 1
        is_bool = self._take("bool")
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
        # Powers are right-associative.
        right = self._expression(_PRECEDENCE[operator] - (operator == "^"))
        return BinaryOperation(operator, clause, labels, at, group, left, right, is_bool)

    def _labels(self) -> tuple[frozenset[str], int]:
        """Parse a list of labels; return it and the place to add more."""
        at = self._peek().start + 1
        labels = set()
        self._need("(")
        for _ in self._items(")"):
            if self._peek().kind in {"word", "string"}:
                labels.add(self._next().plain)
        return frozenset(labels), at

    def _postfixed(self) -> Node:
        node = self._primary()
        while (word := self._peek().text.lower()) in {"[", "offset", "@"}:
            self._count()
            self._at += 1
            if word == "[":
                node = _looking_back(node, self._range(), "")
            else:
                written = self._modifier()
                node = _looking_back(node, None, written) if word == "offset" else node
        return node

    def _range(self) -> str:
        """Return the text in open brackets; for a subquery, without its step."""
        begin = self._at
        while self._peek().text not in {"]", ""}:
            self._at += 1
        written = self._since(begin).partition(":")[0]
        self._need("]")
        return written

    def _modifier(self) -> str:
        """Return the text after `offset` or `@`."""
        begin = self._at
        self._take("-")
        if self._peek().text in _CLOSING | {"("}:
            self._mistake()
            self._primary()
        elif self._next().text in {"start", "end"}:
            self._need("(")
            self._need(")")
        return self._since(begin)

    def _primary(self) -> Node:
        token = self._peek()
        if token.kind == "word":
            return self._named()
        if token.text == "{":
            return self._selector("")
        if self._take("("):
            return self._group()
        if token.text in _CLOSING | {"["}:
            self._mistake()
            return Literal("")
        if token.kind == "sign" and not self._take("."):
            self._mistake()
        self._at += 1
        return Literal(token.plain)

    def _group(self) -> Node:
        parts: list[Node] = []
        for _ in self._items(")"):
            if parts:  # A union of MetricsQL.
                self._mistake()
            parts.append(self._parts())
        if not parts:
            self._mistake()
        return parts[0] if len(parts) == 1 else Call("union", tuple(parts))

    def _named(self) -> Node:
        token = self._next()
        if self._peek().text == "(" or self._has_clause():
            return self._call(token.text.lower(), token.end)
        if token.text.lower() in {"inf", "nan"}:
            return Literal(token.text)
        return self._selector(token.text)

    def _has_clause(self) -> bool:
        return self._peek().text.lower() in {"by", "without"} and self._peek(1).text == "("

    def _call(self, name: str, at: int) -> Node:
        clause, labels, at = self._clause(name, at)
        self._need("(")
        arguments = tuple([self._parts() for _ in self._items(")")])
        if not clause:
            clause, labels, at = self._clause(name, at)
        if clause or name in AGGREGATIONS:
            return Aggregation(name, clause, labels, at, arguments)
        return Call(name, arguments)

    def _clause(self, name: str, at: int) -> tuple[str, frozenset[str], int]:
        """Parse by or without with its labels; more labels can be added ``at``."""
        if not self._has_clause():
            return "", frozenset(), at
        if name not in AGGREGATIONS:
            self._mistake()
        return self._next().text.lower(), *self._labels()

    def _selector(self, name: str) -> Node:
        mistakes = self._mistakes
        at = self._tokens[self._at - 1].end if name else 0
        matchers: list[Matcher] = []
        if self._peek().text == "{":
            at = self._next().end
            for _ in self._items("}"):
                matchers += self._matcher()
        if self._mistakes > mistakes:
            return UnsupportedExpression(is_selector=True)
        return VectorSelector(name, tuple(matchers), at=at)

    def _matcher(self) -> Iterator[Matcher]:
        label, operator, value = self._next(), self._peek(), self._peek(1)
        if label.kind == "string" and operator.text in {
            ",",
            "}",
        }:  # A quoted name may have any characters.
            yield Matcher("__name__", "=", label.plain, f"__name__={label.text}")
        elif (
            label.kind not in {"word", "string"}
            or operator.text not in _MATCHER_OPERATORS
            or value.kind != "string"
        ):
            self._mistake()
        else:
            self._at += 2
            written = f"{label.text}{operator.text}{value.text}"
            yield Matcher(label.plain, operator.text, value.plain, written)


def _looking_back(node: Node, window: str | None, offset: str) -> Node:
    """Note a range or an offset after an expression."""
    if isinstance(node, VectorSelector) and not node.offset and None in {window, node.range}:
        return replace(node, range=node.range if window is None else window, offset=offset)
    return Subquery(node, window, offset)
