"""The metrics: what is counted as it happens, what is read for a page, and the page itself.

The library writes the metrics of the daemon as a whole, `target_text` those of each target.
"""

import platform
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

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
from autoscaler.adapters.record import Status as RecordStatus
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import Target
from autoscaler.core.writes import NotWritten, Superseded, WriteFailed, Written
from autoscaler.rendering import wording
from autoscaler.sync.breakers import BreakerStatus
from autoscaler.sync.ports import Reporter, SyncSummary
from autoscaler.telemetry import metric_catalog as catalog
from autoscaler.telemetry.health import Health
from autoscaler.telemetry.target_states import TargetStates
from autoscaler.telemetry.target_text import target_text

NO_ANSWER = "error"
"""The code of a request that ended without an HTTP status."""

_OK, _SUCCEEDED, _FAILED = "ok", "succeeded", "failed"
_WRITE_WORDS: dict[type, str] = {
    Written: "written",
    Superseded: "superseded",
    WriteFailed: _FAILED,
    NotWritten: "left_out",
}
_OPENMETRICS = "application/openmetrics-text"
_END = b"# EOF\n"


class Instruments:
    """Counts in a registry of its own; what is known exists at zero, so that a first one shows."""

    def __init__(self) -> None:
        # A time of creation for each counter doubles their series, and Prometheus needs none.
        disable_created_metrics()  # type: ignore[no-untyped-call] # the library is half typed
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._gauge(catalog.BUILD_INFO).labels(__version__, platform.python_version()).set(1)
        self.faults = self._counter(catalog.FAULTS)
        self.sign_ins_failed = self._counter(catalog.SIGN_INS_FAILED)
        for way in ("basic", "bearer", "certificate", "other"):
            self.sign_ins_failed.labels(way)
        self.clock_steps = self._counter(catalog.CLOCK_STEPS)

        self.sync_durations = self._histogram(catalog.SYNC_DURATION)
        self.sync_lags = self._histogram(catalog.SYNC_LAG)
        self.syncs_skipped = self._counter(catalog.SYNCS_SKIPPED)
        self.syncs_failed = self._counter(catalog.SYNCS_FAILED)
        self.decisions = self._by_outcome(catalog.DECISIONS, _OK, _FAILED)
        writes = self._counter(catalog.WRITES)
        self.writes = {
            (kind, up): writes.labels(word, "up" if up else "down")
            for kind, word in _WRITE_WORDS.items()
            for up in (True, False)
        }

        self._prometheus_requests = self._histogram(catalog.PROMETHEUS_REQUEST_DURATION)
        self._prometheus_retries = self._counter(catalog.PROMETHEUS_RETRIES)
        self.expect_servers([""])
        self.kubernetes_requests = self._histogram(catalog.KUBERNETES_REQUEST_DURATION)
        self.kubernetes_retries = self._counter(catalog.KUBERNETES_RETRIES)
        for code in ("200", NO_ANSWER):
            self.kubernetes_requests.labels("GET", code)
        self.watch_notes = self._counter(catalog.WATCH_NOTES)

        self._reloads = self._by_outcome(catalog.RELOADS, _SUCCEEDED, _FAILED)
        self._reload_attempt = self._gauge(catalog.RELOAD_ATTEMPT)
        self._reload_success = self._gauge(catalog.RELOAD_SUCCESS)
        self._read_now(ok=True)
        self._leader: Gauge | None = None
        self._leading = False
        self._transitions = self._counter(catalog.LEADERSHIP_TRANSITIONS)

    def expect_servers(self, servers: Iterable[str]) -> None:
        """Have series of these servers; the name of the default one is empty, as in queries."""
        for server in map(wording.server_label, servers):
            self._prometheus_retries.labels(server)
            for code in ("200", NO_ANSWER):
                self._prometheus_requests.labels(server, code)

    def asked_prometheus(self, server: str, code: str, seconds: float) -> None:
        """Observe one request."""
        self._prometheus_requests.labels(wording.server_label(server), code).observe(seconds)

    def asked_prometheus_again(self, server: str) -> None:
        """Count another try of a query."""
        self._prometheus_retries.labels(wording.server_label(server)).inc()

    def reloaded(self, *, ok: bool) -> None:
        """Count a reload of the configuration, which has taken effect if ``ok``."""
        self._reloads[_SUCCEEDED if ok else _FAILED].inc()
        self._read_now(ok=ok)

    def leads(self, *, leading: bool) -> None:
        """Set whether this process leads; without an election there is no such series."""
        if self._leader is None:
            self._leader = self._gauge(catalog.LEADER)
        self._leader.set(leading)
        if leading is not self._leading:
            self._transitions.inc()
        self._leading = leading

    def _read_now(self, *, ok: bool) -> None:
        now = clock.wall()
        self._reload_attempt.set(now)
        if ok:
            self._reload_success.set(now)

    def _by_outcome(self, family: catalog.Family, *outcomes: str) -> dict[str, Counter]:
        counter = self._counter(family)
        return {outcome: counter.labels(outcome) for outcome in outcomes}

    def _counter(self, family: catalog.Family) -> Counter:
        return Counter(family.name, family.meaning, family.labels, registry=self.registry)

    def _gauge(self, family: catalog.Family) -> Gauge:
        return Gauge(family.name, family.meaning, family.labels, registry=self.registry)

    def _histogram(self, family: catalog.Family) -> Histogram:
        name, meaning, registry = family.name, family.meaning, self.registry
        return Histogram(name, meaning, family.labels, buckets=family.buckets, registry=registry)


