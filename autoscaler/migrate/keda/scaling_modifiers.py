"""Converts the scalingModifiers of a ScaledObject to one metric with PromQL for their formula.

Every operand is one element without labels, and a condition is true if there is an element.
https://keda.sh/docs/latest/concepts/scaling-deployments/#scaling-modifiers
"""

import ast
import keyword
import re
from typing import TypeAlias

from autoscaler.core.text import printable
from autoscaler.migrate.drafts import SharedSettings, external
from autoscaler.migrate.fields import Fields
from autoscaler.migrate.keda.metadata import parsed
from autoscaler.migrate.keda.triggers import FormulaTrigger, Triggers
from autoscaler.migrate.promql_answers import operand

_LONGEST, _LONGEST_PROMQL, _LONGEST_SHOWN = 1_000, 10_000, 300
_READ = re.compile(r"[A-Za-z0-9_.+\-*/()<>=!,?:&\s]*")
_LET = re.compile(r"\s*let\s+([A-Za-z_]\w*)\s*=(?!=)([^;]*);(.*)", re.DOTALL)
_COMPUTED = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_COMPARED = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_NO_FORMULA = "is required: KEDA refuses scalingModifiers without it"
_NO_TARGET = "must be a number above 0, as KEDA requires: write what one replica is to bear"
_NOT_EXTERNAL = "KEDA refuses it for a formula: write AverageValue or Value"
_SEVERAL_SERVERS = "combines triggers of several servers, which no query does"
_INSTEAD = "write it as one query in PromQL, and a metric of type External on it"
_DIFFERENT = "it is computed in one query; where its value is NaN, nothing goes down"
_REFUSED = (
    "has more than + - * /, `c ? a : b` of comparisons and `&&`, `??`, min, max, ceil, floor and "
    "`let`, which this conversion does not write as PromQL"
)
_Written: TypeAlias = tuple[str, bool]
"""PromQL, and whether it is a scalar."""


def add_composite(
    modifiers: Fields, triggers: Triggers, shared: SharedSettings, *, knows_nil: bool
) -> None:
    """Add the metric of the formula, which replaces all prometheus triggers, as the first."""
    formula = modifiers.get("formula")
    target, activation = (_number(modifiers, key) for key in ("target", "activationTarget"))
    if modifiers.peek("target") is None or (target is not None and target <= 0):
        modifiers.refused("target", why=_NO_TARGET)
        target = None
    kind = modifiers.get("metricType") or "AverageValue"
    if kind not in ("AverageValue", "Value"):
        modifiers.refused("metricType", why=_NOT_EXTERNAL)
        kind = "AverageValue"
    if not isinstance(formula, str) or not formula.strip():
        modifiers.refused("formula", why=_NO_FORMULA)
        return
    try:
        promql = promql_of(formula, triggers.operands, knows_nil=knows_nil)
        if len(triggers.servers) > 1:
            raise ValueError(_SEVERAL_SERVERS)  # noqa: TRY301 - as any other reason
    except ValueError as error:
        modifiers.refused("formula", why=f"{error}: {_INSTEAD}")
        triggers.lost.append("scalingModifiers")
        return
    modifiers.different("formula", why=_DIFFERENT)
    server = "".join(triggers.servers)
    query = {"query": promql, "server": server} if server else promql
    said = f"the formula {printable(formula, _LONGEST_SHOWN)}"
    metric = external(shared.query(triggers.name, query, said), kind, target)
    triggers.metrics.insert(0, {**metric, **({"activation": activation} if activation else {})})


def _number(modifiers: Fields, key: str) -> int | float | None:
    number = parsed(str(value)) if (value := modifiers.get(key)) is not None else None
    if value is not None and number is None:
        modifiers.refused(key, why="is not a number, which KEDA needs")
    return number


