"""A scripted server and a connection to it, and the faults that it plays."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from autoscaler import clock
from autoscaler.core.observation import ReadFailure, Scale
from autoscaler.kubernetes import Api, ConnectError, Scales
from tests.worlds.cluster.connecting import connect
from tests.worlds.cluster.manifests import WEB
from tests.worlds.cluster.scripted import Answer, ScriptedServer, failure

CONFLICT = failure(409, "Conflict", "object modified", name="web")
SLOW_DOWN = failure(429, "TooManyRequests", "retry later")
BROKEN = failure(500, "InternalError", "etcdserver: leader changed")
UNAVAILABLE = failure(503, "ServiceUnavailable", "starting")
UNAUTHORIZED = failure(401, "Unauthorized", "Unauthorized")
RESET = Answer(fault="reset")
HANG = Answer(fault="hang")
HTML = Answer(502, b"<html><h1>Bad Gateway</h1></html>")


def at_once(answer: Answer) -> Answer:
    """Let the server ask for no wait at all, so that a test need not."""
    return Answer(answer.status, answer.body, {"Retry-After": "0"})


Script = Callable[..., tuple[ScriptedServer, Api]]
"""Starts a server that gives the answers in turn, and a connection to it."""


def refusal_of(kubeconfig: Path) -> str:
    """Return why a kubeconfig cannot be used, which must be so."""
    with pytest.raises(ConnectError) as raised:
        connect(kubeconfig)
    return str(raised.value)


def read_web(api: Api, seconds: float = 10.0) -> Scale | ReadFailure:
    return Scales(api).read("shop", WEB, clock.monotonic() + seconds)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail the test when its part takes longer.

    Choose a bound between the right time, on a machine that pauses for some seconds, and
    what would be wrong.
    """
    began = clock.monotonic()
    yield
    assert clock.monotonic() - began < seconds
