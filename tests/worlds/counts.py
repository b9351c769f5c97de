"""Every count of the Deployments of a namespace, as a watch tells them."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import requests

from autoscaler import clock
from tests.worlds.controlplane import workloads
from tests.worlds.controlplane.api import Api
from tests.worlds.waiting import Background, wait_until

Seen = tuple[float, int]
"""The time of a count, in seconds of `clock.monotonic`, and the count."""


class Counts(Background):
    """Keeps all counts, by the Deployments' names, from its begin on."""

    def __init__(self, api: Api, namespace: str) -> None:
        super().__init__()
        path = workloads.collection("Deployment", namespace)
        listed = api.get(path)
        self.seen: dict[str, list[Seen]] = {}
        for item in listed["items"]:
            self._take(item)
        self._watch = api.watch(path, resourceVersion=listed["metadata"]["resourceVersion"])

    def last(self, name: str) -> int:
        return self.seen[name][-1][1]

    def wait_for(self, name: str, replicas: int) -> None:
        """Wait until a count is the last one, or one of the two before it."""
        wait_until(
            f"{replicas} replicas of {name}",
            lambda: replicas in [count for _, count in self.seen[name][-3:]],
        )

    def wait_for_other(self, name: str, replicas: int) -> None:
        wait_until(f"another count of {name}", lambda: self.last(name) != replicas)

    def __exit__(self, *_: object) -> None:
        watching = self._thread.is_alive()
        self._watch.cancel()
        super().__exit__()
        assert watching, "the watch ended before the run did: what came later was not seen"

    def _run(self) -> None:
        # The end of the test cuts the watch.
        with suppress(requests.RequestException):
            for event in self._watch:
                self._take(event["object"])

    def _take(self, item: Mapping[str, Any]) -> None:
        seen = self.seen.setdefault(item["metadata"]["name"], [])
        replicas = item["spec"]["replicas"]
        if not seen or seen[-1][1] != replicas:
            seen.append((clock.monotonic(), replicas))
