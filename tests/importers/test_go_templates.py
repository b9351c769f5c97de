"""Templates of Go, as far as rules use them."""

import tracemalloc

import pytest

from autoscaler.migrate.go_text import LONGEST_TEMPLATE, Template, TemplateError

DATA = {
    "Series": "s_total",
    "LabelMatchers": 'a="b"',
    "LabelValuesByName.namespace": "shop",
    "LabelValuesByName.pod": "x|y",
    "GroupBy": "namespace,pod",
}

FILLED = [
    (
        "sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)",
        'sum(s_total{a="b"}) by (namespace,pod)',
    ),
    ('<<index .LabelValuesByName "pod">>', "x|y"),
    ("<<.LabelValuesByName.namespace>>", "shop"),
    ("a << .Series >> b", "a s_total b"),
    ("no fields >> here", "no fields >> here"),
    ("", ""),
]
"""A template and what it becomes; checked with Go 1.26."""


@pytest.mark.parametrize(("source", "filled"), FILLED)
def test_a_template_becomes_what_go_makes_of_it(source: str, filled: str) -> None:
    assert Template(source).fill(DATA) == filled


NO_FIELDS = """
<<.Series
<<.Nothing>>
<<.LabelValuesByName.none>>
<<>>
<<.>>
<<if .Series>>x<<end>>
<<range .GroupBySlice>><<.>><<end>>
<<$x := .Series>>
<<.Series | printf `%s`>>
<<- .Series ->>
<</* comment */>>
<<index .GroupBySlice 0>>
<<.Series.x>>
"""


@pytest.mark.parametrize("source", NO_FIELDS.split("\n")[1:-1])
def test_anything_but_a_field_is_refused_with_what_to_write(source: str) -> None:
    """Never half a query: the sentence names the fields and says where PromQL goes instead."""
    with pytest.raises(TemplateError, match="in `queries` by hand"):
        Template(source).fill(DATA)


def test_a_template_is_bounded() -> None:
    """In its text, in what it becomes, and in the memory that both take."""
    tracemalloc.start()
    for source, data in (
        ("x" * (LONGEST_TEMPLATE + 1), DATA),
        ("<<.Series>>" * 5_000, {"Series": "x" * 1_000}),
        ("<<range .GroupBySlice>>" * 30 + "x" + "<<end>>" * 30, DATA),
        ("<<printf `%999d` 1>>" * 30, DATA),
    ):
        with pytest.raises(TemplateError):
            Template(source).fill(data)
    assert tracemalloc.get_traced_memory()[1] < 10 * 2**20
    tracemalloc.stop()
