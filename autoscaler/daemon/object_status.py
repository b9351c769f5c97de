"""Results as the status of the PromqlAutoscaler objects in a cluster."""

import json
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
from autoscaler.rendering.object_status import Status
from autoscaler.sync.ports import Reporter
from autoscaler.token_bucket import TokenBucket
from autoscaler.transport import UNOBSERVED, Observer
from autoscaler.transport.retries import FailureKind, GrowingPause

_REQUEST_SECONDS = 2.0
_JOIN_SECONDS = 0.5
"""How much longer than the flush the thread is awaited, in seconds."""
_HEAD_START = 30.0
"""The seconds by which refusals and changed counts precede other statuses."""


_Render = Callable[[Status], Status]


@dataclass(frozen=True, slots=True)
class StatusPace:
    """The pace of writing statuses, in seconds."""

    per_object: float = 10.0
    numbers: float = 60.0
    """The least times between two writes of one object, and if only values have changed."""
    burst: int = 50
    refill: float = 0.1
    """The budget of all objects: a burst of writes, and one more per ``refill``."""
    first_pause: float = 1.0
    longest_pause: float = 30.0
    """The bounds of the pauses, which double, while the server accepts nothing."""
    forbidden_pause: float = 60.0
    """How long a namespace is not tried after a 403."""
    standby: float = 2.0
    """The time between two checks of the leadership while a refusal waits for it."""
    spacing: float = 0.05
    """The least time between two searches for due objects."""
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
    namespace: str
    name: str
    generation: int = 0
    status: bytes = b""
    """The last known status in the cluster."""
    change: str = ""
    """The text of the last change of the replicas."""
    term: float | None = None
    """The gate's time at our last write; None if another process may have written since."""
    uncertain: bool = False
    """Whether a request without an answer may have been executed."""
    refused: bool = False
    facts: tuple[object, ...] | None = None
    values: list[object] | None = None
    """What the last queued status rests on, and the values of its metrics."""
    render: _Render | None = None
    """Makes the queued status from the known one."""
    due: float = 0.0
    urgent: bool = False
    next_write: float = 0.0
    next_numbers: float = 0.0
    """The instants before which nothing is written, and no status with only other values."""

    @property
    def rank(self) -> float:
        """The place in the queue of due objects."""
        return self.due - (_HEAD_START if self.urgent else 0.0)


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
        self._queue: set[_WrittenStatus] = set()
        self._pauses: dict[tuple[str, str], float] = {}
        """By namespace with a 403, or by a refused status: the time of the next try."""
        self._failed = False
        """Whether the operator was informed of a refusal."""
        self._bucket = TokenBucket(self._pace.burst, self._pace.refill)
        self._growing_pause = GrowingPause(self._pace.first_pause, self._pace.longest_pause)
        self._next_request = 0.0
        self._end: float | None = None
        self._wake, self._closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="statuses", daemon=True)
        self._thread.start()

    def configure_objects(self, objects: Mapping[str, WrittenObject]) -> None:
        """Continue with these objects in force, by the keys of their targets."""
        with self._lock:
            self._in_force = {key: self._known(*written) for key, written in objects.items()}
            self._forget_removed()

    def refuse(
        self, refused: Mapping[tuple[str, str], tuple[int, ObjectRefusal, bytes | None]]
    ) -> None:
        """Continue with these refused objects, by namespace and name."""
        with self._lock:
            for name, written in self._objects.items():
                if written.refused and name not in refused:
                    written.refused = False
                    self._queue.discard(written)
            for name, (generation, refusal, status) in refused.items():
                written, facts = self._known(*name, generation, status), (generation, refusal)
                written.refused = True
                if written.facts != facts:
                    written.facts = facts
                    of_refusal = (refusal, generation, clock.wall())
                    render = partial(object_status.refused_status, *of_refusal)
                    self._put(written, render, written.next_write, urgent=True)
            self._forget_removed()

    def _known(
        self, namespace: str, name: str, generation: int, status: bytes | None
    ) -> _WrittenStatus:
        """Return an object; its status is from the watch until this process writes it."""
        written = self._objects.get((namespace, name))
        if written is None:
            written = self._objects[namespace, name] = _WrittenStatus(namespace, name)
        if written.term is None or written.term != self._gate.leads_since(namespace):
            written.term, written.uncertain = None, False
            if written.status != (status or b""):
                written.status, written.facts = status or b"", None
                known = object_status.read_status(written.status)
                written.change = str(known.get("lastDecision", ""))
        written.generation = generation
        return written

    def _forget_removed(self) -> None:
        """Forget removed objects, after the time in which nothing more may be written."""
        in_force, now = {*self._in_force.values()}, clock.monotonic()
        for name, written in [*self._objects.items()]:
            if not written.refused and written not in in_force:
                written.facts = written.term = None
                self._queue.discard(written)
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
        before, has_changed = written.facts, bool(change) or written.facts != facts
        if not has_changed and values == written.values:
            return
        with self._lock:
            written.facts, written.values = facts, values
            written.change = change or written.change
            render = partial(
                object_status.synced_status,
                replace(result, given=None),
                written.generation,
                last_scale,
                written.change,
            )
            due = written.next_write if has_changed else written.next_numbers
            self._put(written, render, due, urgent=before is not None and before[0] != counts)

    def _put(self, written: _WrittenStatus, render: _Render, due: float, *, urgent: bool) -> None:
        """Queue a status instead of the queued one, which it does not delay."""
        if written in self._queue:
            due, urgent = min(due, written.due), urgent or written.urgent
        written.render, written.due, written.urgent = render, due, urgent
        self._queue.add(written)
        self._wake.set()

    def close(self) -> None:
        """Write the statuses that are due, for two seconds at most, and end."""
        if self._end is None:
            self._end = clock.monotonic() + self._pace.flush
            self._closing.set()
            self._wake.set()
        self._thread.join(max(0.0, self._end - clock.monotonic()) + _JOIN_SECONDS)

    def _run(self) -> None:
        while True:
            self._wake.clear()
            begin, now = self._write_due(), clock.monotonic()
            if self._end is not None and (begin is None or max(begin, now) > self._end):
                return
            self._wake.wait(None if begin is None else begin - now)
            self._closing.wait(self._pace.spacing)

    def _write_due(self) -> float | None:
        """Write due statuses while the budget lasts; return when to continue, if anything waits."""
        now = clock.monotonic()
        with self._lock:
            due = sorted((each for each in self._queue if each.due <= now), key=lambda of: of.rank)
        for written in due:
            begin = max(self._next_request, self._bucket.empty_until() or 0.0)
            if begin > clock.monotonic():
                return begin
            try:
                self._write(written)
            except Exception as error:  # noqa: BLE001 - without this thread no status is written
                self._done(written, written.render)
                self._next_request = clock.monotonic() + self._pace.first_pause
                self._observer.fault(error)
        with self._lock:
            return min((each.due for each in self._queue), default=None)

    def _write(self, written: _WrittenStatus) -> None:
        """Write the newest status of an object, or put it off."""
        now, namespace = clock.monotonic(), written.namespace
        with self._lock:
            render, term = written.render, self._gate.leads_since(namespace)
            if term is None and not written.refused:
                written.facts = None
                self._queue.discard(written)
            if written not in self._queue or render is None:
                return
        pauses = self._pauses
        until = max(pauses.get((namespace, name), 0.0) for name in ("", written.name))
        if term is None or now < until:
            self._put_off(written, render, max(until, now + self._pace.standby))
            return
        before = object_status.read_status(written.status)
        status = render(before)
        changed = object_status.differences(before, status)
        if not written.uncertain and not changed:
            self._done(written, render)
        elif (
            not written.uncertain
            and changed <= object_status.NUMBERS
            and now < written.next_numbers
        ):
            self._put_off(written, render, written.next_numbers)
        else:
            answer = self._send(written, status)
            if isinstance(answer, Failure):
                self._settle_failure(written, render, answer)
                return
            written.status = json.dumps(object_status.patched(before, status)).encode()
            written.term, written.uncertain = term, False
            written.next_numbers = now + self._pace.numbers
            self._growing_pause.reset()
            self._done(written, render)
            self._permitted(written)

    def _send(self, written: _WrittenStatus, status: Status) -> JsonObject | Failure:
        if self._api.retrier.is_held:
            return Failure("the API server delays all requests", transient=True)
        now, namespace, gate = clock.monotonic(), written.namespace, self._gate
        self._bucket.take(now)
        written.next_write = now + self._pace.per_object
        return self._api.once(
            "PATCH",
            f"{path_of(API_VERSION, PLURAL, namespace, written.name)}/status",
            min(now + _REQUEST_SECONDS, gate.may_write_until(namespace)),
            body={"status": status},
            content_type=MERGE_PATCH,
            may_send=lambda: gate.leads_since(namespace) is not None,
        )

    def _settle_failure(self, written: _WrittenStatus, render: _Render, failure: Failure) -> None:
        status, name = failure.status or 0, (written.namespace, written.name)
        written.uncertain |= failure.uncertain
        if status == 404:
            self._done(written, written.render)
            with self._lock:
                self._in_force = {k: v for k, v in self._in_force.items() if v is not written}
                if self._objects.get(name) is written:
                    del self._objects[name]
        elif 400 <= status < 500 and status not in {401, 409, 429}:
            pause = self._pace.forbidden_pause
            until = clock.monotonic() + pause
            self._pauses[(name[0], "") if status == 403 else name] = until
            self._put_off(written, render, until)
            if not self._failed:
                self._failed = True
                why = f"{failure.message}; it is tried again every {pause:g} seconds"
                self._say(ok=False, sentence=f"the status of objects cannot be written: {why}")
        else:
            self._put_off(written, render, written.next_write)
            if failure.kind is not FailureKind.WITHHELD:
                asked = min(failure.retry_after or 0.0, self._pace.longest_pause)
                self._next_request = clock.monotonic() + max(self._growing_pause.next(), asked)

    def _permitted(self, written: _WrittenStatus) -> None:
        now, own = clock.monotonic(), {(written.namespace, ""), (written.namespace, written.name)}
        self._pauses = {k: v for k, v in self._pauses.items() if v > now and k not in own}
        if self._failed and not self._pauses:
            self._failed = False
            self._say(ok=True, sentence="the status of objects can be written now")

    def _say(self, *, ok: bool, sentence: str) -> None:
        self._observer.writes_changed("statuses", ok, sentence)

    def _put_off(self, written: _WrittenStatus, render: _Render, due: float) -> None:
        with self._lock:
            if written.render is render:
                written.due = due

    def _done(self, written: _WrittenStatus, render: _Render | None) -> None:
        with self._lock:
            if written.render is render:
                written.render = None
                self._queue.discard(written)
