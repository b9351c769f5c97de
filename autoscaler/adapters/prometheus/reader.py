"""Reads metrics: one query, several tries, one answer or one sentence why there is none."""

import threading

from autoscaler.adapters.prometheus.answers import answer_of
from autoscaler.adapters.prometheus.credentials import read_credentials
from autoscaler.adapters.prometheus.failures import QueryError, too_slow
from autoscaler.adapters.prometheus.memory import KEPT_PART, PROCESS, AnswerMemory
from autoscaler.adapters.prometheus.options import PrometheusOptions
from autoscaler.adapters.prometheus.query_retrier import QueryRetrier
from autoscaler.adapters.prometheus.session import QuerySession, ask
from autoscaler.adapters.prometheus.tls import POOL_SIZE, ConnectionPools
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.transport.observer import UNOBSERVED, Observer
from autoscaler.transport.redaction import Hiding
from autoscaler.transport.within import GRACE_SECONDS, Deadline, Expired, Stopped, in_words


class PrometheusReader:
    """Fits `autoscaler.sync.ports.MetricsReader` with the HTTP API of a Prometheus.

    May be used by many threads at once.  ``stop`` ends every wait, that for an answer too; an
    answer for which ``memory`` has no room is refused.  The time of evaluation is the server's.
    The ``observer`` is told of each request and each retry, on the thread that sends it.
    """

    def __init__(
        self,
        options: PrometheusOptions,
        stop: threading.Event,
        memory: AnswerMemory = PROCESS,
        *,
        observer: Observer = UNOBSERVED,
    ) -> None:
        self._options = options
        self._stop = stop
        self._memory = memory
        self._hiding = Hiding(options.fixed_secrets)
        self._observer = observer
        self._subject = f"Prometheus at {options.shown_url}"
        self._pools = ConnectionPools(options)
        self._deadline = Deadline(4 * POOL_SIZE, stop, name="prometheus-query")

    def query(self, promql: str, deadline: float) -> QueryResult | QueryFailure:
        """Evaluate an instant query now; returns by ``deadline`` (of `clock.monotonic`).

        What is transient is tried again as long as there is time: connections that fail, time-
        outs, HTTP 408, 429, 502, 503 and 504, and Prometheus' errors `timeout`, `canceled` and
        `unavailable`; not before the server's Retry-After, else with random waits that grow.
        """

        def attempt(seconds: float) -> QueryResult:
            return self._attempt(promql, seconds)

        try:
            tries = QueryRetrier(
                attempt,
                self._options.timeout_seconds,
                deadline,
                self._stop,
                self._observer.prometheus_retry,
            )
            return tries.run()
        except QueryError as error:
            return QueryFailure(error.message, refused=error.refused)

    def close(self) -> None:
        """Close the connections; no query may run."""
        self._pools.close()

    def _attempt(self, promql: str, seconds: float) -> QueryResult:
        def work() -> QueryResult:
            return self._exchange(promql, seconds)

        try:
            return self._deadline.run(seconds + GRACE_SECONDS, work)
        except Expired:
            within = in_words(seconds, self._options.timeout_seconds)
            raise too_slow(self._subject, within) from None
        except Stopped:
            raise QueryError(f"stopping: {self._subject} is not waited for") from None

    def _exchange(self, promql: str, seconds: float) -> QueryResult:
        credentials = read_credentials(self._options)
        self._hiding.take(credentials.authorization)
        session = QuerySession(
            self._options,
            self._pools.current(),
            credentials,
            self._hiding,
            seconds,
            self._memory,
            self._observer.prometheus_request,
        )
        kept: QueryResult | None = None
        try:
            document = ask(self._options, session, promql)
            kept = answer_of(self._subject, document, self._hiding)
            return kept
        finally:
            if session.room is not None:
                if kept is None:
                    session.room.close()
                else:
                    session.room.shrink(session.room.size // KEPT_PART)
                    session.room.last_as_long_as(kept)
