"""Exec plugins of a kubeconfig: their credentials are used, and why they fail is reported.

And the program that runs them for the client, and ends them when their time is over.
"""

import datetime as dt
import errno
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from autoscaler import clock
from autoscaler.core.observation import ReadFailure, Scale
from autoscaler.kubernetes import credentials, exec_plugin
from autoscaler.kubernetes.connection import find_api_server
from tests.narrowing import assert_parts, instance
from tests.worlds.cluster.faults import UNAUTHORIZED, Script, read_web, refusal_of, within
from tests.worlds.cluster.scripted import ScriptedServer, scale
from tests.worlds.waiting import let_pass, wait_until

REFUSED = "does not accept"
"""Part of what the operator reads, which docs/contributing/faults.md quotes."""
VERSION = "client.authentication.k8s.io/v1"


def credential(token: str, expires: str | None = None) -> str:
    status = {"token": token} | ({"expirationTimestamp": expires} if expires else {})
    return json.dumps({"apiVersion": VERSION, "kind": "ExecCredential", "status": status})


def in_five_minutes_and(seconds: float) -> str:
    """Return a time so far off that a token is renewed in some seconds: the client is early."""
    due = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=5, seconds=seconds)
    return due.strftime("%Y-%m-%dT%H:%M:%SZ")


Plugin = Callable[[str], dict[str, object]]


@pytest.fixture(autouse=True)
def no_terminal() -> Iterator[None]:
    """At a terminal a plugin has no time limit: these tests have no terminal."""
    terminal, null = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    yield
    os.dup2(terminal, 0)
    for descriptor in (terminal, null):
        os.close(descriptor)


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    def write(script: str) -> dict[str, object]:
        path = tmp_path / "plugin"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o700)
        return {"apiVersion": VERSION, "command": str(path)}

    return write


def told_by_a_file(folder: Path, plugin: Plugin, otherwise: str) -> tuple[Path, dict[str, object]]:
    """Return a file with a credential, and a plugin that prints it and without it does a thing."""
    answer = folder / "answer"
    answer.write_text(credential("old"))
    return answer, plugin(f"test -e {answer} && exec cat {answer}; {otherwise}")


def busy() -> bool:
    return any(thread.name == "credentials" for thread in threading.enumerate())


def is_gone(pid: int) -> bool:
    """Whether a process has ended, or waits for somebody to take note of its end."""
    try:
        return not Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return True


def test_a_plugins_token_is_sent(script: Script, plugin: Plugin) -> None:
    run = plugin(f"""test "$1 $2" = "get token" && echo '{credential("from-plugin-'$PART'")}'""")
    run |= {"args": ["get", "token"], "env": [{"name": "PART", "value": "seven"}]}
    server, api = script(scale(1), user={"exec": run})
    assert isinstance(read_web(api), Scale)
    assert server.asked[0].authorization == "Bearer from-plugin-seven"


