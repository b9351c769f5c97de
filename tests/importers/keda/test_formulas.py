"""A formula of scalingModifiers is computed by Prometheus as KEDA computes it."""

import math
import re
from collections.abc import Callable

import pytest

from autoscaler.importers.keda.formulas import Trigger, promql_of
from tests.worlds.prometheus.exporter import Exporter
from tests.worlds.prometheus.server import PrometheusServer

A, B, STRICT = "sum(a)", 'b{job="x"}', "sum(c)"
TRIGGERS = {"a": Trigger(A), "b": Trigger(B), "c": Trigger(STRICT, missing_is_zero=False)}
OF_A, OF_B = f"({A} > -Inf < Inf or vector(0))", f"(sum({B}) > -Inf < Inf or vector(0))"
OF_C = f"({STRICT} > -Inf < Inf)"


@pytest.mark.parametrize(
    ("formula", "promql"),
    [
        ("(a + b)/2", f"({OF_A} + {OF_B}) / 2"),
        ("a > 2 ? a + b : 1", f"{OF_A} + {OF_B} and {OF_A} > 2 or vector(1)"),
        ("c", OF_C),
        ("c * 2", f"{OF_C} * 2"),
        ("c > 1 ? 1 : 0", f"(vector(1) and {OF_C} > 1 or vector(0)) and {OF_C}"),
        ("float(a)", OF_A),
        ("max(a, 3)", f"clamp_min({OF_A}, 3)"),
        ("2 + 3*4", "vector(14)"),
        ("true ? a : b", OF_A),
        ("a - (b - 1)", f"{OF_A} - ({OF_B} - 1)"),
        ("2 ** 3 ** 2", "vector(512)"),
        ("-a ** 2", f"-{OF_A} ^ 2"),
    ],
)
def test_what_is_written(formula: str, promql: str) -> None:
    """The PromQL has the formula's own form, with no more parentheses than it needs."""
    assert promql_of(formula, TRIGGERS) == promql


@pytest.mark.parametrize(
    ("formula", "sentence"),
    [
        ("a > 2", "has a condition where a number belongs, as KEDA refuses: write `c ? 1 : 0`"),
        ("a ? 1 : 2", "has a number where a condition belongs, as KEDA refuses: write `x > 0`"),
        ("a % 2", "has %, which KEDA refuses for the values of triggers"),
        ("queue-length", "has `queue`, but prometheus triggers are named a, b, c"),
        ("a +", "has an end, which this conversion does not write as PromQL"),
        ("a b", "has `b` where an operator belongs"),
        ("(a", "has an end where ) belongs"),
        ("a > 1 ? 'x' : 1", "has `'`, which this conversion does not write as PromQL"),
        ("median([a, b])", "calls `median`, which this conversion does not write as PromQL"),
        ("1 < a < 3 ? 1 : 0", "has < of a condition, which this conversion does not write"),
        ("1 / 0", "computes 1 / 0, which is no number"),
        ("a in [1, 2] ? 1 : 0", "has `in` where an operator belongs"),
        ("count([], {# > 1})", "calls count within another, or of an empty list"),
        ("a + " * 250 + "a", "has 1,001 characters, more than 1,000"),
        ("(" * 99 + "a" + ")" * 99, "has too many expressions in one another"),
        (" + ".join(["b"] * 230), "becomes PromQL of more than 10,000 characters"),
    ],
)
def test_what_cannot_be_written_is_said(formula: str, sentence: str) -> None:
    """A formula without a counterpart is refused with a sentence, and so is one of KEDA's own."""
    with pytest.raises(ValueError) as refused:
        promql_of(formula, TRIGGERS)
    assert str(refused.value) == sentence


def test_a_query_that_is_not_closed_does_not_run_into_the_formula() -> None:
    """A comment ends with its line, and what has no end is refused."""
    triggers = {"a": Trigger("sum(a) # all\n"), "b": Trigger("sum(b"), "c": Trigger('c{x="}')}
    assert promql_of("a * 2", triggers) == f"{OF_A} * 2"
    for name, lacking in (("b", r"lacks a \)"), ("c", 'has a " that nothing closes')):
        with pytest.raises(ValueError, match=lacking):
            promql_of(f"{name} * 2", triggers)


def away_from_zero(value: float) -> float:
    """Round as Go does."""
    return math.copysign(math.floor(abs(value) + 0.5), value)


