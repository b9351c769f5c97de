"""A kubelet without containers: it binds pods to one node and reports them running."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import requests

from tests.worlds.controlplane.api import STRATEGIC_PATCH, Api, ApiError, Json, Watch

NODE = "fake-node"

_RETRY_AFTER = 0.2
_WATCH_SECONDS = 60


class _WatchExpiredError(Exception):
    """The watch reported an error, such as 410 Gone; only a new list can follow."""


class FakeKubelet:
    """Takes the places of scheduler and kubelet for the pods of all namespaces.

    A pod is bound, runs and is ready at once, and disappears at once when it is deleted. What a
    test writes into the status of a pod that has been ready stays.
    """

    def __init__(self, url: str, token: str, ca_file: Path, *, workers: int = 8) -> None:
        self._api = Api(url, token, ca_file, connections=workers + 2)
        self._workers = ThreadPoolExecutor(workers, thread_name_prefix="kubelet")
        self._lock = threading.Lock()
        self._admitted: set[str] = set()
        self._ending: set[str] = set()
        self._stopping = threading.Event()
        self._watch: Watch | None = None

    def __enter__(self) -> Self:
        """Create the node and begin with the pods that exist; an API that refuses raises here."""
        capacity = {"cpu": "1000", "memory": "1Ti", "pods": "10000"}
        status = {"capacity": capacity, "allocatable": capacity}
        try:
            self._api.create("/api/v1/nodes", {"metadata": {"name": NODE}, "status": status})
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        self._watcher = threading.Thread(target=self._watch_pods, args=[self._list()], daemon=True)
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the threads; pods stay as they are."""
        self._stopping.set()
        with self._lock:
            if self._watch:
                self._watch.cancel()
        self._watcher.join()
        self._workers.shutdown(cancel_futures=True)
        self._api.close()

    def _list(self) -> str:
        """Look at every pod and return the version from which a watch continues."""
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
                continue
            except (ApiError, _WatchExpiredError):
                version = None
            except requests.RequestException:
                """The apiserver is away. The version stays good, or is answered with 410 Gone."""
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
                    self._workers.submit(self._attempt, self._remove, pod)
            elif meta["uid"] not in self._admitted:
                self._admitted.add(meta["uid"])
                is_over = pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}
                if not is_ready(pod) and not is_over:
                    self._workers.submit(self._attempt, self._run, pod)

    def _forget(self, pod: Json) -> None:
        with self._lock:
            self._admitted.discard(pod["metadata"]["uid"])
            self._ending.discard(pod["metadata"]["uid"])

    def _attempt(self, action: Callable[[Json], None], pod: Json) -> None:
        """Act on the pod; after a failure, look at it again a little later, unless it is gone."""
        while not self._stopping.is_set():
            try:
                action(pod)
            except ApiError as error:
                if error.status == 404:
                    return
            except requests.RequestException:
                """The apiserver is away."""
            else:
                return
            self._stopping.wait(_RETRY_AFTER)
            action = self._reconsider

    def _reconsider(self, pod: Json) -> None:
        current = self._api.get(_path(pod))
        self._forget(pod)
        self._observe(current)

    def _run(self, pod: Json) -> None:
        """Bind the pod and report it running and ready."""
        if "nodeName" not in pod["spec"]:
            target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
            metadata = {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
            self._api.create(f"{_path(pod)}/binding", {"metadata": metadata, "target": target})
        self._api.patch(f"{_path(pod)}/status", running(pod), STRATEGIC_PATCH)

    def _remove(self, pod: Json) -> None:
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        self._api.delete(_path(pod), options)


def _path(pod: Json) -> str:
    meta = pod["metadata"]
    return f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"


def is_ready(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions") or []
    return any((state["type"], state["status"]) == ("Ready", "True") for state in conditions)


def running(pod: Json) -> Json:
    """Return the strategic merge patch that reports the pod running and ready since now.

    It names the pod's uid, so that it cannot reach another pod of the same name. The address is
    loopback: nothing that a test sends to a pod leaves the machine.
    """
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    started = pod.get("status", {}).get("startTime") or now
    containers = [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": container["image"],
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": started}},
        }
        for container in pod["spec"]["containers"]
    ]
    return {
        "metadata": {"uid": pod["metadata"]["uid"]},
        "status": {
            "phase": "Running",
            "startTime": started,
            "hostIP": "127.0.0.1",
            "podIP": "127.0.0.1",
            "podIPs": [{"ip": "127.0.0.1"}],
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": now}
                for kind in ("Initialized", "ContainersReady", "Ready")
            ],
            "containerStatuses": containers,
        },
    }