@pytest.mark.parametrize(
    ("allow_exec", "token"), [(None, "seven-password-here"), (True, "seven--here")]
)
def test_a_plugin_of_a_foreign_kubeconfig_has_a_minimal_environment(
    script: Script,
    plugin: Plugin,
    monkeypatch: pytest.MonkeyPatch,
    allow_exec: bool | None,
    token: str,
) -> None:
    monkeypatch.setenv("PASSWORD_OF_ANOTHER", "password")
    monkeypatch.setenv("TZ", "here")
    spoken = credential("'$PART-$PASSWORD_OF_ANOTHER-$TZ'")
    run = plugin(f"echo '{spoken}'")
    run |= {"env": [{"name": "PART", "value": "seven"}]}
    server, api = script(scale(1), user={"exec": run}, allow_exec=allow_exec)
    assert isinstance(read_web(api), Scale)
    assert server.asked[0].authorization == f"Bearer {token}"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo expired >&2; echo s3cret-plugin; exit 3", "exit code 3: expired"),
        ("echo s3cret-plugin", "line 1 column 1"),
        ("echo '{\"status\": {}}'", "'apiVersion'"),
        (
            f"""echo '{{"apiVersion": "{VERSION}", "kind": "", "status": {{}}}}'""",
            "clientCertificateData",
        ),
        ("echo '[]'", "'apiVersion'"),
        ("echo 5", "wrong form"),
    ],
)
def test_a_failing_plugin_prints_nothing_of_the_clients(
    tmp_path: Path, plugin: Plugin, script: str, why: str
) -> None:
    with ScriptedServer(scale(1)) as server:
        kubeconfig = server.write_kubeconfig(tmp_path / "k", exec=plugin(script))
    program = (
        "import logging\nimport pathlib\nimport sys\n"
        "from autoscaler.kubernetes import ConnectError, find_api_server\n"
        "try:\n"
        "    find_api_server(pathlib.Path(sys.argv[1]), None).connect()\n"
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
    message, logging = done.stdout.split("\n", 1)
    assert_parts(message, f'context "main" of {kubeconfig}', why)
    assert "s3cret" not in message
    assert logging == "[] []\n"


def refusal(folder: Path, **run: object) -> str:
    """Return why an `exec` entry cannot be used, which names its context."""
    with ScriptedServer(scale(1)) as server:
        kubeconfig = server.write_kubeconfig(folder / "k", exec={"apiVersion": VERSION, **run})
    message = refusal_of(kubeconfig)
    assert f'context "main" of {kubeconfig}' in message
    return message


@pytest.mark.parametrize("interactive", [False, True], ids=["pipe", "terminal"])
def test_a_plugin_that_is_not_there_is_named_with_its_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, interactive: bool
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: interactive)
    monkeypatch.setattr(sys, "stdin", subprocess.DEVNULL)
    monkeypatch.setattr(sys, "stderr", subprocess.DEVNULL)
    hint = "Install it:\n  cloud components install no-such-plugin"
    missing = f": {os.strerror(errno.ENOENT)}"
    message = refusal(tmp_path, command="no-such-plugin", installHint=hint)
    assert message.endswith(f"{missing}; {' '.join(hint.split())}")
    message = refusal(tmp_path, command="no-such-plugin", installHint=["a"])
    assert "no-such-plugin" in message
    assert message.endswith(missing)
    message = refusal(tmp_path, command=str(tmp_path))
    assert message.endswith(f": {os.strerror(errno.EACCES)}")


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("SSO Token: Token for eu", None),
        ("no profile (prod-eu) in ~/.aws/config", None),
        ("sent the key $API_KEY", "sent the key <hidden>"),
        ("sent $OF_THE_DAEMON_TOKEN", "sent <hidden>"),
        (
            "refused eyJhbGciOiJSUzI1NiIsImtpZCI6IjEyMyJ9.eyJzdWIiOiJhZG1pbiIsImV4cCI6MX0.x",
            "refused <hidden>.<hidden>.x",
        ),
        ("refused 0123456789abcdef0123456789abcdef", "refused <hidden>"),
        ("\033[31mred\033[0m", None),
    ],
)
def test_the_words_of_a_failing_plugin_have_no_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, shown: str | None
) -> None:
    monkeypatch.setenv("OF_THE_DAEMON_TOKEN", "daemon-own")
    variables = [{"name": "API_KEY", "value": "very-own"}, {"name": "PROFILE", "value": "prod-eu"}]
    script = f'echo "{words}" >&2; exit 1'
    message = refusal(tmp_path, command="sh", args=["-c", script], env=variables)
    assert message.isprintable()
    if "\033" not in words:
        assert message.endswith(f"exit code 1: {shown or words}")


