"""What the page says of each target."""

import gc

import pytest

from autoscaler.core.extensions import Extensions, Fallback, Idle, Schedule
from autoscaler.core.history import Contention, History
from autoscaler.core.observation import (
    Gap,
    GapKind,
    OpenWindow,
    PodSamples,
    Reading,
    Sample,
    Scale,
    Unavailable,
    Values,
)
from autoscaler.core.spec import MetricSpec, ResourceMetric
from autoscaler.core.writes import NotWritten, NotWrittenReason, Superseded, WriteFailed, Written
from autoscaler.daemon.exposition import Metrics
from autoscaler.daemon.health import Health
from autoscaler.rendering.wording import metric_name
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
from tests.daemon.exposition.results import (
    ASLEEP,
    FORMATS,
    NOW,
    extended,
    families_of,
    metrics_of,
    rate_limited,
    result_of,
    series_of,
    target_of,
)

EMPTY = Gap(GapKind.EMPTY, "the query returned no series")


def test_the_stages_of_a_decision_are_a_series_each() -> None:
    """From 3, with proposals of 7 and 2: stabilized at 7, and 6 is what may be written now."""
    target = target_of("web", external(average("30")), external(average("45"), "jobs"))
    metrics = metrics_of(result_of(target, values(210), values(90)))
    shown = {
        name: series_of(metrics, f"autoscaler_target_{name}_replicas")
        for name in ("current", "stabilized", "desired", "min", "max", "proposed")
    }
    proposed = shown.pop("proposed")
    assert proposed == {
        (("metric_name", "queue"), ("type", "External")): 7,
        (("metric_name", "jobs"), ("type", "External")): 2,
    }
    assert {name: series[()] for name, series in shown.items()} == {
        "current": 3,
        "stabilized": 7,
        "desired": 6,
        "min": 1,
        "max": 20,
    }
    assert series_of(metrics, "autoscaler_target_limited") == {(("reason", "ScaleUpLimit"),): 1}


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
    labels = {
        "metric_name": metric_name(metric),
        "type": metric.type,
        "metric_target_type": kind,
    }
    for accept in FORMATS:
        shown = {
            which: series_of(metrics, f"autoscaler_target_{which}_target_metric", accept)
            for which in ("spec", "status")
        }
        key = tuple(sorted(labels.items()))
        assert shown == {"spec": {key: held_to}, "status": {key: pytest.approx(measured)}}


def test_a_metric_that_is_missing_has_a_target_and_no_value() -> None:
    """No zero is shown; neither where nothing could be read at all."""
    target = target_of("web", external(average("30")), external(average("45"), "jobs"))
    for result, measured in (
        (result_of(target, EMPTY, values(90)), {"jobs"}),
        (result_of(target, scale=Unavailable("gone")), set()),
    ):
        metrics = metrics_of(result)
        shown = {
            which: {
                dict(labels)["metric_name"]
                for labels in series_of(metrics, f"autoscaler_target_{which}_target_metric")
            }
            for which in ("spec", "status")
        }
        assert shown == {"spec": {"queue", "jobs"}, "status": measured}


def test_a_target_value_that_is_edited_shows_at_once() -> None:
    """What was measured stays beside it; of another kind of target it would be another unit."""
    metrics = metrics_of(result_of(target_of("web", external(average("30")))))
    spec, status = (f"autoscaler_target_{one}_target_metric" for one in ("spec", "status"))
    metrics.set_targets([target_of("web", external(average("60")))])
    assert list(series_of(metrics, spec).values()) == [60]
    assert list(series_of(metrics, status).values()) == [30]
    metrics.set_targets([target_of("web", external(value("60")))])
    assert series_of(metrics, status) == {}


