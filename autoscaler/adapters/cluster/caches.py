"""What a watch keeps up to date, how it paces itself, and whom it tells what it meets."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from autoscaler.adapters.cluster.failures import Failure, JsonObject


class Cache(Protocol):
    """A copy of a collection.  One watch writes it; any thread may read it.

    A list fills a new copy beside the one in force (`begin`, `add` for each page, `commit`);
    events change the one in force.  `add` and `apply` raise one of `failures.MALFORMED` for what
    cannot be read at all.
    """

    name: str
    """The collection, for messages: `deployments.apps in namespace "shop"`."""
    instead: str
    """What happens while it cannot be watched, for messages."""

    def path(self, deadline: float) -> str | Failure:
        """Return where the collection is; called before each list, may ask the server."""
        ...

    def begin(self) -> None:
        """Begin a list; what an earlier one added without an end is dropped."""
        ...

    def add(self, items: list[JsonObject]) -> None:
        """Take in a page of the list."""
        ...

    def commit(self, version: str) -> None:
        """Put the list in force; it shows the collection as it was at a resourceVersion."""
        ...

    def apply(self, kind: str, obj: JsonObject, version: str) -> None:
        """Take in an event: ADDED, MODIFIED, DELETED, or BOOKMARK, which says only how far."""
        ...

    def clear(self) -> None:
        """Forget all: the collection is not watched any more."""
        ...


@dataclass(frozen=True, slots=True)
class WatchTimings:
    """Times of a watch, in seconds, and the size of a page."""

    shortest_watch: int = 40
    longest_watch: int = 55
    """The server is asked to end each watch after a time between these."""
    grace: float = 5.0
    """How much later than that a watch that did not end is taken for dead."""
    head: float = 10.0
    """The time for the head of an answer."""
    first_pause: float = 0.2
    longest_pause: float = 10.0
    """Bounds of the pauses between tries, which double."""
    refused_pause: float = 300.0
    """The longest pause after a refusal (forbidden, not served); they double from the one above."""
    refusal_believed: float = 30.0
    """How long a collection that was watched must be refused until that is believed.

    An API server that has just started refuses what it has not loaded yet: roles, custom resources.
    """
    first_refusal_believed: float = 60.0
    """The same of HorizontalPodAutoscalers that were not listed yet, in each namespace.

    Nothing is decided there until then: who else scales is not known, and there may be somebody.
    """
    trusted: float = 60.0
    """How long a copy is trusted whose watch is broken, or that is being listed anew."""
    pods_trusted: float = 5.0
    """The same of pods, which fresh metrics are grouped by; no resourceVersion guards that."""
    gather: float = 0.5
    """How long a wish for a new list waits for others."""
    page: int = 500


EACH_NAMESPACE = "each namespace is watched by itself"
"""What is done where all namespaces at once cannot be watched."""


class OperatorNotes:
    """Sentences for the operator, each said once until it is taken back, and whether it is good."""

    def __init__(self, say: Callable[[bool, str], None]) -> None:
        self._say = say
        self._said: dict[str, str] = {}
        self._lock = threading.Lock()

    def say(self, topic: str, sentence: str) -> None:
        """Say a sentence unless it is the last one said of its topic."""
        with self._lock:
            if self._said.get(topic) == sentence:
                return
            self._said[topic] = sentence
        self._tell(ok=False, sentence=sentence)

    def over(self, topic: str, sentence: str) -> None:
        """Say that what was said of a topic is over, if anything was."""
        with self._lock:
            if self._said.pop(topic, None) is None:
                return
        self._tell(ok=True, sentence=sentence)

    def forget(self, topic: str) -> None:
        """Forget what was said of a topic: nobody asks about it any more."""
        with self._lock:
            self._said.pop(topic, None)

    def _tell(self, *, ok: bool, sentence: str) -> None:
        self._say(ok, sentence)
