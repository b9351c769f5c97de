"""Reads metrics: one query, several tries, one answer or one sentence why there is none."""

import base64
import threading
from functools import partial
from pathlib import Path

import urllib3

from autoscaler import clock
from autoscaler.adapters.prometheus.answers import answer_of
from autoscaler.adapters.prometheus.failures import QueryError, QueryFault, connection_failure
from autoscaler.adapters.prometheus.options import PrometheusOptions
from autoscaler.adapters.prometheus.session import QuerySession, ask
from autoscaler.adapters.prometheus.tls import POOL_SIZE, ConnectionPools
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.transport.deadline import GRACE_SECONDS, Deadline, Expired, Stopped
from autoscaler.transport.memory import MIB, AnswerMemory
from autoscaler.transport.observer import UNOBSERVED, Observer
from autoscaler.transport.redaction import Redactor
from autoscaler.transport.retries import Retrier
from autoscaler.transport.secret_files import SecretError, SecretFile

MOST_BYTES = 8 * MIB
"""Of one body, decompressed: 40,000 series with long labels, 100,000 with short ones."""
_PROCESS = AnswerMemory(MOST_BYTES, parsed=200 * MIB)
"""That of all readers.  The pod of config/kubernetes has 512 MiB, of which 10,000 targets take
about 250."""


class PrometheusReader:
    """Fits `autoscaler.sync.ports.MetricsReader` with the HTTP API of a Prometheus.  Thread-safe.

    ``stop`` ends every wait, also that for an answer; an answer for which ``memory`` has no room is
    refused.  The time of evaluation is the server's.  The ``observer`` is called at each request
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
        self._secret = _secret_file(options)
        self._deadline = Deadline(4 * POOL_SIZE, stop, name="prometheus-query")
        self._retrier = Retrier(
            QueryFault(f"stopping: nothing more is asked of {options.called}"),
            stop,
            most_tries=None,
            on_retry=partial(observer.prometheus_retry, options.name),
        )

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
        authorization = self._authorization()
        self._redactor.remember(authorization)
        session = QuerySession(
            self._options,
            self._pools.current(),
            authorization,
            self._redactor,
            seconds,
            self._memory,
            partial(self._observer.prometheus_request, self._options.name),
        )
        document = ask(self._options, session, promql)
        result = answer_of(self._options.subject, document, self._redactor)
        session.memory.keep(result)
        return result

    def _authorization(self) -> str | None:
        """Return the Authorization header; raises QueryError that names a file without a secret."""
        options = self._options
        try:
            secret = "" if self._secret is None else self._secret.read()
        except SecretError as error:
            raise QueryError(str(error)) from None
        if options.bearer_token_file:
            return f"Bearer {secret}"
        if not options.basic_auth_username and not options.basic_auth_password_file:
            return None
        pair = f"{options.basic_auth_username or ''}:{secret}".encode()
        return f"Basic {base64.b64encode(pair).decode('ascii')}"


def _secret_file(options: PrometheusOptions) -> SecretFile | None:
    if options.bearer_token_file:
        return SecretFile("bearer token", Path(options.bearer_token_file))
    if options.basic_auth_password_file:
        return SecretFile("password", Path(options.basic_auth_password_file), ascii_only=False)
    return None
