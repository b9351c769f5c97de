"""How a request proves who sends it."""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, assert_never

from requests import PreparedRequest

from autoscaler.adapters.prometheus.options import (
    AzureAd,
    GoogleIam,
    OAuth2,
    PrometheusOptions,
    SigV4,
)
from autoscaler.transport.background_token import BackgroundToken, Token
from autoscaler.transport.redaction import Redactor
from autoscaler.transport.secret_files import SecretFile

_UNAUTHORIZED = 401


class SignIn(Protocol):
    """Puts credentials into requests.  Thread-safe."""

    def sign(self, request: PreparedRequest, redactor: Redactor, seconds: float) -> Redactor:
        """Add the headers to a request that is else complete, within ``seconds``.

        Returns the redactor that hides them.  Raises SecretError or TokenError.
        """

    def refused(self, status: int) -> None:
        """Note that the server answered 401 or 403."""

    def close(self) -> None:
        """Fetch nothing more."""


class FileSignIn:
    """Fits `SignIn`: none, or the token or password that is in a file now."""

    def __init__(self, options: PrometheusOptions) -> None:
        self._token: SecretFile | None = None
        self._password: SecretFile | None = None
        self._user = options.basic_auth_username
        if options.bearer_token_file:
            self._token = SecretFile("bearer token", Path(options.bearer_token_file))
        elif options.basic_auth_password_file:
            file = Path(options.basic_auth_password_file)
            self._password = SecretFile("password", file, ascii_only=False)

    def sign(self, request: PreparedRequest, redactor: Redactor, seconds: float) -> Redactor:  # noqa: ARG002 - nothing is waited for
        """Add the Authorization header, if there is any."""
        if self._token is not None:
            return _authorize(request, f"Bearer {self._token.read()}", redactor)
        if self._user or self._password is not None:
            password = "" if self._password is None else self._password.read()
            pair = f"{self._user or ''}:{password}".encode()
            return _authorize(request, f"Basic {base64.b64encode(pair).decode('ascii')}", redactor)
        return redactor

    def refused(self, status: int) -> None:
        """Do nothing: files are read for each request."""

    def close(self) -> None:
        """Do nothing."""


class TokenSignIn:
    """Fits `SignIn`: a bearer token that expires, kept valid in the background."""

    def __init__(self, what: str, fetch: Callable[[], Token[str]]) -> None:
        self._token = BackgroundToken(what, fetch)

    def sign(self, request: PreparedRequest, redactor: Redactor, seconds: float) -> Redactor:
        """Add the Authorization header."""
        return _authorize(request, f"Bearer {self._token.get(seconds)}", redactor)

    def refused(self, status: int) -> None:
        """Fetch a new token soon, unless the server knows whose it is."""
        if status == _UNAUTHORIZED:
            self._token.refused()

    def close(self) -> None:
        """Fetch nothing more."""
        self._token.close()


def sign_in_of(options: PrometheusOptions) -> SignIn:
    """Return the way that the options name; what fetches in the background begins to.

    The libraries of the vendors are imported here, where they are used.
    """
    way = options.sign_in
    if way is None:
        return FileSignIn(options)
    if isinstance(way, OAuth2):
        from autoscaler.adapters.prometheus.oauth2 import OAuth2Fetch

        return TokenSignIn("access token", OAuth2Fetch(way))
    if isinstance(way, SigV4):
        from autoscaler.adapters.prometheus.sigv4 import SigV4SignIn

        return SigV4SignIn(way)
    if isinstance(way, GoogleIam):
        from autoscaler.adapters.prometheus.google_iam import GoogleFetch

        return TokenSignIn("access token of Google", GoogleFetch(way))
    if isinstance(way, AzureAd):
        from autoscaler.adapters.prometheus.azuread import AzureFetch

        return TokenSignIn("access token of Azure", AzureFetch(way))
    assert_never(way)


def _authorize(request: PreparedRequest, authorization: str, redactor: Redactor) -> Redactor:
    redactor.remember(authorization)
    request.headers["Authorization"] = authorization
    return redactor
