"""Every metric that the daemon shows: its name, its type, its labels and what it means.

The metrics are made from this table, and a test compares docs/metrics.md with it.
"""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The type of a metric, as Prometheus calls it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


_SYNC_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0)
_LAG_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_REQUEST_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Family:
    """One metric.  The name is that of its samples, so that a counter's ends in `_total`."""

    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram's buckets, in seconds."""


def _counter(name: str, meaning: str, *labels: str) -> Family:
    return Family(f"autoscaler_{name}", Kind.COUNTER, meaning, labels)


def _gauge(name: str, meaning: str, *labels: str) -> Family:
    return Family(f"autoscaler_{name}", Kind.GAUGE, meaning, labels)


def _histogram(name: str, meaning: str, buckets: tuple[float, ...], *labels: str) -> Family:
    return Family(f"autoscaler_{name}", Kind.HISTOGRAM, meaning, labels, buckets)


# -- the process ---------------------------------------------------------------------------

BUILD_INFO = _gauge("build_info", "Always 1; the version that runs.", "version", "python")
LIVE = _gauge("live", "Whether every sync ended within three of its periods, as /livez says.")
READY = _gauge("ready", "Whether all that the daemon needs is there, as /readyz says.")
COMPONENT_OK = _gauge(
    "component_ok", "Whether a component is well; /readyz has the sentence to it.", "component"
)
SIGN_INS_FAILED = _counter(
    "web_sign_ins_failed_total",
    "Requests for the pages and the API whose credentials were wrong, by the way to sign in: "
    "basic, bearer, certificate or other.",
    "way",
)
FAULTS = _counter("faults_total", "Defects of the autoscaler itself; the log has each.")
CLOCK_STEPS = _counter("clock_steps_total", "Times that the system's clock was set.")

# -- syncs ---------------------------------------------------------------------------------

TARGETS = _gauge(
    "targets",
    "Targets by the outcome of their last sync; none before the first.",
    "outcome",
)
SYNC_DURATION = _histogram(
    "sync_duration_seconds", "How long a sync of the targets of one turn took.", _SYNC_BUCKETS
)
SYNC_LAG = _histogram("sync_lag_seconds", "How late a sync began.", _LAG_BUCKETS)
SYNCS_SKIPPED = _counter(
    "syncs_skipped_total", "Syncs left out because the one before was still running."
)
SYNCS_FAILED = _counter("syncs_failed_total", "Syncs that a defect ended.")
DECISIONS = _counter(
    "decisions_total",
    "Decisions by outcome: ok, or failed for one with some metric or all of it missing.",
    "outcome",
)
WRITES = _counter(
    "writes_total",
    "Changes of scale by what became of them: written, superseded by somebody else's, failed, "
    "or left out because another process leads.",
    "outcome",
    "direction",
)

_BREAKER = "scale_down_breaker"
BREAKER_TRIPPED = _gauge(
    f"{_BREAKER}_tripped",
    "Whether the scale-down breaker lets no target of a Prometheus server go down; only with "
    "scaleDownBreaker, as the others of its name.",
    "server",
)
BREAKER_UNTIL = _gauge(
    f"{_BREAKER}_until_timestamp_seconds",
    "When the scale-down breaker of a server ends; absent while it has not tripped.",
    "server",
)
BREAKER_HELD = _gauge(
    f"{_BREAKER}_held_targets", "Targets that would go down and are held by it.", "server"
)
BREAKER_TARGETS = _gauge(
    f"{_BREAKER}_targets", "Targets that read from a Prometheus server.", "server"
)

# -- requests ------------------------------------------------------------------------------

