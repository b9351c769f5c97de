"""What differs from the decision before: each change has its sentence."""

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autoscaler.core.decision import (
    READY,
    Activity,
    Bound,
    Bounds,
    BreakerHold,
    Decision,
    FallbackUse,
    ForeignChange,
    Limit,
    MetricFailure,
    Outcome,
    QueryHold,
    Saturation,
    Stabilization,
    Zone,
)
from autoscaler.core.extensions import Extensions, Fallback, Pause, PauseMode
from autoscaler.core.observation import HoldReading, ReadFailure, Scale
from autoscaler.core.spec import Flags, PolicyType, ScalingPolicy
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import Query
from autoscaler.core.writes import (
    AcceptedWrite,
    SkippedWrite,
    SkippedWriteReason,
    WriteConflict,
    WriteFailure,
    WriteOutcome,
)
from autoscaler.persistence.record.changes import change_key
from autoscaler.rendering.differences import differences
from tests.core.builders import BASE, average, external, spec
from tests.core.entries import of_last, pairs
from tests.core.timeline import Timeline
from tests.rendering.test_every_field_is_output import DECIDED, ENTRY
from tests.tables import rows

QUEUE, MAILS = external(average("10")), external(average("10"), "mails")
SCALE = Scale(3, 3, "app=web")
WRITES: tuple[WriteOutcome | None, ...] = (
    None,
    AcceptedWrite(SCALE),
    WriteConflict(SCALE),
    WriteFailure("refused"),
    SkippedWrite(SkippedWriteReason.NOT_LEADING),
)
modest = settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])


OTHERWISE = "same result, decided differently"
IN_ANOTHER_WAY = {"all", "combination", "metrics", "stabilization", "limit"}
"""Stages that ran or did not, though nothing came of them."""


@modest
@given(pairs, st.sampled_from(WRITES), st.sampled_from(WRITES))
def test_any_change_has_a_sentence(
    pair: tuple[SyncResult, SyncResult],
    write: WriteOutcome | None,
    other_write: WriteOutcome | None,
) -> None:
    first, other = replace(pair[0], write=write), pair[1]
    changed = [("write", replace(first, write=other_write)), ("all", replace(other, write=write))]
    for each in fields(Decision):
        mixed = {each.name: getattr(other.decision, each.name)}
        changed.append((each.name, replace(first, decision=replace(first.decision, **mixed))))
    assert differences(first, first) == ()
    for name, two in changed:
        if change_key(first) != change_key(two):
            for sentences in (differences(first, two), differences(two, first)):
                assert sentences
                assert sentences != (OTHERWISE,) or name in IN_ANOTHER_WAY


def _decided() -> SyncResult:
    timeline = Timeline(spec(QUEUE, MAILS), replicas=3)
    return of_last(timeline.sync("0s", queue=30, mails=30).sync("15s", queue=20, mails=20))


HELD = _decided()
FIRST, SECOND = HELD.decision.metrics
FAILED = MetricFailure("FailedGetExternalMetric", "no answer")
DOWN = Pause(PauseMode.SCALE_DOWN)
POLICY = ScalingPolicy(PolicyType.PODS, 4, 60)
FOUR_A_MINUTE = Limit(9, 7, "ScaleUpLimit", 7, POLICY, BASE + 60)
OPEN = Bounds(Bound(2, "schedule day until 18:00 UTC"), Bound(9))


