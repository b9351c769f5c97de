"""A network of its own for this process: KEDA's metrics adapter listens on all interfaces."""

import fcntl
import os
import shutil
import socket
import struct
import sys
from collections.abc import Sequence

from tests.worlds.gomodule import ControlPlaneUnavailable

_LOOPBACK = b"lo"
_SET_FLAGS = 0x8914
"""SIOCSIFFLAGS of Linux."""
_UP = 0x1
"""IFF_UP of Linux."""


def isolated() -> bool:
    """Whether this process sees no network interface but loopback."""
    return [name for _, name in socket.if_nameindex()] == [_LOOPBACK.decode()]


def isolate(module: str, arguments: Sequence[str]) -> None:
    """Run this Python module anew where loopback is all there is; return if it runs there.

    Raises ControlPlaneUnavailable without util-linux' `unshare`.
    """
    if isolated():
        _bring_up()
        return
    program = shutil.which("unshare")
    if program is None:
        raise ControlPlaneUnavailable("no unshare on the PATH (Debian: apt-get install util-linux)")
    # Others than root need a user namespace, in which they may configure its network.
    flags = ["--net"] if os.geteuid() == 0 else ["--net", "--map-root-user"]
    os.execv(program, ["unshare", *flags, sys.executable, "-m", module, *arguments])  # noqa: S606


def _bring_up() -> None:
    """Bring loopback up, which is down in a new network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sH14x", _LOOPBACK, _UP))
