"""Secrets from files, read for every request so that a rotated one is never missed."""

import base64
from dataclasses import dataclass
from pathlib import Path

from autoscaler.adapters.prometheus.failures import QueryError
from autoscaler.adapters.prometheus.options import PrometheusOptions
from autoscaler.file_contents import MOST_OF_A_SECRET, read_bytes


@dataclass(frozen=True)
class Credentials:
    """The Authorization header of one request."""

    authorization: str | None

    def __repr__(self) -> str:
        return f"Credentials(<{'none' if self.authorization is None else 'hidden'}>)"


def read_credentials(options: PrometheusOptions) -> Credentials:
    """Read the secret files; raises QueryError that names a file which gives no secret."""
    if options.bearer_token_file:
        token = read_secret("bearer token", options.bearer_token_file)
        return Credentials(f"Bearer {token}")
    if options.basic_auth_username or options.basic_auth_password_file:
        password = ""
        if options.basic_auth_password_file:
            password = read_secret("password", options.basic_auth_password_file)
        pair = f"{options.basic_auth_username or ''}:{password}".encode()
        encoded = base64.b64encode(pair).decode("ascii")
        return Credentials(f"Basic {encoded}")
    return Credentials(None)


def read_secret(what: str, path: str) -> str:
    """Return a secret file's only line, without the white space around it."""
    try:
        secret = read_bytes(Path(path), MOST_OF_A_SECRET).decode("utf-8").strip()
    except OSError as error:
        raise QueryError(f"the {what} file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise QueryError(f"the {what} file {path} is no UTF-8 text") from None
    if not secret:
        raise QueryError(f"the {what} file {path} is empty")
    if not secret.isprintable() or (what == "bearer token" and not secret.isascii()):
        raise QueryError(f"the {what} file {path} holds characters that no {what} may have")
    return secret
