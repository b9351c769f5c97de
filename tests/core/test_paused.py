"""A target that is paused moves as the pause says, and in no other way (semantics 8.1)."""

import math
from dataclasses import replace

import pytest
import yaml

from autoscaler.core.decision import Zone
from autoscaler.core.extensions import Extensions, Idle, Pause, PauseMode
from autoscaler.core.guards import pause_in_force
from autoscaler.core.reconcile import ALL_BELOW, BELOW_MIN
from tests.core.builders import BASE, FREE, QUEUE, cpu, spec, utilization
from tests.core.timeline import Timeline
from tests.tables import rows

CONFIGURED = Pause(PauseMode.SCALE_DOWN)
BY = "the annotation autoscaler/paused"
DAY, EVENING = "2023-11-14", 1_700_000_000.0
"""The second is 22:13:20Z of the first."""


def given(annotations: dict[str, str]) -> list[tuple[str, str]]:
    """Return annotations as an object has them, by what follows the prefix of ours."""
    return [(f"autoscaler/{name}", text) for name, text in sorted(annotations.items())]


@pytest.mark.parametrize(
    ("annotations", "pause"),
    [
        ({}, CONFIGURED),
        ({"other": "true"}, CONFIGURED),
        ({"paused-until": "2099-01-01T00:00:00Z"}, CONFIGURED),
        ({"paused": "true"}, Pause(by=BY)),
        ({"paused": " True "}, Pause(by=BY)),
        ({"paused": "scale-down"}, Pause(PauseMode.SCALE_DOWN, by=BY)),
        ({"paused": "scale-up"}, Pause(PauseMode.SCALE_UP, by=BY)),
        ({"paused": "false"}, None),
        ({"paused-replicas": "5"}, Pause(replicas=5, by=f"{BY}-replicas")),
        ({"paused": "true", "paused-replicas": "0"}, Pause(replicas=0, by=f"{BY}-replicas")),
        ({"paused": "true", "paused-until": f"{DAY}T22:13:21Z"}, Pause(by=BY, until=EVENING + 1)),
        ({"paused": "true", "paused-until": f"{DAY}T23:13:20+01:00"}, CONFIGURED),
    ],
)
def test_annotations_win_over_the_configuration(
    annotations: dict[str, str], pause: Pause | None
) -> None:
    assert pause_in_force(CONFIGURED, given(annotations), EVENING) == (pause, ())


PAUSES = {
    "all": Pause(by=BY),
    "scale-up": Pause(PauseMode.SCALE_UP, by=BY),
    "count": Pause(by=f"{BY}-replicas"),
}
WRONG = r"""
paused: "yes\n" | all | paused | "yes"
paused: scale-up, paused-replicas: "5" | scale-up | paused-replicas | autoscaler/paused
paused-replicas: "-1" | count | paused-replicas | "-1"
paused-replicas: "99999999999" | count | paused-replicas | "99999999999"
paused: "true", paused-until: tomorrow | all | paused-until | "tomorrow"
paused: "true", paused-until: "2026-01-31T18:00:00" | all | paused-until | "2026-01-31T18:00:00"
"""


@pytest.mark.parametrize(("annotations", "pause", "name", "value"), rows(WRONG))
def test_an_annotation_that_cannot_be_read_pauses_and_is_reported(
    annotations: str, pause: str, name: str, value: str
) -> None:
    """The message has the name of the annotation and its value."""
    found, (problem,) = pause_in_force(None, given(yaml.safe_load(f"{{{annotations}}}")), BASE)
    assert found == PAUSES[pause]
    assert problem.startswith(f"autoscaler/{name} ")
    assert value in problem


def test_a_paused_target_stays_and_its_metrics_are_recorded() -> None:
    target = Timeline(spec(QUEUE, behavior=FREE), replicas=4).annotated(paused="true")
    target.sync("0s", queue=70).want(4, reason=BY, outcome="ok")
    target.conditions(ScalingActive="Paused").events()
    target.sync("15s", queue=20).want(4)
    target.annotated().sync("30s", queue=20).want(2, reason=ALL_BELOW)
    target.conditions(ScalingActive="ValidMetricFound")


