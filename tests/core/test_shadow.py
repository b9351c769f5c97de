"""In shadow everything is decided from the live count, and nothing is written.

By `mode: shadow` (semantics 8.10), or while another autoscaler controls the target (7.6).
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.classification import Mark, State, classify
from autoscaler.core.decision import Decision, Zone
from autoscaler.core.extensions import Extensions, Idle, Mode, Pause
from autoscaler.core.observation import UncheckedControl
from autoscaler.core.reconcile import ABOVE_MAX
from autoscaler.core.spec import HorizontalPodAutoscalerSpec
from autoscaler.rendering.record import stages_of
from tests.core.builders import (
    QUEUE,
    behavior,
    both_ways,
    percent_policy,
    pods_policy,
    rules,
    spec,
)
from tests.core.timeline import Timeline

IN_SHADOW = Extensions(mode=Mode.SHADOW)
HPA = 'HorizontalPodAutoscaler "web"'


SPECS = st.builds(
    lambda up, down: spec(
        QUEUE,
        maximum=50,
        behavior=behavior(
            up=rules(pods_policy(up, 30), percent_policy(100, 15), window=0),
            down=rules(percent_policy(down, 60), window=45),
        ),
    ),
    st.integers(1, 5),
    st.integers(10, 100),
)


def steps_of(decision: Decision) -> list[tuple[str, int, int, str]]:
    return [(step.name, step.before, step.after, step.reason) for step in stages_of(decision)]


@settings(max_examples=60)
@given(SPECS, st.lists(st.none() | st.integers(0, 600), min_size=5, max_size=40))
def test_a_target_in_shadow_decides_as_if_live(
    of: HorizontalPodAutoscalerSpec, loads_: list[int | None]
) -> None:
    live = Timeline(of, replicas=3).over(30.0)
    shadow = Timeline(of, replicas=3, extensions=IN_SHADOW).over(30.0).controlled_by(HPA)
    for number, load in enumerate(loads_):
        if shadow.replicas != live.replicas:
            shadow.by_hand(live.replicas, "kube-controller-manager")
        decisions = [line.sync(f"{15 * number}s", queue=load).decision for line in (shadow, live)]
        ours, theirs = (
            (decision.desired, decision.reason, decision.outcome, steps_of(decision))
            for decision in decisions
        )
        assert ours == theirs
        assert (decisions[0].written, decisions[0].foreign) == (False, None)


def test_a_target_in_shadow_writes_and_contests_nothing() -> None:
    line = Timeline(spec(QUEUE), replicas=3, extensions=IN_SHADOW).controlled_by(HPA)
    for number in range(8):
        line.by_hand(3 + number % 2, "kube-controller-manager").sync(f"{15 * number}s", queue=200)
    decision = line.decision
    assert (decision.zone, decision.held_until, line.replicas) == (Zone.METRICS, None, 4)
    assert decision.desired > 4
    about = classify(decision)
    assert about.state is State.SHADOW
    assert Mark.CONTROLLED not in about.marks


def test_beside_another_autoscaler_it_is_in_shadow_until_that_is_gone() -> None:
    line = Timeline(spec(QUEUE, maximum=3), replicas=5).controlled_by(HPA)
    line.sync("0s", queue=90).want(5, outcome="ok", reason=ABOVE_MAX).events()
    about = classify(line.decision)
    assert (line.decision.controller, line.decision.desired) == (HPA, 3)
    assert (about.state, Mark.SHADOW in about.marks) == (State.CONTROLLED, False)
    line.controlled_by(None).sync("15s", queue=90).want(3, outcome="ok")
    assert classify(line.decision).state is State.OK


REFUSED = "horizontalpodautoscalers is forbidden"


def test_the_last_known_controller_applies_while_it_cannot_be_checked() -> None:
    line = Timeline(spec(QUEUE, maximum=20), replicas=5).controlled_by(HPA)
    line.sync("0s", queue=90).want(5)
    for seconds in (15, 30):
        line.controlled_by(UncheckedControl(REFUSED)).sync(f"{seconds}s", queue=90).want(5)
        assert (line.decision.controller, line.decision.unchecked) == (HPA, REFUSED)
    line.controlled_by(None).sync("45s", queue=90).want(9, outcome="ok")
    line.controlled_by(UncheckedControl(REFUSED)).sync("60s", queue=100).want(10, outcome="ok")


def test_the_controller_that_this_process_saw_overrules_the_stored_one() -> None:
    line = Timeline(spec(QUEUE, maximum=20), replicas=5).controlled_by("another")
    line.sync("0s", queue=90)
    line.controlled_by(UncheckedControl(REFUSED, known="")).sync("15s", queue=90).want(9)
    line.controlled_by(UncheckedControl(REFUSED, known="a third")).sync("30s", queue=150).want(9)
    line.controlled_by(UncheckedControl(REFUSED)).sync("45s", queue=150).want(9)


def test_a_target_with_an_unknown_controller_is_scaled() -> None:
    line = Timeline(spec(QUEUE, maximum=20), replicas=5).controlled_by(UncheckedControl(REFUSED))
    line.sync("0s", queue=90).want(9, outcome="ok")


def test_a_target_stays_in_shadow_while_the_scale_is_unreadable() -> None:
    line = Timeline(spec(QUEUE), replicas=8).controlled_by(HPA).sync("0s", queue=20)
    line.unreadable(on=True).sync("15s", queue=20)
    assert line.decision.in_shadow
    line.controlled_by(None).sync("30s", queue=20)
    assert line.history.controller == HPA
    line.unreadable(on=False).sync("45s", queue=20).want(8, stabilized="ScaleDownStabilized")


# -- one that was live, and is taken ---------------------------------------------------------------

TAKEN = "ControlledByOther"


def test_a_live_target_that_another_autoscaler_takes_has_one_event() -> None:
    line = Timeline(spec(QUEUE), replicas=8).sync("0s", queue=80).controlled_by(HPA)
    line.sync("15s", queue=80).events(TAKEN)
    assert HPA in line.decision.events[0].message
    line.restart().sync("30s", queue=80).events()
    line.controlled_by(UncheckedControl(REFUSED)).sync("45s", queue=80).events()
    taken = [line.controlled_by("another").sync("1m", queue=80).events().decision.taken]
    taken.append(line.controlled_by(None).sync("1m15s", queue=80).events().decision.taken)
    assert taken == [True, False]
    line.controlled_by(HPA).sync("1m30s", queue=80).events(TAKEN)


def test_a_target_taken_during_an_absence_has_an_event() -> None:
    line = Timeline(spec(QUEUE), replicas=8).sync("0s", queue=80).restart()
    line.away(3600).controlled_by(HPA).sync("60m", queue=80).events(TAKEN)


def test_a_target_that_was_controlled_before_has_no_event() -> None:
    line = Timeline(spec(QUEUE), replicas=8).controlled_by(HPA)
    line.sync("0s", queue=80).events().sync("15s", queue=80).events()
    assert not line.decision.taken
    line = Timeline(spec(QUEUE), replicas=8, extensions=IN_SHADOW).sync("0s", queue=80)
    line.controlled_by(HPA).sync("15s", queue=80).events()
    line.extensions = Extensions()
    line.sync("30s", queue=80).events()
    assert not line.decision.taken


def test_the_mode_shadow_ends_that_a_target_is_taken() -> None:
    line = Timeline(spec(QUEUE), replicas=8).sync("0s", queue=80).controlled_by(HPA)
    line.sync("15s", queue=80)
    line.extensions = IN_SHADOW
    line.sync("30s", queue=80)
    assert not line.decision.taken
    line.extensions = Extensions()
    line.sync("45s", queue=80).events()
    assert not line.decision.taken


# -- the hand-over ---------------------------------------------------------------------------------


def test_a_target_that_is_taken_up_again_begins_from_the_count_it_has() -> None:
    """What was recommended before the other took over is no reason to scale down to it."""
    line = Timeline(spec(QUEUE), replicas=8).sync("0s", queue=80).want(8)
    line.controlled_by("another").by_hand(12).sync("15s", queue=10).want(12)
    line.controlled_by(None)
    line.sync("10m", queue=10).want(12, stabilized="ScaleDownStabilized")
    line.sync("15m15s", queue=10).want(1)


@pytest.mark.parametrize(
    ("controller", "then"),
    [(None, "5m30s"), (UncheckedControl("no list", HPA), "5m45s"), (HPA, "5m45s")],
)
def test_a_target_goes_live_without_a_move(
    controller: str | UncheckedControl | None, then: str
) -> None:
    """The count that is taken over holds, or the recommendations of the shadow alone."""
    line = Timeline(spec(QUEUE), replicas=8, extensions=IN_SHADOW).controlled_by(controller)
    line.sync("0s", queue=80).sync("15s", queue=80)
    line.extensions = Extensions()
    line.controlled_by(None).sync("30s", queue=20).want(8, stabilized="ScaleDownStabilized")
    line.sync("5m15s", queue=20).want(8)
    line.sync(then, queue=20).want(2)


WINDOWED = behavior(rules(pods_policy(4, 15), window=60), rules(percent_policy(100, 15)))
HANDED_OVER = st.sampled_from([spec(QUEUE, maximum=50), spec(QUEUE, maximum=50, behavior=WINDOWED)])


def handed_over(of: HorizontalPodAutoscalerSpec, counts: list[int], beside: int) -> Timeline:
    """Return a target after a shadow of these counts, with ``beside`` more syncs of the last."""
    line = Timeline(of, replicas=counts[0]).controlled_by(HPA)
    for number, count in enumerate([*counts, *[counts[-1]] * beside]):
        line.by_hand(count, "kube-controller-manager").sync(f"{15 * number}s", queue=10 * count)
        line.want(count)
    return line.controlled_by(None)


@settings(max_examples=60)
@given(
    HANDED_OVER,
    st.lists(st.integers(1, 20), min_size=1, max_size=20),
    st.integers(1, 3),
    st.lists(st.integers(0, 200), min_size=20, max_size=20),
)
def test_nothing_goes_down_for_a_window_after_a_hand_over(
    of: HorizontalPodAutoscalerSpec, counts: list[int], beside: int, loads_: list[int]
) -> None:
    line = handed_over(of, counts, beside)
    begin = len(counts) + beside
    for number, load in enumerate(loads_, begin):
        line.sync(f"{15 * number}s", queue=load)
        assert line.replicas >= counts[-1]


@settings(max_examples=40)
@given(HANDED_OVER, st.lists(st.integers(1, 20), min_size=1, max_size=20), st.integers(1, 3))
def test_nothing_moves_in_a_hand_over_while_the_load_is_the_same(
    of: HorizontalPodAutoscalerSpec, counts: list[int], beside: int
) -> None:
    line = handed_over(of, counts, beside)
    for number in range(len(counts) + beside, len(counts) + beside + 30):
        line.sync(f"{15 * number}s", queue=10 * counts[-1]).want(counts[-1])


def test_a_hand_over_does_not_begin_a_window_of_scale_ups_anew() -> None:
    """A load that rose 30 s before is followed 60 s after it rose, as without a hand-over."""
    of = spec(QUEUE, maximum=50, behavior=behavior(up=rules(pods_policy(9, 15), window=60)))
    line = Timeline(of, replicas=3).controlled_by(HPA)
    line.sync("0s", queue=30).sync("15s", queue=30).sync("30s", queue=60)
    line.sync("45s", queue=60).want(3)
    line.controlled_by(None).sync("1m", queue=60).want(3, stabilized="ScaleUpStabilized")
    line.sync("1m15s", queue=60).want(6)


def test_the_policies_count_what_the_other_one_scaled_last() -> None:
    """Four pods a minute: those of the HPA just before the hand-over are of the same minute.

    They count from the sync before the one that found them.
    """
    of = spec(QUEUE, maximum=50, behavior=behavior(up=rules(pods_policy(4, 60), window=0)))
    line = Timeline(of, replicas=3).controlled_by(HPA).sync("0s", queue=200)
    line.sync("15s", queue=200).by_hand(6, "kube-controller-manager").sync("30s", queue=200)
    # The last one is found once the other is gone.
    line.by_hand(7, "kube-controller-manager").controlled_by(None).sync("45s", queue=200).want(7)
    line.sync("1m14s", queue=200).want(7)
    line.sync("1m16s", queue=200).want(10)


@pytest.mark.parametrize(
    ("manager", "is_event"),
    [
        *((manager, False) for manager in ("kubectl", "kubectl-edit")),
        *((manager, True) for manager in ("kube-controller-manager", "k3s", "helm", "")),
    ],
)
@pytest.mark.parametrize(("count", "load"), [(22, 20), (22, 400), (2, 400), (2, 10)])
@pytest.mark.parametrize("extensions", [IN_SHADOW, Extensions()])
def test_a_change_by_hand_beside_an_hpa_is_no_scale_event(
    extensions: Extensions, count: int, load: int, manager: str, *, is_event: bool
) -> None:
    of = spec(QUEUE, maximum=50, behavior=both_ways(pods_policy(3, 30)))
    line = Timeline(of, replicas=8, extensions=extensions).controlled_by(HPA).sync("0s", queue=80)
    line.by_hand(count, manager).sync("15s", queue=load)
    assert len(line.history.scale_ups + line.history.scale_downs) == is_event
    line.controlled_by(None).sync("27s", queue=load)
    assert line.decision.limit is not None
    if is_event:
        return  # as the HPA counts its own
    assert max(count - 3, 1) <= line.decision.desired <= count + 3


def test_several_changes_beside_an_hpa_permit_nothing_for_a_period() -> None:
    """A person raises the count, and the HPA lowers it again: only the sum is known."""
    of = spec(QUEUE, maximum=50, behavior=both_ways(pods_policy(3, 30)))
    line = Timeline(of, replicas=8).controlled_by(HPA).sync("0s", queue=80)
    line.by_hand(22, "kubectl").by_hand(19, "kube-controller-manager").sync("15s", queue=20)
    line.controlled_by(None).sync("30s", queue=20).want(19)
    line.sync("45s", queue=20).want(16)


def test_going_into_shadow_ends_a_hold_of_contention() -> None:
    line = Timeline(spec(QUEUE), replicas=3).sync("0s", queue=60)
    line.want(6).by_hand(3).sync("15s", queue=60)
    line.extensions = IN_SHADOW
    line.by_hand(2, "kubectl").sync("30s", queue=40).want(2)
    assert line.decision.desired == 4
    assert line.history.contention.reversals == ()


def test_a_failed_metric_is_a_failure_in_shadow() -> None:
    line = Timeline(spec(QUEUE), replicas=3, extensions=IN_SHADOW).sync("0s", queue=None)
    assert classify(line.decision).state is State.FAILING
    assert line.replicas == 3


def test_a_restart_keeps_the_changes_that_a_shadow_followed() -> None:
    of = spec(QUEUE, behavior=behavior())
    line = Timeline(of, replicas=3, extensions=IN_SHADOW).sync("0s", queue=60)
    line.by_hand(6).sync("15s", queue=60)
    line.restart().by_hand(12).sync("30s", queue=200)
    (event, *_) = [history for history in line.history.scale_ups if history.change == 6]
    assert event.time == line.decision.time, "it may have been just now"


@pytest.mark.parametrize(("idle", "zone"), [(None, Zone.DISABLED), (Idle(), Zone.METRICS)])
def test_zero_is_followed_as_the_hpa_has_it(idle: Idle | None, zone: Zone) -> None:
    """Somebody's zero disables it; with `idle` the other one's zero is its sleep, as KEDA's."""
    extensions = Extensions(mode=Mode.SHADOW, idle=idle)
    line = Timeline(spec(QUEUE), replicas=3, extensions=extensions).sync("0s", queue=60)
    line.by_hand(0, "keda-operator").sync("15s", queue=60)
    assert (line.decision.zone, line.decision.desired > 0) == (zone, idle is not None)


def test_a_pause_applies_in_shadow() -> None:
    extensions = Extensions(mode=Mode.SHADOW, pause=Pause())
    line = Timeline(spec(QUEUE), replicas=3, extensions=extensions).sync("0s", queue=200)
    assert line.decision.desired == 3
    assert Mark.PAUSED in classify(line.decision).marks
