"""Results as the status of the PromqlAutoscaler objects in a cluster."""

import json
import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from autoscaler import clock
from autoscaler.config.objects import API_VERSION, PLURAL, ObjectRefusal
from autoscaler.core.decision import Calculation
from autoscaler.core.sync_result import SyncResult
from autoscaler.kubernetes.api import MERGE_PATCH, Api, JsonObject, path_of
from autoscaler.kubernetes.election import ALWAYS_OPEN, WriteGate
from autoscaler.kubernetes.failures import Failure
from autoscaler.rendering import object_status
from autoscaler.sync.ports import Reporter
from autoscaler.token_bucket import TokenBucket
from autoscaler.transport import UNOBSERVED, Observer
from autoscaler.transport.retries import GrowingPause

_REQUEST_SECONDS = 2.0
_JOIN_SECONDS = 0.5
"""How much longer than the flush the thread is awaited, in seconds."""
_SPACING_SECONDS = 0.05
"""The least time between two searches for due objects."""
_COUNTS, _WORDS, _NUMBERS = range(3)
"""What has changed in a status: lower ranks are written first, at three of four tries."""

_Render = Callable[[JsonObject], JsonObject]
"""Makes a status from the known one."""


@dataclass(frozen=True, slots=True)
class StatusPace:
    """The pace of writing statuses, in seconds."""

    per_object: float = 10.0
    numbers: float = 60.0
    """The least times between two writes of one object, and if only values have changed."""
    burst: int = 100
    refill: float = 0.02
    """The budget of all objects: a burst of writes, and one more per ``refill``."""
    first_pause: float = 1.0
    longest_pause: float = 30.0
    """The bounds of the pauses, which double, while the server accepts nothing."""
    refused_pause: float = 60.0
    """How long a namespace is not tried after a 403, or an object after an invalid status."""
    flush: float = 2.0
    """The time limit for what is due at the end."""


class WrittenObject(NamedTuple):
    """An object in force, and its status as JSON as the watch last saw it."""

    namespace: str
    name: str
    generation: int
    status: bytes | None = None


@dataclass(slots=True, eq=False)
class _WrittenStatus:
    """The status of an object: the known one, and the queued one that ``render`` makes.

    ``term`` is the gate's time at our last write; None if another process may have written since.
    After an ``uncertain`` request it is not known what is in the cluster. The last queued status
    rests on ``facts`` and on the ``values`` of metrics; ``change`` is its `lastDecision`. Nothing
    is written before ``next_write``, and no status with only other numbers before ``next_numbers``.
    """

    namespace: str
    name: str
    generation: int = 0
    refused: bool = False
    known: bytes = b""
    term: float | None = None
    uncertain: bool = False
    facts: tuple[object, ...] | None = None
    values: list[object] | None = None
    change: str = ""
    render: _Render | None = None
    due: float = 0.0
    rank: int = _NUMBERS
    next_write: float = 0.0
    next_numbers: float = 0.0


