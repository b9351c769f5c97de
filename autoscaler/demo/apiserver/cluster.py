"""The stand-in as a whole: store, controllers, and the API server on a free loopback port."""

import secrets
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from autoscaler import clock
from autoscaler.demo.apiserver import admission
from autoscaler.demo.apiserver.access import Access
from autoscaler.demo.apiserver.node import Node
from autoscaler.demo.apiserver.objects import KubeObject, is_ready, key, labels
from autoscaler.demo.apiserver.resources import DEPLOYMENTS, NAMESPACES, PODS, Resource
from autoscaler.demo.apiserver.server import ApiServer
from autoscaler.demo.apiserver.store import ObjectStore
from autoscaler.demo.apiserver.workloads import WorkloadControllers, alive

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_IDLE = 1.0


class StandInCluster:
    """A cluster in this process, for a `with` statement.

    ``ready_after`` and ``stop_after`` are seconds; ``kept_events`` is how many changes a watch
    can be behind before it expires.  ``token`` may do everything, ``read_only_token`` may get,
    list and watch; tokens are made up where none is given.
    """

    def __init__(
        self,
        *,
        ready_after: float = 0.0,
        stop_after: float = 0.0,
        token: str | None = None,
        read_only_token: str | None = None,
        kept_events: int = 4096,
        port: int = 0,
    ) -> None:
        self.token = token or secrets.token_urlsafe(24)
        self.read_only_token = read_only_token or secrets.token_urlsafe(24)
        self.store = ObjectStore(kept_events)
        self._address = ("127.0.0.1", port)
        self._access = Access(self.token, self.read_only_token)
        self._node = Node(self.store, ready_after, stop_after)
        self._stopping = threading.Event()
        self._server: ApiServer | None = None
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        server = ApiServer(self.store, self._access, self._address)
        self._server = server
        for name in _NAMESPACES:
            self.create(NAMESPACES, "", {"metadata": {"name": name}})
        self._threads = [
            threading.Thread(target=server.serve_forever, args=(0.05,), name="stand-in-api"),
            threading.Thread(target=self._control, args=(server,), name="stand-in-controllers"),
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._running.close()
        for thread in self._threads:
            thread.join()

    @property
    def _running(self) -> ApiServer:
        if self._server is None:
            raise RuntimeError("the stand-in is not running: use it in a with statement")
        return self._server

    @property
    def url(self) -> str:
        """The address of the API server."""
        return self._running.url

    def kubeconfig(self, path: Path, *, token: str | None = None, context: str = "demo") -> Path:
        """Write a kubeconfig for this cluster, readable by its owner only, and return its path."""
        names = {"cluster": context, "user": context}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": context, "cluster": {"server": self.url}}],
            "users": [{"name": context, "user": {"token": token or self.token}}],
            "contexts": [{"name": context, "context": names}],
            "current-context": context,
        }
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        return path

    def create(self, resource: Resource, namespace: str, obj: KubeObject) -> KubeObject:
        """Create an object as a client would.  Raises `ApiError`."""
        typed = {"kind": resource.kind, "apiVersion": resource.group_version, **obj}
        return self.store.create(resource, admission.for_create(resource, namespace, typed))

    def create_deployment(
        self, name: str, replicas: int, *, namespace: str = "default"
    ) -> KubeObject:
        """Create a Deployment of pause pods, labelled `app: <name>`."""
        return self.create(DEPLOYMENTS, namespace, deployment(name, replicas))

    def replicas(self, name: str, *, namespace: str = "default") -> int:
        """Return `spec.replicas` of a Deployment."""
        found: int = self.store.get(DEPLOYMENTS, namespace, name)["spec"]["replicas"]
        return found

    def ready_pods(self, name: str, *, namespace: str = "default") -> int:
        """Return how many pods labelled `app: <name>` are ready and not being deleted."""
        return sum(
            key(pod)[0] == namespace
            and labels(pod).get("app") == name
            and alive(pod)
            and is_ready(pod)
            for pod in self.store.list_all(PODS)[0]
        )

    def expire_watches(self) -> None:
        """Forget the changes so far: watches that begin before now get 410 Expired."""
        self.store.compact()

    def _control(self, server: ApiServer) -> None:
        """Run the controllers after every change and whenever the node has something to do."""
        controllers = WorkloadControllers(self.store, server.registry)
        while not self._stopping.is_set():
            version = self.store.version
            controllers.step(clock.wall())
            due = self._node.step(clock.monotonic(), clock.wall())
            if self.store.version == version:
                wait = _IDLE if due is None else max(0.0, due - clock.monotonic())
                self.store.wait_beyond(version, min(wait, _IDLE))


def deployment(name: str, replicas: int) -> KubeObject:
    """Return a Deployment of pause pods, labelled `app: <name>`."""
    container = {"name": "pause", "image": "registry.k8s.io/pause:3.10"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
            },
        },
    }
