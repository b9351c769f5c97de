"""Who may read the pages and the API, and the headers of answers."""

import ipaddress
import re
from collections.abc import Callable, Mapping

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from autoscaler.core.text import printable
from autoscaler.web.answering import PROBLEM_TYPE, problem_of
from autoscaler.web.credentials import Verdict, WebCredentials
from autoscaler.web.site import PROBES

CERTIFICATE = "client_certificate"
"""The key in a scope's state: whether the client has shown a verified certificate."""

_STATIC = "/static/"
_API = "/api/"
_HOST = re.compile(r"(\[(?P<ipv6>[^\]]*)\]|(?P<name>[^:]*))(:[0-9]*)?")
_ADDED_BY_PROXIES = re.compile(
    r"forwarded|via|max-forwards|traceparent|tracestate|baggage|b3|uber-trace-id|sw8.*"
    r"|x-(?!requested-with$|prometheus-).+|(.+-)?client-ip"
    r"|(akamai|cdn|cf|fastly|l5d|ot-tracer|proxy|remote|tailscale|true)-.+"
)
"""Headers that proxies, sidecars and tracers add; browsers send none of them."""
_OF_NGINX = "1.0"
"""The HTTP version of nginx' requests by default, without any such header."""
_LONGEST_HEADER = 60
_BUSY_SECONDS = 1

_HOW = (
    "set web.auth or web.tls.clientAuthType to let others read it "
    '("Who may read the pages" in the guide "Operations")'
)
_THIS_MACHINE = "only clients on this machine are answered"
_ELSEWHERE = f"{_THIS_MACHINE}, such as kubectl port-forward; {_HOW}"
_OTHER_NAME = (
    "without sign-in, only requests to localhost or a loopback address such as 127.0.0.1 are "
    f"answered, and the Host of this one is another name; {_HOW}"
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
"""The headers of every answer."""


class AccessGuard:
    """Answers unauthorized requests with a reason, and passes all others to an application.

    ``with_metrics`` says whether metrics and probes are at the same address. ``sign_in_failed`` is
    called with the method, such as ``basic``, and the client's address.
    """

    def __init__(
        self,
        app: ASGIApp,
        credentials: WebCredentials | None,
        *,
        needs_certificate: bool,
        with_metrics: bool,
        sign_in_failed: Callable[[str, str], None],
    ) -> None:
        self._app = app
        self._credentials = credentials
        self._needs_certificate = needs_certificate
        self._sign_in_failed = sign_in_failed
        self._is_limited = credentials is not None or needs_certificate
        # The kubelet has no credentials, Prometheus has.
        everybodys = PROBES if self._is_limited else PROBES | {"/metrics"}
        self._open_paths = everybodys if with_metrics else frozenset()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path = scope["path"]

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                if self._is_limited and not path.startswith(_STATIC):
                    headers["Cache-Control"] = "no-store"
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refusal = None if path in self._open_paths else await self._refusal(Request(scope))
        await (refusal or self._app)(scope, receive, send_with_headers)

    async def _refusal(self, request: Request) -> Response | None:
        has_certificate = request.scope.get("state", {}).get(CERTIFICATE, False)
        if self._needs_certificate and not has_certificate:
            return _refused(request, 403, _NO_CERTIFICATE)
        if self._credentials is not None:
            return await self._credentials_refused(request, self._credentials)
        reason = None if has_certificate else _not_of_this_machine(request)
        return None if reason is None else _refused(request, 403, reason)

    async def _credentials_refused(
        self, request: Request, credentials: WebCredentials
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
            self._sign_in_failed(way if way in {"basic", "bearer"} else "other", _peer(request))
        refused = _refused(request, 401, _SIGN_IN)
        for challenge in credentials.challenges:
            refused.headers.append("WWW-Authenticate", challenge)
        return refused


def _refused(request: Request, status: int, sentence: str) -> Response:
    """Return the refusal: a problem below the API, plain text elsewhere."""
    if not request.scope["path"].startswith(_API):
        return PlainTextResponse(f"{sentence}\n", status)
    return Response(problem_of(status, sentence).encoded(), status, media_type=PROBLEM_TYPE)


def _peer(request: Request) -> str:
    return "" if request.client is None else request.client.host


def _not_of_this_machine(request: Request) -> str | None:
    """Return why a client is not local, or may not be: local proxies forward remote requests."""
    if not _is_loopback(_peer(request)):
        return _ELSEWHERE
    for name in request.headers:
        if _ADDED_BY_PROXIES.fullmatch(name):
            shown = printable(name, _LONGEST_HEADER)
            return f"{_THIS_MACHINE}, and {shown} is a header that proxies add; {_HOW}"
    if request.scope.get("http_version") == _OF_NGINX:
        return f"{_THIS_MACHINE}, and HTTP/1.0 is what proxies speak; {_HOW}"
    hosts = request.headers.getlist("host")
    return None if len(hosts) == 1 and _is_own_name(hosts[0]) else _OTHER_NAME


def _is_loopback(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _is_own_name(host: str) -> bool:
    """Return whether a Host header is a name that reaches only this machine."""
    form = _HOST.fullmatch(host)
    if form is None:
        return False
    if form["ipv6"] is not None:
        return _is_loopback(form["ipv6"])
    return form["name"].lower() == "localhost" or _is_loopback(form["name"])
