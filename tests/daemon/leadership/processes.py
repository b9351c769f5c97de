"""Writers as processes that tests stop, kill and follow."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from autoscaler.core.election import ElectionTimes
from autoscaler.daemon.leadership import Role
from tests.worlds.waiting import wait_until


class WriterProcess:
    """`tests.daemon.leadership.writer`; its lines gather in `lines`.

    It waits ``pause`` seconds after each write.
    """

    def __init__(
        self,
        kubeconfig: Path,
        namespace: str,
        identity: str,
        deployments: Sequence[str],
        times: ElectionTimes,
        pause: float,
    ) -> None:
        self.identity = identity
        self.lines: list[dict[str, Any]] = []
        settings = {
            "kubeconfig": str(kubeconfig),
            "namespace": namespace,
            "identity": identity,
            "pause": pause,
            "deployments": json.dumps(list(deployments)),
            "times": json.dumps([times.lease_duration, times.renew_deadline, times.retry_period]),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.daemon.leadership.writer", json.dumps(settings)],
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def wait_for(self, standing: Role, after: float = 0.0, seconds: float = 30.0) -> float:
        """Return when it said where it stands, since an instant of the monotonic clock."""

        def look() -> float | None:
            return next(
                (
                    line["at"]
                    for line in list(self.lines)
                    if line.get("standing") == standing.value and line["at"] >= after
                ),
                None,
            )

        found = wait_until(f"{self.identity} is {standing}", look, timeout=seconds, interval=0.01)
        assert found is not None
        return found

    def pause(self) -> None:
        """Send SIGSTOP."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Send SIGCONT."""
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Send SIGKILL."""
        self._process.kill()
        self._process.wait(10)

    def stop(self) -> int:
        """Send SIGTERM, and return the exit code."""
        self._process.terminate()
        return self._process.wait(20)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._reader.join(10)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            self.lines.append(json.loads(text))
