"""The child processes of the demo, the ports that they listen on, and its error."""

import os
import socket
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from autoscaler import clock
from autoscaler.persistence.temporary_folders import held

_GRACE = 10.0
_STARTS_WITHIN, _POLL = 30.0, 0.1
_SHOWN_LINES = 10


class DemoError(Exception):
    """The demo cannot continue; the message is a sentence for the user."""


class Child:
    """A process that runs inside a `with` statement, with its output in a log file.

    It stays in the demo's process group, so that a Ctrl-C in the terminal reaches it too.
    """

    def __init__(self, name: str, argv: Sequence[str], log: Path) -> None:
        self.name = name
        self.log = log
        self._argv = list(argv)

    def __enter__(self) -> Self:
        # The child goes on using the demo's folder, of which it has a part, even if that is killed.
        with self.log.open("wb") as output, held(self.log.parent.parent) as descriptor:
            self._process = subprocess.Popen(  # noqa: S603 - our own command line
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=_environment(),
                pass_fds=(descriptor,),
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def check(self) -> None:
        """Raise DemoError with the end of the log if the process has ended."""
        code = self._process.poll()
        if code is not None:
            how = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
            raise self.failure(f"{self.name} {how}")

    def wait(self, what: str, probe: Callable[[], bool], stop: threading.Event) -> None:
        """Wait until it did what it is to do, or ``stop`` is set.  Raises DemoError after 30 s."""
        deadline = clock.monotonic() + _STARTS_WITHIN
        while not stop.is_set() and not probe():
            self.check()
            if clock.monotonic() > deadline:
                raise self.failure(f"{self.name} did not {what} within {_STARTS_WITHIN:.0f} s")
            stop.wait(_POLL)

    def failure(self, sentence: str, whose: str = "its") -> DemoError:
        """Return the error with the last lines of the log."""
        lines = self.log.read_text(errors="replace").splitlines()[-_SHOWN_LINES:]
        tail = "\n".join(f"  {line}" for line in lines) or "  (it is empty)"
        return DemoError(f"{sentence}. The last lines of {whose} log:\n{tail}")


class Ticking:
    """Calls `_tick` every so many seconds on a thread, inside a `with` statement."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demo")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _tick(self) -> None:
        raise NotImplementedError

    def _run(self) -> None:
        while not self._stop.is_set():
            self._tick()
            self._stop.wait(self._seconds)


def free_port() -> int:
    """Return a loopback port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _environment() -> dict[str, str]:
    """Return our environment, with loopback excluded from any proxy."""
    env = dict(os.environ)
    for name in ("NO_PROXY", "no_proxy"):
        env[name] = ",".join(part for part in (env.get(name), "127.0.0.1", "localhost") if part)
    return env
