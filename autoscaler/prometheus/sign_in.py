"""Authentication: how a request proves its sender."""

import base64
from collections.abc import Callable
from functools import partial
from typing import Any

from requests import PreparedRequest

from autoscaler.config.prometheus_connection import PrometheusSettings
from autoscaler.prometheus.oauth2 import OAuth2Fetch
from autoscaler.transport.credentials import BackgroundToken, SecretFile
from autoscaler.transport.redaction import Redactor


class SignIn:
    """Adds headers, and the token, password or signature of the settings, to requests. Thread-safe.

    Files are read for each request; tokens and keys that expire are renewed in the background. The
    vendors' libraries are optional dependencies, so their modules are imported where they are used.
    """

    def __init__(self, settings: PrometheusSettings) -> None:
        files = settings.headers_files.items()
        self._header_files = {name: SecretFile(f"{name} header", file) for name, file in files}
        file, self._basic = settings.bearer_token_file, settings.basic_auth
        self._secret = None if file is None else SecretFile("bearer token", file)
        if self._basic is not None:
            self._secret = SecretFile("password", self._basic.password_file, ascii_only=False)
        self._token: BackgroundToken[Any] | None = None
        self._add_signature: Callable[[PreparedRequest, Any, Redactor], Redactor] | None = None
        if settings.oauth2 is not None:
            self._token = BackgroundToken("access token", OAuth2Fetch(settings.oauth2))
        elif settings.google_iam is not None:
            from autoscaler.prometheus.google_iam import fetch_token

            fetch = partial(fetch_token, settings.google_iam.credentials_file)
            self._token = BackgroundToken("access token of Google", fetch)
        elif settings.azuread is not None:
            from autoscaler.prometheus.azuread import AzureFetch

            self._token = BackgroundToken("access token of Azure", AzureFetch(settings.azuread))
        elif settings.sigv4 is not None:
            from autoscaler.prometheus.sigv4 import CredentialsFetch, add_signature

            self._token = BackgroundToken("AWS credential", CredentialsFetch(settings.sigv4))
            self._add_signature = add_signature

    def sign(self, request: PreparedRequest, redactor: Redactor, seconds: float) -> Redactor:
        """Add headers within ``seconds``; return what redacts them, or raise SecretError."""
        for name, file in self._header_files.items():
            value = file.read()
            redactor.remember(value, header=name)
            request.headers[name] = value
        token = None if self._token is None else self._token.get(seconds)
        if self._add_signature is not None:
            return self._add_signature(request, token, redactor)
        if token is not None:
            authorization = f"Bearer {token}"
        elif self._secret is None:
            return redactor
        elif self._basic is None:
            authorization = f"Bearer {self._secret.read()}"
        else:
            pair = f"{self._basic.username}:{self._secret.read()}".encode()
            authorization = f"Basic {base64.b64encode(pair).decode('ascii')}"
        redactor.remember(authorization)
        request.headers["Authorization"] = authorization
        return redactor

    def refused(self, status: int) -> None:
        """Note a 401 or 403 of the server: tokens that expire are fetched again soon.

        With 403 a server usually knows the token's owner; only Amazon sends it for an expired
        signature.
        """
        if self._token is not None and (status == 401 or self._add_signature is not None):
            self._token.refused()

    def close(self) -> None:
        """Stop fetching tokens."""
        if self._token is not None:
            self._token.close()
