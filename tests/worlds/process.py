"""One server of the control plane as a child process."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_TETHER = Path(__file__).with_name("tether.py")

# The kernel kills a tethered child when the *thread* that forked it ends. This thread lives as
# long as the process, so a test may start a server from a thread of its own.
_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="controlplane-spawner")


class ServerFailedError(Exception):
    """A server ended or did not become ready; the message carries the tail of its log."""


def free_port() -> int:
    """Return a port of 127.0.0.1 where nothing listens, below the ephemeral range.

    An outgoing connection could take an ephemeral port while the server that owns it restarts.
    Each worker of pytest-xdist has ports of its own, since none is taken before its server listens.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    for _ in range(200):
        port = 20000 + secrets.randbelow(12000 // workers) * workers + worker
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise ServerFailedError("no free port on 127.0.0.1")


class ServerProcess:
    """A program with a log file, which dies with this Python process.

    It has a session of its own: the Ctrl-C that interrupts the tests does not reach it, and their
    teardown stops it in order. `environment` is added to that of this process.
    """

    def __init__(
        self, argv: Sequence[str], log_file: Path, *, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = Path(argv[0]).name
        self.log_file = log_file
        self._environment = environment or {}
        self._argv = list(argv)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process and self.running else None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the program; its output is appended to the log file."""
        if self.running:
            return
        argv = [sys.executable, "-I", "-S", str(_TETHER), str(os.getpid()), *self._argv]
        with self.log_file.open("ab") as log:
            self._process = _spawner.submit(
                subprocess.Popen,
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self._environment},
                start_new_session=True,
            ).result()

    def wait_ready(self, probe: Callable[[], bool], timeout: float = 60.0) -> None:
        """Wait until `probe` is true; a server that ends before that fails at once."""
        deadline = time.monotonic() + timeout
        while not probe():
            if not self.running:
                code = self._process.returncode if self._process else None
                raise ServerFailedError(self._explain(f"ended with exit code {code}"))
            if time.monotonic() > deadline:
                raise ServerFailedError(self._explain(f"is not ready after {timeout:g} s"))
            time.sleep(0.02)

    def terminate(self) -> None:
        if self._process and self.running:
            self._process.send_signal(signal.SIGTERM)

    def stop(self, grace: float = 10.0) -> None:
        """Send SIGTERM, SIGKILL after `grace` seconds, and wait for the end.

        Without grace there is only the SIGKILL.
        """
        if self._process is None:
            return
        if grace > 0:
            self.terminate()
        try:
            self._process.wait(grace)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _explain(self, what: str) -> str:
        """Return a message that ends in the last lines of the log."""
        lines = self.log_file.read_text(errors="replace").splitlines()[-25:]
        return "\n".join([f"{self.name} {what}; the end of its log:", *lines])
