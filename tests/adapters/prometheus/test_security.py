"""TLS and secrets in files, also while they rotate; no secret is shown."""

import json
import logging
import os
import shutil
from pathlib import Path

import pytest

from autoscaler.config.prometheus_connection import PrometheusSettings
from autoscaler.transport.network_errors import Kind
from tests.adapters.prometheus.reading import (
    answered,
    ask,
    basic_auth,
    failed,
    network_sentence,
    query,
    reading,
    settings,
)
from tests.narrowing import assert_parts
from tests.worlds.certificates import self_signed
from tests.worlds.process import free_port
from tests.worlds.prometheus import faults
from tests.worlds.prometheus.faults import (
    ORDERS,
    Received,
    ScriptedServer,
    Step,
    answer,
    echo,
)
from tests.worlds.prometheus.fixtures import StartPrometheus
from tests.worlds.prometheus.server import PrometheusServer
from tests.worlds.prometheus.token_endpoints import basic
from tests.worlds.prometheus.web_config import NEW, OLD, SERVER_NAME, USER, write_web_config


def test_a_new_password_is_used_from_the_next_query_on(
    start_prometheus: StartPrometheus, tmp_path: Path
) -> None:
    web_config = write_web_config(tmp_path / "web.yml", user_password=OLD)
    server = start_prometheus(web_config=web_config)
    file = tmp_path / "password"
    file.write_text(f"{OLD}\n")
    with reading(server.url, basic_auth=basic_auth(USER, file)) as reader:
        answered(query(reader, "vector(1)"))
        write_web_config(web_config, user_password=NEW)
        assert_parts(failed(query(reader, "vector(1)")), server.url, "401")
        file.write_text(f"{NEW}\n")
        answered(query(reader, "vector(1)"))
    assert_parts(failed(ask(server.url, "vector(1)")), server.url, "401")


def sent_secret(received: Received) -> str:
    headers = received.headers
    if "X-Api-Key" in headers:
        assert basic(received) == f"{USER}:{OLD}"  # next to the key
        return headers["X-Api-Key"]
    if headers["Authorization"].startswith("Basic"):
        return basic(received).removeprefix(f"{USER}:")
    return headers["Authorization"].removeprefix("Bearer ")


@pytest.mark.parametrize("kind", ["bearer token", "password", "X-Api-Key header"])
def test_a_secret_file_is_read_for_each_request(kind: str, tmp_path: Path) -> None:
    file, password = tmp_path / "secret", tmp_path / "password"
    password.write_text(OLD)
    fields: dict[str, dict[str, object]] = {
        "bearer token": {"bearer_token_file": file},
        "password": {"basic_auth": basic_auth(USER, file)},
        "X-Api-Key header": {
            "headers_files": {"X-Api-Key": file},
            "basic_auth": basic_auth(USER, password),
        },
    }
    with ScriptedServer(answer()) as server, reading(server.url, **fields[kind]) as reader:  # type: ignore[arg-type]  # a table
        assert_parts(failed(query(reader)), f"the {kind} file {file}", "No such file")
        unusable = [(b"", "empty"), (b"two\nl1nes", kind), (b"\xff\xfe", "UTF-8")]
        for content, part in [*unusable, ("\u00fcber".encode(), "ASCII")]:
            if part == "ASCII" and kind == "password":
                continue
            file.write_bytes(content)
            message = failed(query(reader))
            assert_parts(message, f"{kind} file {file}", part)
            assert "l1nes" not in message
        os.truncate(file, 3 * 2**30)
        assert_parts(failed(query(reader)), str(file), "1 MiB")
        assert server.received == []
        for text in (" first\n", "\n", "", "second"):
            file.write_text(text) if text else file.unlink()
            answered(query(reader))
        file.write_text("\u00fcber")
        assert (query(reader) == ORDERS) is (kind == "password")
    sent = [sent_secret(received) for received in server.received]
    assert sent[:4] == ["first"] * 3 + ["second"]
    assert sent[4:] == (["\u00fcber"] if kind == "password" else [])


def test_a_private_authority_is_trusted_if_it_is_named(
    start_prometheus: StartPrometheus, tmp_path: Path
) -> None:
    pair = self_signed(tmp_path, SERVER_NAME)
    server = start_prometheus(web_config=write_web_config(tmp_path / "web.yml", server=pair))
    ca_file = str(pair.certificate)
    answered(ask(server.url, "vector(1)", ca_file=ca_file, server_name=SERVER_NAME))
    answered(ask(server.url, "vector(1)", insecure_skip_verify=True))

    hints = ("tls.caFile", "tls.serverName")
    assert_parts(failed(ask(server.url, "vector(1)")), server.url, "self-signed", *hints)
    assert_parts(failed(ask(server.url, "vector(1)", server_name=SERVER_NAME)), *hints)
    assert_parts(failed(ask(server.url, "vector(1)", ca_file=ca_file)), "IP address", *hints)
    plain = server.url.replace("https", "http")
    assert_parts(failed(ask(plain, "vector(1)")), plain, "400", "HTTPS server")


def test_a_server_without_tls_is_named(prometheus_server: PrometheusServer) -> None:
    url = prometheus_server.url.replace("http", "https")
    sentence = network_sentence(Kind.TLS, f"Prometheus at {url}", reason="wrong version number")
    assert failed(ask(url, "vector(1)")) == sentence


