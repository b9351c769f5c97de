"""What the shell offers after `autoscaler plan -c FILE`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autoscaler.daemon.recording import Recorder
from tests.adapters.record.recording import running
from tests.cli.test_commands import queue_config
from tests.core.builders import average, external, spec
from tests.core.timeline import Timeline
from tests.endtoend.daemon import write_config
from tests.record.memory import synced

AS_INSTALLED = """
import sys
from autoscaler.cli import main
sys.argv = ["autoscaler"]
main()
"""
"""The shell asks the program by its name."""


def offered(line: str) -> list[str]:
    """Return what bash is given for the last word of a command line."""
    words = {"COMP_WORDS": f"autoscaler {line}", "COMP_CWORD": str(line.count(" ") + 1)}
    ran = subprocess.run(
        [sys.executable, "-c", AS_INSTALLED],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=os.environ | {"_AUTOSCALER_COMPLETE": "complete_bash"} | words,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.split()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Give a file of three targets, two of them of one name."""
    document = queue_config("http://p:9090", "shop", "web", "worker", "db")
    targets = document["targets"]
    assert isinstance(targets, list)
    twin = targets[2] | {"scaleTargetRef": targets[2]["scaleTargetRef"] | {"kind": "StatefulSet"}}
    return write_config(tmp_path / "a.yaml", document | {"targets": [*targets, twin]})


def test_the_targets_of_the_file_are_offered(file: Path) -> None:
    """By the short name where it is one target's alone, and none twice."""
    both = ["shop/Deployment/db", "shop/StatefulSet/db"]
    assert offered(f"plan -c {file} ") == ["shop/web", "shop/worker", *both]
    assert offered(f"plan -c {file} shop/wo") == ["shop/worker"]
    assert offered(f"plan -c {file} shop/web shop/w") == ["shop/worker"]


def test_the_whole_name_is_offered_to_who_began_it(file: Path) -> None:
    """NAMESPACE/KIND/NAME."""
    names = ["shop/Deployment/web", "shop/Deployment/worker"]
    assert offered(f"plan -c {file} shop/Deployment/w") == names


def test_without_a_file_that_can_be_read_nothing_is_offered(tmp_path: Path) -> None:
    """And nothing is said: the user is in the middle of a line."""
    bad = tmp_path / "bad.yaml"
    bad.write_text("targets: [")
    for line in ("plan ", f"plan -c {bad} ", f"plan -c {tmp_path}/none.yaml "):
        assert offered(line) == []


def test_what_is_recorded_is_offered_to_commands_that_read_the_record(tmp_path: Path) -> None:
    """Without a file of targets; where nothing is recorded nothing is."""
    timeline = Timeline(spec(external(average("10"))))
    first = synced(timeline.at("0s", queue=30))
    with running(tmp_path) as writer:
        recorder = Recorder(writer)
        recorder.configure([first.target], timeline.flags)
        recorder.report(first)
    assert offered(f"explain --state-directory {tmp_path} sh") == ["shop/web"]
    assert offered(f"history --state-directory {tmp_path} shop/D") == ["shop/Deployment/web"]
    (tmp_path / "record.db").unlink()
    assert offered(f"explain --state-directory {tmp_path} ") == []