def test_what_holds_the_count_says_until_when() -> None:
    """The window of the recommendation that holds, and the policy's period; else no sample."""
    stabilized, limited = (
        f"autoscaler_target_{one}_until_timestamp_seconds" for one in ("stabilized", "limited")
    )
    free = metrics_of(result_of(target_of()))
    assert series_of(free, stabilized) == series_of(free, limited) == {}
    held = metrics_of(result_of(target_of(), values(30)))
    assert series_of(held, stabilized) == {(): pytest.approx(NOW + 300)}
    assert series_of(held, limited) == {}
    rated = metrics_of(rate_limited())
    assert series_of(rated, limited) == {(): NOW + 15}
    assert series_of(rated, stabilized) == {}


def test_a_target_that_nothing_holds_back_is_not_limited() -> None:
    """The series is there only while a limit binds."""
    metrics = metrics_of(result_of(target_of()))
    assert series_of(metrics, "autoscaler_target_limited") == {}
    assert series_of(metrics, "autoscaler_target_outcome") == {
        (("outcome", "ok"), ("reason", "")): 1
    }


@pytest.mark.parametrize("accept", FORMATS)
def test_the_conditions_are_the_hpas(accept: str) -> None:
    """True is 1 and False is 0, in either format."""
    metrics = metrics_of(result_of(target_of(), EMPTY))
    assert series_of(metrics, "autoscaler_target_condition", accept) == {
        (("condition", "AbleToScale"),): 1,
        (("condition", "ScalingActive"),): 0,
    }


def test_a_failed_metric_leaves_a_hole_and_the_target_is_partial() -> None:
    """The metric that is there still proposes; the outcome says why not all is well."""
    target = target_of("web", external(average("30")), external(average("30"), "jobs"))
    metrics = metrics_of(result_of(target, EMPTY, values(120)))
    assert series_of(metrics, "autoscaler_target_proposed_replicas") == {
        (("metric_name", "jobs"), ("type", "External")): 4
    }
    assert series_of(metrics, "autoscaler_target_outcome") == {
        (("outcome", "partial"), ("reason", "FailedGetExternalMetric")): 1
    }


@pytest.mark.parametrize(
    ("scale", "reading", "controller", "reason"),
    [
        (Unavailable("gone"), EMPTY, None, "FailedGetScale"),
        (None, EMPTY, None, "FailedGetExternalMetric"),
        (None, values(90), 'HorizontalPodAutoscaler "web"', "ControlledByOther"),
    ],
)
def test_a_blocked_target_says_why(
    scale: Scale | None, reading: Reading, controller: str | None, reason: str
) -> None:
    """The outcome has the HPA's reason, and there is no success to date."""
    metrics = metrics_of(result_of(target_of(), reading, scale=scale, controller=controller))
    assert series_of(metrics, "autoscaler_target_outcome") == {
        (("outcome", "blocked"), ("reason", reason)): 1
    }
    assert series_of(metrics, "autoscaler_target_last_success_timestamp_seconds") == {}


def test_a_scale_that_cannot_be_read_has_no_counts() -> None:
    """Nothing is shown as zero that is not known; the bounds are known."""
    families = families_of(metrics_of(result_of(target_of(), scale=Unavailable("gone"))))
    for name in ("current", "desired", "stabilized", "proposed"):
        assert families[f"autoscaler_target_{name}_replicas"].samples == []
    assert families["autoscaler_target_max_replicas"].samples[0].value == 20


def test_a_target_that_holds_says_until_when() -> None:
    """After three reversals of our writes the end of the hold is shown, and why."""
    history = History(contention=Contention(3, 0, (NOW - 30, NOW - 20, NOW - 10)))
    metrics = metrics_of(result_of(target_of(), values(600), history=history))
    assert series_of(metrics, "autoscaler_target_held_until_timestamp_seconds") == {
        (): NOW - 10 + 600
    }
    assert series_of(metrics, "autoscaler_target_outcome") == {
        (("outcome", "blocked"), ("reason", "ReplicasContested")): 1
    }
    assert (
        series_of(
            metrics_of(result_of(target_of())), "autoscaler_target_held_until_timestamp_seconds"
        )
        == {}
    )


