"""When writes land, by a watch of the API server's own objects."""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

import urllib3

from benchmarks.bulk import Bulk
from tests.worlds.waiting import wait_until


@dataclass(frozen=True)
class Change:
    """When an object came to want that many replicas (Unix time)."""

    at: float
    replicas: int


class Landings:
    """Watches a collection of Deployments and knows when each came to its count of replicas."""

    def __init__(self, bulk: Bulk, collection: str) -> None:
        version = json.loads(bulk.text(f"{collection}?limit=1"))["metadata"]["resourceVersion"]
        self._response = bulk.stream(f"{collection}?watch=1&resourceVersion={version}")
        self._lines: list[tuple[float, bytes]] = []
        self._parsed = 0
        self._changes: dict[str, list[Change]] = {}
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Both are raised where the server has ended the watch already.
        with suppress(ValueError, RuntimeError):
            self._response.shutdown()
        self._thread.join(10)
        self._response.close()

    def wait(
        self, replicas: int, count: int, timeout: float, alive: Callable[[], object]
    ) -> list[float]:
        """Wait until `count` objects want `replicas`; return the Unix times of those events.

        `alive` is called meanwhile and may raise. Objects that were at that count when the watch
        began do not count. After `timeout` seconds the times so far are returned.
        """
        deadline = time.monotonic() + timeout

        def landed() -> list[float]:
            self._parse()
            last = (changes[-1] for changes in self._changes.values())
            return [change.at for change in last if change.replicas == replicas]

        def enough() -> bool:
            alive()
            return len(landed()) >= count or time.monotonic() > deadline

        wait_until("the writes land", enough, timeout=timeout + 60, interval=0.1)
        return sorted(landed())

    def changes(self) -> Mapping[str, Sequence[Change]]:
        """Return the changes of each object's replicas so far, the first event of it included."""
        self._parse()
        return self._changes

    def _read(self) -> None:
        rest = b""
        # The watch ends by a shutdown of its socket.
        with suppress(urllib3.exceptions.HTTPError, OSError, ValueError):
            for chunk in self._response.stream(None):
                now = time.time()
                *lines, rest = (rest + chunk).split(b"\n")
                self._lines.extend((now, line) for line in lines)

    def _parse(self) -> None:
        """Take in the new lines; parsing waits for this, to leave the CPU to what is measured."""
        lines = self._lines[self._parsed :]
        self._parsed += len(lines)
        for at, line in lines:
            found = json.loads(line)["object"]
            name, replicas = found["metadata"]["name"], found["spec"]["replicas"]
            changes = self._changes.setdefault(name, [])
            # A later event of the same count, such as one of the status, is no landing.
            if not changes or changes[-1].replicas != replicas:
                changes.append(Change(at, replicas))
