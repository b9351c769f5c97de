"""A daemon with a proxy on each of its ways, two targets, and all that can be seen of it."""

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise

from autoscaler import clock
from tests.worlds.daemon import DaemonProcess, Line
from tests.worlds.faults.loads import HIGH, LOW, Workloads
from tests.worlds.metronome import Metronome
from tests.worlds.proxies.http import FaultProxy
from tests.worlds.waiting import wait_until

LEFT, RIGHT = "left", "right"
LONGEST_GAP_SECONDS = 1.9
"""Between two syncs of a target with a period of 1 s, on a machine that does not pause."""
_DEFECTS = frozenset({"fault", "sync_failed"})
"""The events of lines that carry a traceback."""


class Bed(Workloads):
    """The daemon, its servers, the proxies between them, and where its pages are."""

    def __init__(
        self,
        workloads: Workloads,
        to_prometheus: FaultProxy,
        to_api: FaultProxy,
        daemon: DaemonProcess,
        metronome: Metronome,
    ) -> None:
        super().__init__(**vars(workloads))
        self.to_prometheus = to_prometheus
        self.to_api = to_api
        self.daemon = daemon
        self._metronome = metronome

    def high_and_low(self) -> tuple[str, str]:
        """Have one target high and one low, and name them."""
        low, high = sorted((LEFT, RIGHT), key=self.replicas)
        self.demand(high, HIGH)
        self.demand(low, LOW)
        # Else what they are now may be what an older load is about to change.
        self.wait_seen(high, HIGH)
        self.wait_seen(low, LOW)
        self.wait_for(high, HIGH)
        self.wait_for(low, LOW)
        return high, low

    def mark(self) -> int:
        """Return where the log is."""
        return len(self.daemon.lines)

    def syncs(self, name: str, begin: int, end: int | None = None) -> list[Line]:
        return [
            line
            for line in self.daemon.lines[begin:end]
            if line["event"] == "sync" and line["target"] == self.key(name)
        ]

    def wait_line(self, name: str, what: str, wanted: Callable[[Line], bool], begin: int) -> Line:
        def look() -> list[Line]:
            return [line for line in self.syncs(name, begin) if wanted(line)]

        try:
            return wait_until(f"{name} {what}", look, timeout=60)[0]
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.syncs(name, begin)[-3:]}") from None

    def wait_condition(self, name: str, condition: str, *, holds: bool) -> None:
        """Wait until the metrics page says that a condition of a target holds, or does not."""
        labels = f'target="{self.key(name)}",condition="{condition}"'
        sample = f"autoscaler_target_condition{{{labels}}} {int(holds)}"
        wait_until(sample, lambda: sample in self.daemon.page("/metrics"))

    def wait_ready(self) -> None:
        """Wait until the daemon says that it has all that it needs."""
        wait_until("it is ready", lambda: '"ready": true' in self.daemon.page("/readyz"))

    def check_punctual(self, name: str, begin: int, end: int | None = None) -> None:
        """Check that nothing kept the syncs of a target waiting but the machine itself."""
        lines = self.syncs(name, begin, end)
        if lines:
            since = clock.monotonic() - (clock.wall() - time_of(lines[0]).timestamp())
            allowed = LONGEST_GAP_SECONDS + self._metronome.latest_since(since)
            gaps = (time_of(later) - time_of(line) for line, later in pairwise(lines))
            assert max(gap.total_seconds() for gap in [*gaps, timedelta()]) < allowed

    def check_unharmed(self) -> None:
        """Check that the daemon is well after all that it went through."""
        self.wait_ready()
        # After an error the state directory is tried again half a minute later.
        kept = 'autoscaler_component_ok{component="state"} 1'
        wait_until("state is kept", lambda: kept in self.daemon.page("/metrics"), timeout=90)
        page = self.daemon.page("/metrics")
        for name in ("faults", "syncs_failed"):
            assert f"\nautoscaler_{name}_total 0.0\n" in page
        assert defects(self.daemon.lines) == []


def says(pattern: str) -> Callable[[Line], bool]:
    """Return a test of lines: one of trouble, or a warning, in which the pattern is found."""

    def wanted(line: Line) -> bool:
        trouble = line["level"] == "warning" or line.get("state") in {"failing", "controlled"}
        return trouble and bool(re.search(pattern, json.dumps(line)))

    return wanted


def time_of(line: Line) -> datetime:
    return datetime.fromisoformat(line["time"])


def defects(lines: list[Line]) -> list[Line]:
    """Return the lines that tell of a fault of the program itself."""
    return [line for line in lines if line["event"] in _DEFECTS or "exception" in line]
