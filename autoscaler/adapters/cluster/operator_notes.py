"""Sentences for the operator on what cannot be watched."""

import threading
from collections.abc import Callable


class OperatorNotes:
    """Sentences for the operator on topics, each sent once until its topic is resolved.

    ``send`` gets whether the sentence is good news, and the sentence.
    """

    def __init__(self, send: Callable[[bool, str], None]) -> None:
        self._send = send
        self._last_sent: dict[str, str] = {}
        self._lock = threading.Lock()

    def notify(self, topic: str, sentence: str) -> None:
        """Send a sentence unless it is the last one that was sent on its topic."""
        with self._lock:
            if self._last_sent.get(topic) == sentence:
                return
            self._last_sent[topic] = sentence
        self._send(False, sentence)  # noqa: FBT003 - as the observer has it

    def resolved(self, topic: str, sentence: str) -> None:
        """Send that a topic is resolved, if anything was sent on it."""
        with self._lock:
            if self._last_sent.pop(topic, None) is None:
                return
        self._send(True, sentence)  # noqa: FBT003 - as the observer has it

    def forget(self, topic: str) -> None:
        """Forget what was sent on a topic that does not matter any more."""
        with self._lock:
            self._last_sent.pop(topic, None)
