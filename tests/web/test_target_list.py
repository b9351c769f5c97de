"""The list of targets: the state of each, its beginning and its reason."""

import gc
import json
import tracemalloc
from typing import Any

import pytest

from autoscaler.core.decision import Calculation
from autoscaler.core.observation import PodSamples, ReadFailure, Reading, Sample, Scale, Values
from autoscaler.core.target import Target
from autoscaler.core.writes import WriteFailure
from autoscaler.persistence.record.rows import LastState
from autoscaler.telemetry.health import Health
from autoscaler.telemetry.metrics import Metrics
from autoscaler.web.api.endpoints import target_list
from tests.core.builders import BASE, average, cpu, external, per_pod, pods, utilization, values
from tests.narrowing import known
from tests.telemetry.results import EMPTY, NOW, many, metrics_of, result_of, target_of

Json = dict[str, Any]


def listed(metrics: Metrics) -> list[Json]:
    targets: list[Json] = json.loads(b"".join(target_list(metrics.states.known(), NOW)))["targets"]
    return targets


def test_a_listed_target_has_all_its_facts() -> None:
    target = target_of("web", external(average("30")), cpu(utilization(70)))
    (listing,) = listed(metrics_of(result_of(target, values(79), EMPTY)))
    assert listing == {
        "target": "shop/Deployment/web",
        "namespace": "shop",
        "kind": "Deployment",
        "name": "web",
        "minReplicas": 1,
        "maxReplicas": 20,
        "currentReplicas": 3,
        "desiredReplicas": 3,
        "state": "failing",
        "since": "2027-01-15T08:00:00Z",
        "message": listing["message"],
        "metrics": [
            {
                "name": "queue",
                "type": "External",
                "targetType": "average",
                "value": 26.334,
                "target": 30,
                "text": "26.33/30",
                "proposedReplicas": 3,
            },
            {
                "name": "cpu",
                "type": "Resource",
                "targetType": "utilization",
                "value": None,
                "target": 70,
                "text": "<unknown>/70%",
                "proposedReplicas": None,
            },
        ],
        "lastSync": "2027-01-15T08:00:00Z",
    }
    assert EMPTY.detail in listing["message"]


@pytest.mark.parametrize(
    ("observed", "state", "replicas", "text"),
    [
        ({"scale": ReadFailure("gone")}, "failing", None, "<unknown>/30"),
        ({"controller": 'HorizontalPodAutoscaler "web"'}, "controlled", 3, "30/30"),
        ({"scale": Scale(0, 0, "app=web")}, "disabled", 0, "-/30"),
    ],
)
def test_unknown_values_are_null_and_a_disabled_target_queries_nothing(
    observed: dict[str, Any], state: str, replicas: int | None, text: str
) -> None:
    (target,) = listed(metrics_of(result_of(target_of(), **observed)))
    assert (target["state"], target["metrics"][0]["text"]) == (state, text)
    assert target["currentReplicas"] == target["desiredReplicas"] == replicas


def test_a_target_before_its_first_sync_is_unknown_in_its_place() -> None:
    metrics = Metrics(Health())
    metrics.states.set_targets([target_of(name) for name in "bac"])
    metrics.report(result_of(target_of("a")))
    shown = listed(metrics)
    assert [(target["name"], target["state"]) for target in shown] == [
        ("b", "unknown"),
        ("a", "ok"),
        ("c", "unknown"),
    ]
    assert shown[0]["message"].startswith("not synced")
    assert shown[0]["since"] is shown[0]["lastSync"] is shown[0]["currentReplicas"] is None
    assert (shown[0]["minReplicas"], shown[0]["maxReplicas"]) == (1, 20)
    assert [metric["text"] for metric in shown[0]["metrics"]] == ["<unknown>/30"]


TARGET = target_of()


@pytest.fixture
def metrics() -> Metrics:
    """Return the metrics of a daemon that has synced a target once."""
    return metrics_of(result_of(TARGET))


def since_after(
    metrics: Metrics, seconds: float, *readings: Reading, target: Target = TARGET
) -> str:
    """Report a sync this long after the first one; return the beginning of the state."""
    metrics.report(result_of(target, *readings, now=NOW + seconds))
    (listing,) = listed(metrics)
    return str(listing["since"])[-9:]


def test_a_state_is_dated_by_the_first_sync_of_it(metrics: Metrics) -> None:
    assert since_after(metrics, 15) == "08:00:00Z"
    assert since_after(metrics, 30, EMPTY) == "08:00:30Z"
    assert since_after(metrics, 45, EMPTY) == "08:00:30Z"
    metrics.states.set_targets([target_of("web", maximum=9)])
    metrics.report(result_of(TARGET, values(600), write=WriteFailure("refused"), now=NOW + 60))
    assert since_after(metrics, 75, EMPTY) == "08:00:30Z"
    assert since_after(metrics, 90) == "08:01:30Z"


