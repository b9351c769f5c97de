"""Results as Kubernetes Events on the scaled objects.

Repetitions are counted, and too many Events with the same reason are combined, as by client-go's
event correlator, which has the same constants.
"""

import math
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import NamedTuple

from autoscaler import clock
from autoscaler.core.contention import CONTROLLED_BY_OTHER
from autoscaler.core.decision import Decision, Event, Zone
from autoscaler.core.extensions import Pause
from autoscaler.core.observation import Scale
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.writes import SkippedWrite
from autoscaler.kubernetes.election import ALWAYS_OPEN, WriteGate
from autoscaler.kubernetes.events import EventOutcome, Events, InvolvedObject, Occurrences
from autoscaler.rendering import breaker, target_rules, wording
from autoscaler.sync.ports import HOLDS, BreakerNews, Reporter
from autoscaler.telemetry.metrics import EventCounts
from autoscaler.token_bucket import TokenBucket
from autoscaler.transport import UNOBSERVED, Observer
from autoscaler.transport.retries import GrowingPause

_MOST_QUEUED = 16_384
_MOST_UIDS = 65_536
_JOIN_SECONDS = 0.5
"""How much longer than the flush the thread is awaited, in seconds."""

_WINDOW_SECONDS = 600.0
"""How long after its last occurrence an Event is updated rather than created."""
_MOST_ALIKE = 10
"""The most messages of one reason with their own Events; further ones share one Event."""
_COMBINED = "(combined from similar events): "
_BURST = 25
_REFILL_SECONDS = 300.0
"""The burst of requests per object and reason, and the seconds per further request. client-go
counts all reasons together: the warnings of an outage would use up the requests for its end."""
_MOST_OBJECTS = 16_384
"""The most remembered objects; the one without Events for the longest time is dropped first."""
_MOST_WAITING = 4_096


@dataclass(frozen=True, slots=True)
class EventPace:
    """The pace of writing Events, in seconds."""

    spacing: float = 0.02
    """The least time between two requests."""
    first_pause: float = 1.0
    longest_pause: float = 30.0
    """The bounds of the pauses, which double, while the server accepts nothing."""
    forbidden_pause: float = 60.0
    """How long a namespace is not tried after a refusal."""
    flush: float = 2.0
    """The time limit for the remaining Events at the end."""


class _QueuedEvents(NamedTuple):
    """The Events of one object in a sync."""

    involved: InvolvedObject
    instant: float
    events: tuple[Event, ...]


