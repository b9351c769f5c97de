"""Others who set the replicas, and other autoscalers (semantics 7.4, 7.5, 7.6)."""

from autoscaler.core.contention import FIELD_MANAGER
from autoscaler.core.decision import ForeignChange, Zone
from autoscaler.core.history import ScaleEvent
from autoscaler.core.observation import Unchecked
from autoscaler.core.spec import Flags
from tests.core.builders import BASE, average, behavior, external, pods_policy, rules, spec
from tests.core.timeline import Timeline

QUEUE = external(average("10"))
SPEC = spec(QUEUE, maximum=20)


def test_a_change_by_somebody_else_is_noticed_once_and_named() -> None:
    """The sync after it tells before, after and the manager; the next one has nothing to tell."""
    (
        Timeline(SPEC, replicas=4)
        .at("0s", queue=40).foreign(None)
        .by_hand(6, "kubectl")
        .at("15s", queue=60).foreign(ForeignChange(4, 6, "kubectl"))
        .at("30s", queue=60).foreign(None)
    )  # fmt: skip


def test_what_we_wrote_ourselves_is_not_foreign() -> None:
    """The count after our own write is the one that we know."""
    (
        Timeline(SPEC, replicas=2)
        .at("0s", queue=40).want(4)
        .at("15s", queue=40).want(4).foreign(None)
    )  # fmt: skip


def test_three_reversals_in_ten_minutes_hold_for_ten_minutes() -> None:
    """Somebody sets back what we set, thrice: we hold, say so, and go on ten minutes later."""
    line = Timeline(SPEC, replicas=2).at("0s", queue=40).want(4)
    for number, time in enumerate(("15s", "30s"), 1):
        line.by_hand(2, "kubectl").at(time, queue=40).want(4)
        line.foreign(ForeignChange(4, 2, "kubectl", reversal=True))
        assert len(line.history.contention.reversals) == number
    line.by_hand(2, "kubectl").at("45s", queue=40).want(2, outcome="blocked")
    line.conditions(AbleToScale="ReplicasContested").events("ReplicasContested")
    assert line.decision is not None
    assert line.decision.held_until == BASE + 45 + 600
    line.at("5m", queue=40).want(2, outcome="blocked")
    line.at("10m44s", queue=40).want(2, outcome="blocked")
    line.at("10m45s", queue=40).want(4, outcome="ok")


def test_a_hold_says_nothing_where_nothing_would_change() -> None:
    """While the metrics agree with the count as it stands there is nothing to hold."""
    line = Timeline(SPEC, replicas=2).at("0s", queue=40).want(4)
    for time in ("15s", "30s", "45s"):
        line.by_hand(2).at(time, queue=40)
    line.at("6m", queue=20).want(2, outcome="ok").events()


def test_reversals_far_apart_hold_nothing() -> None:
    """Three in ten minutes count, not three in an hour."""
    line = Timeline(SPEC, replicas=2).at("0s", queue=40).want(4)
    for time in ("5m1s", "10m2s", "15m3s", "20m4s"):
        line.by_hand(2).at(time, queue=40).want(4, outcome="ok")


def test_only_a_change_against_our_own_is_a_reversal() -> None:
    """Somebody who goes on in our direction, or undoes his own change, contests nothing."""
    line = Timeline(SPEC, replicas=2).at("0s", queue=40).want(4)
    line.by_hand(6).at("15s", queue=60).foreign(ForeignChange(4, 6))
    line.by_hand(4).at("30s", queue=40).foreign(ForeignChange(6, 4))
    assert line.history.contention.reversals == ()


def test_the_hold_can_be_left_out() -> None:
    """With 0 for the flag others may reverse for ever, as with the HPA."""
    line = Timeline(SPEC, replicas=2, flags=Flags(hold_after_reversals=0)).at("0s", queue=40)
    for time in ("15s", "30s", "45s", "60s"):
        line.by_hand(2).at(time, queue=40).want(4, outcome="ok")


def test_a_change_by_another_instance_of_ours_counts_as_our_write() -> None:
    """A follower that takes over keeps the rate limits of the leader before it."""
    slow = behavior(up=rules(pods_policy(4, 60)))
    line = Timeline(spec(QUEUE, maximum=20, behavior=slow), replicas=2).led(by_us=False)
    line.at("0s", queue=20).want(2)
    line.by_hand(6, FIELD_MANAGER).at("15s", queue=200).want(6, limited="ScaleUpLimit")
    line.foreign(None)
    assert line.history.scale_ups == (ScaleEvent(4, BASE + 15, earliest=BASE - 60),)
    line.at("1m15s", queue=200).want(10)


