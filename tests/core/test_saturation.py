"""More is wanted than bounds and policies permit (semantics 8.6)."""

from autoscaler.core.decision import Saturation
from tests.core.builders import BASE, average, behavior, external, pods_policy, rules, spec
from tests.core.timeline import Timeline

QUEUE = external(average("10"))
FREE = behavior(down=rules(pods_policy(100), window=0))


def saturation(target: Timeline) -> Saturation | None:
    """Return that of the last sync."""
    assert target.decision is not None
    return target.decision.saturation


def test_at_the_maximum_with_more_asked_for() -> None:
    """How much is missing now, and since when some is; a fulfilled wish ends it."""
    target = Timeline(spec(QUEUE, maximum=5, behavior=FREE), replicas=5)
    assert saturation(target.at("0s", queue=50)) is None
    assert saturation(target.at("15s", queue=80)) == Saturation(3, BASE + 15.0, "TooManyReplicas")
    assert saturation(target.at("30s", queue=90)) == Saturation(4, BASE + 15.0, "TooManyReplicas")
    assert saturation(target.at("45s", queue=50)) is None
    assert saturation(target.at("1m", queue=90)) == Saturation(4, BASE + 60.0, "TooManyReplicas")


def test_limited_by_a_policy() -> None:
    """A policy that permits too little for long leaves replicas missing as well."""
    slow = behavior(up=rules(pods_policy(1)))
    target = Timeline(spec(QUEUE, maximum=50, behavior=slow), replicas=5)
    assert saturation(target.at("0s", queue=90)) == Saturation(3, BASE, "ScaleUpLimit")
    assert saturation(target.at("15.1s", queue=90)) == Saturation(2, BASE, "ScaleUpLimit")


def test_a_sync_without_metrics_says_nothing_and_ends_nothing() -> None:
    """What is not known has neither ended nor begun."""
    target = Timeline(spec(QUEUE, maximum=5), replicas=5)
    target.at("0s", queue=80)
    assert saturation(target.at("15s", queue=None)) is None
    assert saturation(target.at("30s", queue=80)) == Saturation(3, BASE, "TooManyReplicas")


def test_a_scale_down_that_is_limited_lacks_nothing() -> None:
    """Too many replicas are no saturation."""
    slow = behavior(down=rules(pods_policy(1), window=0))
    target = Timeline(spec(QUEUE, behavior=slow), replicas=9)
    assert saturation(target.at("0s", queue=10)) is None
