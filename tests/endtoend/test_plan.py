"""`plan` next to a daemon: it decides the same, since it continues with the daemon's history."""

import re
import time
from collections.abc import Mapping
from pathlib import Path

from tests.worlds.daemon import DaemonProcess, Document, command
from tests.worlds.process import free_port
from tests.worlds.service_account import Rule, one_by_one
from tests.worlds.world import World


def explained(file: Path, environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the first line of a plan, and until when the target is held."""
    plan = command("plan", "-c", file, "--explain", environment=environment).stdout
    until = re.search(r"keeps 6 until (\S+) \(6 replicas at the first sync, ", plan)
    assert until, plan
    assert "4 -> 6 (ScaleDownStabilized)" in plan
    return plan.partition("\n")[0], until[1]


def test_a_plan_names_the_same_hold_as_the_daemon_beside_it(
    world: World, document: Document
) -> None:
    """Its window ends when the daemon's does, also once the daemon has left only its state."""
    world.set_by_hand("a", 6)
    address, state = f"127.0.0.1:{free_port()}", str(world.folder / "state")
    # A plan that begins more than three periods after the daemon's end would begin a new hold.
    document |= {"syncPeriod": "5s", "listen": address, "stateDirectory": state}
    with world.start(document, "--log-level", "debug") as daemon:
        line = daemon.first_sync(world.key("a"))
        assert line["stabilize"] == {"before": 4, "after": 6, "reason": "ScaleDownStabilized"}
        first, until = explained(daemon.file, world.environment)
        assert first == (
            f"continues with the history that the daemon at http://{address} remembers of the "
            "target"
        )
        assert line["releases_at"].endswith(until)
        assert daemon.stop() == 0
    first, until = explained(daemon.file, world.environment)
    assert first.startswith(
        f"no daemon listens at http://{address}; "
        f"continues with the history that {state}/autoscaler.db held of the target"
    )
    assert line["releases_at"].endswith(until)
    daemon.write(document | {"stateDirectory": None})
    time.sleep(
        1
    )  # Instants are printed in whole seconds: a hold that begins now must end in another.
    first, until = explained(daemon.file, world.environment)
    assert first.startswith(
        "decides like a daemon that has just started: no target scales down before"
    )
    assert not line["releases_at"].endswith(until)


def test_rights_that_are_lacked_are_told_before_one_is_needed(
    world: World, document: Document
) -> None:
    """By a plan, and by a daemon that has nothing to write, with the manifest that grants them."""

    def reading(rules: list[Rule]) -> list[Rule]:
        return [rule for rule in one_by_one(rules) if rule["verbs"] != ["update"]]

    with world.elsewhere(reading) as (_, environment):
        file = world.write(document)
        ran = command("plan", "-c", file, environment=environment, code=1)
        sentence = (
            "do not permit to update deployments.apps/scale in namespace "
            f"{world.namespace}: nothing can be scaled; "
            "config/kubernetes/base/clusterrole.yaml grants it"
        )
        (note,) = [line for line in ran.stderr.splitlines() if "permit" in line]
        assert note.startswith("note: the credentials of ")
        assert note.endswith(sentence)
        with DaemonProcess(file, environment) as daemon:
            assert daemon.wait_event("rights")["message"].endswith(sentence)
            assert daemon.stop() == 0


def test_why_a_query_finds_nothing_is_in_the_log_and_the_status(
    world: World, document: Document
) -> None:
    """Asked of Prometheus by the daemon when it begins, and once."""
    document["queries"] = {"demand": f'sum({world.metric}{{team="x"}})'}
    with world.start(document) as daemon:
        sentence = daemon.wait_event("no_series")["message"]
        assert sentence.startswith(
            f'demand: {world.metric} has 1 series, but none with team="x": no series'
        )
        status = command("status", "--url", f"http://{daemon.address}").stdout
        found = sentence.removeprefix("demand: ")
        assert f"demand: the query returned no series; {found}\n" in status
        assert daemon.stop() == 0
        assert len(daemon.events("no_series")) == 1
