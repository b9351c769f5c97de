"""What PromQL answers: its labels, and expressions that keep more of them."""

import pytest

from autoscaler.config.promql_parser import parse
from autoscaler.migrate import promql_answers
from tests.tables import rows

KEPT = [
    ("sum(rate(x[2m])) by (pod)", "sum(rate(x[2m])) by (namespace, pod)"),
    ("sum by (pod) (x)", "sum by (namespace, pod) (x)"),
    ("sum(x)", "sum by (namespace) (x)"),
    ("sum(x) by ()", "sum(x) by (namespace)"),
    ("sum(x) by (namespace)", "sum(x) by (namespace)"),
    ("sum(x) without (le)", "sum(x) without (le)"),
    ("sum(x) without (namespace)", None),
    ("x", "x"),
    ("-x ^ 2 > bool 3", "-x ^ 2 > bool 3"),
    ("a / on (pod) group_left (b) c", "a / on (namespace, pod) group_left (b) c"),
    ("a * ignoring (le) c", "a * ignoring (le) c"),
    ("a * ignoring (namespace) c", None),
    ("topk(2, x)", "topk by (namespace) (2, x)"),
    (
        "quantile(0.9, rate(x[5m:1m] offset 5m))",
        "quantile by (namespace) (0.9, rate(x[5m:1m] offset 5m))",
    ),
    ("x / scalar(sum(y))", None),
    ("sum(x) or vector(0)", None),
    ("absent(x)", None),
    ("sum(x @ end()) * 2", "sum by (namespace) (x @ end()) * 2"),
    ('label_replace(x, "namespace", "$1", "a", "(.*)")', None),
    ('label_replace(x, "b", "$1", "a", "(.*)")', 'label_replace(x, "b", "$1", "a", "(.*)")'),
    ('sum(x{a="sum(y)"})', 'sum by (namespace) (x{a="sum(y)"})'),
    ("sum (sum) + by", "sum by (namespace)  (sum) + by"),
]


@pytest.mark.parametrize(("promql", "kept"), KEPT)
def test_a_label_is_kept_by_each_operation(promql: str, kept: str | None) -> None:
    assert promql_answers.keeping(promql, ["namespace"]) == kept
    if kept is not None:
        assert promql_answers.has(parse(kept), "namespace")


WITH_POD = """
x | sum(x) by (pod) | sum(x) without (le) | topk(1, x) | 2 * x | x * scalar(y)
sum(x) by (pod) / on (pod) y | sum(x) / on () group_right () y | sum(x) or y
label_replace(sum(x), "pod", "a", "", "") | count_values("pod", x)
"""
WITHOUT_POD = """
sum(x) by (le) | sum(x) without (pod) | sum(x) | max(x) | vector(1) | time()
sum(x) / sum(y) by (pod) | x / on (le) y | sum(x) and y
"""


def each(table: str, *, expected: bool) -> list[tuple[str, bool]]:
    """Return each expression of a table, and what is expected of it."""
    return [(promql, expected) for row in rows(table) for promql in row]


PODS = [*each(WITH_POD, expected=True), *each(WITHOUT_POD, expected=False)]


@pytest.mark.parametrize(("promql", "has"), PODS)
def test_an_answer_has_a_label_if_no_operation_drops_it(promql: str, *, has: bool) -> None:
    assert promql_answers.has(parse(promql), "pod") is has


def test_an_expression_on_several_lines_becomes_one() -> None:
    promql = 'sum(\n  rate(x{a="b  # c"}[1m])  # why\n) by (pod , le)\n'
    assert promql_answers.tidied(promql) == 'sum(rate(x{a="b  # c"}[1m])) by (pod, le)'


def test_divisions_and_quantiles_can_be_nan_where_nothing_happens() -> None:
    for promql in ("a / b", "a % b", 'x{quantile="0.9"}', "histogram_quantile(1, x)"):
        assert promql_answers.may_be_nan(parse(promql))
    assert not promql_answers.may_be_nan(parse("sum(a)"))


ONE = """
sum(x) | max(x) by () | 1 + 1 | time() | scalar(x) | vector(1) | hour() | -sum(x) | sum(x) > 1
sum(x) or vector(0) | clamp_max(sum(x), 100) | clamp(sum(x), 0, scalar(y)) | round(sum(x), 5)
quantile(0.9, x) | histogram_quantile(0.9, sum by (le) (rate(x[5m])))
histogram_quantile(0.9, sum(x)) | max_over_time(sum(x)[5m:1m]) | predict_linear(sum(x)[1h:], 3600)
"""
SEVERAL = """
x | clamp_max(lag{job="web"}, 100) | clamp_min(x, 1) | clamp(x, 0, 100) | round(x, 5) | rate(x[1m])
histogram_quantile(0.9, x_bucket) | histogram_quantile(0.9, sum by (le, a) (x)) | x or vector(0)
quantile_over_time(0.9, x[5m]) | predict_linear(x[1h], 3600) | hour(x) | absent(x{a="b"}) | x * 2
double_exponential_smoothing(x[1h], 0.5, 0.5) | topk(1, x) | count_values("a", x) | rollup(sum(x))
sum by (a) (x) | avg without (a) (x) | label_replace(sum(x), "a", "b", "", "")
quantiles_over_time("phi", 0.5, 0.9, sum(x)[5m:])
"""


NUMBERS = [*each(ONE, expected=True), *each(SEVERAL, expected=False)]


@pytest.mark.parametrize(("promql", "expected"), NUMBERS)
def test_a_query_without_vectors_gives_one_value(promql: str, *, expected: bool) -> None:
    assert promql_answers.is_one_value(parse(promql)) is expected
