"""Who is answered what: peers, hosts, credentials and certificates, and the headers of answers."""

import asyncio
import base64
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bcrypt
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import Message, Scope

from autoscaler.config.settings import WebAuth
from autoscaler.web.access import CERTIFICATE, HEADERS, Guarded
from autoscaler.web.credentials import MOST_AT_ONCE, MOST_WAITING, WebCredentials

LOOPBACK, ELSEWHERE = "127.0.0.1", "203.0.113.9"
PAGE, API, STATIC = "/targets/shop/Deployment/web", "/api/v1/targets", "/static/uplot.js"
TOKEN, PASSWORD = "correct-horse", "battery-staple"


@dataclass(frozen=True)
class Answer:
    """What was sent."""

    status: int
    headers: Mapping[str, list[str]]
    body: str


class World:
    """An application behind a guard, and who has failed to sign in."""

    def __init__(self, *, auth: WebAuth | None = None, required: bool = False, **more: Any) -> None:
        self.failed: list[tuple[str, str]] = []
        self.told: list[tuple[bool, str]] = []
        checked = None if auth is None else WebCredentials(auth, self._told)
        self._app = Guarded(
            Starlette(routes=[Route("/{path:path}", _page)]),
            checked,
            needs_certificate=required,
            with_metrics=more.get("with_metrics", True),
            sign_in_failed=lambda *one: self.failed.append(one),
        )

    def _told(self, ok: bool, sentence: str) -> None:  # noqa: FBT001 - the observer's shape
        self.told.append((ok, sentence))

    def ask(
        self, path: str, peer: str = LOOPBACK, host: str = "localhost:9191", **more: Any
    ) -> Answer:
        """Send one request; ``more`` are its headers."""
        (answer,) = self.ask_all([self.request(path, peer, host, **more)])
        return answer

    def request(self, path: str, peer: str, host: str = "localhost", **more: Any) -> Scope:
        """Return a request."""
        headers = [(b"host", host.encode())]
        headers += [(k.replace("_", "-").encode(), str(v).encode()) for k, v in more.items()]
        return {
            "type": "http",
            "http_version": "1.1",
            "method": "GET",
            "path": path,
            "query_string": b"",
            "headers": headers,
            "client": (peer, 1),
            "server": (LOOPBACK, 9191),
            "scheme": "http",
            "state": {CERTIFICATE: False},
        }

    def ask_all(self, requests: list[Scope]) -> list[Answer]:
        """Send requests at once."""

        async def all_of_them() -> list[Answer]:
            return await asyncio.gather(*(self._answer(one) for one in requests))

        return asyncio.run(all_of_them())

    async def _answer(self, scope: Scope) -> Answer:
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request"}

        async def send(message: Message) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        headers: dict[str, list[str]] = {}
        for name, value in sent[0]["headers"]:
            headers.setdefault(name.decode(), []).append(value.decode())
        body = b"".join(one.get("body", b"") for one in sent[1:])
        return Answer(sent[0]["status"], headers, body.decode())


async def _page(request: Request) -> PlainTextResponse:
    kept = {"api": "no-cache", "static": "public, immutable"}.get(request.url.path.split("/")[1])
    return PlainTextResponse("shown", headers={} if kept is None else {"Cache-Control": kept})


def basic(user: str, password: str) -> str:
    """Return an Authorization header."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture
def auth(tmp_path: Path) -> WebAuth:
    """Return a token's and a users' file."""
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    (tmp_path / "users").write_text(f"alice: {hashed}\n")
    return WebAuth.model_construct(
        bearer_token_file=tmp_path / "token", basic_auth_users_file=tmp_path / "users"
    )


PEERS = [
    (LOOPBACK, 200),
    ("127.8.9.1", 200),
    ("::1", 200),
    ("::ffff:127.0.0.1", 200),
    (ELSEWHERE, 403),
    ("10.0.0.1", 403),
    ("::ffff:10.0.0.1", 403),
    ("fe80::1%eth0", 403),
    ("", 403),
]


@pytest.mark.parametrize("path", ["/", PAGE, API, "/api/v1/histories", STATIC, "/none"])
@pytest.mark.parametrize(("peer", "status"), PEERS)
def test_without_a_way_to_sign_in_only_this_machine_is_answered(
    path: str, peer: str, status: int
) -> None:
    """Who is refused is told how to configure it: in plain words, or as a problem of the API."""
    answer = World().ask(path, peer)
    assert answer.status == status
    if status == 403:
        assert "web.auth" in answer.body
        assert "shown" not in answer.body
        kind = "application/problem+json" if path.startswith("/api") else "text/plain"
        assert answer.headers["content-type"][0].startswith(kind)
        if path.startswith("/api"):
            assert json.loads(answer.body)["status"] == 403


@pytest.mark.parametrize("path", ["/metrics", "/livez", "/healthz", "/readyz"])
@pytest.mark.parametrize("peer", [LOOPBACK, ELSEWHERE])
def test_metrics_and_probes_are_everybodys(path: str, peer: str) -> None:
    """Whatever the Host, which for a probe is the pod's address."""
    assert World().ask(path, peer, host="anything").status == 200


