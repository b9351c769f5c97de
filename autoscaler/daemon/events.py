"""Results as Kubernetes Events on the scaled objects."""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from autoscaler import clock
from autoscaler.adapters.cluster.events import Events, Fate, Involved
from autoscaler.app import wording
from autoscaler.app.ports import SyncResult, SyncSummary
from autoscaler.core.decision import Event
from autoscaler.core.observation import Scale
from autoscaler.core.writes import NotWritten
from autoscaler.daemon.correlation import Correlator
from autoscaler.transport.retries import GrowingPause

CHANGED_BY_OTHER = "ReplicasChangedByOther"

_MOST_QUEUED = 16_384
_MOST_UIDS = 65_536
_JOIN_SECONDS = 0.5
"""How much later than the end of the flush the thread is waited for."""


@dataclass(frozen=True, slots=True)
class EventPace:
    """How fast Events are written, in seconds."""

    spacing: float = 0.02
    """The time between two requests, at least."""
    first_pause: float = 1.0
    longest_pause: float = 30.0
    """Bounds of the pauses, which double, while the server takes nothing."""
    forbidden_pause: float = 60.0
    """For how long nothing is tried in a namespace after a refusal."""
    flush: float = 2.0
    """The time at the end for what is still to be written."""


@dataclass(frozen=True, slots=True)
class EventCounts:
    """What became of the Events so far."""

    written: int = 0
    """Requests that the API server took."""
    held_back: int = 0
    """Repetitions that were counted and not worth a request of their own."""
    dropped: int = 0
    """Events that were lost: too many at once, refused, or not written before the end."""


@dataclass(frozen=True, slots=True)
class _News:
    """What a sync has to tell of one object."""

    involved: Involved
    instant: float
    events: tuple[Event, ...]


