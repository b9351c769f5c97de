"""The load of the services over time, told to the exporter by a thread."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from autoscaler import clock
from autoscaler.demo.exporter import Exporter
from autoscaler.demo.services import WEB, loads, web_cores

_TICK = 1.0
_CONTAINER = "pause"


class Traffic:
    """Publishes the load of all services inside a `with` statement.

    ``pods`` returns the running pods of a Deployment, or None while they are unknown.
    """

    def __init__(
        self, exporter: Exporter, namespace: str, pods: Callable[[str], list[str] | None]
    ) -> None:
        self._exporter = exporter
        self._namespace = namespace
        self._pods = pods
        self._began = clock.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demo-traffic")

    def __enter__(self) -> Self:
        self._exporter.publish_loads(loads(0.0))
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            elapsed = clock.monotonic() - self._began
            self._exporter.publish_loads(loads(elapsed))
            names = self._pods(WEB)
            if names is not None:
                each = web_cores(elapsed) / max(len(names), 1)
                self._exporter.publish_cores(
                    {(self._namespace, name, _CONTAINER): each for name in names}
                )
            self._stop.wait(_TICK)
