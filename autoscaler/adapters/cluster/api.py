"""Requests to the API server: JSON in, JSON or a `Failure` out."""

import json
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Self, TypeVar, cast
from urllib.parse import urlencode

import urllib3
from kubernetes.client import Configuration

from autoscaler import __version__, clock
from autoscaler.adapters.cluster import failures
from autoscaler.adapters.cluster.credentials import Access, Credentials
from autoscaler.adapters.cluster.failures import Failure
from autoscaler.adapters.cluster.objects import JsonObject
from autoscaler.transport.bodies import (
    TooLarge,
    TooMuch,
    UnexpectedEncoding,
    check_encoding,
    read_body,
)
from autoscaler.transport.deadline import GRACE_SECONDS, Deadline, Expired
from autoscaler.transport.memory import MIB, AnswerMemory, NoMemory, OneAnswer
from autoscaler.transport.network_errors import RAISED
from autoscaler.transport.observer import UNOBSERVED, Observer
from autoscaler.transport.redaction import without_secrets
from autoscaler.transport.retries import Retrier

T = TypeVar("T")

MOST_BYTES = 16 * MIB
"""Of an answer, and of a line of a watch.  An object of 1.5 MiB, the largest that etcd takes, has
six times that in JSON where every character is escaped; a page of 500 pods has 2 to 10 MiB."""
MOST_MEMORY = 128 * MIB
"""Of a line once it is parsed."""
_SHORTEST_TIMEOUT = 0.001
"""Below this nothing is begun; a timeout of 0 would mean none at all to the client."""
_MOST_REQUESTS = 128
"""At once, with those that were given up and have not ended yet."""
_LONGEST_MESSAGE = 1200
"""Of a failure; the server's words in it are shorter."""


