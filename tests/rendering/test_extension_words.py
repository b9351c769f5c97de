"""The words for pauses, idling, bounds by schedule and query, fallbacks and surges."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoscaler.core.decide import decide
from autoscaler.core.decision import Removal, RemovalReason, Removals
from autoscaler.core.extensions import (
    NO_EXTENSIONS,
    Extensions,
    Fallback,
    FallbackBehavior,
    Idle,
    Pause,
    ReplicaRounding,
    Schedule,
)
from autoscaler.core.history import History
from autoscaler.core.observation import (
    Gap,
    GapKind,
    HoldReading,
    Observation,
    OpenWindow,
    PodSamples,
    Scale,
    Values,
)
from autoscaler.core.spec import Flags, HorizontalPodAutoscalerSpec, LabelSelector
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import HoldQuery, Query, Target
from autoscaler.rendering.explanation import explain
from autoscaler.rendering.reasons import verdict
from autoscaler.rendering.record import whole
from tests.core.builders import (
    BASE,
    average,
    behavior,
    cpu,
    external,
    percent_policy,
    pods,
    rules,
    samples,
    spec,
    utilization,
)
from tests.core.timeline import Timeline
from tests.rendering.test_words import QUEUE, lines_of, synced
from tests.tables import rows
from tests.worlds.record import synced as result

FEW = spec(QUEUE, maximum=20)
NOTHING = float("nan")
"""Of the query of a bound."""

PAUSED = Extensions(pause=Pause())
IDLE = Extensions(idle=Idle(0, 60.0), activations=(5000,))
FALLBACK = Extensions(fallback=Fallback(6, 2))
OFFICE_HOURS = Schedule("office-hours", "0 8 * * *", "0 18 * * *", "Europe/Berlin", 5, 8)
GRADUALLY = Schedule("sale", "0 8 * * *", "0 18 * * *", "Europe/Berlin", 15, gradual=True)


def lower(replicas: int) -> Extensions:
    """Return a fallback to a count, or the current one, from the first failure on."""
    return Extensions(fallback=Fallback(replicas, 1, FallbackBehavior.CURRENT_REPLICAS_IF_LOWER))


def opened(schedule: Schedule) -> OpenWindow:
    """Return the schedule as it is while it is open."""
    return OpenWindow(schedule, BASE + 3600, "18:00 Europe/Berlin")


def target(
    extensions: Extensions = NO_EXTENSIONS,
    of: HorizontalPodAutoscalerSpec | None = None,
    *,
    replicas: int,
) -> Timeline:
    """Begin the timeline of a target of one queue, 10 messages each replica, 1 to 20 of them."""
    return Timeline(of or FEW, replicas=replicas, extensions=extensions)


DOCUMENT = (Path(__file__).parents[2] / "docs" / "reference" / "decisions.md").read_text()
BY_OFFICE_HOURS = "schedule office-hours until 18:00 Europe/Berlin"
NONE_ACTIVE = "no metric active since 00:00:00Z"
UNTIL = "2099-01-01T08:00:00Z"
TWO = spec(QUEUE, external(average("10"), "mails"), maximum=20)


def asleep() -> Timeline:
    """Return a target that went idle a minute ago."""
    return target(IDLE, replicas=2).sync("0s", queue=0).sync("1m", queue=4).sync("2m", queue=4)


def annotated(**annotations: str) -> Timeline:
    return target(replicas=3).annotated(**annotations)


def scheduled(schedule: Schedule, replicas: int, extensions: Extensions | None = None) -> Timeline:
    """Return a target whose schedule is open."""
    of = replace(extensions or Extensions(), schedules=(schedule,))
    return target(of, replicas=replicas).opened(opened(schedule))


HELD = HoldReading(2, '{job="orders"}')
HOLDS = 'no scale-down while holdScaleDownQuery returns {job="orders"} and 1 more'
UNKNOWN = "no scale-down, holdScaleDownQuery has no valid answer: it timed out"
SILENT = HoldReading(gap=Gap(GapKind.ERROR, "it timed out"))
AT_ONCE = spec(QUEUE, maximum=20, behavior=behavior(down=rules(percent_policy(100), window=0)))


def held_by(reading: HoldReading) -> Timeline:
    """Return a target of five replicas, asked a minute ago, that a query holds now."""
    return (
        Timeline(AT_ONCE, replicas=5)
        .over(60.0)
        .sync("0s", queue=50)
        .sync("5m", queue=50)
        .holds(reading)
    )


def released() -> Timeline:
    """Return it as the query holds it no longer."""
    return held_by(HELD).sync("6m", queue=50).holds(HoldReading())


FIRST_AFTER = "no scale-down in the first sync after holdScaleDownQuery ended"
REFILLS = "no scale-down until 00:07:35Z (holdScaleDownQuery ended at 00:06:15Z)"


TIMELINES = {
    "a pause": target(PAUSED, replicas=3).sync("0s", queue=53),
    "a pause at a count": annotated(paused_replicas="5", paused_until=UNTIL).sync("0s", queue=83),
    "a mistaken pause": annotated(paused="yes").sync("0s", queue=30),
    "a pause without a reading": target(PAUSED, replicas=3).sync("0s", queue=None),
    "no scale-up": annotated(paused="scale-up").sync("0s", queue=53),
    "no scale-down": annotated(paused="scale-down").sync("0s", queue=53),
    "no scale-up, and no reading": annotated(paused="scale-up").sync("0s", queue=None),
    "no scale-down until an instant": annotated(paused="scale-down", paused_until=UNTIL)
    .sync("0s", queue=30)
    .sync("6m", queue=5),
    "awake": target(IDLE, replicas=1).sync("0s", queue=4),
    "falls asleep": target(IDLE, replicas=2).sync("0s", queue=0).sync("1m", queue=4),
    "asleep": asleep(),
    "asleep, and unknown": asleep().sync("3m", queue=None),
    "asleep, and refilling": target(IDLE, replicas=0).over(120.0).sync("0s", queue=0),
    "wakes": asleep().sync("3m", queue=35),
    "a window opens": scheduled(OFFICE_HOURS, 2).sync("0s", queue=0),
    "a window's maximum": scheduled(OFFICE_HOURS, 5).sync("0s", queue=500),
    "a window's minimum": scheduled(OFFICE_HOURS, 5).sync("0s", queue=0),
    "a window keeps awake": scheduled(OFFICE_HOURS, 5, Extensions(idle=IDLE.idle)).sync(
        "0s", queue=0
    ),
    "a gradual window": scheduled(GRADUALLY, 2).sync("0s", queue=0),
    "a maximum by query": target(replicas=9).asked_bounds(4, 9).sync("0s", queue=200),
    "an unknown minimum": target(replicas=5)
    .asked_bounds(NOTHING, 12)
    .sync("0s", queue=50)
    .sync("6m", queue=5),
    "a fallback": target(FALLBACK, replicas=3).sync("0s", queue=None).sync("15s", queue=None),
    "a lower fallback": target(lower(2), replicas=3).sync("0s", queue=30).sync("6m", queue=None),
    "a fallback that is held": target(lower(2), replicas=3).sync("0s", queue=None),
    "another metric asks for more": target(lower(2), TWO, replicas=3).sync(
        "0s", queue=None, mails=50
    ),
    "a hold prevents": held_by(HELD).sync("6m", queue=30),
    "a hold is silent": held_by(SILENT).sync("6m", queue=30),
    "a hold prevents nothing": held_by(HELD).sync("6m", queue=50),
    "a hold lets it go up": held_by(HELD).sync("6m", queue=70),
    "a hold was over just now": released().sync("6m15s", queue=0),
    "a hold was over a sync ago": released().sync("6m15s", queue=30).sync("6m30s", queue=30),
}


SENTENCES = rows(f"""
a pause | paused: paused at 3 by the configuration; would scale to 6
a pause at a count | paused: scaled 3 -> 5: paused by the annotation
    autoscaler/paused-replicas until {UNTIL}; would scale to 6
