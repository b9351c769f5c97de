"""The scale-down breaker: when it trips and ends, and what a held target remembers (8.7)."""

from dataclasses import replace

from autoscaler.core.breaker import Breaker, goes_down, held_back
from autoscaler.core.decide import decide
from autoscaler.core.decision import BreakerHold, Decision, Saturation
from autoscaler.core.history import History, shifted
from autoscaler.core.observation import Values
from autoscaler.core.spec import Flags
from autoscaler.rendering.record import stages_of
from tests.core.builders import BASE, QUEUE, behavior, percent_policy, rules, spec
from tests.core.deciding import observe, reasons
from tests.core.timeline import Timeline
from tests.narrowing import known

BREAKER = Breaker(share=30, min_targets=20, hold=600.0)


def scale_down(history: History | None = None, window: int = 0) -> tuple[Decision, History]:
    """Decide about 10 replicas whose metric asks for 2, with a stabilization window."""
    free = behavior(down=rules(percent_policy(100), window=window))
    target, seen = spec(QUEUE, maximum=20, behavior=free), observe(10, Values((20_000,)))
    return decide(target, Flags(), seen, history or History(), BASE)


def test_a_held_target_stays_and_has_the_condition_of_the_breaker() -> None:
    """It is no failure: what metrics ask for and every stage stay in the record."""
    decision, history = scale_down(History(recommendations=()))
    assert goes_down(decision)
    held, _ = held_back(decision, history, History(), "mimir", BASE + 600)
    assert (held.rescale, held.desired, held.outcome) == (False, 10, decision.outcome)
    assert held.breaker == BreakerHold("mimir", BASE + 600, 2)
    assert reasons(held)["ScalingLimited"] == ("True", "ScaleDownBreaker")
    assert "mimir" in held.conditions[-1].message
    assert (stages_of(held), held.metrics, held.events) == (
        stages_of(decision),
        decision.metrics,
        decision.events,
    )


def test_the_condition_of_a_hold_keeps_its_first_time() -> None:
    _, first = held_back(*scale_down(History(recommendations=())), History(), "", BASE + 600)
    held, _ = held_back(*scale_down(first), shifted(first, -15.0), "", BASE + 600)
    (limited,) = (condition for condition in held.conditions if condition.type == "ScalingLimited")
    assert limited.last_transition == BASE - 15.0


def test_a_held_target_records_no_write() -> None:
    """The recommendation stays recorded; there is no scale event, no pending write, no zero."""
    decision, history = scale_down(History(recommendations=()))
    _, after = held_back(decision, history, History(), "", BASE + 600)
    assert after.recommendations == history.recommendations
    assert [recommendation.replicas for recommendation in after.recommendations or ()] == [2]
    assert (after.scale_downs, after.pending, after.zeroed_by_us) == ((), None, False)
    assert after.desired_replicas == 10
    assert replace(after, conditions=(), desired_replicas=0) == replace(
        history, conditions=(), desired_replicas=0
    )


def test_a_stabilized_target_does_not_go_down() -> None:
    decision, _ = scale_down(window=300)
    assert known(decision.combination).after == 2
    assert not goes_down(decision)


def test_a_pause_at_a_count_is_not_held() -> None:
    target = Timeline(spec(QUEUE), replicas=10).annotated(paused_replicas="2")
    decision = target.sync("0s", queue=900).decision
    assert decision.desired == 2
    assert not goes_down(decision)


def test_a_saturation_is_reported_after_a_quarter_of_an_hour() -> None:
    """Semantics 8.6."""
    decision, lasting = scale_down()[0], []
    for seconds in (0.0, 899.0, 900.0, 5000.0):
        saturation = Saturation(7, BASE - seconds, "TooManyReplicas")
        lasting.append(replace(decision, saturation=saturation).lasting_saturation is saturation)
    assert lasting == [False, False, True, True]
    assert decision.lasting_saturation is None
