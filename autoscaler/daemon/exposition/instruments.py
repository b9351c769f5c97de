"""The metrics of the daemon as a whole, counted as things happen."""

import platform
from collections.abc import Iterable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

from autoscaler import __version__, clock
from autoscaler.config.settings import DEFAULT_SERVER
from autoscaler.core.writes import NotWritten, Superseded, WriteFailed, WriteOutcome, Written
from autoscaler.daemon.exposition import metric_catalog
from autoscaler.daemon.exposition.metric_catalog import Family
from autoscaler.daemon.schedule import TickObserver

NO_ANSWER = "error"
"""The code of a request that ended without an HTTP status."""

_OK, _SUCCEEDED, _FAILED = "ok", "succeeded", "failed"

_WRITE_WORDS: dict[type, str] = {
    Written: "written",
    Superseded: "superseded",
    WriteFailed: _FAILED,
    NotWritten: "left_out",
}


def _label_of(server: str) -> str:
    return server or DEFAULT_SERVER


class Instruments(TickObserver):
    """Counts what happens in a registry of its own; any thread may call any method.

    Every series whose labels are known exists from the start, at zero, so that Prometheus sees
    its first increase.
    """

    def __init__(self) -> None:
        # A time of creation for each counter doubles their series, and Prometheus needs none.
        disable_created_metrics()  # type: ignore[no-untyped-call] # the library is half typed
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._gauge(metric_catalog.BUILD_INFO).labels(__version__, platform.python_version()).set(1)
        self.faults = self._counter(metric_catalog.FAULTS)
        self.sign_ins_failed = self._counter(metric_catalog.SIGN_INS_FAILED)
        for way in ("basic", "bearer", "certificate", "other"):
            self.sign_ins_failed.labels(way)
        self.clock_steps = self._counter(metric_catalog.CLOCK_STEPS)

        self._durations = self._histogram(metric_catalog.SYNC_DURATION)
        self._lags = self._histogram(metric_catalog.SYNC_LAG)
        self._skipped = self._counter(metric_catalog.SYNCS_SKIPPED)
        self._failed = self._counter(metric_catalog.SYNCS_FAILED)
        self._decisions = self._by_outcome(metric_catalog.DECISIONS, _OK, _FAILED)
        writes = self._counter(metric_catalog.WRITES)
        self._writes = {
            (kind, up): writes.labels(word, "up" if up else "down")
            for kind, word in _WRITE_WORDS.items()
            for up in (True, False)
        }

        self._prometheus_requests = self._histogram(metric_catalog.PROMETHEUS_REQUEST_DURATION)
        self._prometheus_retries = self._counter(metric_catalog.PROMETHEUS_RETRIES)
        self.expect_servers([""])
        self.kubernetes_requests = self._histogram(metric_catalog.KUBERNETES_REQUEST_DURATION)
        self.kubernetes_retries = self._counter(metric_catalog.KUBERNETES_RETRIES)
        for code in ("200", NO_ANSWER):
            self.kubernetes_requests.labels("GET", code)
        self.watch_notes = self._counter(metric_catalog.WATCH_NOTES)

        self._reloads = self._by_outcome(metric_catalog.RELOADS, _SUCCEEDED, _FAILED)
        self._reload_attempt = self._gauge(metric_catalog.RELOAD_ATTEMPT)
        self._reload_success = self._gauge(metric_catalog.RELOAD_SUCCESS)
        self._read_at(clock.wall(), ok=True)
        self._leader: Gauge | None = None
        self._leading = False
        self._transitions = self._counter(metric_catalog.LEADERSHIP_TRANSITIONS)

    # -- syncs -----------------------------------------------------------------------------

    def began(self, period: float, lag: float) -> None:  # noqa: ARG002 - all periods alike
        """Observe that a sync began, ``lag`` seconds after it was due."""
        self._lags.observe(lag)

    def left_out(self, period: float) -> None:  # noqa: ARG002 - as above
        """Count a sync that was left out."""
        self._skipped.inc()

    def failed(self, period: float) -> None:  # noqa: ARG002 - as above
        """Count a sync that a defect ended."""
        self._failed.inc()

    def synced(self, seconds: float, targets: int, failed: int) -> None:
        """Count a sync of so many targets, and how many decisions failed in it."""
        self._durations.observe(seconds)
        self._decisions[_OK].inc(targets - failed)
        self._decisions[_FAILED].inc(failed)

    def written(self, outcome: WriteOutcome, *, up: bool) -> None:
        """Count a change of scale by its outcome."""
        self._writes[type(outcome), up].inc()

    # -- Prometheus ------------------------------------------------------------------------

    def expect_servers(self, servers: Iterable[str]) -> None:
        """Have series of these servers; the name of the default one is empty, as in queries."""
        for server in servers:
            self._prometheus_retries.labels(_label_of(server))
            for code in ("200", NO_ANSWER):
                self._prometheus_requests.labels(_label_of(server), code)

    def asked_prometheus(self, server: str, code: str, seconds: float) -> None:
        """Observe one request."""
        self._prometheus_requests.labels(_label_of(server), code).observe(seconds)

    def asked_prometheus_again(self, server: str) -> None:
        """Count another try of a query."""
        self._prometheus_retries.labels(_label_of(server)).inc()

    # -- the service -----------------------------------------------------------------------

    def reloaded(self, *, ok: bool) -> None:
        """Count a reload of the configuration, which has taken effect if ``ok``."""
        self._reloads[_SUCCEEDED if ok else _FAILED].inc()
        self._read_at(clock.wall(), ok=ok)

    def leads(self, *, leading: bool) -> None:
        """Set whether this process leads.

        A process that takes part in no election never calls this, and has no such series.
        """
        if self._leader is None:
            self._leader = self._gauge(metric_catalog.LEADER)
        self._leader.set(leading)
        if leading is not self._leading:
            self._transitions.inc()
        self._leading = leading

    def _read_at(self, now: float, *, ok: bool) -> None:
        self._reload_attempt.set(now)
        if ok:
            self._reload_success.set(now)

    def _by_outcome(self, family: Family, *outcomes: str) -> dict[str, Counter]:
        counter = self._counter(family)
        return {outcome: counter.labels(outcome) for outcome in outcomes}

    def _counter(self, family: Family) -> Counter:
        return Counter(family.name, family.meaning, family.labels, registry=self.registry)

    def _gauge(self, family: Family) -> Gauge:
        return Gauge(family.name, family.meaning, family.labels, registry=self.registry)

    def _histogram(self, family: Family) -> Histogram:
        return Histogram(
            family.name,
            family.meaning,
            family.labels,
            buckets=family.buckets,
            registry=self.registry,
        )
