"""Tokens of Google, by google-auth: of a file of credentials, or the application default ones.

https://cloud.google.com/stackdriver/docs/managed-prometheus/query-api-ui
"""

import re
import warnings
from datetime import UTC

import google.auth
import requests
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError, RefreshError
from google.auth.transport.requests import Request

from autoscaler import clock
from autoscaler.config.prometheus_connection import GoogleIamSettings
from autoscaler.core.text import printable
from autoscaler.prometheus.answers import lost_connection
from autoscaler.transport.credentials import Token, TokenError, silence

silence("google")

_SCOPES = ("https://www.googleapis.com/auth/monitoring.read",)
_SUBJECT = "Google's token endpoint"
_LONGEST_TEXT = 300
_CODE = re.compile(r"[a-z_]{1,40}(?=:|$)")
"""The code of an OAuth error, with which the text of a RefreshError begins."""


class GoogleFetch:
    """Fetches one token each time it is called; raises TokenError."""

    def __init__(self, settings: GoogleIamSettings) -> None:
        self._file = settings.credentials_file
        # It warns of files that others wrote; the operator named this one.
        warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"google\.auth\.")

    def __call__(self) -> Token[str]:
        """Read the credentials and ask for a token."""
        with requests.Session() as session:
            session.max_redirects = 0
            request = Request(session=session)
            try:
                return self._token(request)
            except (DefaultCredentialsError, OSError, ValueError) as error:
                raise TokenError(self._unusable(error)) from None
            except RefreshError as error:
                code = _CODE.match(str(error.args[0])) if error.args else None
                reason = f": {code[0]}" if code is not None else ""
                raise TokenError(f"Google gave none{reason}") from None
            except GoogleAuthError as error:
                text = lost_connection(error, _SUBJECT)
                raise TokenError(text or f"fetching it failed ({type(error).__name__})") from None
            except (TypeError, KeyError, AttributeError):  # how google-auth refuses what it gets
                raise TokenError(f"{_SUBJECT} sent an answer that is no token") from None

    def _token(self, request: Request) -> Token[str]:
        # google-auth says that it is typed; these functions are not.
        if self._file is None:
            credentials, _ = google.auth.default(scopes=_SCOPES, request=request)
        else:
            credentials, _ = google.auth.load_credentials_from_file(  # type: ignore[no-untyped-call]
                str(self._file), scopes=_SCOPES, request=request
            )
        credentials.refresh(request)  # type: ignore[no-untyped-call]
        if not isinstance(credentials.token, str):
            raise TokenError("Google gave none")
        if credentials.expiry is None:
            return Token(credentials.token)
        # In UTC, without saying so.
        expires = credentials.expiry.replace(tzinfo=UTC).timestamp()
        return Token(credentials.token, expires - clock.wall())

    def _unusable(self, error: Exception) -> str:
        if self._file is not None:
            strerror = error.strerror if isinstance(error, OSError) else None
            reason = strerror or "it is none of a service account or another of Google"
            return f"the credentials file {self._file} cannot be used: {reason}"
        if isinstance(error, DefaultCredentialsError):
            return printable(str(error), _LONGEST_TEXT)
        return f"the default credentials cannot be used ({type(error).__name__})"
