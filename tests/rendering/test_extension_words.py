"""The words for pauses, idling, bounds by schedule and query, fallbacks and surges."""

import re
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from autoscaler.core.decide import decide
from autoscaler.core.extensions import Extensions
from autoscaler.core.history import History, Recommendation
from autoscaler.core.observation import Observation, PodSamples, Scale
from autoscaler.core.spec import Flags
from autoscaler.core.target import Query, Target
from autoscaler.core.writes import WriteFailed
from autoscaler.rendering.explanation import explain
from autoscaler.rendering.record import whole
from autoscaler.rendering.verdict import State, cause_of, state_of, verdict
from autoscaler.sync.ports import SyncResult
from tests.core.builders import BASE, average, cpu, external, pods, samples, spec, utilization
from tests.core.timeline import Timeline
from tests.rendering.extended import (
    FALLBACK,
    GRADUALLY,
    IDLE,
    NOTHING,
    OFFICE_HOURS,
    PAUSED,
    QUEUE,
    lower,
    opened,
    result,
    target,
)

DOCUMENT = (Path(__file__).parents[2] / "docs" / "decisions.md").read_text()
BY_OFFICE_HOURS = "schedule office-hours until 18:00 Europe/Berlin"
NONE_ACTIVE = "idle, no metric has been active since 00:00:00Z"
UNTIL = "2099-01-01T08:00:00Z"
TWO = spec(QUEUE, external(average("10"), "mails"), maximum=20)


def asleep() -> Timeline:
    """Return a target that went idle a minute ago."""
    return target(IDLE, replicas=2).at("0s", queue=0).at("1m", queue=4).at("2m", queue=4)