def test_success_is_dated_and_survives_a_failure() -> None:
    """A blocked sync and a write that failed leave the time of the last success as it was."""
    target = target_of()
    metrics = metrics_of(result_of(target))
    name = "autoscaler_target_last_success_timestamp_seconds"
    assert series_of(metrics, name) == {(): NOW}
    metrics.reporter.report(result_of(target, EMPTY, now=NOW + 15))
    metrics.reporter.report(
        result_of(target, values(600), write=WriteFailed("refused"), now=NOW + 30)
    )
    assert series_of(metrics, name) == {(): NOW}
    metrics.reporter.report(result_of(target, now=NOW + 45))
    assert series_of(metrics, name) == {(): NOW + 45}


def test_changes_by_others_are_counted_from_zero() -> None:
    """The counter is there before the first one, so that the first is an increase."""
    target = target_of()
    metrics = metrics_of(result_of(target))
    assert series_of(metrics, "autoscaler_target_foreign_changes_total") == {(): 0}
    history = History(contention=Contention(5))
    metrics.reporter.report(result_of(target, history=history))
    metrics.reporter.report(result_of(target, history=history))
    assert series_of(metrics, "autoscaler_target_foreign_changes_total") == {(): 2}


def test_writes_are_counted_by_what_became_of_them() -> None:
    """Each outcome and direction is there from the start, at zero."""
    up, down = values(600), values(30)
    scale = Scale(9, 9, "app=web")
    metrics = metrics_of(
        result_of(target_of("a"), up, write=Written(scale)),
        result_of(target_of("b", maximum=2), down, write=Written(scale)),
        result_of(target_of("c"), up, write=Superseded(scale)),
        result_of(target_of("d"), up, write=WriteFailed("refused")),
        result_of(target_of("e"), up, write=NotWritten(NotWrittenReason.NOT_LEADING)),
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
    metrics.set_targets(targets)
    metrics.reporter.report(result_of(targets[0]))
    metrics.reporter.report(result_of(targets[1], EMPTY))
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
    metrics.set_targets([kept.target])
    metrics.reporter.report(removed)
    text = b"".join(metrics.page()[1])
    assert b"removed" not in text
    assert b'target="shop/Deployment/kept"' in text
    assert sum(series_of(metrics, "autoscaler_targets").values()) == 1
    metrics.set_targets([kept.target, removed.target])
    assert b"removed" not in b"".join(metrics.page()[1])


def test_an_edited_target_keeps_its_series_unless_its_metrics_are_others() -> None:
    """Old proposals are never shown under the name of a new metric."""
    before = result_of(target_of("web"))
    metrics = metrics_of(before)
    metrics.set_targets([target_of("web", maximum=5)])
    assert series_of(metrics, "autoscaler_target_current_replicas") == {(): 3}
    metrics.set_targets([target_of("web", external(average("30"), "jobs"))])
    assert series_of(metrics, "autoscaler_target_proposed_replicas") == {}
    assert series_of(metrics, "autoscaler_target_current_replicas") == {}


def test_two_metrics_that_are_named_alike_are_told_apart() -> None:
    """The same metric held to two targets gives two series, and an Object's its object's name."""
    target = target_of(
        "web", external(average("30")), external(average("60")), of_object(value("10"))
    )
    proposals = series_of(
        metrics_of(result_of(target, values(90), values(90), values(10))),
        "autoscaler_target_proposed_replicas",
    )
    assert {dict(labels)["metric_name"] for labels in proposals} == {
        "queue",
        "queue #2",
        "hits of Ingress front",
    }


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


def test_the_name_of_a_target_is_also_there_in_parts() -> None:
    """One series joins a target to its namespace, kind and name."""
    metrics = metrics_of(result_of(target_of("web")))
    (labels,) = series_of(metrics, "autoscaler_target_info", without=())
    assert dict(labels) == {
        "target": "shop/Deployment/web",
        "target_namespace": "shop",
        "target_kind": "Deployment",
        "target_name": "web",
    }


def test_without_per_target_metrics_only_the_counts_are_left() -> None:
    """No series has a target; how many are blocked is still there."""
    metrics = metrics_of(result_of(target_of(), EMPTY))
    metrics.per_target = False
    for accept in FORMATS:
        assert not [name for name in families_of(metrics, accept) if "autoscaler_target_" in name]
        assert series_of(metrics, "autoscaler_targets", accept)[(("outcome", "blocked"),)] == 1


def test_no_reading_is_held_after_its_sync() -> None:
    """The samples of a thousand pods are gone with the sync's result, and the numbers stay."""

    class Samples(PodSamples):
        """A reading whose end can be seen."""

    many = {f"p{number}": Sample(10_000, NOW, 60.0) for number in range(1000)}
    metrics = metrics_of(result_of(target_of("web", per_pod("10")), Samples(many)))
    gc.collect()
    assert not [one for one in gc.get_objects() if isinstance(one, Samples)]
    assert series_of(metrics, "autoscaler_target_current_replicas") == {(): 3}


def test_pauses_idling_and_fallbacks_are_series_of_their_targets() -> None:
    """A target without them has none of these series."""
    metrics = metrics_of(*extended(), result_of(target_of("plain")))

    def shown(name: str) -> dict[str, float]:
        found = series_of(metrics, f"autoscaler_target_{name}", without=("metric_name", "type"))
        return {", ".join(value for _, value in labels): one for labels, one in found.items()}

    assert shown("paused") == {"scaleDown, shop/Deployment/paused": 1}
    assert shown("idle") == {"shop/Deployment/idle": 1}
    assert shown("metric_active") == {"shop/Deployment/idle": 0}
    assert shown("fallback_replicas") == {"shop/Deployment/fallback": 6}
    assert "shop/Deployment/fallback" not in shown("proposed_replicas")


def test_a_metric_is_active_or_not_or_has_no_sample() -> None:
    """One that failed is neither; one that takes no part in idle has none."""
    many = (external(average("30")), external(average("30"), "jobs"), external(average("30"), "c"))
    target = target_of("web", *many, cpu(utilization(50)), extensions=ASLEEP)
    readings = (values(1), values(0), EMPTY, EMPTY)
    metrics = metrics_of(result_of(target, *readings, pods=pods(3)))
    active = series_of(metrics, "autoscaler_target_metric_active", without=("target", "type"))
    assert active == {(("metric_name", "queue"),): 1, (("metric_name", "jobs"),): 0}


def test_the_bounds_are_those_in_force() -> None:
    """While a schedule is open, its own."""
    schedule = Schedule("day", "0 8 * * *", "0 18 * * *", "UTC", 5, 8)
    target = target_of("web", extensions=Extensions(schedules=(schedule,)))
    window = OpenWindow(schedule, NOW + 60, "18:00 UTC")
    for windows, bounds in (((window,), [5, 8]), ((), [1, 20])):
        metrics = metrics_of(result_of(target, windows=windows))
        series = [series_of(metrics, f"autoscaler_target_{one}_replicas") for one in ("min", "max")]
        assert [one[()] for one in series] == bounds


def test_what_is_kept_without_readings_keeps_activity_and_fallback() -> None:
    """Large readings are dropped, and these are not readings."""
    both = (external(average("30")), external(average("30"), "jobs"))
    extensions = Extensions(idle=Idle(0, 60.0), fallback=Fallback(6, 1))
    target = target_of("web", *both, extensions=extensions)
    many = Values((1000,) * 50)
    metrics = metrics_of(result_of(target, many, EMPTY))
    assert series_of(metrics, "autoscaler_target_fallback_replicas") != {}
    assert series_of(metrics, "autoscaler_target_metric_active") != {}