a mistaken pause | paused: paused at 3 by the annotation autoscaler/paused; autoscaler/paused is
    "yes", and taken as true; it may be true, false, scale-down or scale-up
a pause without a reading | paused: paused at 3 by the configuration; partial: queue: no answer for
    queue
no scale-up | paused: scale-up paused at 3 by the annotation autoscaler/paused; would scale to 6
no scale-down | paused: scaled 3 -> 6: queue above target (17.67/10 per replica); scale-down paused
    by the annotation autoscaler/paused
no scale-up, and no reading | failing: unchanged (3): queue: no answer for queue
awake | ok: unchanged (1); idle at 00:01:00Z unless a metric becomes active
falls asleep | idle: scaled 2 -> 0: idle, {NONE_ACTIVE}
asleep | idle: idle at 0: {NONE_ACTIVE}
asleep, and unknown | failing: idle at 0: activity of queue unknown; partial: queue: no answer for
    queue
asleep, and refilling | idle: idle at 0: activity of queue unknown
wakes | ok: scaled 0 -> 4: queue is active (35, target 10 per replica)
a window opens | ok: scaled 2 -> 5: Current number of replicas below Spec.MinReplicas
    ({BY_OFFICE_HOURS})
a window's maximum | atMaximum: scaled 5 -> 8: queue above target (100/10 per replica);
    metrics ask for 50; maxReplicas is 8 by {BY_OFFICE_HOURS}
