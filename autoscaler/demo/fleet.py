"""The workloads of the demo: Deployments in a namespace of its own."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, Self

from autoscaler import clock
from autoscaler.demo.apiserver import deployment
from autoscaler.demo.children import DemoError
from autoscaler.demo.queue import Workers
from autoscaler.demo.story import DEPLOYMENT, Service
from autoscaler.kubernetes import Api, Failure

_REQUEST = 10.0
_REMOVAL = 90.0
_POLL = 0.25
_WORKERS = Service(DEPLOYMENT, 1, {})


class Fleet:
    """Creates namespace and Deployments, and removes all at the end of its `with` statement.

    Raises DemoError if they cannot be created; an existing namespace is never touched.  ``say``
    gets sentences about what takes time.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        services: Sequence[Service],
        say: Callable[[str], None],
    ) -> None:
        self.namespace = namespace
        self._api = api
        self._services = (_WORKERS, *services)
        self._say = say
        self._path = f"/apis/apps/v1/namespaces/{namespace}/deployments"

    def __enter__(self) -> Self:
        metadata: dict[str, object] = {"name": self.namespace}
        made = self._request("POST", "/api/v1/namespaces", {"metadata": metadata})
        if isinstance(made, Failure):
            if made.status == 409:
                raise DemoError(
                    f"The namespace {self.namespace} is there already, and the demo removes what "
                    "it works in: name one that does not exist with --namespace, or remove it."
                )
            raise DemoError(f"The namespace {self.namespace} cannot be made: {made.message}")
        for service in self._services:
            made = self._request("POST", self._path, _manifest(service))
            if isinstance(made, Failure):
                self._remove()
                raise DemoError(f"The Deployment {service.name} cannot be made: {made.message}")
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def workers(self) -> Workers | None:
        """Return the current workers; None if they cannot be read."""
        workload = self._request("GET", f"{self._path}/{DEPLOYMENT}", None)
        if isinstance(workload, Failure):
            return None
        ready = workload.get("status", {}).get("readyReplicas", 0)
        return Workers(ready, workload["spec"]["replicas"])

    def pods(self, name: str) -> list[str] | None:
        """Return the pods of a Deployment that run; None if they cannot be read."""
        path = f"/api/v1/namespaces/{self.namespace}/pods?labelSelector=app%3D{name}"
        listed = self._request("GET", path, None)
        if isinstance(listed, Failure):
            return None
        return [
            pod["metadata"]["name"]
            for pod in listed["items"]
            if pod.get("status", {}).get("phase") == "Running"
            and "deletionTimestamp" not in pod["metadata"]
        ]

    def _request(
        self, method: str, path: str, body: dict[str, object] | None
    ) -> dict[str, Any] | Failure:
        return self._api.once(method, path, clock.monotonic() + _REQUEST, body=body)

    def _remove(self) -> None:
        """Delete the namespace with its content, and wait until it is gone."""
        path = f"/api/v1/namespaces/{self.namespace}"
        deadline = clock.monotonic() + _REMOVAL
        waiting = False
        while True:
            answer = self._request("GET" if waiting else "DELETE", path, None)
            if isinstance(answer, Failure) and answer.status == 404:
                return
            if clock.monotonic() > deadline:
                why = answer.message if isinstance(answer, Failure) else "it is still terminating"
                self._say(
                    f"The namespace {self.namespace} is not gone ({why}); remove it with "
                    f"kubectl delete namespace {self.namespace}"
                )
                return
            if not waiting and not isinstance(answer, Failure):
                waiting = True
            threading.Event().wait(_POLL)


def _manifest(service: Service) -> dict[str, object]:
    made = deployment(service.name, service.replicas)
    made["metadata"]["annotations"] = dict(service.annotations)
    if service.cpu:
        (container,) = made["spec"]["template"]["spec"]["containers"]
        container["resources"] = {"requests": {"cpu": service.cpu}}
    return dict(made)