class ObjectStatusWriter(Reporter):
    """Writes changed statuses on a separate thread, so that no sync waits. Only the leader writes.

    After a takeover, `configure_objects` and `refuse` must be called with the statuses that the
    watch has then, because another process wrote them. The ``observer`` is called on the thread:
    when statuses cannot be written, or can again, and at a defect, which costs one status.
    """

    def __init__(
        self,
        api: Api,
        *,
        gate: WriteGate = ALWAYS_OPEN,
        observer: Observer = UNOBSERVED,
        pace: StatusPace | None = None,
    ) -> None:
        self._api = api
        self._gate = gate
        self._observer = observer
        self._pace = pace or StatusPace()
        self._lock = threading.Lock()
        self._objects: dict[tuple[str, str], _WrittenStatus] = {}
        self._in_force: dict[str, _WrittenStatus] = {}
        self._pauses: dict[str, float] = {}
        """By namespace where statuses are forbidden: the time of the next try."""
        self._failed = False
        """Whether the operator was informed of a refusal."""
        self._bucket = TokenBucket(self._pace.burst, self._pace.refill)
        self._growing_pause = GrowingPause(self._pace.first_pause, self._pace.longest_pause)
        self._next_request = 0.0
        self._tries = 0
        self._end = math.inf
        self._wake, self._closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="statuses", daemon=True)
        self._thread.start()

    def configure_objects(self, objects: Mapping[str, WrittenObject]) -> None:
        """Continue with these objects in force, by the keys of their targets."""
        with self._lock:
            self._in_force = {key: self._known(known) for key, known in objects.items()}
            self._forget_removed()

    def refuse(
        self, refused: Mapping[tuple[str, str], tuple[int, ObjectRefusal, bytes | None]]
    ) -> None:
        """Continue with these refused objects, by namespace and name."""
        with self._lock:
            for name, written in self._objects.items():
                if written.refused and name not in refused:
                    written.refused, written.facts, written.render = False, None, None
            for name, (generation, refusal, status) in refused.items():
                written = self._known(WrittenObject(*name, generation, status))
                facts, written.refused = (generation, refusal), True
                if written.facts != facts:
                    written.facts = facts
                    of_refusal = (refusal, generation, clock.wall())
                    render = partial(object_status.refused_status, *of_refusal)
                    self._put(written, render, written.next_write, _COUNTS)
            self._forget_removed()

    def _known(self, known: WrittenObject) -> _WrittenStatus:
        """Return an object; its status is from the watch until this process writes it."""
        namespace, name, generation, status = known
        written = self._objects.get((namespace, name))
        if written is None:
            written = self._objects[namespace, name] = _WrittenStatus(namespace, name)
        if written.term is None or written.term != self._gate.leads_since(namespace):
            written.term, written.uncertain = None, False
            if written.known != (status or b""):
                written.known, written.facts = status or b"", None
                written.change = str(object_status.read_status(status).get("lastDecision", ""))
        written.generation = generation
        return written

    def _forget_removed(self) -> None:
        """Forget removed objects, after the time in which nothing more may be written."""
        in_force, now = {*self._in_force.values()}, clock.monotonic()
        for name, written in [*self._objects.items()]:
            if not written.refused and written not in in_force:
                written.facts = written.render = written.term = None
                if written.next_write <= now:
                    del self._objects[name]

    def report(self, result: SyncResult) -> None:
        """Queue the status after one sync of a target, if it has changed; returns at once."""
        target, decision = result.target, result.decision
        written = self._in_force.get(target.key) if target.object_name else None
        if written is None or written.refused:
            return
        term = self._gate.leads_since(target.namespace)
        if term is None:
            return
        counts, (_, state, cause, _) = (decision.current, decision.desired), result.classified()
        last_scale = None if result.given is None else result.given.history.last_scale_time
        if decision.written:
            last_scale = decision.stamp
        facts = (counts, decision.conditions, last_scale, state, cause, written.generation, term)
        values: list[object] = [
            metric.outcome.current if isinstance(metric.outcome, Calculation) else None
            for metric in decision.metrics
        ]
        change = object_status.change_of(result, written.change) if decision.rescale else ""
        before = written.facts
        if before == facts and not change and written.values == values:
            return
        with self._lock:
            written.facts, written.values = facts, values
            written.change = change or written.change
            of_sync = (replace(result, given=None), written.generation, last_scale, written.change)
            render = partial(object_status.synced_status, *of_sync)
            if before == facts and not change:
                self._put(written, render, written.next_numbers, _NUMBERS)
            else:
                rank = _WORDS if before is None or before[0] == counts else _COUNTS
                self._put(written, render, written.next_write, rank)

    def _put(self, written: _WrittenStatus, render: _Render, due: float, rank: int) -> None:
        """Queue a status instead of the queued one, which it does not delay."""
        if written.render is not None:
            due, rank = min(due, written.due), min(rank, written.rank)
        written.render, written.due, written.rank = render, due, rank
        self._wake.set()

    def close(self) -> None:
        """Write the statuses that are due and within the budget, for two seconds, and end."""
        if not self._closing.is_set():
            self._end = clock.monotonic() + self._pace.flush
            self._closing.set()
            self._wake.set()
        self._thread.join(max(0.0, self._end - clock.monotonic()) + _JOIN_SECONDS)

    def _run(self) -> None:
        due: float | None = None
        while not self._closing.is_set():
            self._wake.wait(None if due is None else max(0.0, due - clock.monotonic()))
            self._wake.clear()
            due = self._write_due()
            self._closing.wait(max(_SPACING_SECONDS, self._next_request - clock.monotonic()))
        self._write_due()

    def _queued(self) -> list[_WrittenStatus]:
        with self._lock:
            return [written for written in self._objects.values() if written.render is not None]

    def _write_due(self) -> float | None:
        """Write due statuses while the budget lasts; return when the next one is due."""
        now, is_fair = clock.monotonic(), self._tries % 4 == 3
        due = [written for written in self._queued() if written.due <= now]
        for written in sorted(due, key=lambda of: (0 if is_fair else of.rank, of.due)):
            now = clock.monotonic()
            if self._api.retrier.is_held:
                self._next_request = now + self._pace.first_pause
            elif (self._bucket.empty_until() or 0.0) > now:
                # Not for each token: in a large fleet this search takes some milliseconds.
                self._next_request = now + 10 * self._pace.refill
                self._tries += 1
            if now < self._next_request or now > self._end:
                return self._next_request
            try:
                self._write(written)
            except Exception as error:  # noqa: BLE001 - without this thread no status is written
                self._next_request = now + self._pace.first_pause
                self._observer.fault(error)
        return min((written.due for written in self._queued()), default=None)

    def _write(self, written: _WrittenStatus) -> None:
        """Write the newest status of an object, or put it off."""
        now, namespace = clock.monotonic(), written.namespace
        with self._lock:
            render, written.render = written.render, None
            term = self._gate.leads_since(namespace)
            if render is None or (term is None and not written.refused):
                written.facts = None
                return
        before, until = object_status.read_status(written.known), self._pauses.get(namespace, 0.0)
        status = render(before)
        if term is None:
            until = max(until, now + self._pace.first_pause)
        if not written.uncertain:
            changed = {key for key, value in status.items() if before.get(key) != value}
            if not changed:
                return
            if changed <= object_status.NUMBERS:
                until = max(until, written.next_numbers)
        if now < until:
            self._put_back(written, render, until)
            return
        self._bucket.take(now)
        written.next_write = now + self._pace.per_object
        answer = self._api.once(
            "PATCH",
            f"{path_of(API_VERSION, PLURAL, namespace, written.name)}/status",
            min(now + _REQUEST_SECONDS, self._gate.may_write_until(namespace)),
            body={"status": status},
            content_type=MERGE_PATCH,
            may_send=lambda: self._gate.leads_since(namespace) is not None,
        )
        if isinstance(answer, Failure):
            self._settle_failure(written, render, answer)
            return
        after = {key: value for key, value in (before | status).items() if value is not None}
        written.known, written.term, written.uncertain = json.dumps(after).encode(), term, False
        written.next_numbers = now + self._pace.numbers
        self._growing_pause.reset()
        self._pauses = {k: v for k, v in self._pauses.items() if k != namespace and v > now}
        if self._failed and not self._pauses:
            self._failed = False
            sentence = "the status of objects can be written now"
            self._observer.writes_changed("statuses", ok=True, sentence=sentence)

    def _settle_failure(self, written: _WrittenStatus, render: _Render, failure: Failure) -> None:
        now, status, pause = clock.monotonic(), failure.status or 0, self._pace.refused_pause
        written.uncertain |= failure.uncertain
        if status == 404:
            with self._lock:
                self._in_force = {k: v for k, v in self._in_force.items() if v is not written}
                self._objects.pop((written.namespace, written.name), None)
        elif not 400 <= status < 500 or status in {401, 409, 429}:
            self._put_back(written, render, written.next_write)
            asked = min(failure.retry_after or 0.0, self._pace.longest_pause)
            self._next_request = now + max(self._growing_pause.next(), asked)
        else:
            if status == 403:
                self._pauses[written.namespace] = now + pause
            written.next_write = now + pause
            self._put_back(written, render, written.next_write)
            if not self._failed:
                self._failed = True
                sentence = f"the status of objects cannot be written ({failure.message}); "
                sentence += f"it is tried again every {pause:g} seconds"
                self._observer.writes_changed("statuses", ok=False, sentence=sentence)

    def _put_back(self, written: _WrittenStatus, render: _Render, due: float) -> None:
        """Queue a status again, unless there is a newer one or it is no longer wanted."""
        with self._lock:
            if written.render is None and written.facts is not None:
                written.render, written.due = render, due