SENTENCES = [
    (
        target(PAUSED, replicas=3).at("0s", queue=53),
        State.PAUSED,
        "stays at 3 replicas: paused by the configuration; 6 replicas without it",
    ),
    (
        target(replicas=3).annotated(paused_replicas="5", paused_until=UNTIL).at("0s", queue=83),
        State.PAUSED,
        (
            "scaled 3 -> 5 replicas: paused by the annotation autoscaler/paused-replicas until "
            f"{UNTIL}; 6 replicas without it"
        ),
    ),
    (
        target(replicas=3).annotated(paused="yes").at("0s", queue=30),
        State.PAUSED,
        (
            "stays at 3 replicas: paused by the annotation autoscaler/paused; autoscaler/paused is "
            '"yes", and taken as true; it may be true, false, scale-down or scale-up'
        ),
    ),
    (
        target(PAUSED, replicas=3).at("0s", queue=None),
        State.PAUSED,
        (
            "stays at 3 replicas: paused by the configuration; not all metrics could be used: "
            "queue: no answer for queue"
        ),
    ),
    (
        target(replicas=3).annotated(paused="scale-up").at("0s", queue=53),
        State.PAUSED,
        (
            "stays at 3 replicas: scale-up is paused by the annotation autoscaler/paused; 6 "
            "replicas without it"
        ),
    ),
    (
        target(replicas=3).annotated(paused="scale-down").at("0s", queue=53),
        State.PAUSED,
        (
            "scaled 3 -> 6 replicas: queue above target: 17.67/10 per replica; scale-down is "
            "paused by the annotation autoscaler/paused"
        ),
    ),
    (
        target(replicas=3).annotated(paused="scale-up").at("0s", queue=None),
        State.FAILING,
        "stays at 3 replicas: nothing can be decided: queue: no answer for queue",
    ),
    (
        target(IDLE, replicas=1).at("0s", queue=4),
        State.OK,
        "stays at 1 replica; idle from 00:01:00Z on unless a metric becomes active",
    ),
    (
        target(IDLE, replicas=2).at("0s", queue=0).at("1m", queue=4),
        State.IDLE,
        f"scaled 2 -> 0 replicas: {NONE_ACTIVE}",
    ),
    (asleep(), State.IDLE, f"stays at 0 replicas: {NONE_ACTIVE}"),
    (
        asleep().at("3m", queue=None),
        State.FAILING,
        (
            "stays at 0 replicas: idle, and it is not known whether queue is active; not all "
            "metrics could be used: queue: no answer for queue"
        ),
    ),
    (
        target(IDLE, replicas=0).over(120.0).at("0s", queue=0),
        State.IDLE,
        "stays at 0 replicas: idle, and it is not known whether queue is active",
    ),
    (
        asleep().at("3m", queue=35),
        State.OK,
        "scaled 0 -> 4 replicas, since queue is active: 35, for 10 per replica",
    ),
    (
        asleep().at("3m", queue=6),
        State.OK,
        "scaled 0 -> 1 replica, since queue is active: 6, for 10 per replica",
    ),
    (
        target(Extensions(schedules=(OFFICE_HOURS,)), replicas=2)
        .opened(opened(OFFICE_HOURS))
        .at("0s", queue=0),
        State.OK,
        (
            f"scaled 2 -> 5 replicas: Current number of replicas below Spec.MinReplicas "
            f"({BY_OFFICE_HOURS})"
        ),
    ),
    (
        target(Extensions(schedules=(OFFICE_HOURS,)), replicas=5)
        .opened(opened(OFFICE_HOURS))
        .at("0s", queue=500),
        State.LIMITED,
        (
            "scaled 5 -> 8 replicas: queue above target: 100/10 per replica; the metrics ask for "
            f"50; maxReplicas is 8 by {BY_OFFICE_HOURS}"
        ),
    ),
    (
        target(Extensions(schedules=(OFFICE_HOURS,)), replicas=5)
        .opened(opened(OFFICE_HOURS))
        .at("0s", queue=0),
        State.OK,
        f"stays at 5 replicas: the metrics ask for 0; minReplicas is 5 by {BY_OFFICE_HOURS}",
    ),
    (
        target(Extensions(schedules=(GRADUALLY,)), replicas=2)
        .opened(opened(GRADUALLY))
        .at("0s", queue=0),
        State.LIMITED,
        (
            "scaled 2 -> 4 replicas: Current number of replicas below Spec.MinReplicas (schedule "
            "sale until 18:00 Europe/Berlin); the HPA's limit of twice the replicas or 4 for each "
            "step without behavior permits 4 now"
        ),
    ),
    (
        target(replicas=9).asked_bounds(4, 9).at("0s", queue=200),
        State.LIMITED,
        "stays at 9 replicas: the metrics ask for 20; maxReplicas is 9 by maxReplicasQuery",
    ),
    (
        target(replicas=5).asked_bounds(NOTHING).at("0s", queue=50).at("6m", queue=5),
        State.FAILING,
        (
            "stays at 5 replicas: the metrics ask for 1; nothing goes down, since minReplicas is "
            "not known; minReplicasQuery has no value: no answer"
        ),
    ),
    (
        target(FALLBACK, replicas=3).at("0s", queue=None).at("15s", queue=None),
        State.FAILING,
        (
            "scaled 3 -> 6 replicas: fallback for queue; queue failed in 2 syncs in a row, and the "
            "fallback asks for 6: no answer for queue"
        ),
    ),
    (
        target(lower(2), replicas=3).at("0s", queue=30).at("6m", queue=None),
        State.FAILING,
        (
            "scaled 3 -> 2 replicas: fallback for queue; queue failed in 1 sync, and the fallback "
            "asks for 2: no answer for queue"
        ),
    ),
    (
        target(lower(2), TWO, replicas=3).at("0s", queue=None, mails=50),
        State.FAILING,
        (
            "scaled 3 -> 5 replicas: mails above target: 16.67/10 per replica; queue failed in 1 "
            "sync, and the fallback asks for 2: no answer for queue"
        ),
    ),
]


@pytest.mark.parametrize(("timeline", "state", "sentence"), SENTENCES)
def test_a_sentence_says_what_was_decided_and_why(
    timeline: Timeline, state: State, sentence: str
) -> None:
    """With who or what decided, and until when."""
    synced = result(timeline)
    assert verdict(synced) == sentence
    assert state_of(synced) is state


def test_a_write_that_fails_is_worse_than_a_pause() -> None:
    """A target that is to be taken to a count, and is not, needs somebody."""
    synced = result(target(replicas=3).annotated(paused_replicas="5").at("0s", queue=30))
    failed = SyncResult(synced.target, synced.decision, WriteFailed("forbidden"))
    assert state_of(failed) is State.FAILING


def test_the_cause_changes_when_a_fallback_begins() -> None:
    """So that the log tells it, once."""
    timeline = target(FALLBACK, replicas=3)
    causes = []
    for time in ("0s", "15s", "30s"):
        synced = result(timeline.at(time, queue=None))
        causes.append(cause_of(synced, state_of(synced)))
    failed = "FailedGetExternalMetric: no answer for queue"
    assert causes == [failed, *[f"{failed} (a fallback is in use)"] * 2]


