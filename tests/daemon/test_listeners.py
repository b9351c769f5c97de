"""The daemon's addresses: metrics and pages at one or at two, sign-ins and log lines."""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import urllib3
from starlette.routing import BaseRoute
from structlog.testing import capture_logs

from autoscaler.config import Config, load
from autoscaler.daemon.listeners import open_listeners
from autoscaler.web.listener import ListenError
from autoscaler.web.site import Site
from tests.config.documents import top
from tests.narrowing import assert_parts
from tests.web.test_listener import threads
from tests.worlds.announced import Announced
from tests.worlds.certificates import of_loopback
from tests.worlds.prometheus.web_config import HASHES, NEW
from tests.worlds.waiting import wait_until

SECRET = "hunter2hunter2"  # noqa: S105 - what must not be seen
TLS = "tls: {certFile: server.crt, keyFile: server.key}"
AUTH = "auth: {bearerTokenFile: token, basicAuthUsersFile: users}"
HISTORIES = "/api/v1/histories"


@dataclass(frozen=True)
class Daemon:
    """Where it listens, and what it has logged."""

    lines: list[Any]
    folder: Path

    def urls(self) -> list[str]:
        listening = [line["message"] for line in self.lines if line["event"] == "listening"]
        return [message.rpartition(" ")[2] for message in listening]

    def get(self, path: str, url: str, **headers: str) -> urllib3.BaseHTTPResponse:
        authorities = str(self.folder / "server.crt")
        with urllib3.PoolManager(retries=False, ca_certs=authorities) as pool:
            return pool.request("GET", url + path, headers=headers, timeout=20)


def open_as_configured(config: Config, stack: ExitStack, routes: Sequence[BaseRoute] = ()) -> None:
    """Open the addresses of a configuration; ``routes`` are those of pages and API."""
    announced = Announced()
    site = Site(announced.metrics, announced.health)
    open_listeners(config, site, routes, announced.announcements, stack)


@contextmanager
def listening(folder: Path, text: str, routes: Sequence[BaseRoute] = ()) -> Iterator[Daemon]:
    """Have the addresses of a configuration open, and in the end no thread of theirs."""
    of_loopback(folder, "server")
    (folder / "token").write_text(SECRET)
    (folder / "users").write_text(f"alice: {HASHES[NEW]}\n")
    file = folder / "autoscaler.yaml"
    file.write_text(top(text))
    with capture_logs() as lines, ExitStack() as stack:
        open_as_configured(load(file), stack, routes)
        yield Daemon(lines, folder)
    wait_until("no threads", lambda: not threads())


def test_by_default_one_address_serves_everything(tmp_path: Path) -> None:
    with listening(tmp_path, "listen: 127.0.0.1:0") as daemon:
        (url,) = daemon.urls()
        for path in ("/metrics", "/livez"):
            assert daemon.get(path, url).status == 200
        assert daemon.get(HISTORIES, url).status == 503
        assert daemon.get(HISTORIES, url, Host="evil.example").status == 403


def test_pages_may_have_another_address_than_metrics(tmp_path: Path) -> None:
    with listening(
        tmp_path, f"listen: 127.0.0.1:0\nweb: {{listen: '127.0.0.1:0', {TLS}, {AUTH}}}"
    ) as daemon:
        metrics, pages = daemon.urls()
        assert (metrics[:7], pages[:8]) == ("http://", "https://")
        for path in ("/metrics", "/livez"):
            assert daemon.get(path, metrics).status == 200
        elsewhere = daemon.get(HISTORIES, metrics)
        assert elsewhere.status == 404
        assert b"web.listen" in elsewhere.data
        assert daemon.get(HISTORIES, pages).status == 401
        assert daemon.get(HISTORIES, pages, authorization=f"Bearer {SECRET}").status == 503


def test_without_listen_only_the_pages_are_served(tmp_path: Path) -> None:
    with listening(tmp_path, "listen: null\nweb: {listen: '127.0.0.1:0'}") as daemon:
        (url,) = daemon.urls()
        assert daemon.get(HISTORIES, url).status == 503
    with listening(tmp_path, "listen: null") as daemon:
        assert daemon.urls() == []


def test_with_tls_at_one_address_probes_need_tls_too(tmp_path: Path) -> None:
    with listening(tmp_path, f"listen: 127.0.0.1:0\nweb: {{{TLS}, {AUTH}}}") as daemon:
        (url,) = daemon.urls()
        assert [daemon.get(path, url).status for path in ("/livez", "/metrics")] == [200, 401]
        user = urllib3.make_headers(basic_auth=f"alice:{NEW}")
        assert daemon.get("/metrics", url, **user).status == 200


def test_failed_sign_ins_are_counted_and_logged_without_the_secret(
    tmp_path: Path,
) -> None:
    with listening(tmp_path, f"listen: 127.0.0.1:0\nweb: {{{AUTH}}}") as daemon:
        (url,) = daemon.urls()
        for number in range(8):
            wrong = urllib3.make_headers(basic_auth=f"alice{SECRET}:{SECRET}{number}")
            for header in (wrong["authorization"], f"Bearer {SECRET}{number}"):
                answer = daemon.get(HISTORIES, url, authorization=header)
                assert answer.status == 401
                assert SECRET not in f"{answer.headers}{answer.data!r}"
        right = {"authorization": f"Bearer {SECRET}"}
        page = daemon.get("/metrics", url, **right).data.decode()
    failures = [line for line in daemon.lines if line["event"] == "sign_in_failed"]
    assert [(line["log_level"], line["client"], line["way"]) for line in failures[:2]] == [
        ("warning", "127.0.0.1", "basic"),
        ("warning", "127.0.0.1", "bearer"),
    ]
    assert len(failures) == 5
    for way in ("basic", "bearer"):
        assert f'autoscaler_web_sign_ins_failed_total{{way="{way}"}} 8.0' in page
    assert SECRET not in f"{daemon.lines}{page}"
    assert HASHES[NEW] not in f"{daemon.lines}{page}"


@pytest.mark.parametrize("broken", ["token", "users", "server.key"])
def test_a_file_that_is_missing_at_the_start_is_named(tmp_path: Path, broken: str) -> None:
    text = f"listen: 127.0.0.1:0\nweb: {{{TLS}, {AUTH}}}"
    with listening(tmp_path, text):
        config = load(tmp_path / "autoscaler.yaml")
    (tmp_path / broken).unlink()
    with ExitStack() as stack, pytest.raises(ListenError) as raised:
        open_as_configured(config, stack)
    assert_parts(raised.value, "127.0.0.1:0", f"{tmp_path}/{broken}", os.strerror(errno.ENOENT))


def test_an_address_that_is_taken_is_named_with_its_key(tmp_path: Path) -> None:
    with listening(tmp_path, "listen: 127.0.0.1:0") as daemon:
        port = daemon.urls()[0].rpartition(":")[2]
        text = f"listen: 127.0.0.1:0\nweb: {{listen: '127.0.0.1:{port}'}}"
        with pytest.raises(ListenError, match=r"\(web\.listen\)"), listening(tmp_path, text):
            """It does not come so far."""
