"""Signatures of Amazon (Signature Version 4), by botocore.

https://docs.aws.amazon.com/prometheus/latest/userguide/AMP-compatible-APIs.html
"""

from contextlib import closing
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import botocore.session
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import (
    ClientError,
    ConnectionError,  # noqa: A004 - botocore's
    HTTPClientError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
)
from requests import PreparedRequest

from autoscaler import clock
from autoscaler.config.prometheus_connection import SigV4Settings
from autoscaler.transport.credentials import EXPIRED, SecretError, SecretFile, Token, silence
from autoscaler.transport.redaction import Redactor

silence("botocore")

_SERVICE = "aps"
"""Amazon Managed Service for Prometheus."""
_SESSION_NAME = "autoscaler"
_LONGEST_TEXT = 300
_TOLD = (
    ClientError,
    ConnectionError,
    HTTPClientError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
)
"""Errors with a safe text; other texts may contain an answer with credentials."""
_HEADER_OF_TOKEN = "x-amz-security-token"  # noqa: S105 - a name
_CONFIG = Config(connect_timeout=5.0, read_timeout=5.0, retries={"total_max_attempts": 2})


class SigningKeys(NamedTuple):
    """The keys that sign a request."""

    keys: ReadOnlyCredentials
    region: str

    def __repr__(self) -> str:
        return f"Credentials(region={self.region!r})"


def add_signature(request: PreparedRequest, signing: SigningKeys, redactor: Redactor) -> Redactor:
    """Add the headers, and return what redacts them.

    Only headers that no proxy changes are signed.
    """
    keys, region = signing
    request.url = _encoded_as_signed(request.url or "")
    headers = {
        name: value
        for name, value in request.headers.items()
        if name.lower() in {"host", "content-type"} or name.lower().startswith("x-amz-")
    }
    signed = AWSRequest(request.method, request.url, headers=headers, data=request.body or b"")
    SigV4Auth(keys, _SERVICE, region).add_auth(signed)
    request.headers.update(signed.headers.items())
    authorization = str(signed.headers["Authorization"])
    # The same object for many requests: its secrets are processed once.
    redactor.remember(keys.token, _HEADER_OF_TOKEN)
    return redactor.also(authorization, authorization.rpartition("=")[2])


class CredentialsFetch:
    """Finds the credentials again at each call; raises SecretError."""

    def __init__(self, settings: SigV4Settings) -> None:
        self._settings = settings
        file = settings.secret_key_file
        self._secret = None if file is None else SecretFile("secret key", file)

    def __call__(self) -> Token[SigningKeys]:
        """Search where botocore does, unless an access key is set; then assume the role."""
        redactor = Redactor()
        try:
            session = botocore.session.Session(profile=self._settings.profile)
            region = self._settings.region or session.get_config_variable("region")
            if not region:
                raise SecretError("no region is named: by sigv4.region, AWS_REGION or the profile")
            if self._secret is not None:
                session.set_credentials(str(self._settings.access_key), self._secret.read())
            credentials = session.get_credentials()
            if credentials is None:
                where = "the environment, the shared files, or of the container or machine"
                raise SecretError(f"not in {where}")
            keys, seconds = _frozen(credentials), _seconds_left(credentials)
            if not self._settings.role_arn:
                return Token(SigningKeys(keys, region), seconds)
            redactor = Redactor(filter(None, [keys.secret_key, keys.token]))
            return self._of_role(session, region)
        except _TOLD as error:
            raise SecretError(redactor.line(str(error), _LONGEST_TEXT)) from None

    def _of_role(self, session: botocore.session.Session, region: str) -> Token[SigningKeys]:
        asked = {"RoleArn": self._settings.role_arn, "RoleSessionName": _SESSION_NAME}
        if self._settings.external_id:
            asked["ExternalId"] = self._settings.external_id
        client: Any = session.create_client("sts", region_name=region, config=_CONFIG)
        with closing(client):
            given = client.assume_role(**asked)["Credentials"]
        named = ("AccessKeyId", "SecretAccessKey", "SessionToken")
        keys = ReadOnlyCredentials(*(given[name] for name in named))
        seconds = given["Expiration"].timestamp() - clock.wall()
        return Token(SigningKeys(keys, region), seconds)


def _frozen(credentials: Any) -> ReadOnlyCredentials:
    try:
        keys: ReadOnlyCredentials = credentials.get_frozen_credentials()
    except RuntimeError:  # botocore raises this for credentials that have already expired.
        if (seconds := _seconds_left(credentials)) is not None and seconds <= 0:
            raise SecretError(EXPIRED) from None
        raise
    return keys


def _seconds_left(credentials: object) -> float | None:
    """Return how long credentials are valid; None for keys that do not expire."""
    expiry = getattr(credentials, "_expiry_time", None)  # botocore has no public attribute for it.
    return None if expiry is None else float(expiry.timestamp()) - clock.wall()


def _encoded_as_signed(url: str) -> str:
    """Encode the parameters of a URL as the signature requires: a space is %20, not +."""
    parts = urlsplit(url)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    return parts._replace(query=urlencode(pairs, quote_via=quote, safe="-_.~")).geturl()