@pytest.mark.parametrize("path", ["/metrics/", "//livez", "/livez/x", "/LIVEZ", "/livez\0"])
def test_only_the_very_paths_are_open(path: str) -> None:
    """What looks like one is guarded."""
    assert World().ask(path, ELSEWHERE).status == 403


HOSTS = [
    ("localhost", 200),
    ("LocalHost:9191", 200),
    ("127.0.0.1:9191", 200),
    ("127.8.9.1", 200),
    ("[::1]:9191", 200),
    ("[::ffff:127.0.0.1]", 200),
    ("10.1.2.3", 403),
    ("0.0.0.0:9191", 403),
    ("[::]:9191", 403),
    ("[::ffff:10.1.2.3]", 403),
    ("evil.example", 403),
    ("localhost.evil.example:9191", 403),
    ("127.0.0.1.evil.example", 403),
    ("evil.example:127.0.0.1", 403),
    ("[evil.example]", 403),
    ("localhost@evil.example", 403),
    ("", 403),
]


@pytest.mark.parametrize(("host", "status"), HOSTS)
def test_a_name_that_others_may_point_here_is_not_answered(host: str, status: int) -> None:
    """A page of theirs would read ours by DNS rebinding, since the browser is on this machine."""
    answer = World().ask(API, host=host)
    assert answer.status == status
    assert status == 200 or "Host" in json.loads(answer.body)["detail"]


@pytest.mark.parametrize("second", ["evil.example", ""])
def test_a_second_host_is_not_answered(second: str) -> None:
    """Nobody sends two; whatever stands between may have read the other one."""
    world = World()
    asked = world.request(PAGE, LOOPBACK)
    asked["headers"].append((b"host", second.encode()))
    (answer,) = world.ask_all([asked])
    assert answer.status == 403


ADDED_BY_PROXIES = [
    "forwarded",
    "via",
    "x_real_ip",
    "x_forwarded_for",
    "x_forwarded_proto",
    "x_forwarded_client_cert",
    "x_envoy_expected_rq_timeout_ms",
    "l5d_client_id",
]


@pytest.mark.parametrize("header", ADDED_BY_PROXIES)
def test_what_a_proxy_hands_on_is_not_of_this_machine(header: str) -> None:
    """A proxy or a sidecar on this machine would let everybody in; who is refused is told why."""
    for value in (ELSEWHERE, LOOPBACK, ""):
        answer = World().ask(PAGE, **{header: value})
        assert answer.status == 403
        assert header.replace("_", "-") in answer.body
    assert World().ask("/metrics", **{header: ELSEWHERE}).status == 200


def test_what_a_proxy_hands_on_is_answered_who_signs_in(auth: WebAuth) -> None:
    """An Ingress in front of TLS and a password is usual."""
    asked = dict.fromkeys(ADDED_BY_PROXIES, ELSEWHERE)
    answer = World(auth=auth).ask(PAGE, authorization=f"Bearer {TOKEN}", **asked)
    assert answer.status == 200


def test_http_1_0_is_that_of_a_proxy() -> None:
    """So nginx asks unless told, with our own address as Host and no header of its own."""
    world = World()
    asked = world.request(PAGE, LOOPBACK, "127.0.0.1:9191")
    asked["http_version"] = "1.0"
    (answer,) = world.ask_all([asked])
    assert answer.status == 403
    assert "HTTP/1.0" in answer.body


def test_what_kubectl_port_forward_hands_on_is_answered() -> None:
    """It copies bytes: the browser's own request arrives from the pod's loopback address."""
    browsers = {
        "user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
        "accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        "accept-encoding": "gzip, deflate, br, zstd",
        "connection": "keep-alive",
        "sec-fetch-site": "none",
        "upgrade-insecure-requests": "1",
    }
    for host in ("localhost:9191", "127.0.0.1:12345", "[::1]:9191"):
        assert World().ask(PAGE, host=host, **browsers).status == 200


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


