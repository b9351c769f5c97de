"""The metrics of the daemon as a whole: name, type, labels and meaning.

`target_text.PER_TARGET` has the metrics per target; docs/reference/metrics.md is compared with
both.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import partial


class MetricKind(StrEnum):
    """The type of a metric, as Prometheus calls it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


_SYNC_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0)
_LAG_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_REQUEST_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Family:
    """One metric, with the name of its samples, so a counter's name ends in `_total`."""

    name: str
    kind: MetricKind
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram's buckets, in seconds."""
    by_cluster: bool = False
    """Whether it also has the label `cluster`, before the others, if there are `clusters`."""


def _family(
    kind: MetricKind,
    name: str,
    meaning: str,
    *labels: str,
    buckets: tuple[float, ...] = (),
    by_cluster: bool = False,
) -> Family:
    return Family(f"autoscaler_{name}", kind, meaning, labels, buckets, by_cluster)


_counter = partial(_family, MetricKind.COUNTER)
_gauge = partial(_family, MetricKind.GAUGE)
_histogram = partial(_family, MetricKind.HISTOGRAM)


# -- the process ---------------------------------------------------------------------------

BUILD_INFO = _gauge("build_info", "Always 1; the version that runs.", "version", "python")
LIVE = _gauge("live", "Whether every sync ended within three of its periods, as /livez says.")
READY = _gauge("ready", "Whether all that the daemon needs is there, as /readyz says.")
COMPONENT_OK = _gauge(
    "component_ok", "Whether a component is well; /readyz has its message.", "component"
)
SIGN_INS_FAILED = _counter(
    "web_sign_ins_failed_total",
    "Requests for the pages and the API whose credentials were wrong, by the way to sign in: "
    "basic, bearer, certificate or other.",
    "way",
)
FAULTS = _counter("faults_total", "Defects of the autoscaler itself; the log has some of each.")
CLOCK_STEPS = _counter("clock_steps_total", "Times that the system's clock was set.")

# -- syncs ---------------------------------------------------------------------------------

TARGETS = _gauge(
    "targets", "Targets by the outcome of their last sync; `none`: not synced yet.", "outcome"
)
SYNC_DURATION = _histogram(
    "sync_duration_seconds",
    "How long a sync of the targets of one turn took.",
    buckets=_SYNC_BUCKETS,
)
SYNC_LAG = _histogram("sync_lag_seconds", "How late a sync began.", buckets=_LAG_BUCKETS)
SYNCS_SKIPPED = _counter(
    "syncs_skipped_total", "Syncs left out because the one before was still running."
)
SYNCS_FAILED = _counter("syncs_failed_total", "Syncs that a defect ended.")
DECISIONS = _counter(
    "decisions_total",
    "Decisions by outcome: ok, or failed (partial or blocked).",
    "outcome",
)
WRITES = _counter(
    "writes_total",
    "Changes of scale by what became of them: written, superseded by another client, failed, "
    "or left out because another process leads.",
    "outcome",
    "direction",
)

_BREAKER = "scale_down_breaker"
BREAKER_TRIPPED = _gauge(
    f"{_BREAKER}_tripped",
    "Whether the scale-down breaker prevents scale-downs of a server's targets; the breaker's "
    "metrics exist only with scaleDownBreaker.",
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
    "server",
    "code",
    buckets=_REQUEST_BUCKETS,
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
    "verb",
    "code",
    buckets=_REQUEST_BUCKETS,
    by_cluster=True,
)
KUBERNETES_RETRIES = _counter(
    "kubernetes_retries_total",
    "Retries of calls, including those after write conflicts.",
    by_cluster=True,
)
WATCH_NOTES = _counter(
    "watch_notes_total",
    "Times that something could not be watched, or could again; the log has each.",
)
OBJECTS = _gauge(
    "objects",
    "PromqlAutoscaler objects: accepted as targets, or refused; their conditions say why.",
    "state",
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
    "The start of the recorded data, as Unix time; absent while the record is empty.",
)
RECORD_DROPPED = _counter(
    "record_dropped_total",
    "Results of syncs that the record lacks, since its disk was full, failed or was too slow.",
)
LEADER = _gauge(
    "leader",
    "Whether this process leads; only where leader election is enabled.",
    by_cluster=True,
)
LEADERSHIP_TRANSITIONS = _counter(
    "leadership_transitions_total",
    "Times that this process became the leader, or stopped being it.",
    by_cluster=True,
)
EVENTS = _counter(
    "events_total",
    "Kubernetes Events: written, held back (an object has 25 of each reason at once, then one more "
    "each 5 minutes), or dropped because there were too many or they could not be written.",
    "outcome",
)
