"""Who may read the pages and the API, and the headers with which they are sent."""

import ipaddress
import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from autoscaler.daemon.exposition.credentials import Credentials, Verdict

_PROBES = frozenset({"/livez", "/readyz"})
_METRICS = frozenset({"/metrics"})
CERTIFICATE = "client_certificate"
"""The key in a scope's state: whether the client has shown a certificate that was verified."""

_STATIC = "/static/"
_API = "/api/"
_HOST = re.compile(r"(\[(?P<ipv6>[^\]]*)\]|(?P<name>[^:]*))(:[0-9]*)?")
_THROUGH_A_PROXY = ("forwarded", "x-forwarded-for")
_BUSY_SECONDS = 1

_HOW = (
    "set web.auth or web.tls.clientAuthType to let others read it "
    '(docs/operations.md, "Who may read the pages")'
)
_ELSEWHERE = f"this is answered to clients on this machine only, as by kubectl port-forward; {_HOW}"
_OTHER_NAME = (
    "without a way to sign in this is answered at localhost or an IP address only, and the "
    f"request's Host is another one; {_HOW}"
)
_NO_CERTIFICATE = "a client certificate is needed (web.tls.clientAuthType)"
_SIGN_IN = "credentials are needed (web.auth), and they are missing or wrong"
_BUSY = "too many sign-ins are being checked; try again in a second"

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), display-capture=(), geolocation=(), microphone=(), "
    "payment=(), usb=()",
}
"""Of every answer."""


@dataclass(frozen=True, slots=True)
class Access:
    """What is asked of clients.

    ``sign_in_failed`` is called with the way, such as ``basic``, and the client's address.
    """

    credentials: Credentials | None
    needs_certificate: bool
    with_metrics: bool
    """Whether metrics and probes are at the same address."""
    sign_in_failed: Callable[[str, str], None]

    @property
    def is_limited(self) -> bool:
        """Whether a client has to prove who it is."""
        return self.credentials is not None or self.needs_certificate

    @property
    def open_paths(self) -> AbstractSet[str]:
        """The paths that everybody may read: the kubelet has no credentials, Prometheus has."""
        if not self.with_metrics:
            return frozenset()
        return _PROBES if self.is_limited else _PROBES | _METRICS


class Guarded:
    """Answers who may not read with a reason, and hands all other requests to an application."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access
        self._open_paths = access.open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path = scope["path"]
        no_store = self._access.is_limited and not path.startswith(_STATIC)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add_headers(MutableHeaders(scope=message), no_store=no_store)
            await send(message)

        refusal = None if path in self._open_paths else await self._refusal(Request(scope))
        answer = self._app if refusal is None else refusal
        await answer(scope, receive, send_with_headers)

    async def _refusal(self, request: Request) -> Response | None:
        has_certificate = request.scope.get("state", {}).get(CERTIFICATE, False)
        if self._access.needs_certificate and not has_certificate:
            return _refused(request, 403, _NO_CERTIFICATE)
        if self._access.credentials is not None:
            return await self._credentials_refused(request, self._access.credentials)
        if has_certificate:
            return None
        if not _is_of_this_machine(request):
            return _refused(request, 403, _ELSEWHERE)
        return (
            None
            if _is_own_name(request.headers.get("host", ""))
            else _refused(request, 403, _OTHER_NAME)
        )

    async def _credentials_refused(
        self, request: Request, credentials: Credentials
    ) -> Response | None:
        header = request.headers.get("authorization", "")
        verdict = await credentials.check(header)
        if verdict is Verdict.RIGHT:
            return None
        if verdict is Verdict.BUSY:
            busy = _refused(request, 503, _BUSY)
            busy.headers["Retry-After"] = str(_BUSY_SECONDS)
            return busy
        if verdict is Verdict.WRONG:
            way = header.partition(" ")[0].lower()
            way = way if way in {"basic", "bearer"} else "other"
            self._access.sign_in_failed(way, _peer(request))
        refused = _refused(request, 401, _SIGN_IN)
        for challenge in credentials.challenges:
            refused.headers.append("WWW-Authenticate", challenge)
        return refused


def _add_headers(headers: MutableHeaders, *, no_store: bool) -> None:
    for name, value in HEADERS.items():
        headers[name] = value
    if no_store:
        headers["Cache-Control"] = "no-store"
    else:
        headers.setdefault("Cache-Control", "no-store")


def _refused(request: Request, status: int, sentence: str) -> Response:
    """Return the refusal: problem details (RFC 9457) below the API, a plain sentence elsewhere."""
    if not request.scope["path"].startswith(_API):
        return PlainTextResponse(f"{sentence}\n", status)
    title = {401: "Unauthorized", 403: "Forbidden", 503: "Service Unavailable"}[status]
    problem = {"type": "about:blank", "title": title, "status": status, "detail": sentence}
    return JSONResponse(problem, status, media_type="application/problem+json")


def _peer(request: Request) -> str:
    return "" if request.client is None else request.client.host


def _is_of_this_machine(request: Request) -> bool:
    """Return whether the client is here: a proxy that is here hands on what comes from outside."""
    if any(name in request.headers for name in _THROUGH_A_PROXY):
        return False
    try:
        address = ipaddress.ip_address(_peer(request))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _is_own_name(host: str) -> bool:
    """Return whether a Host is one that no DNS server of others can point to this machine."""
    form = _HOST.fullmatch(host)
    if form is None:
        return False
    try:
        ipaddress.ip_address(form["ipv6"] or form["name"] or "")
    except ValueError:
        return (form["name"] or "").lower() == "localhost"
    return True
