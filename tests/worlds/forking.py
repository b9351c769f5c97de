"""Programs of ours that need no start: forks of an interpreter that has imported everything.

Two of the three seconds of a daemon's start are imports.  What runs is `python -m autoscaler` all
the same: its arguments, environment and output, and the end of an interpreter.
"""

import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

import autoscaler.cli

_LARGEST = 1 << 20
_lock = threading.Lock()


class Program:
    """A module with arguments, run by a fork; as `subprocess.Popen`, as far as it is needed.

    Without ``stderr`` that is the same as ``stdout``.
    """

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], stdout: int, stderr: int
    ) -> None:
        self.returncode: int | None = None
        self._told, theirs = socket.socketpair()
        order = json.dumps(
            {"argv": list(argv), "environ": dict(environment), "cwd": str(Path.cwd())}
        )
        with theirs, _lock:
            socket.send_fds(_origin()[0], [order.encode()], [theirs.fileno(), stdout, stderr])
        self.pid = self._number()

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._told.settimeout(timeout)
            try:
                self.returncode = self._number()
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0) from None
            self._told.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _number(self) -> int:
        text = self._told.recv(100)
        assert text, "the interpreter that is forked has ended"
        return int(text)


def popen(argv: Sequence[str], environment: Mapping[str, str]) -> tuple[Program, IO[str]]:
    """Start a program whose standard output, with the errors, can be read."""
    reading, writing = os.pipe()
    try:
        program = Program(argv, environment, writing, writing)
    finally:
        os.close(writing)
    return program, os.fdopen(reading)


@cache
def _origin() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Start the interpreter that is forked; it ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LARGEST)
    with theirs:
        file = theirs.fileno()
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(file)], pass_fds=[file], stdout=subprocess.DEVNULL
        )
    return ours, process


# -- the interpreter that is forked --------------------------------------------------------------


def _main(orders: socket.socket) -> None:
    """Fork for each order; return in no process but those that run a program."""
    for module in pkgutil.iter_modules(autoscaler.cli.__path__, "autoscaler.cli."):
        importlib.import_module(module.name)
    for name in ("autoscaler.app", "autoscaler.daemon.service"):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        text, files, _, _ = socket.recv_fds(orders, _LARGEST, 3)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                """It told its own end."""
        if not text:
            sys.exit()
        if os.fork() == 0:
            orders.close()
            _become(json.loads(text), *files)
            return
        for file in files:
            os.close(file)


def _become(order: dict[str, Any], told: int, stdout: int, stderr: int) -> None:
    """Return in a process of its own, with what was ordered; tell its id and its exit code."""
    if child := os.fork():
        os.close(stdout)
        if stderr != stdout:
            os.close(stderr)
        os.write(told, str(child).encode())
        _, status = os.waitpid(child, 0)
        with suppress(OSError):
            os.write(told, str(os.waitstatus_to_exitcode(status)).encode())
        os._exit(0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.close(told)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    for file in {stdout, stderr}:
        os.close(file)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environ"])
    time.tzset()
    sys.argv = ["autoscaler", *order["argv"]]
    # The library takes it when it is imported.
    kubeconfig = sys.modules["kubernetes.config.kube_config"]
    kubeconfig.__dict__["KUBE_CONFIG_DEFAULT_LOCATION"] = os.environ.get(
        "KUBECONFIG", "~/.kube/config"
    )


if __name__ == "__main__":
    _main(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module("autoscaler", run_name="__main__", alter_sys=True)