def test_a_new_client_certificate_is_sent(
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
        assert_parts(failed(query(reader, "vector(1)")), f"client certificate {cert}", str(key))
        shutil.copy(good.key, key)
        answered(query(reader, "vector(1)"))
        key.unlink()
        assert_parts(failed(query(reader, "vector(1)")), f"key file {key}", "No such file")


def test_the_authorities_of_the_system_are_read_again(
    start_prometheus: StartPrometheus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = (tmp_path / "old", tmp_path / "new")
    for folder in folders:
        folder.mkdir()
    old, new = (self_signed(folder, SERVER_NAME) for folder in folders)
    bundle = tmp_path / "bundle.crt"
    shutil.copy(old.certificate, bundle)
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    server = start_prometheus(web_config=write_web_config(tmp_path / "web.yml", server=new))
    with reading(server.url, server_name=SERVER_NAME) as reader:
        assert_parts(failed(query(reader, "vector(1)")), "tls.caFile")
        shutil.copy(new.certificate, bundle)
        answered(query(reader, "vector(1)"))


def test_the_environment_gives_no_credentials(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login root password from-netrc\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with ScriptedServer(answer()) as server:
        answered(ask(server.url, "x"))
        (received,) = server.received
    assert "Authorization" not in received.headers


def test_the_proxy_of_the_environment_is_used_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(answer()) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//user:s3cret@"))
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        answered(ask("http://prometheus.invalid:9090", "x"))
        (received,) = proxy.received
    assert received.target == "http://prometheus.invalid:9090/api/v1/query"
    message = failed(ask("http://prometheus.invalid:9090", "x", within=3.0))
    assert_parts(message, "HTTP_PROXY", "HTTPS_PROXY", "Connection refused")
    assert "s3cret" not in message


# -- no secret in a message, a repr, a log or an exception -----------------------------------------

SECRETS = (
    *("from-file", "header-secret", "parameter-secret", "ZnJvbS1maWxl"),
    *("api key", "second-key", "own-token"),
)
LONG = "x" * 35 + "from-file\x1b[2J"


def options(base: str, folder: Path, *, by_password: bool) -> PrometheusSettings:
    """Return options with a secret in every place that can hold one."""
    file = folder / "secret"
    file.write_text("from-file")
    (folder / "key").write_text("an api key")
    (folder / "second").write_text("second-key\n")
    (folder / "third").write_text("Bearer own-token")
    return settings(
        base,
        timeout=0.3,
        bearer_token_file=None if by_password else file,
        basic_auth=basic_auth("me", file) if by_password else None,
        headers={"X-Api-Key": "header-secret"},
        headers_files={
            "X-Key": folder / "key",
            "X-Second": folder / "second",
            "X-Original-Authorization": folder / "third",
        },
        query_parameters={"key": ("parameter-secret",)},
    )


@pytest.mark.parametrize("by_password", [True, False])
@pytest.mark.parametrize(
    "step",
    [
        None,
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
        # Only a part of these fits into a message.
        answer("x" * 155 + "from-file is wrong", "401 Unauthorized"),
        answer("x" * 55 + "from-file is wrong"),
        answer(faults.error(LONG, "\u202ebad\r\n"), "500 Internal Server Error"),
        answer("", "302 Found", {"Location": "http://h/" + "x" * 145 + "/from-file"}),
        answer("", headers={"Content-Encoding": "from-file"}),
        answer({"status": "success", "data": {"resultType": LONG, "result": []}}),
    ],
)
def test_failures_contain_no_secret(
    step: Step | None, tmp_path: Path, caplog: pytest.LogCaptureFixture, *, by_password: bool
) -> None:
    caplog.set_level(logging.INFO)
    with ScriptedServer(step or answer()) as server:
        url = server.url if step else f"http://127.0.0.1:{free_port()}"
        secretive = options(url, tmp_path, by_password=by_password)
        message = failed(ask(secretive, "x", within=0.7))
    text = message + caplog.text + repr(secretive)
    assert [secret for secret in SECRETS if secret in text] == []
    assert "from" not in message
    assert message.isprintable()


@pytest.mark.parametrize("status", ["404 Not Found", "503 Service Unavailable", "200 OK"])
def test_no_parameter_of_a_url_is_shown(status: str) -> None:
    """A page that repeats the address it was asked for holds the parameters as they were sent."""
    token = "k+y/pass=word secret"  # noqa: S105 - made up

    def page(peer: faults.Peer) -> None:
        answer(f"no route for {peer.received.target}", status)(peer)

    with ScriptedServer(page) as server:
        message = failed(ask(server.url, "x", within=1.0, query_parameters={"key": (token,)}))
    assert "key=" in message or status == "200 OK"  # whose page is cut before
    assert "word" not in message


@pytest.mark.parametrize(
    ("sent", "warnings"),
    [
        (["cannot ask h?key=parameter-secret"], ("cannot ask h?key=<hidden>",)),
        (["x" * 994 + "from-file is wrong"] * 99, ("x" * 994 + "<hidd…",) * 20),
    ],
)
def test_warnings_contain_no_secret(
    tmp_path: Path, sent: list[str], warnings: tuple[str, ...]
) -> None:
    body = json.dumps({**faults.VECTOR, "warnings": sent}, separators=(",", ":"))
    with ScriptedServer(answer(body)) as server:
        outcome = answered(ask(options(server.url, tmp_path, by_password=True), "x"))
    assert outcome.warnings == warnings


def test_a_token_in_a_label_is_hidden_but_a_tenant_is_not(tmp_path: Path) -> None:
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
