"""How far a query looks back, read from its PromQL."""

import pytest

from autoscaler.config.promql import range_of
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
