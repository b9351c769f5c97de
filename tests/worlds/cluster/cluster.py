"""The cluster under test: an address, tokens, and raw requests that never raise for a status."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from autoscaler import clock
from autoscaler.transport import Observer
from tests.worlds.controlplane.api import MERGE_PATCH, ApiSession, Json
from tests.worlds.controlplane.credentials import kubeconfig

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: its HTTP status and its JSON."""

    status: int
    body: Json

    @property
    def version(self) -> str:
        """The resourceVersion of the object or list."""
        version: str = self.body["metadata"]["resourceVersion"]
        return version


class ClusterUnderTest(ApiSession):
    """A server of the Kubernetes API with workload controllers and pods that become ready.

    ``token`` may do everything, ``reader_token`` may only read.
    """

    def __init__(
        self, url: str, token: str, reader_token: str = "", ca_file: Path | None = None
    ) -> None:
        super().__init__(url, token, ca_file)
        self.reader_token, self._ca_file = reader_token, ca_file

    def request(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        token: str | None = None,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send one request, as the administrator unless a token is given ("" for none)."""
        response = self.respond(
            method, path, body, token=token, content_type=content_type, params=query
        )
        # An answer as text, as for a path that is not served, is not an object.
        is_json = response.headers.get("Content-Type", "").startswith("application/json")
        return Reply(response.status_code, response.json() if is_json else {})

    def get(self, path: str, **query: str) -> Reply:
        return self.request("GET", path, query=query)

    def create(self, path: str, body: Json) -> Json:
        """POST what must be accepted."""
        reply = self.request("POST", path, body)
        assert reply.status == 201, reply
        return reply.body

    def patch(self, path: str, body: Json) -> Reply:
        return self.request("PATCH", path, body, content_type=MERGE_PATCH)

    def wait_served(self, path: str, status: int = 200) -> None:
        """Wait until a path answers with a status: a CRD takes a moment to appear and to go."""
        eventually(lambda: self.get(path).status, lambda seen: seen == status)

    @contextmanager
    def watch(self, path: str, **query: str) -> Iterator[Iterator[Json]]:
        """Watch: the events as they come; a server that says nothing for 20 s fails the test."""
        params = {"watch": "1", "timeoutSeconds": "15", **query}
        with self.respond("GET", path, params=params, timeout=20, stream=True) as response:
            if response.status_code == 200:
                yield (json.loads(line) for line in response.iter_lines(chunk_size=None) if line)
            else:
                yield iter([{"type": "ERROR", "object": response.json()}])

    def write_kubeconfig(self, path: Path, token: str | None = None) -> Path:
        """Write a kubeconfig, of the administrator unless a token is given."""
        server = {"server": self.url}
        if self._ca_file is not None:
            server["certificate-authority"] = str(self._ca_file)
        path.write_text(kubeconfig(server, {"token": self.token if token is None else token}))
        return path


class Noting(Observer):
    """Puts each note down, with a word before it where it is good news."""

    def __init__(self, notes: list[str]) -> None:
        self._notes = notes

    def watch_changed(self, ok: bool, sentence: str) -> None:
        self._notes.append(f"good: {sentence}" if ok else sentence)

    def writes_changed(self, what: str, ok: bool, sentence: str) -> None:  # noqa: ARG002 - in it
        self.watch_changed(ok, sentence)


def soon() -> float:
    """Return a deadline that no answer of a server at work comes near."""
    return clock.monotonic() + 10


def eventually(look: Callable[[], T], wanted: Callable[[T], bool], seconds: float = 30.0) -> T:
    """Look until what is seen is wanted, and return it."""
    deadline = time.monotonic() + seconds
    while True:
        seen = look()
        if wanted(seen):
            return seen
        assert time.monotonic() < deadline, f"not seen in {seconds} s; last: {seen}"
        time.sleep(0.05)
