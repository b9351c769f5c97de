"""Connects to an API server as the daemon does."""

import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from autoscaler.kubernetes import Api, find_api_server
from autoscaler.kubernetes.connection import SERVICE_ACCOUNT
from tests.worlds.cluster.localserver import LocalServer

Server = TypeVar("Server", bound=LocalServer)


def connect(
    kubeconfig: Path | None = None,
    context: str | None = None,
    *,
    stop: threading.Event | None = None,
    request_timeout: float = 5.0,
    service_account: Path = SERVICE_ACCOUNT,
    allow_exec: bool | None = None,
    at_once: bool = True,
) -> Api:
    """Find the API server and return its Api; raises ConnectError."""
    found = find_api_server(kubeconfig, context, service_account, allow_exec=allow_exec)
    return found.connect(stop=stop, request_timeout=request_timeout, at_once=at_once)


class Starter(ExitStack):
    """Starts servers with a connection to each, and ends them after its block."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def start(
        self,
        server: Server,
        user: Mapping[str, object] | None = None,
        timeout: float = 5.0,
        **options: Any,
    ) -> tuple[Server, Api]:
        """Connect to a server as a user of `kubeconfig` in the folder; options of `connect`."""
        self.enter_context(server)
        kubeconfig = server.write_kubeconfig(self._folder / "kubeconfig", **(user or {}))
        return server, self.enter_context(connect(kubeconfig, request_timeout=timeout, **options))