@pytest.mark.parametrize("peer", [LOOPBACK, ELSEWHERE])
@pytest.mark.parametrize(("header", "status"), SIGN_INS)
def test_with_auth_everybody_signs_in(auth: WebAuth, peer: str, header: str, status: int) -> None:
    """This machine too; a failure is counted with its way and says what is asked for."""
    world = World(auth=auth)
    answer = world.ask(API, peer, host="any.example", authorization=header)
    assert answer.status == status
    assert bool(world.failed) is (status == 401)
    if status == 401:
        way = header.partition(" ")[0].lower()
        assert world.failed == [(way if way in {"basic", "bearer"} else "other", peer)]
        assert answer.headers["www-authenticate"] == [
            'Bearer realm="autoscaler"',
            'Basic realm="autoscaler", charset="UTF-8"',
        ]


def test_who_sends_no_credentials_is_asked_for_them_and_not_counted(auth: WebAuth) -> None:
    """Every browser begins so."""
    world = World(auth=auth)
    assert world.ask(PAGE, ELSEWHERE).status == 401
    assert world.failed == []


@pytest.mark.parametrize(
    ("needs", "path", "status"),
    [
        ("credentials", "/metrics", 401),
        ("credentials", "/livez", 200),
        ("a certificate", "/metrics", 403),
        ("a certificate", "/readyz", 200),
    ],
)
def test_at_one_address_metrics_need_what_the_pages_need_and_probes_do_not(
    auth: WebAuth, needs: str, path: str, status: int
) -> None:
    """As Prometheus protects its own; the kubelet has no credentials."""
    world = World(auth=auth) if needs == "credentials" else World(required=True)
    assert world.ask(path, ELSEWHERE).status == status


@pytest.mark.parametrize("path", ["/metrics", "/livez"])
def test_at_an_address_of_its_own_all_of_it_is_guarded(path: str) -> None:
    """Metrics and probes are at the other one for everybody."""
    assert World(with_metrics=False).ask(path, ELSEWHERE).status == 403


@pytest.mark.parametrize(
    ("needed", "shown", "status"),
    [
        ("", "certificate", 200),
        ("certificate", "", 403),
        ("certificate", "certificate", 200),
        ("token", "certificate", 401),
        ("token", "token", 200),
        ("certificate, token", "token", 403),
        ("certificate, token", "certificate", 401),
        ("certificate, token", "certificate, token", 200),
    ],
)
def test_certificates_and_credentials_are_both_needed_where_both_are_set(
    auth: WebAuth, needed: str, shown: str, status: int
) -> None:
    """A certificate that was verified is enough where nothing else is asked for."""
    world = World(auth=auth if "token" in needed else None, required="certificate" in needed)
    header = {"authorization": f"Bearer {TOKEN}"} if "token" in shown else {}
    asked = world.request(PAGE, ELSEWHERE, "any.example", **header)
    asked["state"] = {CERTIFICATE: "certificate" in shown}
    (answer,) = world.ask_all([asked])
    assert answer.status == status


