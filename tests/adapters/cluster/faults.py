"""A scripted server and a connection to it, and the faults that it plays."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from autoscaler import clock
from autoscaler.adapters.cluster import Api
from autoscaler.core.spec import ScaleTargetRef
from tests.adapters.cluster.scripted import Answer, ScriptedServer, failure

WEB = ScaleTargetRef("apps/v1", "Deployment", "web")
CONFLICT = failure(409, "Conflict", "the object has been modified", name="web")
SLOW_DOWN = failure(429, "TooManyRequests", "too many requests, please try again later")
BROKEN = failure(500, "InternalError", "etcdserver: leader changed")
UNAVAILABLE = failure(503, "ServiceUnavailable", "the server is starting")
RESET = Answer(fault="reset")
HANG = Answer(fault="hang")
HTML = Answer(502, b"<html><h1>Bad Gateway</h1></html>")


def at_once(answer: Answer) -> Answer:
    """Let the server ask for no wait at all, so that a test need not."""
    return Answer(answer.status, answer.body, {"Retry-After": "0"})


class Script(Protocol):
    """Starts a server that gives the answers in turn, and a connection to it."""

    def __call__(
        self, *answers: Answer, timeout: float = 5.0, stop: threading.Event | None = None
    ) -> tuple[ScriptedServer, Api]:
        """Start them."""
        ...


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail the test when its part takes longer.

    Choose a bound between what is right, on a machine that stands still for some seconds, and
    what would be wrong.
    """
    began = clock.monotonic()
    yield
    assert clock.monotonic() - began < seconds
