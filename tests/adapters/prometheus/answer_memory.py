"""Asks a Prometheus many queries at once, and prints what their answers take at most.

A process of its own: what the server and other tests allocate would count.  Its arguments are the
URL, the number of queries and the seconds for them; it prints the bytes that were resident at most
beyond those before, the number of answers and the failures.
"""

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from autoscaler import clock
from autoscaler.core.series import QueryResult
from autoscaler.prometheus import PrometheusReader
from tests.adapters.prometheus.reading import settings


def status(field: str) -> int:
    """Return a field of /proc/self/status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) << 10


def main(url: str, queries: int, seconds: float) -> None:
    """Ask, keep all answers as a sync does, and print."""
    reader = PrometheusReader(settings(url, timeout=seconds), threading.Event())
    before = status("VmRSS")
    with ThreadPoolExecutor(queries) as threads:
        until = clock.monotonic() + seconds
        outcomes = list(threads.map(lambda n: reader.query(f"q{n}", None, until), range(queries)))
    taken = status("VmHWM") - before
    answers = [one for one in outcomes if isinstance(one, QueryResult)]
    failures = sorted({one.message for one in outcomes if not isinstance(one, QueryResult)})
    print(json.dumps({"taken": taken, "answers": len(answers), "failures": failures}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
