"""`plan` next to a daemon: it decides the same, since it continues with the daemon's history."""

import re
import time
from collections.abc import Mapping
from pathlib import Path

from tests.narrowing import assert_parts
from tests.worlds.daemon import DaemonProcess, Document, command
from tests.worlds.process import free_port
from tests.worlds.service_account import Rule, one_by_one
from tests.worlds.world import World


def explained(file: Path, environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the first line of a plan, and until when the target is held."""
    plan = command("plan", "-c", file, "--explain", environment=environment).stdout
    until = re.search(r"6 until (\S+) \(6 replicas", plan)
    assert until, plan
    assert "4 -> 6 (ScaleDownStabilized)" in plan
    return plan.partition("\n")[0], until[1]


def test_a_plan_names_the_same_hold_as_the_daemon_beside_it(
    world: World, document: Document
) -> None:
    world.set_by_hand("a", 6)
    address, state = f"127.0.0.1:{free_port()}", str(world.folder / "state")
    # A plan that begins more than three periods after the daemon's end would begin a new hold.
    document |= {"syncPeriod": "5s", "listen": address, "stateDirectory": state}
    with world.start(document, "--log-level", "debug") as daemon:
        line = daemon.first_sync(world.key("a"))
        assert line["stabilize"] == {"before": 4, "after": 6, "reason": "ScaleDownStabilized"}
        first, until = explained(daemon.file, world.environment)
        assert_parts(first, f"http://{address}", "the target")
        assert line["releases_at"].endswith(until)
        assert daemon.stop() == 0
    first, until = explained(daemon.file, world.environment)
    assert_parts(first, f"http://{address}", f"{state}/autoscaler.db", "the target")
    assert line["releases_at"].endswith(until)
    daemon.write(document | {"stateDirectory": None})
    time.sleep(
        1
    )  # Instants are printed in whole seconds: a hold that begins now must end in another.
    first, until = explained(daemon.file, world.environment)
    assert_parts(first, "stateDirectory is null")
    assert not line["releases_at"].endswith(until)


def test_missing_rights_are_reported_before_one_is_needed(world: World, document: Document) -> None:
    def reading(rules: list[Rule]) -> list[Rule]:
        return [rule for rule in one_by_one(rules) if rule["verbs"] != ["update"]]

    with world.elsewhere(reading) as (_, environment):
        file = world.write(document)
        ran = command("plan", "-c", file, environment=environment, code=1)
        parts = ("update deployments.apps/scale", world.namespace, "deployments/scale]")
        (note,) = [line for line in ran.stderr.splitlines() if "permit" in line]
        assert_parts(note, *parts)
        with DaemonProcess(file, environment) as daemon:
            missing = daemon.wait_event("rights")
            assert missing["level"] == "warning"
            assert_parts(missing["message"], *parts)
            assert daemon.stop() == 0


def test_the_cause_of_an_empty_query_is_in_the_log_and_the_status(
    world: World, document: Document
) -> None:
    document["queries"] = {"demand": f'sum({world.metric}{{team="x"}})'}
    with world.start(document) as daemon:
        line = daemon.wait_event("no_series")
        assert (line["level"], line["first"]) == ("warning", [world.key("a")])
        metric, _, finding = line["message"].partition(": ")
        assert metric == "demand"
        assert_parts(finding, f"{world.metric} has 1 series", 'team="x"')
        status = command("status", "--url", f"http://{daemon.address}").stdout
        assert f"; {finding}\n" in status
        assert daemon.stop() == 0
        assert len(daemon.events("no_series")) == 1
