"""The metrics of the queue and of the services for Prometheus, on a free loopback port."""

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from prometheus_client import CollectorRegistry, Gauge, start_http_server

from autoscaler.demo.queue import QueueState
from autoscaler.demo.services import CPU, LOAD
from autoscaler.demo.story import METRIC, QUEUE


class Exporter:
    """Serves `/metrics` inside a `with` statement."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._waiting = self._gauge(METRIC, "Messages waiting in the queue.")
        self._published = self._gauge("demo_queue_messages_published", "Messages that came.")
        self._consumed = self._gauge("demo_queue_messages_consumed", "Messages consumed.")
        self._load = self._gauge(LOAD, "The load of a service.", "service")
        labels = ("namespace", "pod", "container")
        self._cpu = self._gauge(CPU, "The cores that a container uses.", *labels)
        self._pods: set[tuple[str, str, str]] = set()

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels or ("queue",), registry=self._registry)

    def __enter__(self) -> Self:
        self.publish(QueueState())
        self._server, self._thread = start_http_server(0, "127.0.0.1", self._registry)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
        self._published.labels(QUEUE).set(int(state.published))
        self._consumed.labels(QUEUE).set(int(state.consumed))

    def publish_loads(self, loads: Mapping[str, float]) -> None:
        """Set the load of each service."""
        for service, load in loads.items():
            self._load.labels(service).set(load)

    def publish_cores(self, cores: Mapping[tuple[str, str, str], float]) -> None:
        """Set the cores by namespace, pod and container; those of other pods are gone."""
        for labels, used in cores.items():
            self._cpu.labels(*labels).set(used)
        for gone in self._pods - cores.keys():
            self._cpu.remove(*gone)
        self._pods = set(cores)
