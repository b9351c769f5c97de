"""Connects to an API server as the daemon does."""

import threading
from pathlib import Path

from autoscaler.kubernetes import Api, find_api_server
from autoscaler.kubernetes.connection import SERVICE_ACCOUNT


def connect(
    kubeconfig: Path | None = None,
    context: str | None = None,
    *,
    stop: threading.Event | None = None,
    request_timeout: float = 5.0,
    service_account: Path = SERVICE_ACCOUNT,
) -> Api:
    """Find the API server and return its Api; raises ConnectError."""
    return find_api_server(kubeconfig, context, service_account).connect(
        stop=stop, request_timeout=request_timeout
    )
