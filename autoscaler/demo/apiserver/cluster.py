"""The stand-in as a whole: store, controllers, and the API server on a free loopback port."""

import secrets
import threading
from pathlib import Path
from typing import Self

import yaml

from autoscaler import clock
from autoscaler.demo.apiserver.controllers import Controllers
from autoscaler.demo.apiserver.server import ApiServer
from autoscaler.demo.apiserver.store import ObjectStore

_IDLE_SECONDS = 1.0


class StandInCluster:
    """A cluster in this process, for a `with` statement.

    ``ready_after`` is the seconds that a pod takes to become ready; ``kept_changes`` is how many
    changes a watch can be behind before it expires.  ``token`` is who may do everything.
    """

    def __init__(self, *, ready_after: float = 0.0, kept_changes: int = 4096) -> None:
        self.token = secrets.token_urlsafe(24)
        self.store = ObjectStore(kept_changes)
        self._controllers = Controllers(self.store, ready_after)
        self._server = ApiServer(self.store, self.token)
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._server.serve_forever, args=(0.05,), name="stand-in-api"),
            threading.Thread(target=self._control, name="stand-in-controllers"),
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._server.close()
        for thread in self._threads:
            thread.join()

    @property
    def url(self) -> str:
        """The address of the API server."""
        return self._server.url

    def kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig for this cluster, readable by its owner only, and return its path."""
        name = "demo"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": self.url}}],
            "users": [{"name": name, "user": {"token": self.token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        }
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        return path

    def _control(self) -> None:
        """Run the controllers after every change and whenever a pod becomes ready."""
        while not self._stopping.is_set():
            version = self.store.version
            due = self._controllers.step(clock.monotonic(), clock.wall())
            if self.store.version == version:
                wait = _IDLE_SECONDS if due is None else max(0.0, due - clock.monotonic())
                self.store.wait_beyond(version, min(wait, _IDLE_SECONDS))
