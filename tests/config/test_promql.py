"""What is read from PromQL: how far it looks back, and whether it is a condition."""

import math
from itertools import chain

import pytest

from autoscaler.config.conversion import DEFAULTS
from autoscaler.config.promql import (
    UNKNOWN_RANGE,
    is_condition,
    range_of,
)
from autoscaler.config.promql_parser import (
    Aggregation,
    BinaryOperation,
    Call,
    Literal,
    Matcher,
    Subquery,
    VectorSelector,
    parse,
    quoted,
    read,
    selectors_in,
)
from autoscaler.lab.past.own_pods import narrowed
from tests.tables import rows

RANGES = r"""
0 | rabbitmq_queue_messages_ready | sum by (queue) (rabbitmq_queue_messages_ready) | irate(a[5m])
    | sum(last_over_time(a[1m])) | last_over_time(a) | rate{a="b"} + rate | a{offset="1h"}
    | sum(a{x="{", y=`[7m]`})
0.5 | rate(a[ 500ms ])
60 | irate (a[5m] offset 1m)
120 | sum by (queue) (rate(published_total[2m])) | rate(a[120]) | sum by (offset) (rate(a[2m]))
    | sum(rate(a[2m])) by (offset) | rate(a[2m]) and on() (b offset 1m) | rate(a{path="[5m]"}[2m])
    | rate(a{path=~'x]\'[9m]'}[2m]) # over [8m] | sum(rate(a[2m])) by (offset_of)
300 | rate(a[90s]) / rate(b[5m]) | last_over_time(rate(a[5m])[10m:]) | rate(a[5m] offset -1h)
    | rate((a[5m])) | a @ 1609746000 offset 5m | )[5m]
420 | avg_over_time(max_over_time(rate(a[1m])[2m:])[4m:])
600 | sum_over_time(irate(a[5m])[10m:]) | a offset 10m
900 | max_over_time(rate(a[5m])[10m:1m]) | max_over_time((rate(a[5m]) + b)[10m:])
3900 | rate(a[5m] offset 1h)
5400 | rate(a[1h30m]) | rate(a[1.5h])
6307200000 | rate(a[200y])
"""
"""The seconds that expressions look back; quoted text and comments do not count."""


@pytest.mark.parametrize(
    ("promql", "seconds"),
    [
        ("", 0),
        *((promql, float(row[0])) for row in rows(RANGES) for promql in row[1:]),
    ],
)
def test_ranges_within_one_another_add_up(promql: str, seconds: float) -> None:
    assert range_of(promql) == range_of(promql, math.inf) == seconds


@pytest.mark.parametrize(
    ("promql", "known"),
    [
        *((f"sum(rate(a[{text}]))", 0) for text in ("2m*2+1m", "3e2", "0x12c", "max(5m,step())")),
        *(
            (f"rate(a[{text}])", 0)
            for text in ("20i", "$__interval", "$range:1m", "1H", "", "5 m n")
        ),
        *((f"rate(a[{text}])", 0) for text in ("\u0663m", f"{'9' * 30}m", "{{ range }}", "-5m")),
        ("rate(a)", 0),
        ("sum by (b) (increase_pure(a))", 0),
        ("avg_over_time(a)", 0),
        ("lag(a)", 0),
        ("RATE(a)", 0),
        ("rate(sum(a))", 0),
        ("rate(rate(a[5m]))", 300),
        ("max_over_time(rate(a[$__interval])[10m:])", 600),
        ("max_over_time(rate(a[5m])[2m*2:1m])", 300),
        ("rate(a[5m]) / rate(b[$__interval])", 300),
        ("rate(a[5m] offset 5i)", 300),
        ("rate(a[5m] offset (1h / 2))", 300),
        ("a offset $o", 0),
        ("a[", 0),
    ],
)
def test_a_range_that_does_not_parse_is_unknown(promql: str, known: float) -> None:
    assert range_of(promql, math.inf) == math.inf
    assert range_of(promql, 0.0) == known
    assert range_of(promql) >= UNKNOWN_RANGE


def test_the_built_in_queries_have_the_ranges_of_their_promql() -> None:
    for query in DEFAULTS.values():
        assert query.range_seconds == range_of(query.promql)


