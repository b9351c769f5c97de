"""TLS and credentials of a real Prometheus, also while they rotate; no secret is told."""

import json
import logging
import os
import shutil
from pathlib import Path

import pytest
import urllib3

from autoscaler.config.prometheus_connection import PrometheusSettings
from tests.adapters.prometheus.reading import (
    answered,
    ask,
    basic_auth,
    failed,
    query,
    reading,
    settings,
)
from tests.worlds.certificates import self_signed
from tests.worlds.process import free_port
from tests.worlds.prometheus import faults
from tests.worlds.prometheus.faults import Peer, ScriptedServer, Step, answer, echo
from tests.worlds.prometheus.fixtures import StartPrometheus
from tests.worlds.prometheus.server import PrometheusServer
from tests.worlds.prometheus.web_config import NEW, OLD, SERVER_NAME, USER, write_web_config


def test_a_new_password_is_used_from_the_next_query_on(
    start_prometheus: StartPrometheus, tmp_path: Path
) -> None:
    web_config = write_web_config(tmp_path / "web.yml", user_password=OLD)
    server = start_prometheus(web_config=web_config)
    file = tmp_path / "password"
    file.write_text(f"{OLD}\n")
    refused = f"Prometheus at {server.url} did not accept the credentials, or wants some"
    with reading(server.url, basic_auth=basic_auth(USER, file)) as reader:
        answered(query(reader, "vector(1)"))
        write_web_config(web_config, user_password=NEW)
        assert failed(query(reader, "vector(1)")).startswith(refused)
        file.write_text(f"{NEW}\n")
        answered(query(reader, "vector(1)"))
    assert failed(ask(server.url, "vector(1)")).startswith(refused)


def test_an_api_key_of_a_file_rotates(prometheus_server: PrometheusServer, tmp_path: Path) -> None:
    """A proxy before Prometheus that wants a key gets the one in the file now; it is never told.

    A password beside it goes to Prometheus as ever.
    """
    right = ["first-secret-key"]

    def checking(peer: Peer) -> None:
        headers = peer.received.headers
        if headers.get("X-Api-Key") != right[0] or "Authorization" not in headers:
            answer(f"the key {headers.get('X-Api-Key')} is wrong", "403 Forbidden")(peer)
            return
        target = f"{prometheus_server.url}{peer.received.target}"
        sent = {"Content-Type": headers["Content-Type"]}
        with urllib3.PoolManager() as pool:
            found = pool.request("POST", target, body=peer.received.body, headers=sent)
        answer(found.data)(peer)

    key, password = tmp_path / "key", tmp_path / "password"
    key.write_text("first-secret-key\n")
    password.write_text(OLD)
    with (
        ScriptedServer(checking) as proxy,
        reading(
            proxy.url, basic_auth=basic_auth(USER, password), headers_files={"X-Api-Key": key}
        ) as reader,
    ):
        assert answered(query(reader, "vector(7)")).series[0].value == 7.0
        right[0] = "second-secret-key"
        message = failed(query(reader, "vector(7)"))
        assert "answered HTTP 403 Forbidden: the key " in message
        assert "first-secret-key" not in message
        key.write_text("second-secret-key")
        assert answered(query(reader, "vector(7)")).series[0].value == 7.0
        key.write_text("")  # in the middle of a rotation
        assert answered(query(reader, "vector(7)")).series[0].value == 7.0
        key.write_text("two\nlines")
        assert "holds characters that no X-Api-Key header may have" in failed(query(reader))


def test_a_private_authority_is_trusted_if_it_is_named(
    start_prometheus: StartPrometheus, tmp_path: Path
) -> None:
    pair = self_signed(tmp_path, SERVER_NAME)
    server = start_prometheus(web_config=write_web_config(tmp_path / "web.yml", server=pair))
    ca_file = str(pair.certificate)
    answered(ask(server.url, "vector(1)", ca_file=ca_file, server_name=SERVER_NAME))
    answered(ask(server.url, "vector(1)", insecure_skip_verify=True))

    start = f"Prometheus at {server.url} is not trusted: TLS verification failed: "
    assert failed(ask(server.url, "vector(1)")).startswith(f"{start}self-signed certificate")
    assert failed(ask(server.url, "vector(1)", server_name=SERVER_NAME)).startswith(start)
    message = failed(ask(server.url, "vector(1)", ca_file=ca_file))
    assert message.startswith(f"{start}IP address mismatch")
    assert "tls.serverName" in message

    plain = server.url.replace("https", "http")
    assert "HTTP 400 Bad Request: Client sent an HTTP request to an HTTPS server" in failed(
        ask(plain, "vector(1)")
    )