FAILS = {"metrics": (replace(FIRST, outcome=FAILED), SECOND)}
FALLS_BACK = replace(FIRST, outcome=FAILED, fallback=FallbackUse(Fallback(6), 3, 6))
OTHERS: dict[str, dict[str, Any]] = {
    "count": {"scale": replace(SCALE, spec_replicas=5), "desired": 5},
    "move": {"desired": 5, "reason": f"{FIRST.name} above target"},
    "no scale": {"scale": ReadFailure("forbidden")},
    "others": {"foreign": ForeignChange(2, 3, "kubectl-edit")},
    "zone": {"zone": Zone.PAUSED},
    "outcome": {"outcome": Outcome.BLOCKED},
    "pause": {"pause": replace(DOWN, by="kubectl", until=BASE + 60)},
    "bound": {"min_replicas": 2, "bounds": OPEN},
    "hold": {"hold": QueryHold(HoldReading(2, '{job="a"}'))},
    "failure": FAILS,
    "stabilization": {"stabilization": Stabilization(3, 3, "ReadyForNewScale")},
    "limit": {"limit": FOUR_A_MINUTE},
    "breaker": {"breaker": BreakerHold("", BASE + 600, 2)},
    "saturation": {"saturation": Saturation(3, BASE - 3600, "TooManyReplicas")},
    "condition": {"conditions": HELD.decision.conditions[1:]},
    "reason": {"stabilization": None, "reason": "another"},
    "end of a hold": {"hold": QueryHold(HoldReading())},
    "fallback": {"metrics": (FALLS_BACK, SECOND)},
}
"""What the other decision has."""
FIRST_ONES: dict[str, dict[str, Any]] = {
    "reason": {"stabilization": None},
    "end of a hold": {"hold": QueryHold(HoldReading(1, "{}"))},
    "fallback": FAILS,
}
"""What the one has where it is not `HELD` itself."""


def with_fields(**fields: Any) -> SyncResult:
    return replace(HELD, decision=replace(HELD.decision, **fields))


PAIRS = {
    name: (with_fields(**FIRST_ONES.get(name, {})), with_fields(**other))
    for name, other in OTHERS.items()
} | {
    path: (replace(ENTRY, decision=before), replace(ENTRY, decision=after))
    for path, (before, after) in DECIDED.items()
}
"""With the examples of fields of extensions."""
CHANGES = """
count | replicas: 3 -> 5 | replicas: 5 -> 3
move | desired replicas: 3 -> 5 (queue above target)
    | desired replicas: 5 -> 3 (no change needed)
no scale | scale not read: forbidden | scale read again
others | "kubectl-edit" set the replicas: 2 -> 3
    | no other client set the replicas between these decisions
zone | decided by: metrics -> pause | decided by: pause -> metrics
outcome | no decision possible | all inputs are known again
pause | scale-down paused by kubectl until 00:01:00Z | no longer paused
bound | minReplicas: 1 -> 2 by schedule day until 18:00 UTC
    | minReplicas: 2 by schedule day until 18:00 UTC -> 1
hold | no scale-down while holdScaleDownQuery returns {job="a"} and 1 more
    | holdScaleDownQuery no longer holds
failure | queue failed: no answer | queue: read again, 6.667/10 per replica (asks for 2)
metrics.refill
    | queue: first reading after a gap 15 s ago; no scale-down before 2026-01-01T00:01:00Z, since it
    may be too low | queue: readings are complete again after the gap
stabilization | no stabilization window applies
    | scale-down window keeps 3 until 00:05:00Z (3 replicas at the first sync, 00:00:00Z)
limit | limited: 9 -> 7, scaleUp policy of 4 pods per 60 s permits 7, more from 00:01:00Z | no
    longer limited by a bound or policy
breaker | held by the scale-down breaker until 00:10:00Z; would scale to 2
    | no longer held by the scale-down breaker
held_until | contested: other clients undo our changes, not written until 00:01:00Z
    | no longer contested
saturation | 3 replicas below demand since 2025-12-31T23:00:00Z: TooManyReplicas
    | no longer below demand
condition | AbleToScale: True (ScaleDownStabilized) -> none
    | AbleToScale: none -> True (ScaleDownStabilized)
reason | reason: All metrics below target -> another | reason: another -> All metrics below target
paused_from | without the pause: 2 replicas | the pause no longer prevents a change
pause.by | scale-down paused by kubectl | scale-down paused by the configuration
bounds.missing | bound missing: no answer | all bounds are known again
hold.replicas | without holdScaleDownQuery: scale to 2 | holdScaleDownQuery no longer prevents a
    scale-down
hold.reading.gap | no scale-down, holdScaleDownQuery has no valid answer: no answer
    | no scale-down while holdScaleDownQuery returns a value without labels
end of a hold | no scale-down in the first sync after holdScaleDownQuery ended
    | no scale-down while holdScaleDownQuery returns a value without labels
fallback | queue failed in 3 syncs, fallback asks for 6
    | fallback no longer used for queue
idle.asleep | idle: no metric active since 2025-12-31T23:58:30Z | awake, may become idle
hpa | HorizontalPodAutoscaler "web" wants 5 replicas, and found 3 | no HPA to compare with
wanted_by | queue asks for replicas meanwhile | no metric asks for replicas any more
metrics.activity | queue: active | queue: activity no longer matters
"""


