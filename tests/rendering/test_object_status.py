"""The status of an object, as `kubectl get`, `kubectl wait` and the next leader read it."""

import json
from dataclasses import replace

import pytest

from autoscaler.config.objects import ObjectRefusal, RefusalReason
from autoscaler.core.contention import CONTROLLED_BY_OTHER, REPLICAS_CONTESTED
from autoscaler.core.decide import decide
from autoscaler.core.decision import Zone
from autoscaler.core.extensions import Extensions, Mode, Pause
from autoscaler.core.history import Condition, History, Recommendation
from autoscaler.core.observation import (
    Gap,
    GapKind,
    Observation,
    PodSamples,
    ReadFailure,
    Reading,
    Scale,
)
from autoscaler.core.spec import Flags, MetricSpec
from autoscaler.core.status import ABLE_TO_SCALE
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import Target
from autoscaler.core.writes import AcceptedWrite, settle, settle_failure
from autoscaler.kubernetes.api import JsonObject
from autoscaler.rendering.object_status import (
    change_of,
    metrics_text,
    read_status,
    readiness,
    refused_status,
    synced_status,
)
from tests.core.builders import (
    BASE,
    FALSE,
    average,
    cpu,
    external,
    of_object,
    per_pod,
    pods,
    samples,
    spec,
    utilization,
    value,
    values,
)

QUEUE, MAILS = external(average("10")), external(average("4"), "mails")
GONE = Gap(GapKind.EMPTY, "the query returned no series")
READ = ReadFailure("the API server is away")


def synced(
    *read: tuple[MetricSpec, Reading], replicas: int | ReadFailure = 3, mode: Mode = Mode.LIVE
) -> SyncResult:
    """Return a sync of metrics and their readings at `BASE`, before any write."""
    of, extensions = spec(*(metric for metric, _ in read)), Extensions(mode=mode)
    scale = Scale(replicas, replicas, "app=web") if isinstance(replicas, int) else replicas
    listed = pods(replicas) if isinstance(replicas, int) else None
    seen = Observation(scale, listed, tuple(reading for _, reading in read))
    history = History(recommendations=(Recommendation(0, BASE - 3600),))
    decision, _ = decide(of, Flags(), seen, history, BASE, extensions=extensions)
    return SyncResult(Target("shop", of, (), extensions=extensions), decision)


def written(result: SyncResult, error: str = "") -> SyncResult:
    """Return a result whose write was accepted, or failed."""
    decision, of = result.decision, result.target.spec
    if error:
        return replace(result, decision=settle_failure(decision, History(), History(), error)[0])
    accepted = AcceptedWrite(Scale(decision.desired, 3, "app=web"))
    return replace(result, decision=settle(of, decision, History())[0], write=accepted)


def changed(result: SyncResult, **fields: object) -> SyncResult:
    return replace(result, decision=replace(result.decision, **fields))  # type: ignore[arg-type] # any


CALM = synced((QUEUE, values(30.0)))
UP = synced((QUEUE, values(48.0)))
CONTESTED = Condition(ABLE_TO_SCALE, FALSE, REPLICAS_CONTESTED, "others", BASE)


