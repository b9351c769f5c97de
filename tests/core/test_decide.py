"""One decision: zones, selectors, combined metrics, conditions and events (semantics 1)."""

from dataclasses import replace

import pytest

from autoscaler.core.decide import decide
from autoscaler.core.decision import Outcome, Stage, Zone
from autoscaler.core.history import History, Recommendation, ScaleEvent
from autoscaler.core.observation import Observation, Unavailable, Values
from autoscaler.core.spec import Flags
from tests.core.builders import (
    BASE,
    FALSE,
    TRUE,
    average,
    behavior,
    of_object,
    percent_policy,
    rules,
    spec,
    value,
    values,
)
from tests.core.deciding import ERROR, MAILS, QUEUE, decided, observe, reasons


@pytest.mark.parametrize(
    ("minimum", "current", "zone", "desired", "reason"),
    [
        (2, 11, Zone.ABOVE_MAX, 10, "Current number of replicas above Spec.MaxReplicas"),
        (2, 10, Zone.METRICS, 10, ""),
        (2, 2, Zone.METRICS, 2, ""),
        (2, 1, Zone.BELOW_MIN, 2, "Current number of replicas below Spec.MinReplicas"),
        (2, 0, Zone.DISABLED, 0, ""),
        (0, 0, Zone.METRICS, 0, ""),
        (0, 11, Zone.ABOVE_MAX, 10, "Current number of replicas above Spec.MaxReplicas"),
    ],
)
def test_zones(minimum: int, current: int, zone: Zone, desired: int, reason: str) -> None:
    """Outside the bounds the bound is the decision; at zero, minReplicas tells."""
    seen = observe(current, values(10 * current))
    decision, _ = decided(spec(QUEUE, minimum=minimum, maximum=10), seen)
    assert (decision.zone, decision.desired, decision.reason) == (zone, desired, reason)
    assert decision.rescale is (desired != current)
    assert decision.outcome is Outcome.OK


@pytest.mark.parametrize("current", [1, 11])
def test_a_bound_needs_no_metric_and_leaves_old_conditions(current: int) -> None:
    """No reading is used, nothing is recommended, only AbleToScale is set."""
    before = History(
        recommendations=(Recommendation(7, BASE - 15),),
        conditions=decided(spec(QUEUE, MAILS), observe(4, ERROR, ERROR))[0].conditions,
    )
    seen = observe(current, ERROR, ERROR, selector="")
    decision, after = decided(spec(QUEUE, MAILS, minimum=2, maximum=10), seen, before)
    assert decision.events == ()
    assert decision.metrics == ()
    assert after.recommendations == before.recommendations
    assert reasons(decision) == {
        "AbleToScale": ("True", "SucceededGetScale"),
        "ScalingActive": ("False", "FailedGetExternalMetric"),
    }
    assert [stage.name for stage in decision.stages] == ["bounds"]


@pytest.mark.parametrize("current", [0, 1, 5, 11])
def test_the_first_scale_read_is_the_first_recommendation(current: int) -> None:
    """In every zone, once."""
    of = spec(QUEUE, minimum=2, maximum=10)
    _, after = decided(of, observe(current, values(10)))
    assert after.recommendations is not None
    assert after.recommendations[0] == Recommendation(current, BASE)
    _, later = decide(of, Flags(), observe(current, ERROR), after, BASE + 15)
    assert later.recommendations == after.recommendations


def test_an_unreadable_scale_blocks() -> None:
    """AbleToScale is False, other conditions stay, nothing is known of the count."""
    _, before = decided(spec(QUEUE), observe(1, values(10)))
    seen = Observation(Unavailable("deployments.apps web not found"), None, (values(10),))
    decision, after = decided(spec(QUEUE), seen, before)
    assert (decision.zone, decision.outcome) == (Zone.UNKNOWN, Outcome.BLOCKED)
    assert (decision.current, decision.rescale) == (None, False)
    assert [(one.type, one.reason, one.message) for one in decision.events] == [
        ("Warning", "FailedGetScale", "deployments.apps web not found")
    ]
    assert reasons(decision)["AbleToScale"] == ("False", "FailedGetScale")
    assert reasons(decision)["ScalingActive"] == ("True", "ValidMetricFound")
    assert replace(after, conditions=before.conditions) == before
    assert decided(spec(QUEUE), seen)[1].recommendations is None


