"""Tokens of Google, by google-auth: from a credentials file, or application default credentials.

https://cloud.google.com/stackdriver/docs/managed-prometheus/query-api-ui
"""

import re
import warnings
from datetime import UTC
from pathlib import Path

import google.auth
import requests
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError, RefreshError
from google.auth.transport.requests import Request

from autoscaler import clock
from autoscaler.core.text import printable
from autoscaler.prometheus.answers import lost_connection
from autoscaler.transport.credentials import SecretError, Token, silence

silence("google")

_SCOPES = ("https://www.googleapis.com/auth/monitoring.read",)
_SUBJECT = "Google's token endpoint"
_LONGEST_TEXT = 300
_CODE = re.compile(r"[a-z_]{1,40}(?=:|$)")
"""The OAuth error code at the start of the text of a RefreshError."""


def fetch_token(file: Path | None) -> Token[str]:
    """Read the credentials and ask for a token; raises SecretError."""
    # google-auth warns about untrusted files; this one is from the operator.
    warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"google\.auth\.")
    with requests.Session() as session:
        session.max_redirects = 0
        try:
            return _token(file, Request(session=session))
        except (DefaultCredentialsError, OSError, ValueError) as error:
            raise SecretError(_unusable(file, error)) from None
        except RefreshError as error:
            code = _CODE.match(str(error.args[0])) if error.args else None
            reason = f": {code[0]}" if code is not None else ""
            raise SecretError(f"Google returned no token{reason}") from None
        except GoogleAuthError as error:
            text = lost_connection(error, _SUBJECT)
            raise SecretError(text or f"fetching it failed ({type(error).__name__})") from None
        except (
            TypeError,
            KeyError,
            AttributeError,
        ):  # google-auth raises these for input that it does not accept.
            raise SecretError(f"{_SUBJECT} sent an answer without a token") from None


def _token(file: Path | None, request: Request) -> Token[str]:
    # google-auth has type hints, but not for these functions.
    if file is None:
        credentials, _ = google.auth.default(scopes=_SCOPES, request=request)
    else:
        credentials, _ = google.auth.load_credentials_from_file(  # type: ignore[no-untyped-call]
            str(file), scopes=_SCOPES, request=request
        )
    credentials.refresh(request)  # type: ignore[no-untyped-call]
    if not isinstance(credentials.token, str):
        raise SecretError("Google returned no token")
    if credentials.expiry is None:
        return Token(credentials.token)
    # The time is in UTC without a zone.
    expires = credentials.expiry.replace(tzinfo=UTC).timestamp()
    return Token(credentials.token, expires - clock.wall())


def _unusable(file: Path | None, error: Exception) -> str:
    if file is not None:
        strerror = error.strerror if isinstance(error, OSError) else None
        reason = strerror or "not a key of a service account or another Google credential"
        return f"the credentials file {file} cannot be used: {reason}"
    if isinstance(error, DefaultCredentialsError):
        return printable(str(error), _LONGEST_TEXT)
    return f"the default credentials cannot be used ({type(error).__name__})"