class EventReporter(Reporter):
    """Queues Events; a separate thread writes them, so that no sync waits.

    Only the leader writes, so each Event is written once. Events of the daemon are on its own
    ``pod``, if that is in this cluster. The ``observer`` is called on that thread: when Events
    become forbidden or permitted, and at a defect, which costs one Event.
    """

    def __init__(
        self,
        events: Events,
        *,
        gate: WriteGate = ALWAYS_OPEN,
        observer: Observer = UNOBSERVED,
        pod: InvolvedObject | None = None,
        pace: EventPace | None = None,
    ) -> None:
        self._events = events
        self._gate = gate
        self._observer = observer
        self._pod = pod
        self._pace = pace or EventPace()
        self._queue: SimpleQueue[_QueuedEvents | None] = SimpleQueue()
        self._uids: dict[str, str] = {}
        self._paused: dict[str, Pause] = {}
        self._correlator = Correlator()
        self._not_queued = 0
        """The number of Events that `report` dropped."""
        self._written = 0
        self._refused = 0
        self._pauses: dict[str, float] = {}
        """By namespace where Events are forbidden: the time of the next try."""
        self._forbidden = False
        """Whether the operator was informed of that."""
        self._next_request = 0.0
        self._growing_pause = GrowingPause(self._pace.first_pause, self._pace.longest_pause)
        self._end: float | None = None
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)
        self._thread.start()

    # -- for syncs -------------------------------------------------------------------------

    def report(self, result: SyncResult) -> None:
        """Queue the Events of one target's result; returns at once."""
        decision, target = result.decision, result.target
        if len(self._uids) > _MOST_UIDS:  # Some targets were removed.
            self._uids.clear()
            self._paused.clear()
        ours = self._of_pause(target.key, decision)
        if isinstance(decision.scale, Scale):
            self._uids[target.key] = decision.scale.uid
        if not decision.events and not ours and decision.foreign is None:
            return
        told, left_out = [*wording.named_events(decision)], isinstance(result.write, SkippedWrite)
        if decision.in_shadow:
            ours, told = (), [event for event in told if event.reason == CONTROLLED_BY_OTHER]
            left_out = not told
        if left_out or not self._gate.leading():
            return
        if self._end is not None or self._queue.qsize() >= _MOST_QUEUED:
            self._not_queued += 1
            return
        events = [
            Event(event.type, event.reason, wording.plain(event.message, decision))
            for event in (*ours, *told)
        ]
        if decision.foreign is not None:
            kind = "Warning" if decision.foreign.reversal else "Normal"
            events.insert(
                0, Event(kind, "ReplicasChangedByOther", wording.foreign(decision.foreign))
            )
        ref, uid = target.spec.scale_target_ref, self._uids.get(target.key, "")
        involved = InvolvedObject(ref.api_version, ref.kind, target.namespace, ref.name, uid)
        self._queue.put(_QueuedEvents(involved, decision.time, tuple(events)))

    def breaker_changed(self, news: BreakerNews) -> None:
        """Queue an Event on the daemon's own pod; returns at once."""
        if self._pod is None or self._end is not None or not self._gate.leading():
            return
        kind, reason = ("Warning", "Tripped") if news.change in HOLDS else ("Normal", "Ended")
        event = Event(kind, f"ScaleDownBreaker{reason}", breaker.describe(news))
        self._queue.put(_QueuedEvents(self._pod, clock.wall(), (event,)))

    def _of_pause(self, key: str, decision: Decision) -> tuple[Event, ...]:
        """Return the Event about a pause that has begun, changed or ended since the first sync."""
        if decision.zone is Zone.UNKNOWN:
            return ()  # The annotations were not read.
        before, now = self._paused.get(key), decision.pause
        if now == before:
            return ()
        if now is None:
            del self._paused[key]
            return (Event("Normal", "Resumed", "no longer paused"),)
        self._paused[key] = now
        if key not in self._uids:
            return ()
        return (Event("Normal", "Paused", target_rules.pause(now, decision.time)),)

    # -- life ------------------------------------------------------------------------------

    @property
    def counts(self) -> EventCounts:
        """The counts of Events so far."""
        dropped = self._not_queued + self._refused + self._correlator.dropped
        return EventCounts(self._written, self._correlator.held_back, dropped)

    def close(self) -> None:
        """Write the remaining Events, for two seconds at most, and end."""
        if self._end is None:
            self._end = clock.monotonic() + self._pace.flush
            self._queue.put(None)
        self._thread.join(max(0.0, self._end - clock.monotonic()) + _JOIN_SECONDS)

    def _run(self) -> None:
        while not self._is_over():
            try:
                self._step()
            except Exception as error:  # noqa: BLE001 - without this thread no Event is written
                self._refused += 1
                self._next_request = clock.monotonic() + self._pace.first_pause
                self._observer.fault(error)
        self._refused += self._correlator.waiting

    def _is_over(self) -> bool:
        more = self._correlator.waiting or not self._queue.empty()
        return self._end is not None and (clock.monotonic() >= self._end or not more)

    def _step(self) -> None:
        """Take the next report, or write an Event if the queue is empty and one is due."""
        until = self._next_request if self._end is None else min(self._next_request, self._end)
        patience = max(0.0, until - clock.monotonic()) if self._correlator.waiting else None
        try:
            queued = self._queue.get(timeout=patience)
        except Empty:
            if clock.monotonic() >= self._next_request:
                self._write_one()
            return
        if queued is not None:
            self._take(queued)

    def _take(self, queued: _QueuedEvents) -> None:
        now = clock.monotonic()
        if now < self._pauses.get(queued.involved.namespace, 0.0):
            self._refused += len(queued.events)
            return
        for event in queued.events:
            self._correlator.take(queued.involved, event, queued.instant, now)

    def _write_one(self) -> None:
        happened = self._correlator.next()
        now, namespace = clock.monotonic(), happened.involved.namespace
        if now < self._pauses.get(namespace, 0.0):
            self._refused += 1
            return
        sent = self._events.write(happened, math.inf if self._end is None else self._end)
        pause = self._pace.spacing
        if sent.fate is EventOutcome.WRITTEN:
            self._written += 1
            self._growing_pause.reset()
            self._allowed(namespace)
        elif sent.fate is EventOutcome.LATER:
            self._correlator.put_back(happened)
            asked = min(sent.retry_after or 0.0, self._pace.longest_pause)
            pause = max(self._growing_pause.next(), asked)
        else:
            self._refused += 1
            if sent.fate is EventOutcome.FORBIDDEN:
                self._refuse(namespace, sent.message)
        self._next_request = clock.monotonic() + pause

    def _refuse(self, namespace: str, why: str) -> None:
        pause = self._pace.forbidden_pause
        self._pauses[namespace] = clock.monotonic() + pause
        if not self._forbidden:
            self._forbidden = True
            sentence = (
                f"Events cannot be written ({why}); it is tried again every {pause:g} seconds"
            )
            self._observer.writes_changed("events", ok=False, sentence=sentence)

    def _allowed(self, namespace: str) -> None:
        if self._pauses.pop(namespace, None) is not None and self._forbidden:
            self._forbidden = False
            self._observer.writes_changed("events", ok=True, sentence="Events can be written now")


