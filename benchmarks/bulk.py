"""Many requests to one API server at a time."""

import json
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

import urllib3

from tests.worlds.controlplane.api import MERGE_PATCH, Json
from tests.worlds.controlplane.server import ControlPlane

_THREADS = 16
_IN_HAND = 4 * _THREADS


class RequestFailedError(Exception):
    """The API server refused a request; the message says which and why."""


@dataclass(frozen=True)
class Request:
    """One request; `body` is JSON."""

    method: str
    path: str
    body: Json | None = None


class Bulk:
    """Sends requests as the administrator of a control plane, sixteen at a time.

    It costs a third of the CPU of `tests.worlds.controlplane.api`, which a fleet of 20,000 needs.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self._pool = urllib3.connection_from_url(
            plane.url,
            ca_certs=str(plane.ca_file),
            maxsize=_THREADS + 2,
            block=True,
            headers={"Authorization": f"Bearer {plane.admin_token}"},
            timeout=urllib3.Timeout(connect=5, read=60),
            retries=urllib3.Retry(5, status_forcelist=[429], allowed_methods=None),
        )
        self._threads = ThreadPoolExecutor(_THREADS, "bulk")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(cancel_futures=True)
        self._pool.close()

    def send(self, requests: Iterable[Request]) -> int:
        """Send them all, in any order, and return how many; the first refusal raises."""
        count = 0
        pending: deque[Future[None]] = deque()
        for request in requests:
            pending.append(self._threads.submit(self._send, request))
            count += 1
            if len(pending) >= _IN_HAND:
                pending.popleft().result()
        for future in pending:
            future.result()
        return count

    def text(self, path: str) -> str:
        """Return what a GET of the path answers."""
        return self._ok(Request("GET", path)).data.decode()

    def stream(self, path: str) -> urllib3.BaseHTTPResponse:
        """Return the answer to a GET as it comes in; the caller closes it."""
        return self._pool.request(
            "GET", path, preload_content=False, timeout=urllib3.Timeout(connect=5, read=None)
        )

    def _send(self, request: Request) -> None:
        self._ok(request)

    def _ok(self, request: Request) -> urllib3.BaseHTTPResponse:
        kind = MERGE_PATCH if request.method == "PATCH" else "application/json"
        response = self._pool.request(
            request.method,
            request.path,
            body=None if request.body is None else json.dumps(request.body),
            headers={**self._pool.headers, "Content-Type": kind},
        )
        if response.status >= 300:
            raise RequestFailedError(
                f"{request.method} {request.path}: {response.status}: {response.data[:500]!r}"
            )
        return response