PROMETHEUS_REQUEST_DURATION = _histogram(
    "prometheus_request_duration_seconds",
    "Requests to Prometheus, each try by itself, by HTTP status; error where no answer came"
    " that can be read. The server is a key of prometheus.servers, or default.",
    _REQUEST_BUCKETS,
    "server",
    "code",
)
PROMETHEUS_RETRIES = _counter(
    "prometheus_retries_total",
    "Tries of a query after its first, because of a passing failure.",
    "server",
)
KUBERNETES_REQUEST_DURATION = _histogram(
    "kubernetes_request_duration_seconds",
    "Requests to the API server, each try by itself, by HTTP status; error where no answer came."
    " The verb WATCH measures until the watch began.",
    _REQUEST_BUCKETS,
    "verb",
    "code",
)
KUBERNETES_RETRIES = _counter(
    "kubernetes_retries_total", "Tries of a call after its first, a write's conflicts among them."
)
WATCH_NOTES = _counter(
    "watch_notes_total",
    "Times that something could not be watched, or could again; the log has each.",
)

# -- the service ---------------------------------------------------------------------------

RELOADS = _counter("reloads_total", "Reloads of the configuration by outcome.", "outcome")
RELOAD_ATTEMPT = _gauge(
    "reload_last_attempt_timestamp_seconds", "When the configuration was last read."
)
RELOAD_SUCCESS = _gauge(
    "reload_last_success_timestamp_seconds", "When the configuration in force was read."
)
STORE_ERRORS = _counter(
    "store_errors_total", "Times that the state could not be kept in the state directory."
)
RECORD_BYTES = _gauge("record_bytes", "The size of the record of decisions; 0 without one.")
RECORD_OLDEST = _gauge(
    "record_oldest_timestamp_seconds",
    "When what the record has begins, as Unix time; none while it is empty.",
)
RECORD_DROPPED = _counter(
    "record_dropped_total",
    "Results of syncs that the record lacks, since its disk was full, failed or was too slow.",
)
LEADER = _gauge("leader", "Whether this process leads; only where leader election is enabled.")
LEADERSHIP_TRANSITIONS = _counter(
    "leadership_transitions_total", "Times that this process came to lead or ceased to."
)
EVENTS = _counter(
    "events_total",
    "Kubernetes Events: written, held back (an object has 25 of each reason at once, then one more "
    "each 5 minutes), or dropped because there were too many or they could not be written.",
    "outcome",
)

SERVICE = (
    *(BUILD_INFO, LIVE, READY, COMPONENT_OK, FAULTS, CLOCK_STEPS, SIGN_INS_FAILED),
    *(TARGETS, SYNC_DURATION, SYNC_LAG, SYNCS_SKIPPED, SYNCS_FAILED, DECISIONS, WRITES),
    *(BREAKER_TRIPPED, BREAKER_UNTIL, BREAKER_HELD, BREAKER_TARGETS),
    *(PROMETHEUS_REQUEST_DURATION, PROMETHEUS_RETRIES),
    *(KUBERNETES_REQUEST_DURATION, KUBERNETES_RETRIES, WATCH_NOTES),
    *(RELOADS, RELOAD_ATTEMPT, RELOAD_SUCCESS, STORE_ERRORS),
    *(RECORD_BYTES, RECORD_OLDEST, RECORD_DROPPED),
    *(LEADER, LEADERSHIP_TRANSITIONS, EVENTS),
)
"""Metrics of the daemon as a whole."""

# -- each target ---------------------------------------------------------------------------