def test_https_of_a_server_without_tls_is_told(prometheus_server: PrometheusServer) -> None:
    url = prometheus_server.url.replace("http", "https")
    message = failed(ask(url, "vector(1)"))
    assert message == f"TLS with Prometheus at {url} failed: wrong version number"


def test_a_new_client_certificate_is_shown(
    start_prometheus: StartPrometheus, tmp_path: Path
) -> None:
    pair = self_signed(tmp_path, SERVER_NAME)
    good, bad = self_signed(tmp_path, "good"), self_signed(tmp_path, "bad")
    web_config = write_web_config(tmp_path / "web.yml", server=pair, clients=good)
    server = start_prometheus(web_config=web_config)
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    shutil.copy(bad.certificate, cert)
    shutil.copy(bad.key, key)
    with reading(
        server.url,
        ca_file=str(pair.certificate),
        server_name=SERVER_NAME,
        cert_file=str(cert),
        key_file=str(key),
    ) as reader:
        failed(query(reader, "vector(1)", within=1))
        shutil.copy(good.certificate, cert)
        message = failed(query(reader, "vector(1)"))
        assert message.startswith(f"the client certificate {cert} with key {key} cannot be used: ")
        shutil.copy(good.key, key)
        answered(query(reader, "vector(1)"))
        key.unlink()
        message = failed(query(reader, "vector(1)"))
        assert message == f"the key file {key} cannot be read: No such file or directory"