class EventReporter:
    """Fits `app.ports.Reporter`: writes what happened, after the deed, on a thread of its own.

    `report` only puts it down; whatever the API server does, no sync waits for an Event.  Only
    who is ``leading`` reports, so that several instances do not tell the same.  ``on_note`` is
    told, on that thread, whether Events may be written, in a sentence, whenever that changes, and
    ``on_fault`` of a defect of ours, by which one Event is lost.
    """

    def __init__(
        self,
        events: Events,
        *,
        leading: Callable[[], bool] = lambda: True,
        on_note: Callable[[bool, str], None] = lambda *_: None,
        on_fault: Callable[[BaseException], None] = lambda _: None,
        pace: EventPace | None = None,
    ) -> None:
        self._events = events
        self._leading = leading
        self._on_note = on_note
        self._on_fault = on_fault
        self._pace = pace or EventPace()
        self._queue: SimpleQueue[_News | None] = SimpleQueue()
        self._uids: dict[str, str] = {}
        self._correlator = Correlator()
        self._unheard = 0
        """What `report` dropped."""
        self._written = 0
        self._refused = 0
        self._pauses: dict[str, float] = {}
        """By namespace where Events are forbidden, until when nothing is tried."""
        self._forbidden = False
        """Whether the operator knows that they are."""
        self._next_request = 0.0
        self._growing_pause = GrowingPause(self._pace.first_pause, self._pace.longest_pause)
        self._end: float | None = None
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)
        self._thread.start()

    # -- for syncs -------------------------------------------------------------------------

    def report(self, result: SyncResult) -> None:
        """Take in one target's result; returns at once."""
        decision, target = result.decision, result.target
        if isinstance(decision.scale, Scale):
            self._uids[target.key] = decision.scale.uid
        if not decision.events and decision.foreign is None:
            return
        if isinstance(result.write, NotWritten) or not self._leading():
            return
        if self._end is not None or self._queue.qsize() >= _MOST_QUEUED:
            self._unheard += 1
            return
        events = tuple(
            Event(one.type, one.reason, wording.plain(one.message, decision))
            for one in decision.events
        )
        if decision.foreign is not None:
            kind = "Warning" if decision.foreign.reversal else "Normal"
            foreign = Event(kind, CHANGED_BY_OTHER, wording.foreign(decision.foreign))
            events = (foreign, *events)
        ref = target.spec.scale_target_ref
        involved = Involved(
            ref.api_version,
            ref.kind,
            target.namespace,
            ref.name,
            self._uids.get(target.key, ""),
        )
        self._queue.put(_News(involved, decision.time, events))

    def fault(self, error: BaseException) -> None:
        """Take in a defect: it is about no object."""

    def clock_set(self, seconds: float) -> None:
        """Take in that the clock was set: Events have the times of their decisions."""

    def synced(self, summary: SyncSummary) -> None:  # noqa: ARG002 - a reporter's shape
        """Take in the end of a sync; of targets that are gone nothing is remembered for ever."""
        if len(self._uids) > _MOST_UIDS:
            self._uids.clear()

    # -- life ------------------------------------------------------------------------------

    @property
    def counts(self) -> EventCounts:
        """What became of the Events so far."""
        correlator = self._correlator
        return EventCounts(
            self._written, correlator.held_back, self._unheard + self._refused + correlator.dropped
        )

    def close(self) -> None:
        """Write what is still to be written, for two seconds at most, and end."""
        if self._end is None:
            self._end = clock.monotonic() + self._pace.flush
            self._queue.put(None)
        self._thread.join(max(0.0, self._end - clock.monotonic()) + _JOIN_SECONDS)

    def _run(self) -> None:
        going_on = True
        while going_on:
            try:
                going_on = self._wait_for_work()
                due = clock.monotonic() >= self._next_request
                if going_on and due and self._correlator.waiting:
                    self._write_one()
            except Exception as error:  # noqa: BLE001 - without this thread no Event is written
                self._refused += 1
                self._next_request = clock.monotonic() + self._pace.first_pause
                self._on_fault(error)
        self._refused += self._correlator.waiting

    def _wait_for_work(self) -> bool:
        """Take in what is new until something may be written; return False at the end."""
        while True:
            now = clock.monotonic()
            if self._end is not None and (now >= self._end or not self._more()):
                return False
            try:
                news = self._next_news(now)
            except Empty:
                return True
            if news is not None:
                self._take(news)

    def _next_news(self, now: float) -> _News | None:
        """Wait for news, but no longer than something else has to wait.  Raises Empty then."""
        if not self._correlator.waiting:
            return self._queue.get()
        until = self._next_request if self._end is None else min(self._next_request, self._end)
        return self._queue.get(timeout=until - now) if until > now else self._queue.get_nowait()

    def _more(self) -> bool:
        return bool(self._correlator.waiting) or not self._queue.empty()

    def _take(self, news: _News) -> None:
        now = clock.monotonic()
        if now < self._pauses.get(news.involved.namespace, 0.0):
            self._refused += len(news.events)
            return
        for event in news.events:
            self._correlator.take(news.involved, event, news.instant, now)

    def _write_one(self) -> None:
        happened = self._correlator.next()
        now, namespace = clock.monotonic(), happened.involved.namespace
        if now < self._pauses.get(namespace, 0.0):
            self._refused += 1
            return
        sent = self._events.write(happened, math.inf if self._end is None else self._end)
        pause = self._pace.spacing
        if sent.fate is Fate.WRITTEN:
            self._written += 1
            self._growing_pause.reset()
            self._allowed(namespace)
        elif sent.fate is Fate.LATER:
            self._correlator.put_back(happened)
            asked = min(sent.retry_after or 0.0, self._pace.longest_pause)
            pause = max(self._growing_pause.next(), asked)
        else:
            self._refused += 1
            if sent.fate is Fate.FORBIDDEN:
                self._refuse(namespace, sent.message)
        self._next_request = clock.monotonic() + pause

    def _refuse(self, namespace: str, why: str) -> None:
        self._pauses[namespace] = clock.monotonic() + self._pace.forbidden_pause
        if not self._forbidden:
            self._forbidden = True
            pause = f"{self._pace.forbidden_pause:g} seconds"
            sentence = f"Events cannot be written ({why}); it is tried again every {pause}"
            self._tell(ok=False, sentence=sentence)

    def _allowed(self, namespace: str) -> None:
        if self._pauses.pop(namespace, None) is not None and self._forbidden:
            self._forbidden = False
            self._tell(ok=True, sentence="Events can be written now")

    def _tell(self, *, ok: bool, sentence: str) -> None:
        self._on_note(ok, sentence)
