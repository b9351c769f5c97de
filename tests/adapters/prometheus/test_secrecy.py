"""No secret in a message, a repr, a log or an exception."""

import json
import logging
from pathlib import Path

import pytest

from autoscaler.config.prometheus_connection import PrometheusSettings
from tests.adapters.prometheus.reading import answered, ask, basic_auth, failed, settings
from tests.worlds.process import free_port
from tests.worlds.prometheus import faults
from tests.worlds.prometheus.faults import ScriptedServer, Step, answer, echo

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
