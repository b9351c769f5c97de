"""The metrics: counters, values that are read for a page, and the page itself.

The library writes the metrics of the daemon, `target_text` the metrics per target.
"""

import platform
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from autoscaler import __version__, clock
from autoscaler.core.spec import Flags
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import Target
from autoscaler.core.writes import AcceptedWrite, SkippedWrite, WriteConflict, WriteFailure
from autoscaler.persistence.record import Status as RecordStatus
from autoscaler.rendering import wording
from autoscaler.sync.breakers import BreakerStatus
from autoscaler.sync.ports import Reporter, SyncSummary
from autoscaler.telemetry import metric_catalog as catalog
from autoscaler.telemetry.health import Health
from autoscaler.telemetry.target_states import TargetStates
from autoscaler.telemetry.target_text import target_text

MetricT = TypeVar("MetricT", Counter, Gauge, Histogram)

NO_ANSWER = "error"
"""The code of a request that ended without an HTTP status."""

_OK, _SUCCEEDED, _FAILED = "ok", "succeeded", "failed"
_WRITE_WORDS: dict[type, str] = {
    AcceptedWrite: "written",
    WriteConflict: "superseded",
    WriteFailure: _FAILED,
    SkippedWrite: "left_out",
}
_OPENMETRICS = "application/openmetrics-text"
_END = b"# EOF\n"