def test_a_finding_follows_the_message_of_its_target() -> None:
    target = target_of()
    metrics = metrics_of(result_of(target, EMPTY))
    before = listed(metrics)[0]["message"]
    metrics.states.find(target.key, "queue: no redy")
    assert listed(metrics)[0]["message"] == f"{before}; queue: no redy"
    assert known(metrics.states.known_of(target.key)).message == listed(metrics)[0]["message"]
    metrics.states.find(target.key, "")
    assert listed(metrics)[0]["message"] == before
    metrics.states.find(target.key, "queue: no redy")
    metrics.states.set_targets([target])
    assert listed(metrics)[0]["message"] == before


def test_a_state_continues_over_a_restart(metrics: Metrics) -> None:
    early = NOW - 86_400
    metrics.states.resume({TARGET.key: LastState("ok", early)})
    assert since_after(metrics, 15) == "08:00:00Z"
    assert listed(metrics)[0]["since"].startswith("2027-01-14")
    assert since_after(metrics, 30, EMPTY) == "08:00:30Z"
    metrics.states.resume({TARGET.key: LastState("failing", early)})
    assert since_after(metrics, 45, EMPTY) == "08:00:30Z"
    restarted = metrics_of()
    restarted.states.set_targets([TARGET])
    restarted.states.resume({TARGET.key: LastState("failing", early)})
    assert since_after(restarted, 60) == "08:01:00Z"


def test_a_state_continues_when_the_metrics_change(metrics: Metrics) -> None:
    other = target_of("web", external(average("30"), "jobs"))
    metrics.states.set_targets([other])
    metrics.states.set_targets([TARGET])
    assert since_after(metrics, 15) == "08:00:00Z"
    metrics.states.set_targets([other])
    assert since_after(metrics, 30, EMPTY, target=other) == "08:00:30Z"
    metrics.states.set_targets([])
    metrics.states.set_targets([other])
    assert since_after(metrics, 45, EMPTY, target=other) == "08:00:45Z"


def test_setting_the_clock_leaves_the_length_of_a_state(metrics: Metrics) -> None:
    """An hour forward: it began an hour later by the new clock, and so ten seconds ago still."""
    metrics.clock_set(3600.0)
    assert since_after(metrics, 3610) == "09:00:00Z"
    assert since_after(metrics, 3620, EMPTY) == "09:00:20Z"


def test_messages_are_made_for_requests_and_not_for_syncs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[object] = []

    def verdict(result: object) -> str:
        made.append(result)
        return "so"

    monkeypatch.setattr("autoscaler.rendering.record.verdict", verdict)
    metrics = metrics_of(result_of(target_of("a")), result_of(target_of("b")))
    assert made == []
    assert [target["message"] for target in listed(metrics)] == ["so", "so"]


def test_a_removed_target_is_not_listed() -> None:
    kept, removed = result_of(target_of("kept")), result_of(target_of("removed"))
    metrics = metrics_of(kept, removed)
    metrics.states.set_targets([target_of("kept", external(average("30"), "jobs"))])
    metrics.report(removed)
    assert [(target["name"], target["state"]) for target in listed(metrics)] == [
        ("kept", "unknown")
    ]


def test_large_readings_are_not_kept_after_a_sync() -> None:
    read = PodSamples({f"p{number}": Sample(10_000, BASE, 60.0) for number in range(1000)})
    of_pods = result_of(
        target_of("web", per_pod("10"), maximum=2000),
        read,
        scale=Scale(1500, 1500, "app=web"),
        pods=pods(1500),
        now=BASE,
    )
    of_series = result_of(target_of("many"), Values((1000,) * 1000))
    metrics = metrics_of(of_pods, of_series, result_of(target_of("few"), values(90, 0)))
    kept = [facts.last.decision.metrics[0] for facts in metrics.states.known() if facts.last]
    assert [metric.reading for metric in kept] == [Values(()), Values(()), values(90, 0)]
    assert [
        metric.outcome.groups for metric in kept if isinstance(metric.outcome, Calculation)
    ] == [None] * 3
    texts = [metric["text"] for target in listed(metrics) for metric in target["metrics"]]
    assert texts == ["10/10", "333.3/30", "30/30"]


def test_a_list_is_made_in_parts_that_are_small() -> None:
    metrics = metrics_of(*many(1000))
    parts = list(target_list(metrics.states.known(), NOW))
    assert len(parts) > 8
    assert max(map(len, parts)) < 100_000
    assert len(json.loads(b"".join(parts))["targets"]) == 1000


def test_a_result_that_is_kept_costs_under_four_kilobytes() -> None:
    """The labels of the target, and all of the result that is not shared with others."""
    targets = [result.target for result in many(1000)]
    metrics = Metrics(Health())
    gc.collect()
    tracemalloc.start()
    try:
        metrics.states.set_targets(targets)
        for target in targets:
            metrics.report(result_of(target, values(90), values(30)))
        gc.collect()
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used / len(targets) < 4000
