"""A page of metrics that tests write and Prometheus scrapes."""

import threading
from collections.abc import Callable, Mapping
from typing import Self

from autoscaler.telemetry.target_states import escaped
from tests.worlds.cluster.localserver import LocalHandler, LocalServer

_Labels = tuple[tuple[str, str], ...]


class Exporter:
    """Serves settable samples in Prometheus' text format on 127.0.0.1, unless told on a free port.

    Use it as a context manager, or `start` and `stop` it.  Thread-safe.
    """

    def __init__(self, port: int = 0) -> None:
        self._port = port
        self._lock = threading.Lock()
        self._samples: dict[str, dict[_Labels, float]] = {}
        self._page: bytes | None = None
        self._server: _Server | None = None

    def set(self, name: str, labels: Mapping[str, str] | None = None, value: float = 0.0) -> None:
        """Give a series a value from the next scrape on; NaN and infinities are values too."""
        with self._lock:
            self._samples.setdefault(name, {})[_key(labels)] = value
            self._page = None

    def remove(self, name: str, labels: Mapping[str, str] | None = None) -> None:
        """Take a series away, or without labels all of the name; Prometheus then calls it stale."""
        with self._lock:
            if labels is None:
                self._samples.pop(name, None)
            else:
                self._samples.get(name, {}).pop(_key(labels), None)
            self._page = None

    def page(self) -> bytes:
        with self._lock:
            if self._page is None:
                lines = [
                    f"{series_of(name, dict(labels))} {value!r}\n"
                    for name, by_labels in self._samples.items()
                    for labels, value in by_labels.items()
                ]
                self._page = "".join(lines).encode()
            return self._page

    @property
    def target(self) -> str:
        """The address to scrape, `127.0.0.1:port`."""
        assert self._server is not None, "the exporter is not started"
        return f"127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> Self:
        self._server = _Server(self.page, self._port).__enter__()
        return self

    def stop(self) -> None:
        """Stop serving; a scrape then fails."""
        if self._server is not None:
            self._server.__exit__()
            self._server = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class _Server(LocalServer):
    def __init__(self, page: Callable[[], bytes], port: int) -> None:
        self.page = page
        super().__init__(_Handler, port)


class _Handler(LocalHandler):
    server: _Server

    def do_GET(self) -> None:  # noqa: N802 - http.server's naming
        page = self.server.page()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)


def _key(labels: Mapping[str, str] | None) -> _Labels:
    return tuple(sorted((labels or {}).items()))


def series_of(name: str, labels: Mapping[str, str]) -> str:
    inner = ",".join(f'{label}="{escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{inner}}}"