@pytest.mark.parametrize(
    ("result", "status", "reason"),
    [
        (CALM, "True", "Ready"),
        (UP, "True", "Ready"),
        (synced((QUEUE, values(30.0)), mode=Mode.SHADOW), "True", "Shadow"),
        (changed(CALM, zone=Zone.PAUSED, pause=Pause()), "True", "Paused"),
        (synced((QUEUE, values(30.0)), replicas=0), "True", "Disabled"),
        (synced((QUEUE, GONE), (MAILS, values(90.0))), "True", "Partial"),
        (synced((QUEUE, GONE)), "False", "FailedGetExternalMetric"),
        (synced((QUEUE, values(1.0)), replicas=READ), "False", "FailedGetScale"),
        (written(UP, "no quota"), "False", "FailedUpdateScale"),
        (changed(CALM, controller='ScaledObject "web"'), "False", CONTROLLED_BY_OTHER),
        (changed(CALM, conditions=(CONTESTED,)), "False", REPLICAS_CONTESTED),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_ready_says_whether_the_last_sync_could_scale(
    result: SyncResult, status: str, reason: str
) -> None:
    told = readiness(result)
    assert (told[0].value, told[1]) == (status, reason)
    assert told[2]


def test_a_status_has_what_an_hpa_reports() -> None:
    result = written(UP)
    status = synced_status(result, 7, BASE, change_of(result, ""), {})
    conditions = status.pop("conditions")
    assert status.pop("lastDecision").startswith("3 -> 5: ")
    assert status == {
        "observedGeneration": 7,
        "lastScaleTime": "2026-01-01T00:00:00Z",
        "currentReplicas": 3,
        "desiredReplicas": 5,
        "currentMetrics": [
            {
                "type": "External",
                "external": {"metric": {"name": "queue"}, "current": {"averageValue": "16"}},
            }
        ],
        "metrics": "queue 16/10",
    }
    assert [(each["type"], each["status"]) for each in conditions] == [
        ("AbleToScale", "True"),
        ("ScalingActive", "True"),
        ("ScalingLimited", "False"),
        ("Ready", "True"),
    ]
    assert {each["lastTransitionTime"] for each in conditions} == {"2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("metric", "reading", "current", "text"),
    [
        (QUEUE, values(30.0), {"averageValue": "10"}, "queue 10/10"),
        (external(value("4k")), values(1500.0), {"value": "1500"}, "queue 1500/4000"),
        (of_object(value("2")), values(0.5), {"value": "500m"}, "hits 0.5/2"),
        (per_pod("100"), PodSamples(samples(80_000, 90_000, 100_000)), {"averageValue": "90"}, ""),
        (
            cpu(utilization(80)),
            PodSamples(samples(400, 400, 400)),
            {"averageValue": "400m", "averageUtilization": 40},
            "cpu 40%/80%",
        ),
        (QUEUE, GONE, None, "queue -/10"),
    ],
    ids=["average", "value", "object", "pods", "utilization", "failed"],
)
def test_a_metric_is_reported_as_an_hpa_does_if_it_has_a_value(
    metric: MetricSpec, reading: Reading, current: JsonObject | None, text: str
) -> None:
    status = synced_status(synced((metric, reading)), 1, None, "", {})
    found = [entry for each in status["currentMetrics"] for entry in each.values()]
    found = [entry["current"] for entry in found if isinstance(entry, dict)]
    assert found == ([] if current is None else [current])
    assert text in status["metrics"]


def test_the_text_of_many_metrics_is_short() -> None:
    many = [(external(average("10"), f"{'x' * 500}{number}"), values(30.0)) for number in range(9)]
    text = metrics_text(synced(*many).decision.metrics)
    assert text.endswith(", 6 more")
    assert len(text) < 200


def test_a_change_is_told_once_also_in_shadow() -> None:
    shadow = synced((QUEUE, values(48.0)), mode=Mode.SHADOW)
    told = change_of(shadow, "")
    assert "3 -> 5: " in told
    assert change_of(synced((QUEUE, values(49.0)), mode=Mode.SHADOW), told) == ""
    assert "3 -> 4: " in change_of(synced((QUEUE, values(36.0)), mode=Mode.SHADOW), told)
    assert change_of(written(UP), told).startswith("3 -> 5: ")
    for unchanged in (CALM, UP, written(UP, "no quota")):
        assert change_of(unchanged, "") == ""


def test_without_a_scale_the_counts_stay() -> None:
    status = synced_status(synced((QUEUE, values(1.0)), replicas=READ), 1, None, "", {})
    assert set(status) == {"observedGeneration", "conditions"}


def test_a_refused_object_has_a_reason_and_no_counts() -> None:
    refusal = ObjectRefusal(RefusalReason.QUOTA, "spec.maxReplicas: must be at most 50")
    status = refused_status(refusal, 4, BASE, synced_status(CALM, 3, None, "", {}))
    (ready,) = status.pop("conditions")
    assert ready == {
        "type": "Ready",
        "status": "False",
        "reason": "QuotaExceeded",
        "message": refusal.message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    counts = ("currentReplicas", "desiredReplicas", "currentMetrics", "metrics")
    assert status == {"observedGeneration": 4, **dict.fromkeys(counts)}


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    before = synced_status(CALM, 1, None, "", {})
    later = changed(
        synced((QUEUE, GONE)),
        time=BASE + 60,
        conditions=tuple(
            replace(each, last_transition=BASE + 60)
            for each in synced((QUEUE, GONE)).decision.conditions
        ),
    )
    after = synced_status(later, 1, None, "", before)
    times = {each["type"]: each["lastTransitionTime"][14:19] for each in after["conditions"]}
    assert times["AbleToScale"] == "00:00"
    assert times["ScalingActive"] == times["Ready"] == "01:00"


def test_hostile_texts_are_bounded_lines() -> None:
    text = "\x1b[31m\n\u202e" + "x" * 100_000
    condition = Condition("ScalingActive", FALSE, text, text, BASE)
    result = changed(CALM, conditions=(condition,), reason=text)
    named = synced((external(average("10"), text), values(48.0)))
    for status in (
        synced_status(result, 1, 1e300, change_of(written(named), ""), {}),
        refused_status(ObjectRefusal(RefusalReason.INVALID, text), 1, BASE, {}),
    ):
        body = json.dumps(status, ensure_ascii=False)
        assert len(body) < 8000
        assert not {"\x1b", "\n", "\u202e"} & set(body)
    assert max(len(each["message"]) for each in status["conditions"]) <= 1000


@pytest.mark.parametrize(
    "known",
    [
        None,
        b"",
        b"null",
        b"[]",
        b'"x"',
        b"\xff",
        b"[" * 100_000,
        b'{"conditions": 5}',
        b'{"conditions": [5]}',
        b'{"conditions": [{"type": "Ready"}]}',
        b'{"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": 5}]}',
    ],
)
def test_a_malformed_status_counts_as_none(known: bytes | None) -> None:
    assert read_status(known) == {}
