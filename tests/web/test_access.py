"""Who is answered what: peers, hosts, credentials and certificates, and the headers of answers."""

import asyncio
import base64
import json
import threading
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import bcrypt
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from autoscaler.config.settings import WebAuth
from autoscaler.web.access import CERTIFICATE, HEADERS, AccessGuard
from autoscaler.web.credentials import MOST_AT_ONCE, MOST_WAITING, WebCredentials
from tests.narrowing import assert_parts, known
from tests.web.asgi import Answer, answer_of

LOOPBACK, ELSEWHERE = "127.0.0.1", "203.0.113.9"
PAGE, API, STATIC = "/targets/shop/Deployment/web", "/api/v1/targets", "/static/uplot.js"
TOKEN, PASSWORD = "correct-horse", "battery-staple"


class World:
    """An application behind a guard, and who has failed to sign in."""

    def __init__(
        self, auth: WebAuth | None = None, *, required: bool = False, with_metrics: bool = True
    ) -> None:
        self.failed: list[tuple[str, str]] = []
        self.reports: list[tuple[bool, str]] = []
        self._app = AccessGuard(
            Starlette(routes=[Route("/{path:path}", _page)]),
            None if auth is None else WebCredentials(auth, lambda *args: self.reports.append(args)),
            needs_certificate=required,
            with_metrics=with_metrics,
            sign_in_failed=lambda *args: self.failed.append(args),
        )

    def ask(self, path: str, *more: str, **headers: Any) -> Answer:
        return asyncio.run(self.answer(path, *more, **headers))

    def sign_in(self, user: str, password: str) -> int:
        return self.ask(API, authorization=basic(user, password)).status

    async def answer(
        self,
        path: str,
        peer: str = LOOPBACK,
        *hosts: str,
        version: str = "1.1",
        certificate: bool = False,
        **headers: str,
    ) -> Answer:
        """Answer a request of a peer at a host, or at several."""
        return await answer_of(
            self._app,
            "",
            [*(("host", host) for host in hosts or ["localhost:9191"]), *headers.items()],
            path=path,
            http_version=version,
            client=(peer, 1),
            state={CERTIFICATE: certificate},
        )


async def _page(request: Request) -> PlainTextResponse:
    kept = {"api": "no-cache", "static": "public, immutable"}.get(request.url.path.split("/")[1])
    return PlainTextResponse("shown", headers={} if kept is None else {"Cache-Control": kept})


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture
def auth(tmp_path: Path) -> WebAuth:
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    (tmp_path / "users").write_text(f"alice: {hashed}\n")
    return WebAuth.model_construct(
        bearer_token_file=tmp_path / "token", basic_auth_users_file=tmp_path / "users"
    )


