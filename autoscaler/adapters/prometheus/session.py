"""One request through prometheus-api-client, with what the library leaves out.

`PrometheusConnect.custom_query` puts the query into the URL even of a POST, bounds neither time
nor size of the body, gives the status as the text of an exception only, and returns nothing but
`data.result`.  It takes a session of ours, though, and that is where all of it is mended:
nothing of the library is overridden or reached into.  A session serves one request, so that it
can hold that request's deadline and credentials; the connections are shared and outlive it.
"""

import ipaddress
import math
from collections.abc import Callable

import requests
import urllib3
from prometheus_api_client import PrometheusConnect
from requests.adapters import BaseAdapter
from requests.utils import get_environ_proxies

from autoscaler import clock
from autoscaler.adapters.prometheus.answers import document_of
from autoscaler.adapters.prometheus.credentials import Credentials
from autoscaler.adapters.prometheus.failures import (
    QueryError,
    connection_failure,
    prometheus_error,
    refusal,
)
from autoscaler.adapters.prometheus.memory import ROOM_EARLIER, ROOM_SHARE, AnswerMemory
from autoscaler.adapters.prometheus.options import PrometheusOptions
from autoscaler.transport.bodies import Encoded, TooLarge, read_body
from autoscaler.transport.budget import Room
from autoscaler.transport.redaction import Hiding
from autoscaler.transport.within import in_words

_ENCODING = "gzip"
"""What Prometheus compresses with."""
_LONGEST_ENCODING = 100
_NO_RETRIES = urllib3.Retry(total=0)

OnRequest = Callable[[str, float], None]
"""Is told the HTTP status of each request, and the seconds it took.

The status is empty where no answer came, or none that can be read.
"""


class WholeAnswer(requests.Response):
    """A success that shows the library the whole answer where it looks for the result only.

    So that `resultType` and `warnings` get through, and the JSON is parsed once.
    """

    def __init__(self, document: dict[str, object]) -> None:
        super().__init__()
        self.status_code = 200
        self._document = document

    def json(self, **_: object) -> dict[str, dict[str, dict[str, object]]]:
        """Return the answer, two levels deeper than it was sent."""
        return {"data": {"result": self._document}}


class QuerySession(requests.Session):
    """A session for one request: the query goes into the body, the time is bounded.

    Of the environment the proxies are obeyed, as by every tool of Prometheus (and as there,
    never for a loopback address); .netrc, REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE are not.
    """

    def __init__(
        self,
        options: PrometheusOptions,
        pool: BaseAdapter,
        credentials: Credentials,
        hiding: Hiding,
        seconds: float,
        memory: AnswerMemory,
        on_request: OnRequest,
    ) -> None:
        super().__init__()
        self.trust_env = False
        self.verify = not options.insecure_skip_verify
        self.proxies = _proxies(options)
        self.headers["Accept-Encoding"] = _ENCODING
        self.headers.update(options.headers)
        if credentials.authorization is not None:
            self.headers["Authorization"] = credentials.authorization
        self._options = options
        self._hiding = hiding
        self._pool = pool
        self._seconds = seconds
        self._within = in_words(seconds, options.timeout_seconds)
        self._expires = clock.monotonic() + seconds
        self._room_until = self._expires - min(ROOM_EARLIER, seconds * ROOM_SHARE)
        self._memory = memory
        self._on_request = on_request
        self._receiving: Room | None = None
        self.room: Room | None = None
        """What the answer takes, from when it is parsed; the caller gives it back."""
        self._subject = f"Prometheus at {options.shown_url}"

    def get_adapter(self, url: str) -> BaseAdapter:  # noqa: ARG002 - the signature of requests
        """Return the shared connections, whatever the library mounted."""
        return self._pool

    def prepare_request(self, request: requests.Request) -> requests.PreparedRequest:
        """Move the query into the body, where it may be long; keep the user's own in the URL.

        Raises QueryError for what cannot be sent.
        """
        request.data = request.params
        request.params = [
            (name, value)
            for name, values in self._options.query_parameters.items()
            for value in values
        ]
        try:
            return super().prepare_request(request)
        except (requests.RequestException, ValueError) as error:
            # A URL or a header that cannot be sent; the text would quote it.
            raise connection_failure(
                error, self._subject, self._options.host, self._within
            ) from None

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Follow nothing; requests would even unasked read the body and parse the location."""

    def send(self, request: requests.PreparedRequest, **settings: object) -> requests.Response:
        """Send and read within the time; raises QueryError unless the answer is a success."""
        settings |= {
            "stream": True,
            "allow_redirects": False,
            "timeout": urllib3.Timeout(total=self._seconds),
        }
        begun, ended, status = clock.monotonic(), math.inf, ""
        try:
            with super().send(request, **settings) as response:  # type: ignore[arg-type]  # as given
                body = self._read(response.raw)
            ended = clock.monotonic()
            # A login page with status 200 is no answer of Prometheus, and does not count as one.
            try:
                document = self._document(body) if response.status_code == 200 else {}
            except QueryError:
                # Refused for what the query says, it was answered all the same.
                status = "200" if prometheus_error(body, self._hiding)[0] else ""
                raise
            status = str(response.status_code)
        except (
            requests.RequestException,
            urllib3.exceptions.HTTPError,
            OSError,
            ValueError,  # of an address or a header that the libraries cannot parse
        ) as error:
            raise connection_failure(
                error, self._subject, self._options.host, self._within
            ) from None
        finally:
            if self._receiving is not None:
                self._receiving.close()
            self._on_request(status, min(ended, clock.monotonic()) - begun)
        if response.status_code != 200:
            body = self._hiding.refusal(body)
            raise refusal(self._subject, response.status_code, response.headers, body, self._hiding)
        return WholeAnswer(document)

    def _document(self, body: bytes) -> dict[str, object]:
        body = self._hiding.data(body)
        return document_of(self._subject, body, self._hiding, self._admit)

    def _admit(self, memory: int) -> None:
        self.room = self._memory.to_parse(memory, self._room_until)

    def _read(self, raw: urllib3.BaseHTTPResponse) -> bytes:
        def make_room(size: int) -> None:
            self._receiving = self._receiving or self._memory.to_receive(size, self._room_until)

        most = self._memory.most_bytes
        try:
            return read_body(raw, self._expires, most, encoding=_ENCODING, on_size=make_room)
        except TooLarge as error:
            raise QueryError(f"{self._subject} sent {error}: the query should aggregate") from None
        except Encoded as error:
            sent = self._hiding.said(str(error), _LONGEST_ENCODING)
            raise QueryError(f"{self._subject} sent {sent}") from None


def ask(options: PrometheusOptions, session: QuerySession, promql: str) -> dict[str, object]:
    """Send one query and return the whole answer; raises QueryError."""
    with session:
        connect = PrometheusConnect(
            url=options.url.rstrip("/"), session=session, retry=_NO_RETRIES, method="POST"
        )
        answer: dict[str, object] = connect.custom_query(promql)
        return answer


def _proxies(options: PrometheusOptions) -> dict[str, str]:
    try:
        local = ipaddress.ip_address(options.host).is_loopback
    except ValueError:
        local = options.host == "localhost"
    return {} if local else get_environ_proxies(options.url)
