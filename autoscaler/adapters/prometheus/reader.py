"""Reads metrics: one query, several tries, one answer or one sentence why there is none."""

import threading
from functools import partial

import urllib3

from autoscaler import clock
from autoscaler.adapters.prometheus.answers import answer_of
from autoscaler.adapters.prometheus.failures import QueryError, QueryFault, connection_failure
from autoscaler.adapters.prometheus.options import PrometheusOptions
from autoscaler.adapters.prometheus.session import QuerySession, ask
from autoscaler.adapters.prometheus.sign_in import sign_in_of
from autoscaler.adapters.prometheus.tls import POOL_SIZE, ConnectionPools
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.transport.deadline import GRACE_SECONDS, Deadline, Expired, Stopped
from autoscaler.transport.memory import MIB, AnswerMemory
from autoscaler.transport.observer import UNOBSERVED, Observer
from autoscaler.transport.redaction import Redactor
from autoscaler.transport.retries import Retrier

MOST_BYTES = 8 * MIB
"""Of one body, decompressed: 40,000 series with long labels, 100,000 with short ones."""
_PROCESS = AnswerMemory(MOST_BYTES, parsed=200 * MIB)
"""That of all readers.  The pod of config/kubernetes has 512 MiB, of which 10,000 targets take
about 250."""


class PrometheusReader:
    """Fits `autoscaler.sync.ports.MetricsReader` with the HTTP API of a Prometheus.  Thread-safe.

    ``stop`` ends every wait, also that for an answer; an answer for which ``memory`` has no room is
    refused.  The time of evaluation is the server's.  Where it signs in with tokens, a thread of
    its own fetches them from the start until `close`.  The ``observer`` is called at each request
    and each retry, on the thread that sends it.
    """

    def __init__(
        self,
        options: PrometheusOptions,
        stop: threading.Event,
        memory: AnswerMemory = _PROCESS,
        *,
        observer: Observer = UNOBSERVED,
    ) -> None:
        self._options = options
        self._memory = memory
        self._redactor = Redactor(options.fixed_secrets)
        self._observer = observer
        self._pools = ConnectionPools(options)
        self._deadline = Deadline(4 * POOL_SIZE, stop, name="prometheus-query")
        self._retrier = Retrier(
            QueryFault(f"stopping: nothing more is asked of {options.called}"),
            stop,
            most_tries=None,
            on_retry=partial(observer.prometheus_retry, options.name),
        )
        self._sign_in = sign_in_of(options)

    def query(self, promql: str, deadline: float) -> QueryResult | QueryFailure:
        """Evaluate an instant query now; returns by ``deadline`` (of `clock.monotonic`).

        What is transient is tried again as long as there is time: connections that fail, time-
        outs, HTTP 408, 429, 502, 503 and 504, and Prometheus' errors `timeout`, `canceled` and
        `unavailable`; not before the server's Retry-After, else after pauses that grow.
        """
        outcome = self._retrier.call(lambda: self._attempt(promql, deadline), deadline)
        if isinstance(outcome, QueryResult):
            return outcome
        message = outcome.message
        if outcome.retry_after and outcome.retry_after > deadline - clock.monotonic():
            message += " (it asks to wait longer than there is time)"
        return QueryFailure(message, refused=outcome.refused)

    def close(self) -> None:
        """Close the connections; no query may run."""
        self._sign_in.close()
        self._pools.close()

    def _attempt(self, promql: str, deadline: float) -> QueryResult | QueryFault:
        """Send the query once."""
        timeout, subject = self._options.timeout_seconds, self._options.subject
        seconds = min(timeout, deadline - clock.monotonic() - GRACE_SECONDS)
        if seconds <= 0:
            return QueryFault(
                f"there was no time left to ask {self._options.called}", cut_short=True
            )
        try:
            return self._deadline.run(
                seconds + GRACE_SECONDS, lambda: self._exchange(promql, seconds)
            )
        except QueryError as error:
            return error.fault
        except Stopped:
            return QueryFault(f"stopping: {subject} is not waited for")
        except (Expired, RuntimeError) as error:  # RuntimeError: a shortage of threads
            cause = urllib3.exceptions.TimeoutError() if isinstance(error, Expired) else error
            host = self._options.host
            return connection_failure(cause, subject, host, seconds, timeout).fault

    def _exchange(self, promql: str, seconds: float) -> QueryResult:
        session = QuerySession(
            self._options,
            self._pools.current(),
            self._sign_in,
            self._redactor,
            seconds,
            self._memory,
            self._observer,
        )
        document = ask(self._options, session, promql)
        result = answer_of(self._options.subject, document, session.redactor)
        session.memory.keep(result)
        return result
