"""Exporters of constant loads: counters that grow steadily and gauges that stay."""

import threading
from collections.abc import Iterator, Mapping

from autoscaler import clock
from tests.worlds.process import free_port
from tests.worlds.prometheus.exporter import Exporter

CPU = "container_cpu_usage_seconds_total"
JOBS = "jobs_total"
DEPTH = "queue_depth"

_Key = tuple[str, tuple[tuple[str, str], ...]]


class LoadExporter(Exporter):
    """An exporter that keeps its port while it is stopped."""

    def __init__(self) -> None:
        self._port_of_its_own = free_port()
        super().__init__(self._port_of_its_own)
        self._since = clock.wall()
        self._counters: dict[_Key, tuple[float, float]] = {}
        self._gauges: dict[_Key, float] = {}
        self._loads = threading.Lock()

    @property
    def address(self) -> str:
        """Where it serves or will serve, `127.0.0.1:port`."""
        return f"127.0.0.1:{self._port_of_its_own}"

    def count(self, name: str, labels: Mapping[str, str], rate: float) -> None:
        """Let a counter grow by ``rate`` a second."""
        with self._loads:
            self._counters[name, tuple(labels.items())] = (1000.0, rate)

    def gauge(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Let a gauge stay at a value."""
        with self._loads:
            self._gauges[name, tuple(labels.items())] = value

    def multiply(self, factor: float, queue: str | None = None) -> None:
        """Change all loads, or only the loads of one queue."""
        now = clock.wall()
        with self._loads:
            for key, (base, rate) in self._counters.items():
                if queue is None or ("queue", queue) in key[1]:
                    # A counter continues from its value, as if it had always grown at this rate.
                    value = base + rate * (now - self._since)
                    self._counters[key] = (
                        value - rate * factor * (now - self._since),
                        rate * factor,
                    )
            for key, value in self._gauges.items():
                if queue is None or ("queue", queue) in key[1]:
                    self._gauges[key] = value * factor

    def samples(self, instant: float) -> Iterator[tuple[str, Mapping[str, str], float]]:
        """Yield what its series are at an instant of the wall clock."""
        with self._loads:
            for (name, labels), (base, rate) in self._counters.items():
                yield name, dict(labels), base + rate * (instant - self._since)
            for (name, labels), value in self._gauges.items():
                yield name, dict(labels), value

    def page(self) -> bytes:
        for name, labels, value in self.samples(clock.wall()):
            self.set(name, labels, value)
        return super().page()
