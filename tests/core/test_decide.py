"""One decision: selectors, combined metrics, conditions and events (semantics 1)."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from autoscaler.core.decide import decide
from autoscaler.core.decision import Outcome, Zone
from autoscaler.core.history import Condition, History, Recommendation, ScaleEvent
from autoscaler.core.observation import Gap, GapKind, Observation, ReadFailure, Reading
from autoscaler.core.reconcile import ALL_BELOW
from autoscaler.core.selectors import parse
from autoscaler.core.spec import (
    ConditionStatus,
    Flags,
    MetricSpec,
    ScaleTargetRef,
    Tolerance,
    needs_pods,
    tolerance_of,
)
from autoscaler.core.status import StatusRecorder
from autoscaler.core.target import Query, Target
from autoscaler.rendering.hpa import current_metrics
from autoscaler.rendering.record import stages_of
from tests.core.builders import (
    BASE,
    FALSE,
    MAILS,
    QUEUE,
    TRUE,
    average,
    behavior,
    container_cpu,
    cpu,
    external,
    of_object,
    per_pod,
    percent_policy,
    rules,
    spec,
    utilization,
    value,
    values,
)
from tests.core.deciding import ERROR, decided, observe, reasons
from tests.narrowing import assert_parts, known


@pytest.mark.parametrize("current", [1, 11])
def test_a_bound_needs_no_metric_and_leaves_old_conditions(current: int) -> None:
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
    assert [stage.name for stage in stages_of(decision)] == ["bounds"]


@pytest.mark.parametrize("current", [0, 1, 5, 11])
def test_the_first_scale_read_is_the_first_recommendation(current: int) -> None:
    of = spec(QUEUE, minimum=2, maximum=10)
    _, after = decided(of, observe(current, values(10)))
    assert known(after.recommendations)[0] == Recommendation(current, BASE)
    _, later = decide(of, Flags(), observe(current, ERROR), after, BASE + 15)
    assert later.recommendations == after.recommendations


def test_an_unreadable_scale_blocks() -> None:
    _, before = decided(spec(QUEUE), observe(1, values(10)))
    seen = Observation(ReadFailure("deployments.apps web not found"), None, (values(10),))
    decision, after = decided(spec(QUEUE), seen, before)
    assert (decision.zone, decision.outcome) == (Zone.UNKNOWN, Outcome.BLOCKED)
    assert (decision.current, decision.rescale) == (None, False)
    assert [(event.type, event.reason, event.message) for event in decision.events] == [
        ("Warning", "FailedGetScale", "deployments.apps web not found")
    ]
    assert reasons(decision)["AbleToScale"] == ("False", "FailedGetScale")
    assert reasons(decision)["ScalingActive"] == ("True", "ValidMetricFound")
    assert replace(after, conditions=before.conditions) == before
    assert decided(spec(QUEUE), seen)[1].recommendations is None


PLAIN, OTHERS = observe(1, values(10)), ("shop/Deployment/a", "shop/Job/b")


@pytest.mark.parametrize(
    ("seen", "event", "reason"),
    [
        (observe(1, values(10), selector=""), "SelectorRequired", "InvalidSelector"),
        (observe(1, values(10), selector="app web"), "InvalidSelector", "InvalidSelector"),
        (replace(PLAIN, ambiguous_with=OTHERS), "AmbiguousSelector", "AmbiguousSelector"),
        (replace(PLAIN, pods=ReadFailure("forbidden")), "FailedListPods", "FailedListPods"),
    ],
)
def test_without_pods_that_are_surely_its_own_nothing_is_decided(
    seen: Observation, event: str, reason: str
) -> None:
    before = History(recommendations=(), desired_replicas=7)
    decision, after = decided(spec(QUEUE), seen, before)
    assert decision.outcome is Outcome.BLOCKED
    assert [(item.type, item.reason) for item in decision.events] == [
        ("Warning", event),
        ("Warning", "FailedComputeMetricsReplicas"),
    ]
    assert reasons(decision) == {
        "AbleToScale": ("True", "SucceededGetScale"),
        "ScalingActive": ("False", reason),
    }
    assert (after.recommendations, after.desired_replicas) == ((), 7)
    assert (decision.metrics, stages_of(decision)) == ((), ())
    if seen.ambiguous_with:
        assert_parts(decision.events[0], "shop/Deployment/a, shop/Job/b", "'app=web'")


def test_the_stages_have_each_count_and_reason() -> None:
    history = History(recommendations=(Recommendation(60, BASE - 15),))
    decision, _ = decided(spec(QUEUE, maximum=9), observe(8, values(20)), history)
    stages = [(stage.name, stage.after, stage.reason) for stage in stages_of(decision)]
    assert stages == [
        ("combine", 2, ALL_BELOW),
        ("stabilize", 60, "ScaleDownStabilized"),
        ("limit", 9, "TooManyReplicas"),
    ]
    assert [stage.before for stage in stages_of(decision)] == [8, 2, 60]


@pytest.mark.parametrize(("ago", "until"), [(30, 30), (1, 59), (None, 285)])
def test_releases_at_is_the_earlier_of_stabilization_and_limit(
    ago: float | None, until: float
) -> None:
    """Stabilization holds for 285 s more; a scale-down a while ago leaves its minute sooner."""
    held = behavior(down=rules(percent_policy(10, 60), window=300))
    history = History(
        recommendations=(Recommendation(4, BASE - 15),),
        scale_downs=() if ago is None else (ScaleEvent(1, BASE - ago),),
    )
    decision, _ = decided(spec(QUEUE, behavior=held), observe(8, values(20)), history)
    assert known(decision.stabilization).until == BASE + 285
    assert known(decision.limit).reason == "ScaleDownLimit"
    assert decision.releases_at == BASE + until


def test_each_metric_needs_a_reading() -> None:
    with pytest.raises(ValueError, match="zip"):
        decided(spec(QUEUE, MAILS), observe(1, values(10)))


# -- several metrics, one proposal, and what failed metrics forbid ---------------------------------


@pytest.mark.parametrize(
    ("first", "second", "after"), [(-5, -2, 0), (0, -2, 0), (-5, 30, 3), (30, -5, 3), (-5, 0, 0)]
)
def test_negative_proposals_become_zero(first: int, second: int, after: int) -> None:
    of = spec(external(value("10")), external(value("10"), "mails"))
    decision, _ = decided(of, observe(1, values(first), values(second)))
    assert known(decision.combination).after == after


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
def test_a_failed_metric_forbids_scaling_down(
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
        assert stages_of(decision) == ()
    else:
        assert [event.reason for event in decision.events] == ["FailedGetExternalMetric"]
        assert reasons(decision)["ScalingActive"] == ("True", "ValidMetricFound")
        assert after.desired_replicas == desired


def test_each_failed_metric_has_its_event_and_the_first_gives_the_condition() -> None:
    of = spec(cpu(utilization(50)), QUEUE, per_pod("1"), of_object(value("1")))
    seen = observe(3, Gap(GapKind.STALE, "old"), values(30), ERROR, Gap(GapKind.EMPTY, "none"))
    decision, _ = decided(of, seen)
    assert [event.reason for event in decision.events] == [
        "FailedGetResourceMetric",
        "FailedGetPodsMetric",
        "FailedGetObjectMetric",
    ]
    assert [metric.proposal for metric in decision.metrics] == [None, 3, None, None]
    blocked, _ = decided(of, replace(seen, readings=(seen.readings[0], values(10), ERROR, ERROR)))
    assert reasons(blocked)["ScalingActive"] == ("False", "FailedGetResourceMetric")
    assert_parts(blocked.events[-1], "3 of 4 metrics", "old")


# -- how conditions are set ------------------------------------------------------------------------


ABLE = Condition("AbleToScale", TRUE, "SucceededGetScale", "read", 100.0)
ACTIVE = Condition("ScalingActive", TRUE, "ValidMetricFound", "queue", 100.0)


def with_condition(
    before: Sequence[Condition], type_: str, status: ConditionStatus, reason: str, now: float
) -> tuple[Condition, ...]:
    """Return the conditions after one is set, with its reason as the message."""
    recorder = StatusRecorder(tuple(before), now)
    setter = recorder.set_true if status is TRUE else recorder.set_false
    setter(type_, reason, reason)
    return recorder.conditions


def test_a_condition_keeps_its_place_and_the_transition_of_its_status() -> None:
    active = Condition("ScalingActive", TRUE, "Valid", "Valid", 100.0)
    assert with_condition((ABLE,), "ScalingActive", TRUE, "Valid", 100.0) == (ABLE, active)
    kept = with_condition((ABLE, ACTIVE), "AbleToScale", TRUE, "Ready", 200.0)
    assert kept == (Condition("AbleToScale", TRUE, "Ready", "Ready", 100.0), ACTIVE)
    flipped = with_condition(kept, "AbleToScale", FALSE, "Failed", 300.0)
    assert flipped == (Condition("AbleToScale", FALSE, "Failed", "Failed", 300.0), ACTIVE)
    assert with_condition(flipped, "AbleToScale", TRUE, "Ready", 400.0)[0].last_transition == 400.0


def test_two_flips_in_one_decision_are_a_transition() -> None:
    recorder = StatusRecorder((ABLE,), 200.0)
    recorder.set_false("AbleToScale", "Failed", "failed")
    recorder.set_true("AbleToScale", "Ready", "ready")
    assert recorder.conditions[0].last_transition == 200.0
    recorder.override("AbleToScale", TRUE, "Ready", "ready")
    assert recorder.conditions[0].last_transition == 100.0


# -- what a spec says of itself: tolerances in force, the need for pods, a target's key ------------


FLAGS = Flags(tolerance=0.2)


@pytest.mark.parametrize(
    ("up", "down", "tolerance"),
    [
        (None, None, Tolerance(down=0.2, up=0.2)),
        (0.05, None, Tolerance(down=0.2, up=0.05)),
        (None, 0.05, Tolerance(down=0.05, up=0.2)),
        # Zero is a choice, not an absence.
        (0.0, 0.0, Tolerance(down=0.0, up=0.0)),
    ],
)
def test_each_direction_may_have_its_own_tolerance(
    up: float | None, down: float | None, tolerance: Tolerance
) -> None:
    both = behavior(
        rules(percent_policy(100), tolerance=up), rules(percent_policy(100), tolerance=down)
    )
    assert tolerance_of(spec(QUEUE, behavior=both), FLAGS) == tolerance
    assert tolerance_of(spec(QUEUE), FLAGS) == Tolerance(0.2, 0.2)


@pytest.mark.parametrize(
    ("metric", "needed"),
    [
        (cpu(utilization(50)), True),
        (container_cpu(average("1")), True),
        (per_pod("1"), True),
        (external(value("1")), True),
        (of_object(value("1")), True),
        (external(average("1")), False),
        (of_object(average("1")), False),
    ],
)
def test_a_spec_needs_pods_if_one_metric_does(metric: MetricSpec, needed: bool) -> None:
    assert needs_pods(spec(metric)) is needed
    assert needs_pods(spec(QUEUE, metric)) is needed


@pytest.mark.parametrize(
    ("api_version", "group", "key"),
    [
        ("v1", "", "shop/Thing/one"),
        ("apps/v1", "apps", "shop/Thing/one"),
        ("example.com/v1beta1", "example.com", "shop/Thing.example.com/one"),
    ],
)
def test_a_key_has_the_group_unless_it_is_usual(api_version: str, group: str, key: str) -> None:
    ref = ScaleTargetRef(api_version, "Thing", "one")
    assert ref.group == group
    assert Target("shop", replace(spec(QUEUE), scale_target_ref=ref), (Query("q"),)).key == key


# -- the metrics of a decision as `currentMetrics`, and the names in reasons -----------------------


def test_the_selector_of_a_reported_metric() -> None:
    in_both = {"key": "env", "operator": "In", "values": ["a", "b"]}
    expressions = [in_both, {"key": "old", "operator": "DoesNotExist"}]
    both = {"matchLabels": {"queue": "orders"}, "matchExpressions": expressions}
    for text, shown in (("", {}), ("queue=orders,env in (a,b),!old", both)):
        metric = external(average("10"), selector=parse(text))
        (status,) = current_metrics(decided(spec(metric), observe(2, values(30)))[0])
        identifier = {"name": "queue", "selector": shown}
        body = {"metric": identifier, "current": {"averageValue": "15"}}
        assert status == {"type": "External", "external": body}
