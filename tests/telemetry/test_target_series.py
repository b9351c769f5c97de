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
DAY = Schedule("day", "0 8 * * *", "0 18 * * *", "UTC", 5, 8)
CONTESTED = History(contention=Contention(3, 0, (NOW - 30, NOW - 20, NOW - 10)))
_UNTIL = "_until_timestamp_seconds"


def shown(metrics: Metrics, name: str, accept: str = "") -> dict[str, float]:
    """Return a series of a target, by the values of its labels in the order of their names."""
    series = series_of(metrics, f"autoscaler_target_{name}", accept)
    return {", ".join(value for _, value in labels): text for labels, text in series.items()}


Shown = dict[str, dict[str, Any]]
TOLD: dict[str, tuple[SyncResult, Shown]] = {
    "proposals of 7 and 2: stabilized at 7, and 6 is what may be written now": (
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
    "nothing holds it back": (
        result_of(target_of()),
        {
            "outcome": {"ok, ": 1},
            "info": {"Deployment, web, shop": 1},
            **{name: {} for name in ("limited", "paused", "idle", "fallback_replicas")},
            **{f"{name}{_UNTIL}": {} for name in ("limited", "stabilized", "held")},
        },
    ),
    "a window holds it": (
        result_of(target_of(), values(30)),
        {f"stabilized{_UNTIL}": {"": pytest.approx(NOW + 300)}, f"limited{_UNTIL}": {}},
    ),
    "a policy holds it": (
        rate_limited(),
        {f"limited{_UNTIL}": {"": NOW + 15}, f"stabilized{_UNTIL}": {}},
    ),
    "others undo our writes": (
        result_of(target_of(), values(600), history=CONTESTED),
        {f"held{_UNTIL}": {"": NOW - 10 + 600}, "outcome": {"blocked, ReplicasContested": 1}},
    ),
    "the conditions are the HPA's": (
        result_of(target_of(), EMPTY),
        {
            "condition": {"AbleToScale": 1, "ScalingActive": 0},
            "outcome": {"blocked, FailedGetExternalMetric": 1},
            "last_success_timestamp_seconds": {},
        },
    ),
    "one metric of two failed": (
        result_of(target_of("web", QUEUE, JOBS), EMPTY, values(180)),
        {
            "proposed_replicas": {"jobs, External": 4},
            "spec_target_metric": {"queue, average, External": 30, "jobs, average, External": 45},
            "status_target_metric": {"jobs, average, External": 60},
            "outcome": {"partial, FailedGetExternalMetric": 1},
        },
    ),
    "the scale cannot be read": (
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
    "another autoscaler controls it": (
        result_of(target_of(), controller='HorizontalPodAutoscaler "web"'),
        {"outcome": {"ok, ": 1}, "shadow": {"controlled": 1}},
    ),
    "it is in shadow by its mode, beside another autoscaler": (
        result_of(target_of(extensions=Extensions(mode=Mode.SHADOW)), controller="an HPA"),
        {"shadow": {"mode": 1}},
    ),
    "metrics that are named alike are told apart, an Object's by its object": (
        result_of(
            target_of("web", QUEUE, external(average("60")), of_object(value("10"))),
            *(values(90), values(90), values(10)),
        ),
        {
            "proposed_replicas": {
                "queue, External": 3,
                "queue #2, External": 2,
                "hits of Ingress front, Object": 3,
            }
        },
    ),
    "one that failed, or takes no part in idle, is neither active nor not": (
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
    "the bounds of an open schedule": (
        result_of(
            target_of("web", extensions=Extensions(schedules=(DAY,))),
            windows=(OpenWindow(DAY, NOW + 60, "18:00 UTC"),),
        ),
        {"min_replicas": {"": 5}, "max_replicas": {"": 8}},
    ),
    "the bounds of the target once it is closed": (
        result_of(target_of("web", extensions=Extensions(schedules=(DAY,)))),
        {"min_replicas": {"": 1}, "max_replicas": {"": 20}},
    ),
    "a pause": (extended()[0], {"paused": {"scaleDown": 1}}),
    "it is idle": (extended()[1], {"idle": {"": 1}, "metric_active": {"queue, External": 0}}),
    "a fallback": (
        extended()[3],
        {"fallback_replicas": {"queue, External": 6}, "proposed_replicas": {}},
    ),
    "large readings are not kept, what was made of them is": (
        result_of(
            target_of(
                "web", QUEUE, JOBS, extensions=Extensions(Idle(0, 60.0), fallback=Fallback(6, 1))
            ),
            *(Values((1000,) * 50), EMPTY),
        ),
        {"fallback_replicas": {"jobs, External": 6}, "metric_active": {"queue, External": 1}},
    ),
    "a query holds it": (extended()[4], {"scale_down_held": {"series": 1}}),
}


@pytest.mark.parametrize("accept", FORMATS)
@pytest.mark.parametrize("case", TOLD)
def test_a_decision_has_the_series_of_what_is_so_of_it(case: str, accept: str) -> None:
    """What is not known, or is not so, has no sample; no zero stands for it."""
    result, expected = TOLD[case]
    metrics = metrics_of(result)
    assert {name: shown(metrics, name, accept) for name in expected} == expected


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
def test_what_a_metric_measures_stands_beside_what_it_is_held_to(
    metric: MetricSpec, reading: Reading, kind: str, held_to: float, measured: float
) -> None:
    """The values that the decision compared, in base units, the utilization in percent."""
    metrics = metrics_of(result_of(target_of("web", metric), reading, pods=pods(3), now=BASE))
    labels = {"metric_name": metric_name(metric), "type": metric.type, "metric_target_type": kind}
    for accept in FORMATS:
        shown = {
            which: series_of(metrics, f"autoscaler_target_{which}_target_metric", accept)
            for which in ("spec", "status")
        }
        key = tuple(sorted(labels.items()))
        assert shown == {"spec": {key: held_to}, "status": {key: pytest.approx(measured)}}


def test_a_target_value_that_is_edited_shows_at_once() -> None:
    """What was measured stays beside it; of another kind of target it would be another unit."""
    metrics = metrics_of(result_of(target_of("web", external(average("30")))))
    spec, status = (f"autoscaler_target_{item}_target_metric" for item in ("spec", "status"))
    metrics.states.set_targets([target_of("web", external(average("60")))])
    assert list(series_of(metrics, spec).values()) == [60]
    assert list(series_of(metrics, status).values()) == [30]
    metrics.states.set_targets([target_of("web", external(value("60")))])
    assert series_of(metrics, status) == {}


def test_success_is_dated_and_survives_a_failure() -> None:
    """A blocked sync and a write that failed leave the time of the last success as it was."""
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
    """The counter is there before the first one, so that the first is an increase."""
    target = target_of()
    metrics = metrics_of(result_of(target))
    assert series_of(metrics, "autoscaler_target_foreign_changes_total") == {(): 0}
    history = History(contention=Contention(5))
    metrics.report(result_of(target, history=history))
    metrics.report(result_of(target, history=history))
    assert series_of(metrics, "autoscaler_target_foreign_changes_total") == {(): 2}


def test_writes_are_counted_by_what_became_of_them() -> None:
    """Each outcome and direction is there from the start, at zero."""
    up, down = values(600), values(30)
    scale = Scale(9, 9, "app=web")
    metrics = metrics_of(
        result_of(target_of("a"), up, write=AcceptedWrite(scale)),
        result_of(target_of("b", maximum=2), down, write=AcceptedWrite(scale)),
        result_of(target_of("c"), up, write=WriteConflict(scale)),
        result_of(target_of("d"), up, write=WriteFailure("refused")),
        result_of(target_of("e"), up, write=SkippedWrite(SkippedWriteReason.NOT_LEADING)),
    )
    assert series_of(metrics, "autoscaler_writes_total") == {
        (("direction", "up"), ("outcome", "written")): 1,
        (("direction", "down"), ("outcome", "written")): 1,
        (("direction", "up"), ("outcome", "superseded")): 1,
        (("direction", "down"), ("outcome", "superseded")): 0,
        (("direction", "up"), ("outcome", "failed")): 1,
        (("direction", "down"), ("outcome", "failed")): 0,
        (("direction", "up"), ("outcome", "left_out")): 1,
        (("direction", "down"), ("outcome", "left_out")): 0,
    }


def test_targets_are_counted_by_outcome_and_those_not_synced_yet_are_among_them() -> None:
    """The sum is always the number of targets of the configuration."""
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


def test_a_removed_targets_series_disappear_all_of_them() -> None:
    """No line names it any more, not even after a report that comes late."""
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


def test_an_edited_target_keeps_its_series_unless_its_metrics_are_others() -> None:
    """Old proposals are never shown under the name of a new metric."""
    before = result_of(target_of("web"))
    metrics = metrics_of(before)
    metrics.states.set_targets([target_of("web", maximum=5)])
    assert series_of(metrics, "autoscaler_target_current_replicas") == {(): 3}
    metrics.states.set_targets([target_of("web", external(average("30"), "jobs"))])
    assert series_of(metrics, "autoscaler_target_proposed_replicas") == {}
    assert series_of(metrics, "autoscaler_target_current_replicas") == {}


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


def test_without_per_target_metrics_only_the_counts_are_left() -> None:
    """No series has a target; how many are blocked is still there."""
    metrics = metrics_of(result_of(target_of(), EMPTY))
    metrics.per_target = False
    for accept in FORMATS:
        assert not [name for name in families_of(metrics, accept) if "autoscaler_target_" in name]
        assert series_of(metrics, "autoscaler_targets", accept)[(("outcome", "blocked"),)] == 1


def test_a_target_in_shadow_is_not_saturated() -> None:
    """Another autoscaler sets its count, so no alert fires for what a bound of ours would do."""
    result = saturated("web")
    assert shown(metrics_of(result), "saturated_replicas_missing")
    shadowed = replace(result, decision=replace(result.decision, shadow=True))
    assert not shown(metrics_of(shadowed), "saturated_replicas_missing")
