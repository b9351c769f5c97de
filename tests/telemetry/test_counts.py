"""What is counted of the daemon as a whole."""

from autoscaler.sync.breakers import BreakerStatus
from autoscaler.sync.ports import SyncSummary
from autoscaler.telemetry.health import Component, Health
from autoscaler.telemetry.metrics import EventCounts, Metrics
from tests.telemetry.results import families_of, series_of


def value_of(metrics: Metrics, name: str, **labels: str) -> float:
    return series_of(metrics, name)[tuple(sorted(labels.items()))]


def test_lags_and_failures_of_syncs_are_counted_from_zero() -> None:
    metrics = Metrics(Health())
    names = ("syncs_skipped", "syncs_failed", "faults", "clock_steps")
    assert [value_of(metrics, f"autoscaler_{name}_total") for name in names] == [0, 0, 0, 0]
    metrics.instruments.sync_lags.observe(0.2)
    metrics.instruments.syncs_skipped.inc()
    metrics.instruments.syncs_failed.inc()
    metrics.instruments.faults.inc()
    metrics.clock_set(60.0)
    metrics.synced(SyncSummary(targets=5, queries=1, changed=0, failed=2, seconds=0.3))
    assert [value_of(metrics, f"autoscaler_{name}_total") for name in names] == [1, 1, 1, 1]
    assert value_of(metrics, "autoscaler_sync_lag_seconds_bucket", le="0.1") == 0
    assert value_of(metrics, "autoscaler_sync_lag_seconds_bucket", le="0.25") == 1
    assert value_of(metrics, "autoscaler_decisions_total", outcome="ok") == 3
    assert value_of(metrics, "autoscaler_decisions_total", outcome="failed") == 2
    assert value_of(metrics, "autoscaler_sync_duration_seconds_count") == 1


def test_a_failed_reload_keeps_the_time_of_the_last_success() -> None:
    metrics = Metrics(Health())
    attempt = "autoscaler_reload_last_attempt_timestamp_seconds"
    success = "autoscaler_reload_last_success_timestamp_seconds"
    started = value_of(metrics, success)
    assert started > 0
    metrics.instruments.reloaded(ok=False)
    assert value_of(metrics, success) == started
    assert value_of(metrics, attempt) >= started
    assert value_of(metrics, "autoscaler_reloads_total", outcome="failed") == 1
    metrics.instruments.reloaded(ok=True)
    assert value_of(metrics, success) == value_of(metrics, attempt)
    assert value_of(metrics, "autoscaler_reloads_total", outcome="succeeded") == 1


def test_only_a_candidate_has_series_of_leadership() -> None:
    metrics = Metrics(Health())
    assert series_of(metrics, "autoscaler_leader") == {}
    for leading in (False, False, True, True, False):
        metrics.instruments.leads(leading=leading)
    assert value_of(metrics, "autoscaler_leader") == 0
    assert value_of(metrics, "autoscaler_leadership_transitions_total") == 2


def test_each_cluster_has_its_own_series_until_it_is_removed() -> None:
    metrics = Metrics(Health(), clusters={"eu", "us"})
    instruments = metrics.instruments
    instruments.leads("eu", leading=True)
    for name in ("eu", "us", "us"):
        instruments.asked_kubernetes(name, "PUT", "200", 0.1)
        instruments.asked_kubernetes_again(name)
    count = "autoscaler_kubernetes_request_duration_seconds_count"
    assert value_of(metrics, count, cluster="us", verb="PUT", code="200") == 2
    assert value_of(metrics, count, cluster="us", verb="GET", code="error") == 0
    assert value_of(metrics, "autoscaler_kubernetes_retries_total", cluster="us") == 2
    assert series_of(metrics, "autoscaler_leader") == {(("cluster", "eu"),): 1}
    instruments.expect_clusters({"us"})
    instruments.leads("eu", leading=False)
    instruments.asked_kubernetes("eu", "PUT", "200", 0.1)
    assert series_of(metrics, "autoscaler_leader") == {}
    for name in (count, "autoscaler_leadership_transitions_total"):
        assert {dict(labels)["cluster"] for labels in series_of(metrics, name)} == {"us"}


def test_errors_events_and_breakers_are_counted_from_zero() -> None:
    metrics = Metrics(Health())
    assert value_of(metrics, "autoscaler_store_errors_total") == 0
    assert set(series_of(metrics, "autoscaler_events_total").values()) == {0}
    metrics.store_errors = lambda: 1
    metrics.instruments.watch_notes.inc()
    metrics.event_counts = lambda: EventCounts(written=3, held_back=2, dropped=1)
    metrics.breakers = lambda: [BreakerStatus("", 600.0, 3, 4), BreakerStatus("far", None, 0, 9)]
    assert series_of(metrics, "autoscaler_scale_down_breaker_tripped") == {
        (("server", "default"),): 1,
        (("server", "far"),): 0,
    }
    assert value_of(metrics, "autoscaler_store_errors_total") == 1
    assert value_of(metrics, "autoscaler_watch_notes_total") == 1
    assert series_of(metrics, "autoscaler_events_total") == {
        (("outcome", "written"),): 3,
        (("outcome", "held_back"),): 2,
        (("outcome", "dropped"),): 1,
    }


def test_metrics_show_the_health_of_each_component() -> None:
    health = Health()
    metrics = Metrics(health)
    assert value_of(metrics, "autoscaler_live") == 1
    assert value_of(metrics, "autoscaler_ready") == 0
    health.report(Component.STATE, ok=False, message="full")
    health.report(Component.CACHES, ok=True, message="synced")
    assert value_of(metrics, "autoscaler_component_ok", component="state") == 0
    assert value_of(metrics, "autoscaler_component_ok", component="caches") == 1
    assert (("component", "leadership"),) not in series_of(metrics, "autoscaler_component_ok")
    health.expect({"loop": -1.0})
    assert value_of(metrics, "autoscaler_live") == 0


def test_memory_and_descriptors_are_measured_without_times_of_creation() -> None:
    families = families_of(Metrics(Health()))
    assert families["process_resident_memory_bytes"].samples[0].value > 1e6
    assert families["process_open_fds"].samples[0].value > 0
    assert not [name for name in families if name.endswith("_created")]
