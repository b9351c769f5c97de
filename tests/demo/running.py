"""The demo as a process of its own session; at its end nothing of it may be left."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.worlds.waiting import wait_until

_SHORT = """
import math, sys
from autoscaler.demo.show import perform
from autoscaler.demo.story import DemoOptions, Phase, Story

story = Story(
    (Phase("calm", 1, 1.0), Phase("burst", 8, 16.0), Phase("drain", math.inf, 0.5)),
    worker_rate=4.0, messages_per_worker=10, max_workers=5, scale_down_window=3, pod_start=0.5,
    longest=90.0,
)
keep = "--keep" in sys.argv or None
clusters = 3 if "--three" in sys.argv else 1
context = next((word for word in sys.argv[1:] if not word.startswith("--")), None)
options = DemoOptions(context, "demo-under-test", clusters, keep, story)
sys.exit(perform(options))
"""

SHORT = ("-c", _SHORT)


class DemoProcess:
    """`autoscaler demo` without a terminal.

    The end of a `with` statement kills what is left, which has to be nothing.
    """

    def __init__(
        self,
        folder: Path,
        argv: Sequence[str] = SHORT,
        environment: Mapping[str, str] | None = None,
        program: Sequence[str] = (sys.executable, "-X", "dev"),
    ) -> None:
        self.temporary = folder / "tmp"
        self._output = folder / "output"
        self._folder = folder
        self._argv = [*program, *argv]
        self._environment = {
            **os.environ,
            **(environment or {}),
            "TMPDIR": str(self.temporary),
            "PYTHONUNBUFFERED": "1",
        }

    def __enter__(self) -> Self:
        self.temporary.mkdir()
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                self._argv,
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        try:
            if error is None:
                self._assert_nothing_left()
        finally:
            for pid in self.session():
                os.kill(pid, signal.SIGKILL)
            self._process.wait()

    @property
    def output(self) -> str:
        return self._output.read_text(errors="replace")

    def wait_for(self, text: str, timeout: float = 60.0) -> None:
        def printed() -> bool:
            assert self._process.poll() is None or text in self.output, self.output
            return text in self.output

        wait_until(f"the demo prints {text!r}", printed, timeout=timeout)

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """Send a signal; return the exit code."""
        self._process.send_signal(number)
        return self.wait(60)

    def wait(self, timeout: float = 120.0) -> int:
        return self._process.wait(timeout)

    def session(self) -> dict[int, str]:
        """Return the processes of its session that run: command lines by pid."""
        commands = {}
        for pid in [int(file.name) for file in Path("/proc").iterdir() if file.name.isdecimal()]:
            # One may end meanwhile.
            with suppress(OSError):
                if os.getsid(pid) == self._process.pid:
                    words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
                    commands[pid] = " ".join(words).strip()
        return {pid: command for pid, command in commands.items() if command}

    def child(self, word: str) -> int:
        (pid,) = (
            pid
            for pid, command in self.session().items()
            if word in command and pid != self._process.pid
        )
        return pid

    def _assert_nothing_left(self) -> None:
        """Fail if a process, a file or a port that it named is still there."""
        assert self.session() == {}
        assert list(self.temporary.iterdir()) == []
        assert "Warning" not in self.output, self.output
        assert "Traceback" not in self.output, self.output
        for port in set(re.findall(r"http://127\.0\.0\.1:(\d+)", self.output)):
            with socket.socket() as probe:
                assert probe.connect_ex(("127.0.0.1", int(port))) != 0, f"port {port} answers"
