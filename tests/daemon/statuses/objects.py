"""Syncs of objects, and a stand-in for the API server that keeps their statuses."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from autoscaler import clock
from autoscaler.core.history import History, Recommendation
from autoscaler.core.observation import Scale
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import Query, Target
from autoscaler.core.writes import AcceptedWrite
from autoscaler.daemon.object_status import ObjectStatusWriter, StatusPace, WrittenObject
from autoscaler.kubernetes import Api
from autoscaler.kubernetes.api import JsonObject
from autoscaler.kubernetes.election import ALWAYS_OPEN, WriteGate
from autoscaler.kubernetes.failures import Failure
from tests.core.builders import BASE, FREE, average, external, spec, values
from tests.core.deciding import decided, observe
from tests.worlds.cluster.cluster import Noting

QUICK = StatusPace(
    per_object=0.15,
    numbers=0.4,
    refill=0.001,
    first_pause=0.05,
    longest_pause=0.2,
    refused_pause=0.2,
)
"""A pace at which no test has to wait."""

_SPEC = spec(external(average("10")), behavior=FREE)
_BEFORE = History(recommendations=(Recommendation(0, BASE - 3600),))


def synced(
    name: str = "web",
    namespace: str = "shop",
    replicas: int = 3,
    load: float = 30.0,
    message: str | None = None,
) -> SyncResult:
    """Return a sync of the Deployment of an object; the message is of its first condition."""
    decision, _ = decided(_SPEC, observe(replicas, values(load)), _BEFORE)
    if message is not None:
        first, *others = decision.conditions
        decision = replace(decision, conditions=(replace(first, message=message), *others))
    of = replace(_SPEC, scale_target_ref=replace(_SPEC.scale_target_ref, name=name))
    target = Target(namespace, of, (Query("up"),), object_name=name)
    return SyncResult(target, decision)


def scaled(result: SyncResult) -> SyncResult:
    """Return a result whose write was accepted."""
    decision = replace(result.decision, written=True)
    scale = Scale(decision.desired, decision.desired, "app=web")
    return replace(result, decision=decision, write=AcceptedWrite(scale))


def in_force(
    *results: SyncResult, generation: int = 1, status: bytes | None = None
) -> dict[str, WrittenObject]:
    """Return the objects of syncs."""
    return {
        result.target.key: WrittenObject(
            result.target.namespace, result.target.object_name, generation, status
        )
        for result in results
    }


class StatusServer(Api):
    """Keeps statuses by namespace and name; ``fault`` may fail a request, or carry it out first."""

    def __init__(self) -> None:
        self.retrier: Any = self
        self.is_held = False
        self.fault: Callable[[tuple[str, str]], Failure | None] = lambda _: None
        self.tried: list[tuple[float, tuple[str, str]]] = []
        self.statuses: dict[tuple[str, str], JsonObject] = {}
        self.gate = threading.Event()
        """While this is not set, requests wait."""
        self.gate.set()

    def once(self, method: str, path: str, deadline: float, **options: Any) -> JsonObject | Failure:
        assert method == "PATCH"
        assert deadline - clock.monotonic() <= 2.0
        *_, namespace, _, name, _ = path.split("/")
        self.tried.append((clock.monotonic(), (namespace, name)))
        self.gate.wait(30)
        if not options["may_send"]():
            return Failure("it came too late")
        failure = self.fault((namespace, name))
        if failure is None or failure.message == "answer lost":
            patch = json.loads(json.dumps(options["body"]["status"]))
            after = self.statuses.get((namespace, name), {}) | patch
            self.statuses[namespace, name] = {k: v for k, v in after.items() if v is not None}
        return failure or {}

    @property
    def names(self) -> list[tuple[str, str]]:
        return [name for _, name in self.tried]

    def count(self, *of: str) -> tuple[object, ...]:
        """Return values of the status of the object web."""
        status = self.statuses.get(("shop", "web"), {})
        return tuple(status.get(key) for key in of)


class Election(WriteGate):
    """A gate that a test opens and closes."""

    def __init__(self) -> None:
        self.since: float | None = None

    def leads_since(self, _: str | None = None, /) -> float | None:
        return self.since

    def may_write_until(self, _: str | None = None, /) -> float:
        return 0.0 if self.since is None else float("inf")


@contextmanager
def writing(
    api: Api,
    *,
    gate: WriteGate = ALWAYS_OPEN,
    pace: StatusPace = QUICK,
    notes: list[str] | None = None,
) -> Iterator[ObjectStatusWriter]:
    """Run a writer; its thread ends with the block."""
    observer = Noting([] if notes is None else notes)
    writer = ObjectStatusWriter(api, gate=gate, observer=observer, pace=pace)
    try:
        yield writer
    finally:
        writer.close()
        writer._thread.join(10)
        assert not writer._thread.is_alive()
