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
from autoscaler.adapters.prometheus.credentials import Credentials, redact_body
from autoscaler.adapters.prometheus.failures import QueryError, connection_failure, too_slow
from autoscaler.adapters.prometheus.options import PrometheusOptions
from autoscaler.adapters.prometheus.refusals import prometheus_error, refusal

# How every answer of Prometheus starts whose text no failure will quote.
_SUCCESS = b'{"status":"success"'
_CHUNK_BYTES = 65_536
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
        seconds: float,
        most_bytes: int,
        on_request: OnRequest,
    ) -> None:
        super().__init__()
        self.trust_env = False
        self.verify = not options.insecure_skip_verify
        self.proxies = _proxies(options)
        self.headers.update(options.headers)
        if credentials.authorization is not None:
            self.headers["Authorization"] = credentials.authorization
        self._options = options
        self._secrets = credentials.secrets
        self._pool = pool
        self._seconds = seconds
        self._expires = clock.monotonic() + seconds
        self._most_bytes = most_bytes
        self._on_request = on_request
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
                error, self._subject, self._options.host, self._seconds
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
            if response.status_code != 200 or not body.startswith(_SUCCESS):
                body = redact_body(body, self._secrets)
            # A login page with status 200 is no answer of Prometheus, and does not count as one.
            try:
                document = document_of(self._subject, body) if response.status_code == 200 else {}
            except QueryError:
                # Refused for what the query says, it was answered all the same.
                status = "200" if prometheus_error(body)[0] else ""
                raise
            status = str(response.status_code)
        except (
            requests.RequestException,
            urllib3.exceptions.HTTPError,
            OSError,
            ValueError,  # of an address or a header that the libraries cannot parse
        ) as error:
            raise connection_failure(
                error, self._subject, self._options.host, self._seconds
            ) from None
        finally:
            self._on_request(status, min(ended, clock.monotonic()) - begun)
        if response.status_code != 200:
            raise refusal(self._subject, response.status_code, response.headers, body)
        return WholeAnswer(document)

    def _read(self, raw: urllib3.BaseHTTPResponse) -> bytes:
        # read1 returns with what has come; read would wait for a whole chunk of a slow drip.
        chunks: list[bytes] = []
        size = 0
        while chunk := raw.read1(_CHUNK_BYTES, decode_content=True):
            chunks.append(chunk)
            size += len(chunk)
            if size > self._most_bytes:
                raise QueryError(
                    f"{self._subject} sent more than {self._most_bytes >> 20} MiB:"
                    " the query should aggregate"
                )
            if clock.monotonic() >= self._expires:
                raise too_slow(self._subject, self._seconds)
        return b"".join(chunks)


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
