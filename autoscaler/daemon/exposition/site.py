"""The pages /metrics, /livez and /readyz, and that of the histories for `autoscaler plan`."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from autoscaler.core.text import rfc3339
from autoscaler.daemon.exposition.metrics import Metrics
from autoscaler.daemon.exposition.views import Views
from autoscaler.daemon.health import REQUIRED, ComponentState, Health

HISTORIES = "/api/v1/histories"
OPEN = frozenset({"/metrics", "/livez", "/readyz"})
"""What is served at `listen` where `web.listen` is another address."""
_TEXT, _JSON = "text/plain; charset=utf-8", "application/json"


@dataclass(frozen=True, slots=True)
class Page:
    """An answer to a request."""

    status: int
    content_type: str
    body: Iterable[bytes]
    """Its parts, perhaps made only while they are sent."""
    large: bool = False
    """Whether it is worth compressing."""
    streamed: bool = False
    """Whether it is sent while it is made, without its length, and never in memory as a whole."""


class Site:
    """Answers requests for pages; any thread may ask."""

    def __init__(self, metrics: Metrics, health: Health) -> None:
        self._metrics = metrics
        self._health = health
        self._pages: dict[str, Callable[[str], Page]] = {
            "/metrics": lambda accept: Page(200, *metrics.page(accept), large=True),
            "/livez": lambda _: self._livez(),
            "/readyz": lambda _: self._readyz(),
            HISTORIES: lambda _: self._histories(),
        }
        self._history_lines: Callable[[], Iterator[bytes]] | None = None
        self._views: Views | None = None

    def show(self, views: Views) -> None:
        """Let the API and the pages show these from now on."""
        self._views = views

    def views(self) -> Views | None:
        """Return what the API and the pages show; None while the daemon starts."""
        return self._views

    def ask_for_histories(self, lines: Callable[[], Iterator[bytes]]) -> None:
        """Call this for the lines of the page of histories, which is a 503 before."""
        self._history_lines = lines

    def page(self, path: str, accept: str) -> Page:
        """Return the page of a path, without its query; ``accept`` is the Accept header."""
        page = self._pages.get(path)
        return text_page(404, "there is no such page") if page is None else page(accept)

    def open_page(self, path: str, accept: str) -> Page:
        """Return the page of a path where pages and API have another address."""
        if path in OPEN:
            return self.page(path, accept)
        return text_page(404, "here are /metrics, /livez and /readyz; the rest is at web.listen")

    def _livez(self) -> Page:
        stalled = self._health.stalled()
        return text_page(200, "ok") if stalled is None else text_page(503, stalled)

    def _histories(self) -> Page:
        lines = self._history_lines
        if lines is None:
            return text_page(503, "the daemon starts, and has not read what it remembers yet")
        return Page(200, "application/x-ndjson", lines(), large=True, streamed=True)

    def _readyz(self) -> Page:
        ready, components = self._health.ready, self._health.components()
        body = {"ready": ready, "components": [component_json(one) for one in components]}
        text = json.dumps(body, indent=2) + "\n"
        return Page(200 if ready else 503, _JSON, [text.encode()])


def component_json(one: ComponentState) -> dict[str, object]:
    """Return the state of a component as the pages show it."""
    return {
        "name": str(one.name),
        "ok": one.ok,
        "required": one.name in REQUIRED,
        "message": one.message,
        "since": rfc3339(one.since),
    }


def text_page(status: int, sentence: str) -> Page:
    """Return a page of one sentence."""
    return Page(status, _TEXT, [f"{sentence}\n".encode()])
