"""The demo as one runs it: to its end, stopped in the middle, and when something is missing."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from tests.demo.running import SHORT, WHOLE, DemoProcess
from tests.worlds.controlplane.api import Api
from tests.worlds.controlplane.kubelet import FakeKubelet
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.prometheus.server import required_program
from tests.worlds.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")


@pytest.fixture(autouse=True)
def _prometheus() -> None:
    """Skip where there is no Prometheus."""
    required_program("prometheus")


def test_the_story_is_told_in_about_a_minute(tmp_path: Path) -> None:
    with DemoProcess(tmp_path, WHOLE) as demo:
        assert demo.wait() == 0, demo.output
        told = re.search(
            r"In (\d+) s the queue grew to (\d+) messages and the workers from 1 to (\d+) and back",
            demo.output,
        )
        assert told is not None, demo.output
        seconds, queue, workers = (int(number) for number in told.groups())
        assert queue > 60
        assert workers > 5
        assert 40 <= seconds <= 90
        for expected in (
            # To how many depends on how full the queue is when a sync reads it.
            "scaled 1 -> ",
            "above target",
            "scaleUp policy of 4 pods per 15 s permits",
            "window keeps ",
            "below target",
            "autoscaler validate ",
            "autoscaler plan -c autoscaler.yaml --explain",
            "autoscaler run -c",
            "autoscaler status -c",
        ):
            assert expected in demo.output
        assert max(len(line) for line in demo.output[told.start() :].splitlines()) <= 80
        for command in printed_commands(demo.output, "Next, with your own cluster"):
            program = command.split()[0]
            assert shutil.which(program), f"{program} of {command!r} cannot be pasted"
        demo.assert_nothing_left()


def test_with_keep_it_stays_to_be_looked_at(tmp_path: Path) -> None:
    with DemoProcess(tmp_path, (*SHORT, "--keep")) as demo:
        demo.wait_for("Ctrl-C ends it", timeout=90)
        assert "Next, with your own cluster" not in demo.output
        commands = printed_commands(demo.output)
        (status,) = (command for command in commands if " status " in command)
        states = {"atMaximum", "paused", "failing", "idle"}
        wait_until(
            "every state is shown", lambda: states <= shown_states(outcome(status)), interval=1
        )
        shown = {command: outcome(command) for command in commands}
        (history,) = (text for command, text in shown.items() if " history " in command)
        assert {"order-worker", "web", "checkout"} <= set(
            re.findall(r"Deployment/([\w-]+)", history)
        )
        (explained,) = (text for command, text in shown.items() if " explain " in command)
        assert "Deployment/order-worker at " in explained
        assert " -> 1: " in explained
        (plan,) = (text for command, text in shown.items() if " plan " in command)
        assert "by schedule day-shift" in plan
        of_prometheus, of_record = (text for value, text in shown.items() if " replay " in value)
        assert "load        demo_queue_messages_ready is recorded" in of_prometheus
        assert "Deployment/web  " in of_record
        demo.signal(signal.SIGINT)
        assert demo.wait(60) == 0
        assert "Next, with your own cluster" in demo.output
        demo.assert_nothing_left()


def test_three_clusters_have_one_daemon(tmp_path: Path) -> None:
    with DemoProcess(tmp_path, (*SHORT, "--keep", "--three")) as demo:
        demo.wait_for("Ctrl-C ends it", timeout=90)
        told = re.findall(r"the queue of (\w+) grew to (\d+) messages", demo.output)
        assert [region for region, _ in told] == ["eu", "us", "ap"]
        # To the share of the messages that come there.
        assert int(told[0][1]) > int(told[1][1]) > int(told[2][1])
        assert re.search(r"s  us  autoscaler: scaled 1 -> .*\{cluster=\"us\"\}", demo.output)
        shown = {command: outcome(command) for command in printed_commands(demo.output)}
        (status,) = (text for command, text in shown.items() if " status " in command)
        workers = [
            line.split("\t")[0] for line in status.splitlines() if "Deployment/order-worker" in line
        ]
        key = f"{OWN}/Deployment/order-worker"
        assert workers == [f"{region}/{key}" for region in ("eu", "us", "ap")]
        (explained,) = (text for command, text in shown.items() if " explain " in command)
        assert f"eu/{key} at " in explained
        (pages,) = set(re.findall(r"pages of the autoscaler are at (\S+)", demo.output))
        assert f"/targets/ap/{key}" in requests.get(pages, {"cluster": "ap"}, timeout=10).text
        demo.signal(signal.SIGINT)
        assert demo.wait(60) == 0
        demo.assert_nothing_left()


def shown_states(status: str) -> set[str]:
    return {line.split("\t")[6] for line in status.splitlines()[1:] if "\t" in line}


def printed_commands(output: str, after: str = "Ctrl-C ends it") -> list[str]:
    """Return the commands that the demo names, by default while it stays."""
    after = output[output.index(after) :]
    return [line.strip() for line in after.splitlines() if line.startswith("  ")]


def outcome(command: str) -> str:
    """Paste a command of the demo's into a shell, where it must not fail; return what it prints."""
    assert Path(command.split(maxsplit=1)[0]).name == "autoscaler", command
    done = subprocess.run(  # noqa: S602 - a user pastes it so
        command, shell=True, capture_output=True, text=True, check=False, timeout=60
    )
    # A plan of a target whose metric fails has the exit code 1.
    assert done.returncode == (1 if " plan " in command else 0), done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("stand-in for a cluster", signal.SIGINT),
        ("Starting Prometheus", signal.SIGTERM),
        ("first worker", signal.SIGHUP),
        ("burst", signal.SIGINT),
    ],
)
def test_a_signal_leaves_nothing_behind(tmp_path: Path, words: str, number: signal.Signals) -> None:
    with DemoProcess(tmp_path) as demo:
        demo.wait_for(words)
        demo.signal(number)
        assert demo.wait(60) == 128 + number, demo.output
        assert "Stopped." in demo.output
        demo.assert_nothing_left()


