"""The demo as one runs it: to its end, stopped in the middle, and when something is missing."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.adapters.prometheus.server import prometheus_binary
from tests.controlplane.api import Api
from tests.controlplane.server import ControlPlane
from tests.demo.running import SHORT, WHOLE, DemoProcess

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")


@pytest.fixture(autouse=True)
def _prometheus() -> None:
    """Skip where there is no Prometheus."""
    prometheus_binary()


def test_the_story_is_told_in_about_a_minute(tmp_path: Path) -> None:
    """The queue fills, the workers go from 1 to many and back, and it ends by itself."""
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
            "the scaleUp policy of 4 pods per 15 s permits",
            "held at ",
            "below target",
            "autoscaler validate ",
            "autoscaler plan -c autoscaler.yaml --explain",
            "autoscaler run -c",
            "autoscaler status -c",
        ):
            assert expected in demo.output
        assert max(len(line) for line in demo.output[told.start() :].splitlines()) <= 80
        demo.assert_nothing_left()


def test_with_keep_it_stays_to_be_looked_at(tmp_path: Path) -> None:
    """After the story the commands that it prints work, until Ctrl-C ends it with code 0."""
    with DemoProcess(tmp_path, (*SHORT, "--keep")) as demo:
        demo.wait_for("Ctrl-C ends it", timeout=90)
        assert "Next, with your own cluster" not in demo.output
        shown = {command: outcome(command) for command in printed_commands(demo.output)}
        (status,) = (text for command, text in shown.items() if " status " in command)
        states = {line.split("\t")[6] for line in status.splitlines()[1:] if "\t" in line}
        assert {"limited", "paused", "failing", "idle"} <= states, status
        (history,) = (text for command, text in shown.items() if " history " in command)
        assert {"order-worker", "web", "checkout"} <= set(
            re.findall(r"Deployment/([\w-]+)", history)
        )
        (explained,) = (text for command, text in shown.items() if " explain " in command)
        assert "Deployment/order-worker at " in explained
        assert "-> 1 replica" in explained
        (plan,) = (text for command, text in shown.items() if " plan " in command)
        assert "by schedule day-shift" in plan
        demo.signal(signal.SIGINT)
        assert demo.wait(60) == 0
        assert "Next, with your own cluster" in demo.output
        demo.assert_nothing_left()


def printed_commands(output: str) -> list[str]:
    """Return the commands that the demo names while it stays."""
    after = output[output.index("Ctrl-C ends it") :]
    return [line.strip() for line in after.splitlines() if line.startswith("  ")]


def outcome(command: str) -> str:
    """Run a command of the demo's, which must not fail, and return what it prints."""
    words = command.split()
    begin = next(index for index, word in enumerate(words) if word.endswith("autoscaler"))
    argv = [sys.executable, "-m", "autoscaler", *words[begin + 1 :]]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    # A plan of a target whose metric fails has the exit code 1.
    assert done.returncode == (1 if " plan " in command else 0), done.stderr
    return done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    """In the middle of the story: no process, no port, no file; the code says which signal."""
    with DemoProcess(tmp_path) as demo:
        demo.wait_for("burst")
        demo.signal(number)
        assert demo.wait(60) == 128 + number
        assert "Stopped." in demo.output
        demo.assert_nothing_left()


@pytest.mark.parametrize("words", ["stand-in for a cluster", "Starting Prometheus", "first worker"])
def test_a_signal_while_it_starts_leaves_nothing_behind(tmp_path: Path, words: str) -> None:
    """Also before the story has begun."""
    with DemoProcess(tmp_path) as demo:
        demo.wait_for(words)
        demo.signal(signal.SIGINT)
        assert demo.wait(60) == 130, demo.output
        demo.assert_nothing_left()