class Instruments:
    """Counters in a registry; known series exist at zero, so that the first increase is visible.

    With ``clusters`` the series of a cluster have its name as a label; others are not counted.
    """

    def __init__(self, clusters: AbstractSet[str] = frozenset()) -> None:
        self._clusters = clusters
        self._by_cluster = bool(clusters)
        # A creation time for each counter doubles the series, and Prometheus needs none.
        disable_created_metrics()  # type: ignore[no-untyped-call] # the library is half typed
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._new(Gauge, catalog.BUILD_INFO).labels(__version__, platform.python_version()).set(1)
        self.faults = self._new(Counter, catalog.FAULTS)
        self.sign_ins_failed = self._new(Counter, catalog.SIGN_INS_FAILED)
        for way in ("basic", "bearer", "certificate", "other"):
            self.sign_ins_failed.labels(way)
        self.clock_steps = self._new(Counter, catalog.CLOCK_STEPS)

        self.sync_durations = self._new(Histogram, catalog.SYNC_DURATION)
        self.sync_lags = self._new(Histogram, catalog.SYNC_LAG)
        self.syncs_skipped = self._new(Counter, catalog.SYNCS_SKIPPED)
        self.syncs_failed = self._new(Counter, catalog.SYNCS_FAILED)
        self.decisions = self._by_outcome(catalog.DECISIONS, _OK, _FAILED)
        self.writes = self._new_writes()

        self._prometheus_requests = self._new(Histogram, catalog.PROMETHEUS_REQUEST_DURATION)
        self._prometheus_retries = self._new(Counter, catalog.PROMETHEUS_RETRIES)
        self.expect_servers([""])
        self._kubernetes_requests = self._new(Histogram, catalog.KUBERNETES_REQUEST_DURATION)
        self._kubernetes_retries = self._new(Counter, catalog.KUBERNETES_RETRIES)
        self.watch_notes = self._new(Counter, catalog.WATCH_NOTES)
        self._objects = self._new(Gauge, catalog.OBJECTS)
        self.count_objects(0, 0)

        self._reloads = self._by_outcome(catalog.RELOADS, _SUCCEEDED, _FAILED)
        self._reload_attempt = self._new(Gauge, catalog.RELOAD_ATTEMPT)
        self._reload_success = self._new(Gauge, catalog.RELOAD_SUCCESS)
        self._read_now(ok=True)
        self._leader: Gauge | None = None
        self._leading: dict[str, bool] = {}
        self._transitions = self._new(Counter, catalog.LEADERSHIP_TRANSITIONS)
        self.expect_clusters(clusters or {""})

    def _new_writes(self) -> Mapping[tuple[type, bool], Counter]:
        """Return the counters of writes, by outcome and direction."""
        writes = self._new(Counter, catalog.WRITES)
        return {
            (kind, up): writes.labels(word, "up" if up else "down")
            for kind, word in _WRITE_WORDS.items()
            for up in (True, False)
        }

    def expect_servers(self, servers: Iterable[str]) -> None:
        """Create the series of these servers; the default one has an empty name, as in queries."""
        for server in map(wording.server_label, servers):
            self._prometheus_retries.labels(server)
            for code in ("200", NO_ANSWER):
                self._prometheus_requests.labels(server, code)

    def count_objects(self, accepted: int, refused: int) -> None:
        """Set the numbers of objects."""
        self._objects.labels("accepted").set(accepted)
        self._objects.labels("refused").set(refused)

    def asked_prometheus(self, server: str, code: str, seconds: float) -> None:
        """Observe one request."""
        self._prometheus_requests.labels(wording.server_label(server), code).observe(seconds)

    def asked_prometheus_again(self, server: str) -> None:
        """Count a retry of a query."""
        self._prometheus_retries.labels(wording.server_label(server)).inc()

    def expect_clusters(self, clusters: AbstractSet[str]) -> None:
        """Keep the series of exactly these clusters; the one without a name has no label."""
        gone, self._clusters = self._clusters - clusters, clusters
        of_each = (self._kubernetes_requests, self._kubernetes_retries, self._transitions)
        for metric in (*of_each, *([] if self._leader is None else [self._leader])):
            for name in gone if self._by_cluster else ():
                metric.remove_by_labels({"cluster": name})
        self._leading = {name: leads for name, leads in self._leading.items() if name not in gone}
        for name in clusters:
            self._labelled(self._kubernetes_retries, name)
            self._labelled(self._transitions, name)
            for code in ("200", NO_ANSWER):
                self._labelled(self._kubernetes_requests, name, "GET", code)

    def asked_kubernetes(self, cluster: str, verb: str, code: str, seconds: float) -> None:
        """Observe one request."""
        if self._counts(cluster):
            self._labelled(self._kubernetes_requests, cluster, verb, code).observe(seconds)

    def asked_kubernetes_again(self, cluster: str) -> None:
        """Count a retry of a call."""
        if self._counts(cluster):
            self._labelled(self._kubernetes_retries, cluster).inc()

    def _counts(self, cluster: str) -> bool:
        """Return whether a cluster is counted; late answers of a removed one are not."""
        return not self._by_cluster or cluster in self._clusters

    def _labelled(self, metric: MetricT, cluster: str, *labels: str) -> MetricT:
        values = (cluster, *labels) if self._by_cluster else labels
        return metric.labels(*values) if values else metric

    def reloaded(self, *, ok: bool) -> None:
        """Count a reload of the configuration, which has taken effect if ``ok``."""
        self._reloads[_SUCCEEDED if ok else _FAILED].inc()
        self._read_now(ok=ok)

    def leads(self, cluster: str = "", *, leading: bool) -> None:
        """Set whether this process leads; without an election there is no such series."""
        if not self._counts(cluster):
            return
        if self._leader is None:
            self._leader = self._new(Gauge, catalog.LEADER)
        self._labelled(self._leader, cluster).set(leading)
        if leading is not self._leading.get(cluster, False):
            self._labelled(self._transitions, cluster).inc()
        self._leading[cluster] = leading

    def _read_now(self, *, ok: bool) -> None:
        now = clock.wall()
        self._reload_attempt.set(now)
        if ok:
            self._reload_success.set(now)

    def _by_outcome(self, family: catalog.Family, *outcomes: str) -> dict[str, Counter]:
        counter = self._new(Counter, family)
        return {outcome: counter.labels(outcome) for outcome in outcomes}

    def _new(self, kind: type[MetricT], family: catalog.Family) -> MetricT:
        by_cluster = self._by_cluster and family.by_cluster
        labels = ("cluster", *family.labels) if by_cluster else family.labels
        more: dict[str, Any] = {"buckets": family.buckets} if family.buckets else {}
        return kind(family.name, family.meaning, labels, registry=self.registry, **more)


@dataclass(frozen=True, slots=True)
class EventCounts:
    """The outcomes of Events so far."""

    written: int = 0
    """Requests that the API server accepted."""
    held_back: int = 0
    """Events of a reason that an object had too often; they were only counted."""
    dropped: int = 0
    """Events that were lost: too many at once, refused, or not written before the end."""


