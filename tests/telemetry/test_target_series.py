"""What the page says of each target."""

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.extensions import Extensions, Fallback, Idle, Mode, Schedule
from autoscaler.core.history import Contention, History
from autoscaler.core.observation import (
    OpenWindow,
    PodSamples,
    ReadFailure,
    Reading,
    Scale,
    Values,
)
from autoscaler.core.spec import MetricSpec, ResourceMetric
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import Target
from autoscaler.core.writes import (
    AcceptedWrite,
    SkippedWrite,
    SkippedWriteReason,
    WriteConflict,
    WriteFailure,
)
from autoscaler.rendering.wording import metric_name
from autoscaler.telemetry.health import Health
from autoscaler.telemetry.metrics import Metrics
from tests.core.builders import (
    BASE,
    average,
    cpu,
    external,
    of_object,
    per_pod,
    pods,
    samples,
    utilization,
    value,
    values,
)
from tests.telemetry.results import (
    ASLEEP,
    EMPTY,
    FORMATS,
    NOW,
    extended,
    families_of,
    metrics_of,
    rate_limited,
    result_of,
    saturated,
    series_of,
    target_of,
)

QUEUE, JOBS = external(average("30")), external(average("45"), "jobs")
HITS = of_object(value("10"))
DAY = Schedule("day", "0 8 * * *", "0 18 * * *", "UTC", 5, 8)
CONTESTED = History(contention=Contention(3, 0, (NOW - 30, NOW - 20, NOW - 10)))
_UNTIL = "_until_timestamp_seconds"


def series_by_labels(metrics: Metrics, name: str, accept: str = "") -> dict[str, float]:
    """Return a series of a target, by the values of its labels in the order of their names."""
    series = series_of(metrics, f"autoscaler_target_{name}", accept)
    return {", ".join(value for _, value in labels): text for labels, text in series.items()}


Series = dict[str, dict[str, Any]]
SATURATED_IN_SHADOW = replace(saturated(), decision=replace(saturated().decision, shadow=True))
"""Another autoscaler sets its count, so no alert fires for what a bound of ours would do."""

