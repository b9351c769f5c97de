"""PromQL as a tree: what the one reader of it finds, and what it refuses."""

import pytest

from autoscaler.config.promql_parser import parse, read
from autoscaler.config.promql_tree import (
    Aggregation,
    Binary,
    Call,
    Literal,
    Subquery,
    VectorSelector,
    quoted,
    selectors_in,
)

NOT_UNDERSTOOD = ("", "sum(", "x{", 'x{a="b"', "x{a}", "a +", ")", "x y", "sum(x) by (", "x[5m")
METRICSQL = ("a if b", "a default 0", "median(x) by (pod)", "(a, b)", 'x{a="b" or c="d"}', "x[$r")


@pytest.mark.parametrize("promql", [*NOT_UNDERSTOOD, *METRICSQL, "(" * 200, "1+" * 300 + "1"])
def test_what_is_not_understood_is_refused(promql: str) -> None:
    """With a sentence, and never with another exception; `read` refuses nothing."""
    with pytest.raises(ValueError, match=r"it|is not"):
        parse(promql)
    read(promql)


def test_names_and_matchers_are_found() -> None:
    """Before the braces, in them, and in quotes."""
    for promql in ("x_total", '{__name__="x_total"}', '{"x_total",a=~"b"}'):
        (selector,) = selectors_in(parse(promql))
        named = (selector.name, *(one.value for one in selector.name_matchers))
        assert [name for name in named if name] == ["x_total"]
    (selector,) = selectors_in(parse(r"""x{a=~'b\"c',d!="e\\"}"""))
    assert [(one.label, one.operator, one.value) for one in selector.matchers] == [
        ("a", "=~", 'b"c'),
        ("d", "!=", "e\\"),
    ]
    assert quoted('b"\\') == r'"b\"\\"'


def test_a_tree_has_each_part_in_its_place() -> None:
    """Powers bind from the right, a sign less than a power; ranges belong to what is before."""
    x, y = VectorSelector("x"), VectorSelector("y")
    none = frozenset[str]()
    power = Binary("^", "", none, 0, "", x, Binary("^", "", none, 0, "", y, Literal("2")))
    assert parse("-x ^ y ^ 2") == Call("-", (power,))
    assert parse("x > BOOL on (a) group_left (b) y") == Binary(
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
