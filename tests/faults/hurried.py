"""The daemon with short times: what takes a minute to be believed takes two seconds.

`python -m tests.faults.hurried python -m autoscaler run ...` is the command behind it.
"""

import runpy
import sys

from autoscaler.kubernetes import credentials, watched_cluster
from autoscaler.kubernetes.watch_requests import WatchTimings
from autoscaler.telemetry import health

if __name__ == "__main__":
    health.ANSWERS_COUNT_SECONDS = 2.0
    credentials._RELOAD_SECONDS = 1.0
    watched_cluster.WatchTimings = lambda: WatchTimings(  # type: ignore[attr-defined, misc, assignment]
        head=2.0,
        longest_pause=0.5,
        refused_pause=1.0,
        refusal_confirmed_after=2.0,
        first_refusal_confirmed_after=2.0,
        trusted=2.0,
        pods_trusted=1.0,
    )
    _python, _m, _module, *argv = sys.argv[1:]
    sys.argv = ["autoscaler", *argv]
    runpy.run_module("autoscaler", run_name="__main__", alter_sys=True)