def test_a_mistaken_annotation_is_not_why_nothing_can_be_decided() -> None:
    """The cause is what failed."""
    scale = Scale(3, 3, "", annotations=(("autoscaler/paused", "scale-dwon"),))
    observation = Observation(scale, None, (PodSamples(samples(1, 2, 3)),))
    of = spec(cpu(utilization(50)))
    decision, _ = decide(of, Flags(), observation, History(), BASE)
    synced = SyncResult(Target("shop", of, ()), decision)
    assert "selector" in verdict(synced)


@pytest.mark.parametrize(
    ("timeline", "lines"),
    [
        (
            target(replicas=3)
            .annotated(paused="scale-down", paused_until=UNTIL)
            .at("0s", queue=30)
            .at("6m", queue=5),
            [
                (
                    "paused scale-down is paused by the annotation autoscaler/paused until "
                    f"{UNTIL}; 1 replica without it"
                ),
                "scale 3 replicas in spec, 3 in status; minReplicas 1, maxReplicas 20",
            ],
        ),
        (
            target(IDLE, replicas=1).at("0s", queue=4),
            [
                "idle awake; idle from 00:01:00Z on unless a metric becomes active",
                "a metric was last active, or may have been, at 2026-01-01T00:00:00Z",
                "not active: not above its activation of 5",
            ],
        ),
        (asleep(), [f"idle {NONE_ACTIVE}; idle.replicas is 0"]),
        (
            asleep().at("3m", queue=35),
            ["idle wakes up, since a metric is active", "active: above its activation of 5"],
        ),
        (
            asleep().at("3m", queue=None),
            ["not known to be active or not, which keeps it awake and does not wake it"],
        ),
        (
            target(Extensions(idle=IDLE.idle, schedules=(OFFICE_HOURS,)), replicas=5)
            .opened(opened(OFFICE_HOURS))
            .at("0s", queue=0),
            [
                (
                    f"scale 5 replicas in spec, 5 in status; minReplicas 5 by {BY_OFFICE_HOURS}, "
                    f"maxReplicas 8 by {BY_OFFICE_HOURS}"
                ),
                f"idle kept awake, since minReplicas is 5 by {BY_OFFICE_HOURS}",
            ],
        ),
        (
            target(Extensions(schedules=(GRADUALLY,)), replicas=2)
            .opened(opened(GRADUALLY))
            .at("0s", queue=0),
            [
                (
                    "Current number of replicas below Spec.MinReplicas (schedule sale until 18:00 "
                    "Europe/Berlin): 4, whatever the metrics are, as the policies permit"
                ),
                (
                    "limit 15 -> 4, ScaleUpLimit: the HPA's limit of twice the replicas or 4 for "
                    "each step without behavior permits 4 now"
                ),
            ],
        ),
        (
            target(replicas=5).asked_bounds(NOTHING, 12).at("0s", queue=50).at("6m", queue=5),
            [
                (
                    "scale 5 replicas in spec, 5 in status; minReplicas 1, maxReplicas 12 by "
                    "maxReplicasQuery"
                ),
                "minReplicasQuery has no value: no answer; nothing goes down meanwhile",
            ],
        ),
        (
            target(lower(2), replicas=3).at("0s", queue=None),
            [
                (
                    "queue failed in 1 sync, and the fallback asks for 2 (2, or the current count "
                    "if that is lower)"
                ),
                (
                    "conditions AbleToScale=True ScaleDownStabilized: recent recommendations hold "
                    "the size at 3 instead of 2"
                ),
            ],
        ),
    ],
)
def test_an_explanation_has_each_rule(timeline: Timeline, lines: list[str]) -> None:
    """In the order in which they apply, each on the line of its stage."""
    told = [" ".join(line.split()) for line in explain(result(timeline)).splitlines()]
    assert [line for line in told if line in lines] == lines


def test_a_saturation_is_explained_once_it_is_one() -> None:
    """A scale-up that the policies delay is none; one that has lasted for 15 minutes is."""
    timeline = target(replicas=20).at("0s", queue=230)
    assert "saturated" not in explain(result(timeline))
    told = explain(result(timeline.at("15m", queue=230)))
    assert "saturated   3 replicas missing since 00:00:00Z: TooManyReplicas" in told


def test_the_end_of_no_pause_is_explained() -> None:
    """An annotation that gives only the end does nothing."""
    alone = "autoscaler/paused-until alone pauses nothing"
    timeline = target(replicas=3).annotated(paused_until=UNTIL).at("0s", queue=30)
    assert alone in explain(result(timeline))
    timeline = timeline.annotated(paused_until=UNTIL, paused="true").at("15s", queue=30)
    assert alone not in explain(result(timeline))