@pytest.mark.parametrize(
    ("seen", "event", "reason"),
    [
        (observe(1, values(10), selector=""), "SelectorRequired", "InvalidSelector"),
        (observe(1, values(10), selector="app web"), "InvalidSelector", "InvalidSelector"),
        (
            replace(observe(1, values(10)), ambiguous_with=("shop/Deployment/other",)),
            "AmbiguousSelector",
            "AmbiguousSelector",
        ),
        (
            replace(observe(1, values(10)), pods=Unavailable("pods is forbidden")),
            "FailedListPods",
            "FailedListPods",
        ),
    ],
)
def test_without_pods_that_are_surely_its_own_nothing_is_decided(
    seen: Observation, event: str, reason: str
) -> None:
    """No metric is computed and nothing recommended; it ends like a blocked computation."""
    before = History(recommendations=(), desired_replicas=7)
    decision, after = decided(spec(QUEUE), seen, before)
    assert decision.outcome is Outcome.BLOCKED
    assert [one.reason for one in decision.events] == [event, "FailedComputeMetricsReplicas"]
    assert {one.type for one in decision.events} == {"Warning"}
    assert reasons(decision) == {
        "AbleToScale": ("True", "SucceededGetScale"),
        "ScalingActive": ("False", reason),
    }
    assert (after.recommendations, after.desired_replicas) == ((), 7)
    assert (decision.metrics, decision.stages) == ((), ())


def test_an_ambiguous_selector_names_the_others() -> None:
    """The operator learns with whom the pods are shared."""
    seen = replace(observe(1, values(10)), ambiguous_with=("shop/Deployment/a", "shop/Job/b"))
    message = decided(spec(QUEUE), seen)[0].events[0].message
    assert "shop/Deployment/a, shop/Job/b" in message
    assert "'app=web'" in message


@pytest.mark.parametrize(
    ("metric", "reading", "name"),
    [
        (QUEUE, values(90), "external metric queue(nil)"),
        (of_object(value("1")), values(9), "Ingress metric hits"),
        (of_object(average("1")), values(9), "external metric hits(nil)"),
    ],
)
def test_the_reason_names_the_winner(metric: object, reading: Values, name: str) -> None:
    """`<name> above target` going up, `All metrics below target` going down, empty otherwise."""
    of = spec(metric)  # type: ignore[arg-type]  # a column of a table
    assert decided(of, observe(1, reading))[0].reason == f"{name} above target"
    history = History(recommendations=())
    down = decided(of, observe(9, values(0)), history)[0]
    assert (down.reason, down.desired) == ("All metrics below target", 1)


def test_conditions_of_a_fresh_target_come_in_order() -> None:
    """AbleToScale, ScalingActive, ScalingLimited."""
    decision, after = decided(spec(QUEUE), observe(1, values(10)))
    assert [(one.type, one.status, one.reason) for one in decision.conditions] == [
        ("AbleToScale", TRUE, "ReadyForNewScale"),
        ("ScalingActive", TRUE, "ValidMetricFound"),
        ("ScalingLimited", FALSE, "DesiredWithinRange"),
    ]
    assert after.conditions == decision.conditions


def test_the_stages_tell_the_way() -> None:
    """Each from what came before it."""
    history = History(recommendations=(Recommendation(60, BASE - 15),))
    decision, _ = decided(spec(QUEUE, maximum=9), observe(8, values(20)), history)
    assert decision.stages == (
        Stage("combine", 8, 2, "All metrics below target"),
        Stage("stabilize", 2, 60, "ScaleDownStabilized"),
        Stage("limit", 60, 9, "TooManyReplicas"),
    )


@pytest.mark.parametrize(("ago", "until"), [(30, 30), (1, 59), (None, 285)])
def test_releases_at_is_the_earlier_of_two(ago: float | None, until: float) -> None:
    """Stabilization holds for 285 s more; a scale-down a while ago leaves its minute sooner."""
    held = behavior(down=rules(percent_policy(10, 60), window=300))
    history = History(
        recommendations=(Recommendation(4, BASE - 15),),
        scale_downs=() if ago is None else (ScaleEvent(1, BASE - ago),),
    )
    decision, _ = decided(spec(QUEUE, behavior=held), observe(8, values(20)), history)
    assert decision.stabilization is not None
    assert decision.stabilization.until == BASE + 285
    assert decision.limit is not None
    assert decision.limit.reason == "ScaleDownLimit"
    assert decision.releases_at == BASE + until


def test_readings_must_be_those_of_the_metrics() -> None:
    """One reading for each metric, else the caller is wrong."""
    with pytest.raises(ValueError, match="zip"):
        decided(spec(QUEUE, MAILS), observe(1, values(10)))
