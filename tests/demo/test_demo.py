"""The demo as one runs it: to its end, stopped in the middle, and when something is missing."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest
import requests

from tests.demo.running import SHORT, DemoProcess
from tests.narrowing import assert_parts
from tests.worlds.controlplane.api import Api
from tests.worlds.controlplane.kubelet import FakeKubelet
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.packages import built, installed
from tests.worlds.prometheus.server import required_program
from tests.worlds.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")


@pytest.fixture(autouse=True)
def _prometheus() -> None:
    """Skip where there is no Prometheus."""
    required_program("prometheus")


def test_the_story_takes_about_a_minute(tmp_path: Path) -> None:
    """The whole demo, from an installed wheel."""
    programs = installed(built("wheel", tmp_path / "dist"), tmp_path / "venv")
    path = {"PATH": f"{programs}:{os.environ['PATH']}"}
    with DemoProcess(tmp_path, ["demo"], path, [str(programs / "autoscaler")]) as demo:
        assert demo.wait() == 0, demo.output
        summary = re.search(r"In (\d+) s .* (\d+) messages .* 1 to (\d+) ", demo.output)
        assert summary is not None, demo.output
        seconds, queue, workers = (int(number) for number in summary.groups())
        assert queue > 60
        assert workers > 5
        assert 40 <= seconds <= 90
        assert_parts(
            demo.output,
            # To how many depends on how full the queue is when a sync reads it.
            *("scaled 1 -> ", "above target", "4 pods per 15 s", "window keeps ", "below target"),
            *("autoscaler validate ", "autoscaler plan -c autoscaler.yaml --explain"),
            *("autoscaler run -c", "autoscaler status -c"),
        )
        last = demo.output[summary.start() :].splitlines()
        assert max(len(line) for line in last if not line.startswith("  cp ")) <= 80
        assert f"  cp {tmp_path}/venv/share/autoscaler/queue.yaml autoscaler.yaml" in demo.output
        for command in printed_commands(demo.output, OUTLOOK):
            program = command.split()[0]
            assert shutil.which(program, path=path["PATH"]), (
                f"{program} of {command!r} cannot be pasted"
            )


OUTLOOK = "Next, with your"
"""The heading of the commands after the demo."""


def test_with_keep_the_demo_runs_until_it_is_stopped(tmp_path: Path) -> None:
    with DemoProcess(tmp_path, (*SHORT, "--keep")) as demo:
        demo.wait_for("Ctrl-C ends it", timeout=90)
        assert OUTLOOK not in demo.output
        commands = printed_commands(demo.output)
        (status,) = (command for command in commands if " status " in command)
        states = {"atMaximum", "paused", "failing", "idle"}
        wait_until("all states", lambda: states <= shown_states(outcome(status)), interval=1)
        outputs = outputs_of(commands)
        history = set(re.findall(r"Deployment/([\w-]+)", outputs["history"][0]))
        assert {"order-worker", "web", "checkout", "qwen"} <= history
        assert_parts(outputs["explain"][0], "Deployment/order-worker at ", " -> 1: ")
        assert_parts(outputs["plan"][0], "by schedule day-shift")
        of_prometheus, of_record = outputs["replay"]
        assert re.search(r"^ +load +demo_queue_messages_ready ", of_prometheus, re.MULTILINE)
        assert "Deployment/web  " in of_record
        assert demo.stop() == 0
        assert OUTLOOK in demo.output


def test_three_clusters_have_one_daemon(tmp_path: Path) -> None:
    with DemoProcess(tmp_path, (*SHORT, "--keep", "--three")) as demo:
        demo.wait_for("Ctrl-C ends it", timeout=90)
        grown = re.findall(r"queue of (\w+) .* (\d+) messages", demo.output)
        assert [region for region, _ in grown] == ["eu", "us", "ap"]
        # Each has its share of the messages.
        assert int(grown[0][1]) > int(grown[1][1]) > int(grown[2][1])
        assert re.search(r"s  us  autoscaler: scaled 1 -> .*\{cluster=\"us\"\}", demo.output)
        outputs = outputs_of(printed_commands(demo.output))
        key = f"{OWN}/Deployment/order-worker"
        workers = re.findall(rf"^(\S*{key})\t", outputs["status"][0], re.MULTILINE)
        assert workers == [f"{region}/{key}" for region in ("eu", "us", "ap")]
        assert_parts(outputs["explain"][0], f"eu/{key} at ")
        (pages,) = set(re.findall(r"autoscaler are at (\S+)", demo.output))
        assert f"/targets/ap/{key}" in requests.get(pages, {"cluster": "ap"}, timeout=10).text
        assert demo.stop() == 0


def outputs_of(commands: Sequence[str]) -> dict[str, list[str]]:
    """Run the commands that the demo names; return their outputs by subcommand."""
    outputs = defaultdict[str, list[str]](list)
    for command in commands:
        outputs[command.split()[1]].append(outcome(command))
    return outputs


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
        ("simulated API server", signal.SIGINT),
        ("Starting Prometheus", signal.SIGTERM),
        ("first worker", signal.SIGHUP),
        ("burst", signal.SIGINT),
    ],
)
def test_a_signal_leaves_nothing_behind(tmp_path: Path, words: str, number: signal.Signals) -> None:
    with DemoProcess(tmp_path) as demo:
        demo.wait_for(words)
        assert demo.stop(number) == 128 + number, demo.output
        assert "Stopped." in demo.output


@pytest.mark.parametrize(
    ("word", "name"), [("prometheus.yml", "Prometheus"), ("autoscaler run", "The autoscaler")]
)
def test_the_death_of_a_part_prints_its_log(tmp_path: Path, word: str, name: str) -> None:
    with DemoProcess(tmp_path) as demo:
        demo.wait_for("burst")
        os.kill(demo.child(word), signal.SIGKILL)
        assert demo.wait(60) == 1
        assert re.search(rf"{name} was killed .* 9\. .*:\n  ", demo.output)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"PATH": "/nonexistent"}, "the PATH"),
        ({"PROMETHEUS_BINARY": "/no/such"}, "PROMETHEUS_BINARY=/no/such "),
    ],
)
def test_the_demo_prints_how_to_install_prometheus(
    tmp_path: Path, environment: dict[str, str], expected: str
) -> None:
    with DemoProcess(tmp_path, SHORT, environment) as demo:
        assert demo.wait(60) == 1
        assert expected in demo.output
        assert "sudo apt-get install prometheus" in demo.output


def test_an_unknown_context_is_an_error(tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text("{apiVersion: v1, kind: Config, contexts: [], clusters: [], users: []}")
    with DemoProcess(tmp_path, (*SHORT, "nowhere"), {"KUBECONFIG": str(config)}) as demo:
        assert demo.wait(60) == 1
        assert "nowhere" in demo.output


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


def test_the_story_runs_in_a_real_cluster(there: DemoProcess, admin_api: Api) -> None:
    with there as demo:
        assert demo.wait() == 0, demo.output
        assert_parts(demo.output, "scaled 1 ->", "and back.")
    assert OWN not in namespaces(admin_api)


def test_a_signal_removes_the_namespace(there: DemoProcess, admin_api: Api) -> None:
    with there as demo:
        demo.wait_for("burst")
        assert OWN in namespaces(admin_api)
        assert demo.stop() == 130, demo.output
    assert OWN not in namespaces(admin_api)


def test_a_namespace_that_exists_is_not_touched(there: DemoProcess, admin_api: Api) -> None:
    admin_api.create("/api/v1/namespaces", {"metadata": {"name": OWN}})
    try:
        with there as demo:
            assert demo.wait(60) == 1
            assert f"{OWN} is there already" in demo.output
        assert OWN in namespaces(admin_api)
    finally:
        admin_api.delete(f"/api/v1/namespaces/{OWN}")


def namespaces(api: Api) -> set[str]:
    items = api.get("/api/v1/namespaces")["items"]
    return {item["metadata"]["name"] for item in items}
