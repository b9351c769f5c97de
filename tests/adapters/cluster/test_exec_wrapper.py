"""The program that runs an exec plugin for the client, and ends it when its time is over."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from autoscaler import clock
from autoscaler.adapters.cluster import exec_plugin
from tests.adapters.cluster.test_exec_plugins import is_gone
from tests.controlplane.waiting import wait_until

WRAPPER = [sys.executable, "-I", exec_plugin.__file__]


def run_wrapper(seconds: float, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script in the wrapper, as the client does; without an end in 30 s the test fails."""
    return subprocess.run(
        [*WRAPPER, str(seconds), "/bin/sh", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=30,
    )


@pytest.mark.parametrize(
    ("script", "code", "output"),
    [
        ("echo said; exit 3", 3, "said\n"),
        ("sleep 20 & echo said", 0, "said\n"),
        ("echo half; sleep 300", 124, ""),
        ("setsid sleep 20 & sleep 300", 124, ""),
        ("exec /nonexistent", 127, ""),
    ],
    ids=["ends", "leaves a child behind", "hangs", "hangs, and so does another", "is not there"],
)
def test_the_wrapper_ends_when_the_plugin_or_its_time_does(
    script: str, code: int, output: str
) -> None:
    """Whatever still has the plugin's output open: only then does the client stop waiting."""
    began = clock.monotonic()
    ran = run_wrapper(3.0, script)
    assert clock.monotonic() - began < 15
    assert (ran.returncode, ran.stdout, ran.stderr) == (code, output, "")


def test_a_wrapper_without_a_plugin_says_so() -> None:
    """A command that does not exist is what shells say of it."""
    ran = subprocess.run(
        [*WRAPPER, "1", "/nonexistent"], capture_output=True, check=False, timeout=30
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (127, b"", b"")


@pytest.mark.parametrize("received", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_wrapper_that_is_told_to_end_takes_the_plugin_along(
    tmp_path: Path, received: signal.Signals
) -> None:
    """Else the client would wait for a plugin that nothing limits any more."""
    pid = tmp_path / "pid"
    command = [
        *WRAPPER,
        "300",
        "/bin/sh",
        "-c",
        f"echo $$ > {pid}.new; mv {pid}.new {pid}; sleep 300",
    ]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as wrapper:
        wait_until("the plugin runs", pid.exists)
        wrapper.send_signal(received)
        assert wrapper.wait(30) == 128 + received
    assert is_gone(int(pid.read_text()))