a window's minimum | ok: at minimum (5 by {BY_OFFICE_HOURS}): metrics ask for 0
a gradual window | limited: scaled 2 -> 4: Current number of replicas below Spec.MinReplicas
    (schedule sale until 18:00 Europe/Berlin); default scale-up limit (twice the replicas or 4 per
    sync) permits 4
a maximum by query | atMaximum: at maximum (9 by maxReplicasQuery): metrics ask for 20
an unknown minimum | failing: unchanged (5): metrics ask for 1; no scale-down, minReplicas is
    unknown; minReplicasQuery has no value: no answer
a fallback | failing: scaled 3 -> 6: fallback for queue; queue failed in 2 syncs, fallback asks for
    6: no answer for queue
a lower fallback | failing: scaled 3 -> 2: fallback for queue; queue failed in 1 sync, fallback asks
    for 2: no answer for queue
another metric asks for more | failing: scaled 3 -> 5: mails above target (16.67/10 per replica);
    queue failed in 1 sync, fallback asks for 2: no answer for queue
a hold prevents | held: held at 5 (would scale to 3): {HOLDS}
a hold is silent | failing: held at 5 (would scale to 3): {UNKNOWN}
a hold prevents nothing | ok: unchanged (5); {HOLDS}
a hold lets it go up | ok: scaled 5 -> 7: queue above target (14/10 per replica); {HOLDS}
a hold was over just now | stabilizing: stabilizing at 5: metrics ask for 0; {REFILLS};
    {FIRST_AFTER}
a hold was over a sync ago | stabilizing: stabilizing at 5: metrics ask for 3; {REFILLS}
""")


@pytest.mark.parametrize(("name", "sentence"), SENTENCES, ids=[name for name, _ in SENTENCES])
def test_a_sentence_states_the_decision_and_its_reason(name: str, sentence: str) -> None:
    synced = result(TIMELINES[name])
    assert f"{synced.classified().state}: {verdict(synced)}" == sentence


def test_the_cause_changes_once_when_a_fallback_begins() -> None:
    timeline = target(FALLBACK, replicas=3)
    causes = []
    for time in ("0s", "15s", "30s"):
        synced = result(timeline.sync(time, queue=None))
        causes.append(synced.classified().cause)
    failed = "FailedGetExternalMetric: no answer for queue"
    assert causes == [failed, *[f"{failed} (a fallback is in use)"] * 2]


def test_a_hold_without_an_answer_is_a_failure() -> None:
    cause = result(TIMELINES["a hold is silent"]).classified().cause
    assert cause == f"MissingHold: {UNKNOWN}"


def test_an_incomplete_reading_replaces_the_fallback() -> None:
    partly = Values((45_000,), (Gap(GapKind.PARTIAL, "store eu is unreachable"),))
    text = explain(synced(FEW, 9, partly, extensions=lower(4)))
    sentence = "queue failed in 1 sync, its partial reading asks for at least 5"
    assert f"{sentence}: the reading is incomplete" in text
    assert f"{sentence}\n" in text, "the fallback and what it depends on are not named"


def test_a_value_below_a_thousandth_that_wakes_a_target_is_shown() -> None:
    tiny = Values((0,), total=0.0005)
    woken = synced(FEW, 0, tiny, extensions=replace(IDLE, activations=()))
    assert "queue is active (0.0005, target 10 per replica)" in verdict(woken)
    assert "active: 0.0005 is above the activation threshold 0" in explain(woken)


def test_an_incomplete_answer_for_a_bound_is_shown() -> None:
    timeline = target(replicas=9)
    timeline.asked_bounds(Values((4_000,), (Gap(GapKind.PARTIAL, "store eu is unreachable"),)))
    synced = result(timeline.sync("0s", queue=30).sync("6m", queue=5))
    sentence = "minReplicasQuery has only an incomplete answer: store eu is unreachable"
    assert verdict(synced).endswith(f"no scale-down, minReplicas is unknown; {sentence}")
    assert "minReplicas 4 by minReplicasQuery, maxReplicas" in explain(synced)


def test_a_mistaken_annotation_does_not_hide_the_failure() -> None:
    scale = Scale(3, 3, "", annotations=(("autoscaler/paused", "scale-dwon"),))
    observation = Observation(scale, None, (PodSamples(samples(1, 2, 3)),))
    of = spec(cpu(utilization(50)))
    decision, _ = decide(of, Flags(), observation, History(), BASE)
    assert "selector" in verdict(SyncResult(Target("shop", of, ()), decision))


EXPLAINED = rows(f"""
no scale-down until an instant | paused scale-down paused by the annotation autoscaler/paused
    until {UNTIL}; would scale to 1
    | scale 3 replicas in spec, 3 in status; minReplicas 1, maxReplicas 20