CASES: dict[str, tuple[SyncResult, Series]] = {
    "stabilized-at-7-and-limited-to-6": (
        result_of(target_of("web", QUEUE, JOBS), values(210), values(90)),
        {
            "current_replicas": {"": 3},
            "proposed_replicas": {"queue, External": 7, "jobs, External": 2},
            "stabilized_replicas": {"": 7},
            "desired_replicas": {"": 6},
            "min_replicas": {"": 1},
            "max_replicas": {"": 20},
            "limited": {"ScaleUpLimit": 1},
        },
    ),
    "ok": (
        result_of(target_of()),
        {
            "outcome": {"ok, ": 1},
            "info": {"Deployment, web, shop": 1},
            **{name: {} for name in ("limited", "paused", "idle", "fallback_replicas")},
            **{
                f"{name}{_UNTIL}": {} for name in ("limited", "stabilized", "held", "no_scale_down")
            },
        },
    ),
    "stabilizing": (
        result_of(target_of(), values(30)),
        {f"stabilized{_UNTIL}": {"": pytest.approx(NOW + 300)}, f"limited{_UNTIL}": {}},
    ),
    "limited": (
        rate_limited(),
        {f"limited{_UNTIL}": {"": NOW + 15}, f"stabilized{_UNTIL}": {}},
    ),
    "contested": (
        result_of(target_of(), values(600), history=CONTESTED),
        {f"held{_UNTIL}": {"": NOW - 10 + 600}, "outcome": {"blocked, ReplicasContested": 1}},
    ),
    "range-incomplete": (
        result_of(target_of(), ranges=(120.0,)),
        {f"no_scale_down{_UNTIL}": {"": pytest.approx(NOW + 155, abs=1)}},
    ),
    "blocked": (
        result_of(target_of(), EMPTY),
        {
            "condition": {"AbleToScale": 1, "ScalingActive": 0},
            "outcome": {"blocked, FailedGetExternalMetric": 1},
            "last_success_timestamp_seconds": {},
        },
    ),
    "partial": (
        result_of(target_of("web", QUEUE, JOBS), EMPTY, values(180)),
        {
            "proposed_replicas": {"jobs, External": 4},
            "spec_target_metric": {"queue, average, External": 30, "jobs, average, External": 45},
            "status_target_metric": {"jobs, average, External": 60},
            "outcome": {"partial, FailedGetExternalMetric": 1},
        },
    ),
    "scale-unreadable": (
        result_of(target_of("web", QUEUE, JOBS), scale=ReadFailure("gone")),
        {
            **{f"{name}_replicas": {} for name in ("current", "desired", "stabilized", "proposed")},
            "max_replicas": {"": 20},
            "spec_target_metric": {"queue, average, External": 30, "jobs, average, External": 45},
            "status_target_metric": {},
            "outcome": {"blocked, FailedGetScale": 1},
            "last_success_timestamp_seconds": {},
        },
    ),
    "controlled": (
        result_of(target_of(), controller='HorizontalPodAutoscaler "web"'),
        {"outcome": {"ok, ": 1}, "shadow": {"controlled": 1}},
    ),
    "shadow-and-controlled": (
        result_of(target_of(extensions=Extensions(mode=Mode.SHADOW)), controller="an HPA"),
        {"shadow": {"mode": 1}},
    ),
    "metrics-of-one-name": (
        result_of(
            target_of("web", QUEUE, external(average("60")), HITS),
            *(values(90), values(90), values(10)),
        ),
        {
            "proposed_replicas": {
                "queue, External": 3,
                "queue #2, External": 2,
                f"{metric_name(HITS)}, Object": 3,
            }
        },
    ),
    "activity-unknown": (
        result_of(
            target_of(
                *("web", QUEUE, JOBS, external(average("30"), "c"), cpu(utilization(50))),
                extensions=ASLEEP,
            ),
            *(values(1), values(0), EMPTY, EMPTY),
            pods=pods(3),
        ),
        {"metric_active": {"queue, External": 1, "jobs, External": 0}},
    ),
    "schedule-open": (
        result_of(
            target_of("web", extensions=Extensions(schedules=(DAY,))),
            windows=(OpenWindow(DAY, NOW + 60, "18:00 UTC"),),
        ),
        {"min_replicas": {"": 5}, "max_replicas": {"": 8}},
    ),
    "schedule-closed": (
        result_of(target_of("web", extensions=Extensions(schedules=(DAY,)))),
        {"min_replicas": {"": 1}, "max_replicas": {"": 20}},
    ),
    "paused": (extended()[0], {"paused": {"scaleDown": 1}}),
    "idle": (extended()[1], {"idle": {"": 1}, "metric_active": {"queue, External": 0}}),
    "fallback": (
        extended()[3],
        {"fallback_replicas": {"queue, External": 6}, "proposed_replicas": {}},
    ),
    "large-readings-with-a-fallback": (
        result_of(
            target_of(
                "web", QUEUE, JOBS, extensions=Extensions(Idle(0, 60.0), fallback=Fallback(6, 1))
            ),
            *(Values((1000,) * 50), EMPTY),
        ),
        {"fallback_replicas": {"jobs, External": 6}, "metric_active": {"queue, External": 1}},
    ),
    "held": (extended()[4], {"scale_down_held": {"series": 1}}),
    "saturated": (saturated(), {"saturated_replicas_missing": {"TooManyReplicas": 3}}),
    "saturated-in-shadow": (SATURATED_IN_SHADOW, {"saturated_replicas_missing": {}}),
}


