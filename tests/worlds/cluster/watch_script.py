"""An API server of one collection, whose lists, watches and scale writes a test scripts."""

import json
import socket
import threading
from collections import deque
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

from autoscaler.kubernetes import Api
from tests.worlds.cluster.localserver import LocalServer
from tests.worlds.cluster.scripted import Answer, AnsweringHandler
from tests.worlds.controlplane.api import Json

END = b"end"
"""A step of a watch: the server ends it in good order."""
RESET = b"reset"
"""A step of a watch: the connection breaks."""


def deployment(version: str, replicas: int, name: str = "web") -> Json:
    """Return a Deployment of namespace shop as a list or an event holds it."""
    return {
        "kind": "Deployment",
        "metadata": {"namespace": "shop", "name": name, "resourceVersion": version},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}},
        "status": {"replicas": 1},
    }


def listed(version: str, *items: Json, more: str = "") -> Answer:
    """Answer a list; ``more`` is the token of its next page."""
    return Answer(
        body={"metadata": {"resourceVersion": version, "continue": more}, "items": list(items)}
    )


def event(kind: str, obj: Json) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def bookmark(version: str) -> bytes:
    return event("BOOKMARK", {"metadata": {"resourceVersion": version}})


def gone() -> bytes:
    """Return the event that says that a resourceVersion is too old."""
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    return event("ERROR", status)


class Collection:
    """A collection whose requests play a script: lists, heads of watches and steps of watches.

    ``lists`` and ``heads`` are taken in turn, the last list for good.  `send` gives the watch that
    is open, or else the next one, a step.
    """

    def __init__(self, *lists: Answer) -> None:
        self.lists = deque(lists)
        self.heads: deque[Answer] = deque()
        self.asked: list[str] = []
        """list, list CONTINUE, watch VERSION, PUT: the requests so far."""
        self.page_gate = threading.Event()
        """While this is not set, a later page of a list waits for it."""
        self.page_gate.set()
        self._steps: deque[bytes] = deque()
        self._given = threading.Condition()

    def send(self, *steps: bytes) -> None:
        """Give the watch steps: lines, END or RESET."""
        with self._given:
            self._steps.extend(steps)
            self._given.notify_all()

    def next_step(self, is_left: Callable[[], bool]) -> bytes | None:
        """Take the next step, soon or not at all; a watch whose client went away takes none."""
        with self._given:
            if not self._given.wait_for(lambda: self._steps, 0.05) or is_left():
                return None
            return self._steps.popleft()

    def count(self, what: str) -> int:
        """Count the requests whose note begins so."""
        return sum(note.startswith(what) for note in self.asked)


class WatchScript(LocalServer, Collection):
    """Plays the script of whatever collection it is asked for, and answers writes with ``put``.

    Only the HorizontalPodAutoscalers have a script of their own, `autoscalers`; it is
    empty by default.
    """

    def __init__(self, *lists: Answer, put: Answer | None = None) -> None:
        Collection.__init__(self, *lists)
        self.autoscalers = Collection(listed("1"))
        self.put = put or Answer(500)
        self.authorizations: list[str] = []
        self.before_put = threading.Event()
        """While this is not set, a write waits for it."""
        self.before_put.set()
        LocalServer.__init__(self, _Handler)


Script = Callable[..., tuple[WatchScript, Api]]
"""Starts a server that plays lists and a ``put``, and a connection to it."""


class _Handler(AnsweringHandler):
    server: WatchScript

    def do_GET(self) -> None:  # noqa: N802 - http.server's naming
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        of_autoscalers = url.path.endswith("/horizontalpodautoscalers")
        script = self.server.autoscalers if of_autoscalers else self.server
        if not of_autoscalers:
            self.server.authorizations.append(self.headers.get("Authorization", ""))
        if "watch" not in query:
            script.asked.append(f"list {query.get('continue', '')}".rstrip())
            if "continue" in query:
                script.page_gate.wait(30)
            self.answer(script.lists.popleft() if len(script.lists) > 1 else script.lists[0])
            return
        script.asked.append(f"watch {query['resourceVersion']}")
        if script.heads and (head := script.heads.popleft()).status != 200:
            self.answer(head)
        else:
            self._stream(script)

    def do_PUT(self) -> None:  # noqa: N802 - http.server's naming
        self.body_of()
        self.server.asked.append("PUT")
        self.server.before_put.wait(30)
        self.answer(self.server.put)

    def _stream(self, script: Collection) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while not self.server.closing.is_set():
            step = script.next_step(self._is_left)
            if step is None:
                if self._is_left():
                    return
                continue
            if step == RESET:
                self.reset()
                return
            content = b"" if step == END else step
            self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")
            if step == END:
                return

    def _is_left(self) -> bool:
        """Tell whether the client went away, so that its steps are left to the next watch."""
        try:
            seen: bytes = self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        self.close_connection = self.close_connection or not seen
        return not seen
