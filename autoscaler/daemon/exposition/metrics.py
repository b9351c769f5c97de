"""The metrics: results counted, and the page of them.

The library writes the metrics of the daemon as a whole, `target_text` those of each target.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from autoscaler.adapters.record import Status as RecordStatus
from autoscaler.core.target import Target
from autoscaler.daemon.events import EventCounts
from autoscaler.daemon.exposition import metric_catalog
from autoscaler.daemon.exposition.instruments import Instruments
from autoscaler.daemon.exposition.target_states import TargetStates
from autoscaler.daemon.exposition.target_text import target_text
from autoscaler.daemon.health import Health
from autoscaler.rendering import wording
from autoscaler.sync.breakers import BreakerStatus
from autoscaler.sync.ports import SyncResult, SyncSummary

_OPENMETRICS = "application/openmetrics-text"
_END = b"# EOF\n"


class Metrics:
    """All metrics of the daemon, and the page of them.

    ``per_target`` says whether the page shows each target's own; it may be set at any time.
    """

    def __init__(self, health: Health, *, per_target: bool = True) -> None:
        self.per_target = per_target
        self.instruments = Instruments()
        self.states = TargetStates()
        self.reporter = MetricsReporter(self.instruments, self.states)
        self._registry: CollectorRegistry = self.instruments.registry
        self._current = _CurrentState(health, self.states)
        self._registry.register(self._current)
        self._one_page_at_a_time = threading.Lock()

    def set_targets(self, targets: Sequence[Target]) -> None:
        """Show these targets and no others; call it while no sync runs."""
        self.states.set_targets(targets)

    def ask_for_events(self, counts: Callable[[], EventCounts]) -> None:
        """Call this for the counts of Kubernetes Events at each page; before, all are zero."""
        self._current.event_counts = counts

    def ask_for_store_errors(self, count: Callable[[], int]) -> None:
        """Call this for the count of errors of the store at each page; before, it is zero."""
        self._current.store_errors = count

    def ask_for_record(self, status: Callable[[], RecordStatus]) -> None:
        """Call this for how the record stands at each page; before, it is empty."""
        self._current.record = status

    def ask_for_breakers(self, statuses: Callable[[], Sequence[BreakerStatus]]) -> None:
        """Call this for the scale-down breakers at each page; before, there are none."""
        self._current.breakers = statuses

    def page(self, accept: str = "") -> tuple[str, Iterator[bytes]]:
        """Return the page's Content-Type and its parts, in the format that ``accept`` prefers.

        ``accept`` is the Accept header.  The parts are made while they are sent, so that a large
        page is never in memory as a whole.  Syncs do not wait for a page; one page waits for
        another, so that several at once do not take all of the processor.
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
            yield encode(self._registry).removesuffix(_END)
            if self.per_target:
                yield from target_text(self.states.rows(), openmetrics=openmetrics)
        if openmetrics:
            yield _END


class MetricsReporter:
    """Fits `sync.ports.Reporter`."""

    def __init__(self, instruments: Instruments, states: TargetStates) -> None:
        self._instruments = instruments
        self._states = states

    def report(self, result: SyncResult) -> None:
        """Keep a target's result for the pages, and count its write."""
        self._states.note(result)
        if result.write is not None:
            decision = result.decision
            up = decision.desired > (decision.current or 0)
            self._instruments.written(result.write, up=up)

    def fault(self, error: BaseException) -> None:  # noqa: ARG002 - the log has it
        """Count a defect."""
        self._instruments.faults.inc()

    def clock_set(self, seconds: float) -> None:
        """Count a step of the clock."""
        self._states.clock_set(seconds)
        self._instruments.clock_steps.inc()

    def synced(self, summary: SyncSummary) -> None:
        """Count a sync and its decisions."""
        self._instruments.synced(summary.seconds, summary.targets, summary.failed)


class _CurrentState(Collector):
    """What is not counted as it happens, but read when a page is made."""

    def __init__(self, health: Health, states: TargetStates) -> None:
        self.event_counts: Callable[[], EventCounts] = EventCounts
        self.store_errors: Callable[[], int] = lambda: 0
        self.record: Callable[[], RecordStatus] = RecordStatus
        self.breakers: Callable[[], Sequence[BreakerStatus]] = tuple
        self._health = health
        self._states = states

    def collect(self) -> Iterable[Metric]:
        """Yield the state of the daemon and its targets."""
        yield _family(metric_catalog.LIVE, {"": self._health.stalled() is None})
        yield _family(metric_catalog.READY, {"": self._health.ready})
        components = {str(one.name): one.ok for one in self._health.components()}
        yield _family(metric_catalog.COMPONENT_OK, components)
        yield _family(metric_catalog.TARGETS, self._states.outcomes())
        yield _family(metric_catalog.STORE_ERRORS, {"": self.store_errors()})
        record = self.record()
        oldest = {} if record.oldest is None else {"": record.oldest}
        yield _family(metric_catalog.RECORD_BYTES, {"": record.size})
        yield _family(metric_catalog.RECORD_OLDEST, oldest)
        yield _family(metric_catalog.RECORD_DROPPED, {"": record.dropped})
        yield _family(metric_catalog.EVENTS, asdict(self.event_counts()))
        yield from self._of_breakers()

    def _of_breakers(self) -> Iterable[Metric]:
        by_server = {wording.server_label(one.server): one for one in self.breakers()}
        tripped = {name: one for name, one in by_server.items() if one.until is not None}
        yield _family(metric_catalog.BREAKER_TRIPPED, {name: name in tripped for name in by_server})
        yield _family(
            metric_catalog.BREAKER_UNTIL, {name: one.until or 0.0 for name, one in tripped.items()}
        )
        yield _family(
            metric_catalog.BREAKER_HELD, {name: one.down for name, one in by_server.items()}
        )
        yield _family(
            metric_catalog.BREAKER_TARGETS, {name: one.of for name, one in by_server.items()}
        )


def _family(family: metric_catalog.Family, values: Mapping[str, float]) -> Metric:
    """Return the samples of a metric by the value of its label, which is empty for one without."""
    counts = family.kind is metric_catalog.Kind.COUNTER
    kind = CounterMetricFamily if counts else GaugeMetricFamily
    metric = kind(family.name, family.meaning, labels=family.labels)
    for label, value in values.items():
        metric.add_metric([label] if label else [], value)
    return metric
