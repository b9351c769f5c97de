"""The daemon as its users run it: a process, a YAML file, log lines on its standard output."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from tests.controlplane.waiting import wait_until

Line = dict[str, Any]


class DaemonProcess:
    """`autoscaler run -c FILE`; its log lines gather in `lines`.

    ``within`` is a command that becomes the one that is put behind it.
    """

    def __init__(
        self,
        config: Path,
        environment: Mapping[str, str],
        *arguments: str,
        within: Sequence[str] = (),
    ) -> None:
        self.lines: list[Line] = []
        run = (sys.executable, "-m", "autoscaler", "run", "-c", str(config), *arguments)
        self._process = subprocess.Popen(
            [*within, *run],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | dict(environment),
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def syncs(self, target: str) -> list[Line]:
        """Return the canonical lines of a target so far."""
        return [line for line in self.lines if line["event"] == "sync" and line["target"] == target]

    def wait_for(self, what: str, wanted: Callable[[Line], bool], timeout: float = 60.0) -> Line:
        """Wait for a line; a daemon that ends meanwhile fails the test at once."""

        def look() -> Line | None:
            # It ends with the last line, which a daemon that has ended may have left unread.
            reading = self._reader.is_alive()
            found = next((line for line in self.lines if wanted(line)), None)
            if found is None and not reading:
                raise AssertionError(f"the daemon ended: {self.lines}")
            return found

        found = wait_until(what, look, timeout=timeout)
        if found is None:
            raise AssertionError(what)
        return found

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self._process.send_signal(number)
        code = self._process.wait(30)
        self._reader.join(10)
        return code

    def kill(self) -> None:
        """End it as a crash would, at once."""
        self._process.kill()
        self._process.wait(30)
        self._reader.join(10)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._reader.join(10)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            # A process that is killed may leave half a line.
            if text.endswith("\n"):
                self.lines.append(json.loads(text))


def write_config(path: Path, document: Mapping[str, object]) -> Path:
    """Write a configuration file and return its path.

    Unless the document says otherwise, nothing is kept outside the test and no port is taken.
    """
    path.write_text(yaml.safe_dump({"stateDirectory": None, "listen": None, **document}))
    return path
