"""A formula of scalingModifiers is computed by Prometheus as KEDA computes it."""

import math
import re
from collections.abc import Callable
from typing import NamedTuple

import pytest

from autoscaler.migrate.keda.scaling_modifiers import promql_of
from autoscaler.migrate.keda.triggers import FormulaTrigger as Trigger
from tests.tables import rows
from tests.worlds.prometheus.exporter import Exporter
from tests.worlds.prometheus.server import PrometheusServer

A, B, STRICT = "sum(a)", 'b{job="x"}', "sum(c)"
TRIGGERS = {"a": Trigger(A), "b": Trigger(B), "c": Trigger(STRICT, missing_is_zero=False)}
MORE = (
    "has more than + - * /, `c ? a : b` of comparisons and `&&`, `??`, min, max, ceil, floor and "
    "`let`, which this conversion does not write as PromQL"
)
OF_A, OF_B, OF_C = f"({A} or vector(0))", f"(sum({B}) or vector(0))", STRICT


@pytest.mark.parametrize(
    ("formula", "promql"),
    [
        ("(a + b)/2", f"(({OF_A} + {OF_B}) / 2)"),
        ("a > 2 ? a + b : 1", f"(({OF_A} + {OF_B}) and {OF_A} > 2 or vector(1))"),
        ("c", OF_C),
        ("c * 2", f"({OF_C} * 2)"),
        ("c > 1 ? 1 : 0", f"(vector(1) and {OF_C} > 1 or vector(0)) and {OF_C}"),
        ("max(a, 3)", f"clamp_min({OF_A}, 3)"),
        ("max(a, b)", f"({OF_A} >= {OF_B} or {OF_B})"),
        ("2 + 3*4", "vector((2 + (3 * 4)))"),
        ("a - (b - 1)", f"({OF_A} - ({OF_B} - 1))"),
        ("-(a\n - b)", f"(-({OF_A} - {OF_B}))"),
        ("c ?? a", OF_C),
        ("a ?? 2", OF_A),
        ("ceil(a / 2)", f"ceil(({OF_A} / 2))"),
        ("floor(2.5)", "floor(vector(2.5))"),
        (
            "a > 1 && b < 2 ? a : 1",
            f"(({OF_A} and {OF_B} < 2 or vector(1)) and {OF_A} > 1 or vector(1))",
        ),
        ("let half = a / 2;\nhalf + b", f"(({OF_A} / 2) + {OF_B})"),
        ("let d = a; let e = d - 1; max(d, e)", f"({OF_A} >= ({OF_A} - 1) or ({OF_A} - 1))"),
    ],
)
def test_a_formula_becomes_promql_of_the_same_form(formula: str, promql: str) -> None:
    assert promql_of(formula, TRIGGERS) == promql


MISSING = {
    "c ?? a": f"({OF_C} or {OF_A})",
    "c ?? 2 + a": f"(({OF_C} or vector(2)) + {OF_A})",
    "c ?? c ?? 1": f"({OF_C} or ({OF_C} or vector(1)))",
    "(c ?? 1) + c": f"(({OF_C} or vector(1)) + {OF_C}) and {OF_C}",
    "a ?? 2": OF_A,
}


@pytest.mark.parametrize("formula", MISSING)
def test_a_missing_trigger_is_nil_where_the_fallback_says_so(formula: str) -> None:
    assert promql_of(formula, TRIGGERS, knows_nil=True) == MISSING[formula]


OTHERWISE = """
a > 2 | a ? 1 : 2 | a % 2 | a + | a b | (a | a > 1 ? 'x' : 1 | median([a, b]) | max([a, b])
max(*a) | max(a, key=b) | round(a) | 1 < a < 3 ? 1 : 0 | a in [1, 2] ? 1 : 0 | a ** 2 | a ^ 2
a && b ? 1 : 0 | a && b | a & b | ceil(a, b) | a > 1 and b > 1 ? 1 : 0 | not (a > 1) ? 1 : 0
1 if a > 2 else 3 | a // 2
let a = 1; a | let d = a | let d = a; | let d; a | a; b | let if = a; b | max(let d = a; d, b)
a # b | a @ b | a if b | true ? a : b | True | 1j | a.b | lambda: a | (a := b) | (a + b) ?? c | a, b
"""


