"""Expressions and templates of Go match, expand, and are inverted."""

import time
import tracemalloc

import pytest

from autoscaler.migrate.go_text import (
    LONGEST,
    LONGEST_TEMPLATE,
    GoRegex,
    PossibleText,
    Template,
    TemplateError,
    captures_of,
    expand,
    parts_of,
    unknown_group,
)
from tests.narrowing import known
from tests.tables import rows

MATCHES = [
    ("^(.*)_total$", "http_requests_total", ("http_requests_total", "http_requests")),
    ("^(.*)_total", "a_total_b_total_c", ("a_total_b_total", "a_total_b")),
    ("^(.*?)_total", "a_total_b_total_c", ("a_total", "a")),
    ("_total$", "http_total", ("_total",)),
    ("ab?", "a ab", ("a",)),
    ("(?:ab)+?", "abab", ("ab",)),
    ("(?:ab)+", "abab", ("abab",)),
    ("^b|a", "xa", ("a",)),
    ("_total$", "http_totals", None),
    ("(a|ab)(c|bcd)?", "abcd", ("abcd", "a", "bcd")),
    ("(?P<what>[a-z]+)_([0-9]{1,2})", "x_123", ("x_12", "x", "12")),
    (r"\bqueue\b", "a queue", ("queue",)),
    ("(?i)HTTP_[a-z]+", "http_Total1", ("http_Total",)),
    (r"a\.b\_c", "a.b_c", ("a.b_c",)),
    (r"\w+", "aé", ("a",)),
    ("x{2,3}", "xxxx", ("xxx",)),
    ("x{a", "x{a", ("x{a",)),
    (r"[^_\d]+", "__7ab_", ("ab",)),
    ("a$", "a\n", None),
    (".", "\n", None),
    ("", "x", ("",)),
    ("(x)?y", "y", ("y", "")),
]
"""An expression, a text, and what the match and its groups take; checked with Go 1.26."""


@pytest.mark.parametrize(("source", "text", "taken"), MATCHES)
def test_an_expression_matches_as_in_go(
    source: str, text: str, taken: tuple[str, ...] | None
) -> None:
    regex = GoRegex(source)
    match = regex.search(text)
    groups = match and (match[0], *match.groups(default=""))
    assert groups == taken


NOT_SHARED = (
    *("(", ")", "a)", "[a", "*", "{2}", "a**", "(?P<a>x)(?P<a>y)", r"\p{L}", "a{3,2}", "a\\"),
    *("(?=a)", "(?!a)", "(?<=a)b", "(?>a)", "(?P<a>x)(?P=a)", r"(a)\1", "(?#a)b", "(a)(?(1)b)"),
    *("a*+", "a++", "(?x)a b", "(?L)a", "(?U)a*", "(?a)b", "x{,2}", "[[:alpha:]]", "[a--b]"),
    *(r"\Qa\E", r"\Z", r"\z", r"\x41", r"\u0041", r"\N{DASH}", r"\C", "a(?i)b"),
)
SLOW = (
    *("(a+)+$", "(a|aa)+$", "(a*)*b", "((a?){9}){9}b", "(.*)(.*)(.*)(.*)b$", "(?:a{1,9}){9}"),
    *("((a{100}){100}){100}", "(aa?)+b", "a?" * 30 + "a" * 30, ".*" * 20, "(a|aa)" * 30 + "b"),
    *("(.*)_(.*)_(.*)", "^(.*)(.*)(.*)(.*)$", "^(ab|cd)?(ef|gh)?.*.*.*x"),
)
LONG = ("a" * (LONGEST + 1), "(" * 480 + ")" * 480)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        *((source, "in `queries` by hand") for source in NOT_SHARED),
        *((source, r"within a repetition|in too many places") for source in SLOW),
        *((source, r"characters|recursion") for source in LONG),
    ],
)
def test_an_expression_that_differs_in_go_or_may_take_long_is_refused(
    source: str, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        GoRegex(source)


@pytest.mark.parametrize(
    "source",
    ["^(.*)(.*)(.*)b$", "(.*)(.*)b$", "(a?)(a?)(a?)(a?)(a?)(a?)(.*)b", "^(aa)+(aaa)*(a|b)c$"],
)
def test_an_expression_that_is_read_takes_no_time(source: str) -> None:
    regex = GoRegex(source)
    text = "a" * 250 + "c"
    begin = time.thread_time()
    regex.search(text)
    regex.matches_all(text)
    regex.texts({1: "a" * 200})
    assert time.thread_time() - begin < 1.0
    assert GoRegex("a*").search("a" * 2_000) is None  # the text is bounded, too


@pytest.mark.parametrize(
    ("template", "made"),
    [
        ("${1}_per_second", "http_per_second"),
        ("$1_per_second", ""),
        ("$1-x", "http-x"),
        ("$what:$0", "http:http_total"),
        ("$$1", "$1"),
        ("${", "${"),
        ("${9}", ""),
    ],
)
def test_a_template_is_expanded_as_by_go(template: str, made: str) -> None:
    regex = GoRegex("^(?P<what>.*)_total$")
    match = known(regex.search("http_total"))
    expanded = expand(template, regex, match)
    assert expanded == (made if template != "${" else "${")
    assert bool(unknown_group(template, regex)) is (template in {"$1_per_second", "${9}"})


TURNED = r"""
^(.*)_total$ | ${1}_per_second | http_per_second | http_total
^(.*)_total$ | ${1}_per_second | http | -
^container_(.*)_(seconds|bytes)$ | $1 | cpu | container_cpu_seconds container_cpu_bytes
.* | $0 | queue | queue
^http_(.*)_(.*)$ | ${2}_of_$1 | total_of_a_b | http_a_b_total
^requests(_total)?$ | rps | rps | requests requests_total
^requests[a-z]+$ | rps | rps | none
(.*) | a{,${1}\? | a{,x\? | x
^(a|b|c|d|e)_x$ | ${1} | d | d_x
^queue_(one|two|three|four|five|six)$ | q | q
    | queue_one queue_two queue_three queue_four queue_five queue_six
"""
"""An expression, a template, a name, and the texts it is made of; - where it cannot be one."""


@pytest.mark.parametrize(("source", "template", "name", "texts"), rows(TURNED))
def test_a_name_gives_the_texts_that_it_can_come_from(
    source: str, template: str, name: str, texts: str
) -> None:
    regex = GoRegex(source)
    captures = captures_of(name, template, regex)
    made = None if captures is None else [text.text for text in regex.texts(captures)]
    assert made == {"-": None, "none": []}.get(texts, texts.split())
    assert list(parts_of(template, regex))


def test_a_text_of_many_forms_is_not_sure() -> None:
    assert not any(made.sure for made in GoRegex("^(a|b.+)$").texts())
    assert not any(made.sure for made in GoRegex("(?i)^a$").texts())
    assert GoRegex("^requests_(.*)").texts() == [PossibleText("requests_", sure=False)]
    assert GoRegex("^requests$").texts() == [PossibleText("requests", sure=True)]


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
def test_a_template_is_filled_as_by_go(source: str, filled: str) -> None:
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
def test_a_template_with_more_than_fields_is_refused(source: str) -> None:
    with pytest.raises(TemplateError, match="in `queries` by hand"):
        Template(source).fill(DATA)


def test_a_template_is_bounded() -> None:
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