awake | idle awake; idle at 00:01:00Z unless a metric becomes active
    | last active, or possibly active, at 2026-01-01T00:00:00Z
    | not active: not above the activation threshold 5
asleep | idle idle, {NONE_ACTIVE}; idle.replicas is 0
wakes | idle waking up: a metric is active | active: above the activation threshold 5
asleep, and unknown | activity unknown: an awake target stays awake, an idle target stays idle
a window keeps awake | idle kept awake: minReplicas is 5 by {BY_OFFICE_HOURS}
    | scale 5 replicas in spec, 5 in status; minReplicas 5 by {BY_OFFICE_HOURS}, maxReplicas 8 by
    {BY_OFFICE_HOURS}
a gradual window | Current number of replicas below Spec.MinReplicas (schedule sale until 18:00
    Europe/Berlin): 4 regardless of the metrics, as the policies permit
    | limit 15 -> 4 (ScaleUpLimit): default scale-up limit (twice the replicas or 4 per sync)
    permits 4
an unknown minimum
    | scale 5 replicas in spec, 5 in status; minReplicas 1, maxReplicas 12 by maxReplicasQuery
    | minReplicasQuery has no value: no answer; no scale-down meanwhile
a fallback that is held
    | queue failed in 1 sync, fallback asks for 2 (2, or the current count if lower)
    | conditions AbleToScale=True ScaleDownStabilized: recent recommendations hold the size
    at 3 instead of 2
