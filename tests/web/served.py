"""A listener in a process of its own, whose memory can be measured: ``python -m`` this."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autoscaler.telemetry.health import Health
from autoscaler.web.listener import Listener
from autoscaler.web.site import application
from tests.telemetry.results import many, metrics_of
from tests.web.test_listener import HOST, site_of


class Served:
    """The process: the port that it listens on, and what it has needed."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self._process = process
        self.port = port

    def peak(self) -> int:
        """Return the most bytes that it has held in memory so far."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
        assert found is not None
        return int(found[1]) << 10


@contextmanager
def served(targets: int = 0) -> Iterator[Served]:
    """Give a process whose pages show so many targets."""
    with subprocess.Popen(
        [sys.executable, "-m", __name__, str(targets)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield Served(process, int(process.stdout.readline()))
        process.communicate()


def main() -> None:
    """Listen until the standard input ends."""
    site = site_of(Health(), metrics_of(*many(int(sys.argv[1]))))
    app = application(site, lambda _: None)
    with Listener(HOST, 0, app, lambda _: None) as listener:
        print(listener.port, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