def test_a_refused_token_is_reported_with_the_failure_of_its_plugin(
    script: Script, tmp_path: Path, plugin: Plugin
) -> None:
    """The server's refusal alone would not name the cause."""
    answer, run = told_by_a_file(tmp_path, plugin, "echo again >&2; exit 7")
    _, api = script(UNAUTHORIZED, user={"exec": run})
    answer.unlink()
    failed = instance(ReadFailure, read_web(api))
    assert_parts(failed, REFUSED, str(tmp_path / "plugin"), "exit code 7: again")


def test_a_failed_plugin_that_is_not_waited_for_is_the_reason(
    script: Script, plugin: Plugin
) -> None:
    run = plugin("echo first >&2; exit 7")
    server, api = script(scale(1), user={"exec": run}, at_once=False)
    outcome = instance(ReadFailure, read_web(api))
    assert outcome.message.endswith("exit code 7: first")
    assert server.asked == []


def test_a_plugin_that_fails_later_prints_nothing_either(
    script: Script,
    tmp_path: Path,
    plugin: Plugin,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(credentials, "_PLUGIN_FRESH_SECONDS", 0.0)
    first, again = tmp_path / "first", tmp_path / "again"
    first.write_text(credential("old", "2020-01-01T00:00:00Z"))
    run = plugin(f"cat {first} && rm {first} && exit; echo s3cret-plugin >&2; touch {again}")
    _, api = script(scale(1), user={"exec": run})
    assert not first.exists()
    read_web(api)
    wait_until("plugin failed", lambda: again.exists() and not busy())
    assert capfd.readouterr().err == ""
    assert [record for record in caplog.records if record.name == "root"] == []


def test_a_plugin_that_hangs_is_ended_with_its_children(
    tmp_path: Path, plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child that holds the plugin's output open would keep the client waiting too."""
    monkeypatch.setattr(exec_plugin, "SECONDS", 4.0)
    run = plugin(f"sleep 300 & echo $! > {tmp_path}/child; echo $$ > {tmp_path}/self; wait")
    with within(30):
        message = refusal(tmp_path, **run)
    assert str(tmp_path / "plugin") in message
    assert message.endswith(" 4 s")
    for name in ("self", "child"):
        pid = int((tmp_path / name).read_text())
        wait_until(f"{name} ended", partial(is_gone, pid))


def test_a_plugin_that_hangs_later_delays_nobody(
    script: Script, tmp_path: Path, plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_plugin, "SECONDS", 5.0)
    monkeypatch.setattr(credentials, "_PLUGIN_FRESH_SECONDS", 0.1)
    hangs = tmp_path / "hangs"
    answer, run = told_by_a_file(tmp_path, plugin, f"touch {hangs}; exec sleep 300")
    answer.write_text(credential("old", in_five_minutes_and(1)))
    server, api = script(scale(1), user={"exec": run})

    def read() -> object:
        began = clock.monotonic()
        outcome = read_web(api, 20.0)
        assert clock.monotonic() - began < 4.5
        return outcome

    assert isinstance(read(), Scale)
    answer.unlink()
    wait_until("the plugin hangs", lambda: isinstance(read(), Scale) and hangs.exists())
    hangs.unlink()
    while not hangs.exists():  # until it has been ended, and is asked again
        assert isinstance(read(), Scale)
    assert {asked.authorization for asked in server.asked} == {"Bearer old"}
    answer.write_text(credential("new", in_five_minutes_and(60)))
    wait_until(
        "new token sent",
        lambda: isinstance(read(), Scale) and server.asked[-1].authorization == "Bearer new",
    )


def test_while_a_plugin_hangs_a_rejected_request_keeps_its_deadline(
    script: Script, tmp_path: Path, plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_plugin, "SECONDS", 20.0)
    answer, run = told_by_a_file(tmp_path, plugin, "exec sleep 300")
    _, api = script(UNAUTHORIZED, user={"exec": run})
    answer.unlink()
    began = clock.monotonic()
    outcome = instance(ReadFailure, read_web(api, 4.0))
    assert clock.monotonic() - began < 15
    assert REFUSED in outcome.message
    answer.write_text(credential("new"))


WRAPPER = [sys.executable, "-I", exec_plugin.__file__]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo said; exit 3", " exit code 3"),
        ("sleep 20 & echo said", None),
        ("echo half; echo busy >&2; sleep 300", " 3 s: busy"),
        ("setsid sleep 20 & sleep 300", " 3 s"),
        ("", f": {os.strerror(errno.ENOENT)}"),
        ("kill -9 $$", " signal 9"),
        ("yes x | head -c 9999 >&2; exit 1", " exit code 1: " + "x " * 199 + "x"),
        (r"printf 'a\377\tb\n\n c' >&2; exit 1", " exit code 1: a\ufffd b c"),
    ],
    ids=[
        *("ends", "leaves-a-child", "hangs", "two-hang", "missing"),
        *("killed", "long-output", "writes-bytes"),
    ],
)
def test_the_wrapper_ends_when_the_plugin_or_its_time_does(script: str, reason: str | None) -> None:
    began = clock.monotonic()
    plugin = ("/bin/sh", "-c", script) if script else ("/nonexistent",)
    ran = subprocess.run(
        [*WRAPPER, "3.0", "", *plugin],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=30,
    )
    assert clock.monotonic() - began < 15
    assert (ran.returncode, ran.stderr) == (0, "")
    if reason is None:
        assert ran.stdout == "said\n"
        return
    answer = json.loads(ran.stdout)
    why = answer.pop("apiVersion")
    assert answer == {"kind": "", "status": {}}
    assert why.startswith(f"failed: {plugin[0]} ")
    assert why.endswith(reason)