@pytest.mark.parametrize(("name", "there", "back"), rows(CHANGES))
def test_each_change_has_a_sentence_when_it_begins_and_ends(
    name: str, there: str, back: str
) -> None:
    before, after = PAIRS[name]
    assert there in differences(before, after)
    assert back in differences(after, before)


def test_the_outcome_of_the_write_is_a_difference() -> None:
    for write, sentence in zip(
        WRITES[1:],
        (
            "count written",
            "count not written: another client set 3",
            "count not written: refused",
            "count not written: not leading",
        ),
        strict=True,
    ):
        assert differences(HELD, replace(HELD, write=write)) == (sentence,)


def test_a_sync_after_a_scale_up_has_few_differences() -> None:
    timeline = Timeline(spec(QUEUE), replicas=3).sync("0s", queue=30).sync("15s", queue=60)
    before = of_last(timeline, AcceptedWrite(SCALE))
    assert differences(before, of_last(timeline.sync("30s", queue=62))) == (
        "replicas: 3 -> 6",
        "reason: queue above target -> none",
        "queue: 20 -> 10.33 (asks for 6)",
        "AbleToScale: True (SucceededRescale) -> True (ReadyForNewScale)",
    )


def test_a_change_without_its_own_sentence_has_a_general_one() -> None:
    woken = with_fields(stabilization=Stabilization(1, 3, READY))
    plain = with_fields(stabilization=Stabilization(3, 3, READY))
    assert differences(woken, plain) == (OTHERWISE,)


def test_the_activity_of_a_metric_is_a_difference() -> None:
    for activity, sentence in (
        (Activity.INACTIVE, "queue: not active"),
        (Activity.UNKNOWN, "queue: activity unknown"),
    ):
        after = with_fields(metrics=(replace(FIRST, activity=activity), SECOND))
        assert differences(HELD, after) == (sentence,)


def test_the_keys_of_the_configuration_that_are_different_are_named() -> None:
    target = HELD.target
    other = replace(
        target,
        spec=replace(target.spec, max_replicas=20),
        queries=(target.queries[0], Query("sum(other)")),
        extensions=Extensions(ignore_surge=True),
    )
    assert differences(HELD, replace(HELD, target=other)) == (
        "configuration maxReplicas: 100 -> 20",
        "configuration metrics[1].query: sum(m1) -> sum(other)",
        "configuration ignoreSurge: false -> true",
    )
    flags = Flags(tolerance=0.2, downscale_stabilization=60.0)
    assert differences(HELD, replace(HELD, flags=flags)) == (
        "configuration tolerance: 0.1 -> 0.2",
        "configuration downscaleStabilization: 5m -> 1m",
    )


def test_names_of_clients_are_made_printable() -> None:
    """A name of a field manager may hold anything."""
    after = with_fields(foreign=ForeignChange(2, 3, "\x1b[31mred\u202e"))
    (sentence,) = differences(HELD, after)
    assert sentence.isprintable()
