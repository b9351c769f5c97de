"""The queue of the demo, simulated: messages arrive, workers consume them; with its exporter."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Self

from prometheus_client import CollectorRegistry, Gauge, start_http_server

from autoscaler import clock
from autoscaler.demo.children import PeriodicTask
from autoscaler.demo.story import (
    CPU,
    LOAD,
    METRIC,
    QUEUE,
    RUNNING,
    VLLM,
    WAITING,
    WEB,
    Story,
    loads,
    vllm_requests,
    web_cores,
)

_TICK = 0.25


class Workers(NamedTuple):
    """The number of ready and of desired workers."""

    ready: int
    desired: int


class QueueState(NamedTuple):
    """The queue at an instant, ``elapsed`` seconds into the story."""

    elapsed: float = 0.0
    published: float = 0.0
    consumed: float = 0.0
    arrival_rate: float = 0.0
    phase: str = ""
    workers: Workers = Workers(0, 0)

    @property
    def waiting(self) -> int:
        """The number of whole messages in the queue."""
        return int(self.published - self.consumed + 1e-6)


def step(story: Story, state: QueueState, elapsed: float, workers: Workers) -> QueueState:
    """Return the state at a later instant, if there were these workers since the last one."""
    published = story.published(elapsed)
    able = workers.ready * story.worker_rate * (elapsed - state.elapsed)
    phase = story.phase_at(elapsed)
    return QueueState(
        elapsed=elapsed,
        published=published,
        consumed=min(published, state.consumed + able),
        arrival_rate=phase.rate,
        phase=phase.name,
        workers=workers,
    )


class RunningQueue(PeriodicTask):
    """Runs the simulation in real time in a thread, from `begin` on, inside a `with` statement.

    ``workers`` returns the workers, or None while they are unknown: then only the time changes.
    ``publish`` gets each state.
    """

    def __init__(
        self,
        story: Story,
        workers: Callable[[], Workers | None],
        publish: Callable[[QueueState], None],
    ) -> None:
        super().__init__(_TICK)
        self._story = story
        self._workers = workers
        self._publish = publish
        self._state = QueueState()
        self._began: float | None = None

    @property
    def state(self) -> QueueState:
        """The latest state; before `begin` only the workers in it change."""
        return self._state

    def begin(self) -> None:
        """Begin the story."""
        self._began = clock.monotonic()

    def _tick(self) -> None:
        workers = self._workers() or self._state.workers
        if self._began is None:
            self._state = self._state._replace(workers=workers)
        else:
            elapsed = clock.monotonic() - self._began
            self._state = step(self._story, self._state, elapsed, workers)
        self._publish(self._state)


_EXPORTED_EVERY = 1.0
_CONTAINER = "pause"


class Exporter:
    """Serves `/metrics` inside a `with` statement."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._waiting = self._gauge(METRIC, "Messages waiting in the queue.")
        self._load = self._gauge(LOAD, "The load of a service.", "service")
        of_pod = ("namespace", "pod")
        self._of_pods = {
            CPU: self._gauge(CPU, "The cores that a container uses.", *of_pod, "container"),
            RUNNING: self._gauge(RUNNING, "Requests that a model server runs.", *of_pod),
            WAITING: self._gauge(WAITING, "Requests that wait for a model server.", *of_pod),
        }
        self._pods: dict[str, set[tuple[str, ...]]] = {name: set() for name in self._of_pods}

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels or ("queue",), registry=self._registry)

    def __enter__(self) -> Self:
        self.publish(QueueState())
        self._server, self._thread = start_http_server(0, "127.0.0.1", self._registry)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def address(self) -> str:
        """Host and port to scrape."""
        return f"127.0.0.1:{self._server.server_port}"

    def publish(self, state: QueueState) -> None:
        """Set the state that the next scrape reads."""
        self._waiting.labels(QUEUE).set(state.waiting)

    def publish_loads(self, loads: Mapping[str, float]) -> None:
        """Set the load of each service."""
        for service, load in loads.items():
            self._load.labels(service).set(load)

    def publish_pods(self, metric: str, values: Mapping[tuple[str, ...], float]) -> None:
        """Set a metric of pods by namespace, pod and perhaps container; others are removed."""
        gauge = self._of_pods[metric]
        for labels, value in values.items():
            gauge.labels(*labels).set(value)
        for gone in self._pods[metric] - values.keys():
            gauge.remove(*gone)
        self._pods[metric] = set(values)


class Traffic(PeriodicTask):
    """Publishes the load of all services inside a `with` statement.

    It is this share of the only cluster's load.  ``pods`` returns the running pods of a
    Deployment, or None while they are unknown.
    """

    def __init__(
        self,
        exporter: Exporter,
        namespace: str,
        pods: Callable[[str], list[str] | None],
        share: float,
    ) -> None:
        super().__init__(_EXPORTED_EVERY)
        self._exporter = exporter
        self._namespace = namespace
        self._pods = pods
        self._share = share
        self._began = clock.monotonic()

    def _tick(self) -> None:
        elapsed = clock.monotonic() - self._began
        whole = loads(elapsed)
        self._exporter.publish_loads({name: self._share * load for name, load in whole.items()})
        names = self._pods(WEB)
        if names is not None:
            each = self._share * web_cores(elapsed) / max(len(names), 1)
            self._exporter.publish_pods(
                CPU, {(self._namespace, name, _CONTAINER): each for name in names}
            )
        names = self._pods(VLLM)
        if names is not None:
            both = vllm_requests(elapsed, len(names), self._share)
            for metric, each in zip((RUNNING, WAITING), both, strict=True):
                self._exporter.publish_pods(
                    metric, {(self._namespace, name): each for name in names}
                )