class Api:
    """The API server; thread-safe.

    The official client carries the requests (TLS, proxies, connection pool); bodies stay raw
    JSON, because its typed models cost twenty times as much as reading the JSON does.  Deadlines
    are instants of `autoscaler.clock.monotonic`, and hold whatever the server does: a request is
    sent on another thread, and cut when it is given up.  The ``observer`` is called at each
    request and each retry, on the thread that asks for it.
    """

    def __init__(
        self,
        configuration: Configuration,
        credentials: Credentials,
        *,
        origin: str,
        request_timeout: float = 5.0,
        stop: threading.Event | None = None,
        observer: Observer = UNOBSERVED,
    ) -> None:
        self._url = str(configuration.host).rstrip("/")
        self._credentials = credentials
        self.request_timeout = request_timeout
        """The seconds after which one try is given up."""
        self._on_request = observer.kubernetes_request
        self.server = without_secrets(self._url)
        """The server's URL, for messages."""
        self.origin = origin
        """Where the configuration comes from, for messages."""
        self.retrier = Retrier(
            Failure("stopping: nothing more is asked of the API server"),
            stop or threading.Event(),
            holds_all=True,
            on_retry=observer.kubernetes_retry,
        )
        self.memory = AnswerMemory(MOST_BYTES, parsed=160 * MIB)
        """The memory for all answers."""
        # Without the stop event: a request that was sent before the daemon stops is completed.
        self._deadline = Deadline(_MOST_REQUESTS, name="kubernetes-request")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the idle connections."""
        self._credentials.close()

    def get(
        self, path: str, deadline: float, query: Mapping[str, str] | None = None
    ) -> JsonObject | Failure:
        """Read a path, trying again what is transient."""
        return self.retrier.call(lambda: self.once("GET", path, deadline, query=query), deadline)

    def once(
        self,
        method: str,
        path: str,
        deadline: float,
        *,
        query: Mapping[str, str] | None = None,
        body: JsonObject | None = None,
        content_type: str = "application/json",
        may_send: Callable[[], bool] = lambda: True,
    ) -> JsonObject | Failure:
        """Send one request, once: again only with other credentials, when these are rejected.

        ``may_send`` is called when all but the body has been sent, which may be late: a connection
        had to be made, or the process was stopped.  If it returns False the request is broken off,
        and the server does nothing.
        """
        url = f"{self._url}{path}{f'?{urlencode(query)}' if query else ''}"
        content = None if body is None else _Content(body, content_type, may_send)
        return self._accepted(
            lambda access: self._exchange(method, url, deadline, access, content), deadline
        )

    def stream(
        self, path: str, query: Mapping[str, str], timeout: float
    ) -> urllib3.HTTPResponse | Failure:
        """Begin an answer that goes on, such as a watch; the caller reads and closes it.

        ``timeout`` is the seconds that the server has for the head of its answer.
        """
        url = f"{self._url}{path}?{urlencode(query)}"
        return self._accepted(
            lambda access: self._begin(url, timeout, access), clock.monotonic() + timeout
        )

    def _accepted(self, send: Callable[[Access], T | Failure], deadline: float) -> T | Failure:
        """Send a request, and once more if there are other credentials than those rejected."""
        access = self._credentials.access(deadline)
        if isinstance(access, Failure):
            return access
        answer = send(access)
        if not isinstance(answer, Failure) or not answer.rejected:
            return answer
        other = self._credentials.renewed(access, deadline)
        if other is None:
            return answer
        return other if isinstance(other, Failure) else send(other)

    def line(self, text: str, limit: int) -> str:
        """Return a text of the server as one short line without our credentials."""
        return self._credentials.redactor.line(text, limit)

    def data(self, body: bytes) -> bytes:
        """Return data of the server without our credentials."""
        return self._credentials.redactor.data(body)

    def _begin(self, url: str, timeout: float, access: Access) -> urllib3.HTTPResponse | Failure:
        began = clock.monotonic()

        def begin() -> "urllib3.HTTPResponse | _Answer":
            response = self._send("GET", url, access, timeout)
            if _succeeded(response.status):
                check_encoding(response)
                return response
            return self._receive(response, began + timeout, timeout)

        try:
            answer = self._in_time(begin, timeout)
        except UnexpectedEncoding as error:
            self._observe("WATCH", None, began)
            return self._fit(failures.malformed(self.server, str(error)))
        except RAISED as error:
            self._observe("WATCH", None, began)
            return self.failed(error)
        self._observe("WATCH", answer.status, began)
        return self._refused(answer) if isinstance(answer, _Answer) else answer

    def _exchange(
        self,
        method: str,
        url: str,
        deadline: float,
        access: Access,
        content: "_Content | None",
    ) -> JsonObject | Failure:
        timeout = min(self.request_timeout, deadline - clock.monotonic())
        if timeout < _SHORTEST_TIMEOUT:
            return failures.no_time(self.server)
        began = clock.monotonic()
        if content is not None:
            content.until = began + timeout

        def exchange() -> _Answer:
            response = self._send(method, url, access, timeout, content)
            return self._receive(response, began + timeout, timeout)

        try:
            answer = self._in_time(exchange, timeout)
        except RAISED as error:
            if content is not None and content.withheld:
                return failures.withheld(self.server)
            self._observe(method, None, began)
            return self.failed(error, cut_short=timeout < self.request_timeout)
        self._observe(method, answer.status, began)
        return self._interpret(answer)

    def _in_time(self, work: Callable[[], T], timeout: float) -> T:
        """Do the work of a request; raises one of RAISED as well where it takes too long."""
        try:
            return self._deadline.run(timeout + GRACE_SECONDS, work)
        except Expired:
            raise urllib3.exceptions.TimeoutError("the answer is not complete") from None

    def _observe(self, verb: str, status: int | None, began: float) -> None:
        self._on_request(verb, "" if status is None else str(status), clock.monotonic() - began)

    def _send(
        self,
        method: str,
        url: str,
        access: Access,
        timeout: float,
        content: "_Content | None" = None,
    ) -> urllib3.HTTPResponse:
        headers = _headers(access.authorization)
        if content is not None:
            headers |= content.headers
        # The client's own method accepts no body that is generated while it is sent.
        answer = access.client.rest_client.pool_manager.request(
            method,
            url,
            headers=headers,
            body=content,
            timeout=urllib3.Timeout(total=timeout),
            preload_content=False,
            decode_content=False,
        )
        return cast("urllib3.HTTPResponse", answer)

    def _receive(self, response: urllib3.HTTPResponse, until: float, seconds: float) -> "_Answer":
        """Read an answer before an instant; raises what the client raises."""
        memory = OneAnswer(self.memory, until, seconds)
        status, headers = response.status, response.headers
        try:
            payload = read_body(response, until, MOST_BYTES, on_size=memory.receive)
        except (UnexpectedEncoding, TooLarge, NoMemory) as error:
            return _Answer(status, headers, memory, b"", str(error), self._unread(error))
        redactor = self._credentials.redactor
        hide = redactor.data if _succeeded(status) else redactor.error_body
        return _Answer(status, headers, memory, hide(payload))

    def _interpret(self, answer: "_Answer") -> JsonObject | Failure:
        if not _succeeded(answer.status):
            return self._refused(answer)
        if answer.failure is not None:
            return answer.failure
        try:
            document = answer.memory.parse(answer.payload)
        except (TooMuch, NoMemory) as error:
            return self._unread(error)
        except (ValueError, RecursionError):
            kind = answer.headers.get("Content-Type", "no Content-Type")
            what = f"something that is not JSON ({kind})"
            return self._fit(failures.malformed(self.server, what))
        if not isinstance(document, dict):
            return failures.malformed(self.server, "JSON that is not an object")
        kept = _Document(document)
        answer.memory.keep(kept)
        return kept

    def _unread(self, error: Exception) -> Failure:
        """Return the failure for a success that was not received, or not parsed."""
        if isinstance(error, NoMemory):
            return failures.no_memory(self.server, str(error))
        if isinstance(error, UnexpectedEncoding):
            return self._fit(failures.malformed(self.server, str(error)))
        return failures.too_large(self.server, str(error))

    def _refused(self, answer: "_Answer") -> Failure:
        return self._fit(
            failures.from_answer(
                answer.status,
                answer.headers,
                answer.payload,
                server=self.server,
                origin=self.origin,
                unread=answer.unread,
            )
        )

    def failed(self, error: Exception, *, cut_short: bool = False) -> Failure:
        """Return the failure for what was raised, one of RAISED."""
        return self._fit(failures.from_exception(error, self.server, cut_short=cut_short))

    def _fit(self, failure: Failure) -> Failure:
        """Return a failure whose message is short and has no credentials."""
        return replace(failure, message=self.line(failure.message, _LONGEST_MESSAGE))


@dataclass(frozen=True, slots=True, repr=False)
class _Answer:
    """An answer without our credentials; ``unread`` says why there is no payload.

    ``failure`` is what that means for a success.
    """

    status: int
    headers: Mapping[str, str]
    memory: OneAnswer
    payload: bytes = b""
    unread: str = ""
    failure: Failure | None = None


class _Document(dict[str, object]):
    """A JSON object that tells when it is freed, as a plain dict cannot."""


class _Content:
    """The body of a request, which is withheld if it may not be sent when the time has come."""

    def __init__(
        self, document: JsonObject, content_type: str, may_send: Callable[[], bool]
    ) -> None:
        self._payload = json.dumps(document).encode()
        self._may_send = may_send
        self.headers = {"Content-Type": content_type, "Content-Length": str(len(self._payload))}
        self.withheld = False
        self.until = math.inf
        """When the request is given up; the connection may be made only later."""

    def __iter__(self) -> Iterator[bytes]:
        if not self._may_send():
            self.withheld = True
            # The pool closes the connection after it, as after any OSError.
            raise InterruptedError("the body may not be sent any more")
        if clock.monotonic() >= self.until:
            raise TimeoutError("the request was given up")
        yield self._payload


def _succeeded(status: int) -> bool:
    return 200 <= status <= 299


def _headers(authorization: str | None) -> dict[str, str]:
    headers = {"Accept": "application/json", "User-Agent": f"autoscaler/{__version__}"}
    if authorization is not None:
        headers["Authorization"] = authorization
    return headers