@pytest.mark.parametrize(
    ("word", "name"), [("prometheus.yml", "Prometheus"), ("autoscaler run", "The autoscaler")]
)
def test_the_death_of_a_part_is_told(tmp_path: Path, word: str, name: str) -> None:
    """The demo names the part that died, shows the end of its log, exits 1, leaves nothing."""
    with DemoProcess(tmp_path) as demo:
        demo.wait_for("burst")
        os.kill(demo.child(word), signal.SIGKILL)
        assert demo.wait(60) == 1
        assert f"{name} was killed by signal 9. The last lines of its log:\n  " in demo.output
        demo.assert_nothing_left()


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"PATH": "/nonexistent"}, "there is none on the PATH"),
        ({"PROMETHEUS_BINARY": "/no/such"}, "PROMETHEUS_BINARY=/no/such is not a program"),
    ],
)
def test_without_prometheus_it_says_what_to_do(
    tmp_path: Path, environment: dict[str, str], expected: str
) -> None:
    """No Prometheus: exit code 1, and a sentence that names the package."""
    with DemoProcess(tmp_path, SHORT, environment) as demo:
        assert demo.wait(60) == 1
        assert expected in demo.output
        assert "sudo apt-get install prometheus" in demo.output
        demo.assert_nothing_left()


def test_an_unknown_context_is_a_sentence(tmp_path: Path) -> None:
    """A context that no kubeconfig has: exit code 1 and its name, no traceback."""
    config = tmp_path / "kubeconfig"
    config.write_text("{apiVersion: v1, kind: Config, contexts: [], clusters: [], users: []}")
    with DemoProcess(tmp_path, (*SHORT, "nowhere"), {"KUBECONFIG": str(config)}) as demo:
        assert demo.wait(60) == 1
        assert "nowhere" in demo.output
        demo.assert_nothing_left()


@pytest.mark.usefixtures("kubelet")
class TestRealCluster:
    """With `--context`, on a real control plane."""

    @pytest.fixture
    def environment(self, control_plane: ControlPlane) -> dict[str, str]:
        """Point to the control plane as a user's environment does."""
        return {"KUBECONFIG": str(control_plane.kubeconfig)}

    @pytest.fixture
    def argv(self, control_plane: ControlPlane) -> tuple[str, ...]:
        """Name the context of the control plane's kubeconfig."""
        found = re.search(r"current-context: (\S+)", control_plane.kubeconfig.read_text())
        assert found is not None
        return (*SHORT, found[1])

    def test_the_story_is_told_there(
        self,
        tmp_path: Path,
        argv: tuple[str, ...],
        environment: dict[str, str],
        admin_api: Api,
    ) -> None:
        """The pods of a real Deployment follow the queue; its namespace is gone at the end."""
        with DemoProcess(tmp_path, argv, environment) as demo:
            assert demo.wait() == 0, demo.output
            assert "scaled 1 ->" in demo.output
            assert "and back." in demo.output
            demo.assert_nothing_left()
        assert "demo-under-test" not in namespaces(admin_api)

    def test_a_signal_removes_what_was_made(
        self,
        tmp_path: Path,
        argv: tuple[str, ...],
        environment: dict[str, str],
        admin_api: Api,
    ) -> None:
        """Ctrl-C in the middle: the namespace with all that is in it is gone when the demo ends."""
        with DemoProcess(tmp_path, argv, environment) as demo:
            demo.wait_for("calm")
            assert "demo-under-test" in namespaces(admin_api)
            demo.signal(signal.SIGINT)
            assert demo.wait(60) == 130, demo.output
            demo.assert_nothing_left()
        assert "demo-under-test" not in namespaces(admin_api)

    def test_a_namespace_that_exists_is_not_touched(
        self,
        tmp_path: Path,
        argv: tuple[str, ...],
        environment: dict[str, str],
        admin_api: Api,
    ) -> None:
        """The demo refuses to work in, and to remove, a namespace that it did not make."""
        admin_api.create("/api/v1/namespaces", {"metadata": {"name": "demo-under-test"}})
        try:
            with DemoProcess(tmp_path, argv, environment) as demo:
                assert demo.wait(60) == 1
                assert "demo-under-test is there already" in demo.output
                demo.assert_nothing_left()
            assert "demo-under-test" in namespaces(admin_api)
        finally:
            admin_api.delete("/api/v1/namespaces/demo-under-test")


def namespaces(api: Api) -> set[str]:
    """Return the names of the namespaces."""
    items = api.get("/api/v1/namespaces")["items"]
    return {item["metadata"]["name"] for item in items}
