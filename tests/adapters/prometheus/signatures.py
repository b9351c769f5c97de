"""Signature Version 4, implemented as Amazon's documentation has it, to check requests.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from urllib.parse import quote, unquote

from tests.worlds.prometheus.faults import Received

KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
REGION = "eu-west-1"
_ALGORITHM = "AWS4-HMAC-SHA256"
_STARTS = re.compile(
    rf"{_ALGORITHM} Credential=(\w+)/(\d{{8}})/([\w-]+)/(\w+)/aws4_request, "
    r"SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})"
)


def signature(
    secret: str, scope: tuple[str, str, str], received: Received, headers: Mapping[str, str]
) -> str:
    """Return the signature of a request with just the headers that are signed."""
    path, _, parameters = received.target.partition("?")
    # Decoded as a server does, which takes + for a blank, and encoded as the documentation says.
    pairs = [item.partition("=") for item in parameters.split("&") if item]
    decoded = [(unquote(a.replace("+", " ")), unquote(b.replace("+", " "))) for a, _, b in pairs]
    lower = {name.lower(): " ".join(value.split()) for name, value in headers.items()}
    canonical = "\n".join(
        [
            received.method,
            quote(path, safe="/-_.~"),
            "&".join(
                sorted(f"{quote(a, safe='-_.~')}={quote(b, safe='-_.~')}" for a, b in decoded)
            ),
            *(f"{name}:{lower[name]}" for name in sorted(lower)),
            "",
            ";".join(sorted(lower)),
            hashlib.sha256(received.body).hexdigest(),
        ]
    )
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    to_sign = f"{_ALGORITHM}\n{lower['x-amz-date']}\n{'/'.join(scope)}/aws4_request\n{digest}"
    key = f"AWS4{secret}".encode()
    for part in (*scope, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, to_sign.encode(), "sha256").hex()


def assert_signed(
    received: Received,
    *,
    secret: str = SECRET,
    token: str | None = None,
    region: str = REGION,
    service: str = "aps",
) -> None:
    lower = {name.lower(): value for name, value in received.headers.items()}
    parts = _STARTS.fullmatch(lower["authorization"])
    assert parts is not None
    _, day, of_region, of_service, names, given = parts.groups()
    assert (of_region, of_service) == (region, service)
    assert lower["x-amz-date"].startswith(f"{day}T")
    assert {"host", "x-amz-date"} <= set(names.split(";"))
    assert lower.get("x-amz-security-token") == token
    assert token is None or "x-amz-security-token" in names.split(";")
    signed = {name: lower[name] for name in names.split(";")}
    assert given == signature(secret, (day, region, service), received, signed)
