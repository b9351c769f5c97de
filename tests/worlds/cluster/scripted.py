"""An HTTP server that answers as a test tells it to, once for each request, faults included."""

import json
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.worlds.cluster.localserver import LocalHandler, LocalServer
from tests.worlds.controlplane.api import Json
from tests.worlds.proxies.plays import status_of


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one request.  ``fault`` happens instead of, or in the middle of, the answer."""

    status: int = 200
    body: Json | bytes = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""
    """reset: no answer; cut: half the body; hang: silence; drip: a byte now and then."""


@dataclass(frozen=True, slots=True)
class DisplayedQuery:
    method: str
    path: str
    authorization: str
    body: Json
    headers: tuple[tuple[str, str], ...] = ()


def failure(code: int, reason: str, message: str, **details: object) -> Answer:
    return Answer(code, status_of(code, reason, message) | {"details": details})


def scale(replicas: int, version: str = "7") -> Answer:
    return Answer(
        body={
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {"name": "web", "namespace": "shop", "resourceVersion": version},
            "spec": {"replicas": replicas},
            "status": {"replicas": 1, "selector": "app=web"},
        }
    )


class ScriptedServer(LocalServer):
    """Gives the answers in turn; the last one is repeated."""

    def __init__(self, *answers: Answer) -> None:
        self.asked: list[DisplayedQuery] = []
        self._answers = deque(answers)
        self._lock = threading.Lock()
        super().__init__(_Handler)

    @property
    def methods(self) -> list[str]:
        return [asked.method for asked in self.asked]

    def next_answer(self, asked: DisplayedQuery) -> Answer:
        """Note a request and return what it gets."""
        with self._lock:
            self.asked.append(asked)
            return self._answers.popleft() if len(self._answers) > 1 else self._answers[0]


class AnsweringHandler(LocalHandler):
    """A connection on which answers are sent."""

    def body_of(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, answer: Answer) -> None:
        """Send an answer, or what happens instead of it."""
        if answer.fault == "hang":
            self.server.closing.wait()
        if answer.fault in {"reset", "hang"}:
            self.reset()
            return
        is_text = isinstance(answer.body, bytes)
        body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "text/html" if is_text else "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if answer.fault == "cut":
            self.wfile.write(body[: len(body) // 2])
            self.reset()
        elif answer.fault == "drip":
            for position in range(len(body)):
                self.wfile.write(body[position : position + 1])
                if self.server.closing.wait(0.1):
                    return
        else:
            self.wfile.write(body)


class _Handler(AnsweringHandler):
    server: ScriptedServer

    def do_GET(self) -> None:  # noqa: N802 - http.server's naming
        raw = self.body_of()
        authorization = self.headers.get("Authorization", "")
        body = json.loads(raw) if raw else {}
        headers = tuple(self.headers.items())
        asked = DisplayedQuery(self.command, self.path, authorization, body, headers)
        self.answer(self.server.next_answer(asked))

    do_PUT = do_POST = do_PATCH = do_GET  # noqa: N815 - the base's naming
