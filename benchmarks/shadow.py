"""What a target in shadow costs beside a live one: `python -m benchmarks.shadow`.

Thousands of targets with one metric each are synced as the daemon does, with everything in memory
but the record and the file of agreement: live ones, which are written where their count changes,
and the same in shadow beside an HPA that has the same counts one sync before them. One in ten has
another load at each sync. Prints the processor time of all threads for each target and sync, and
the memory, in turns; what the API server does for a write of a live one is not counted.
"""

import argparse
import resource
import statistics
import tempfile
import threading
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from autoscaler import clock
from autoscaler.adapters.agreement import AgreementWriter
from autoscaler.adapters.record import RecordWriter
from autoscaler.core.extensions import Extensions, Mode
from autoscaler.core.hpa import Hpa, HpaStatus
from autoscaler.core.observation import Scale
from autoscaler.core.spec import Flags
from autoscaler.core.target import Target
from autoscaler.daemon.comparing import Comparer
from autoscaler.daemon.recording import Recorder
from autoscaler.daemon.reporting import Reporters
from autoscaler.sync.syncer import Syncer
from tests.worlds.memory import Memory, answer, external
from tests.worlds.virtual_clock import VirtualClock

BUSY_EVERY = 10
"""One target of so many has another load at each sync."""
PERIOD = 15.0


def targets_of(count: int, mode: Mode) -> list[Target]:
    """Return targets with a query each."""
    extensions = Extensions(mode=mode)
    return [
        replace(external("shop", f"t{number}", promql=f"q{number}"), extensions=extensions)
        for number in range(count)
    ]


def measure(count: int, syncs: int, mode: Mode, folder: Path) -> float:
    """Return microseconds of processor time for each target and sync, without the first two."""
    targets = targets_of(count, mode)
    world = Memory(scales_cached=True)
    names = [f"shop/t{number}" for number in range(count)]
    for number, name in enumerate(names):
        world.scales[name] = Scale(5, 5, f"app=t{number}")
        world.answers[f"q{number}"] = answer(5.0)
    with ExitStack() as stack:
        record = RecordWriter(folder, lambda *_: None)
        kept = AgreementWriter(folder, lambda *_: None, 86_400.0)
        for writer in (record, kept):
            stack.enter_context(closing(writer))
            writer.start()
        recorder, comparer = Recorder(record), stack.enter_context(closing(Comparer(kept)))
        recorder.configure(targets, Flags())
        comparer.configure(targets)
        begun, times = clock.wall(), VirtualClock()
        reporter = Reporters([recorder, comparer])
        ports = replace(world.world(), reporter=reporter, clock=times)
        steps = clock.Steps(begun, times.now)
        syncer = stack.enter_context(Syncer(Flags(), ports, threading.Event(), steps=steps))
        used = 0.0
        for sync in range(syncs):
            times.now = sync * PERIOD
            now = begun + times.now
            _change(world, names, sync, now, targets, in_shadow=mode is Mode.SHADOW)
            if sync == 2:
                used = time.process_time()
            syncer.sync(targets, now, PERIOD, due=now)
        time.sleep(3.0)  # the writers work in batches of two seconds
        return (time.process_time() - used) / (syncs - 2) / count * 1e6


def _change(
    world: Memory,
    names: list[str],
    sync: int,
    now: float,
    targets: list[Target],
    *,
    in_shadow: bool,
) -> None:
    """Let loads change, and the HPA with them."""
    for number in range(0, len(names), BUSY_EVERY):
        name, load = names[number], 5.0 + (sync + number) % 4
        world.answers[f"q{number}"] = answer(load, now=now)
        if in_shadow:
            world.scales[name] = Scale(round(load), round(load), f"app=t{number}")
    if not in_shadow:
        return
    for number, name in enumerate(names):
        scale = world.scales[name]
        count = scale.spec_replicas if isinstance(scale, Scale) else 0
        known = world.hpas.get(name)
        if known is None or known.status is None or known.status.desired_replicas != count:
            status = HpaStatus(now - 1.0, count, count, (1000,))
            world.hpas[name] = Hpa(f"t{number}", spec=targets[number].spec, statuses=(status,))


def main() -> None:
    """Measure both in turns, and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", type=int, default=2000)
    parser.add_argument("--syncs", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    found: dict[Mode, list[float]] = {Mode.LIVE: [], Mode.SHADOW: []}
    for number in range(options.rounds):
        for mode, costs in found.items():
            with tempfile.TemporaryDirectory() as folder:
                cost = measure(options.targets, options.syncs, mode, Path(folder))
            costs.append(cost)
            print(f"round {number + 1}, {mode.value}: {cost:.0f} us a target and sync", flush=True)
    live, shadow = (statistics.median(found[mode]) for mode in (Mode.LIVE, Mode.SHADOW))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"live {live:.0f} us, in shadow {shadow:.0f} us: {shadow / live:.2f} times; {peak:.0f} MiB"
    )


if __name__ == "__main__":
    main()