@pytest.mark.parametrize(
    ("word", "name"), [("prometheus.yml", "Prometheus"), ("autoscaler run", "The autoscaler")]
)
def test_the_death_of_a_part_is_told(tmp_path: Path, word: str, name: str) -> None:
    with DemoProcess(tmp_path) as demo:
        demo.wait_for("burst")
        os.kill(demo.child(word), signal.SIGKILL)
        assert demo.wait(60) == 1
        assert f"{name} was killed by signal 9. The last lines of its log:\n  " in demo.output
        demo.assert_nothing_left()


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"PATH": "/nonexistent"}, "not on the PATH"),
        ({"PROMETHEUS_BINARY": "/no/such"}, "PROMETHEUS_BINARY=/no/such is not a program"),
    ],
)
def test_without_prometheus_it_says_what_to_do(
    tmp_path: Path, environment: dict[str, str], expected: str
) -> None:
    with DemoProcess(tmp_path, SHORT, environment) as demo:
        assert demo.wait(60) == 1
        assert expected in demo.output
        assert "sudo apt-get install prometheus" in demo.output
        demo.assert_nothing_left()


def test_an_unknown_context_is_a_sentence(tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text("{apiVersion: v1, kind: Config, contexts: [], clusters: [], users: []}")
    with DemoProcess(tmp_path, (*SHORT, "nowhere"), {"KUBECONFIG": str(config)}) as demo:
        assert demo.wait(60) == 1
        assert "nowhere" in demo.output
        demo.assert_nothing_left()


OWN = "demo-under-test"


@pytest.fixture
def there(
    tmp_path: Path,
    control_plane: ControlPlane,
    kubelet: FakeKubelet,  # noqa: ARG001 - makes the pods ready
) -> DemoProcess:
    """Prepare a demo with `--context`, on a real control plane."""
    context = re.search(r"current-context: (\S+)", control_plane.kubeconfig.read_text())
    assert context is not None
    return DemoProcess(
        tmp_path, (*SHORT, context[1]), {"KUBECONFIG": str(control_plane.kubeconfig)}
    )


def test_the_story_is_told_there(there: DemoProcess, admin_api: Api) -> None:
    with there as demo:
        assert demo.wait() == 0, demo.output
        assert "scaled 1 ->" in demo.output
        assert "and back." in demo.output
        demo.assert_nothing_left()
    assert OWN not in namespaces(admin_api)


def test_a_signal_removes_what_was_made(there: DemoProcess, admin_api: Api) -> None:
    with there as demo:
        demo.wait_for("burst")
        assert OWN in namespaces(admin_api)
        demo.signal(signal.SIGINT)
        assert demo.wait(60) == 130, demo.output
        demo.assert_nothing_left()
    assert OWN not in namespaces(admin_api)


def test_a_namespace_that_exists_is_not_touched(there: DemoProcess, admin_api: Api) -> None:
    admin_api.create("/api/v1/namespaces", {"metadata": {"name": OWN}})
    try:
        with there as demo:
            assert demo.wait(60) == 1
            assert "demo-under-test is there already" in demo.output
            demo.assert_nothing_left()
        assert OWN in namespaces(admin_api)
    finally:
        admin_api.delete(f"/api/v1/namespaces/{OWN}")


def namespaces(api: Api) -> set[str]:
    items = api.get("/api/v1/namespaces")["items"]
    return {item["metadata"]["name"] for item in items}
