"""How punctual the syncs of many targets are, each with a query and one of several periods.

    python -m benchmarks.cadence --targets 1000 --seconds 60

runs the real schedule over a cluster and a Prometheus in memory, and prints for each period how
far the time between two syncs of a target was from it.
"""

import argparse
import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from autoscaler import clock
from autoscaler.core.observation import Pod, Scale, Unavailable
from autoscaler.core.spec import Flags, ScaleTargetRef
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import Target
from autoscaler.daemon.schedule import SyncSchedule, Tick
from autoscaler.sync.ports import DEFAULT_CLUSTER, Ports
from autoscaler.sync.slots import Slot, slots_of
from autoscaler.sync.syncer import Syncer
from autoscaler.telemetry.metrics import Instruments
from benchmarks.tables import markdown
from tests.worlds.memory import Memory, answer, external

PERIODS = (1.0, 5.0, 15.0)


class Times(Memory):
    """Notes when each target was decided."""

    def __init__(self, targets: Sequence[Target]) -> None:
        super().__init__(
            answers={
                target.queries[0].promql: answer(30.0, now=clock.wall()) for target in targets
            },
            scales={
                f"{target.namespace}/{target.spec.scale_target_ref.name}": Scale(1, 1, target.key)
                for target in targets
            },
        )
        self.decided: dict[Target, list[float]] = defaultdict(list)

    def cached_scale(self, namespace: str, ref: ScaleTargetRef) -> Scale | Unavailable | None:
        """Fit `Cluster`, as watches do."""
        return self.scales[f"{namespace}/{ref.name}"]

    def cached_pods(self, namespace: str, selector: str) -> tuple[Pod, ...] | Unavailable | None:  # noqa: ARG002
        """Fit `Cluster`; no decision here looks at pods."""
        return ()

    def cached_controller(self, namespace: str, ref: ScaleTargetRef) -> str | None:  # noqa: ARG002
        """Fit `Cluster`."""
        return None

    def cached_hpa(self, namespace: str, ref: ScaleTargetRef, since: float) -> None:
        """Fit `Cluster`; none is in shadow."""

    def report(self, result: SyncResult) -> None:
        """Fit `Reporter`."""
        self.decided[result.target].append(clock.monotonic())


def measure(targets: int, seconds: float) -> dict[float, list[float]]:
    """Run the schedule, and return by period the relative deviations of the times between."""
    fleet = [
        replace(
            external("shop", f"t{number}", promql=f"q{number}"),
            sync_period=PERIODS[number % len(PERIODS)],
        )
        for number in range(targets)
    ]
    world, stop = Times(fleet), threading.Event()
    ports = Ports({"": world}, {DEFAULT_CLUSTER: world}, world)
    threading.Timer(seconds, stop.set).start()
    with Syncer(Flags(), ports, stop) as syncer:

        def tick(slot: Slot) -> Tick:
            def call(due: float) -> None:
                syncer.sync(slot.targets, clock.wall(), slot.period, due=due)

            return Tick(call, slot.period, slot.offset)

        ticks = [tick(slot) for slot in slots_of(fleet)]
        with SyncSchedule(stop, Instruments()) as schedule:
            schedule.swap(ticks)
            stop.wait()
    deviations: dict[float, list[float]] = defaultdict(list)
    for target, times in world.decided.items():
        # The first two are the start and the offset; from then on the period holds.
        for earlier, later in pairwise(times[1:]):
            period = target.sync_period
            deviations[period].append(abs(later - earlier - period) / period)
    return deviations


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    rows = []
    for period, found in sorted(measure(options.targets, options.seconds).items()):
        ordered = sorted(found)
        p99 = ordered[int(len(ordered) * 0.99)]
        rows.append([f"{period:g} s", f"{len(found):,}", f"{p99:.1%}", f"{ordered[-1]:.1%}"])
    print(markdown(["syncPeriod", "intervals", "off by, 99 % below", "at most"], rows))


if __name__ == "__main__":
    main()
