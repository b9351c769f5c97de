"""Names on the command line: which targets they mean, and which the shell offers."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import typer

from autoscaler.cli import target_names
from autoscaler.cli.target_names import UnknownTargetError, chosen
from autoscaler.daemon.recording import Recorder
from tests.adapters.record.recording import running
from tests.cli.test_commands import queue_config
from tests.core.builders import average, external, spec
from tests.core.timeline import Timeline
from tests.narrowing import assert_parts, instance
from tests.worlds.daemon import write_config
from tests.worlds.record import synced

AS_INSTALLED = """
import sys
from autoscaler.app import main
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
    targets = instance(list, document["targets"])
    twin = targets[2] | {"scaleTargetRef": targets[2]["scaleTargetRef"] | {"kind": "StatefulSet"}}
    return write_config(tmp_path / "a.yaml", document | {"targets": [*targets, twin]})


def test_the_targets_of_the_file_are_offered(file: Path) -> None:
    both = ["shop/Deployment/db", "shop/StatefulSet/db"]
    assert offered(f"plan -c {file} ") == ["shop/web", "shop/worker", *both]
    assert offered(f"plan -c {file} shop/wo") == ["shop/worker"]
    assert offered(f"plan -c {file} shop/web shop/w") == ["shop/worker"]
    whole = ["shop/Deployment/web", "shop/Deployment/worker"]
    assert offered(f"plan -c {file} shop/Deployment/w") == whole
    file.write_text("targets: [")
    for line in ("plan ", f"plan -c {file} ", f"plan -c {file.parent}/none.yaml "):
        assert offered(line) == []


def test_recorded_targets_are_offered_to_commands_that_read_the_record(tmp_path: Path) -> None:
    timeline = Timeline(spec(external(average("10"))))
    first = synced(timeline.sync("0s", queue=30))
    with running(tmp_path) as writer:
        recorder = Recorder(writer)
        recorder.configure([first.target], timeline.flags)
        recorder.report(first)
    assert offered(f"explain --state-directory {tmp_path} sh") == ["shop/web"]
    assert offered(f"history --state-directory {tmp_path} shop/D") == ["shop/Deployment/web"]
    (tmp_path / "record.db").unlink()
    assert offered(f"explain --state-directory {tmp_path} ") == []


def test_no_name_that_a_shell_or_terminal_obeys_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record of others may have such a name; an offered name becomes part of the command line."""
    hostile = ["shop/Deployment/web\x1b[2J", "shop/Deployment/$(reboot)", "shop/Deployment/a b"]
    keys = [*hostile, "shop/Deployment/\u202eweb", "shop/Ro.argoproj.io/web-1"]
    monkeypatch.setattr(target_names, "_offered", lambda _: keys)
    context = cast("typer.Context", SimpleNamespace(params={}))
    assert target_names.complete(context, "") == ["shop/web-1"]


# -- which targets they mean ---------------------------------------------------------------------

KEYS = [
    "shop/Deployment/order-worker",
    "shop/Deployment/web",
    "shop/StatefulSet/web",
    "test/Deployment/web",
]


def refused(*names: str, keys: list[str] = KEYS) -> str:
    with pytest.raises(UnknownTargetError) as error:
        chosen(names, keys)
    return str(error.value)


def test_a_key_names_one_target_and_no_name_all() -> None:
    assert chosen(["shop/StatefulSet/web"], KEYS) == {"shop/StatefulSet/web"}
    assert chosen(["shop/web"], KEYS) == {"shop/StatefulSet/web", "shop/Deployment/web"}
    assert chosen([], KEYS) == set(KEYS)
    objects = {"shop/Deployment/order-worker": "web", "test/Deployment/web": "web"}
    assert chosen(["shop/web"], KEYS, objects) == {*KEYS[:3]}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("order-worker", "shop/order-worker"),
        ("shop/deployment/order-worker", "shop/order-worker"),
        ("Shop/Order-Worker", "shop/order-worker"),
        ("prod/order-worker", "shop/order-worker"),
        ("order-wroker", "shop/order-worker"),
        ("shop/order", "shop/order-worker"),
        ("deployment/order-worker", "shop/order-worker"),
        ("web", "shop/web or test/web"),
        ("test/deploy/web", "test/web"),
    ],
)
def test_a_misspelt_name_has_a_suggestion(name: str, meant: str) -> None:
    message = refused(name)
    assert_parts(message, f" {name}", f" {meant}?")


def test_each_unknown_name_has_its_line() -> None:
    similar, others = refused("shop/web", "x", "order-worker", "y").splitlines()
    assert_parts(similar, " order-worker", " shop/order-worker?")
    assert_parts(others, " x, y", f" {', '.join(KEYS)}")
    keys = [f"shop/Deployment/worker-{number}" for number in range(12)]
    assert refused("x", keys=keys).endswith(f" {', '.join(keys[:10])} and 2 more")
    assert " x" in refused("x", keys=[])


ESCAPES = "\x1b[2J\x1b]0;owned\x07\u202e\r"


def test_names_with_escapes_are_printed_escaped() -> None:
    keys = [f"shop/Deployment/web{ESCAPES}", f"shop/Deployment/{ESCAPES}"]
    for name in (f"shop/Deployment/WEB{ESCAPES}", "wholly-different"):
        message = refused(name, keys=keys)
        assert message.isprintable()
        assert r"\x1b[2J\x1b]0;owned\x07\u202e" in message