ADDED_BY_PROXIES = [
    "forwarded",
    "via",
    "x-real-ip",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-client-cert",
    "x-envoy-expected-rq-timeout-ms",
    "l5d-client-id",
    *("x-request-id", "x-correlation-id", "x-amzn-trace-id", "x-b3-traceid", "x-scheme"),
    *("traceparent", "tracestate", "baggage", "b3", "uber-trace-id", "sw8"),
    *("x-client-ip", "true-client-ip", "fastly-client-ip", "client-ip", "x-cluster-client-ip"),
    *("cf-connecting-ip", "cf-ray", "cdn-loop", "proxy-connection", "remote-user"),
    *("tailscale-user-login", "x-auth-request-user", "max-forwards"),
]
BROWSERS = {
    "user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "accept-encoding": "gzip, deflate, br, zstd",
    "connection": "keep-alive",
    "sec-fetch-site": "none",
    "upgrade-insecure-requests": "1",
    "sec-ch-ua-platform": '"Linux"',
    "x-requested-with": "XMLHttpRequest",
    "referer": "http://localhost:9191/",
    "if-none-match": 'W/"1"',
    "dnt": "1",
    "cookie": "a=b",
    "cache-control": "no-cache",
    "te": "trailers",
    "priority": "u=0, i",
}
OWN_NAMES = [
    *("localhost", "LocalHost:9191", "127.0.0.1:9191", "127.8.9.1"),
    *("[::1]:9191", "[::ffff:127.0.0.1]"),
]
OTHER_NAMES = [
    *("10.1.2.3", "0.0.0.0:9191", "[::]:9191", "[::ffff:10.1.2.3]", "evil.example", ""),
    *("localhost.evil.example:9191", "127.0.0.1.evil.example", "evil.example:127.0.0.1"),
    *("[evil.example]", "localhost@evil.example"),
]
ANSWERED: list[tuple[str, list[str], dict[str, str], str]] = [
    *((peer, [], {}, "") for peer in (LOOPBACK, "127.8.9.1", "::1", "::ffff:127.0.0.1")),
    *((LOOPBACK, [host], {}, "") for host in OWN_NAMES),
    # kubectl port-forward copies bytes: the browser's own request arrives from the pod's loopback.
    *((LOOPBACK, [host], BROWSERS, "") for host in ("127.0.0.1:12345", "[::1]:9191")),
]
REFUSED: list[tuple[str, list[str], dict[str, str], str]] = [
    *((peer, [], {}, "port-forward") for peer in (ELSEWHERE, "10.0.0.1", "::ffff:10.0.0.1")),
    *((peer, [], {}, "port-forward") for peer in ("fe80::1%eth0", "")),
    # Their page would read ours by DNS rebinding, since the browser is on this machine.
    *((LOOPBACK, [host], {}, "Host") for host in OTHER_NAMES),
    # No client sends two; a proxy may have read the other one.
    *((LOOPBACK, ["localhost", second], {}, "Host") for second in ("evil.example", "")),
    # A proxy or a sidecar on this machine would let everybody in.
    *(
        (LOOPBACK, [], {header: value}, header)
        for header in ADDED_BY_PROXIES
        for value in (ELSEWHERE, LOOPBACK, "")
    ),
    # So nginx asks unless told, with our own address as Host and not a header of its own.
    (LOOPBACK, ["127.0.0.1:9191"], {"version": "1.0"}, "HTTP/1.0"),
]
GUARDED = ["/", PAGE, API, "/api/v1/histories", STATIC, "/none"]
OPEN = ["/metrics", "/livez", "/healthz", "/readyz"]


@pytest.mark.parametrize(("peer", "hosts", "more", "reason"), [*ANSWERED, *REFUSED])
def test_without_a_way_to_sign_in_only_this_machine_is_answered(
    peer: str, hosts: list[str], more: dict[str, str], reason: str
) -> None:
    """The reason names the setting: in plain words, or as a problem of the API.

    Metrics and probes are everybody's: for a probe the Host is the pod's address. A path that is
    only similar to theirs is guarded.
    """
    for path in (*GUARDED, "/metrics/", "//livez", "/livez/x", "/LIVEZ", "/livez\0"):
        answer = World().ask(path, peer, *hosts, **more)
        assert answer.status == (403 if reason else 200)
        if not reason:
            continue
        assert_parts(answer.text, "web.auth", reason)
        assert "shown" not in answer.text
        if path.startswith("/api"):
            assert answer.headers["content-type"] == "application/problem+json"
            assert json.loads(answer.text)["status"] == 403
        else:
            assert answer.headers["content-type"].startswith("text/plain")
    for path in OPEN:
        assert World().ask(path, peer, *hosts, **more).status == 200


SIGN_INS = [
    (f"Bearer {TOKEN}", 200),
    (f"bearer  {TOKEN} ", 200),
    ("Bearer wrong", 401),
    (f"Bearer {TOKEN}x", 401),
    ("Bearer", 401),
    (TOKEN, 401),
    (basic("alice", PASSWORD), 200),
    (basic("alice", PASSWORD + "x"), 401),
    (basic("alice", ""), 401),
    (basic("alice", "x" * 100), 401),
    (basic("alice", PASSWORD + "\0"), 401),
    (basic("bob", PASSWORD), 401),
    (basic("", ""), 401),
    ("Basic !", 401),
    ("Basic /w==", 401),
    ("Digest x", 401),
    ("\xff", 401),
]


