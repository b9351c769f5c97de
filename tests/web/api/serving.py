"""The API of a daemon on a real listener, and what it answers."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from http.client import HTTPResponse
from typing import Any

from autoscaler.config import Config
from autoscaler.kubernetes.election import ClusterLeader
from autoscaler.persistence.record import DirectoryRecord
from autoscaler.sync.breakers import BreakerStatus
from autoscaler.telemetry.health import Health
from autoscaler.telemetry.metrics import Metrics
from autoscaler.web import api
from autoscaler.web.listener import Listener
from autoscaler.web.site import Views
from tests.web.test_listener import HOST, get, listening

Json = dict[str, Any]
_DEFAULTS = Config.model_construct()  # type: ignore[call-arg] # the rest has defaults


def views_of(
    metrics: Metrics,
    health: Health | None = None,
    *,
    config: Config = _DEFAULTS,
    record: DirectoryRecord | None = None,
    breakers: tuple[BreakerStatus, ...] = (),
    leaders: tuple[ClusterLeader, ...] | None = None,
) -> Views:
    """Return the views of a daemon that has the metrics' targets, by default usual settings."""
    return Views(
        states=metrics.states,
        health=health or Health(),
        config=lambda: config,
        record=record,
        breakers=lambda: breakers,
        leaders=lambda: leaders,
    )


def serving(
    views: Views | None, faults: list[BaseException] | None = None
) -> AbstractContextManager[Listener]:
    """Give a listener with the API; without views the daemon starts."""
    return listening(faults=faults, routes=api.routes(lambda: views))


class Client:
    """Asks a listener's API; keeps the last response."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self.response: HTTPResponse

    def get(self, path: str, status: int = 200, method: str = "GET", **headers: str) -> bytes:
        """Return the body of a path below /api/v1, whose status has to be this."""
        body = self.get_any(path, method, **headers)
        assert self.response.status == status, (self.response.status, body)
        return body

    def get_any(self, path: str, method: str = "GET", **headers: str) -> bytes:
        self.response, body = get(self._listener, f"/api/v1{path}", method, HOST, None, **headers)
        return body

    def json(self, path: str, **headers: str) -> Json:
        return self._parsed(self.get(path, 200, "GET", **headers), "application/json")

    def problem(self, path: str, status: int, method: str = "GET") -> Json:
        problem = self._parsed(self.get(path, status, method), "application/problem+json")
        assert (problem["status"], problem["type"]) == (status, "about:blank")
        return problem

    def _parsed(self, body: bytes, content_type: str) -> Json:
        assert self.response.headers["Content-Type"] == content_type
        parsed: Json = json.loads(body)
        return parsed


@contextmanager
def asking(views: Views | None, faults: list[BaseException] | None = None) -> Iterator[Client]:
    with serving(views, faults) as listener:
        yield Client(listener)
