"""Ports for the processes of the demo."""

import socket


def free_port() -> int:
    """Return a loopback port that is free now, for a process that is to be found by others."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
