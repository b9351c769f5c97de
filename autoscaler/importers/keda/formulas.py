"""A formula of KEDA's scalingModifiers -> one PromQL.

Formulas are in the language expr, of which numbers, conditions and what is made of them have a
counterpart: https://expr-lang.org/docs/language-definition.  Every operand is one element without
labels, so that a condition is whether there is an element: `a and c or b` is `c ? a : b`.
"""

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from autoscaler.importers.keda.promql import operand

_LONGEST = 1_000
_LONGEST_PROMQL = 10_000
_DEEPEST = 60
_MOST_OF_A_LIST = 20

_TOKEN = re.compile(
    r"(?P<number>(?:[0-9][0-9_]*+(?:\.[0-9]++)?|\.[0-9]++)(?:[eE][-+]?[0-9]++)?)"
    r"|(?P<name>[A-Za-z_$][A-Za-z0-9_$]*+)"
    r"|(?P<sign>\*\*|[<>=!]=|&&|\|\||\?\?|\?\.|\.\.|[-+*/%^<>!?:(),\[\]{}#.|])"
    r"|(?P<blank>\s++)"
    r"|(?P<other>.)",
    re.DOTALL,
)

_OR, _AND, _COMPARISON, _SUM, _PRODUCT, _POWER, _WHOLE = range(1, 8)
"""How tightly PromQL binds; the larger first."""

_BINDING = {
    "||": 10,
    "or": 10,
    "&&": 15,
    "and": 15,
    **dict.fromkeys(("==", "!=", "<", ">", "<=", ">="), 20),
    "+": 30,
    "-": 30,
    "*": 60,
    "/": 60,
    "%": 60,
    "**": 100,
    "^": 100,
}
"""How tightly the operators of expr bind."""
_OF_NOT, _OF_SIGN = 50, 90
_WORDS = {"&&": "and", "||": "or", "**": "^"}
_LEVELS = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "^": _POWER}
_COMPARED = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
_COMPUTED: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "^": operator.pow,
}


@dataclass(frozen=True)
class Trigger:
    """A trigger that a formula names: its query, and whether a missing value of it is 0."""

    promql: str
    missing_is_zero: bool = True


class _FormulaPart(NamedTuple):
    """An expression in PromQL, or a constant."""

    text: str
    level: int = _WHOLE
    constant: float | None = None
    is_condition: bool = False
    truth: bool | None = None
    """Of a condition that is always so."""
    as_number: str = ""
    """A comparison as 1 or 0."""


def promql_of(formula: str, triggers: Mapping[str, Trigger]) -> str:
    """Write a formula over the triggers that it names as PromQL, of one element without labels.

    It has no element where a trigger has none whose missing value is not 0.  Raises ValueError
    with a sentence for what has no counterpart, and for what KEDA refuses.  The time is linear.
    """
    if len(formula) > _LONGEST:
        raise ValueError(f"has {len(formula):,} characters, more than {_LONGEST:,}")
    parser = _Parser(formula, triggers)
    result = _vector(_number(parser.whole()))
    strict = [part for name, part in parser.used.items() if not triggers[name].missing_is_zero]
    if not strict or not parser.chooses:
        return result.text
    # A choice would hide that one of them is missing, with which KEDA computes nothing.
    return " and ".join((_within(result, _AND), *(part.text for part in strict)))


