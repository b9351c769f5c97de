"""Proxies of the environment and of a kubeconfig: which are used, and what is said of others."""

from pathlib import Path
from typing import Any

import pytest

from autoscaler import clock
from autoscaler.core.observation import Scale
from autoscaler.kubernetes import ConnectError
from tests.adapters.prometheus.reading import answered, ask, failed
from tests.narrowing import assert_parts
from tests.worlds.cluster.connecting import connect
from tests.worlds.cluster.faults import read_web
from tests.worlds.cluster.scripted import ScriptedServer as ScriptedApiServer
from tests.worlds.cluster.scripted import scale
from tests.worlds.controlplane.credentials import kubeconfig
from tests.worlds.prometheus.faults import ScriptedServer, answer

NOT_VALID = "not valid"
PLACES = ("proxy-url", "ALL_PROXY", "https_proxy", "pod")
SERVER = "https://api.invalid:6443"

REFUSED = [
    *(
        (f"{scheme}://proxy.test:1080", f"{scheme}://proxy.test:1080")
        for scheme in ("socks5", "socks5h", "socks4", "socks4a", "socks", "ftp")
    ),
    ("SOCKS5://user:s3cret@proxy.test:1080", "socks5://proxy.test:1080"),
    ("http://", NOT_VALID),
    ("https://[::1", NOT_VALID),
    ("http://user:s3cret@proxy.test:0", NOT_VALID),
    ("http://user:s3cret@proxy.test:port", NOT_VALID),
    ("://proxy.test", NOT_VALID),
    ("http://pro xy.test:1", NOT_VALID),
    ("http://user:s3cret/@proxy.test:1", NOT_VALID),
]


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def written(folder: Path, server: str = SERVER, **cluster: Any) -> Path:
    path = folder / "kubeconfig"
    path.write_text(kubeconfig({"server": server, **cluster}, {"token": "t"}))
    return path


def assert_refused(message: str, *parts: str) -> None:
    """Check the values that a message must have: without the password of the proxy."""
    assert_parts(message, *parts, "http://", "https://")
    assert "s3cret" not in message


@pytest.mark.parametrize(
    ("where", "proxy", "fault"),
    [
        *((where, *row) for where in PLACES for row in REFUSED),
        ("proxy-url", ["http://proxy.test"], NOT_VALID),
    ],
)
def test_a_proxy_that_cannot_be_used_for_a_cluster_is_refused_with_its_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, proxy: Any, fault: str
) -> None:
    path = written(tmp_path, **({where: proxy} if where == "proxy-url" else {}))
    if where == "pod":
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
        for name in ("token", "ca.crt"):
            (tmp_path / name).write_text("t")
    if where != "proxy-url":
        monkeypatch.setenv("HTTPS_PROXY" if where == "pod" else where, proxy)
    with pytest.raises(ConnectError) as refused:
        connect(None if where == "pod" else path, service_account=tmp_path)
    origin = "in-cluster" if where == "pod" else f'context "main" of {path}'
    assert_refused(str(refused.value), origin, "proxy-url", fault)


@pytest.mark.parametrize("excepted", ["127.0.0.1", "127.0.0.0/8", "*"])
def test_a_proxy_that_is_not_used_is_not_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, excepted: str
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://proxy.test:1080")
    monkeypatch.setenv("NO_PROXY", excepted)
    with ScriptedApiServer(scale(3)) as server, connect(written(tmp_path, server.url)) as api:
        assert isinstance(read_web(api), Scale)
    with ScriptedServer(answer()) as prometheus:
        answered(ask(prometheus.url, "x"))


@pytest.mark.parametrize("form", ["{}", "http://{}", "HTTP://{}"])
def test_a_proxy_without_a_scheme_is_one_of_http(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    with ScriptedApiServer(scale(3)) as proxy:
        monkeypatch.setenv("HTTP_PROXY", form.format(proxy.url.removeprefix("http://")))
        with connect(written(tmp_path, "http://api.invalid:8080")) as api:
            assert isinstance(read_web(api), Scale)
        assert proxy.asked[0].path.startswith("http://api.invalid:8080/apis/apps/v1/")
    with ScriptedServer(answer()) as proxy:
        monkeypatch.setenv("HTTP_PROXY", form.format(proxy.url.removeprefix("http://")))
        answered(ask("http://prometheus.invalid:9090", "x"))


@pytest.mark.parametrize(("proxy", "fault"), REFUSED)
@pytest.mark.parametrize("name", ["ALL_PROXY", "HTTP_PROXY"])
def test_a_proxy_that_cannot_be_used_for_prometheus_fails_the_query(
    monkeypatch: pytest.MonkeyPatch, proxy: str, fault: str, name: str
) -> None:
    monkeypatch.setenv(name, proxy)
    begun = clock.monotonic()
    message = failed(ask("http://prometheus.invalid:9090", "x", within=20.0))
    assert clock.monotonic() - begun < 15
    assert_refused(message, "HTTP_PROXY, HTTPS_PROXY, ALL_PROXY", "prometheus.invalid", fault)