@pytest.mark.parametrize("accept", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_a_decision_has_series_of_known_values_only(case: str, accept: str) -> None:
    result, expected = CASES[case]
    metrics = metrics_of(result)
    assert {name: series_by_labels(metrics, name, accept) for name in expected} == expected


@pytest.mark.parametrize(
    ("metric", "reading", "kind", "held_to", "measured"),
    [
        (external(average("30")), values(79), "average", 30, 26.334),
        (external(value("1500m")), values(0.25), "value", 1.5, 0.25),
        (of_object(value("10")), values(7), "value", 10, 7),
        (per_pod("100"), PodSamples(samples(90_000, 45_000, 60_000)), "average", 100, 65),
        (cpu(utilization(70)), PodSamples(samples(250, 250, 400)), "utilization", 70, 30),
        (cpu(average("500m")), PodSamples(samples(250, 250, 400)), "average", 0.5, 0.3),
        (
            ResourceMetric("memory", average("1Gi")),
            PodSamples(samples(*(512 * 2**20 * 1000,) * 3)),
            "average",
            2**30,
            2**29,
        ),
    ],
)
def test_a_metric_has_its_measured_value_and_its_target(
    metric: MetricSpec, reading: Reading, kind: str, held_to: float, measured: float
) -> None:
    metrics = metrics_of(result_of(target_of("web", metric), reading, pods=pods(3), now=BASE))
    labels = {"metric_name": metric_name(metric), "type": metric.type, "metric_target_type": kind}
    for accept in FORMATS:
        shown = {
            which: series_of(metrics, f"autoscaler_target_{which}_target_metric", accept)
            for which in ("spec", "status")
        }
        key = tuple(sorted(labels.items()))
        assert shown == {"spec": {key: held_to}, "status": {key: pytest.approx(measured)}}


def test_a_failure_keeps_the_time_of_the_last_success() -> None:
    target = target_of()
    metrics = metrics_of(result_of(target))
    name = "autoscaler_target_last_success_timestamp_seconds"
    assert series_of(metrics, name) == {(): NOW}
    metrics.report(result_of(target, EMPTY, now=NOW + 15))
    metrics.report(result_of(target, values(600), write=WriteFailure("refused"), now=NOW + 30))
    assert series_of(metrics, name) == {(): NOW}
    metrics.report(result_of(target, now=NOW + 45))
    assert series_of(metrics, name) == {(): NOW + 45}


def test_changes_by_others_are_counted_from_zero() -> None:
    metrics, name = metrics_of(result_of(target_of())), "foreign_changes_total"
    assert series_by_labels(metrics, name) == {"": 0}
    for _ in range(2):
        metrics.report(result_of(target_of(), history=History(contention=Contention(5))))
    assert series_by_labels(metrics, name) == {"": 2}


def test_writes_are_counted_by_direction_and_outcome() -> None:
    up, down = values(600), values(30)
    scale = Scale(9, 9, "app=web")
    metrics = metrics_of(
        result_of(target_of("a"), up, write=AcceptedWrite(scale)),
        result_of(target_of("b", maximum=2), down, write=AcceptedWrite(scale)),
        result_of(target_of("c"), up, write=WriteConflict(scale)),
        result_of(target_of("d"), up, write=WriteFailure("refused")),
        result_of(target_of("e"), up, write=SkippedWrite(SkippedWriteReason.NOT_LEADING)),
    )
    counts = {"written": (1, 1), "superseded": (1, 0), "failed": (1, 0), "left_out": (1, 0)}
    assert series_of(metrics, "autoscaler_writes_total") == {
        (("direction", direction), ("outcome", outcome)): number
        for outcome, numbers in counts.items()
        for direction, number in zip(("up", "down"), numbers, strict=True)
    }


def test_targets_are_counted_by_outcome_before_their_first_sync_too() -> None:
    metrics = Metrics(Health())
    targets = [target_of(name) for name in "abcd"]
    metrics.states.set_targets(targets)
    metrics.report(result_of(targets[0]))
    metrics.report(result_of(targets[1], EMPTY))
    assert series_of(metrics, "autoscaler_targets") == {
        (("outcome", "ok"),): 1,
        (("outcome", "partial"),): 0,
        (("outcome", "blocked"),): 1,
        (("outcome", "none"),): 2,
    }


def test_a_removed_target_loses_all_of_its_series() -> None:
    kept, removed = result_of(target_of("kept")), result_of(target_of("removed"))
    metrics = metrics_of(kept, removed)
    metrics.states.set_targets([kept.target])
    metrics.report(removed)
    text = b"".join(metrics.page()[1])
    assert b"removed" not in text
    assert b'target="shop/Deployment/kept"' in text
    assert sum(series_of(metrics, "autoscaler_targets").values()) == 1
    metrics.states.set_targets([kept.target, removed.target])
    assert b"removed" not in b"".join(metrics.page()[1])


@pytest.mark.parametrize(
    ("edited", "expected"),
    [
        (target_of(maximum=5), {"current_replicas": [3], "spec_target_metric": [30]}),
        (
            target_of("web", external(average("60"))),
            {"spec_target_metric": [60], "status_target_metric": [30]},
        ),
        (target_of("web", external(value("60"))), {"status_target_metric": []}),
        (target_of("web", JOBS), {"proposed_replicas": [], "current_replicas": []}),
    ],
    ids=["maximum", "target-value", "kind-of-target-value", "another-metric"],
)
def test_an_edited_target_keeps_the_series_that_are_still_true(
    edited: Target, expected: dict[str, list[float]]
) -> None:
    metrics = metrics_of(result_of(target_of()))
    metrics.states.set_targets([edited])
    shown = {name: list(series_by_labels(metrics, name).values()) for name in expected}
    assert shown == expected


@pytest.mark.parametrize("accept", FORMATS)
def test_names_of_odd_characters_leave_the_page_whole(accept: str) -> None:
    """A YAML file can hold any of them, which a page may not; what is shown is printable."""
    target = target_of("a\x1b\r\n\ud800", external(average("30"), name="m\u202e\ud800" * 500))
    metrics = metrics_of(result_of(target))
    families = families_of(metrics, accept)
    shown = [
        value
        for family in families.values()
        for sample in family.samples
        for value in sample.labels.values()
    ]
    assert r"a\x1b \ud800" in shown
    assert all(value.isprintable() and len(value) <= 1000 for value in shown)


def test_without_per_target_metrics_only_counts_remain() -> None:
    metrics = metrics_of(result_of(target_of(), EMPTY))
    metrics.per_target = False
    for accept in FORMATS:
        assert not [name for name in families_of(metrics, accept) if "autoscaler_target_" in name]
        assert series_of(metrics, "autoscaler_targets", accept)[(("outcome", "blocked"),)] == 1
