"""Which queries of triggers give one value without labels."""

import pytest

from autoscaler.config.promql_parser import parse
from autoscaler.migrate.promql_answers import is_one_value

ONE = """\
sum(x)
max(x) by ()
1 + 1
time()
scalar(x)
vector(1)
hour()
-sum(x)
sum(x) > 1
sum(x) or vector(0)
clamp_max(sum(x), 100)
clamp(sum(x), 0, scalar(y))
round(sum(x), 5)
quantile(0.9, x)
histogram_quantile(0.9, sum by (le) (rate(x[5m])))
histogram_quantile(0.9, sum(x))
max_over_time(sum(x)[5m:1m])
predict_linear(sum(x)[1h:], 3600)
"""
SEVERAL = """\
x
clamp_max(lag{job="web"}, 100)
clamp_min(x, 1)
clamp(x, 0, 100)
round(x, 5)
histogram_quantile(0.9, x_bucket)
histogram_quantile(0.9, sum by (le, a) (x))
quantile_over_time(0.9, x[5m])
predict_linear(x[1h], 3600)
double_exponential_smoothing(x[1h], 0.5, 0.5)
rate(x[1m])
hour(x)
absent(x{a="b"})
topk(1, x)
count_values("a", x)
sum by (a) (x)
avg without (a) (x)
label_replace(sum(x), "a", "b", "", "")
rollup(sum(x))
quantiles_over_time("phi", 0.5, 0.9, sum(x)[5m:])
x or vector(0)
x * 2
"""


@pytest.mark.parametrize(
    ("promql", "expected"),
    [
        (promql, expected)
        for text, expected in ((ONE, True), (SEVERAL, False))
        for promql in text.splitlines()
    ],
)
def test_whether_a_query_gives_one_value(promql: str, *, expected: bool) -> None:
    """A number among the arguments of a function says nothing of its vectors."""
    assert is_one_value(parse(promql)) is expected