TARGET_INFO = _gauge(
    "target_info",
    "Always 1; the parts of a target's name.",
    *("target", "target_namespace", "target_kind", "target_name"),
)
TARGET_OUTCOME = _gauge(
    "target_outcome",
    "Always 1; the outcome of the last sync (ok, partial, blocked), and the HPA's reason where "
    "it is not ok.",
    *("target", "outcome", "reason"),
)
TARGET_LAST_SUCCESS = _gauge(
    "target_last_success_timestamp_seconds",
    "The last sync that came to a decision and whose write, if it had one, did not fail.",
    "target",
)
TARGET_CURRENT = _gauge("target_current_replicas", "The replicas as they were read.", "target")
_METRIC_LABELS = ("target", "metric_name", "type", "metric_target_type")
TARGET_SPEC_TARGET_METRIC = _gauge(
    "target_spec_target_metric",
    "What one metric is held to, in base units, a utilization in percent.",
    *_METRIC_LABELS,
)
TARGET_STATUS_TARGET_METRIC = _gauge(
    "target_status_target_metric",
    "What one metric measures now, in the unit of its target; absent while the metric is missing.",
    *_METRIC_LABELS,
)
TARGET_PROPOSED = _gauge(
    "target_proposed_replicas",
    "What one metric asks for; absent while the metric is missing.",
    *("target", "metric_name", "type"),
)
TARGET_FALLBACK = _gauge(
    "target_fallback_replicas",
    "What the fallback asks for in place of a metric that keeps failing; absent otherwise.",
    *("target", "metric_name", "type"),
)
TARGET_METRIC_ACTIVE = _gauge(
    "target_metric_active",
    "1 while a metric is above its activation, else 0; absent while that is not known, and "
    "without idle.",
    *("target", "metric_name", "type"),
)
TARGET_IDLE = _gauge(
    "target_idle",
    "1 while the replicas are at most idle.replicas, else 0; absent without idle.",
    "target",
)
TARGET_PAUSED = _gauge(
    "target_paused",
    "1 while the target is paused; the mode is all, or the direction that is paused.",
    *("target", "mode"),
)
TARGET_STABILIZED = _gauge(
    "target_stabilized_replicas",
    "What the stabilization windows made of the largest proposal.",
    "target",
)
TARGET_DESIRED = _gauge(
    "target_desired_replicas", "What was decided, after rate limits and bounds.", "target"
)
TARGET_MIN = _gauge(
    "target_min_replicas",
    "The minReplicas in force: the target's own, or those of an open schedule or a query.",
    "target",
)
TARGET_MAX = _gauge("target_max_replicas", "The maxReplicas in force.", "target")
TARGET_LIMITED = _gauge(
    "target_limited",
    "1 while a bound or a rate limit holds the target back, with the HPA's reason.",
    *("target", "reason"),
)
TARGET_CONDITION = _gauge(
    "target_condition",
    "The HPA's conditions: 1 where the status is True, else 0.",
    *("target", "condition"),
)
TARGET_STABILIZED_UNTIL = _gauge(
    "target_stabilized_until_timestamp_seconds",
    "Until when stabilization holds the count as it does now; absent while it holds nothing.",
    "target",
)
TARGET_LIMITED_UNTIL = _gauge(
    "target_limited_until_timestamp_seconds",
    "When a rate limit that binds now permits more; absent while none binds.",
    "target",
)
TARGET_HELD_UNTIL = _gauge(
    "target_held_until_timestamp_seconds",
    "Until when nothing is written because others undid our writes; absent otherwise.",
    "target",
)
TARGET_NO_SCALE_DOWN_UNTIL = _gauge(
    "target_no_scale_down_until_timestamp_seconds",
    "Until when nothing goes down because a reading has just returned after a gap, or was the "
    "first one; absent otherwise.",
    "target",
)
TARGET_SATURATED = _gauge(
    "target_saturated_replicas_missing",
    "By how many replicas a bound or a policy has permitted less than is wanted, for 15 minutes "
    "or longer; absent otherwise.",
    *("target", "reason"),
)
TARGET_FOREIGN_CHANGES = _counter(
    "target_foreign_changes_total", "Times that somebody else set the replicas.", "target"
)

PER_TARGET = (
    *(TARGET_INFO, TARGET_OUTCOME, TARGET_LAST_SUCCESS),
    *(TARGET_SPEC_TARGET_METRIC, TARGET_STATUS_TARGET_METRIC),
    *(TARGET_CURRENT, TARGET_PROPOSED, TARGET_STABILIZED, TARGET_DESIRED, TARGET_MIN, TARGET_MAX),
    *(TARGET_FALLBACK, TARGET_METRIC_ACTIVE, TARGET_IDLE, TARGET_PAUSED),
    *(TARGET_LIMITED, TARGET_CONDITION, TARGET_STABILIZED_UNTIL, TARGET_LIMITED_UNTIL),
    *(TARGET_HELD_UNTIL, TARGET_NO_SCALE_DOWN_UNTIL, TARGET_SATURATED),
    TARGET_FOREIGN_CHANGES,
)
"""Metrics of each target, left out with `perTargetMetrics: false`."""
