"""Credentials that are no use: a sentence that names where they are, and never what they are."""

import json
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from autoscaler import clock
from autoscaler.adapters.cluster import Api, Failure, Scales, connect
from autoscaler.adapters.cluster.failures import from_exception
from autoscaler.core.observation import Scale, Unavailable
from tests.contract.faults import WEB
from tests.contract.scripted import ScriptedServer, failure, scale

BAD_TOKENS = ["line1-s3cret\nline2", "line1-s3cret\r\n X-Other: 1", "s3cr\u65e5et", "s3cret\x7f"]
FAULT = "holds characters that no token may have; right is one line of printable ASCII"


def _begin_watch(api: Api) -> object:
    return api.stream("/apis/apps/v1/deployments", {"watch": "true"}, 1.0)


def _read(api: Api) -> object:
    return api.get("/apis/apps/v1/deployments", clock.monotonic() + 5)


@pytest.mark.parametrize("ask", [_read, _begin_watch])
@pytest.mark.parametrize("token", BAD_TOKENS)
def test_a_token_file_that_no_header_can_carry(
    tmp_path: Path, token: str, ask: Callable[[Api], object]
) -> None:
    """The file is named, the token is not, and nothing is sent."""
    (tmp_path / "token").write_text(token)
    with (
        ScriptedServer(scale(1)) as server,
        connect(server.write_kubeconfig(tmp_path / "k", tokenFile="token")) as api,
    ):
        answer = ask(api)
    assert answer == Failure(f"the token in the file {tmp_path}/token {FAULT}")
    assert server.asked == []


@pytest.mark.parametrize("token", BAD_TOKENS)
def test_a_kubeconfigs_token_that_no_header_can_carry(tmp_path: Path, token: str) -> None:
    """The context and the file are named."""
    with (
        ScriptedServer(scale(1)) as server,
        connect(server.write_kubeconfig(tmp_path / "k", token=token)) as api,
    ):
        answer = Scales(api).read("shop", WEB, clock.monotonic() + 5)
        assert answer == Unavailable(f'the token of context "main" of {tmp_path}/k {FAULT}')
        assert isinstance(_begin_watch(api), Failure)
    assert server.asked == []


def test_a_rotation_to_a_bad_token_is_told_and_mended(tmp_path: Path) -> None:
    """After a 401 a bad file is told, and once it is mended reads go on."""
    token = tmp_path / "token"
    token.write_text("one")
    answers = (failure(401, "Unauthorized", "Unauthorized"), scale(2))
    with (
        ScriptedServer(*answers) as server,
        connect(server.write_kubeconfig(tmp_path / "k", tokenFile=str(token))) as api,
    ):
        scales = Scales(api)
        assert api.origin
        api._credentials.authorization()
        token.write_text("two\nthree")
        answer = scales.read("shop", WEB, clock.monotonic() + 5)
        assert answer == Unavailable(f"the token in the file {token} {FAULT}")
        token.write_text("four")
        until = clock.monotonic() + 5
        while isinstance(answer, Unavailable) and clock.monotonic() < until:
            answer = scales.read("shop", WEB, until)
        assert isinstance(answer, Scale)
    assert [asked.authorization for asked in server.asked] == ["Bearer one", "Bearer four"]


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (lambda path: path.write_bytes(b"\xff\xfe"), "the token file {} is not text in UTF-8"),
        (lambda path: path.write_text(" \n"), "the token file {} is empty"),
        (Path.unlink, "the token file {} cannot be read: No such file or directory"),
    ],
    ids=["no text", "empty", "gone"],
)
def test_a_token_file_without_a_token_is_not_nobody(
    tmp_path: Path, spoil: Callable[[Path], object], fault: str
) -> None:
    """Without a token that was read before, nothing is asked in nobody's name."""
    token = tmp_path / "token"
    token.write_text("one")
    with (
        ScriptedServer(scale(1)) as server,
        connect(server.write_kubeconfig(tmp_path / "k", tokenFile=str(token))) as api,
    ):
        spoil(token)
        answer = Scales(api).read("shop", WEB, clock.monotonic() + 5)
    assert answer == Unavailable(fault.format(token))
    assert server.asked == []


def test_what_the_client_cannot_send_is_a_sentence(tmp_path: Path) -> None:
    """A request that the libraries refuse to make is told, by both ways of asking."""
    with ScriptedServer(scale(1)) as server:
        kubeconfig = server.write_kubeconfig(tmp_path / "k")
    kubeconfig.write_text(kubeconfig.read_text().replace(server.url, "http://h:99999"))
    message = "the request to the API server http://h:99999 cannot be made (LocationParseError)"
    with connect(kubeconfig) as api:
        for answer in (_read(api), _begin_watch(api)):
            assert isinstance(answer, Failure)
            assert answer.message == message


@pytest.mark.parametrize("error", [ValueError("Bearer s3cret"), OSError(5, "Bearer s3cret")])
def test_the_text_of_an_exception_is_not_repeated(error: Exception) -> None:
    """`http.client` quotes the header that it refuses; only the type is told."""
    failed = from_exception(error, "http://h", 1.0)
    kind = type(error).__name__
    assert failed.message == f"the request to the API server http://h cannot be made ({kind})"
    assert failed.uncertain


@pytest.mark.parametrize(
    "script",
    ["echo s3cret-plugin >&2; exit 3", "echo s3cret-plugin", "echo '{\"status\": {}}'"],
)
def test_a_failing_exec_plugin_prints_nothing_of_the_clients(tmp_path: Path, script: str) -> None:
    """The only word of it is our sentence; logging is left as it was."""
    plugin = tmp_path / "plugin"
    plugin.write_text(f"#!/bin/sh\n{script}\n")
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    run = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}
    with ScriptedServer(scale(1)) as server:
        kubeconfig = server.write_kubeconfig(tmp_path / "k", exec=run)
    program = (
        "import logging, pathlib, sys\n"
        "from autoscaler.adapters.cluster import ConnectError, connect\n"
        "try:\n"
        "    connect(pathlib.Path(sys.argv[1]))\n"
        "except ConnectError as error:\n"
        "    print(error)\n"
        "root = logging.getLogger()\n"
        "print(root.handlers, root.filters)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(kubeconfig)],
        capture_output=True,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.stderr == ""
    assert done.stdout == (
        f'context "main" of {kubeconfig} cannot be used: its exec plugin gave no credentials\n'
        "[] []\n"
    )


def test_a_plugin_that_fails_later_prints_nothing_either(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A plugin that runs again, since its token expired, is as quiet."""
    plugin, first = tmp_path / "plugin", tmp_path / "first"
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "old", "expirationTimestamp": "2020-01-01T00:00:00Z"},
    }
    first.write_text(json.dumps(credential))
    plugin.write_text(f"#!/bin/sh\ncat {first} && rm {first}\n")
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    run = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}
    with (
        ScriptedServer(scale(1)) as server,
        connect(server.write_kubeconfig(tmp_path / "k", exec=run)) as api,
    ):
        Scales(api).read("shop", WEB, clock.monotonic() + 5)
    assert not first.exists()
    assert capfd.readouterr().err == ""
    assert [record for record in caplog.records if record.name == "root"] == []
