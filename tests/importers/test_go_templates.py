"""Templates of Go, as far as rules use them."""

import time

import pytest

from autoscaler.importers.go_templates import LONGEST, Data, Template, TemplateError

DATA: dict[str, Data] = {
    "Series": "s_total",
    "LabelMatchers": 'a="b"',
    "LabelValuesByName": {"namespace": "shop", "pod": "x|y"},
    "GroupBy": "namespace,pod",
    "GroupBySlice": ["namespace", "pod"],
}

FILLED = [
    (
        "sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)",
        'sum(s_total{a="b"}) by (namespace,pod)',
    ),
    ('<<index .LabelValuesByName "pod">>', "x|y"),
    ("<<.LabelValuesByName.namespace>>", "shop"),
    ('<<index .LabelValuesByName "none">>.', "."),
    ("<<range $i, $l := .GroupBySlice>><<if $i>>, <<end>><<$l>><<end>>", "namespace, pod"),
    ("<<range .GroupBySlice>><<.>>;<<else>>none<<end>>", "namespace;pod;"),
    ('<<if eq .Series "a" "s_total">>yes<<else>>no<<end>>', "yes"),
    ('<<if eq .Series "a">>1<<else if .GroupBy>>2<<else>>3<<end>>', "2"),
    ("<<with .Series>><<.>>!<<end>>", "s_total!"),
    ('<<$x := index .GroupBySlice 1>><<printf "%s=%q" $x .Series>>', 'pod="s_total"'),
    ('<<.Series | printf "%s_%s" "x" | printf "%s!">>', "x_s_total!"),
    ("a <<- .Series ->>  b", "as_totalb"),
    ("a<</* not this */>>b<<- /* nor this */ ->> c", "abc"),
    (
        "<<len .GroupBySlice>> <<not .Series>> <<and .Series 0>> <<or .GroupBy 1>>",
        "2 false 0 namespace,pod",
    ),
    ("<<(index .GroupBySlice 0)>>`<<`x`>>", "namespace`x"),
    ("<<slice .Series 2>> <<slice .Series 0 1>> <<ne 1 2>> <<print 1 2>>", "total s true 1 2"),
    ("no actions >> here", "no actions >> here"),
]
"""A template and what it becomes; checked with Go 1.26."""


@pytest.mark.parametrize(("source", "filled"), FILLED)
def test_a_template_becomes_what_go_makes_of_it(source: str, filled: str) -> None:
    """Fields, variables, pipelines, conditions, loops, functions, and blanks that are trimmed."""
    assert Template(source).fill(DATA) == filled


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("<<.Series", "not closed"),
        ("<<.Nothing>>", "no field .Nothing"),
        ("<<>>", "is empty"),
        ("<<.>>", "name one"),
        ("<<if .Series>>", "end is missing"),
        ("<<end>>", "end stands"),
        ("<<else>>", "else stands"),
        ("<<if>><<end>>", "nothing stands after if"),
        ("<<template `x`>>", "template is not known"),
        ("<<join .GroupBySlice>>", "join is not known"),
        ("<<$y>>", "is not set"),
        ("<<index .GroupBySlice 5>>", "wrong arguments"),
        ('<<printf "%x" .Series>>', "printf"),
        ("<<.Series 1>>", "takes no arguments"),
        ("<<range .Series>><<end>>", "cannot go over"),
        ("<<(.Series>>", "parenthesis"),
        ("<<; >>", "is not known here"),
    ],
)
def test_what_is_wrong_or_not_known_is_said(source: str, why: str) -> None:
    """Never another exception, and never half a query."""
    with pytest.raises(TemplateError, match=why):
        Template(source).fill(DATA)


def test_a_template_ends() -> None:
    """Loops in one another, long texts and deep blocks are refused after a moment."""
    loop, end = "<<range .GroupBySlice>>", "<<end>>"
    sources = (
        loop * 30 + "x" + end * 30,
        "<<if .Series>>" * 60 + end * 60,
        "<<" + "(" * 100 + ".Series" + ")" * 100 + ">>",
        "x" * (LONGEST + 1),
    )
    begin = time.thread_time()
    for source in sources:
        with pytest.raises(TemplateError):
            Template(source).fill(DATA)
    assert time.thread_time() - begin < 2.0
