"""A daemon in shadow beside the real HPA controller: what it tells of how both agree."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.endtoend.conftest import HpaWorld
from tests.narrowing import assert_parts
from tests.worlds.cluster import others
from tests.worlds.controlplane.api import Json
from tests.worlds.daemon import Document, command, external, running
from tests.worlds.waiting import wait_until
from tests.worlds.world import World

NEEDED = {"same": 3, "other": 4, "keda": 2}
"""The replicas that each workload needs, at first one less; the HPA of `other` has two at most."""

AT_ONCE = {"scaleDown": {"stabilizationWindowSeconds": 0}}
"""Nothing is held from before the begin, so that all of the time is compared."""


@pytest.fixture(scope="module")
def world(hpa_world: HpaWorld) -> Iterator[World]:
    """Start workloads with their HPAs, of which KEDA made one."""
    with hpa_world("agreeing") as world:
        for app, replicas in NEEDED.items():
            labels = {"namespace": world.namespace, "app": app}
            world.exporter.set("jobs", labels, replicas - 1)
            world.deploy(app, replicas=1)
        keda = hpa("keda-hpa-keda", "keda")
        keda["metadata"]["labels"] = {"scaledobject.keda.sh/name": "keda"}
        for made in (hpa("same", "same"), hpa("other", "other", maxReplicas=2), keda):
            others.create(world.api, world.namespace, made)
        yield world


def hpa(name: str, of: str, **spec: object) -> Json:
    """Return an HPA of the jobs that a workload has."""
    made = others.autoscaler(name, of=of)
    made["spec"] |= {"maxReplicas": 10, "metrics": [external("jobs", "1", app=of)], **spec}
    made["spec"]["behavior"] = AT_ONCE
    return made


def document(world: World) -> Document:
    rules = {"maxReplicas": 10, "mode": "shadow", "behavior": AT_ONCE}
    return world.document(
        *(world.target(app, metrics=[external("jobs", "1", app=app)], **rules) for app in NEEDED),
        stateDirectory=str(world.folder / "state"),
        queries={"jobs": f'jobs{{namespace="{world.namespace}"}}'},
    )


def limited(target: Json) -> list[Json]:
    """Return the disagreements in which only ours has all the replicas that `other` needs."""
    counts = (NEEDED["other"], 2)
    return [
        item for item in target.get("disagreements", ()) if (item["ours"], item["theirs"]) == counts
    ]


def test_each_target_in_shadow_is_compared_with_the_real_hpa(world: World) -> None:
    """API and plan show counts, readings, and the name of a maximum that differs.

    The comparison of all of the time is there without the daemon too.
    """
    file = world.write(document(world))

    def ran(*arguments: object, code: int = 0) -> str:
        return command(*arguments, environment=world.environment, code=code).stdout

    with running(file, world.environment) as daemon:

        def by_name() -> dict[str, Any]:
            found = json.loads(daemon.page("/api/v1/agreement"))
            assert (found["live"], found["shadow"]) == (0, 3)
            return {item["target"].rpartition("/")[2]: item for item in found["targets"]}

        def known() -> bool:
            targets = by_name()
            kinds = {
                name: {time["kind"] for time in target.get("times", ()) if time["seconds"] > 0}
                for name, target in targets.items()
            }
            alike = "equal" in kinds["same"] & kinds["keda"]
            differs = targets["other"]["verdict"] == "differs"
            return alike and differs and bool(limited(targets["other"]))

        def wanted() -> list[int | None]:
            return [target.get("hpa", {}).get("desiredReplicas") for target in by_name().values()]

        wait_until("all decisions", lambda: wanted() == [2, 2, 1], timeout=30)
        for app, replicas in NEEDED.items():
            labels = {"namespace": world.namespace, "app": app}
            world.exporter.set("jobs", labels, replicas)
        wait_until("all changes", lambda: wanted() == [3, 2, 2], timeout=30)
        plan = {
            form: ran("plan", "-c", file, *form.split()) for form in ("", "--explain", "-o json")
        }
        status = ran("status", "--url", f"http://{daemon.address}")
        wait_until("each is compared", known, timeout=120)
        same, other, keda = (by_name()[name] for name in NEEDED)
        assert daemon.events("replicas_changed_by_other") == []
        assert daemon.stop() == 0
    counts = {"currentReplicas": 3, "desiredReplicas": 3}
    assert same["hpa"] == {"name": "same", **counts, "metrics": ["jobs 1 of 1"]}
    # In so short a time a sync at which only one of both has followed may be more than a twentieth.
    assert same["verdict"] in {"early", "differs"}
    assert (limited(same), same.get("differences", [])) == ([], [])
    assert (keda["hpa"]["name"], keda["hpa"]["scaledObject"]) == ("keda-hpa-keda", "keda")
    assert (keda["verdict"] in {"early", "differs"}, keda["hpa"]["desiredReplicas"]) == (True, 2)
    assert other["verdict"] == "differs"
    (longest, *_) = limited(other)
    assert_parts(longest["message"], "maxReplicas", "10", "2")
    line = next(line for line in plan[""].splitlines() if 'Autoscaler "other"' in line).strip()
    assert_parts(line, "2 replicas", "jobs 2 of 1")
    assert f"\n  HPA            {line}\n" in plan["--explain"]
    planned = {load["target"]: load for load in json.loads(plan["-o json"])}
    assert planned[world.key("other")]["hpa"]["desiredReplicas"] == 2
    assert_parts(status.splitlines()[-1], "0 of 3", "3 in shadow")
    state = world.folder / "state"
    left = json.loads(ran("agreement", "--state-directory", state, "-o", "json", code=1))["targets"]
    assert {number["target"] for number in left} == {world.key(name) for name in NEEDED}
    kept = {number["target"]: number["comparedSeconds"] for number in left}
    assert all(
        kept[metric["target"]] >= metric["comparedSeconds"] > 0 for metric in (same, other, keda)
    )