""")


@pytest.mark.parametrize("row", EXPLAINED, ids=[name for name, *_ in EXPLAINED])
def test_an_explanation_has_each_rule(row: list[str]) -> None:
    name, *lines = row
    assert [line for line in lines_of(result(TIMELINES[name])) if line in lines] == lines


def test_a_saturation_is_explained_after_15_minutes() -> None:
    timeline = target(replicas=20).sync("0s", queue=230)
    assert "saturated" not in explain(result(timeline))
    sentence = explain(result(timeline.sync("15m", queue=230)))
    assert "below demand   3 replicas below demand since 00:00:00Z: TooManyReplicas" in sentence


def test_an_end_without_a_pause_has_no_effect() -> None:
    alone = "autoscaler/paused-until has no effect without"
    timeline = target(replicas=3).annotated(paused_until=UNTIL).sync("0s", queue=30)
    assert alone in explain(result(timeline))
    timeline = timeline.annotated(paused_until=UNTIL, paused="true").sync("15s", queue=30)
    assert alone not in explain(result(timeline))


def asked_bounds(timeline: Timeline) -> list[str]:
    """Return the lines of an explanation about the queries of bounds."""
    synced = result(timeline)
    asking = replace(
        synced.target,
        min_replicas_query=Query("sum(least)", server="mimir"),
        max_replicas_query=Query("sum(most)"),
    )
    sentence = [
        splitline.strip() for splitline in explain(replace(synced, target=asking)).splitlines()
    ]
    return [text for text in sentence if text.startswith(("minReplicasQuery", "maxReplicasQuery"))]


def test_the_queries_of_bounds_are_explained() -> None:
    timeline = target(replicas=5).asked_bounds(50, 9).sync("0s", queue=50)
    assert asked_bounds(timeline) == [
        "minReplicasQuery at server mimir gives 50 (20 within the other bounds): sum(least)",
        "maxReplicasQuery gives 9: sum(most)",
    ]
    assert asked_bounds(timeline.asked_bounds(3, NOTHING).sync("1m", queue=50)) == [
        "maxReplicasQuery has no value: no answer",
        "minReplicasQuery at server mimir gives 3: sum(least)",
        "maxReplicasQuery gives 9 (last read, valid until 00:05:00Z): sum(most)",
    ]
    assert asked_bounds(timeline.sync("6m", queue=50))[-1] == "maxReplicasQuery: sum(most)"


def test_a_surge_is_explained() -> None:
    """25 pods run where the spec has 20, and each looks less busy for it."""
    of, reading = spec(cpu(utilization(50)), maximum=30), PodSamples(samples(*[375] * 25))
    surge = Extensions(ignore_surge=True)
    surging = synced(of, 20, reading, status=25, of_pods=pods(25), extensions=surge)
    assert (
        "asks for 20 (spec.replicas): more pods run than that, and their load is not low enough"
        in explain(surging)
    )


def test_an_explanation_has_the_query_that_holds() -> None:
    query = Query("up == 0", server="mimir")
    hold = HoldQuery(query, LabelSelector((("job", "orders"),)), condition=True)
    asked = 'holdScaleDownQuery at server mimir: up == 0, series {job="orders"}'
    for line, sentence in (
        (held_by(HELD).sync("6m", queue=30), f"hold {HOLDS}; would scale to 3"),
        (
            held_by(HoldReading()).sync("6m", queue=30),
            "hold holdScaleDownQuery returns nothing: no hold",
        ),
        (released().sync("6m30s", queue=50), f"hold {FIRST_AFTER}"),
    ):
        synced = result(line)
        synced = replace(synced, target=replace(synced.target, hold=hold))
        lines = [" ".join(splitline.split()) for splitline in explain(synced).splitlines()]
        assert sentence in lines
        assert asked in lines


def document(timeline: Timeline) -> Any:
    return whole(result(timeline)).document()


def test_the_record_has_only_the_rules_of_the_target() -> None:
    plain = document(target(replicas=3).sync("0s", queue=30))
    new = {"pause", "idle", "hold", "minReplicasBy", "maxReplicasBy", "missingBound"}
    assert not new & plain.keys()

    assert whole(result(held_by(HELD).sync("6m", queue=30))).document()["hold"] == {
        "message": HOLDS,
        "series": 2,
        "preventedReplicas": 3,
    }
    assert whole(result(held_by(SILENT).sync("6m", queue=50))).document()["hold"] == {
        "message": UNKNOWN
    }
    paused = target(replicas=3).annotated(paused_replicas="5", paused_until=UNTIL)
    assert document(paused.sync("0s", queue=83))["pause"] == {
        "mode": "all",
        "by": "the annotation autoscaler/paused-replicas",
        "replicas": 5,
        "until": UNTIL,
        "preventedReplicas": 6,
    }
    idle = document(target(IDLE, replicas=1).sync("0s", queue=4))
    assert idle["idle"] == {
        "asleep": False,
        "active": False,
        "lastActive": "2026-01-01T00:00:00Z",
        "goesIdle": "2026-01-01T00:01:00Z",
    }
    assert [item["activity"] for item in idle["metrics"]] == ["inactive"]
    bounds = document(target(replicas=5).asked_bounds(NOTHING, 12).sync("0s", queue=50))
    assert (bounds["maxReplicas"], bounds["maxReplicasBy"]) == (12, "maxReplicasQuery")
    assert bounds["missingBound"] == "minReplicasQuery has no value: no answer"
    (metric,) = document(target(lower(2), replicas=3).sync("0s", queue=None))["metrics"]
    assert metric["fallback"] == {"behavior": "currentReplicasIfLower", "failedSyncs": 1}
    shown = (metric["value"], metric["text"], metric["proposedReplicas"])
    assert shown == (None, "<unknown>/10", 2)


def test_the_sentences_of_the_document_are_real() -> None:
    (section,) = re.findall(r"^## Extensions$(.*?)^## ", DOCUMENT, re.MULTILINE | re.DOTALL)
    shown = re.findall(r"\] shop/Deployment/\S+: (.*)$", section, re.MULTILINE)
    assert len(shown) >= 3
    known = [sentence.partition(": ")[2] for _, sentence in SENTENCES]
    assert [line for line in shown if line not in known] == []


def test_a_rounded_count_is_explained() -> None:
    four = Extensions(replicas=ReplicaRounding(4))
    for replicas, queue, sentence, line in (
        (8, 90, "9 rounded to 12, a multiple of 4", "rounding 9 -> 12"),
        (12, 100, "10 rounded to 12, a multiple of 4", "rounding 10 -> 12"),
        (6, 50, "5 not applied (no multiple of 4 between it and 6)", "rounding 5 -> 6"),
    ):
        at_once = behavior(down=rules(percent_policy(100), window=0))
        timeline = Timeline(spec(QUEUE, behavior=at_once), replicas=replicas, extensions=four)
        synced = result(timeline.sync("0s", queue=queue))
        assert sentence in verdict(synced)
        lines = [" ".join(part.split()) for part in explain(synced).splitlines()]
        assert f"{line}: {sentence}" in lines
        assert whole(synced).stages[-1].name == "round"


def test_the_pods_of_a_scale_down_are_named_with_their_reasons() -> None:
    pods = tuple([Removal(f"web-{n}", RemovalReason.LOWEST_VALUE, n * 500, n - 2) for n in (0, 1)])
    removals = Removals(
        5,
        (
            Removal("web-8", RemovalReason.NOT_READY),
            Removal("web-9", RemovalReason.OTHER_COST, cost=-7),
            *pods,
        ),
    )
    no_answer = Removals(2, (), Gap(GapKind.ERROR, "no answer"))
    for found, sentence, lines in (
        (
            removals,
            "removes web-8, web-9, web-0 and 1 more; Kubernetes chooses 1 pod",
            [
                "removes not running and ready: web-8",
                "with a negative cost of another client: web-9 (cost -7)",
                "with the lowest values: web-0 (value 0, cost -2), web-1 (value 500m, cost -1)",
                "1 pod that Kubernetes chooses, of the pods without a cost",
                "scaleDown.podDeletionCost: busy",
            ],
        ),
        (
            no_answer,
            "Kubernetes chooses the pods (scaleDown.podDeletionCost: no answer)",
            [
                "removes 2 pods that Kubernetes chooses",
                "error: no answer",
                "scaleDown.podDeletionCost: busy",
            ],
        ),
        (
            replace(no_answer, pods=pods[:1]),
            "removes web-0; Kubernetes chooses 1 pod (scaleDown.podDeletionCost: no answer)",
            ["removes with the lowest values: web-0 (value 0, cost -2)"],
        ),
        (
            Removals(1, ()),
            "Kubernetes chooses the pods",
            ["removes 1 pod that Kubernetes chooses, of the pods without a cost"],
        ),
    ):
        timeline = Timeline(
            spec(QUEUE, behavior=behavior(down=rules(percent_policy(100), window=0))), replicas=8
        )
        synced = result(timeline.sync("0s", queue=30))
        synced = replace(
            synced,
            target=replace(synced.target, deletion_cost=Query("busy")),
            decision=replace(synced.decision, removals=found),
        )
        assert verdict(synced).endswith(f"; {sentence}")
        shown = [" ".join(line.split()) for line in explain(synced).splitlines()]
        begin = shown.index(lines[0])
        assert shown[begin : begin + len(lines)] == lines


@pytest.mark.parametrize(
    ("reading", "line"),
    [
        (PodSamples(samples(0, 500)), "removes no scale-down now; 2 pods with a value"),
        (Gap(GapKind.ERROR, "bad query"), "removes no scale-down now; error: bad query"),
    ],
)
def test_without_a_scale_down_the_explanation_shows_whether_there_are_values(
    reading: PodSamples | Gap, line: str
) -> None:
    synced = result(Timeline(spec(QUEUE), replicas=3).sync("0s", queue=30))
    seen = replace(synced.inputs.observation, deletion_costs=reading)
    synced = replace(
        synced,
        target=replace(synced.target, deletion_cost=Query("busy")),
        given=replace(synced.inputs, observation=seen),
    )
    assert line in [" ".join(shown.split()) for shown in explain(synced).splitlines()]
