"""The HPA and the daemon at work at the same time, each on Deployments of its own.

Both are told the same, field for field, and read the same series of one Prometheus: the HPA
through prometheus-adapter, the daemon by a query for each queue, so that its targets are spread
over the period as HPAs are.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import counters, daemon, fleet, measures
from benchmarks.bed import Bed
from benchmarks.daemon import Daemon, Settings
from benchmarks.hpa import TUNED, Adapter, HpaController
from benchmarks.landings import Change, Landings
from tests.worlds.controlplane.api import Json
from tests.worlds.waiting import wait_until

FIRST_REPLICAS = 1
"""What every Deployment has, and every queue asks for, before the first demand."""

_LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Scaled:
    """A Deployment that follows a queue; it changes as `behavior` says."""

    name: str
    queue: str
    behavior: Json


@contextmanager
def servers(report: Callable[[str], None]) -> Iterator[Bed]:
    """Start the servers and prometheus-adapter."""
    with Bed(report) as bed:
        # The adapter waits for the first series of the metric.
        measures.publish(bed, 1, FIRST_REPLICAS)
        with Adapter(bed):
            yield bed


class Watched:
    """What the watched Deployments want; their status follows it at every look."""

    def __init__(
        self,
        bed: Bed,
        landings: Landings,
        names: Sequence[str],
        check: measures.Check,
        first: int = FIRST_REPLICAS,
    ) -> None:
        self._bed = bed
        self._landings = landings
        self._check = check
        self._first = first
        self._reported = dict.fromkeys(names, first)

    def look(self) -> None:
        """Let each status say what is wanted; raise ServerFailedError if an autoscaler ended."""
        self._check()
        last = {name: found[-1].replicas for name, found in self._landings.changes().items()}
        new = {name: last[name] for name in last if last[name] != self._reported.get(name)}
        fleet.report_replicas(self._bed.bulk, new)
        self._reported |= new

    def let_pass(self, seconds: float) -> None:
        """Look for that long."""
        measures.let_pass(seconds, self.look, _LOOK_SECONDS)

    def wait(self, what: str, reached: Callable[[Mapping[str, int]], bool], timeout: float) -> bool:
        """Look until the wanted replicas by name are `reached`; whether they were in time."""
        deadline = time.monotonic() + timeout

        def over() -> bool:
            self.look()
            return reached(self._reported) or time.monotonic() > deadline

        wait_until(what, over, timeout=timeout + 60, interval=_LOOK_SECONDS)
        return reached(self._reported)

    def wanted(self) -> dict[str, int]:
        """Return the wanted replicas of each Deployment at this moment."""
        self.look()
        return dict(self._reported)

    def changes(self, name: str) -> list[Change]:
        """Return the changes of a Deployment's wanted replicas so far."""
        found = list(self._landings.changes().get(name, ()))
        # An event of the status comes before the first change.
        return found[1:] if found and found[0].replicas == self._first else found


def demand(bed: Bed, replicas: Mapping[str, int]) -> None:
    """Let queues ask for that many replicas, all of them from the same scrape on."""
    bed.page.set_all(
        fleet.METRIC,
        (({"queue": queue}, float(count * fleet.PER_REPLICA)) for queue, count in replicas.items()),
    )


@contextmanager
def at_work(
    bed: Bed, period: float, theirs: Sequence[Scaled], ours: Sequence[Scaled]
) -> Iterator[Watched]:
    """Create the Deployments, and let the HPA and the daemon scale them.

    Each has decided on all of its own once when the body begins.
    """
    names = [scaled.name for scaled in (*theirs, *ours)]
    fleet.create_named(bed.bulk, names, FIRST_REPLICAS)
    queues = dict.fromkeys((scaled.queue for scaled in (*theirs, *ours)), FIRST_REPLICAS)
    demand(bed, queues)
    # A scrape is stored as a whole.
    measures.wait_for_count(bed, f'{fleet.METRIC}{{queue="{ours[0].queue}"}}', 1)
    # Its usual limit on requests would make it late with many HPAs and a short period.
    flags = [f"--horizontal-pod-autoscaler-sync-period={period:g}s", *TUNED]
    config = _config(bed, period, ours)
    with (
        Landings(bed.bulk, fleet.DEPLOYMENTS) as landings,
        HpaController(bed.plane, bed.folder, flags) as controller,
        Daemon(bed, config, len(ours), "debug") as process,
    ):

        def check() -> None:
            controller.check()
            process.check()

        _create_hpas(bed, period, theirs)
        process.wait_first_sync(timeout=2 * period + 60)
        wait_until(
            "every HPA is reconciled",
            lambda: counters.reconciled(controller.metrics()) >= len(theirs),
            timeout=2 * period + 60,
        )
        yield Watched(bed, landings, names, check)


def _create_hpas(bed: Bed, period: float, theirs: Sequence[Scaled]) -> None:
    """Create the HPAs one by one: each is synced at the phase at which it was created."""
    for scaled in theirs:
        fleet.create_hpa(
            bed.bulk, fleet.spec(scaled.name, fleet.METRIC, scaled.queue, scaled.behavior)
        )
        time.sleep(period / len(theirs))


def _config(bed: Bed, period: float, ours: Sequence[Scaled]) -> Path:
    queries = {_metric(scaled): f'{fleet.METRIC}{{queue="{scaled.queue}"}}' for scaled in ours}
    specs = (
        fleet.spec(scaled.name, _metric(scaled), scaled.queue, scaled.behavior) for scaled in ours
    )
    return daemon.write_targets(bed, Settings(period), queries, specs)


def _metric(scaled: Scaled) -> str:
    """Return the name of the query that only this queue's targets ask."""
    return f"{fleet.METRIC}_{scaled.queue.replace('-', '_')}"
