"""What rehearsals for a page cost the daemon: `python -m benchmarks.what_if`.

A thread works on a grid, as syncs do, while as many rehearsals run as are let in, and while none
does, in turns. Prints how late it was, and the processor time that a rehearsal takes of its own
process.
"""

import argparse
import statistics
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from autoscaler import clock
from autoscaler.rendering.answers import ProblemDetails
from autoscaler.web.what_if import MOST_AT_ONCE, what_if, yaml_in_force
from tests.worlds.pages.fleets import NOW, story
from tests.worlds.pages.serving import Served, serving

GRID_SECONDS, WORK_SECONDS = 0.05, 0.002


def lateness(until: threading.Event) -> list[float]:
    """Return by how many seconds the thread began too late, each time."""
    late: list[float] = []
    due = time.monotonic()
    while not until.is_set():
        due += GRID_SECONDS
        time.sleep(max(0.0, due - time.monotonic()))
        begun = time.monotonic()
        late.append(begun - due)
        while time.monotonic() - begun < WORK_SECONDS:
            pass
        due = max(due, begun)
    return late


def rehearse(served: Served, client: str, until: float) -> tuple[int, int]:
    """Rehearse one after another; return how many were done, and how many took too long."""
    target, done, ended = served.fleet.players[0].target, 0, 0
    while time.monotonic() < until:
        text = yaml_in_force(target).replace("minReplicas: 1", "minReplicas: 2")
        answer = what_if(served.views, target, text, (NOW - 10_000, NOW), client)
        refused = isinstance(answer, ProblemDetails)
        done, ended = done + (not refused), ended + refused
    return done, ended


def measured(served: Served, clients: int, seconds: float) -> str:
    """Return a line of figures."""
    stop, processor = threading.Event(), time.process_time()
    with ThreadPoolExecutor(clients + 1) as pool:
        grid, until = pool.submit(lateness, stop), time.monotonic() + seconds
        runs = [pool.submit(rehearse, served, str(one), until) for one in range(clients)]
        time.sleep(max(0.0, until - time.monotonic()))
        counts = [run.result() for run in runs]
        stop.set()
        late = [1000 * one for one in grid.result()]
    spent, done = time.process_time() - processor, sum(one for one, _ in counts)
    ended = sum(other for _, other in counts)
    cuts = statistics.quantiles(late, n=100)
    return (
        f"{clients} at once: late by {cuts[49]:.2f} ms (p50), {cuts[98]:.2f} ms (p99), "
        f"{max(late):.2f} ms at most; {done} rehearsed, {ended} took too long; "
        f"{spent:.2f} s of a processor in this process"
    )


def main() -> None:
    """Measure in turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each turn")
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    clock.wall = lambda: NOW
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        served = stack.enter_context(serving(story(folder)))
        for _ in range(given.turns):
            for clients in (0, MOST_AT_ONCE):
                print(measured(served, clients, given.seconds), flush=True)


if __name__ == "__main__":
    main()
