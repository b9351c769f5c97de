"""Reads metrics: one query, several tries, one answer or one failure.

Queries are sent by POST, which has no limit on the length. A proxy that permits only GET answers
POST with 405, or with 403 if it maps methods to rights: then the query is sent by GET, and later
queries too if that succeeds.
"""

import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TypeVar

import requests

from autoscaler import clock
from autoscaler.config.prometheus_connection import PrometheusSettings
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.prometheus.answers import (
    QueryError,
    answer_of,
    connection_failure,
    document_of,
    prometheus_error,
    refusal,
)
from autoscaler.prometheus.sign_in import SignIn
from autoscaler.prometheus.tls import POOL_SIZE, ConnectionPools
from autoscaler.transport import UNOBSERVED, Observer
from autoscaler.transport.answers import (
    MIB,
    Answer,
    AnswerMemory,
    BodyTooLargeError,
    DocumentTooLargeError,
    NoMemory,
    UnexpectedEncoding,
)
from autoscaler.transport.credentials import SecretError
from autoscaler.transport.deadline import (
    GRACE_SECONDS,
    Deadline,
    DeadlineExceededError,
    StoppedError,
)
from autoscaler.transport.network_errors import RAISED
from autoscaler.transport.redaction import Redactor, credentials_of, without_secrets
from autoscaler.transport.retries import FailureKind, RequestFailure, Retrier

MOST_BYTES = 8 * MIB
"""The limit of one decompressed body: 40,000 series with long labels, 100,000 with short ones."""
_PROCESS = AnswerMemory(MOST_BYTES, parsed=200 * MIB)
"""The limit of all readers: a pod has 512 MiB, and 10,000 targets use 250 MiB."""
_SHORTEST_SECRET = 6
"""Shorter values (a tenant "1", dedup=true) would hide unrelated words of an error text."""
_ENCODING = "gzip"
"""What Prometheus compresses with."""
_LONGEST_ENCODING = 100
_OTHER_METHOD = {"POST": "GET", "GET": "POST"}
_NO_SUCH_METHOD = frozenset({405, 501})
_MAY_BE_THE_METHOD = _NO_SUCH_METHOD | {403, 414, 431}
"""Statuses after which the other method may succeed: after GET also if its URL is too long."""

A = TypeVar("A")
Convert = Callable[[str, dict[str, object], Redactor], A]


