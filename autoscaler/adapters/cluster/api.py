"""Requests to the API server: JSON in, JSON or a `Failure` out."""

import json
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Self, TypeVar, cast
from urllib.parse import urlencode, urlsplit

import urllib3
from kubernetes.client import Configuration

from autoscaler import __version__, clock
from autoscaler.adapters.cluster import failures
from autoscaler.adapters.cluster.credentials import Access, Credentials
from autoscaler.adapters.cluster.failures import Failure, JsonObject
from autoscaler.adapters.cluster.received import MOST_MEMORY, Received, receive
from autoscaler.adapters.cluster.retrier import RequestRetrier
from autoscaler.transport.bodies import Encoded, check_encoding
from autoscaler.transport.observer import UNOBSERVED, Observer
from autoscaler.transport.parsing import TooMuch, parse
from autoscaler.transport.within import GRACE_SECONDS, Deadline, Expired

T = TypeVar("T")

_SHORTEST_TIMEOUT = 0.001
"""Below this nothing is begun; a timeout of 0 would mean none at all to the client."""
_MOST_REQUESTS = 128
"""At once, those counted that were given up and have not ended yet."""
_LONGEST_MESSAGE = 1200
"""Of a failure; the words of the server in it are shorter."""


class Api:
    """The API server, for many threads at once.

    The official client carries the requests (TLS, proxies, connection pool); bodies stay raw
    JSON, because its typed models cost twenty times as much as reading the JSON does.  Deadlines
    are instants of `autoscaler.clock.monotonic`, and hold whatever the server does: a request is
    sent on a thread of its own, and cut when it is given up.  The ``observer`` is told of
    each request and each retry, on the thread that asks for it.
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
        self.server = _without_credentials(self._url)
        """The server's URL, for messages."""
        self.origin = origin
        """Where the configuration comes from, for messages."""
        self.retrier = RequestRetrier(stop or threading.Event(), on_retry=observer.kubernetes_retry)
        # No stop: what is under way when the daemon is told to stop is seen through.
        self._within = Deadline(_MOST_REQUESTS, name="kubernetes-request")

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

        ``may_send`` is asked when all has been sent but the body, which a connection that had to
        be made, or a process that was stopped, may have delayed: where it says no the request is
        broken off, and the server does nothing.
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
        """Send a request, and once more if other credentials are there than those rejected."""
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

    def said(self, text: str, limit: int) -> str:
        """Return what the server said as one short line without our credentials."""
        return self._credentials.hiding.said(text, limit)

    def data(self, body: bytes) -> bytes:
        """Return what the server sent to be read, without our credentials."""
        return self._credentials.hiding.data(body)

    def _begin(self, url: str, timeout: float, access: Access) -> urllib3.HTTPResponse | Failure:
        began = clock.monotonic()

        def begin() -> urllib3.HTTPResponse | Received:
            response = self._send("GET", url, access, timeout)
            if 200 <= response.status <= 299:
                check_encoding(response)
                return response
            return receive(response, began + timeout, self._credentials.hiding)

        try:
            answer = self._in_time(begin, timeout)
        except Encoded as error:
            self._tell("WATCH", None, began)
            return self._fit(failures.malformed(self.server, str(error)))
        except failures.RAISED as error:
            self._tell("WATCH", None, began)
            return self._fit(failures.from_exception(error, self.server))
        self._tell("WATCH", answer.status, began)
        if isinstance(answer, Received):
            return self._refused(answer)
        return answer

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

        def exchange() -> Received:
            response = self._send(method, url, access, timeout, content)
            return receive(response, began + timeout, self._credentials.hiding)

        try:
            answer = self._in_time(exchange, timeout)
        except failures.RAISED as error:
            if content is not None and content.withheld:
                return failures.withheld(self.server)
            self._tell(method, None, began)
            return self._fit(failures.from_exception(error, self.server))
        self._tell(method, answer.status, began)
        return self._interpret(answer)

    def _in_time(self, work: Callable[[], T], timeout: float) -> T:
        """Do the work of a request; raises one of RAISED as well where it takes too long."""
        try:
            return self._within.run(timeout + GRACE_SECONDS, work)
        except Expired:
            raise urllib3.exceptions.TimeoutError("the answer is not complete") from None

    def _tell(self, verb: str, status: int | None, began: float) -> None:
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
        # The client's own way to its pool takes no body that is made while it is sent.
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

    def _interpret(self, answer: Received) -> JsonObject | Failure:
        if not 200 <= answer.status <= 299:
            return self._refused(answer)
        if answer.too_large:
            return failures.too_large(self.server, answer.unread)
        if answer.unread:
            return self._fit(failures.malformed(self.server, answer.unread))
        return self._document(answer)

    def _document(self, answer: Received) -> JsonObject | Failure:
        try:
            document = parse(answer.payload, MOST_MEMORY)
        except TooMuch as error:
            return failures.too_large(self.server, str(error))
        except (ValueError, RecursionError):
            kind = answer.headers.get("Content-Type", "no Content-Type")
            what = f"something that is not JSON ({kind})"
            return self._fit(failures.malformed(self.server, what))
        if not isinstance(document, dict):
            return failures.malformed(self.server, "JSON that is not an object")
        return cast("JsonObject", document)

    def _refused(self, answer: Received) -> Failure:
        return self._fit(failures.from_answer(answer, server=self.server, origin=self.origin))

    def _fit(self, failure: Failure) -> Failure:
        """Make a failure fit to be shown and kept."""
        return replace(failure, message=self.said(failure.message, _LONGEST_MESSAGE))


class _Content:
    """The body of a request, which asks whether it may be sent when its turn has come."""

    def __init__(
        self, document: JsonObject, content_type: str, may_send: Callable[[], bool]
    ) -> None:
        self._payload = json.dumps(document).encode()
        self._may_send = may_send
        self.headers = {"Content-Type": content_type, "Content-Length": str(len(self._payload))}
        self.withheld = False
        self.until = math.inf
        """When the request is given up: a connection may come about later."""

    def __iter__(self) -> Iterator[bytes]:
        if not self._may_send():
            self.withheld = True
            # The pool closes the connection after it, as after any OSError.
            raise InterruptedError("the body may not be sent any more")
        if clock.monotonic() >= self.until:
            raise TimeoutError("nobody waits for the answer any more")
        yield self._payload


def _headers(authorization: str | None) -> dict[str, str]:
    headers = {"Accept": "application/json", "User-Agent": f"autoscaler/{__version__}"}
    if authorization is not None:
        headers["Authorization"] = authorization
    return headers


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
