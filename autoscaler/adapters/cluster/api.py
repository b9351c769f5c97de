"""Requests to the API server: JSON in, JSON or a `Failure` out."""

import json
import threading
from collections.abc import Mapping
from typing import Self, cast
from urllib.parse import urlencode, urlsplit

import urllib3
from kubernetes.client import ApiClient, Configuration

from autoscaler import __version__, clock
from autoscaler.adapters.cluster import failures
from autoscaler.adapters.cluster.credentials import Credentials
from autoscaler.adapters.cluster.failures import Failure, JsonObject
from autoscaler.adapters.cluster.patience import Patience

_SHORTEST_TIMEOUT = 0.001
"""Below this nothing is begun; a timeout of 0 would mean none at all to the client."""


class Api:
    """The API server, for many threads at once.

    The official client carries the requests (TLS, proxies, connection pool); bodies stay raw
    JSON, because its typed models cost twenty times as much as reading the JSON does.  Deadlines
    are instants of `autoscaler.clock.monotonic`.
    """

    def __init__(
        self,
        configuration: Configuration,
        credentials: Credentials,
        *,
        origin: str,
        request_timeout: float = 5.0,
        stop: threading.Event | None = None,
    ) -> None:
        self._client = ApiClient(configuration)
        self._url = str(configuration.host).rstrip("/")
        self._credentials = credentials
        self._request_timeout = request_timeout
        self.server = _without_credentials(self._url)
        """The server's URL, for messages."""
        self.origin = origin
        """Where the configuration comes from, for messages."""
        self.patience = Patience(stop or threading.Event())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the idle connections."""
        self._client.close()  # type: ignore[no-untyped-call] # the client is half typed

    def get(
        self, path: str, deadline: float, query: Mapping[str, str] | None = None
    ) -> JsonObject | Failure:
        """Read a path, trying again what is transient."""
        return self.patience.call(lambda: self.once("GET", path, deadline, query=query), deadline)

    def once(
        self,
        method: str,
        path: str,
        deadline: float,
        *,
        query: Mapping[str, str] | None = None,
        body: JsonObject | None = None,
        content_type: str = "application/json",
    ) -> JsonObject | Failure:
        """Send one request, once: again only with other credentials, when these are rejected."""
        url = f"{self._url}{path}{f'?{urlencode(query)}' if query else ''}"
        sent = self._credentials.authorization()
        if isinstance(sent, Failure):
            return sent
        answer = self._exchange(method, url, deadline, sent, body, content_type)
        if isinstance(answer, Failure) and answer.status == 401 and self._credentials.renewed(sent):
            other = self._credentials.authorization()
            if isinstance(other, Failure):
                return other
            answer = self._exchange(method, url, deadline, other, body, content_type)
        return answer

    def stream(
        self, path: str, query: Mapping[str, str], timeout: float
    ) -> urllib3.HTTPResponse | Failure:
        """Begin an answer that goes on, such as a watch; the caller reads and closes it.

        ``timeout`` is the seconds that the server has for the head of its answer.
        """
        url = f"{self._url}{path}?{urlencode(query)}"
        sent = self._credentials.authorization()
        if isinstance(sent, Failure):
            return sent
        answer = self._begin(url, timeout, sent)
        if isinstance(answer, Failure) and answer.status == 401 and self._credentials.renewed(sent):
            other = self._credentials.authorization()
            answer = other if isinstance(other, Failure) else self._begin(url, timeout, other)
        return answer

    def _begin(
        self, url: str, timeout: float, authorization: str | None
    ) -> urllib3.HTTPResponse | Failure:
        until = clock.monotonic() + timeout
        try:
            response = cast(
                "urllib3.HTTPResponse",
                self._client.call_api(
                    "GET", url, _headers(authorization), _request_timeout=timeout
                ).response,
            )
            if 200 <= response.status <= 299:
                return response
            payload = _read(response, until)
        except failures.RAISED as error:
            return failures.from_exception(error, self.server, timeout)
        return failures.from_answer(
            response.status, response.headers, payload, server=self.server, origin=self.origin
        )

    def _exchange(
        self,
        method: str,
        url: str,
        deadline: float,
        authorization: str | None,
        body: JsonObject | None,
        content_type: str,
    ) -> JsonObject | Failure:
        timeout = min(self._request_timeout, deadline - clock.monotonic())
        if timeout < _SHORTEST_TIMEOUT:
            return failures.no_time(self.server)
        until = clock.monotonic() + timeout
        headers = _headers(authorization)
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            response = self._client.call_api(
                method, url, headers, body, _request_timeout=timeout
            ).response
            payload = _read(response, until)
        except failures.RAISED as error:
            return failures.from_exception(error, self.server, timeout)
        return self._interpret(response.status, response.headers, payload)

    def _interpret(
        self, status: int, headers: Mapping[str, str], payload: bytes
    ) -> JsonObject | Failure:
        if not 200 <= status <= 299:
            return failures.from_answer(
                status, headers, payload, server=self.server, origin=self.origin
            )
        try:
            document = json.loads(payload)
        except (ValueError, RecursionError):
            kind = headers.get("Content-Type", "no Content-Type")
            return failures.malformed(
                self.server, f"something that is not JSON ({kind}, {len(payload)} bytes)"
            )
        if not isinstance(document, dict):
            return failures.malformed(self.server, "JSON that is not an object")
        return cast("JsonObject", document)


def _headers(authorization: str | None) -> dict[str, str]:
    headers = {"Accept": "application/json", "User-Agent": f"autoscaler/{__version__}"}
    if authorization is not None:
        headers["Authorization"] = authorization
    return headers


def _read(response: urllib3.HTTPResponse, until: float) -> bytes:
    """Read the body before an instant, however slowly it drips.

    The client's timeout limits each wait for the socket, not the whole answer.
    """
    chunks: list[bytes] = []
    while True:
        left = until - clock.monotonic()
        if left < _SHORTEST_TIMEOUT:
            response.close()
            raise urllib3.exceptions.TimeoutError("the answer is not complete")
        socket = response.connection.sock if response.connection is not None else None
        if socket is not None:
            socket.settimeout(left)
        chunk = response.read1()
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
