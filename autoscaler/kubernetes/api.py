"""Requests to the API server: JSON in, JSON or a `Failure` out; paths, and lists in pages."""

import json
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Self, TypeVar, cast
from urllib.parse import quote, urlencode, urlsplit

import urllib3
from kubernetes.client import Configuration

from autoscaler import __version__, clock
from autoscaler.kubernetes.credentials import Access, Credentials
from autoscaler.kubernetes.failures import Failure, from_answer, from_exception, malformed
from autoscaler.transport import UNOBSERVED, Observer
from autoscaler.transport.answers import (
    MIB,
    Answer,
    AnswerMemory,
    DocumentTooLargeError,
    NoMemory,
    UnexpectedEncoding,
    check_encoding,
    is_success,
)
from autoscaler.transport.deadline import GRACE_SECONDS, RequestDeadline
from autoscaler.transport.network_errors import RAISED
from autoscaler.transport.redaction import without_secrets
from autoscaler.transport.retries import FailureKind, Retrier

T = TypeVar("T")
ReadT = TypeVar("ReadT", bound=urllib3.HTTPResponse | Answer)

JsonObject = dict[str, Any]
"""A JSON object as the API server sent it; `Any` because nothing has checked its form."""

MALFORMED = (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
"""The exceptions for JSON that does not have the form of its kind."""

MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

MOST_BYTES = 16 * MIB
"""The limit of an answer or a line of a watch: 1.5 MiB in etcd are up to 9 MiB escaped; 500 pods
are 2 to 10 MiB."""
MOST_MEMORY = 128 * MIB
"""The limit of a parsed line."""
_SHORTEST_TIMEOUT = 0.001
"""With less time left, in seconds, no request begins; for the client a timeout of 0 means none."""
_MOST_CONNECTING = 128
"""The number of connections that are opened at the same time, including abandoned ones."""
_LONGEST_MESSAGE = 1200
"""The longest message of a failure; the server's text in it is shorter."""
_MOST_PAGES = 10_000
"""The most pages of one list: 5 million objects, or a server that sends pages without end."""
_PAGE_SHRINKS = 4
"""A page that is too large is requested again with its number of objects divided by this."""


class Api:
    """The API server. Thread-safe.

    The official client sends the requests; its typed models would cost twenty times as much as
    parsing the JSON. Deadlines are instants of `clock.monotonic`, and hold whatever the server
    does. The ``observer`` is called at each request and retry, on the requesting thread. A server
    that does not answer is tried for ``absent_seconds``, if not None. After ``stop`` is set no
    request is retried; ``request_timeout`` is the time limit of one try in seconds, ``origin`` the
    source of credentials.
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
        absent_seconds: float | None = None,
    ) -> None:
        self._url = str(configuration.host).rstrip("/")
        self._credentials = credentials
        self.redactor = credentials.redactor
        """Redacts our credentials in the server's answers."""
        self.request_timeout = request_timeout
        self._on_request = observer.kubernetes_request
        self.server = without_secrets(self._url)
        """The server's URL, for messages."""
        self.origin = origin
        self.identity = (*_address(self._url), *credentials.trusted)
        """Equal for connections to the same server: by its address and CA."""
        self.retrier = Retrier(
            Failure("stopping: nothing more is asked of the API server"),
            stop or threading.Event(),
            holds_all=True,
            absent_seconds=absent_seconds,
            on_retry=observer.kubernetes_retry,
        )
        self.memory = AnswerMemory(MOST_BYTES, parsed=160 * MIB)
        # Without the stop event: a request that was sent before the daemon stops is completed.
        self._deadline = RequestDeadline(_MOST_CONNECTING, name="kubernetes-request")

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
        """Get a path; transient failures are retried."""
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
        """Send one request without retries; again only with new credentials after a rejection.

        ``may_send`` is called when everything but the body has been sent, which may be late. If it
        returns False the request is aborted, and the server does nothing.
        """
        url = f"{self._url}{path}{f'?{_encoded(query)}' if query else ''}"
        content = None if body is None else _Content(body, content_type, may_send)

        def send(access: Access) -> JsonObject | Failure:
            timeout = min(self.request_timeout, deadline - clock.monotonic())
            if timeout < _SHORTEST_TIMEOUT:
                return Failure(
                    f"no time was left to ask the API server {self.server} before the deadline",
                    kind=FailureKind.CUT_SHORT,
                )

            read = partial(self._receive, seconds=timeout)
            answer = self._exchange(method, url, access, timeout, read, content)
            return answer if isinstance(answer, Failure) else self._interpret(answer)

        return self._accepted(send, deadline)

    def stream(
        self, path: str, query: Mapping[str, str], timeout: float
    ) -> urllib3.HTTPResponse | Failure:
        """Open a watch, whose head must arrive in ``timeout`` seconds; the caller closes it."""

        def read(response: urllib3.HTTPResponse, until: float) -> urllib3.HTTPResponse | Answer:
            if not is_success(response.status):
                return self._receive(response, until, timeout)
            check_encoding(response)
            return response

        def send(access: Access) -> urllib3.HTTPResponse | Failure:
            url = f"{self._url}{path}?{_encoded(query)}"
            answer = self._exchange("WATCH", url, access, timeout, read)
            if isinstance(answer, Answer):
                return from_answer(answer, self.server, self.origin)
            return answer

        return self._accepted(send, clock.monotonic() + timeout)

    def _accepted(self, send: Callable[[Access], T | Failure], deadline: float) -> T | Failure:
        """Send a request, and once more if it was rejected and there are new credentials."""
        access = self._credentials.access(deadline)
        if isinstance(access, Failure):
            return access
        answer = send(access)
        if isinstance(answer, Failure) and answer.kind is FailureKind.REJECTED:
            other = self._credentials.renewed(access, deadline)
            if isinstance(other, Failure):
                return other
            if other is not None:
                answer = send(other)
            elif self._credentials.fault:
                answer = replace(answer, message=f"{answer.message}; {self._credentials.fault}")
        return self._fit(answer) if isinstance(answer, Failure) else answer

    def _exchange(
        self,
        verb: str,
        url: str,
        access: Access,
        timeout: float,
        read: Callable[[urllib3.HTTPResponse, float], ReadT],
        content: "_Content | None" = None,
    ) -> ReadT | Failure:
        began = clock.monotonic()
        until = began + timeout
        headers = _headers_of(access, content)
        if content is not None:
            content.until = until

        def exchange() -> ReadT:
            # The client's own method accepts no body that is generated while it is sent.
            response = access.client.rest_client.pool_manager.request(
                "GET" if verb == "WATCH" else verb,
                url,
                headers=headers,
                body=content,
                timeout=urllib3.Timeout(total=timeout),
                preload_content=False,
                decode_content=False,
            )
            return read(cast("urllib3.HTTPResponse", response), until)

        try:
            answer: ReadT | Failure = self._deadline.run(timeout + GRACE_SECONDS, exchange)
        except UnexpectedEncoding as error:
            answer = malformed(self.server, str(error))
        except RAISED as error:
            if content is not None and content.withheld:
                message = f"a request to the API server {self.server} came too late to be sent"
                return Failure(message, kind=FailureKind.WITHHELD)
            hurried = timeout < self.request_timeout
            answer = from_exception(error, self.server, cut_short=hurried)
        self._on_request(verb, str(answer.status or ""), clock.monotonic() - began)
        return answer

    def _receive(self, response: urllib3.HTTPResponse, until: float, seconds: float) -> Answer:
        return Answer(self.memory, until, seconds).receive(response, self.redactor)

    def _interpret(self, answer: Answer) -> JsonObject | Failure:
        if not is_success(answer.status):
            return from_answer(answer, self.server, self.origin)
        if answer.unread is not None:
            return self._unread(answer.unread)
        try:
            document = answer.parse(answer.body)
        except (DocumentTooLargeError, NoMemory) as error:
            return self._unread(error)
        except (ValueError, RecursionError):
            kind = answer.headers.get("Content-Type", "no Content-Type")
            return malformed(self.server, f"something that is not JSON ({kind})")
        if not isinstance(document, dict):
            return malformed(self.server, "JSON that is not an object")
        kept = _ReleasableDocument(document)
        answer.keep(kept)
        return kept

    def _unread(self, error: Exception) -> Failure:
        """Return the failure for a success that was not received or not parsed."""
        if isinstance(error, NoMemory):
            message = f"the API server {self.server} answered, and {error}"
            return Failure(message, transient=True, uncertain=True)
        failure = malformed(self.server, str(error))
        # A document that is too large would be too large again.
        lasting = replace(failure, transient=False, kind=FailureKind.TOO_LARGE)
        return failure if isinstance(error, UnexpectedEncoding) else lasting

    def failed(self, error: Exception) -> Failure:
        """Return the failure for an exception (one of RAISED) while a stream was read."""
        return self._fit(from_exception(error, self.server))

    def _fit(self, failure: Failure) -> Failure:
        """Return a failure with a short message without credentials."""
        return replace(failure, message=self.redactor.line(failure.message, _LONGEST_MESSAGE))


def _headers_of(access: Access, content: "_Content | None") -> urllib3.HTTPHeaderDict:
    headers = urllib3.HTTPHeaderDict(access.impersonation)
    headers |= {"Accept": "application/json", "User-Agent": f"autoscaler/{__version__}"}
    if access.authorization is not None:
        headers["Authorization"] = access.authorization
    headers |= {} if content is None else content.headers
    return headers


def _address(url: str) -> tuple[object, ...]:
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, port, parts.path


class _ReleasableDocument(dict[str, object]):
    """A JSON object that notices when it is freed, which a plain dict cannot."""


class _Content:
    """The body of a request, which is withheld if it may no longer be sent."""

    def __init__(
        self, document: JsonObject, content_type: str, may_send: Callable[[], bool]
    ) -> None:
        self._payload = json.dumps(document).encode()
        self._may_send = may_send
        self.headers = {"Content-Type": content_type, "Content-Length": str(len(self._payload))}
        self.withheld = False
        self.until = math.inf
        """The end of the request; the connection may be made only later."""

    def __iter__(self) -> Iterator[bytes]:
        if not self._may_send():
            self.withheld = True
            # The pool closes the connection after it, as after any OSError.
            raise InterruptedError("the body may not be sent any more")
        if clock.monotonic() >= self.until:
            raise TimeoutError("the request was given up")
        yield self._payload


def path_of(group_version: str, plural: str, namespace: str = "", name: str = "") -> str:
    """Return the path of a collection, such as of `apps/v1` or `v1`, or of one of its objects."""
    root = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
    where = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"{root}{where}/{plural}" + (f"/{quote(name, safe='')}" if name else "")


def _encoded(query: Mapping[str, str]) -> str:
    # A server may send text that is not valid UTF-8, as a token or a version to return.
    return urlencode(query, errors="replace")


def read_list(
    get: Callable[[dict[str, str]], JsonObject | Failure],
    add: Callable[[list[JsonObject]], None],
    query: dict[str, str],
    limit: int,
) -> str | Failure:
    """Pass the objects of a list to ``add``, page by page, and return its resourceVersion.

    A page that is too large is requested again with fewer objects; a ``limit`` of 0 requests one
    page. Raises one of MALFORMED for a document that is not a list, and for too many pages.
    """
    for _ in range(_MOST_PAGES):
        answer = get(query | {"limit": str(limit)} if limit else query)
        if isinstance(answer, Failure):
            if answer.kind is not FailureKind.TOO_LARGE or limit <= 1:
                return answer
            limit = max(1, limit // _PAGE_SHRINKS)
            continue
        add(answer["items"])
        metadata = answer["metadata"]
        more, version = metadata.get("continue") or "", metadata.get("resourceVersion", "")
        if not (isinstance(more, str) and isinstance(version, str)):
            raise TypeError("its metadata are not strings")
        if not more:
            return version
        query = query | {"continue": more}
        del answer  # The next page may need its memory.
    raise ValueError(f"it has more than {_MOST_PAGES} pages")
