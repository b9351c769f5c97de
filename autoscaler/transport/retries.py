"""When a request is retried, and the pauses between retries."""

import random
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Generic, TypeVar

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_result,
    sleep_using_event,
    wait_exponential_jitter,
)

from autoscaler import clock

_TOO_MANY_REQUESTS = 429
_HOLD_SECONDS = 1.0
"""How long a 429 without Retry-After delays all requests, in seconds."""
_LONGEST_HOLD_SECONDS = 30.0
"""The longest such delay, in seconds; after that a request tests whether the 429 still applies."""
_SHORTEST_TRY_SECONDS = 0.25
"""With less time left, a try would only time out."""
FOR_A_COMMAND = 1.0
"""How many seconds an interactive command tries a server that does not answer."""
_BACKOFF = wait_exponential_jitter(multiplier=0.1, max=2.0, jitter=0.1)
_MOST_DOUBLINGS = 16


class FailureKind(Enum):
    """The kinds of failure that are handled differently."""

    OTHER = "any other"
    CUT_SHORT = "the deadline left less time than a request usually gets"
    ABSENT = "nothing is there: the connection was refused, or the name does not resolve"
    REJECTED = "credentials or certificates, ours or the server's, were not accepted or are gone"
    WITHHELD = "we broke the request off before its body, so that it had no effect"
    TOO_LARGE = "the answer was larger than allowed"
    SLOW = "the answer took longer than one request may"
    WRONG_QUERY = "the server answered that the query is wrong"


@dataclass(frozen=True, slots=True)
class RequestFailure:
    """A request without a usable answer."""

    message: str
    """A sentence for the operator; the same for the same cause, so that repeats can be merged."""
    status: int = 0
    """The HTTP status; 0 without an answer."""
    transient: bool = False
    """Whether the same request may succeed shortly after."""
    retry_after: float | None = None
    """The least seconds before the next try, as requested by the server."""
    kind: FailureKind = FailureKind.OTHER


T = TypeVar("T")
F = TypeVar("F", bound=RequestFailure)


class Retrier(Generic[F]):
    """Repeats transient failures of the requests to one server, never past their deadlines.

    At most ``most_tries`` times, if not None; Retry-After is respected. With ``holds_all`` a 429
    delays all requests, for at most 30 s. After ``stop`` is set a call makes no try, and may return
    ``stopped``. A server that has not answered for ``absent_seconds``, over all calls, gets one try
    per call. ``on_retry`` receives the message of a failure before the next try.
    """

    def __init__(
        self,
        stopped: F,
        stop: threading.Event,
        *,
        most_tries: int | None = 5,
        holds_all: bool = False,
        absent_seconds: float | None = None,
        on_retry: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._stopped = stopped
        self.stop = stop
        self._most_tries = most_tries
        self._holds_all = holds_all
        self._on_retry = on_retry
        self._held_until = 0.0
        self._absent_seconds = absent_seconds
        self._absent_since: float | None = None

    @property
    def is_held(self) -> bool:
        """Whether a 429 delays requests now."""
        return self._held_until > clock.monotonic()

    def call(self, once: Callable[[], T | F], deadline: float) -> T | F:
        """Return the answer, or the last failure that the deadline did not cut short."""
        last: T | F = self._stopped
        tries = 0

        def attempt() -> T | F:
            nonlocal last, tries
            held = min(self._held_until, deadline) - clock.monotonic()
            if held > 0:
                self.stop.wait(held)
            if self.stop.is_set():
                return replace(last, transient=False) if isinstance(last, RequestFailure) else last
            if isinstance(last, RequestFailure) and tries:
                self._on_retry(last.message)
            outcome = once()
            kind = outcome.kind if isinstance(outcome, RequestFailure) else None
            self.hold_back(outcome)
            if kind is not FailureKind.ABSENT:
                self._absent_since = None
            elif self._absent_since is None:
                self._absent_since = clock.monotonic()
            if not tries or kind is not FailureKind.CUT_SHORT:
                last = outcome
            tries += 1
            return last

        def is_over(state: RetryCallState) -> bool:
            begin = clock.monotonic() + state.upcoming_sleep
            since, seconds = self._absent_since, self._absent_seconds
            return (
                tries == self._most_tries
                or self.stop.is_set()
                or begin + _SHORTEST_TRY_SECONDS >= deadline
                or (since is not None and seconds is not None and begin - since > seconds)
            )

        # No closure here may refer to an outcome: tenacity keeps closures in a reference cycle, and
        # a large answer would stay in memory until the next garbage collection.
        retrying = Retrying(
            retry=retry_if_result(_is_transient),
            wait=_pause,
            stop=is_over,
            sleep=sleep_using_event(self.stop),
            retry_error_callback=_outcome,
        )
        return retrying(attempt)

    def hold_back(self, outcome: object) -> None:
        """Delay all requests after a 429; other outcomes change nothing."""
        if not self._holds_all or not isinstance(outcome, RequestFailure):
            return
        if outcome.status == _TOO_MANY_REQUESTS:
            pause = _HOLD_SECONDS if outcome.retry_after is None else outcome.retry_after
            until = clock.monotonic() + min(pause, _LONGEST_HOLD_SECONDS)
            self._held_until = max(self._held_until, until)


class GrowingPause:
    """Pauses in seconds that double up to ``longest``; ``jitter`` subtracts up to half of each."""

    def __init__(self, first: float, longest: float, *, jitter: bool = False) -> None:
        self._first = first
        self._longest = longest
        self._jitter = jitter
        self._doublings = 0

    def next(self) -> float:
        """Return the next pause."""
        pause = min(self._longest, self._first * 2.0**self._doublings)
        self._doublings = min(self._doublings + 1, _MOST_DOUBLINGS)
        return pause * random.uniform(0.5, 1.0) if self._jitter else pause  # noqa: S311 - no secret

    def reset(self) -> None:
        """Start again with the first pause."""
        self._doublings = 0


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a Retry-After header (RFC 9110 10.2.3), else None."""
    value = headers.get("Retry-After", "").strip()
    if re.fullmatch(r"[0-9]{1,9}", value):
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - clock.wall())
    except (ValueError, TypeError, OverflowError):
        return None


def _is_transient(outcome: object) -> bool:
    return isinstance(outcome, RequestFailure) and outcome.transient


def _outcome(state: RetryCallState) -> object:
    return state.outcome.result() if state.outcome is not None else None


def _pause(state: RetryCallState) -> float:
    outcome = _outcome(state)
    asked = outcome.retry_after if isinstance(outcome, RequestFailure) else None
    return asked or _BACKOFF(state)