COMPUTED: dict[str, Callable[[float, float, float], float]] = {
    "(a + b)/2": lambda a, b, c: (a + b) / 2,
    "a > 2 ? a + b : 1": lambda a, b, c: a + b if a > 2 else 1,
    "count([a,b,c],{#>1}) > 1 ? 5 : 0": lambda a, b, c: 5 if (a > 1) + (b > 1) + (c > 1) > 1 else 0,
    "a < 2 ? a+b >= 2 ? 5 : 10 : 0": lambda a, b, c: (5 if a + b >= 2 else 10) if a < 2 else 0,
    "a - b - c * 2": lambda a, b, c: a - b - c * 2,
    "max(a, b, c)": lambda a, b, c: max(a, b, c),
    "min(a, b, 1) + max(a, 2)": lambda a, b, c: min(a, b, 1) + max(a, 2),
    "!(a > 1 && b < 3) ? 1 : 0": lambda a, b, c: 0 if a > 1 and b < 3 else 1,
    "a > 1 or b > 1 and c > 1 ? 7 : 8": lambda a, b, c: 7 if a > 1 or (b > 1 and c > 1) else 8,
    "not (a == 0) ? b : a": lambda a, b, c: b if a != 0 else a,
    "round(a / 2) + floor(b / 2) + ceil(b / 2)": lambda a, b, c: (
        away_from_zero(a / 2) + math.floor(b / 2) + math.ceil(b / 2)
    ),
    "int(0 - a / 2) + abs(0 - b)": lambda a, b, c: math.trunc(-a / 2) + abs(b),
    "sum([a, b, 1]) + mean(a, b)": lambda a, b, c: a + b + 1 + (a + b) / 2,
    "2 ** b - -a ** 2": lambda a, b, c: 2**b + a**2,
    "any([a, b], {# > 2}) ? 1 : none([a, b], # > 1) ? 2 : 3": lambda a, b, c: (
        1 if max(a, b) > 2 else 2 if max(a, b) <= 1 else 3
    ),
    "all([a, b], {# > 1}) ? 1 : one([a, b], {# > 1}) ? 2 : 3": lambda a, b, c: (
        1 if min(a, b) > 1 else 2 if max(a, b) > 1 else 3
    ),
    "count([a, b], {# > 1 && # < 9}) + 0": lambda a, b, c: (1 < a < 9) + (1 < b < 9),
    "a > 2 ? 1 : c": lambda a, b, c: 1 if a > 2 else c,
    "c + 4": lambda a, b, c: c + 4,
}
"""Formulas, and what KEDA computes: a and b are 0 where they are missing."""

VALUES: list[tuple[float | None, float | None, float | None]] = [
    (0, 0, 0),
    (5, 3, 2),
    (3, 0.5, 7),
    (1, 2, 0),
    (2, 10, 1.5),
    (None, 4, 2),
    (3, None, 1),
    (None, None, 3),
    (math.nan, 2, 1),
    (4, math.inf, 1),
    (5, 3, None),
    (1, 3, math.nan),
    (None, None, None),
]


def test_prometheus_computes_what_keda_does(
    prometheus_server: PrometheusServer, prometheus_exporter: Exporter
) -> None:
    """Every formula has KEDA's value for each row of values, and none where KEDA has none."""
    for row, values in enumerate(VALUES):
        for name, value in zip("abc", values, strict=True):
            if value is not None:
                for half in ("1", "2"):
                    labels = {"row": str(row), "half": half}
                    prometheus_exporter.set(f"formula_{name}", labels, value / 2)
    prometheus_server.wait_for("formula_b", count=2 * sum(b is not None for _, b, _ in VALUES))
    for row, values in enumerate(VALUES):
        triggers = {
            name: Trigger(f'sum by (row) (formula_{name}{{row="{row}"}})', name != "c")
            for name in "abc"
        }
        missing = [value is None or not math.isfinite(value) for value in values]
        known = [0.0 if gone else value for gone, value in zip(missing, values, strict=True)]
        tagged = (
            f'label_replace({promql_of(formula, triggers)}, "formula", "{number}", "", "")'
            for number, formula in enumerate(COMPUTED)
        )
        found = {
            labels.pop("formula"): (labels, value)
            for labels, value in prometheus_server.samples(" or ".join(tagged))
        }
        for number, (formula, compute) in enumerate(COMPUTED.items()):
            if missing[2] and re.search(r"\bc\b", formula):
                assert str(number) not in found, (formula, values)
                continue
            labels, result = found[str(number)]
            assert labels == {}, formula
            expected = compute(*(value or 0.0 for value in known))
            assert result == pytest.approx(expected), (formula, values)