class Metrics(Collector, Reporter):
    """All metrics of the daemon and their page, with the metrics of each target if ``per_target``.

    It may be set at any time, like the functions that each page calls.
    """

    def __init__(
        self,
        health: Health,
        *,
        per_target: bool = True,
        clusters: AbstractSet[str] = frozenset(),
    ) -> None:
        self.per_target = per_target
        self.event_counts: Callable[[], EventCounts] = EventCounts
        self.store_errors: Callable[[], int] = lambda: 0
        self.record: Callable[[], RecordStatus] = RecordStatus
        self.breakers: Callable[[], Sequence[BreakerStatus]] = tuple
        self.instruments = Instruments(clusters)
        self.states = TargetStates()
        self._health = health
        self.instruments.registry.register(self)
        self._one_page_at_a_time = threading.Lock()

    def configure(self, targets: Sequence[Target], flags: Flags) -> None:  # noqa: ARG002
        """Continue with these targets."""
        self.states.set_targets(targets)

    def report(self, result: SyncResult) -> None:
        """Keep a target's result for the pages, and count its write."""
        self.states.note(result)
        if result.write is not None and not result.decision.in_shadow:
            up = result.decision.desired > (result.decision.current or 0)
            self.instruments.writes[type(result.write), up].inc()

    def clock_set(self, seconds: float) -> None:
        """Count a step of the clock."""
        self.states.clock_set(seconds)
        self.instruments.clock_steps.inc()

    def synced(self, summary: SyncSummary) -> None:
        """Count a sync and its decisions."""
        self.instruments.sync_durations.observe(summary.seconds)
        self.instruments.decisions[_OK].inc(summary.targets - summary.failed)
        self.instruments.decisions[_FAILED].inc(summary.failed)

    def page(self, accept: str = "") -> tuple[str, Iterator[bytes]]:
        """Return the page's Content-Type and its parts, in the format that a client prefers.

        A large page is never in memory as a whole. Syncs do not wait for it; another page does, so
        that several at once do not take the whole processor.
        """
        try:
            encode, content_type = choose_encoder(accept)
        except TypeError:  # The version is not a number.
            encode, content_type = choose_encoder("")
        openmetrics = content_type.startswith(_OPENMETRICS)
        return content_type, self._parts(encode, openmetrics=openmetrics)

    def _parts(
        self, encode: Callable[[CollectorRegistry], bytes], *, openmetrics: bool
    ) -> Iterator[bytes]:
        with self._one_page_at_a_time:
            yield encode(self.instruments.registry).removesuffix(_END)
            if self.per_target:
                yield from target_text(self.states.rows(), openmetrics=openmetrics)
        if openmetrics:
            yield _END

    def collect(self) -> Iterable[Metric]:
        """Yield the values that are read when a page is made."""
        record, breakers = self.record(), self.breakers()
        by_server = {wording.server_label(breaker.server): breaker for breaker in breakers}
        tripped = {
            name: status.until for name, status in by_server.items() if status.until is not None
        }
        values: Mapping[catalog.Family, Mapping[str, float]] = {
            catalog.LIVE: {"": self._health.stalled() is None},
            catalog.READY: {"": self._health.ready},
            catalog.COMPONENT_OK: {
                component.name: component.ok for component in self._health.components()
            },
            catalog.TARGETS: self.states.outcomes(),
            catalog.STORE_ERRORS: {"": self.store_errors()},
            catalog.RECORD_BYTES: {"": record.size},
            catalog.RECORD_OLDEST: {} if record.oldest is None else {"": record.oldest},
            catalog.RECORD_DROPPED: {"": record.dropped},
            catalog.EVENTS: asdict(self.event_counts()),
            catalog.BREAKER_TRIPPED: {name: name in tripped for name in by_server},
            catalog.BREAKER_UNTIL: tripped,
            catalog.BREAKER_HELD: {name: status.down for name, status in by_server.items()},
            catalog.BREAKER_TARGETS: {name: status.of for name, status in by_server.items()},
        }
        for family, samples in values.items():
            counts = family.kind is catalog.MetricKind.COUNTER
            kind = CounterMetricFamily if counts else GaugeMetricFamily
            metric = kind(family.name, family.meaning, labels=family.labels)
            for label, value in samples.items():
                metric.add_metric([label] if label else [], value)
            yield metric
