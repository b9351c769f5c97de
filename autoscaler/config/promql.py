"""What is read from PromQL: how far it looks back, whether it is a condition, its selectors.

This is no parser of PromQL: each function says what it makes of parts that it does not understand,
and what is wrong may be taken for anything.  All of it takes time in proportion to the text.
https://prometheus.io/docs/prometheus/latest/querying/basics/
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from autoscaler.config import durations
from autoscaler.config.promql_tokens import (
    AGGREGATIONS,
    COMPARISONS,
    MATCHER_OPERATORS,
    PromqlToken,
    tokens_of,
)

_MOST_CHARACTERS = 64 << 10
"""Of an expression whose selectors are read."""

_NUMBER = r"[0-9]{1,18}(?:\.[0-9]{1,18})?"
_DURATION = re.compile(rf"(?:{_NUMBER}(?:ms|[smhdwy]))++|{_NUMBER}")
_PART = re.compile(rf"({_NUMBER})(ms|[smhdwy])")
_LABEL_LISTS = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_WORDS = frozenset({"and", "or", "unless", "bool", "atan2", "inf", "nan", "start", "end"})
"""Words that are no metric."""
_NAME = ("__name__", "=")


def _seconds(text: str) -> float | None:
    """Return the seconds of a duration; None for anything else, such as arithmetic."""
    if _DURATION.fullmatch(text) is None:
        return None
    if not text[-1].isalpha():
        return float(text)
    return math.fsum(float(count) * durations.UNITS[unit] for count, unit in _PART.findall(text))


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

    def range(self) -> str:
        """Return what is written in brackets that are open, of a subquery without its step."""
        written = takewhile(lambda token: token.text != "]", self)
        return "".join(token.text for token in written).partition(":")[0]


UNKNOWN_RANGE = 300.0
"""The seconds of a range that is not understood, and of one that is left out in MetricsQL."""
_OF_THE_LAST_SAMPLES = frozenset({"last_over_time", "irate", "idelta"})
"""Functions that look at the end of their range only: what was lost before makes no difference."""
_OF_A_RANGE = re.compile(
    r"(?:rate|increase|delta|deriv|changes|resets|predict_linear|holt_winters|rollup|integrate"
    r"|double_exponential_smoothing|lag|lifetime)(?:_\w+)?|\w+_over_time"
)
"""Functions of a range, which may be left out in MetricsQL."""


@dataclass(slots=True)
class _Lookback:
    """How far back the text between two brackets looks; ``caller`` is the function before them."""

    caller: str = ""
    longest: float = 0.0
    has_range: bool = False


def range_of(promql: str, unknown: float = UNKNOWN_RANGE) -> float:
    """Return the seconds before its evaluation that an expression may take samples from.

    0 for an instant selector: the lookback of Prometheus is not counted, since a series ends with
    the first scrape that fails.  A range after a closing parenthesis is a subquery's, and begins
    where the ranges inside begin.  A range or offset that is not understood counts as ``unknown``.
    """
    tokens = _Tokens(promql)
    levels = [_Lookback()]
    before, last = 0.0, _END
    """How far that looks back which the next range or offset belongs to, and the last token."""
    for token in tokens:
        text, previous, last = token.text.lower(), last, token
        if text in {"(", "{"}:
            called = text == "(" and previous.kind == "word"
            levels.append(_Lookback(previous.text.lower() if called else ""))
            before = 0.0
        elif text in {")", "}"} and len(levels) > 1:
            inner = levels.pop()
            before = inner.longest
            levels[-1].has_range |= inner.has_range and not inner.caller
            if not inner.has_range and inner.caller not in _OF_THE_LAST_SAMPLES:
                before += unknown if _OF_A_RANGE.fullmatch(inner.caller) else 0.0
        elif text == "[":
            seconds = _seconds(tokens.range())
            levels[-1].has_range = True
            if levels[-1].caller not in _OF_THE_LAST_SAMPLES:
                before += unknown if seconds is None else seconds
        elif text == "offset" and (
            previous.kind in {"word", "number"} or previous.text in {*")}["}
        ):
            is_ahead, seconds = tokens.take("-"), _seconds(tokens.peek().text)
            before += unknown if seconds is None else seconds * (not is_ahead)
        elif token.kind != "string":
            before = 0.0
        levels[-1].longest = max(levels[-1].longest, before)
    return max(level.longest for level in levels)


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
    filters: bool = False
    """Whether a comparison has chosen series whose value something else may change or pass on."""
    caller: str = ""
    """The word before the parentheses."""
    word: str = ""
    """The last word that is no list of labels, until another sign."""

    def end_side(self) -> None:
        self.is_one_side |= self.is_condition
        self.settled, self.compared, self.parts, self.inner = False, None, 0, False

    @property
    def is_condition(self) -> bool:
        own = self.inner and self.parts == 1
        return self.is_one_side or (own if self.compared is None else self.compared)

    def take_group(self, group: "_Group", *, is_round: bool) -> None:
        if self.labels:
            self.labels = False
        elif not self.settled:
            self.parts += 1
            self.inner = group.is_condition and is_round
            if is_round and _NEVER_ZERO.fullmatch(group.caller) is None:
                self.filters |= group.is_condition or group.filters

    def take(self, text: str, then: str) -> None:
        if text in {"and", "unless"}:
            self.settled = True
        elif text in {"on", "ignoring"}:
            self.labels = True
        elif text in COMPARISONS or text == "bool":
            self.compared = text != "bool"
            self.filters |= "bool" not in {text, then}
        else:
            self.parts += 1


_NEVER_ZERO = re.compile(r"count(?:_values)?|group|absent|(?:count|absent|present)_over_time")
"""Functions whose value is never 0, whatever the values are that they take."""


def is_condition(promql: str) -> bool | None:
    """Return whether the last that is done is to compare, without ``bool``; None if it is unclear.

    A comparison returns the series that it is true for: ``up == 0`` those whose value is 0.  It is
    unclear what a 0 means where these go through anything else, as in ``sort(up == 0)``.
    """
    groups, tokens = [_Group()], _Tokens(promql)
    for kind, written, _ in tokens:
        text, group = written.lower(), groups[-1]
        if text in {"(", "[", "{"}:
            groups.append(_Group(caller=group.word))
        elif text in {")", "]", "}"} and len(groups) > 1:
            groups.pop()
            groups[-1].take_group(group, is_round=text == ")")
        elif text in {"or", "default", ","}:
            group.end_side()
        elif kind != "string" and not group.settled:
            group.take(text, tokens.peek().text.lower())
        if kind != "string" and text not in _LABEL_LISTS | {*"()[]{}"}:
            group.word = text if kind == "word" else ""
    return groups[0].is_condition or (None if groups[0].filters else False)


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
    duration = tokens.range() if tokens.take("[") else ""
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
