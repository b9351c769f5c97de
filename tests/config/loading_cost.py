"""Prints what loading each of some files costs: `python -m tests.config.loading_cost FILE...`.

One line of JSON for each, which is loaded in a process of its own, with all modules imported.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path

from autoscaler.config import ConfigError, load


def _status(name: str) -> float:
    """Return MiB of memory from the status of this process in Linux."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


class _Ticks(threading.Thread):
    """Wants to run every millisecond, and notes how long it could not.

    In seconds of the process's CPU time, so that other processes do not count.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.longest = 0.0
        self.running = True

    def run(self) -> None:
        last = time.process_time()
        while self.running:
            time.sleep(0.001)
            last, before = time.process_time(), last
            self.longest = max(self.longest, last - before)


def _cost_of(path: Path) -> dict[str, object]:
    ticks = _Ticks()
    ticks.start()
    before, begin = _status("VmRSS"), time.process_time()
    try:
        load(path, lambda: "a")
    except ConfigError as error:
        problems = [str(problem) for problem in error.problems]
    else:
        problems = []
    ticks.running = False
    ticks.join()
    return {
        "mebibytes": _status("VmHWM") - before,
        "longest": ticks.longest,
        "seconds": time.process_time() - begin,
        "first": problems[0] if problems else "",
    }


def main(paths: list[str]) -> None:
    """Load the files."""
    warm = Path(paths[0])  # a small one, for what is made at the first use
    load(warm, lambda: "a")
    for path in paths[1:]:
        child = os.fork()
        if child == 0:
            print(json.dumps(_cost_of(Path(path))), flush=True)
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(sys.argv[1:])
