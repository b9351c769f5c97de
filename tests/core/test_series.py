"""Prometheus answers: milli-values, and the index that lets one answer serve many targets."""

import math

import pytest

from autoscaler.core.numbers import INT64_MAX, INT64_MIN
from autoscaler.core.selectors import LONGEST, go_string, parse, selector_problem
from autoscaler.core.series import QueryResult, milli_of
from autoscaler.core.spec import LabelSelector, Operator, Requirement
from tests.core.builders import series


@pytest.mark.parametrize(
    ("values", "milli"),
    [
        ((1.0,), 1000),
        ((0.0, -0.0, 0.0004), 0),
        ((0.0006,), 1),
        ((1.2345,), 1234),
        ((1.2346,), 1235),
        ((-1.2346,), -1235),
        # 1e306 is finite, and no longer so in milli-units.
        ((1e300, 1e306), INT64_MAX),
        ((-1e300, -1e306), INT64_MIN),
        ((math.nan, math.inf, -math.inf), None),
    ],
)
def test_a_sample_becomes_a_milli_value(values: tuple[float, ...], milli: int | None) -> None:
    """Rounded to the nearest, saturating; NaN and infinities are no samples."""
    assert {milli_of(value) for value in values} == {milli}


QUEUES = QueryResult(
    (
        series(1, queue="orders", env="prod"),
        series(2, queue="orders", env="test"),
        series(3, queue="mails", env="prod"),
        series(4, env="prod"),
    )
)


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        (None, [1, 2, 3, 4]),
        (LabelSelector(), [1, 2, 3, 4]),
        (parse("queue=orders"), [1, 2]),
        (parse("queue=orders,env=prod"), [1]),
        (parse("queue=none"), []),
        (parse("queue=orders,env!=prod"), [2]),
        (parse("queue in (orders, mails)"), [1, 2, 3]),
        (parse("queue notin (orders)"), [3, 4]),
        (parse("queue"), [1, 2, 3]),
        (parse("!queue"), [4]),
    ],
)
def test_selectors_filter_series(selector: LabelSelector | None, found: list[float]) -> None:
    """Every operator, here and not in the query, so that one query serves many targets."""
    for _ in range(2):  # the second time from the index
        assert [one.value for one in QUEUES.select(selector)] == found


def test_series_are_found_by_label() -> None:
    assert [one.value for one in QUEUES.with_label("queue", "mails")] == [3]
    assert list(QUEUES.with_label("queue", "")) == []
    assert list(QUEUES.with_label("pod", "p0")) == []


def test_the_index_is_no_part_of_the_value() -> None:
    """Two equal answers stay equal whichever was searched."""
    left, right = QueryResult((series(1, pod="a"),)), QueryResult((series(1, pod="a"),))
    left.with_label("pod", "a")
    assert left == right
    assert repr(left) == repr(right)


# -- label selectors: the string form of a scale, the four operators, Go's printed form ------------


WEB = {"app": "web", "tier": "front"}


@pytest.mark.parametrize(
    ("text", "labels", "expressions"),
    [
        ("", (), ()),
        ("app=web", (("app", "web"),), ()),
        ("app==web", (("app", "web"),), ()),
        (" app = web , tier=front ", (("app", "web"), ("tier", "front")), ()),
        ("app=", (("app", ""),), ()),
        ("app!=web", (), (Requirement("app", Operator.NOT_IN, ("web",)),)),
        ("app", (), (Requirement("app", Operator.EXISTS),)),
        ("!app", (), (Requirement("app", Operator.DOES_NOT_EXIST),)),
        ("! app", (), (Requirement("app", Operator.DOES_NOT_EXIST),)),
        ("tier in (a, b)", (), (Requirement("tier", Operator.IN, ("a", "b")),)),
        ("tier in(a)", (), (Requirement("tier", Operator.IN, ("a",)),)),
        ("tier notin (a,b)", (), (Requirement("tier", Operator.NOT_IN, ("a", "b")),)),
        (
            "app.kubernetes.io/name=web,tier in (a,b),!canary",
            (("app.kubernetes.io/name", "web"),),
            (
                Requirement("tier", Operator.IN, ("a", "b")),
                Requirement("canary", Operator.DOES_NOT_EXIST),
            ),
        ),
    ],
)
def test_parse(
    text: str, labels: tuple[tuple[str, str], ...], expressions: tuple[Requirement, ...]
) -> None:
    """Equality terms become labels, all others requirements, in the order written."""
    assert parse(text) == LabelSelector(labels, expressions)