_Kind = tuple[str, str, str]
"""Type, reason and message; the message is empty for combined Events."""


@dataclass(slots=True)
class _Object:
    """The Events of one object, and the requests that each reason has left."""

    happenings: dict[_Kind, Occurrences] = field(default_factory=dict)
    _requests: dict[str, TokenBucket] = field(default_factory=dict)

    def may_ask(self, reason: str, now: float) -> bool:
        """Use a request of a reason; return False if no more are left."""
        if reason not in self._requests:
            self._requests[reason] = TokenBucket(_BURST, _REFILL_SECONDS, refilled=now)
        return self._requests[reason].take(now)

    def happens(
        self, involved: InvolvedObject, event: Event, instant: float, now: float
    ) -> Occurrences:
        """Count another occurrence of an Event, or add a new one."""
        kind = (event.type, event.reason, event.message)
        happening = self.happenings.get(kind)
        if happening is None or now - happening.seen > _WINDOW_SECONDS:
            for old in [k for k, v in self.happenings.items() if now - v.seen > _WINDOW_SECONDS]:
                del self.happenings[old]
            message = event.message
            alike = sum(each[:2] == kind[:2] for each in self.happenings)
            if alike >= _MOST_ALIKE:
                kind, message = (event.type, event.reason, ""), _COMBINED + event.message
            new = Occurrences(involved, event.type, event.reason, message, instant)
            happening = self.happenings.setdefault(kind, new)
            happening.message = message
        happening.seen, happening.last = now, instant
        happening.count += 1
        return happening


class Correlator:
    """Decides which Events are worth a request, and their order. All memory is bounded."""

    def __init__(self) -> None:
        self._objects: OrderedDict[InvolvedObject, _Object] = OrderedDict()
        self._waiting: OrderedDict[int, Occurrences] = OrderedDict()
        self.held_back = 0
        """The number of Events that were only counted."""
        self.dropped = 0
        """The number of Events that were lost because too many were waiting."""

    def take(self, involved: InvolvedObject, event: Event, instant: float, now: float) -> None:
        """Add an Event of the Unix time ``instant``, at the monotonic time ``now``."""
        known = self._objects.setdefault(involved, _Object())
        self._objects.move_to_end(involved)
        if len(self._objects) > _MOST_OBJECTS:
            self._objects.popitem(last=False)
        occurrences = known.happens(involved, event, instant, now)
        if id(occurrences) in self._waiting:
            return
        if len(self._waiting) >= _MOST_WAITING:
            self.dropped += 1
        elif not known.may_ask(event.reason, now):
            self.held_back += 1
        else:
            self._waiting[id(occurrences)] = occurrences

    @property
    def waiting(self) -> int:
        """The number of queued Events."""
        return len(self._waiting)

    def next(self) -> Occurrences:
        """Remove and return the longest waiting Event.  Raises KeyError if the queue is empty."""
        return self._waiting.popitem(last=False)[1]

    def put_back(self, occurrences: Occurrences) -> None:
        """Queue an Event again, behind all others."""
        self._waiting[id(occurrences)] = occurrences


def own_pod(environment: Mapping[str, str] = os.environ) -> InvolvedObject | None:
    """Return the pod named by the variables of the Deployment's manifest; None without them."""
    namespace, name = environment.get("POD_NAMESPACE"), environment.get("POD_NAME")
    if not namespace or not name:
        return None
    return InvolvedObject("v1", "Pod", namespace, name, environment.get("POD_UID", ""))
