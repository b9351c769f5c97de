"""What is read from PromQL: how far it looks back, and whether it is a condition."""

import pytest

from autoscaler.config.promql import is_condition, range_of
from autoscaler.config.queries import DEFAULTS


@pytest.mark.parametrize(
    ("promql", "seconds"),
    [
        ("rabbitmq_queue_messages_ready", 0),
        ("sum by (queue) (rabbitmq_queue_messages_ready)", 0),
        ("sum by (queue) (rate(published_total[2m]))", 120),
        ("rate(a[90s]) / rate(b[5m])", 300),
        ("rate(a[1h30m])", 5400),
        ("rate(a[ 500ms ])", 0.5),
        ("rate(a[120])", 120),
        ("max_over_time(rate(a[5m])[10m:1m])", 900),
        ("max_over_time((rate(a[5m]) + b)[10m:])", 900),
        ("avg_over_time(max_over_time(rate(a[1m])[2m:])[4m:])", 420),
        ("rate(a[5m] offset 1h)", 3900),
        ("sum(last_over_time(a[1m]))", 0),
        ("irate(a[5m])", 0),
        ("irate (a[5m] offset 1m)", 60),
        ("last_over_time(rate(a[5m])[10m:])", 300),
        ("sum_over_time(irate(a[5m])[10m:])", 600),
        ("a offset 10m", 600),
        ("rate(a[200y])", 200 * 365 * 86400),
        ("rate(a[\u0663m])", 0),
        (f"rate(a[{'9' * 30}m])", 0),
        ("rate(a[2m]) and on() (b offset 1m)", 120),
        ('rate(a{path="[5m]"}[2m])', 120),
        ("rate(a{path=~'x]\\'[9m]'}[2m]) # over [8m]", 120),
        ('sum(a{x="{", y=`[7m]`})', 0),
        ("sum(rate(a[2m])) by (offset_of)", 120),
        ("a[", 0),
        (")[5m]", 300),
        ("", 0),
    ],
)
def test_the_longest_way_back(promql: str, seconds: float) -> None:
    """Ranges that follow one another add up, others do not; quoted text and comments are none."""
    assert range_of(promql) == seconds


def test_the_built_in_queries_say_how_far_they_look_back() -> None:
    """The figures beside them are those of their PromQL."""
    for query in DEFAULTS.values():
        assert query.range_seconds == range_of(query.promql)


# -- conditions ------------------------------------------------------------------------------------

CONDITIONS = [
    'up{job="x"} == 0',
    "min_over_time(up[2m]) == 0",
    "(up == 0)",
    "((up) < 1)",
    "count(up) < 3",
    "a + b != c",
    "hour() > 22",
    "up == 0 and on (job) wanted",
    "up == 0 unless on () (maintenance > bool 0)",
    "(up == 0) unless maintenance",
    "freeze or on () (up == 0)",
    "up == on (job) wanted",
    "up == ignoring (job) group_left wanted",
    "a > bool 1 == 0",
    "up == 0 # or bool",
    "up ==\n0",
]
OTHERS = [
    "vector(1)",
    'ALERTS{alertstate="firing"}',
    'up{job!="x", path=~"=="}',
    '{job!="x"}',
    "up == bool 0",
    "(up == bool 0)",
    "1 - up",
    "count(up == 0)",
    "count(up == 0) or vector(0)",
    "(up == 0) + 1",
    "-(up == 0)",
    "sum by (job) (up == 0)",
    "freeze unless on () (up == 0)",
    "freeze unless on () up == 0",
    "freeze and on (job) up == 0",
    "a == 1 > bool 0",
    'label_replace(up, "a", "x == 0", "", "")',
    "up # == 0",
    "",
    "((((",
    "))))",
]


@pytest.mark.parametrize("promql", CONDITIONS)
def test_a_comparison_is_a_condition(promql: str) -> None:
    """If it is what is done last, also on either side of `or`, or before `and` and `unless`."""
    assert is_condition(promql)


@pytest.mark.parametrize("promql", OTHERS)
def test_anything_else_is_none(promql: str) -> None:
    """With `bool` it returns 0 or 1; within something else it only chooses what that takes."""
    assert not is_condition(promql)