@pytest.mark.parametrize("path", ["/", API, STATIC, "/livez"])
def test_every_answer_has_the_headers(auth: WebAuth, path: str) -> None:
    """No script or style but our own files, no frame, no guess of a type, no referrer."""
    for world in (World(), World(auth=auth)):
        for peer in (LOOPBACK, ELSEWHERE):
            headers = world.ask(path, peer).headers
            for name, value in HEADERS.items():
                assert headers[name.lower()] == [value]
    policy = HEADERS["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
    assert "unsafe" not in policy


def test_pages_behind_a_sign_in_are_not_cached_and_our_own_files_are(auth: WebAuth) -> None:
    """Whatever the page says itself."""
    asked = {"authorization": f"Bearer {TOKEN}"}
    for path, kept in ((PAGE, "no-store"), (API, "no-cache"), (STATIC, "public, immutable")):
        assert World().ask(path).headers["cache-control"] == [kept]
    for path, kept in ((PAGE, "no-store"), (API, "no-store"), (STATIC, "public, immutable")):
        assert World(auth=auth).ask(path, **asked).headers["cache-control"] == [kept]
    refused = World(auth=auth).ask(STATIC)
    assert (refused.status, refused.headers["cache-control"]) == (401, ["no-store"])


def replace(path: Path, text: str) -> None:
    """Put another file in place, as a rotation does."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def test_a_new_token_counts_at_once_and_a_broken_file_leaves_the_last_one(auth: WebAuth) -> None:
    """What is wrong with the file is told once, without the token."""
    world, path = World(auth=auth), auth.bearer_token_file
    assert path is not None
    old, new = ({"authorization": f"Bearer {one}"} for one in (TOKEN, "new"))
    replace(path, "new")
    assert [world.ask(API, **one).status for one in (old, new)] == [401, 200]
    for broken in ("not a token", ""):
        replace(path, broken)
        assert [world.ask(API, **one).status for one in (old, new, new)] == [401, 200, 200]
    path.unlink()
    assert world.ask(API, **new).status == 200
    replace(path, TOKEN)
    assert [world.ask(API, **one).status for one in (old, new)] == [200, 401]
    assert [ok for ok, _ in world.told] == [False, False, False, True]
    assert "holds what is no token" in world.told[0][1]
    assert "not a token" not in str(world.told)


def test_a_user_who_is_gone_or_has_another_password_is_refused_at_once(auth: WebAuth) -> None:
    """What was verified before does not outlive its hash."""
    world, path = World(auth=auth), auth.basic_auth_users_file
    assert path is not None
    alice = {"authorization": basic("alice", PASSWORD)}
    assert world.ask(API, **alice).status == 200
    hashed = bcrypt.hashpw(b"other", bcrypt.gensalt(4)).decode()
    replace(path, f"alice: {hashed}\n")
    assert world.ask(API, **alice).status == 401
    assert world.ask(API, authorization=basic("alice", "other")).status == 200
    replace(path, f"bob: {hashed}\n")
    assert world.ask(API, authorization=basic("alice", "other")).status == 401


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
    """A page of many requests does not cost a tenth of a second for each."""
    world = World(auth=auth)
    for _ in range(5):
        assert world.ask(API, authorization=basic("alice", PASSWORD)).status == 200
    assert len(checks) == 1
    for _ in range(3):
        assert world.ask(API, authorization=basic("alice", "wrong")).status == 401
    assert len(checks) == 4


@pytest.mark.parametrize("given", [("bob", PASSWORD), ("bob", "x" * 100), ("alice", "x" * 100)])
def test_an_unknown_user_costs_a_check_of_the_same_cost(
    auth: WebAuth, checks: list[bytes], given: tuple[str, str]
) -> None:
    """So that the time tells nobody who exists."""
    assert World(auth=auth).ask(API, authorization=basic(*given)).status == 401
    assert [one[:7] for one in checks] == [b"$2b$04$"]


@pytest.mark.parametrize("name", ["cheap", "dear", "usual", "nobody"])
@pytest.mark.parametrize("password", ["wrong", "", "x" * 100])
def test_a_wrong_password_takes_as_long_for_each_user(
    auth: WebAuth, checks: list[bytes], name: str, password: str
) -> None:
    """Also where the hashes have different costs, each of twice the time of the one below."""
    assert auth.basic_auth_users_file is not None
    hashes = {
        one: bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(cost)).decode()
        for one, cost in (("cheap", 4), ("dear", 7), ("usual", 5))
    }
    lines = [f"{one}: {hashed}\n" for one, hashed in hashes.items()]
    replace(auth.basic_auth_users_file, "".join(lines))
    assert World(auth=auth).ask(API, authorization=basic(name, password)).status == 401
    assert sum(2 ** int(one.split(b"$")[2]) for one in checks) == 2**7


def test_few_passwords_are_checked_at_once_and_few_wait(
    auth: WebAuth, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flood of sign-ins takes two threads; who comes too late is told to come again."""
    lock, running, most = threading.Lock(), [0], [0]
    late: list[Answer] = []
    all_are_late = threading.Event()
    check: Callable[[bytes, bytes], bool] = bcrypt.checkpw

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

    async def answer(scope: Scope) -> Answer:
        found = await answered(scope)
        if found.status == 503:
            late.append(found)
            if len(late) == 10:
                all_are_late.set()
        return found

    monkeypatch.setattr(bcrypt, "checkpw", counted)
    world, room = World(auth=auth), MOST_AT_ONCE + MOST_WAITING
    answered = world._answer
    monkeypatch.setattr(world, "_answer", answer)
    flood = [
        world.request(API, ELSEWHERE, authorization=basic("alice", f"wrong-{number}"))
        for number in range(room + 10)
    ]
    answers = world.ask_all(flood)
    assert sorted(one.status for one in answers) == [401] * room + [503] * 10
    assert most[0] <= MOST_AT_ONCE
    assert late[0].headers["retry-after"] == ["1"]
    assert world.ask(API, authorization=basic("alice", PASSWORD)).status == 200