@pytest.mark.parametrize("added", [[], ADDED_BY_PROXIES], ids=["direct", "proxy"])
@pytest.mark.parametrize("peer", [LOOPBACK, ELSEWHERE])
@pytest.mark.parametrize(("header", "status"), SIGN_INS)
def test_with_auth_every_peer_must_sign_in(
    auth: WebAuth, peer: str, added: list[str], header: str, status: int
) -> None:
    world, more = World(auth), dict.fromkeys(added, ELSEWHERE)
    answer = world.ask(API, peer, "any.example", authorization=header, **more)
    assert answer.status == status
    way = header.partition(" ")[0].lower()
    failed = (way if way in {"basic", "bearer"} else "other", peer)
    assert world.failed == ([failed] if status == 401 else [])
    if status == 401:
        assert answer.headers.getlist("www-authenticate") == [
            'Bearer realm="autoscaler"',
            'Basic realm="autoscaler", charset="UTF-8"',
        ]


@pytest.mark.parametrize(
    ("needed", "shown", "path", "status"),
    [
        # Every browser begins so; it does not count as a failure.
        ("token", "", PAGE, 401),
        # At one address metrics need what the pages need, as Prometheus protects its own; probes
        # do not, since the kubelet has no credentials.
        ("token", "", "/metrics", 401),
        ("token", "", "/livez", 200),
        ("certificate", "", "/metrics", 403),
        ("certificate", "", "/readyz", 200),
        # At an address of its own all of it is guarded: the other one is everybody's.
        ("own address", "", "/metrics", 403),
        ("own address", "", "/livez", 403),
        # A certificate that was verified is enough where nothing else is asked for.
        ("", "certificate", PAGE, 200),
        ("certificate", "", PAGE, 403),
        ("certificate", "certificate", PAGE, 200),
        ("token", "certificate", PAGE, 401),
        ("token", "token", PAGE, 200),
        ("certificate, token", "token", PAGE, 403),
        ("certificate, token", "certificate", PAGE, 401),
        ("certificate, token", "certificate, token", PAGE, 200),
    ],
)
def test_certificates_and_credentials_are_both_needed_where_both_are_set(
    auth: WebAuth, needed: str, shown: str, path: str, status: int
) -> None:
    world = World(
        auth if "token" in needed else None,
        required="certificate" in needed,
        with_metrics="own address" not in needed,
    )
    header = {"authorization": f"Bearer {TOKEN}"} if "token" in shown else {}
    certificate = "certificate" in shown
    answer = world.ask(path, ELSEWHERE, "any.example", certificate=certificate, **header)
    assert answer.status == status
    assert world.failed == []