@pytest.mark.parametrize("received", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_wrapper_that_receives_a_signal_ends_its_plugin(
    tmp_path: Path, received: signal.Signals
) -> None:
    pid = tmp_path / "pid"
    script = f"echo $$ > {pid}.new; mv {pid}.new {pid}; sleep 300"
    command = [*WRAPPER, "300", "", "/bin/sh", "-c", script]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as wrapper:
        wait_until("the plugin runs", pid.exists)
        wrapper.send_signal(received)
        assert wrapper.wait(30) == 128 + received
    wait_until("plugin ended", partial(is_gone, int(pid.read_text())))


def test_requests_fail_until_a_plugin_that_is_not_waited_for_ends(
    script: Script, tmp_path: Path, plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "_PLUGIN_FRESH_SECONDS", 0.0)
    go = tmp_path / "go"
    run = plugin(f"while [ ! -f {go} ]; do sleep 0.02; done; echo '{credential('late')}'")
    server, api = script(scale(1), user={"exec": run}, at_once=False)
    seen = instance(ReadFailure, read_web(api, 0.3))
    assert "no credentials yet" in seen.message
    assert server.asked == []
    go.touch()
    wait_until("it is asked", lambda: isinstance(read_web(api), Scale))
    assert server.asked[0].authorization == "Bearer late"


def test_plugins_of_many_clusters_are_bounded_together(tmp_path: Path, plugin: Plugin) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    wait = f"echo x >> {begun}; while [ ! -f {go} ]; do sleep 0.05; done"
    run = plugin(f"{wait}; echo '{credential('late')}'")
    with ExitStack() as stack:
        server = stack.enter_context(ScriptedServer(scale(1)))
        endpoint = find_api_server(server.write_kubeconfig(tmp_path / "k", exec=run), None)
        apis = [stack.enter_context(endpoint.connect(at_once=False)) for _ in range(11)]
        reads = stack.enter_context(ThreadPoolExecutor(len(apis)))
        reading = [reads.submit(read_web, api, 30.0) for api in apis]

        def running() -> int:
            return begun.read_text().count("x") if begun.exists() else 0

        wait_until("plugins run", lambda: running() == 8)
        let_pass(0.5)
        assert running() == 8
        go.touch()
        assert all(isinstance(read.result(), Scale) for read in reading)
        assert running() == len(apis)
