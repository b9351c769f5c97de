"""When to ask again: only what is transient, all tries within the deadline."""

import threading
from collections.abc import Callable

import tenacity

from autoscaler import clock
from autoscaler.adapters.prometheus.failures import QueryError
from autoscaler.core.series import QueryResult
from autoscaler.transport.within import GRACE_SECONDS

# A try with less time than this would only fail as too slow.
_SHORTEST_TRY_SECONDS = 0.2
_FIRST_WAIT_SECONDS = 0.2
_LONGEST_WAIT_SECONDS = 5.0


class QueryRetrier:
    """The tries of one query.

    ``ask`` is given the seconds that it may take: ``timeout_seconds`` or what is left until
    ``deadline`` (of `clock.monotonic`).  ``stop`` ends a wait, and there is no further try.
    ``on_retry`` is told of each try after the first, with the failure before it.
    """

    def __init__(
        self,
        ask: Callable[[float], QueryResult],
        timeout_seconds: float,
        deadline: float,
        stop: threading.Event,
        on_retry: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._ask = ask
        self._timeout = timeout_seconds
        self._deadline = deadline
        self._stop = stop
        self._on_retry = on_retry
        self._last: QueryError | None = None
        self._backoff = tenacity.wait_random_exponential(
            multiplier=_FIRST_WAIT_SECONDS, max=_LONGEST_WAIT_SECONDS
        )

    def run(self) -> QueryResult:
        """Return the first answer; raises the QueryError that says most.

        Its text is the same from sync to sync as long as the cause is, so that Events and log
        lines of it are folded.
        """
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(_is_transient),
            wait=self._wait,
            stop=self._is_over,
            sleep=tenacity.sleep_using_event(self._stop),
            reraise=True,
        )
        try:
            return retrying(self._attempt)
        except QueryError as error:
            if error.retry_after and error.retry_after > self._deadline - clock.monotonic():
                error.message += " (it asks to wait longer than there is time)"
            # The way it came holds whatever was read of an answer, in frames that hold the error:
            # only a rare garbage collection would free them.
            raise error.with_traceback(None) from None
        finally:
            self._last = None

    def _attempt(self) -> QueryResult:
        left = self._deadline - clock.monotonic() - GRACE_SECONDS
        if self._last is not None and (left <= 0 or self._stop.is_set()):
            raise QueryError(self._last.message, retry_after=self._last.retry_after)
        if left <= 0:
            raise QueryError("there was no time left to ask Prometheus")
        if self._last is not None:
            self._on_retry(self._last.message)
        try:
            return self._ask(min(left, self._timeout))
        except QueryError as error:
            # A last try that the deadline cut short says less than the one before.
            cut_short = error.out_of_time and left < self._timeout
            if self._last is None or not cut_short:
                self._last = error
            raise self._last from None

    def _wait(self, state: tenacity.RetryCallState) -> float:
        asked_for = self._last.retry_after if self._last is not None else 0.0
        return max(asked_for, self._backoff(state))

    def _is_over(self, state: tenacity.RetryCallState) -> bool:
        begin = clock.monotonic() + state.upcoming_sleep
        return begin + _SHORTEST_TRY_SECONDS + GRACE_SECONDS > self._deadline


def _is_transient(error: BaseException) -> bool:
    return isinstance(error, QueryError) and error.transient
