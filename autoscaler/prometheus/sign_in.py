"""How a request proves who sends it."""

import base64
from collections.abc import Callable

from requests import PreparedRequest

from autoscaler.config.prometheus_connection import PrometheusSettings
from autoscaler.transport.credentials import BackgroundToken, SecretFile, Token
from autoscaler.transport.redaction import Redactor

_UNAUTHORIZED = 401


class SignIn:
    """Puts headers, the token or the password that are in files now into requests.  Thread-safe."""

    def __init__(self, settings: PrometheusSettings) -> None:
        files = settings.headers_files.items()
        self._header_files = {name: SecretFile(f"{name} header", file) for name, file in files}
        file, self._basic = settings.bearer_token_file, settings.basic_auth
        self._secret = None if file is None else SecretFile("bearer token", file)
        if self._basic is not None:
            self._secret = SecretFile("password", self._basic.password_file, ascii_only=False)

    def sign(self, request: PreparedRequest, redactor: Redactor, seconds: float) -> Redactor:
        """Add headers within ``seconds``; return what hides them, or raise Secret-, TokenError."""
        for name, file in self._header_files.items():
            value = file.read()
            redactor.remember(value, header=name)
            request.headers[name] = value
        return self._authorize(request, redactor, seconds)

    def _authorize(self, request: PreparedRequest, redactor: Redactor, seconds: float) -> Redactor:
        """Add the Authorization header, which may sign the others."""
        if authorization := self._authorization(seconds):
            redactor.remember(authorization)
            request.headers["Authorization"] = authorization
        return redactor

    def _authorization(self, seconds: float) -> str:  # noqa: ARG002 - nothing is waited for
        if self._secret is None:
            return ""
        if self._basic is None:
            return f"Bearer {self._secret.read()}"
        pair = f"{self._basic.username}:{self._secret.read()}".encode()
        return f"Basic {base64.b64encode(pair).decode('ascii')}"

    def refused(self, status: int) -> None:
        """Note that the server answered 401 or 403; files are read for each request."""

    def close(self) -> None:
        """Fetch nothing more."""


class TokenSignIn(SignIn):
    """A bearer token that expires, kept valid in the background."""

    def __init__(
        self, settings: PrometheusSettings, what: str, fetch: Callable[[], Token[str]]
    ) -> None:
        super().__init__(settings)
        self._token = BackgroundToken(what, fetch)

    def _authorization(self, seconds: float) -> str:
        return f"Bearer {self._token.get(seconds)}"

    def refused(self, status: int) -> None:
        """Fetch a new token soon, unless the server knows whose it is."""
        if status == _UNAUTHORIZED:
            self._token.refused()

    def close(self) -> None:
        """Fetch nothing more."""
        self._token.close()


def sign_in_of(settings: PrometheusSettings) -> SignIn:
    """Return the way that the settings name, with the vendor's library imported only then."""
    if settings.oauth2 is not None:
        from autoscaler.prometheus.oauth2 import OAuth2Fetch

        return TokenSignIn(settings, "access token", OAuth2Fetch(settings.oauth2))
    if settings.sigv4 is not None:
        from autoscaler.prometheus.sigv4 import SigV4SignIn

        return SigV4SignIn(settings, settings.sigv4)
    if settings.google_iam is not None:
        from autoscaler.prometheus.google_iam import GoogleFetch

        return TokenSignIn(settings, "access token of Google", GoogleFetch(settings.google_iam))
    if settings.azuread is not None:
        from autoscaler.prometheus.azuread import AzureFetch

        return TokenSignIn(settings, "access token of Azure", AzureFetch(settings.azuread))
    return SignIn(settings)