def test_a_paused_target_has_the_count_without_the_pause() -> None:
    target = Timeline(spec(QUEUE, maximum=6, behavior=FREE), replicas=4)
    target.annotated(paused="true").sync("0s", queue=70)
    assert (target.decision.zone, target.decision.paused_from) == (Zone.PAUSED, 6)
    assert target.decision.metrics[0].proposal == 7
    target.sync("15s", queue=40)
    assert target.decision.paused_from is None


def test_a_pause_with_replicas_overrules_bounds_windows_and_failures() -> None:
    line = Timeline(spec(QUEUE, minimum=2, maximum=6), replicas=4)
    line.annotated(paused_replicas="9")
    line.sync("0s", queue=None).want(9, reason=f"{BY}-replicas", outcome="partial")
    line.events("FailedGetExternalMetric", "FailedComputeMetricsReplicas", "SuccessfulRescale")
    line.by_hand(3).sync("15s", queue=10).want(9, outcome="ok")
    line.annotated(paused_replicas="0").sync("30s", queue=10).want(0)
    line.sync("45s", queue=10).want(0)
    line.annotated().sync("1m", queue=10).want(2, reason=BELOW_MIN)


def test_a_paused_target_at_zero_measures_no_pods() -> None:
    target = Timeline(spec(cpu(utilization(50))), replicas=0).annotated(paused="true")
    target.sync("0s", cpu=None).want(0, outcome="ok").events().conditions(ScalingActive="Paused")


def test_a_pause_of_one_direction_leaves_the_other_free() -> None:
    line = Timeline(spec(QUEUE, maximum=6, behavior=FREE), replicas=4)
    line.annotated(paused="scale-down")
    line.sync("0s", queue=20).want(4, reason=ALL_BELOW)
    line.conditions(ScalingLimited="ScaleDownPaused", ScalingActive="ValidMetricFound")
    line.sync("15s", queue=60).want(6).conditions(ScalingLimited="DesiredWithinRange")
    line.by_hand(8).sync("30s", queue=20).want(8).conditions(ScalingLimited="ScaleDownPaused")
    line.annotated(paused="scale-up").sync("45s", queue=20).want(6).sync("1m", queue=90).want(6)
    line.conditions(ScalingLimited="TooManyReplicas")
    line.sync("1m15s", queue=30).want(3).sync("1m30s", queue=60).want(3)
    line.conditions(ScalingLimited="ScaleUpPaused")
    idle = Extensions(idle=Idle(after=0.0), pause=Pause(PauseMode.SCALE_DOWN))
    line = Timeline(spec(QUEUE), replicas=4, extensions=idle).sync("0s", queue=0)
    line.sync("15s", queue=0).want(4)
    asleep = replace(idle, pause=Pause(PauseMode.SCALE_UP))
    Timeline(spec(QUEUE), replicas=0, extensions=asleep).sync("0s", queue=50).want(0)


def begins(target: Timeline) -> dict[str, float]:
    return {condition.type: condition.last_transition for condition in target.history.conditions}


def test_the_conditions_of_a_pause_begin_and_end_with_it() -> None:
    target = Timeline(spec(QUEUE, behavior=FREE), replicas=4).annotated(paused="true")
    target.sync("0s", queue=40).sync("1m", queue=40)
    assert begins(target)["ScalingActive"] == BASE
    target.annotated(paused="scale-down").sync("2m", queue=20).sync("3m", queue=20)
    assert begins(target)["ScalingLimited"] == BASE + 120.0
    target.annotated().by_hand(0).sync("4m", queue=20).want(0)
    target.conditions(ScalingActive="ScalingDisabled", ScalingLimited="DesiredWithinRange")


def test_a_pause_is_not_a_saturation() -> None:
    for pause in ("true", "scale-up"):
        paused = Timeline(spec(QUEUE, behavior=FREE), replicas=4).annotated(paused=pause)
        paused.sync("0s", queue=900)
        assert paused.decision.saturation is None
        assert paused.decision.paused_from == 8
    unknown = Timeline(spec(QUEUE, behavior=FREE), replicas=4).annotated(paused="scale-up")
    unknown.asked_bounds(least=math.nan).sync("0s", queue=10).sync("15s", queue=10).want(4)
    assert unknown.decision.paused_from is None


def test_an_invalid_annotation_is_an_event() -> None:
    line = Timeline(spec(QUEUE), replicas=4).annotated(paused="maybe")
    line.sync("0s", queue=90).want(4).events("InvalidAnnotation")
