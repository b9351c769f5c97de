"""The files of `web`: certificates, a token, users; or their errors."""

import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from autoscaler.config.documents import child, documents
from autoscaler.config.settings import REQUIRED, WebAuth, WebSettings, WebTls
from autoscaler.config.sources import NamedFile
from autoscaler.core.text import printable
from autoscaler.file_contents import MOST_OF_A_SECRET, MOST_OF_CREDENTIALS, read_bytes

MOST_COST = 14
"""The largest cost of a bcrypt hash; the check of a password takes about a second then."""

_HASH = re.compile(r"\$2[abxy]\$([0-9]{2})\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{31}")
"""Only two bits of the salt's last character count, and bcrypt requires the others to be 0."""
_LEAST_COST = 4
_USERS = "one line `NAME: HASH` for each user, with a hash as `htpasswd -nB NAME` prints"
_SHOWN = 3
_LONGEST_NAME = 100

_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_VERIFIED = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    # A probe has no certificate: the handshake requests one, and the application requires it.
    REQUIRED: ssl.CERT_OPTIONAL,
}


class WebFileError(Exception):
    """A file cannot be used; the message follows its key in a sentence."""

    def __init__(self, key: str, path: Path, message: str) -> None:
        super().__init__(message)
        self.key = key
        self.path = path


def unusable_web_files(document: object, folder: Path) -> Iterator[NamedFile]:
    """Return the files of `web` that exist and have unusable content."""
    try:
        web = WebSettings.model_validate(child(document, "web"), context=folder)
    except ValidationError:
        return  # Reported as such.
    auth = web.auth or WebAuth()
    checks: list[tuple[str, Callable[[Any], object], object]] = [
        ("tls", tls_context, web.tls),
        ("auth", token_in, auth.bearer_token_file),
        ("auth", users_in, auth.basic_auth_users_file),
    ]
    for key, check, given in checks:
        try:
            if given is not None:
                check(given)
        except WebFileError as fault:
            yield NamedFile(("web", key, fault.key), fault.path, str(fault))
        except OSError:
            continue  # An unreadable file is reported like any other.


def files_of(part: WebTls | WebAuth) -> tuple[Path, ...]:
    """Return the files that a part of the setting names."""
    return tuple(value for _, value in part if isinstance(value, Path))


def token_in(path: Path) -> bytes:
    """Return the token in a file.  Raises WebFileError, and OSError where it cannot be read."""
    token = read_bytes(path, MOST_OF_A_SECRET).strip()
    if not re.fullmatch(rb"[!-~]+", token):
        fault = "does not contain a token" if token else "is empty"
        message = f"{path} {fault}; right is one line of printable ASCII without spaces"
        raise WebFileError("bearerTokenFile", path, message)
    return token


def users_in(path: Path) -> Mapping[str, bytes]:
    """Return the users with the hashes of their passwords. Raises as `token_in`."""
    text = read_bytes(path, MOST_OF_A_SECRET).decode("utf-8", "replace")
    read = list(islice(documents(text), 2))
    users = read[0].value if len(read) == 1 else None
    if not isinstance(users, dict) or not users:
        message = f"{path} holds no users; right is {_USERS}"
        raise WebFileError("basicAuthUsersFile", path, message)
    faults = [fault for name, hashed in users.items() if (fault := _user_fault(str(name), hashed))]
    if faults:
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        message = f"in {path} {'; '.join(faults[:_SHOWN])}{more}; right is {_USERS}"
        raise WebFileError("basicAuthUsersFile", path, message)
    return {str(name): str(hashed).encode() for name, hashed in users.items()}


def _user_fault(name: str, hashed: object) -> str | None:
    """Return what is wrong with a user; the hash is not shown, since it may be a password."""
    shown = printable(name)[:_LONGEST_NAME]
    if not name or ":" in name:
        return f'the name "{shown}" is empty or has a ":", which separates user and password'
    form = _HASH.fullmatch(hashed) if isinstance(hashed, str) else None
    if form is None:
        return f"{shown} has no bcrypt hash"
    if not _LEAST_COST <= int(form[1]) <= MOST_COST:
        allowed = f"{_LEAST_COST} to {MOST_COST}"
        return f"the hash of {shown} has the cost {form[1]}, which is not {allowed}"
    return None


def tls_context(tls: WebTls) -> ssl.SSLContext:
    """Return the server's TLS context from its current files. Raises as `token_in`."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = _VERSIONS[tls.min_version]
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    _check_certificates("certFile", tls.cert_file)
    _load_key(context, tls)
    if tls.client_ca_file is not None:
        _check_certificates("clientCAFile", tls.client_ca_file)
        context.load_verify_locations(tls.client_ca_file)
    # As in Go, and in all versions of Python: certificates in the file are trusted, root or not.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_mode = _VERIFIED[tls.client_auth_type]
    return context


def _check_certificates(key: str, path: Path) -> None:
    content = read_bytes(path, MOST_OF_CREDENTIALS).decode("latin-1")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=content)
    except (ssl.SSLError, ValueError):
        raise WebFileError(key, path, f"{path} holds no certificate in PEM") from None


def _load_key(context: ssl.SSLContext, tls: WebTls) -> None:
    key = read_bytes(tls.key_file, MOST_OF_CREDENTIALS)
    if b"ENCRYPTED" in key:
        message = f"{tls.key_file} holds an encrypted key; right is one without a password"
        raise WebFileError("keyFile", tls.key_file, message)
    try:
        # Without a password OpenSSL would ask the terminal for one.
        context.load_cert_chain(tls.cert_file, tls.key_file, password=lambda: "")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            message = f"{tls.key_file} is not the key of the certificate in {tls.cert_file}"
        elif b"PRIVATE KEY-----" in key and error.library == "SSL":
            reason = error.reason.replace("_", " ").lower()
            message = f"{tls.key_file} with {tls.cert_file} cannot be used: {reason}"
        else:
            message = f"{tls.key_file} holds no private key in PEM"
        raise WebFileError("keyFile", tls.key_file, message) from None
