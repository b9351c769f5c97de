"""A kubelet without containers: it binds pods to one node and reports them running."""

import math
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import requests

from tests.controlplane import podstatus
from tests.controlplane.api import STRATEGIC_PATCH, Api, ApiError, Json, Watch
from tests.controlplane.schedule import Schedule

NODE = "fake-node"

_RETRY_AFTER = 0.2
_WATCH_SECONDS = 60


class _WatchExpiredError(Exception):
    """The watch reported an error, such as 410 Gone; only a new list can follow."""


class FakeKubelet:
    """Takes the places of scheduler and kubelet for the pods of all namespaces.

    A pod is bound at once, runs at once, and is ready `ready_after` seconds later; a pod marked for
    deletion disappears `terminate_after` seconds later. Both may change while it works, and the
    annotations of `podstatus` override them for one pod. What a test writes into the status of a
    pod that has been ready stays.
    """

    def __init__(
        self,
        url: str,
        token: str,
        ca_file: Path,
        *,
        ready_after: float = 0.0,
        terminate_after: float = 0.0,
        workers: int = 8,
    ) -> None:
        self.ready_after = ready_after
        self.terminate_after = terminate_after
        self._api = Api(url, token, ca_file, connections=workers + 2)
        self._schedule = Schedule()
        self._lock = threading.Lock()
        self._admitted: set[str] = set()
        self._ending: set[str] = set()
        self._stopping = threading.Event()
        self._watch: Watch | None = None
        self._threads = [threading.Thread(target=self._work) for _ in range(workers)]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Create the node and begin with the pods that exist; an API that refuses raises here."""
        self._create_node()
        version = self._list()
        self._threads.append(threading.Thread(target=self._watch_pods, args=[version]))
        for thread in self._threads:
            thread.daemon = True
            thread.start()

    def stop(self) -> None:
        """End the threads; pods stay as they are."""
        self._stopping.set()
        self._schedule.close()
        with self._lock:
            if self._watch:
                self._watch.cancel()
        for thread in self._threads:
            thread.join()
        self._api.close()

    def set_ready(self, namespace: str, name: str, *, ready: bool) -> None:
        """Report a running pod ready or not ready."""
        pod = self._api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
        self._report(pod, ready=ready)

    def _create_node(self) -> None:
        capacity = {"cpu": "1000", "memory": "1Ti", "pods": "10000"}
        node = {
            "metadata": {"name": NODE},
            "status": {"capacity": capacity, "allocatable": capacity},
        }
        try:
            self._api.create("/api/v1/nodes", node)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise

    def _list(self) -> str:
        """Look at every pod and return the version from which a watch goes on."""
        pods = self._api.get("/api/v1/pods")
        for pod in pods["items"]:
            self._observe(pod)
        present = {pod["metadata"]["uid"] for pod in pods["items"]}
        with self._lock:
            self._admitted &= present
            self._ending &= present
        version: str = pods["metadata"]["resourceVersion"]
        return version

    def _watch_pods(self, version: str | None) -> None:
        """Follow the pods until `stop`, over the ends of watches and of apiservers."""
        while not self._stopping.is_set():
            try:
                version = self._follow(version or self._list())
            except (ApiError, _WatchExpiredError):
                version = None
                self._stopping.wait(_RETRY_AFTER)
            except requests.RequestException:
                # The apiserver is away. The version stays good, or is answered with 410 Gone.
                self._stopping.wait(_RETRY_AFTER)

    def _follow(self, version: str) -> str:
        """Watch from `version` until the watch ends, and return the version it reached."""
        watch = self._api.watch(
            "/api/v1/pods",
            resourceVersion=version,
            allowWatchBookmarks="true",
            timeoutSeconds=_WATCH_SECONDS,
        )
        with self._lock:
            self._watch = watch
            if self._stopping.is_set():
                watch.cancel()
        for event in watch:
            if event["type"] == "ERROR":
                raise _WatchExpiredError(event["object"].get("message"))
            if event["type"] == "DELETED":
                self._forget(event["object"])
            elif event["type"] != "BOOKMARK":
                self._observe(event["object"])
            version = event["object"]["metadata"]["resourceVersion"]
        return version

    def _observe(self, pod: Json) -> None:
        """Plan what a pod in this state needs, once for each pod."""
        meta = pod["metadata"]
        with self._lock:
            if "deletionTimestamp" in meta:
                if meta["uid"] not in self._ending:
                    self._ending.add(meta["uid"])
                    after = podstatus.delay(pod, podstatus.TERMINATE_AFTER, self.terminate_after)
                    self._plan(after, self._remove, pod)
            elif meta["uid"] not in self._admitted:
                self._admitted.add(meta["uid"])
                if not podstatus.is_ready(pod) and not podstatus.is_over(pod):
                    self._plan(0, self._run, pod)

    def _forget(self, pod: Json) -> None:
        with self._lock:
            self._admitted.discard(pod["metadata"]["uid"])
            self._ending.discard(pod["metadata"]["uid"])

    def _plan(self, after: float, action: Callable[[Json], None], pod: Json) -> None:
        if math.isfinite(after):
            self._schedule.put(after, partial(self._attempt, action, pod))

    def _work(self) -> None:
        while call := self._schedule.take():
            call()

    def _attempt(self, action: Callable[[Json], None], pod: Json) -> None:
        """Act on the pod; after a failure, look at it anew a little later, unless it is gone."""
        try:
            action(pod)
        except ApiError as error:
            if error.status != 404:
                self._plan(_RETRY_AFTER, self._reconsider, pod)
        except requests.RequestException:
            self._plan(_RETRY_AFTER, self._reconsider, pod)

    def _reconsider(self, pod: Json) -> None:
        current = self._api.get(_path(pod))
        self._forget(pod)
        self._observe(current)

    def _run(self, pod: Json) -> None:
        """Bind the pod and report it running, and ready too if that needs no delay."""
        if "nodeName" not in pod["spec"]:
            target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
            metadata = {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
            self._api.create(f"{_path(pod)}/binding", {"metadata": metadata, "target": target})
        after = podstatus.delay(pod, podstatus.READY_AFTER, self.ready_after)
        reported = self._report(pod, ready=after <= 0)
        if after > 0:
            self._plan(after, self._report_ready, reported)

    def _report_ready(self, pod: Json) -> None:
        self._report(pod, ready=True)

    def _report(self, pod: Json, *, ready: bool) -> Json:
        status = podstatus.running(pod, ready=ready)
        return self._api.patch(f"{_path(pod)}/status", status, STRATEGIC_PATCH)

    def _remove(self, pod: Json) -> None:
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        self._api.delete(_path(pod), options)


def _path(pod: Json) -> str:
    meta = pod["metadata"]
    return f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
