"""Another autoscaler and the daemon at work at the same time, each on Deployments of its own."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import fleet, measures
from benchmarks.bed import Bed
from benchmarks.daemon import Daemon
from benchmarks.hpa import TUNED, HpaController
from benchmarks.landings import Change, Landings
from tests.worlds.controlplane.api import Json
from tests.worlds.waiting import wait_until

OURS = "autoscaler"

_LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Pair:
    """Two equal Deployments that follow one queue, one of each side."""

    queue: str

    def deployment(self, side: str) -> str:
        """Return the name of the Deployment on that side."""
        return f"{side.lower()}-{self.queue}"


class Watched:
    """What the watched Deployments want; their status follows it at every look."""

    def __init__(
        self,
        bed: Bed,
        landings: Landings,
        names: Sequence[str],
        first: int,
        checks: Sequence[measures.Check],
    ) -> None:
        self.checks = [*checks]
        self._bed = bed
        self._landings = landings
        self._first = first
        self._reported = dict.fromkeys(names, first)

    def look(self) -> None:
        """Let each status say what is wanted; raise ServerFailedError if an autoscaler ended."""
        for check in self.checks:
            check()
        last = {name: found[-1].replicas for name, found in self._landings.changes().items()}
        new = {name: last[name] for name in last if last[name] != self._reported.get(name)}
        fleet.report_replicas(self._bed.bulk, new)
        self._reported |= new

    def let_pass(self, seconds: float) -> None:
        """Look for that long."""
        measures.let_pass(seconds, self.look, _LOOK_SECONDS)

    def wait(self, what: str, reached: Callable[[Mapping[str, int]], bool], timeout: float) -> None:
        """Look until the wanted replicas by name are `reached`, or it takes too long."""
        deadline = time.monotonic() + timeout

        def over() -> bool:
            self.look()
            return reached(self._reported) or time.monotonic() > deadline

        wait_until(what, over, timeout=timeout + 60, interval=_LOOK_SECONDS)

    def changes(self, name: str) -> list[Change]:
        """Return the changes of a Deployment's wanted replicas so far."""
        found = list(self._landings.changes().get(name, ()))
        # An event of the status comes before the first change.
        return found[1:] if found and found[0].replicas == self._first else found


def fill(bed: Bed, messages: Mapping[str, int]) -> None:
    """Give queues that many messages, all of them from the same scrape on, and no others."""
    served = (({"queue": queue}, float(count)) for queue, count in messages.items())
    bed.page.set_all(fleet.METRIC, served)


@contextmanager
def at_work(
    bed: Bed, names: Sequence[str], first: int, config: Path, targets: int, period: float
) -> Iterator[tuple[Watched, HpaController]]:
    """Let kube-controller-manager and the daemon scale Deployments that have `first` replicas.

    The daemon has decided on all of its targets once when the body begins.
    """
    # Its usual limit on requests would make it late with many HPAs and a short period.
    flags = [f"--horizontal-pod-autoscaler-sync-period={period:g}s", *TUNED]
    with (
        Landings(bed.bulk, fleet.DEPLOYMENTS) as landings,
        HpaController(bed.plane, bed.folder, flags) as controller,
        Daemon(bed, config, targets, "debug") as process,
    ):
        process.wait_first_sync(timeout=2 * period + 60)
        yield Watched(bed, landings, names, first, [controller.check, process.check]), controller


def default_policies(period: int) -> Json:
    """Return the HPA's default policies for going up, per sync instead of per 15 s."""
    policies = [
        {"type": "Pods", "value": 4, "periodSeconds": period},
        {"type": "Percent", "value": 100, "periodSeconds": period},
    ]
    return {"policies": policies}
