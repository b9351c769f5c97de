"""Reads metrics: one query, several tries, one answer or one sentence why there is none."""

import dataclasses
import threading
from collections.abc import Callable

from autoscaler.adapters.prometheus.answers import answer_of
from autoscaler.adapters.prometheus.credentials import read_credentials, redact
from autoscaler.adapters.prometheus.failures import QueryError, too_slow
from autoscaler.adapters.prometheus.options import PrometheusOptions
from autoscaler.adapters.prometheus.session import OnRequest, QuerySession, ask
from autoscaler.adapters.prometheus.sockets import InHand
from autoscaler.adapters.prometheus.tls import POOL_SIZE, ConnectionPools
from autoscaler.adapters.prometheus.tries import GRACE_SECONDS, Tries
from autoscaler.adapters.prometheus.within import Deadline, Expired, Stopped
from autoscaler.core.series import Answer, QueryFailure

MOST_BYTES = 16 << 20
"""Once parsed that takes up to thirteen times as much: the pod of config/kubernetes has 512 MiB."""


class PrometheusReader:
    """Fits `autoscaler.app.ports.MetricsReader` with the HTTP API of a Prometheus.

    May be used by many threads at once.  ``stop`` ends every wait, that for an answer too; an
    answer with more than ``most_bytes`` is refused.  The time of evaluation is the server's.
    ``on_request`` is told of each request, ``on_retry`` of each that follows a failed one of the
    same query, both on the threads that send them.
    """

    def __init__(
        self,
        options: PrometheusOptions,
        stop: threading.Event,
        most_bytes: int = MOST_BYTES,
        *,
        on_request: OnRequest = lambda *_: None,
        on_retry: Callable[[], None] = lambda: None,
    ) -> None:
        self._options = options
        self._stop = stop
        self._most_bytes = most_bytes
        self._on_request = on_request
        self._on_retry = on_retry
        self._subject = f"Prometheus at {options.shown_url}"
        self._pools = ConnectionPools(options)
        self._deadline = Deadline(4 * POOL_SIZE, stop)

    def query(self, promql: str, deadline: float) -> Answer | QueryFailure:
        """Evaluate an instant query now; returns by ``deadline`` (of `clock.monotonic`).

        What is transient is tried again as long as there is time: connections that fail, time-
        outs, HTTP 408, 429, 502, 503 and 504, and Prometheus' errors `timeout`, `canceled` and
        `unavailable`; not before the server's Retry-After, else with random waits that grow.
        """

        def attempt(seconds: float) -> Answer:
            return self._attempt(promql, seconds)

        try:
            tries = Tries(
                attempt, self._options.timeout_seconds, deadline, self._stop, self._on_retry
            )
            return tries.run()
        except QueryError as error:
            return QueryFailure(error.message)

    def close(self) -> None:
        """Close the connections; no query may run."""
        self._pools.close()

    def _attempt(self, promql: str, seconds: float) -> Answer:
        in_hand = InHand()

        def work() -> Answer:
            in_hand.begin()
            return self._exchange(promql, seconds)

        try:
            return self._deadline.run(seconds + GRACE_SECONDS, work)
        except Expired:
            in_hand.cut()  # else its thread would be left behind for as long as a header drips
            raise too_slow(self._subject, seconds) from None
        except Stopped:
            raise QueryError(f"stopping: {self._subject} is not waited for") from None

    def _exchange(self, promql: str, seconds: float) -> Answer:
        credentials = read_credentials(self._options)
        session = QuerySession(
            self._options,
            self._pools.current(),
            credentials,
            seconds,
            self._most_bytes,
            self._on_request,
        )
        try:
            answer = answer_of(self._subject, ask(self._options, session, promql))
        except QueryError as error:
            error.message = redact(error.message, credentials.secrets)
            raise
        if not answer.warnings:
            return answer
        hidden = tuple(redact(text, credentials.secrets) for text in answer.warnings)
        return dataclasses.replace(answer, warnings=hidden)