def asked_bounds(timeline: Timeline) -> list[str]:
    """Return what an explanation tells of the queries of bounds."""
    synced = result(timeline)
    asking = replace(
        synced.target,
        min_replicas_query=Query("sum(least)", server="mimir"),
        max_replicas_query=Query("sum(most)"),
    )
    told = [one.strip() for one in explain(replace(synced, target=asking)).splitlines()]
    return [one for one in told if one.startswith(("minReplicasQuery", "maxReplicasQuery"))]


def test_the_queries_of_bounds_are_explained() -> None:
    """Their PromQL and what it gives, before other bounds; an earlier value has an end."""
    timeline = target(replicas=5).asked_bounds(50, 9).at("0s", queue=50)
    assert asked_bounds(timeline) == [
        "minReplicasQuery at the server mimir gives 50 (20 within the other bounds): sum(least)",
        "maxReplicasQuery gives 9: sum(most)",
    ]
    assert asked_bounds(timeline.asked_bounds(3, NOTHING).at("1m", queue=50)) == [
        "maxReplicasQuery has no value: no answer",
        "minReplicasQuery at the server mimir gives 3: sum(least)",
        "maxReplicasQuery gives 9, as last read, until 00:05:00Z: sum(most)",
    ]
    assert asked_bounds(timeline.at("6m", queue=50))[-1] == "maxReplicasQuery: sum(most)"


def test_a_surge_is_explained() -> None:
    """25 pods run where the spec has 20, and each looks less busy for it."""
    of = spec(cpu(utilization(50)), maximum=30)
    observation = Observation(
        Scale(20, 25, "app=web"), pods(25), (PodSamples(samples(*[375] * 25)),)
    )
    extensions = Extensions(ignore_surge=True)
    known = History(recommendations=(Recommendation(0, BASE - 3600),))
    decision, _ = decide(of, Flags(), observation, known, BASE, extensions=extensions)
    synced = SyncResult(Target("shop", of, (), extensions=extensions), decision)
    assert (
        "proposes 20, the count of spec.replicas, since more pods run than that, and for so many "
        "the load is not low enough" in explain(synced)
    )


def test_the_record_has_what_applies_and_nothing_else() -> None:
    """Keys of a rule that a target has not are left out."""
    plain = whole(result(target(replicas=3).at("0s", queue=30)))
    new = {"pause", "idle", "minReplicasBy", "maxReplicasBy", "missingBound"}
    assert not new & plain.keys()

    paused = target(replicas=3).annotated(paused_replicas="5", paused_until=UNTIL)
    assert whole(result(paused.at("0s", queue=83)))["pause"] == {
        "mode": "all",
        "by": "the annotation autoscaler/paused-replicas",
        "replicas": 5,
        "until": UNTIL,
        "preventedReplicas": 6,
    }
    idle = whole(result(target(IDLE, replicas=1).at("0s", queue=4)))
    assert idle["idle"] == {
        "asleep": False,
        "active": False,
        "lastActive": "2026-01-01T00:00:00Z",
        "goesIdle": "2026-01-01T00:01:00Z",
    }
    assert [one["activity"] for one in idle["metrics"]] == ["inactive"]  # type: ignore[attr-defined]
    bounds = whole(result(target(replicas=5).asked_bounds(NOTHING, 12).at("0s", queue=50)))
    assert (bounds["maxReplicas"], bounds["maxReplicasBy"]) == (12, "maxReplicasQuery")
    assert bounds["missingBound"] == "minReplicasQuery has no value: no answer"
    failed = whole(result(target(lower(2), replicas=3).at("0s", queue=None)))["metrics"]
    (metric,) = cast("list[dict[str, object]]", failed)
    assert metric["fallback"] == {"behavior": "currentReplicasIfLower", "failedSyncs": 1}
    assert (metric["value"], metric["text"], metric["proposedReplicas"]) == (
        None,
        "<unknown>/10",
        2,
    )


def test_the_document_shows_real_sentences() -> None:
    """Each line of the section's log is one of those above."""
    (section,) = re.findall(r"^## Beyond the HPA$(.*?)^## ", DOCUMENT, re.MULTILINE | re.DOTALL)
    shown = re.findall(r"\] shop/Deployment/\S+: (.*)$", section, re.MULTILINE)
    assert len(shown) >= 8
    assert [line for line in shown if line not in {sentence for _, _, sentence in SENTENCES}] == []
