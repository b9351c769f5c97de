"""The workers of the demo: a Deployment in a namespace of its own."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self, cast

from autoscaler import clock
from autoscaler.adapters.cluster import Api, Failure
from autoscaler.demo.apiserver import deployment
from autoscaler.demo.children import DemoError
from autoscaler.demo.queue import Workers
from autoscaler.demo.story import DEPLOYMENT

_REQUEST = 10.0
_REMOVAL = 90.0
_POLL = 0.25


class Fleet:
    """Creates namespace and Deployment, and removes both at the end of its `with` statement.

    Raises DemoError if they cannot be created; an existing namespace is never touched.  ``say``
    gets sentences about what takes time.
    """

    def __init__(self, api: Api, namespace: str, say: Callable[[str], None]) -> None:
        self._api = api
        self._namespace = namespace
        self._say = say
        self._pause = threading.Event()
        self._path = f"/apis/apps/v1/namespaces/{namespace}/deployments"

    def __enter__(self) -> Self:
        metadata: dict[str, object] = {"name": self._namespace}
        made = self._request("POST", "/api/v1/namespaces", {"metadata": metadata})
        if isinstance(made, Failure):
            if made.reason == "AlreadyExists":
                raise DemoError(
                    f"The namespace {self._namespace} is there already, and the demo removes what "
                    "it works in: name one that does not exist with --namespace, or remove it."
                )
            raise DemoError(f"The namespace {self._namespace} cannot be made: {made.message}")
        made = self._request("POST", self._path, dict(deployment(DEPLOYMENT, 1)))
        if isinstance(made, Failure):
            self._remove()
            raise DemoError(f"The Deployment {DEPLOYMENT} cannot be made: {made.message}")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._remove()

    def workers(self) -> Workers | None:
        """Return the current workers; None if they cannot be read."""
        found = self._request("GET", f"{self._path}/{DEPLOYMENT}", None)
        if isinstance(found, Failure):
            return None
        spec = cast("dict[str, int]", found["spec"])
        status = cast("dict[str, int]", found.get("status", {}))
        return Workers(status.get("readyReplicas", 0), spec["replicas"])

    def _request(
        self, method: str, path: str, body: dict[str, object] | None
    ) -> dict[str, object] | Failure:
        return self._api.once(method, path, clock.monotonic() + _REQUEST, body=body)

    def _remove(self) -> None:
        """Delete the namespace with its content, and wait until it is gone."""
        path = f"/api/v1/namespaces/{self._namespace}"
        deadline = clock.monotonic() + _REMOVAL
        waiting = False
        while True:
            answer = self._request("GET" if waiting else "DELETE", path, None)
            if isinstance(answer, Failure) and answer.status == 404:
                return
            if clock.monotonic() > deadline:
                why = answer.message if isinstance(answer, Failure) else "it is still terminating"
                self._say(
                    f"The namespace {self._namespace} is not gone ({why}); remove it with "
                    f"kubectl delete namespace {self._namespace}"
                )
                return
            if not waiting and not isinstance(answer, Failure):
                waiting = True
            self._pause.wait(_POLL)