class PrometheusReader:
    """A `autoscaler.sync.ports.MetricsReader` for the HTTP API of a Prometheus. Thread-safe.

    ``name`` is the server's name in queries, empty for the default one. ``stop`` ends every wait;
    an answer for which ``memory`` has no room is refused. Tokens are fetched in the background
    until `close`. The ``observer`` is called at each request and retry, on the thread that sends
    it. ``most_tries`` limits the tries of a call; a server that has not answered for
    ``absent_seconds`` gets one try per call. None means no limit.
    """

    def __init__(
        self,
        settings: PrometheusSettings,
        stop: threading.Event,
        memory: AnswerMemory = _PROCESS,
        *,
        name: str = "",
        observer: Observer = UNOBSERVED,
        absent_seconds: float | None = None,
        most_tries: int | None = None,
    ) -> None:
        self._settings = settings
        self._memory = memory
        self._name = name
        self._observer = observer
        self._pools = ConnectionPools(settings.url, settings.tls)
        self.called = f"Prometheus {name}".rstrip()
        """The server with its name, for messages."""
        self._subject = f"{self.called} at {without_secrets(settings.url)}"
        self._headers = {key: value.get_secret_value() for key, value in settings.headers.items()}
        self._redactor = Redactor(self._fixed_secrets())
        self._sign_in = SignIn(settings)
        self._method = "POST"
        """The method of the last success."""
        self._deadline = Deadline(4 * POOL_SIZE, stop, name="prometheus-query")
        self._retrier = Retrier(
            RequestFailure(f"stopping: nothing more is asked of {self.called}"),
            stop,
            most_tries=most_tries,
            absent_seconds=absent_seconds,
            on_retry=partial(observer.prometheus_retry, name),
        )

    def query(self, promql: str, at: float | None, deadline: float) -> QueryResult | QueryFailure:
        """Evaluate a query at ``at`` (Unix seconds); transient failures are retried."""
        parameters = {"query": promql} | ({} if at is None else {"time": f"{at:.3f}"})
        outcome = self.ask("query", parameters, answer_of, deadline)
        if isinstance(outcome, QueryResult):
            return outcome
        return QueryFailure(outcome.message, refused=outcome.kind is FailureKind.WRONG_QUERY)

    def close(self) -> None:
        """Close the connections; no query may be running."""
        self._sign_in.close()
        self._pools.close()

    def ask(
        self,
        path: str,
        parameters: Mapping[str, str],
        convert: Convert[A],
        deadline: float,
        *,
        slow_again: bool = True,
    ) -> A | RequestFailure:
        """Ask an endpoint of the query API; with ``slow_again`` a query that timed out is retried.

        ``convert`` returns the result, given the server's name, the document and a Redactor for
        quotes; it may raise QueryError.
        """
        exchange = partial(self._result, path, parameters, convert)

        def once() -> A | RequestFailure:
            outcome = self._attempt(exchange, deadline)
            if isinstance(outcome, RequestFailure) and outcome.status in {401, 403}:
                self._sign_in.refused(outcome.status)
            if isinstance(outcome, RequestFailure) and outcome.kind is FailureKind.SLOW:
                return replace(outcome, transient=outcome.transient and slow_again)
            return outcome

        outcome = self._retrier.call(once, deadline)
        if not isinstance(outcome, RequestFailure):
            return outcome
        if outcome.retry_after and outcome.retry_after > deadline - clock.monotonic():
            message = f"{outcome.message} (it asks to wait longer than there is time)"
            return replace(outcome, message=message)
        return outcome

    def _attempt(self, exchange: Callable[[str, float], A], deadline: float) -> A | RequestFailure:
        """Send a query by the method of the last success, then by the other one."""
        method = self._method
        first = self._request(partial(exchange, method), deadline)
        if not isinstance(first, RequestFailure) or first.status not in _MAY_BE_THE_METHOD:
            return first
        other = _OTHER_METHOD[method]
        second = self._request(partial(exchange, other), deadline)
        if not isinstance(second, RequestFailure):
            self._method = other
            return second
        methods = (method, first), (other, second)
        if first.status not in _NO_SUCH_METHOD and not _says_more(second):
            methods = methods[::-1]
        (refused, less), (named, more) = methods
        status = f"HTTP {less.status}" if less.status else "no usable answer"
        return replace(more, message=f"{more.message} (with {named}; with {refused}: {status})")

    def _request(self, exchange: Callable[[float], A], deadline: float) -> A | RequestFailure:
        left = deadline - clock.monotonic() - GRACE_SECONDS
        seconds = min(self._settings.timeout, left)
        if seconds <= 0:
            return RequestFailure(
                f"there was no time left to ask {self.called}", kind=FailureKind.CUT_SHORT
            )
        try:
            return self._deadline.run(seconds + GRACE_SECONDS, partial(exchange, seconds))
        except QueryError as error:
            return error.failure
        except StoppedError:
            return RequestFailure(f"stopping: the answer of {self._subject} is no longer awaited")
        except (
            DeadlineExceededError,
            RuntimeError,
        ) as error:  # RuntimeError: no thread could be started.
            return self._failure(error, seconds).failure

    def _result(
        self, path: str, query: Mapping[str, str], convert: Convert[A], method: str, seconds: float
    ) -> A:
        """Send one request, which ends in time; only proxies are taken from the environment."""
        until = clock.monotonic() + seconds
        send = self._pools.sender(seconds)
        answer = Answer(self._memory, until, seconds)
        request = self._prepared(method, path, query, seconds)
        redactor = self._signed(request, seconds)
        begun, ended, status = clock.monotonic(), math.inf, ""
        try:
            with send(request) as response:
                answer.receive(response.raw, redactor, encoding=_ENCODING)
            ended = clock.monotonic()
            # A login page with status 200 does not count as an answer of Prometheus.
            try:
                document = self._parsed(answer, redactor, seconds)
            except QueryError:
                # Prometheus did answer, even if only to refuse the query.
                status = "200" if prometheus_error(answer.body, redactor)[0] else ""
                raise
            status = str(answer.status)
        except RAISED as error:
            raise self._failure(error, seconds) from None
        finally:
            taken = min(ended, clock.monotonic()) - begun
            self._observer.prometheus_request(self._name, status, taken)
        if answer.status != 200:
            raise refusal(self._subject, answer, redactor)
        result = convert(self._subject, document, redactor)
        answer.keep(result)
        return result

    def _prepared(
        self, method: str, path: str, query: Mapping[str, str], seconds: float
    ) -> requests.PreparedRequest:
        """Return a request: a POST has the query in its body, the user's parameters in its URL."""
        of_user = self._settings.query_parameters.items()
        parameters = [(name, value) for name, values in of_user for value in values]
        in_url = parameters if method == "POST" else [*query.items(), *parameters]
        headers = {"Accept-Encoding": _ENCODING, **self._headers}
        url, body = f"{self._settings.url}/api/v1/{path}", query if method == "POST" else None
        try:
            return requests.Request(method, url, headers, data=body, params=in_url).prepare()
        except (requests.RequestException, ValueError) as error:
            # The URL or a header cannot be sent.
            raise self._failure(error, seconds) from None

    def _signed(self, request: requests.PreparedRequest, seconds: float) -> Redactor:
        """Sign the request; return what redacts all of its credentials."""
        try:
            return self._sign_in.sign(request, self._redactor, seconds)
        except SecretError as error:
            self._observer.prometheus_sign_in_failed(self._name, str(error))
            raise QueryError(str(error)) from None

    def _parsed(self, answer: Answer, redactor: Redactor, seconds: float) -> dict[str, object]:
        """Return the parsed body of a success; nothing for a refusal."""
        try:
            if answer.unread is not None:
                raise answer.unread
            if answer.status != 200:
                return {}
            return document_of(self._subject, answer.body, redactor, answer.parse)
        except BodyTooLargeError as error:
            text = f"{self._subject} sent {error}: the query should aggregate"
            raise QueryError(text, kind=FailureKind.TOO_LARGE) from None
        except DocumentTooLargeError as error:
            what = str(error).replace("JSON", "an answer", 1)
            text = f"Prometheus sent {what}: the query should aggregate"
            raise QueryError(text, kind=FailureKind.TOO_LARGE) from None
        except UnexpectedEncoding as error:
            sent = redactor.line(str(error), _LONGEST_ENCODING)
            raise QueryError(f"{self._subject} sent {sent}") from None
        except NoMemory as error:
            hurried = seconds < self._settings.timeout
            kind = FailureKind.CUT_SHORT if hurried else FailureKind.OTHER
            raise QueryError(f"{error}: queries should aggregate", kind=kind) from None

    def _failure(self, error: Exception, seconds: float) -> QueryError:
        """Return the failure for the error of a request with a time limit in seconds."""
        timeout = self._settings.timeout
        return connection_failure(error, self._subject, self._pools.host, seconds, timeout)

    def _fixed_secrets(self) -> tuple[str, ...]:
        """Return values to redact from messages, except the contents of secret files."""
        values = [*self._headers.values(), *chain(*self._settings.query_parameters.values())]
        for name, value in self._headers.items():
            values += credentials_of(value) if name.lower().endswith("authorization") else ()
        if self._settings.oauth2 is not None:
            values += self._settings.oauth2.endpoint_params.values()
        return tuple(value for value in values if len(value) >= _SHORTEST_SECRET)


def _says_more(second: RequestFailure) -> bool:
    """Return whether the failure of the second method is the better message."""
    return second.status not in _MAY_BE_THE_METHOD and second.kind is not FailureKind.CUT_SHORT
