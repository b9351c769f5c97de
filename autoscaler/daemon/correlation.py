"""Which Kubernetes Events are worth a request: the same again is counted, too much is held back.

In the spirit of client-go's event correlator, whose constants these are.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

from autoscaler.adapters.cluster.events import Involved, Occurrences
from autoscaler.core.decision import Event
from autoscaler.daemon.token_bucket import TokenBucket

_WINDOW_SECONDS = 600.0
"""How long after the last of its like something is the same thing again."""
_MOST_ALIKE = 10
"""So many messages of one reason are kept apart; further ones are one Event together."""
_COMBINED = "(combined from similar events): "
_BURST = 25
_REFILL_SECONDS = 300.0
"""An object has so many requests at once, and one more each so many seconds."""
_MOST_OBJECTS = 16_384
"""Of so many objects it is known what happened to them; the one that was quiet longest goes."""
_MOST_WAITING = 4_096

_Kind = tuple[str, str, str]
"""Type, reason and message; the message is empty for what is combined."""


@dataclass(slots=True)
class _Happening:
    """Something that happened to an object, and when (monotonic) it did so last."""

    occurrences: Occurrences
    seen: float


@dataclass(slots=True)
class _Object:
    """What is known of one object: what happened, and how many requests it still has."""

    requests: TokenBucket
    happenings: dict[_Kind, _Happening] = field(default_factory=dict)

    def happens(self, involved: Involved, event: Event, instant: float, now: float) -> _Happening:
        """Find what has happened again, or note what is new."""
        kind = (event.type, event.reason, event.message)
        happening = self.happenings.get(kind)
        if happening is None or now - happening.seen > _WINDOW_SECONDS:
            self._forget_old(now)
            message = event.message
            alike = sum(each[:2] == kind[:2] for each in self.happenings)
            if alike >= _MOST_ALIKE:
                kind, message = (event.type, event.reason, ""), _COMBINED + event.message
            happening = self.happenings.get(kind)
            if happening is None:
                new = Occurrences(involved, event.type, event.reason, message, instant, instant)
                happening = self.happenings[kind] = _Happening(new, now)
            happening.occurrences.message = message
        happening.seen = now
        happening.occurrences.last = instant
        happening.occurrences.count += 1
        return happening

    def _forget_old(self, now: float) -> None:
        for kind, happening in list(self.happenings.items()):
            if now - happening.seen > _WINDOW_SECONDS:
                del self.happenings[kind]


class Correlator:
    """Takes in what happened, and gives out what is to be written, in order.

    ``held_back`` counts what was counted but not worth a request of its own, ``dropped`` what
    would have been and found too much waiting already.  All memory is bounded.
    """

    def __init__(self) -> None:
        self._objects: OrderedDict[Involved, _Object] = OrderedDict()
        self._waiting: OrderedDict[int, Occurrences] = OrderedDict()
        self.held_back = 0
        self.dropped = 0

    def take(self, involved: Involved, event: Event, instant: float, now: float) -> None:
        """Take in an event of the Unix time ``instant``, at the monotonic time ``now``."""
        known = self._objects.get(involved)
        if known is None:
            known = self._objects[involved] = _Object(
                TokenBucket(_BURST, _REFILL_SECONDS, refilled=now)
            )
            if len(self._objects) > _MOST_OBJECTS:
                self._objects.popitem(last=False)
        else:
            self._objects.move_to_end(involved)
        occurrences = known.happens(involved, event, instant, now).occurrences
        if id(occurrences) in self._waiting:
            return
        if len(self._waiting) >= _MOST_WAITING:
            self.dropped += 1
        elif not known.requests.take(now):
            self.held_back += 1
        else:
            self._waiting[id(occurrences)] = occurrences

    @property
    def waiting(self) -> int:
        """How many Events are to be written."""
        return len(self._waiting)

    def next(self) -> Occurrences:
        """Give out the one that waits longest.  Raises KeyError when none does."""
        return self._waiting.popitem(last=False)[1]

    def put_back(self, occurrences: Occurrences) -> None:
        """Have one wait again, behind all others."""
        self._waiting[id(occurrences)] = occurrences