@pytest.mark.parametrize(
    ("formula", "sentence"),
    [
        ("queue-length", "has `queue`, but prometheus triggers are named a, b, c"),
        ("missing ?? a", "has `missing`, but prometheus triggers are named a, b, c"),
        ("a + " * 250 + "a", "has 1,001 characters, more than 1,000"),
        ("max(b, " * 15 + "b" + ")" * 15, "becomes PromQL of more than 10,000 characters"),
        *((formula, MORE) for row in rows(OTHERWISE) for formula in row),
        *((formula, MORE) for formula in ("", "(" * 450 + "a" + ")" * 450, "-" * 999 + "a")),
    ],
)
def test_a_formula_without_a_counterpart_is_refused(formula: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        promql_of(formula, TRIGGERS)


OPERANDS = """
sum(a) # all; | sum(a)
a | sum(a)
sum by (x) (a) | sum(sum by (x) (a))
sum(a) / sum(b) | (sum(a) / sum(b)) > -Inf < Inf
histogram_quantile(0.9, sum by (le) (a)) | histogram_quantile(0.9, sum by (le) (a)) > -Inf < Inf
scalar(a) + 1 | vector(scalar(a) + 1)
topk(1, a) | sum(topk(1, a))
vector(3) | vector(3)
"""


@pytest.mark.parametrize(("promql", "value"), rows(OPERANDS))
def test_an_operand_is_one_value_without_labels_and_comments(promql: str, value: str) -> None:
    query = promql.replace(";", "\n")
    assert promql_of("a", {"a": Trigger(query)}) == f"({value} or vector(0))"
    strict = f"({value})" if "Inf" in value else value
    assert promql_of("a", {"a": Trigger(query, missing_is_zero=False)}) == strict


def test_an_operand_that_does_not_parse_is_refused() -> None:
    with pytest.raises(ValueError, match="the query of `a` is not understood: it ends too early"):
        promql_of("a * 2", {"a": Trigger("sum(a")})


class Values(NamedTuple):
    a: float
    b: float
    c: float


COMPUTED: dict[str, Callable[[Values], float]] = {
    "(a + b)/2": lambda v: (v.a + v.b) / 2,
    "a > 2 ? a + b : 1": lambda v: v.a + v.b if v.a > 2 else 1,
    "a < 2 ? (a+b >= 2 ? 5 : 10) : 0": lambda v: (5 if v.a + v.b >= 2 else 10) if v.a < 2 else 0,
    "a < 2 ? 1 : b > 2 ? 2 : 3": lambda v: 1 if v.a < 2 else 2 if v.b > 2 else 3,
    "a - b - c * 2": lambda v: v.a - v.b - v.c * 2,
    "max(a, b, c)": lambda v: max(v.a, v.b, v.c),
    "min(a, b, 1) + max(a, 2)": lambda v: min(v.a, v.b, 1) + max(v.a, 2),
    "0 - a": lambda v: -v.a,
    "2 - -(a - b) * 3": lambda v: 2 + (v.a - v.b) * 3,
    "a > 2 ? 1 : c": lambda v: 1 if v.a > 2 else v.c,
    "c + 4": lambda v: v.c + 4,
    "ceil(a / 2) + floor(b / 2)": lambda v: math.ceil(v.a / 2) + math.floor(v.b / 2),
    "a > 2 && b > 2 && c >= 1 ? a : 9": lambda v: v.a if v.a > 2 and v.b > 2 and v.c >= 1 else 9,
    "let d = max(a, b / 2); d <= 3 ? d : d - 1": lambda v: (
        max(v.a, v.b / 2) if max(v.a, v.b / 2) <= 3 else max(v.a, v.b / 2) - 1
    ),
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
PARTS = {"nan": (0.0, 0.0), "inf": (1.0, 0.0)}
"""The parts and wholes whose ratios these are."""


def test_prometheus_computes_a_formula_as_keda_does(
    prometheus_server: PrometheusServer, prometheus_exporter: Exporter
) -> None:
    for row, values in enumerate(VALUES):
        for name, value in zip("abc", values, strict=True):
            if value is not None:
                part, whole = PARTS.get(str(value), (value, 1.0))
                for half in ("1", "2"):
                    labels = {"row": str(row), "half": half}
                    prometheus_exporter.set(f"formula_{name}", labels, part / 2)
                    prometheus_exporter.set("formula_whole", {"of": name, **labels}, whole / 2)
    prometheus_server.wait_for("formula_b", count=2 * sum(b is not None for _, b, _ in VALUES))
    for row, values in enumerate(VALUES):
        triggers = {
            name: Trigger(
                f'sum by (row) (formula_{name}{{row="{row}"}})\n'
                f'/ sum by (row) (formula_whole{{of="{name}"}})',
                missing_is_zero=name != "c",
            )
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
            expected = compute(Values(*(value or 0.0 for value in known)))
            assert result == pytest.approx(expected), (formula, values)
