"""Which PromQL is a condition: a comparison that returns what it is true for."""

import pytest

from autoscaler.config.promql import is_condition

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