class _Parser:
    def __init__(self, formula: str, triggers: Mapping[str, Trigger]) -> None:
        self._tokens = [
            (match.lastgroup or "", match[0])
            for match in _TOKEN.finditer(formula)
            if match.lastgroup != "blank"
        ]
        self._at = 0
        self._triggers = triggers
        self._depth = 0
        self._element: _FormulaPart | None = None
        """What `#` stands for."""
        self.used: dict[str, _FormulaPart] = {}
        """The triggers that were named, each with what stands for it."""
        self.chooses = False
        """Whether a value may be left out of the result."""

    def whole(self) -> _FormulaPart:
        part = self._expression()
        if self._peek():
            raise ValueError(f"has {_shown(self._peek())} where an operator belongs")
        return part

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _take(self, *signs: str) -> bool:
        if self._peek() not in signs:
            return False
        self._at += 1
        return True

    def _need(self, sign: str) -> None:
        if not self._take(sign):
            raise ValueError(f"has {_shown(self._peek())} where {sign} belongs")

    @contextmanager
    def _one_deeper(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError("has too many expressions in one another")
        yield
        self._depth -= 1

    def _expression(self) -> _FormulaPart:
        with self._one_deeper():
            part = self._binary(0)
            if not self._take("?"):
                return part
            yes = self._expression()
            self._need(":")
            return self._choice(part, yes, self._expression())

    def _choice(self, condition: _FormulaPart, yes: _FormulaPart, no: _FormulaPart) -> _FormulaPart:
        condition, yes, no = _condition(condition), _number(yes), _number(no)
        if condition.truth is not None:
            return yes if condition.truth else no
        self.chooses = True
        chosen = f"{_within(_vector(yes), _AND)} and {_within(condition, _AND + 1)}"
        return _part(f"{chosen} or {_within(_vector(no), _OR + 1)}", _OR)

    def _binary(self, least: int) -> _FormulaPart:
        with self._one_deeper():
            left = self._unary()
            while (binding := _BINDING.get(self._peek(), -1)) >= least:
                sign = self._peek()
                self._at += 1
                # Powers are computed from the right.
                right = self._binary(binding if binding == _BINDING["^"] else binding + 1)
                left = self._combined(left, _WORDS.get(sign, sign), right)
            return left

    def _combined(self, left: _FormulaPart, sign: str, right: _FormulaPart) -> _FormulaPart:
        if sign in ("and", "or"):
            self.chooses = True
            return _logical(_condition(left), sign, _condition(right))
        if left.is_condition or right.is_condition:
            raise ValueError(f"has {sign} of a condition, which this conversion does not write")
        if sign in _COMPARED:
            self.chooses = True
            return _compared(left, sign, right)
        if sign == "%":
            raise ValueError("has %, which KEDA refuses for the values of triggers")
        return _computed(left, sign, right)

    def _unary(self) -> _FormulaPart:
        if self._take("not", "!"):
            self.chooses = True
            return _negated(_condition(self._binary(_OF_NOT)))
        if self._take("-"):
            part = _number(self._binary(_OF_SIGN))
            if part.constant is not None:
                return _constant(-part.constant)
            return _part(f"-{_within(part, _POWER)}", _PRODUCT)
        if self._take("+"):
            return _number(self._binary(_OF_SIGN))
        return self._primary()

    def _primary(self) -> _FormulaPart:
        kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
        self._at += 1
        if kind == "number":
            return _constant(float(text.replace("_", "")))
        if text == "(":
            part = self._expression()
            self._need(")")
            return part
        if text == "#" and self._element is not None:
            return self._element
        if text in ("true", "false"):
            return _FormulaPart("", is_condition=True, truth=text == "true")
        if kind == "name" and self._peek() == "(":
            return self._call(text)
        if kind == "name":
            return self._trigger(text)
        raise ValueError(f"has {_shown(text)}, which this conversion does not write as PromQL")

    def _trigger(self, name: str) -> _FormulaPart:
        trigger = self._triggers.get(name)
        if trigger is None:
            known = ", ".join(self._triggers) or "none"
            raise ValueError(f"has {_shown(name)}, but prometheus triggers are named {known}")
        if name not in self.used:
            _part(trigger.promql)  # a query that is too long is not read
            try:
                text = operand(trigger.promql, missing_is_zero=trigger.missing_is_zero)
            except ValueError as error:
                raise ValueError(f"the query of `{name}` is not understood: {error}") from None
            self.used[name] = _part(text)
        return self.used[name]

    def _call(self, name: str) -> _FormulaPart:
        self._need("(")
        if name in _OF_CLOSURES:
            return self._of_closure(name)
        values = self._values(")")
        if name in ("max", "min") and values:
            self.chooses = True
        if name in _OF_ONE and len(values) == 1:
            return _OF_ONE[name](_number(values[0]))
        if name in _OF_MANY and values:
            return _OF_MANY[name]([_number(value) for value in values])
        raise ValueError(f"calls {_shown(name)}, which this conversion does not write as PromQL")

    def _values(self, end: str) -> list[_FormulaPart]:
        """Read arguments, or the elements of a list; a list among them stands for its elements."""
        values: list[_FormulaPart] = []
        with self._one_deeper():
            while not self._take(end):
                values += self._values("]") if self._take("[") else [self._expression()]
                if len(values) > _MOST_OF_A_LIST:
                    raise ValueError(f"has a list of more than {_MOST_OF_A_LIST} values")
                if self._peek() != end:
                    self._need(",")
            return values

    def _of_closure(self, name: str) -> _FormulaPart:
        """Read `count([a, b], {# > 1})` and its like: the condition, of each value of the list."""
        self._need("[")
        values = self._values("]")
        self._need(",")
        begin, conditions = self._at, []
        if self._element is not None or not values:
            raise ValueError(f"calls {name} within another, or of an empty list")
        for value in values:
            self._at, self._element = begin, value
            braces = self._take("{")
            conditions.append(_condition(self._expression()))
            if braces:
                self._need("}")
        self._element = None
        self._need(")")
        self.chooses = True
        return _OF_CLOSURES[name](conditions)


def _part(text: str, level: int = _WHOLE, *, is_condition: bool = False) -> _FormulaPart:
    if len(text) > _LONGEST_PROMQL:
        raise ValueError(f"becomes PromQL of more than {_LONGEST_PROMQL:,} characters")
    return _FormulaPart(text, level, is_condition=is_condition)


def _shown(text: str) -> str:
    return f"`{text}`" if text and text.isprintable() else "an end"


def _constant(value: float) -> _FormulaPart:
    if not math.isfinite(value):
        raise ValueError("has a number that is infinite, or too large")
    text = str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    return _FormulaPart(text, _WHOLE if value >= 0 else _PRODUCT, value)


def _vector(part: _FormulaPart) -> _FormulaPart:
    return part if part.constant is None else _FormulaPart(f"vector({part.text})")


def _within(part: _FormulaPart, level: int) -> str:
    """Write a part where PromQL binds so tightly."""
    return part.text if part.level >= level else f"({part.text})"


def _number(part: _FormulaPart) -> _FormulaPart:
    if part.is_condition:
        raise ValueError(
            "has a condition where a number belongs, as KEDA refuses: write `c ? 1 : 0`"
        )
    return part


def _condition(part: _FormulaPart) -> _FormulaPart:
    if not part.is_condition:
        raise ValueError("has a number where a condition belongs, as KEDA refuses: write `x > 0`")
    return part


def _computed(left: _FormulaPart, sign: str, right: _FormulaPart) -> _FormulaPart:
    if left.constant is not None and right.constant is not None:
        try:
            value = _COMPUTED[sign](left.constant, right.constant)
        except (ArithmeticError, ValueError):
            raise ValueError(
                f"computes {left.text} {sign} {right.text}, which is no number"
            ) from None
        if isinstance(value, complex):
            raise ValueError(f"computes {left.text} {sign} {right.text}, which is no number")
        return _constant(value)
    level = _LEVELS[sign]
    # Of equal ones PromQL computes the left first, but powers from the right.
    sides = (level + 1, level) if sign == "^" else (level, level + 1)
    return _part(f"{_within(left, sides[0])} {sign} {_within(right, sides[1])}", level)


def _compared(left: _FormulaPart, sign: str, right: _FormulaPart) -> _FormulaPart:
    if left.constant is not None and right.constant is not None:
        truth = _COMPARED[sign](left.constant, right.constant)
        return _FormulaPart("", is_condition=True, truth=bool(truth))
    a, b = _within(left, _COMPARISON + 1), _within(right, _COMPARISON + 1)
    part = _part(f"{a} {sign} {b}", _COMPARISON, is_condition=True)
    return part._replace(as_number=f"({a} {sign} bool {b})")


def _logical(left: _FormulaPart, sign: str, right: _FormulaPart) -> _FormulaPart:
    for one, other in ((left, right), (right, left)):
        if one.truth is not None:
            return other if one.truth == (sign == "and") else one
    level = _AND if sign == "and" else _OR
    return _part(
        f"{_within(left, level)} {sign} {_within(right, level + 1)}", level, is_condition=True
    )


def _negated(part: _FormulaPart) -> _FormulaPart:
    if part.truth is not None:
        return part._replace(truth=not part.truth)
    return _part(f"vector(1) unless {_within(part, _AND + 1)}", _AND, is_condition=True)


def _as_number(condition: _FormulaPart) -> _FormulaPart:
    """Write a condition as 1 or 0."""
    if condition.truth is not None:
        return _constant(float(condition.truth))
    if condition.as_number:
        return _part(condition.as_number)
    return _part(f"vector(1) and {_within(condition, _AND + 1)} or vector(0)", _OR)


def _total(values: Sequence[_FormulaPart]) -> _FormulaPart:
    total = values[0]
    for value in values[1:]:
        total = _computed(total, "+", value)
    return total


def _mean(values: Sequence[_FormulaPart]) -> _FormulaPart:
    return _computed(_total(values), "/", _constant(float(len(values))))


def _extreme(sign: str, clamp: str) -> Callable[[Sequence[_FormulaPart]], _FormulaPart]:
    best: Callable[..., float] = max if sign == ">=" else min

    def one_of(values: Sequence[_FormulaPart]) -> _FormulaPart:
        constants = [value.constant for value in values if value.constant is not None]
        varying = [value for value in values if value.constant is None]
        if not varying:
            return _constant(best(constants))
        part = varying[0]
        for other in varying[1:]:
            left = f"{_within(part, _COMPARISON)} {sign} {_within(other, _COMPARISON + 1)}"
            part = _part(f"{left} or {_within(other, _OR + 1)}", _OR)
        return _part(f"{clamp}({part.text}, {best(constants):g})") if constants else part

    return one_of


def _function(name: str) -> Callable[[_FormulaPart], _FormulaPart]:
    return lambda part: _part(f"{name}({_vector(part).text})")


def _away_from_zero(name: str) -> Callable[[_FormulaPart], _FormulaPart]:
    """Write what goes by the distance from 0 in expr, and by the value in PromQL."""

    def of(part: _FormulaPart) -> _FormulaPart:
        text = _vector(part).text
        return _part(f"sgn({text}) * {name}(abs({text}))", _PRODUCT)

    return of


def _how_many(conditions: Sequence[_FormulaPart]) -> _FormulaPart:
    return _total([_as_number(one) for one in conditions])


def _all_of(conditions: Sequence[_FormulaPart]) -> _FormulaPart:
    result = conditions[0]
    for one in conditions[1:]:
        result = _logical(result, "and", one)
    return result


def _any_of(conditions: Sequence[_FormulaPart]) -> _FormulaPart:
    result = conditions[0]
    for one in conditions[1:]:
        result = _logical(result, "or", one)
    return result


_OF_ONE: dict[str, Callable[[_FormulaPart], _FormulaPart]] = {
    "float": lambda part: part,
    "int": _away_from_zero("floor"),
    "round": _away_from_zero("round"),
    "abs": _function("abs"),
    "ceil": _function("ceil"),
    "floor": _function("floor"),
}
_OF_MANY: dict[str, Callable[[Sequence[_FormulaPart]], _FormulaPart]] = {
    "max": _extreme(">=", "clamp_min"),
    "min": _extreme("<=", "clamp_max"),
    "sum": _total,
    "mean": _mean,
}
_OF_CLOSURES: dict[str, Callable[[Sequence[_FormulaPart]], _FormulaPart]] = {
    "count": _how_many,
    "any": _any_of,
    "all": _all_of,
    "none": lambda conditions: _negated(_any_of(conditions)),
    "one": lambda conditions: _compared(_how_many(conditions), "==", _constant(1.0)),
}