@dataclass(frozen=True, slots=True)
class EventCounts:
    """What became of the Events so far."""

    written: int = 0
    """Requests that the API server took."""
    held_back: int = 0
    """Events of a reason that an object had too many of; they were counted only."""
    dropped: int = 0
    """Events that were lost: too many at once, refused, or not written before the end."""


class Metrics(Collector, Reporter):
    """All metrics of the daemon, and the page of them, with each target's own if ``per_target``.

    That may be set at any time, as what is called at each page may.
    """

    def __init__(self, health: Health, *, per_target: bool = True) -> None:
        self.per_target = per_target
        self.event_counts: Callable[[], EventCounts] = EventCounts
        self.store_errors: Callable[[], int] = lambda: 0
        self.record: Callable[[], RecordStatus] = RecordStatus
        self.breakers: Callable[[], Sequence[BreakerStatus]] = tuple
        self.instruments = Instruments()
        self.states = TargetStates()
        self._health = health
        self.instruments.registry.register(self)
        self._one_page_at_a_time = threading.Lock()

    def set_targets(self, targets: Sequence[Target]) -> None:
        """Show these targets and no others; no sync may run of one that is changed or removed."""
        self.states.set_targets(targets)

    def report(self, result: SyncResult) -> None:
        """Keep a target's result for the pages, and count its write."""
        self.states.note(result)
        if result.write is not None and not result.decision.shadow:
            up = result.decision.desired > (result.decision.current or 0)
            self.instruments.writes[type(result.write), up].inc()

    def fault(self, error: BaseException) -> None:  # noqa: ARG002 - the log has it
        """Count a defect."""
        self.instruments.faults.inc()

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

        A large page is never in memory as a whole.  Syncs do not wait for it; another page does, so
        that several at once do not take all of the processor.
        """
        try:
            encode, content_type = choose_encoder(accept)
        except TypeError:  # of a version that is no number
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
        """Yield what is not counted as it happens, but read when a page is made."""
        record, breakers = self.record(), self.breakers()
        by_server = {wording.server_label(breaker.server): breaker for breaker in breakers}
        tripped = {name: one.until for name, one in by_server.items() if one.until is not None}
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
            catalog.BREAKER_HELD: {name: one.down for name, one in by_server.items()},
            catalog.BREAKER_TARGETS: {name: one.of for name, one in by_server.items()},
        }
        for family, samples in values.items():
            counts = family.kind is catalog.MetricKind.COUNTER
            kind = CounterMetricFamily if counts else GaugeMetricFamily
            metric = kind(family.name, family.meaning, labels=family.labels)
            for label, value in samples.items():
                metric.add_metric([label] if label else [], value)
            yield metric
