"""What is read from PromQL: how far it looks back, whether it is a condition, its selectors.

This is no parser of PromQL: what it does not understand it leaves out, and what is wrong may be
taken for anything.  All of it takes time in proportion to the text.
https://prometheus.io/docs/prometheus/latest/querying/basics/
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from autoscaler.promql_tokens import (
    AGGREGATIONS,
    COMPARISONS,
    MATCHER_OPERATORS,
    PromqlToken,
    tokens_of,
)
from autoscaler.settings import durations

_MOST_CHARACTERS = 64 << 10
"""Of an expression whose selectors are read."""

_DURATION = re.compile(r"(?:[0-9]{1,18}(?:ms|[smhdwy]))++|[0-9]{1,18}(?:\.[0-9]{1,18})?")
_PART = re.compile(r"([0-9]{1,18})(ms|[smhdwy])")
_LABEL_LISTS = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_WORDS = frozenset({"and", "or", "unless", "bool", "atan2", "inf", "nan", "start", "end"})
"""Words that are no metric."""
_NAME = ("__name__", "=")


def _seconds(token: PromqlToken) -> float | None:
    if _DURATION.fullmatch(token.text) is None:
        return None
    if not token.text[-1].isalpha():
        return float(token.text)
    parts = _PART.findall(token.text)
    return float(sum(int(count) * durations.UNITS[unit] for count, unit in parts))


_END = PromqlToken("", "")


class _Tokens:
    """The tokens of an expression but blanks and comments, which are read once."""

    def __init__(self, promql: str) -> None:
        self._tokens = list(tokens_of(promql))
        self._at = 0

    def __iter__(self) -> Iterator[PromqlToken]:
        while self._at < len(self._tokens):
            yield self.next()

    def next(self) -> PromqlToken:
        token = self.peek()
        self._at += 1
        return token

    def peek(self) -> PromqlToken:
        return self._tokens[self._at] if self._at < len(self._tokens) else _END

    def take(self, sign: str) -> bool:
        if self.peek().text != sign:
            return False
        self._at += 1
        return True

    def skip_to(self, sign: str) -> bool:
        return any(token.text == sign for token in self)

    def range(self) -> PromqlToken:
        """Return the duration in brackets that are open, of a subquery without its step."""
        duration = self.next()
        closed = self.peek().text[:1] in {"]", ":"} and self.skip_to("]")
        return duration if closed and _seconds(duration) is not None else _END


_OF_THE_LAST_SAMPLES = frozenset({"last_over_time", "irate", "idelta"})
"""Functions that look at the end of their range only: what was lost before makes no difference."""


def range_of(promql: str) -> float:
    """Return the seconds before its evaluation that an expression may take samples from.

    0 for an instant selector: the lookback of Prometheus is not counted, since a series ends with
    the first scrape that fails.  A range after a closing parenthesis is a subquery's, and begins
    where the ranges inside begin.
    """
    tokens = _Tokens(promql)
    longest = [0.0]
    callers = [""]
    before = 0.0
    """How far that looks back which the next range or offset belongs to."""
    word = ""
    for token in tokens:
        caller, word = word, token.text if token.kind == "word" else ""
        if token.text in {"(", "{"}:
            longest.append(0.0)
            callers.append(caller)
            before = 0.0
        elif token.text in {")", "}"} and len(longest) > 1:
            before = longest.pop()
            callers.pop()
        elif token.text == "[":
            length = _seconds(tokens.range()) or 0.0
            before += 0.0 if callers[-1] in _OF_THE_LAST_SAMPLES else length
        elif token.text.lower() == "offset" and (seconds := _seconds(tokens.peek())) is not None:
            before += seconds
            tokens.next()
        elif token.kind != "string":
            before = 0.0
        longest[-1] = max(longest[-1], before)
    return max(longest)


@dataclass(slots=True)
class _Group:
    """What stands between two brackets; of `and` and `unless` the left side gives the series."""

    is_one_side: bool = False
    """Whether a side of `or` that was read is a condition."""
    settled: bool = False
    """Whether the rest of this side, after `and` or `unless`, only chooses."""
    compared: bool | None = None
    """Whether the last comparison of this side is without `bool`; None if it has none."""
    parts: int = 0
    """Of this side; one in parentheses that is alone is the side."""
    inner: bool = False
    labels: bool = False
    """Whether the next parentheses hold labels, as after `on`."""

    def end_side(self) -> None:
        self.is_one_side |= self.is_condition
        self.settled, self.compared, self.parts, self.inner = False, None, 0, False

    @property
    def is_condition(self) -> bool:
        own = self.inner and self.parts == 1
        return self.is_one_side or (own if self.compared is None else self.compared)

    def take_group(self, *, inner: bool) -> None:
        if self.labels:
            self.labels = False
        elif not self.settled:
            self.parts += 1
            self.inner = inner

    def take(self, text: str) -> None:
        if text in {"and", "unless"}:
            self.settled = True
        elif text in {"on", "ignoring"}:
            self.labels = True
        elif text in COMPARISONS or text == "bool":
            self.compared = text != "bool"
        else:
            self.parts += 1


def is_condition(promql: str) -> bool:
    """Return whether the last that is done is to compare, without ``bool``.

    A comparison returns the series that it is true for: ``up == 0`` those whose value is 0, which
    means that they are there.
    """
    groups = [_Group()]
    for kind, written, _ in _Tokens(promql):
        text, group = written.lower(), groups[-1]
        if text in {"(", "[", "{"}:
            groups.append(_Group())
        elif text in {")", "]", "}"} and len(groups) > 1:
            groups.pop()
            groups[-1].take_group(inner=group.is_condition and text == ")")
        elif text == "or":
            group.end_side()
        elif kind != "string" and not group.settled:
            group.take(text)
    return groups[0].is_condition


@dataclass(frozen=True, slots=True)
class Matcher:
    """A matcher as it is written, the value in its quotes."""

    label: str
    operator: str
    value: str

    def __str__(self) -> str:
        return f"{self.label}{self.operator}{self.value}"


@dataclass(frozen=True, slots=True)
class VectorSelector:
    """A vector selector; ``range`` and ``offset`` are durations, empty where there is none."""

    name: str
    matchers: tuple[Matcher, ...] = ()
    range: str = ""
    offset: str = ""

    def __str__(self) -> str:
        listed = ",".join(map(str, self.matchers))
        return self.name + (f"{{{listed}}}" if listed or not self.name else "")

    def only(self, *matchers: Matcher) -> "VectorSelector":
        """Return the selector with these matchers alone."""
        return replace(self, matchers=matchers)

    @property
    def name_matchers(self) -> tuple[Matcher, ...]:
        """The matchers that name the metric, where the name is not before the braces."""
        return tuple(
            matcher for matcher in self.matchers if (matcher.label, matcher.operator) == _NAME
        )

    @property
    def promql(self) -> str:
        """An expression for the last sample of each series that it begins with."""
        offset = f" offset {self.offset}" if self.offset else ""
        if self.range:
            return f"last_over_time({self}[{self.range}]{offset})"
        return f"{self}{offset}"


def selectors_of(promql: str) -> Sequence[VectorSelector]:
    """Return the different vector selectors of an expression, in their order."""
    found = (selector for _, selector in _selectors(_Tokens(promql[:_MOST_CHARACTERS])))
    return tuple(dict.fromkeys(one for one in found if one is not None))


# What these give may be of other series than those that have the same labels.
_MIXING = frozenset(
    {
        *("ignoring", "label_replace", "label_join", "info"),
        *("topk", "bottomk", "limitk", "limit_ratio", "count_values", "scalar", "absent"),
        "absent_over_time",
    }
)


def narrowed(promql: str, *matchers: Matcher) -> str | None:
    """Return an expression for some of the series: those whose labels fit.

    Each selector gets the matchers.  None if the expression is not understood, or if the series
    that fit may depend on others.
    """
    if len(promql) > _MOST_CHARACTERS:
        return None
    if any(one.kind == "word" and one.text.lower() in _MIXING for one in tokens_of(promql)):
        return None
    if not all({one.label for one in matchers} <= labels for labels in _matched_labels(promql)):
        return None
    listed = ",".join(map(str, matchers))
    parts: list[str] = []
    before = 0
    for at, selector in _selectors(_Tokens(promql)):
        if selector is None:
            return None
        own = "," if selector.matchers else ""
        added = f"{listed}{own}" if promql[at - 1] == "{" else f"{{{listed}}}"
        parts += (promql[before:at], added)
        before = at
    return "".join((*parts, promql[before:])) if parts else None


def _matched_labels(promql: str) -> Iterator[set[str]]:
    """Yield the labels of each `on`, by which series of both sides are matched."""
    tokens = _Tokens(promql)
    for token in tokens:
        if token.kind == "word" and token.text.lower() == "on" and tokens.take("("):
            yield {one.text for one in takewhile(lambda one: one.text != ")", tokens)}


def _selectors(tokens: _Tokens) -> Iterator[tuple[int, VectorSelector | None]]:
    """Yield selectors, each with where its matchers begin; None for one that is not understood."""
    for token in tokens:
        then = tokens.peek()
        if token.kind == "word" and then.text == "(":
            if token.text.lower() in _LABEL_LISTS:
                tokens.skip_to(")")
        elif token.text == "{" or (token.kind == "word" and not _is_word(token, then)):
            brace = next((one for one in (token, then) if one.text == "{"), None)
            end = token.start + len(token.text)
            yield end if brace is None else brace.start + 1, _selector(token, tokens)
        elif token.text == "[":
            tokens.skip_to("]")


def _selector(first: PromqlToken, tokens: _Tokens) -> VectorSelector | None:
    """Read the rest of a selector; None for what is not understood."""
    matchers: list[Matcher] = []
    name = "" if first.text == "{" else first.text
    if first.text == "{" or tokens.take("{"):
        while not tokens.take("}"):
            matcher = _matcher(tokens)
            if matcher is None or not (tokens.peek().text == "}" or tokens.take(",")):
                tokens.skip_to("}")
                return None
            matchers.append(matcher)
    if not name and not matchers:
        return None
    duration = tokens.range().text if tokens.take("[") else ""
    offset = ""
    if tokens.peek().text.lower() == "offset":
        tokens.next()
        sign = "-" if tokens.take("-") else ""
        offset = sign + tokens.next().text
    return VectorSelector(name, tuple(matchers), duration, offset)


def _matcher(tokens: _Tokens) -> Matcher | None:
    label, operator = tokens.next(), tokens.peek().text
    if label.kind == "string" and operator in {",", "}"}:  # a name of any characters
        return Matcher("__name__", "=", label.text)
    if label.kind not in {"word", "string"} or operator not in MATCHER_OPERATORS:
        return None
    tokens.next()
    value = tokens.next()
    return Matcher(label.text, operator, value.text) if value.kind == "string" else None


def _is_word(token: PromqlToken, then: PromqlToken) -> bool:
    word = token.text.lower()
    if word in AGGREGATIONS:
        return then.text.lower() in _LABEL_LISTS
    return word in _WORDS | _LABEL_LISTS | {"offset"}
