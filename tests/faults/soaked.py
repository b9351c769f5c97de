"""The daemon's own parts, synced as fast as they can, and measured: a process of its own.

The clock that decisions are made by is ahead of the real one: each sync comes 15 s after the one
before, as the configuration says, though it takes milliseconds.  Run by `tests.faults.soak`.
"""

import gc
import io
import json
import resource
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO, cast

from autoscaler import clock
from autoscaler.config import Config, load
from autoscaler.daemon import LogFormat, LogLevel, logs
from autoscaler.daemon.service import MainLoop
from autoscaler.daemon.service_manager import Signals
from autoscaler.sync.slots import slots_of
from tests.worlds.faults.bed import defects

PERIOD_SECONDS = 15.0
_BUDGET_SECONDS = 1.0
"""What a sync may take; its tries and time-outs are cut to fit."""
_PASSING = "prometheus-query"
"""The name of threads that live as long as requests of a sync follow one another."""
_LOOKS, _LOOK_SECONDS = 5, 0.02
_OF_WATCHES = "watch-end"
"""The name of the thread of each open watch: it ends with the watch."""
_POOLED = ("query_", "slow-query_", "urgent_", "kubernetes-request")
"""How the names of threads begin that pools make when they need one more, up to their size."""


class Tally(io.TextIOBase):
    """A log that counts its lines, and keeps only defects."""

    def __init__(self) -> None:
        self.events: Counter[str] = Counter()
        self.defects: list[str] = []

    def write(self, text: str) -> int:
        if text.strip():
            line = json.loads(text)
            self.events[line["event"]] += 1
            self.defects += map(json.dumps, defects([line]))
        return len(text)


def main(file: Path, syncs: int, every: int) -> None:
    """Run the syncs, and print a line of JSON after each ``every`` of them and at the end."""
    config, tally = load(file), Tally()
    logs.configure(LogLevel.WARNING, LogFormat.JSON, cast("TextIO", tally))
    with ExitStack() as stack:
        loop = MainLoop(config, Signals(), stack)
        loop._apply(config, slots_of(config.targets), loop.connections)
        _run(loop, config, syncs, every)
    print(json.dumps({"events": tally.events, "defects": tally.defects}), flush=True)


def _run(loop: MainLoop, config: Config, syncs: int, every: int) -> None:
    # As the daemon does once it serves.
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)
    now, steady = clock.wall(), clock.steady()
    for number in range(1, syncs + 1):
        now, steady = now + PERIOD_SECONDS, steady + PERIOD_SECONDS
        loop.syncer.sync(config.targets, now, _BUDGET_SECONDS, steady=steady)
        if number % every == 0:
            print(json.dumps({"syncs": number, **_measured()}), flush=True)


def _measured() -> dict[str, int]:
    """Measure what is left when nothing is under way."""
    until = time.monotonic() + 5
    while _PASSING in (names := _thread_names()) and time.monotonic() < until:
        time.sleep(0.01)
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    workers = sum(name.startswith(_POOLED) for name in names)
    open_ = [kind for _, kind in _files_that_stay()]
    return {
        "resident": pages * resource.getpagesize(),
        "objects": len(gc.get_objects()),
        "files": len(open_) - open_.count("socket"),
        "sockets": open_.count("socket"),
        "threads": len(names) - workers,
        "workers": workers,
    }


def _thread_names() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name != _OF_WATCHES]


def _files_that_stay() -> set[tuple[str, str]]:
    """Return number and kind of each file that several looks find open.

    SQLite opens temporary files, and a page opens files of /proc, for moments and on other threads.
    """
    looks = []
    for _ in range(_LOOKS):
        files = {file.name: _kind_of(file) for file in Path("/proc/self/fd").iterdir()}
        looks.append({(name, kind) for name, kind in files.items() if kind != "gone"})
        time.sleep(_LOOK_SECONDS)
    return set.intersection(*looks)


def _kind_of(file: Path) -> str:
    try:
        return str(file.readlink()).partition(":")[0]
    except FileNotFoundError:
        return "gone"  # as the one by which the folder was read, whose number may be another


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