def promql_of(formula: str, triggers: dict[str, FormulaTrigger], *, knows_nil: bool = False) -> str:
    """Write a formula as PromQL; it has no element if a needed trigger is missing.

    With ``knows_nil`` a trigger before `??` is not needed.  Raises ValueError with a sentence.
    """
    if len(formula) > _LONGEST:
        raise ValueError(f"has {len(formula):,} characters, more than {_LONGEST:,}")
    if found := _LET.fullmatch(formula):
        name, value, rest = found.groups()
        if name in {*triggers, *keyword.kwlist}:
            raise ValueError(_REFUSED)
        formula = re.sub(
            r"[A-Za-z_]\w*+", lambda word: f"({value})" if word[0] == name else word[0], rest
        )
        return promql_of(formula, triggers, knows_nil=knows_nil)
    words = re.findall(r"[A-Za-z_]\w*", formula)
    if not _READ.fullmatch(formula) or "**" in formula or any(map(keyword.iskeyword, words)):
        raise ValueError(_REFUSED)
    # `??` has the precedence of **, and `c if a else b` has its parts in the order of `c ? a : b`.
    text = formula.replace("&&", " and ").replace("??", "**")
    text = text.replace("?", " if ").replace(":", " else ")
    writer = _FormulaWriter(triggers, knows_nil=knows_nil)
    try:
        return writer.whole(ast.parse(" ".join(text.split()), mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError(_REFUSED) from None


def _bounded(promql: str) -> str:
    if len(promql) > _LONGEST_PROMQL:
        raise ValueError(f"becomes PromQL of more than {_LONGEST_PROMQL:,} characters")
    return promql


def _vector(written: _Written) -> str:
    return f"vector({written[0]})" if written[1] else written[0]


class _FormulaWriter:
    def __init__(self, triggers: dict[str, FormulaTrigger], *, knows_nil: bool) -> None:
        self._triggers, self._knows_nil, self._chooses = triggers, knows_nil, False
        self._needed: dict[str, None] = {}
        """The replacements of triggers that the formula needs."""

    def whole(self, node: ast.expr) -> str:
        promql = _vector(self.number(node))
        # A choice would hide a missing trigger, with which KEDA computes nothing.
        return " and ".join((promql, *(self._needed if self._chooses else ())))

    def number(self, node: ast.expr) -> _Written:  # noqa: C901, PLR0911 - one of each
        match node:
            case ast.Constant(int() | float() as value) if not isinstance(value, bool):
                return repr(value), True
            case ast.Name(name):
                text = self._operand(name)
                self._needed |= {} if self._triggers[name].missing_is_zero else {text: None}
                return text, False
            case ast.UnaryOp(ast.USub(), inner):
                text, is_scalar = self.number(inner)
                return f"(-{text})", is_scalar
            case ast.BinOp(ast.Name(name), ast.Pow(), other):
                text = self._operand(name)
                if self._knows_nil and not self._triggers[name].missing_is_zero:
                    return self._chosen(f"{text} or {_vector(self.number(other))}")
                return self.number(ast.Name(name))
            case ast.BinOp(left, sign, right) if type(sign) in _COMPUTED:
                (first, a), (second, b) = self.number(left), self.number(right)
                return _bounded(f"({first} {_COMPUTED[type(sign)]} {second})"), a and b
            case ast.IfExp(yes, ast.Compare(left, [sign], [right]), no) if type(sign) in _COMPARED:
                first, second = _vector(self.number(left)), self.number(right)[0]
                chosen = f"{_vector(self.number(yes))} and {first} {_COMPARED[type(sign)]} {second}"
                return self._chosen(f"{chosen} or {_vector(self.number(no))}")
            case ast.IfExp(yes, ast.BoolOp(ast.And(), [first, *more]), no):
                others = ast.BoolOp(ast.And(), more) if len(more) > 1 else more[0]
                return self.number(ast.IfExp(ast.IfExp(yes, others, no), first, no))
            case ast.Call(ast.Name("ceil" | "floor" as name), [argument], []):
                return _bounded(f"{name}({_vector(self.number(argument))})"), False
            case ast.Call(ast.Name("min" | "max" as name), [_, *_] as arguments, []):
                return self._extreme(name, [self.number(argument) for argument in arguments])
        raise ValueError(_REFUSED)

    def _operand(self, name: str) -> str:
        trigger = self._triggers.get(name)
        if trigger is None:
            named = ", ".join(self._triggers) or "not at all"
            raise ValueError(f"has `{name}`, but prometheus triggers are named {named}")
        try:
            return operand(trigger.promql, missing_is_zero=trigger.missing_is_zero)
        except ValueError as error:
            raise ValueError(f"the query of `{name}` is not understood: {error}") from None

    def _chosen(self, promql: str) -> _Written:
        self._chooses = True
        return _bounded(f"({promql})"), False

    def _extreme(self, name: str, parts: list[_Written]) -> _Written:
        """Return the larger or the smaller of each two, for a number by clamping."""
        first, *others = sorted(parts, key=lambda part: part[1])
        result, sign = _vector(first), ">=" if name == "max" else "<="
        for text, is_scalar in others:
            if is_scalar:
                result = f"{'clamp_min' if name == 'max' else 'clamp_max'}({result}, {text})"
            else:
                result = self._chosen(f"{result} {sign} {text} or {text}")[0]
        return result, False