# -- conditions ------------------------------------------------------------------------------------

CONDITIONS = """
up{job="x"} == 0 | min_over_time(up[2m]) == 0 | (up == 0) | ((up) < 1) | count(up) < 3 | a + b != c
hour() > 22 | up == 0 and on (job) wanted | up == 0 unless on () (maintenance > bool 0)
(up == 0) unless maintenance | freeze or on () (up == 0) | up == on (job) wanted
up == ignoring (job) group_left wanted | a > bool 1 == 0 | up == 0 # or bool | up offset 5m == 0
sum by (job) (up == 0) == 0 | sort(up == 0) > 1 | ALERTS{alertstate="firing"} or up == 0
count(up == 0) or up == 0
"""
OTHERS = """
vector(1) | ALERTS{alertstate="firing"} | up{job!="x", path=~"=="} | {job!="x"} | up == bool 0
(up == bool 0) | 1 - up | count(up == 0) | count(up == 0) or vector(0) | count by (job) (up == 0)
count without (job) (sort(up == 0)) | group(up == 0) | absent(up == 1) | sort(up == bool 0)
count_over_time((up == 0)[5m:]) | sum(freeze unless up == 0) | topk(1, up == BOOL 0)
freeze unless on () (up == 0) | freeze unless on () up == 0 | freeze and on (job) up == 0
label_replace(up, "a", "x == 0", "", "") | up # == 0 | (((( | ))))
"""


AROUND = [
    'label_replace({}, "a", "$1", "instance", "(.*)")',
    'label_join({}, "a", "-", "b")',
    *("sort({})", "sort_desc({})", "sort_by_label({}, 'a')", "topk(1, {})", "bottomk(1, {})"),
    *("limitk(1, {})", "min by (job) ({})", "max({}) by (job)", "sum without (job) ({})"),
    *("avg({})", "quantile(0.5, {})", "stddev({})", "clamp_max({}, 1)", "abs({})", "ceil({})"),
    *("last_over_time(({})[5m:])", "min_over_time(({})[5m:1m])", "timestamp({})", "scalar({})"),
    *("vector(scalar({}))", "({}) + 1", "-({})", "1 - ({})", "a * on (job) ({})", "({}) ^ 2"),
    *("a + on (job) group_left (b) ({})", "({}) > bool 1", "count(a) * ({})", "sort(a or {})"),
    *("sort(({}) and a)", "sort(({}) unless on () a)", "info({})", "freeze if ({})"),
    *("freeze ifnot ({})", "sort(sort(({})))", "freeze default sort({})", "freeze or sort({})"),
]


@pytest.mark.parametrize("inner", ["up == {}0", 'up{{job!="a"}} < {}1', "a + b != {}c"])
@pytest.mark.parametrize("around", AROUND)
def test_a_comparison_inside_another_operation_is_unclear(around: str, inner: str) -> None:
    promql = around.format(inner.format(""))
    assert is_condition(promql) is None
    assert is_condition(around.format(inner.format("bool "))) is False
    assert is_condition(f"{around.format('up')} > 0") is True
    assert is_condition(f"count by (job) ({promql})") is False


@pytest.mark.parametrize("promql", [*chain.from_iterable(rows(CONDITIONS)), "up ==\n0"])
def test_a_comparison_is_a_condition(promql: str) -> None:
    assert is_condition(promql) is True


@pytest.mark.parametrize("promql", [*chain.from_iterable(rows(OTHERS)), ""])
def test_any_other_expression_is_no_condition(promql: str) -> None:
    assert is_condition(promql) is False


# -- some of the series --------------------------------------------------------------------------

OWN = (Matcher("namespace", "=", "shop"), Matcher("pod", "=~", "web-.+"))
ADDED = 'namespace="shop",pod=~"web-.+"'


