"""Reads metrics: one query, several tries, one answer or one sentence why there is none.

Queries are sent by POST, whose length nothing limits.  A proxy that permits only GET answers POST
with 405, or with 403 where it maps methods to rights: then the query is sent by GET, and so are the
next ones once that succeeds.
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
from autoscaler.prometheus.ranges import AskedRange, Matrix, matrix_of
from autoscaler.prometheus.sign_in import SignIn
from autoscaler.prometheus.tls import POOL_SIZE, ConnectionPools, Endpoint
from autoscaler.transport import UNOBSERVED, Observer
from autoscaler.transport.answers import (
    MIB,
    Answer,
    AnswerMemory,
    NoMemory,
    OneAnswer,
    TooLarge,
    TooMuch,
    UnexpectedEncoding,
    receive,
)
from autoscaler.transport.credentials import SecretError, TokenError
from autoscaler.transport.deadline import GRACE_SECONDS, Deadline, Expired, Stopped
from autoscaler.transport.network_errors import RAISED
from autoscaler.transport.redaction import Redactor, credentials_of, without_secrets
from autoscaler.transport.retries import FailureKind, RequestFailure, Retrier

MOST_BYTES = 8 * MIB
"""Of one body, decompressed: 40,000 series with long labels, 100,000 with short ones."""
_PROCESS = AnswerMemory(MOST_BYTES, parsed=200 * MIB)
"""That of all readers: the pod of config/kubernetes has 512 MiB, 250 of them for 10,000 targets."""
_SHORTEST_SECRET = 6
"""Shorter values (a tenant "1", dedup=true) would blank out innocent words of an error text."""
_ENCODING = "gzip"
"""What Prometheus compresses with."""
_LONGEST_ENCODING = 100
_OTHER_METHOD = {"POST": "GET", "GET": "POST"}
_NO_SUCH_METHOD = frozenset({405, 501})
_MAY_BE_THE_METHOD = _NO_SUCH_METHOD | {403, 414, 431}
"""Statuses that the other method may not get: of a GET also that its URL is too long."""

A = TypeVar("A", QueryResult, Matrix)


class QueriedServer:
    """What all requests to one server share; ``name`` is what queries call it."""

    def __init__(
        self, settings: PrometheusSettings, memory: AnswerMemory, name: str, observer: Observer
    ) -> None:
        self.settings = settings
        self.memory = memory
        self.name = name
        self.observer = observer
        self.endpoint = Endpoint(settings.url, settings.tls)
        self.pools = ConnectionPools(self.endpoint)
        self.called = f"Prometheus {name}".rstrip()
        """The server by its name, for messages."""
        self.subject = f"{self.called} at {without_secrets(settings.url)}"
        """The server with its URL, for messages."""
        self.headers = {key: one.get_secret_value() for key, one in settings.headers.items()}
        self.redactor = Redactor(self._fixed_secrets())
        self.sign_in = SignIn(settings)
        self.method = "POST"
        """The method that was successful last."""

    def failure(self, error: Exception, seconds: float) -> QueryError:
        """Return the failure for what was raised by a request that had so many seconds."""
        host, timeout = self.endpoint.host, self.settings.timeout
        return connection_failure(error, self.subject, host, seconds, timeout)

    def _fixed_secrets(self) -> tuple[str, ...]:
        """Return values to redact from messages, except the contents of secret files."""
        values = [*self.headers.values(), *chain(*self.settings.query_parameters.values())]
        for name, value in self.headers.items():
            values += credentials_of(value) if name.lower().endswith("authorization") else ()
        if self.settings.oauth2 is not None:
            values += self.settings.oauth2.endpoint_params.values()
        return tuple(value for value in values if len(value) >= _SHORTEST_SECRET)


class _Request:
    """One request, which ends in time; of the environment only proxies count."""

    def __init__(self, server: QueriedServer, seconds: float) -> None:
        self._server = server
        self._seconds = seconds
        self._expires = clock.monotonic() + seconds
        self._send = server.pools.sender(seconds)
        self.redactor = server.redactor
        """Hides what the request has carried; complete once it is signed."""
        self.memory = OneAnswer(server.memory, self._expires, seconds)
        """The memory of the answer."""

    def document(self, method: str, path: str, query: Mapping[str, str]) -> dict[str, object]:
        """Send and read within the time; raises QueryError unless the answer is a success."""
        server, signed = self._server, self._signed(method, path, query)
        begun, ended, status = clock.monotonic(), math.inf, ""
        try:
            with self._send(signed) as response:
                answer = receive(
                    response.raw, self.memory, self.redactor, self._expires, encoding=_ENCODING
                )
            ended = clock.monotonic()
            # A login page with status 200 is no answer of Prometheus, and does not count as one.
            try:
                document = self._parsed(answer)
            except QueryError:
                # Prometheus did answer, if only to refuse the query.
                status = "200" if prometheus_error(answer.body, self.redactor)[0] else ""
                raise
            status = str(answer.status)
        except RAISED as error:
            raise server.failure(error, self._seconds) from None
        finally:
            seconds = min(ended, clock.monotonic()) - begun
            server.observer.prometheus_request(server.name, status, seconds)
        if answer.status != 200:
            raise refusal(server.subject, answer, self.redactor)
        return document

    def _signed(self, method: str, path: str, query: Mapping[str, str]) -> requests.PreparedRequest:
        """Return a request: a POST has the query in its body, the user's parameters in its URL."""
        server = self._server
        parameters = [
            (name, value)
            for name, values in server.settings.query_parameters.items()
            for value in values
        ]
        in_url = parameters if method == "POST" else [*query.items(), *parameters]
        headers = {"Accept-Encoding": _ENCODING, **server.headers}
        url, body = f"{server.settings.url}/api/v1/{path}", query if method == "POST" else None
        try:
            request = requests.Request(method, url, headers, data=body, params=in_url).prepare()
        except (requests.RequestException, ValueError) as error:
            # A URL or a header that cannot be sent.
            raise server.failure(error, self._seconds) from None
        try:
            self.redactor = server.sign_in.sign(request, self.redactor, self._seconds)
        except (SecretError, TokenError) as error:
            server.observer.prometheus_sign_in_failed(server.name, str(error))
            raise QueryError(str(error)) from None
        return request

    def _parsed(self, answer: Answer) -> dict[str, object]:
        """Return what a success is parsed to; nothing for a refusal."""
        subject = self._server.subject
        try:
            if answer.unread is not None:
                raise answer.unread
            if answer.status != 200:
                return {}
            return document_of(subject, answer.body, self.redactor, self.memory.parse)
        except TooLarge as error:
            text = f"{subject} sent {error}: the query should aggregate"
            raise QueryError(text, kind=FailureKind.TOO_LARGE) from None
        except TooMuch as error:
            what = str(error).replace("JSON", "an answer", 1)
            text = f"Prometheus sent {what}: the query should aggregate"
            raise QueryError(text, kind=FailureKind.TOO_LARGE) from None
        except UnexpectedEncoding as error:
            sent = self.redactor.line(str(error), _LONGEST_ENCODING)
            raise QueryError(f"{subject} sent {sent}") from None
        except NoMemory as error:
            hurried = self._seconds < self._server.settings.timeout
            kind = FailureKind.CUT_SHORT if hurried else FailureKind.OTHER
            raise QueryError(f"{error}: queries should aggregate", kind=kind) from None


