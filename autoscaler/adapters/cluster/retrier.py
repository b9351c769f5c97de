"""How often, and until when, a request is tried anew."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar, cast

from tenacity import RetryCallState, Retrying, retry_if_result, wait_exponential_jitter

from autoscaler import clock
from autoscaler.adapters.cluster.failures import Failure

T = TypeVar("T")

_TOO_MANY_REQUESTS = 429
_HOLD_SECONDS = 1.0
"""How long a 429 without a Retry-After holds everybody back."""
_LONGEST_HOLD_SECONDS = 30.0
"""How long any 429 does: whoever asks then learns whether the server still means it."""
_BACKOFF = wait_exponential_jitter(multiplier=0.1, max=2.0, jitter=0.1)


class RequestRetrier:
    """Tries again what is transient: at most 5 times in all, never past the deadline.

    The server's Retry-After is obeyed; where it reaches past the deadline nothing more is tried.
    A 429 holds back everybody's requests, not only the one that got it: the server is short of
    room, not that one object; for 30 s at most, whatever it asked for.  Once ``stop`` is set no
    new try begins.  ``on_retry`` is told of each try after the first, with the
    failure before it.
    """

    def __init__(
        self,
        stop: threading.Event,
        tries: int = 5,
        *,
        on_retry: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.stop = stop
        self._on_retry = on_retry
        self._tries = tries
        self._held_until = 0.0

    @property
    def held(self) -> bool:
        """Whether a 429 holds requests back now."""
        return self._held_until > clock.monotonic()

    def call(self, once: Callable[[], T], deadline: float) -> T | Failure:
        """Return the answer, or the failure of the last try."""
        last: T | Failure = Failure("stopping: nothing more is asked of the API server")

        def attempt() -> T | Failure:
            nonlocal last
            self._wait_while_held(deadline)
            if not self.stop.is_set():
                last = once()
                self.hold_back(last)
            elif isinstance(last, Failure):
                last = replace(last, transient=False)
            return last

        def give_up(state: RetryCallState) -> bool:
            return (
                state.attempt_number >= self._tries
                or self.stop.is_set()
                or clock.monotonic() + state.upcoming_sleep >= deadline
            )

        retrying = Retrying(
            retry=retry_if_result(_is_transient),
            wait=_pause,
            stop=give_up,
            sleep=self._sleep,
            before_sleep=lambda state: self._on_retry(_failure(state).message),
            retry_error_callback=_failure,
        )
        return retrying(attempt)

    def _wait_while_held(self, deadline: float) -> None:
        held = min(self._held_until, deadline) - clock.monotonic()
        if held > 0:
            self._sleep(held)

    def hold_back(self, result: object) -> None:
        """Let everybody wait after a 429; any other result changes nothing."""
        if isinstance(result, Failure) and result.status == _TOO_MANY_REQUESTS:
            pause = _HOLD_SECONDS if result.retry_after is None else result.retry_after
            held = clock.monotonic() + min(pause, _LONGEST_HOLD_SECONDS)
            self._held_until = max(self._held_until, held)

    def _sleep(self, seconds: float) -> None:
        self.stop.wait(seconds)


def _is_transient(result: object) -> bool:
    return isinstance(result, Failure) and result.transient


def _pause(state: RetryCallState) -> float:
    result = state.outcome.result() if state.outcome is not None else None
    if isinstance(result, Failure) and result.retry_after is not None:
        return result.retry_after
    return _BACKOFF(state)


def _failure(state: RetryCallState) -> Failure:
    """Return the failure of a try that was not the last, or of the last of all."""
    return cast("Failure", state.outcome.result() if state.outcome is not None else None)
