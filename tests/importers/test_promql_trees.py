"""PromQL as a tree: labels of an answer, and expressions that keep more of them."""

import pytest

from autoscaler.migrate import promql_trees
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
def test_a_label_is_kept_all_the_way(promql: str, kept: str | None) -> None:
    """Each aggregation and each match of two sides has it, or nothing is written."""
    assert promql_trees.keeping(promql, ["namespace"]) == kept
    if kept is not None:
        tree = promql_trees.parse(kept)
        assert promql_trees.has(tree, "namespace")
        assert promql_trees.keeps_apart(tree, "namespace")


WITH_POD = """
x | sum(x) by (pod) | sum(x) without (le) | topk(1, x) | 2 * x | x * scalar(y)
sum(x) by (pod) / on (pod) y | sum(x) / on () group_right () y | sum(x) or y
label_replace(sum(x), "pod", "a", "", "") | count_values("pod", x)
"""
WITHOUT_POD = """
sum(x) by (le) | sum(x) without (pod) | sum(x) | max(x) | vector(1) | time()
sum(x) / sum(y) by (pod) | x / on (le) y | sum(x) and y
"""


@pytest.mark.parametrize(
    ("promql", "has"),
    [
        *((promql, True) for row in rows(WITH_POD) for promql in row),
        *((promql, False) for row in rows(WITHOUT_POD) for promql in row),
    ],
)
def test_the_labels_of_an_answer_are_known(promql: str, *, has: bool) -> None:
    """Whether a series of the answer can have the label, if those that are read have it."""
    assert promql_trees.has(promql_trees.parse(promql), "pod") is has


NOT_UNDERSTOOD = ("", "sum(", "x{", 'x{a="b"', "x{a}", "a +", ")", "x y", "sum(x) by (", "x[5m")


@pytest.mark.parametrize("promql", [*NOT_UNDERSTOOD, "(" * 200, "1+" * 300 + "1"])
def test_what_is_not_understood_is_refused(promql: str) -> None:
    with pytest.raises(ValueError, match=r"it|is not"):
        promql_trees.parse(promql)


def test_an_expression_on_several_lines_becomes_one() -> None:
    """Without comments, and without blanks at brackets; strings stay as they are."""
    promql = 'sum(\n  rate(x{a="b  # c"}[1m])  # why\n) by (pod , le)\n'
    assert promql_trees.tidied(promql) == 'sum(rate(x{a="b  # c"}[1m])) by (pod, le)'


def test_names_and_matchers_are_found() -> None:
    """Before the braces, in them, and in quotes."""
    for promql in ("x_total", '{__name__="x_total"}', '{"x_total",a=~"b"}'):
        (selector,) = promql_trees.selectors_of(promql_trees.parse(promql))
        assert promql_trees.metric_names([selector]) == ["x_total"]
    (selector,) = promql_trees.selectors_of(promql_trees.parse(r"""x{a=~'b\"c',d!="e\\"}"""))
    assert [(one.label, one.operator, one.value) for one in selector.matchers] == [
        ("a", "=~", 'b"c'),
        ("d", "!=", "e\\"),
    ]
    assert promql_trees.quoted('b"\\') == r'"b\"\\"'


def test_divisions_and_quantiles_can_be_nan_where_nothing_happens() -> None:
    for promql in ("a / b", 'x{quantile="0.9"}', "histogram_quantile(1, x)"):
        assert promql_trees.may_be_nan(promql_trees.parse(promql))
    assert not promql_trees.may_be_nan(promql_trees.parse("sum(a)"))