def test_the_systems_authorities_rotate(
    start_prometheus: StartPrometheus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no CA file is named, the bundle of the environment is read again when it changes."""
    folders = (tmp_path / "old", tmp_path / "new")
    for folder in folders:
        folder.mkdir()
    old, new = (self_signed(folder, SERVER_NAME) for folder in folders)
    bundle = tmp_path / "bundle.crt"
    shutil.copy(old.certificate, bundle)
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    server = start_prometheus(web_config=write_web_config(tmp_path / "web.yml", server=new))
    with reading(server.url, server_name=SERVER_NAME) as reader:
        assert "is not trusted" in failed(query(reader, "vector(1)"))
        shutil.copy(new.certificate, bundle)
        answered(query(reader, "vector(1)"))


def test_a_bearer_token_is_read_for_every_request(tmp_path: Path) -> None:
    file = tmp_path / "token"
    with (
        ScriptedServer(answer()) as server,
        reading(server.url, bearer_token_file=str(file)) as reader,
    ):
        assert f"the bearer token file {file} cannot be read: No such file" in failed(query(reader))
        for content, fault in (("", "is empty"), ("two\nlines", "holds characters")):
            file.write_text(content)
            assert f"the bearer token file {file} {fault}" in failed(query(reader))
        file.write_bytes(b"\xff\xfe")
        assert "is not text in UTF-8" in failed(query(reader))
        os.truncate(file, 3 * 2**30)
        assert "cannot be read: it is larger than 1 MiB" in failed(query(reader))
        assert server.received == []
        for token in ("first-token", "second-token"):
            file.write_text(f"{token}\n")
            query(reader)
    assert [received.headers["Authorization"] for received in server.received] == [
        "Bearer first-token",
        "Bearer second-token",
    ]


def test_the_environment_gives_no_credentials(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login root password from-netrc\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with ScriptedServer(answer()) as server:
        answered(ask(server.url, "x"))
        (received,) = server.received
    assert "Authorization" not in received.headers


def test_the_environments_proxy_is_used_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(answer()) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//user:s3cret@"))
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        answered(ask("http://prometheus.invalid:9090", "x"))
        (received,) = proxy.received
    assert received.target == "http://prometheus.invalid:9090/api/v1/query"
    message = failed(ask("http://prometheus.invalid:9090", "x", within=3.0))
    assert "through the proxy of the environment (HTTP_PROXY, HTTPS_PROXY): " in message
    assert "Connection refused" in message
    assert "s3cret" not in message


# -- no secret in a message, a repr, a log or an exception -----------------------------------------

SECRETS = (
    *("from-file", "header-secret", "parameter-secret", "ZnJvbS1maWxl"),
    *("api key", "second-key", "own-token"),
)


def options(base: str, folder: Path, *, basic: bool) -> PrometheusSettings:
    """Return options with a secret in every place that can hold one."""
    file = folder / "secret"
    file.write_text("from-file")
    (folder / "key").write_text("an api key")
    (folder / "second").write_text("second-key\n")
    (folder / "third").write_text("Bearer own-token")
    return settings(
        base,
        timeout=0.3,
        bearer_token_file=None if basic else file,
        basic_auth=basic_auth("me", file) if basic else None,
        headers={"X-Api-Key": "header-secret"},
        headers_files={
            "X-Key": folder / "key",
            "X-Second": folder / "second",
            "X-Original-Authorization": folder / "third",
        },
        query_parameters={"key": ("parameter-secret",)},
    )


@pytest.mark.parametrize("basic", [True, False])
@pytest.mark.parametrize(
    "step",
    [
        echo("200 OK"),
        echo("400 Bad Request"),
        echo("401 Unauthorized"),
        echo("503 Service Unavailable"),
        faults.hang,
        faults.hang_up,
        faults.reset,
        faults.break_off,
        faults.speak(b"garbage: from-file\r\n\r\n"),
        answer("", "302 Found", {"Location": "http://x:url-password@h/?key=parameter-secret"}),
    ],
)
def test_no_secret_in_failures(
    step: Step, tmp_path: Path, caplog: pytest.LogCaptureFixture, *, basic: bool
) -> None:
    caplog.set_level(logging.INFO)
    with ScriptedServer(step) as server:
        secretive = options(server.url, tmp_path, basic=basic)
        said = failed(ask(secretive, "x", within=0.7)) + caplog.text + repr(secretive)
    assert [secret for secret in SECRETS if secret in said] == []


@pytest.mark.parametrize("status", ["404 Not Found", "503 Service Unavailable", "200 OK"])
def test_no_secret_in_the_form_that_a_url_has(status: str) -> None:
    """A page that repeats the address it was asked for holds the parameters as they were sent."""
    token = "k+y/pass=word secret"  # noqa: S105 - made up

    def page(peer: faults.Peer) -> None:
        answer(f"no route for {peer.received.target}", status)(peer)

    with ScriptedServer(page) as server:
        message = failed(ask(server.url, "x", within=1.0, query_parameters={"key": (token,)}))
    assert "key=" in message or status == "200 OK"  # whose page is cut before
    assert "word" not in message


def test_no_secret_when_nobody_listens(tmp_path: Path) -> None:
    """The texts of the HTTP libraries, which quote the whole URL, are not repeated."""
    secretive = options(f"http://127.0.0.1:{free_port()}", tmp_path, basic=False)
    message = failed(ask(secretive, "x", within=2.0))
    assert "refused the connection" in message
    assert [secret for secret in SECRETS if secret in message] == []


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["cannot ask h?key=parameter-secret"], ("cannot ask h?key=<hidden>",)),
        (["x" * 994 + "from-file is wrong"] * 99, ("x" * 994 + "<hidd…",) * 20),
    ],
)
def test_no_secret_in_warnings(tmp_path: Path, given: list[str], kept: tuple[str, ...]) -> None:
    """They are the server's text, too: cut after secrets are hidden, and not endlessly many."""
    body = json.dumps({**faults.VECTOR, "warnings": given}, separators=(",", ":"))
    with ScriptedServer(answer(body)) as server:
        outcome = answered(ask(options(server.url, tmp_path, basic=True), "x"))
    assert outcome.warnings == kept


def test_a_token_in_a_label_is_hidden_and_a_tenant_is_not(tmp_path: Path) -> None:
    """Nobody's label is a token by chance; a header's value may well be one."""
    token = "token-of-more-than-16-characters"  # noqa: S105 - made up
    (tmp_path / "token").write_text(token)
    labels = {"a": f"is {token}", "tenant": "header-secret"}
    with ScriptedServer(answer(faults.vector({"metric": labels, "value": [1.0, "2"]}))) as server:
        secretive = settings(
            server.url,
            bearer_token_file=str(tmp_path / "token"),
            headers={"X-Scope-OrgID": "header-secret"},
        )
        [series] = answered(ask(secretive, "x")).series
    assert series.labels == {"a": "is <hidden>", "tenant": "header-secret"}


KIND = "x" * 35 + "from-file\x1b[2J"


@pytest.mark.parametrize(
    "step",
    [
        answer("x" * 155 + "from-file is wrong", "401 Unauthorized"),
        answer("x" * 55 + "from-file is wrong"),
        answer(faults.error(KIND, "\u202ebad\r\n"), "500 Internal Server Error"),
        answer("", "302 Found", {"Location": "http://h/" + "x" * 145 + "/from-file"}),
        answer("", headers={"Content-Encoding": "from-file"}),
        answer({"status": "success", "data": {"resultType": KIND, "result": []}}),
    ],
)
def test_no_half_of_a_secret_is_left_where_a_part_is_cut(step: Step, tmp_path: Path) -> None:
    with ScriptedServer(step) as server:
        message = failed(ask(options(server.url, tmp_path, basic=True), "x"))
    assert "from" not in message
    assert message.isprintable()