NO_SELECTORS = ("app=web,", "=web", "app web", "app=web tier=x", "tier in a", "tier in (a", "a,,b")


@pytest.mark.parametrize("text", [*NO_SELECTORS, "!", "a>5", "tier in (a b)"])
def test_what_is_not_a_selector_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a label selector") as refused:
        parse(text)
    assert repr(text) in str(refused.value)


OPERATORS = [
    ("app in (web, api)", (True, False, False)),
    ("app notin (web, api)", (False, True, True)),
    ("app", (True, True, False)),
    ("!app", (False, False, True)),
    ("", (True, True, True)),
    ("app=web,tier in (front)", (True, False, False)),
    ("app=web,tier in (back)", (False, False, False)),
    ("app=db,tier in (front)", (False, False, False)),
    # The label with an empty value, which is not an absent label.
    ("app=", (False, False, False)),
]


@pytest.mark.parametrize(("text", "matched"), OPERATORS)
def test_all_terms_must_match(text: str, matched: tuple[bool, ...]) -> None:
    selector = parse(text)
    found = [selector.matches(labels) for labels in (WEB, {"app": "db"}, {"tier": "front"})]
    assert tuple(found) == matched
    assert selector.matches({"app": ""}) is (text in {"", "app=", "app", "app notin (web, api)"})
    assert selector.empty is (text == "")


@pytest.mark.parametrize(
    ("selector", "printed"),
    [
        (None, "nil"),
        (
            LabelSelector(),
            (
                "&LabelSelector{MatchLabels:map[string]string{},"
                "MatchExpressions:[]LabelSelectorRequirement{},}"
            ),
        ),
        (
            LabelSelector((("queue", "orders"), ("env", "prod"))),
            (
                "&LabelSelector{MatchLabels:map[string]string{env: prod,queue: orders,},"
                "MatchExpressions:[]LabelSelectorRequirement{},}"
            ),
        ),
        (
            LabelSelector(
                (),
                (
                    Requirement("queue", Operator.NOT_IN, ("a", "b")),
                    Requirement("old", Operator.DOES_NOT_EXIST),
                ),
            ),
            (
                "&LabelSelector{MatchLabels:map[string]string{},"
                "MatchExpressions:[]LabelSelectorRequirement{"
                "LabelSelectorRequirement{Key:queue,Operator:NotIn,Values:[a b],},"
                "LabelSelectorRequirement{Key:old,Operator:DoesNotExist,Values:[],},},}"
            ),
        ),
    ],
)
def test_dump(selector: LabelSelector | None, printed: str) -> None:
    """The form that Go's String method gives, labels sorted."""
    assert go_string(selector) == printed


def test_a_selector_past_the_bound_is_refused_before_it_is_read() -> None:
    """An API server does not check the selectors of custom resources, and any size fits in etcd."""
    assert parse("a," * (LONGEST // 2 - 1) + "a").match_expressions
    with pytest.raises(ValueError, match="a label selector of 65,537 characters is not read"):
        parse("a" * (LONGEST + 1))


def test_a_selector_that_cannot_be_used_costs_a_target_its_metrics_and_nobody_else_time() -> None:
    """It is told as one that is invalid, in a short sentence."""
    problem = selector_problem("a in (" + " " * 900_000, ())
    assert problem is not None
    assert problem[:2] == ("InvalidSelector", "InvalidSelector")
    assert len(problem[2]) < 200
