"""Tokens of an OAuth 2.0 server for client credentials (RFC 6749 4.4).

oauthlib implements the protocol. The requests have the same limits of time and size and the same
TLS options as those to Prometheus, and do not follow redirects.
"""

from base64 import b64encode
from http.client import responses
from urllib.parse import quote_plus, urlencode

import requests
from oauthlib.oauth2 import BackendApplicationClient, MissingTokenError, OAuth2Error

from autoscaler import clock
from autoscaler.config.prometheus_connection import OAuth2Settings
from autoscaler.prometheus.answers import QueryError, connection_failure
from autoscaler.prometheus.tls import ConnectionPools
from autoscaler.transport.answers import MIB, BodyTooLargeError, UnexpectedEncoding, read_body
from autoscaler.transport.credentials import (
    FETCH_SECONDS,
    SecretError,
    SecretFile,
    Token,
    check_characters,
)
from autoscaler.transport.network_errors import RAISED
from autoscaler.transport.redaction import Redactor, without_secrets

_SECONDS = FETCH_SECONDS / 3
"""The time limit of one request: there may be two, and both must fit into a fetch."""
_LONGEST_TEXT = 200
# Requests are rare (one per token lifetime), so no connection is kept.
_HEADERS = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "Connection": "close",
    "Content-Type": "application/x-www-form-urlencoded",
}
_DENIED = frozenset({400, 401})
_NO_TOKEN = (ValueError, OverflowError, TypeError, AttributeError, KeyError, RecursionError)


class OAuth2Fetch:
    """Fetches one token each time it is called; raises SecretError."""

    def __init__(self, settings: OAuth2Settings) -> None:
        self._settings = settings
        self._subject = f"the token endpoint {without_secrets(settings.token_url)}"
        self._secret = SecretFile("client secret", settings.client_secret_file, ascii_only=False)
        self._client = BackendApplicationClient(settings.client_id)
        self._pools = ConnectionPools(settings.token_url, settings.tls)
        self._in_header = True

    def __call__(self) -> Token[str]:
        """Ask with the secret in the header, or in the body if the server refuses the header."""
        try:
            secret = self._secret.read()
            status, body = self._request(secret)
            if status in _DENIED:
                self._in_header = not self._in_header
                second, other = self._request(secret)
                if second == 200:
                    status, body = second, other
                else:
                    self._in_header = not self._in_header
        except QueryError as error:
            raise SecretError(str(error)) from None
        redactor = Redactor((secret, quote_plus(secret), *self._settings.endpoint_params.values()))
        return self._token(status, body, redactor)

    def _request(self, secret: str) -> tuple[int, bytes]:
        extra = urlencode(self._settings.endpoint_params)
        scope = " ".join(self._settings.scopes) or None
        headers = dict(_HEADERS)
        if self._in_header:
            # Both are encoded first (RFC 6749 2.3.1).
            pair = f"{quote_plus(self._settings.client_id)}:{quote_plus(secret)}"
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
            body = self._client.prepare_request_body(body=extra, scope=scope)
        else:
            body = self._client.prepare_request_body(
                body=extra, scope=scope, include_client_id=True, client_secret=secret
            )
        until, url = clock.monotonic() + _SECONDS, self._settings.token_url
        try:
            send = self._pools.sender(_SECONDS)
            with send(requests.Request("POST", url, headers, data=body).prepare()) as answer:
                return answer.status_code, read_body(answer.raw, until, MIB)
        except (BodyTooLargeError, UnexpectedEncoding) as error:
            raise SecretError(f"{self._subject} sent {error}") from None
        except RAISED as error:
            host = self._pools.host
            raise connection_failure(error, self._subject, host, _SECONDS, _SECONDS) from None

    def _token(self, status: int, body: bytes, redactor: Redactor) -> Token[str]:
        try:
            answer = self._client.parse_request_body_response(body.decode())
        except (MissingTokenError, *_NO_TOKEN):
            raise self._refusal(status, redactor) from None
        except OAuth2Error as error:
            raise self._refusal(status, redactor, error) from None
        token, kind = answer.get("access_token"), answer.get("token_type") or "Bearer"
        if status != 200 or not isinstance(token, str):
            raise self._refusal(status, redactor)
        if str(kind).lower() != "bearer":
            raise SecretError(f"{self._subject} gave a token of another type than Bearer")
        check_characters("token", f"what {self._subject} gave", token)
        seconds = answer.get("expires_in")
        return Token(token, float(seconds) if isinstance(seconds, int | float) else None)

    def _refusal(
        self, status: int, redactor: Redactor, error: OAuth2Error | None = None
    ) -> SecretError:
        if status == 200 and error is None:
            return SecretError(f"{self._subject} sent an answer without a token")
        sentence = f"{self._subject} answered HTTP {status} {responses.get(status, '')}".rstrip()
        if error is not None and error.error:
            words = f"{error.error}: {error.description}" if error.description else error.error
            sentence += f": {redactor.line(words, _LONGEST_TEXT)}"
        return SecretError(sentence)
