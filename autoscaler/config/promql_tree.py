"""The tokens and the tree of an expression of PromQL, which `promql_parser` reads.

https://prometheus.io/docs/prometheus/latest/querying/basics/
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

# A string that is never closed goes on to the end, so that no part of a text is read twice.
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
        """The text, that of a string without its quotes."""
        return unquoted(self.text) if self.kind == "string" else self.text


def tokens_of(promql: str) -> Iterator[PromqlToken]:
    """Yield the tokens of an expression but blanks and comments."""
    for match in _TOKEN.finditer(promql):
        if match.lastgroup != "blank":
            yield PromqlToken(match.lastgroup or "", match[0], match.start())


@dataclass(frozen=True, slots=True)
class Matcher:
    """A matcher, label and value without quotes; ``written`` is how an expression has it."""

    label: str
    operator: str
    value: str
    written: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.written or f"{self.label}{self.operator}{quoted(self.value)}"


@dataclass(frozen=True, slots=True)
class VectorSelector:
    """A vector selector, its name empty where only matchers say it.

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

    def only(self, *matchers: Matcher) -> "VectorSelector":
        """Return the selector with these matchers alone."""
        return replace(self, matchers=matchers)

    @property
    def name_matchers(self) -> tuple[Matcher, ...]:
        """The matchers that name the metric, where the name is not before the braces."""
        named = ("__name__", "=")
        return tuple(one for one in self.matchers if (one.label, one.operator) == named)

    @property
    def promql(self) -> str:
        """An expression for the last sample of each series that it begins with."""
        offset = f" offset {self.offset}" if self.offset else ""
        if self.range:
            return f"last_over_time({self}[{self.range}]{offset})"
        return f"{self}{offset}"


@dataclass(frozen=True, slots=True)
class Subquery:
    """Any other expression that a range or an offset, as written, follows."""

    expression: "Node"
    range: str | None = None
    offset: str = ""


@dataclass(frozen=True, slots=True)
class Literal:
    """A number or a string."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function and its arguments: `-` of a sign, nothing of parts without an operator."""

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

    ``group`` is left, right or nothing; ``is_bool`` whether a comparison gives 0 or 1.
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
class NotUnderstood:
    """A selector that is not understood, or an expression that is too deep or long."""

    is_selector: bool


Node: TypeAlias = VectorSelector | Subquery | Literal | Call | Aggregation | Binary | NotUnderstood


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
        case Binary(left=left, right=right):
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
    """Return a text as a string of PromQL."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def unquoted(text: str) -> str:
    """Return what a string of PromQL says; escapes other than of a sign stay as they are."""
    if text[:1] not in {'"', "'"}:
        return text[1:-1]
    inner = text[1:-1].split("\\\\")
    return "\\".join(part.replace('\\"', '"').replace("\\'", "'") for part in inner)
