"""One request through prometheus-api-client, with what the library leaves out.

`PrometheusConnect.custom_query` puts the query into the URL even of a POST, limits neither time nor
size of the body, gives the status as the text of an exception only, and returns nothing but
`data.result`.  But it accepts a session of ours, and all of that is done there: nothing of the
library is overridden.  A session serves one request, so that it can hold that request's deadline
and credentials; the connections are shared and outlive it.
"""

import math
from typing import NoReturn

import requests
import urllib3
from prometheus_api_client import PrometheusConnect
from requests.adapters import BaseAdapter

from autoscaler import clock
from autoscaler.adapters.prometheus.answers import document_of
from autoscaler.adapters.prometheus.failures import (
    QueryError,
    connection_failure,
    prometheus_error,
    refusal,
)
from autoscaler.adapters.prometheus.options import PrometheusOptions
from autoscaler.adapters.prometheus.sign_in import SignIn
from autoscaler.adapters.prometheus.tls import proxies_for
from autoscaler.transport.background_token import TokenError
from autoscaler.transport.bodies import TooLarge, TooMuch, UnexpectedEncoding, read_body
from autoscaler.transport.memory import AnswerMemory, NoMemory, OneAnswer
from autoscaler.transport.network_errors import RAISED
from autoscaler.transport.observer import Observer
from autoscaler.transport.redaction import Redactor
from autoscaler.transport.secret_files import SecretError

_ENCODING = "gzip"
"""What Prometheus compresses with."""
_LONGEST_ENCODING = 100
_NO_RETRIES = urllib3.Retry(total=0)


class WholeAnswer(requests.Response):
    """A success that shows the library the whole answer in place of the result.

    So `resultType` and `warnings` get through, and the JSON is parsed once.
    """

    def __init__(self, document: dict[str, object]) -> None:
        super().__init__()
        self.status_code = 200
        self._document = document

    def json(self, **_: object) -> dict[str, dict[str, dict[str, object]]]:
        """Return the answer, two levels deeper than it was sent."""
        return {"data": {"result": self._document}}


class QuerySession(requests.Session):
    """A session for one request: the query goes into the body, the time is limited.

    The proxies of the environment are used, as by every tool of Prometheus (and as there, never for
    a loopback address); .netrc, REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE are not.
    """

    def __init__(
        self,
        options: PrometheusOptions,
        pool: BaseAdapter,
        sign_in: SignIn,
        redactor: Redactor,
        seconds: float,
        memory: AnswerMemory,
        observer: Observer,
    ) -> None:
        super().__init__()
        self.trust_env = False
        self.verify = not options.insecure_skip_verify
        self.proxies = proxies_for(options)
        self.headers["Accept-Encoding"] = _ENCODING
        self.headers.update(options.headers)
        self._options = options
        self._sign_in = sign_in
        self.redactor = redactor
        """Hides what the request has carried; complete once it is prepared."""
        self._pool = pool
        self._seconds = seconds
        self._expires = clock.monotonic() + seconds
        self._most_bytes = memory.most_bytes
        self._observer = observer
        self.memory = OneAnswer(memory, self._expires, seconds)
        """The memory of the answer."""

    def get_adapter(self, url: str) -> BaseAdapter:  # noqa: ARG002 - the signature of requests
        """Return the shared connections, whatever the library mounted."""
        return self._pool

    def prepare_request(self, request: requests.Request) -> requests.PreparedRequest:
        """Move the query into the body, where it may be long; keep the user's own in the URL.

        Then sign it.  Raises QueryError for what cannot be sent.
        """
        request.data = request.params
        request.params = [
            (name, value)
            for name, values in self._options.query_parameters.items()
            for value in values
        ]
        try:
            prepared = super().prepare_request(request)
        except (requests.RequestException, ValueError) as error:
            # A URL or a header that cannot be sent.
            self._fail(error)
        try:
            self.redactor = self._sign_in.sign(prepared, self.redactor, self._seconds)
        except (SecretError, TokenError) as error:
            self._observer.prometheus_sign_in_failed(self._options.name, str(error))
            raise QueryError(str(error)) from None
        return prepared

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
                # Prometheus did answer, if only to refuse the query.
                status = "200" if prometheus_error(body, self.redactor)[0] else ""
                raise
            status = str(response.status_code)
        except RAISED as error:
            self._fail(error)
        finally:
            seconds = min(ended, clock.monotonic()) - begun
            self._observer.prometheus_request(self._options.name, status, seconds)
        if response.status_code in {401, 403}:
            self._sign_in.refused(response.status_code)
        if response.status_code != 200:
            body = self.redactor.error_body(body)
            raise refusal(
                self._options.subject, response.status_code, response.headers, body, self.redactor
            )
        return WholeAnswer(document)

    def _fail(self, error: Exception) -> NoReturn:
        timeout = self._options.timeout_seconds
        raise connection_failure(
            error, self._options.subject, self._options.host, self._seconds, timeout
        ) from None

    def _document(self, body: bytes) -> dict[str, object]:
        body = self.redactor.data(body)
        try:
            return document_of(self._options.subject, body, self.redactor, self.memory.parse)
        except TooMuch as error:
            what = str(error).replace("JSON", "an answer", 1)
            raise QueryError(f"Prometheus sent {what}: the query should aggregate") from None
        except NoMemory as error:
            raise self._no_memory(error) from None

    def _read(self, raw: urllib3.BaseHTTPResponse) -> bytes:
        subject = self._options.subject
        try:
            return read_body(
                raw,
                self._expires,
                self._most_bytes,
                encoding=_ENCODING,
                on_size=self.memory.receive,
            )
        except TooLarge as error:
            raise QueryError(f"{subject} sent {error}: the query should aggregate") from None
        except UnexpectedEncoding as error:
            sent = self.redactor.line(str(error), _LONGEST_ENCODING)
            raise QueryError(f"{subject} sent {sent}") from None
        except NoMemory as error:
            raise self._no_memory(error) from None

    def _no_memory(self, error: NoMemory) -> QueryError:
        return QueryError(
            f"{error}: queries should aggregate",
            cut_short=self._seconds < self._options.timeout_seconds,
        )


def ask(options: PrometheusOptions, session: QuerySession, promql: str) -> dict[str, object]:
    """Send one query and return the whole answer; raises QueryError."""
    with session:
        connect = PrometheusConnect(
            url=options.url.rstrip("/"), session=session, retry=_NO_RETRIES, method="POST"
        )
        answer: dict[str, object] = connect.custom_query(promql)
        return answer