@pytest.mark.parametrize("path", ["/", API, STATIC, "/livez"])
def test_every_answer_has_the_headers(auth: WebAuth, path: str) -> None:
    for world in (World(), World(auth)):
        for peer in (LOOPBACK, ELSEWHERE):
            headers = world.ask(path, peer).headers
            for name, value in HEADERS.items():
                assert headers.getlist(name) == [value]
    policy = HEADERS["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
    assert "unsafe" not in policy


def test_pages_behind_a_sign_in_are_not_cached_but_static_files_are(auth: WebAuth) -> None:
    signed = {"authorization": f"Bearer {TOKEN}"}
    for path, usual, behind in (
        (PAGE, "no-store", "no-store"),
        (API, "no-cache", "no-store"),
        (STATIC, "public, immutable", "public, immutable"),
    ):
        assert World().ask(path).headers.getlist("cache-control") == [usual]
        assert World(auth).ask(path, **signed).headers.getlist("cache-control") == [behind]
    refused = World(auth).ask(STATIC)
    assert (refused.status, refused.headers["cache-control"]) == (401, "no-store")


def replace(path: Path, text: str) -> None:
    """Put another file in place, as a rotation does."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def test_a_new_token_counts_at_once_and_a_broken_file_leaves_the_last_one(auth: WebAuth) -> None:
    world, path = World(auth), known(auth.bearer_token_file)
    old, new = ({"authorization": f"Bearer {token}"} for token in (TOKEN, "new"))
    replace(path, "new")
    assert [world.ask(API, **header).status for header in (old, new)] == [401, 200]
    for broken in ("not a token", ""):
        replace(path, broken)
        assert [world.ask(API, **header).status for header in (old, new, new)] == [401, 200, 200]
    path.unlink()
    assert world.ask(API, **new).status == 200
    replace(path, TOKEN)
    assert [world.ask(API, **header).status for header in (old, new)] == [200, 401]
    assert [ok for ok, _ in world.reports] == [False, False, False, True]
    assert str(path) in world.reports[0][1]
    assert "not a token" not in str(world.reports)


def test_a_user_who_is_gone_or_has_another_password_is_refused_at_once(auth: WebAuth) -> None:
    world, path = World(auth), known(auth.basic_auth_users_file)
    assert world.sign_in("alice", PASSWORD) == 200
    hashed = bcrypt.hashpw(b"other", bcrypt.gensalt(4)).decode()
    replace(path, f"alice: {hashed}\n")
    assert world.sign_in("alice", PASSWORD) == 401
    assert world.sign_in("alice", "other") == 200
    replace(path, f"bob: {hashed}\n")
    assert world.sign_in("alice", "other") == 401


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Give the hashes that passwords were compared with."""
    compared: list[bytes] = []
    check: Callable[[bytes, bytes], bool] = bcrypt.checkpw

    def counted(password: bytes, hashed: bytes) -> bool:
        compared.append(hashed)
        return check(password, hashed)

    monkeypatch.setattr(bcrypt, "checkpw", counted)
    return compared


def test_a_right_password_is_checked_once_and_wrong_ones_each_time(
    auth: WebAuth, checks: list[bytes]
) -> None:
    world = World(auth)
    for _ in range(5):
        assert world.sign_in("alice", PASSWORD) == 200
    assert len(checks) == 1
    for _ in range(3):
        assert world.sign_in("alice", "wrong") == 401
    assert len(checks) == 4


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("nobody", PASSWORD),
        *product(("cheap", "dear", "usual", "nobody"), ("wrong", "", "x" * 100)),
    ],
)
def test_a_wrong_password_takes_as_long_for_each_user(
    auth: WebAuth, checks: list[bytes], name: str, password: str
) -> None:
    hashes = {
        item: bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(cost)).decode()
        for item, cost in (("cheap", 4), ("dear", 7), ("usual", 5))
    }
    lines = [f"{value}: {hashed}\n" for value, hashed in hashes.items()]
    replace(known(auth.basic_auth_users_file), "".join(lines))
    assert World(auth).sign_in(name, password) == 401
    assert sum(2 ** int(check.split(b"$")[2]) for check in checks) == 2**7


def test_few_passwords_are_checked_at_once_and_few_wait(
    auth: WebAuth, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flood of sign-ins takes two threads; later requests get a Retry-After."""
    lock, running, most = threading.Lock(), [0], [0]
    late: list[Answer] = []
    all_are_late = threading.Event()
    check: Callable[[bytes, bytes], bool] = bcrypt.checkpw
    world, room = World(auth), MOST_AT_ONCE + MOST_WAITING

    def counted(password: bytes, hashed: bytes) -> bool:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        all_are_late.wait(20)
        try:
            return check(password, hashed)
        finally:
            with lock:
                running[0] -= 1

    async def answer(number: int) -> int:
        header = basic("alice", f"wrong-{number}")
        found = await world.answer(API, ELSEWHERE, authorization=header)
        if found.status == 503:
            late.append(found)
            if len(late) == 10:
                all_are_late.set()
        return found.status

    async def flood() -> list[int]:
        return await asyncio.gather(*map(answer, range(room + 10)))

    monkeypatch.setattr(bcrypt, "checkpw", counted)
    assert sorted(asyncio.run(flood())) == [401] * room + [503] * 10
    assert most[0] <= MOST_AT_ONCE
    assert late[0].headers["retry-after"] == "1"
    assert world.sign_in("alice", PASSWORD) == 200