class PrometheusReader:
    """Fits `autoscaler.sync.ports.MetricsReader` with the HTTP API of a Prometheus.  Thread-safe.

    ``name`` is what queries call the server, empty for the default one.  ``stop`` ends every wait;
    an answer for which ``memory`` has no room is refused.  Tokens are fetched in the background
    until `close`.  The ``observer`` is called at each request and retry, on the thread that sends
    it.  A server that is not there is tried for ``absent_seconds``, any other for ``most_tries``,
    if not None.
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
        self._server = QueriedServer(settings, memory, name, observer)
        self._deadline = Deadline(4 * POOL_SIZE, stop, name="prometheus-query")
        self._retrier = Retrier(
            RequestFailure(f"stopping: nothing more is asked of {self._server.called}"),
            stop,
            most_tries=most_tries,
            absent_seconds=absent_seconds,
            on_retry=partial(observer.prometheus_retry, name),
        )

    @property
    def called(self) -> str:
        """The server by its name, for messages."""
        return self._server.called

    def query(self, promql: str, at: float | None, deadline: float) -> QueryResult | QueryFailure:
        """Evaluate a query as of ``at``, in Unix seconds; what may pass is tried again."""
        parameters = {"query": promql} | ({} if at is None else {"time": f"{at:.3f}"})
        outcome = self._answer(partial(self._result, "query", parameters, answer_of), deadline)
        if isinstance(outcome, QueryResult):
            return outcome
        return QueryFailure(outcome.message, refused=outcome.kind is FailureKind.WRONG_QUERY)

    def query_range(
        self, promql: str, asked: AskedRange, deadline: float
    ) -> Matrix | RequestFailure:
        """Evaluate a query at each instant of a range, as `query`.

        What is slow is not tried again: a shorter range may be faster.
        """
        parameters = {"query": promql, **asked.parameters}
        convert = partial(matrix_of, asked=asked)
        exchange = partial(self._result, "query_range", parameters, convert)
        return self._answer(exchange, deadline, slow_again=False)

    def close(self) -> None:
        """Close the connections; no query may run."""
        self._server.sign_in.close()
        self._server.pools.close()

    def _answer(
        self, exchange: Callable[[str, float], A], deadline: float, *, slow_again: bool = True
    ) -> A | RequestFailure:
        def once() -> A | RequestFailure:
            outcome = self._attempt(exchange, deadline)
            if isinstance(outcome, RequestFailure) and outcome.status in {401, 403}:
                self._server.sign_in.refused(outcome.status)
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
        """Send a query by the method that was successful last, else by the other one."""
        method = self._server.method
        first = self._request(partial(exchange, method), deadline)
        if not isinstance(first, RequestFailure) or first.status not in _MAY_BE_THE_METHOD:
            return first
        other = _OTHER_METHOD[method]
        second = self._request(partial(exchange, other), deadline)
        if not isinstance(second, RequestFailure):
            self._server.method = other
            return second
        methods = (method, first), (other, second)
        if first.status not in _NO_SUCH_METHOD and not _says_more(second):
            methods = methods[::-1]
        (refused, less), (named, more) = methods
        status = f"HTTP {less.status}" if less.status else "no usable answer"
        return replace(more, message=f"{more.message} (to {named}; to {refused}: {status})")

    def _request(self, exchange: Callable[[float], A], deadline: float) -> A | RequestFailure:
        left = deadline - clock.monotonic() - GRACE_SECONDS
        seconds = min(self._server.settings.timeout, left)
        if seconds <= 0:
            return RequestFailure(
                f"there was no time left to ask {self._server.called}", kind=FailureKind.CUT_SHORT
            )
        try:
            return self._deadline.run(seconds + GRACE_SECONDS, partial(exchange, seconds))
        except QueryError as error:
            return error.failure
        except Stopped:
            return RequestFailure(f"stopping: {self._server.subject} is not waited for")
        except (Expired, RuntimeError) as error:  # RuntimeError: a shortage of threads
            return self._server.failure(error, seconds).failure

    def _result(
        self,
        path: str,
        parameters: Mapping[str, str],
        convert: Callable[[str, dict[str, object], Redactor], A],
        method: str,
        seconds: float,
    ) -> A:
        request = _Request(self._server, seconds)
        document = request.document(method, path, parameters)
        result = convert(self._server.subject, document, request.redactor)
        request.memory.keep(result)
        return result


def _says_more(second: RequestFailure) -> bool:
    """Whether the failure of the second method is not one of the method, nor a lack of time."""
    return second.status not in _MAY_BE_THE_METHOD and second.kind is not FailureKind.CUT_SHORT