@pytest.mark.parametrize(
    ("promql", "narrow"),
    [
        ("x", "x{@}"),
        ("x{}", "x{@}"),
        ("x {a='b'}", "x {@,a='b'}"),
        ('{__name__="x"}', '{@,__name__="x"}'),
        ("{'x.y'}", "{@,'x.y'}"),
        ("-x * 2", "-x{@} * 2"),
        ("x # not {y}", "x{@} # not {y}"),
        ('x{a="}"}', 'x{@,a="}"}'),
        ("rate(x[2m] offset 1m) / rate(y[2m])", "rate(x{@}[2m] offset 1m) / rate(y{@}[2m])"),
        ("sum by (namespace, pod) (x)", "sum by (namespace, pod) (x{@})"),
        ("sum(x) by (pod)", "sum(x{@}) by (pod)"),
        ("avg without (container) (x) > bool 1", "avg without (container) (x{@}) > bool 1"),
        ("max_over_time(x[5m:1m])", "max_over_time(x{@}[5m:1m])"),
        ("x and y unless z", "x{@} and y{@} unless z{@}"),
        (
            "x * on (namespace, pod) group_left () y",
            "x{@} * on (namespace, pod) group_left () y{@}",
        ),
        *((query.promql, "") for query in DEFAULTS.values()),
    ],
)
def test_each_selector_gets_the_matchers_of_own_pods(promql: str, narrow: str) -> None:
    found = narrowed(promql, *OWN)
    if narrow:
        assert found == narrow.replace("@", ADDED)
    else:
        assert found is not None
        assert found.replace(f"{ADDED},", "") == promql
        assert found.count(ADDED) == 5


OF_OTHERS = """
x * on (pod) group_left () y | x and on () y | x / ignoring (pod) y | topk(3, x) | absent(x)
label_replace(x, "pod", "$1", "name", "(.+)") | label_join(x, "pod", "-", "a", "b")
x / scalar(sum(y)) | vector(1) | 1 + 2 | sum( | x{,}
"""


@pytest.mark.parametrize("promql", [*chain.from_iterable(rows(OF_OTHERS)), "", "x" * 70_000])
def test_a_query_that_depends_on_other_series_is_not_narrowed(promql: str) -> None:
    assert narrowed(promql, *OWN) is None


# -- PromQL as a tree: what the one reader of it finds, and what it refuses ------------------------


NOT_UNDERSTOOD = ("", "sum(", "x{", 'x{a="b"', "x{a}", "a +", ")", "x y", "sum(x) by (", "x[5m")
METRICSQL = ("a if b", "a default 0", "median(x) by (pod)", "(a, b)", 'x{a="b" or c="d"}', "x[$r")


@pytest.mark.parametrize("promql", [*NOT_UNDERSTOOD, *METRICSQL, "(" * 200, "1+" * 300 + "1"])
def test_an_expression_that_does_not_parse_is_refused(promql: str) -> None:
    with pytest.raises(ValueError, match=r"it|is not"):
        parse(promql)
    read(promql)


def test_names_and_matchers_of_a_selector_are_found() -> None:
    for promql in ("x_total", '{__name__="x_total"}', '{"x_total",a=~"b"}'):
        (selector,) = selectors_in(parse(promql))
        named = (selector.name, *(matcher.value for matcher in selector.name_matchers))
        assert [name for name in named if name] == ["x_total"]
    (selector,) = selectors_in(parse(r"""x{a=~'b\"c',d!="e\\"}"""))
    assert [(matcher.label, matcher.operator, matcher.value) for matcher in selector.matchers] == [
        ("a", "=~", 'b"c'),
        ("d", "!=", "e\\"),
    ]
    assert quoted('b"\\') == r'"b\"\\"'


def test_a_tree_has_each_part_in_its_place() -> None:
    x, y = VectorSelector("x"), VectorSelector("y")
    none = frozenset[str]()
    power = BinaryOperation(
        "^", "", none, 0, "", x, BinaryOperation("^", "", none, 0, "", y, Literal("2"))
    )
    assert parse("-x ^ y ^ 2") == Call("-", (power,))
    assert parse("x > BOOL on (a) group_left (b) y") == BinaryOperation(
        ">", "on", frozenset({"a"}), 13, "left", x, y, is_bool=True
    )
    inner = Call("rate", (VectorSelector("x", range="1m", offset="-5m"),))
    assert parse("sum without (le) (max_over_time(rate(x[1m] offset -5m)[5m:10s] @ end()))") == (
        Aggregation(
            "sum",
            "without",
            frozenset({"le"}),
            13,
            (Call("max_over_time", (Subquery(inner, range="5m"),)),),
        )
    )
