"""The service manager: its signals, and messages to it as of sd_notify(3)."""

import os
import signal
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from queue import SimpleQueue
from types import FrameType
from typing import Self

from autoscaler import clock

_SEND_SECONDS = 1.0
"""How long a full queue of the service manager may block before a message is dropped."""


class Signals:
    """SIGTERM and SIGINT set ``stop``, SIGHUP requests a reload.

    Handlers may interrupt the main thread anywhere, also where it holds the lock of ``stop``: they
    only set a flag, and put an item into a queue, which is safe there.
    """

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.received: str | None = None
        """The name of the first signal to stop."""
        self._stops: SimpleQueue[None] = SimpleQueue()
        self._reload = False

    def listen(self) -> None:
        """Handle signals from now on. Must be called on the main thread, which receives them."""
        threading.Thread(target=self._wait_for_stop, name="signals", daemon=True).start()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_stop)
        signal.signal(signal.SIGHUP, self._on_reload)

    def take_reload(self) -> bool:
        """Return whether a reload was requested since the last call, however often."""
        asked, self._reload = self._reload, False
        return asked

    def _on_stop(self, number: int, _frame: FrameType | None) -> None:
        self.received = self.received or signal.Signals(number).name
        self._stops.put(None)

    def _wait_for_stop(self) -> None:
        self._stops.get()
        self.stop.set()

    def _on_reload(self, _number: int, _frame: FrameType | None) -> None:
        self._reload = True


class Notifier:
    """Reports the state of the daemon to systemd, if it listens; never raises."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self.watchdog_seconds = _watchdog_seconds(environment)
        """The seconds without `watchdog` after which systemd kills the daemon; None for never."""
        name = environment.get("NOTIFY_SOCKET", "")
        # A name that begins with "@" is in the abstract namespace, where it begins with NUL.
        self._address = "\0" + name[1:] if name.startswith("@") else name
        self._socket: socket.socket | None = None
        if name.startswith(("/", "@")):
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.settimeout(_SEND_SECONDS)

    def ready(self, status: str) -> None:
        """Report readiness: after the start, and after each reload, successful or not."""
        self._send("READY=1", _status(status))

    def reloading(self) -> None:
        """Report that a reload begins; `ready` reports its end."""
        # Type=notify-reload also needs the time, to distinguish reloads.
        microseconds = int(clock.monotonic() * 1e6)
        self._send("RELOADING=1", f"MONOTONIC_USEC={microseconds}", _status("reloading"))

    def stopping(self) -> None:
        """Report that the daemon is about to end."""
        self._send("STOPPING=1", _status("stopping"))

    def status(self, text: str) -> None:
        """Set the one line that `systemctl status` shows."""
        self._send(_status(text))

    def watchdog(self) -> None:
        """Feed the watchdog.  Call it only while syncs complete."""
        if self.watchdog_seconds is not None:
            self._send("WATCHDOG=1")

    def close(self) -> None:
        """Close the socket; later reports do nothing."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, *assignments: str) -> None:
        if self._socket is None:
            return
        with suppress(OSError):  # nothing listens
            self._socket.sendto("\n".join(assignments).encode(), self._address)


def _status(text: str) -> str:
    """Return the assignment on one line; a second line would be another assignment."""
    return f"STATUS={' '.join(text.split())}"


def _watchdog_seconds(environment: Mapping[str, str]) -> float | None:
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    text = environment.get("WATCHDOG_USEC", "")
    return int(text) / 1e6 if text.isdecimal() and int(text) > 0 else None
