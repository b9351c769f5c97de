"""Several metrics, one proposal, and what failed metrics forbid (semantics 1.3.2)."""

from dataclasses import replace

import pytest

from autoscaler.core.decision import Outcome
from autoscaler.core.history import History, Recommendation
from autoscaler.core.observation import Gap, GapKind, Reading
from tests.core.builders import (
    BASE,
    cpu,
    external,
    of_object,
    per_pod,
    spec,
    utilization,
    value,
    values,
)
from tests.core.deciding import ERROR, MAILS, QUEUE, decided, observe, reasons

BOTH = spec(QUEUE, MAILS)


@pytest.mark.parametrize(
    ("queue", "mails", "desired", "winner"),
    [
        (30, 20, 3, "queue"),
        (20, 30, 3, "mails"),
        # Of equals the first.
        (30, 30, 3, "queue"),
        # On target is a proposal, too: one "stay" vetoes every scale-down.
        (10, 20, 2, "mails"),
        (0, 0, 0, "mails"),
    ],
)
def test_the_largest_proposal_wins(queue: int, mails: int, desired: int, winner: str) -> None:
    """And gives its name."""
    decision, _ = decided(BOTH, observe(2, values(queue), values(mails)))
    assert decision.combination is not None
    assert decision.combination.after == desired
    assert decision.combination.winner == f"external metric {winner}(nil)"


@pytest.mark.parametrize(
    ("first", "second", "after"), [(-5, -2, 0), (0, -2, 0), (-5, 30, 3), (30, -5, 3), (-5, 0, 0)]
)
def test_negative_proposals_become_zero(first: int, second: int, after: int) -> None:
    """A ratio below zero proposes less than 0 replicas."""
    of = spec(external(value("10")), external(value("10"), "mails"))
    decision, _ = decided(of, observe(1, values(first), values(second)))
    assert decision.combination is not None
    assert decision.combination.after == after


@pytest.mark.parametrize(
    ("reading", "current", "outcome", "desired"),
    [
        # The metric that works may go up or stay, and not down.
        (values(50), 4, Outcome.PARTIAL, 5),
        (values(40), 4, Outcome.PARTIAL, 4),
        (values(30), 4, Outcome.BLOCKED, 4),
        (ERROR, 4, Outcome.BLOCKED, 4),
        # At zero nothing is below.
        (values(0), 0, Outcome.PARTIAL, 0),
        (values(10), 0, Outcome.PARTIAL, 1),
    ],
)
def test_a_failed_metric_beside_another(
    reading: Reading, current: int, outcome: Outcome, desired: int
) -> None:
    """Partial failures (semantics 1.3.2)."""
    decision, after = decided(
        spec(QUEUE, MAILS, minimum=0), observe(current, ERROR, reading), History(desired_replicas=9)
    )
    assert (decision.outcome, decision.desired) == (outcome, desired)
    assert decision.events[0].reason == "FailedGetExternalMetric"
    assert decision.events[0].message == "connection refused"
    assert len(decision.metrics) == 2
    if outcome is Outcome.BLOCKED:
        assert decision.events[-1].reason == "FailedComputeMetricsReplicas"
        assert reasons(decision)["ScalingActive"] == ("False", "FailedGetExternalMetric")
        assert after.recommendations == (Recommendation(current, BASE),)
        assert after.desired_replicas == 9
        assert decision.stages == ()
    else:
        assert [one.reason for one in decision.events] == ["FailedGetExternalMetric"]
        assert reasons(decision)["ScalingActive"] == ("True", "ValidMetricFound")
        assert after.desired_replicas == desired


def test_each_failed_metric_has_its_event_and_the_first_gives_the_condition() -> None:
    """In the order of the spec; those after a failed one are still computed."""
    of = spec(cpu(utilization(50)), QUEUE, per_pod("1"), of_object(value("1")))
    seen = observe(3, Gap(GapKind.STALE, "old"), values(30), ERROR, Gap(GapKind.EMPTY, "none"))
    decision, _ = decided(of, seen)
    assert [one.reason for one in decision.events] == [
        "FailedGetResourceMetric",
        "FailedGetPodsMetric",
        "FailedGetObjectMetric",
    ]
    assert [one.proposal for one in decision.metrics] == [None, 3, None, None]
    blocked, _ = decided(of, replace(seen, readings=(seen.readings[0], values(10), ERROR, ERROR)))
    assert reasons(blocked)["ScalingActive"] == ("False", "FailedGetResourceMetric")
    assert "3 of 4 metrics" in blocked.events[-1].message
    assert "old" in blocked.events[-1].message