def test_an_autoscaler_with_another_lease_is_somebody_else() -> None:
    """It has our field manager, but none with our Lease wrote it: three reversals hold us."""
    line = Timeline(SPEC, replicas=2).at("0s", queue=40).want(4)
    for time in ("15s", "30s", "45s"):
        line.by_hand(2, FIELD_MANAGER).at(time, queue=40)
        line.foreign(ForeignChange(4, 2, FIELD_MANAGER, reversal=True))
    line.want(2, outcome="blocked").conditions(AbleToScale="ReplicasContested")


def test_others_are_counted_from_the_second_look_of_a_leader_on() -> None:
    """Its first one may show a write of the leader before; as a follower it holds for none."""
    line = Timeline(SPEC, replicas=2).led(by_us=False).at("0s", queue=40)
    for time in ("15s", "30s", "45s", "60s"):
        line.by_hand(2, FIELD_MANAGER).at(time, queue=40).foreign(None).want(4, outcome="ok")
    line.led(by_us=True).by_hand(2, FIELD_MANAGER).at("75s", queue=40)
    line.foreign(ForeignChange(4, 2, FIELD_MANAGER, reversal=True)).want(4)


def test_a_target_that_another_autoscaler_controls_is_left_alone() -> None:
    """Not even a bound is enforced, and the reason names the other."""
    line = Timeline(spec(QUEUE, maximum=3), replicas=5).controlled_by('HorizontalPodAutoscaler "a"')
    line.at("0s", queue=90).want(5, outcome="blocked").events("ControlledByOther")
    line.conditions(AbleToScale="ControlledByOther")
    assert line.decision is not None
    assert line.decision.zone is Zone.CONTROLLED
    assert 'HorizontalPodAutoscaler "a" controls' in line.decision.events[0].message
    line.controlled_by(None).at("15s", queue=90).want(3, outcome="ok")


REFUSED = "horizontalpodautoscalers is forbidden"


def test_what_cannot_be_checked_is_as_it_was_when_it_could() -> None:
    """A target that another controlled stays refused until that is known to be gone."""
    line = Timeline(SPEC, replicas=5).controlled_by('HorizontalPodAutoscaler "a"')
    line.at("0s", queue=90).want(5, outcome="blocked")
    for seconds in (15, 30):
        line.controlled_by(Unchecked(REFUSED)).at(f"{seconds}s", queue=90)
        line.want(5, outcome="blocked").conditions(AbleToScale="ControlledByOther")
    assert line.decision is not None
    assert line.decision.events[0].message == (
        'HorizontalPodAutoscaler "a" controlled this target too when that was last known, and it '
        f"cannot be checked now ({REFUSED}); nothing is done until it is known to be gone"
    )
    line.controlled_by(None).at("45s", queue=90).want(9, outcome="ok")
    line.controlled_by(Unchecked(REFUSED)).at("60s", queue=100).want(10, outcome="ok")


def test_what_this_process_saw_last_outweighs_what_an_earlier_one_kept() -> None:
    """Whether it saw that the other is gone, or that another one is there."""
    line = Timeline(SPEC, replicas=5).controlled_by("another").at("0s", queue=90)
    line.controlled_by(Unchecked(REFUSED, known="")).at("15s", queue=90).want(9, outcome="ok")
    line.controlled_by(Unchecked(REFUSED, known="a third")).at("30s", queue=50)
    line.want(9, outcome="blocked")
    line.controlled_by(Unchecked(REFUSED)).at("45s", queue=50).want(9, outcome="blocked")


def test_where_it_was_never_known_the_metrics_decide() -> None:
    """Whoever may not list the other autoscalers is scaled all the same."""
    line = Timeline(SPEC, replicas=5).controlled_by(Unchecked(REFUSED))
    line.at("0s", queue=90).want(9, outcome="ok")


def test_a_target_that_is_taken_up_again_begins_from_the_count_it_has() -> None:
    """What was recommended before the other took over is no reason to scale down to it."""
    line = Timeline(SPEC, replicas=8).at("0s", queue=80).want(8)
    line.controlled_by("another").by_hand(12).at("15s", queue=10).want(12, outcome="blocked")
    line.controlled_by(None)
    line.at("10m", queue=10).want(12, stabilized="ScaleDownStabilized")
    line.at("15m15s", queue=10).want(1)
