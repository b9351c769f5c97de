"""`autoscaler adopt` beside the real HPA controller: over and back, and no count ever moves."""

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import pytest

from tests.endtoend.conftest import HpaWorld
from tests.narrowing import assert_parts
from tests.worlds.cluster import others
from tests.worlds.controlplane import workloads
from tests.worlds.controlplane.api import Json
from tests.worlds.counts import Counts
from tests.worlds.daemon import DaemonProcess, Document, command, external
from tests.worlds.forking import Program
from tests.worlds.waiting import Background, wait_until
from tests.worlds.world import World


def metric(app: str) -> Document:
    """Return the metric of a workload, which the HPA and a daemon read alike."""
    return external("adopted", "1", app=app)


@dataclass(frozen=True)
class Bed:
    """A namespace with real HPAs, and a daemon that has their workloads as targets."""

    world: World
    daemon: DaemonProcess
    user: Mapping[str, str]
    """The environment of an operator."""

    @property
    def autoscalers(self) -> str:
        return others.path_of(self.world.namespace)

    @property
    def scaled_objects(self) -> str:
        return f"/apis/keda.sh/v1alpha1/namespaces/{self.world.namespace}/scaledobjects"

    def adopt(self, *arguments: object, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        url = f"http://{self.daemon.address}"
        argv = ("adopt", "-c", self.daemon.file, "--url", url, *arguments)
        return command(*argv, environment=self.user, code=code)

    def kill_after(self, lines: int, *arguments: object) -> None:
        """Run the command, and send SIGKILL once it has printed so many lines, if it still runs."""
        url, output = f"http://{self.daemon.address}", self.world.folder / "killed.txt"
        argv = [*map(str, ("adopt", "-c", self.daemon.file, "--url", url, *arguments))]
        with output.open("w") as file:
            program = Program(argv, {**os.environ, **self.user}, file.fileno(), file.fileno())
            wait_until("the lines", lambda: output.read_text().count("\n") >= lines)
            program.kill()
            assert program.wait(10) in {-signal.SIGKILL, 0}, output.read_text()

    def want(self, app: str, replicas: int) -> None:
        labels = {"namespace": self.world.namespace, "app": app}
        self.world.exporter.set("adopted", labels, replicas)

    def deploy_with_hpa(self, name: str, replicas: int) -> None:
        """Make a workload that needs its replicas, with an HPA and a target that sees it."""
        world = self.world
        world.deploy(name, replicas=replicas)
        self.want(name, replicas)
        others.create(world.api, world.namespace, autoscaler(f"hpa-of-{name}", name))
        file = world.folder / f"{name}.targets.yaml"
        file.write_text(json.dumps({"targets": [world.target(name, **spec(name))]}))
        wait_until("the HPA syncs", lambda: self.conditions(f"hpa-of-{name}"))
        wait_until("the target", lambda: self.has(name) and self.state(name) == "controlled")

    def conditions(self, name: str) -> str:
        """Return the conditions of an HPA; empty before its first sync."""
        status = self.world.api.get(f"{self.autoscalers}/{name}").get("status") or {}
        return json.dumps(status["conditions"]) if "conditions" in status else ""

    def specs(self) -> dict[str, Json]:
        items = self.world.api.get(self.autoscalers)["items"]
        return {document["metadata"]["name"]: document["spec"] for document in items}

    def has(self, name: str) -> bool:
        return self.world.key(name) in self.daemon.page("/api/v1/targets")

    def state(self, name: str) -> str:
        text = self.daemon.page(f"/api/v1/targets/{self.world.key(name)}")
        state: str = json.loads(text)["state"]["state"]
        return state


@pytest.fixture(scope="module")
def bed(hpa_world: HpaWorld) -> Iterator[Bed]:
    with hpa_world("adopting") as world:
        queries = {"adopted": f'adopted{{namespace="{world.namespace}"}}'}
        # The targets of the tests are in files beside it.
        with world.start(world.document(queries=queries, include=["*.targets.yaml"])) as daemon:
            daemon.wait_event("started")
            yield Bed(world, daemon, {"KUBECONFIG": str(world.plane.kubeconfig)})
            assert daemon.stop() == 0


def autoscaler(name: str, of: str) -> Json:
    """Return an HPA of the metric that a workload has, as its owner writes it."""
    hpa = others.autoscaler(name, of=of)
    hpa["spec"] |= spec(of)
    return hpa


def spec(app: str) -> Document:
    """Return what an HPA and a target of a workload have alike."""
    return {"maxReplicas": 10, "metrics": [metric(app)], **SPECS.get(app, {})}


def pods_a_period(pods: int, **more: object) -> Json:
    """Return rules that change so many pods in `STEP_SECONDS`."""
    policy = {"type": "Pods", "value": pods, "periodSeconds": STEP_SECONDS}
    return {"policies": [policy], **more}


class Keda(Background):
    """Does of KEDA what concerns a pause: it keeps an HPA for each ScaledObject that has none.

    No trigger is ever active, so each is scaled to 0 once its last activity is old.
    """

    def __init__(self, bed: Bed) -> None:
        super().__init__()
        self._bed = bed

    def _run(self) -> None:
        api, bed = self._bed.world.api, self._bed
        while not self._ended.wait(0.1):
            for manifest in api.get(bed.scaled_objects)["items"]:
                name = manifest["metadata"]["name"]
                paused = "autoscaling.keda.sh/paused" in manifest["metadata"].get("annotations", {})
                made = f"keda-hpa-{name}" in bed.specs()
                if paused and made:
                    api.delete(f"{bed.autoscalers}/keda-hpa-{name}")
                elif not paused and not made:
                    hpa = autoscaler(f"keda-hpa-{name}", manifest["spec"]["scaleTargetRef"]["name"])
                    hpa["metadata"]["labels"] = {"scaledobject.keda.sh/name": name}
                    others.create(api, bed.world.namespace, hpa)
                if (
                    not paused
                    and manifest.get("status", {}).get("lastActiveTime", LATER) < LONG_AGO_AND_MORE
                ):
                    bed.world.set_by_hand(manifest["spec"]["scaleTargetRef"]["name"], 0)


LONG_AGO, LONG_AGO_AND_MORE = "2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z"
LATER = "2100-01-01T00:00:00Z"


HPA = 'HorizontalPodAutoscaler "hpa-of-held"'
REPLICAS = {
    "steady": 3,
    "held": 5,
    "queue": 2,
    "least": 2,
    "most": 4,
    "behaved": 6,
    "tolerated": 4,
    "disabled": 4,
    "asleep": 0,
}
"""`held` is held by its HPA's window, `least` and `most` by its bounds, `tolerated` by a tolerance
and `disabled` by a policy; `queue` and `asleep`, which sleeps, are KEDA's; the load of the others
is as their counts."""
LOADS = REPLICAS | {"least": 1, "most": 9, "disabled": 9}
SCALED_OBJECTS = {"queue": "jobs", "asleep": "naps"}
STEP_SECONDS, SYNC_SECONDS = 4, 1
SPECS: dict[str, Document] = {
    "least": {"minReplicas": 2},
    "most": {"maxReplicas": 4},
    "behaved": {"behavior": {"scaleUp": {"stabilizationWindowSeconds": 60}}},
    "tolerated": {"behavior": {"scaleUp": {"tolerance": "0.3"}}},
    "disabled": {"behavior": {"scaleUp": {"selectPolicy": "Disabled"}}},
    "rising": {"behavior": {"scaleUp": pods_a_period(1)}},
    "falling": {"behavior": {"scaleDown": pods_a_period(1, stabilizationWindowSeconds=0)}},
}


@dataclass(frozen=True)
class Journey:
    """What was seen of targets that went over and back."""

    namespace: str
    counts: dict[str, list[int]]
    reviewed: str
    over: list[str]
    back: list[str]
    autoscalers: list[dict[str, Json]]
    """The specs before, in between and after."""
    states: list[dict[str, str]]
    scaled_object: Json
    """At the end."""

    def lines_of(self, name: str, lines: list[str]) -> list[str]:
        begin = f"{self.namespace}/Deployment/{name}: "
        return [line.removeprefix(begin) for line in lines if line.startswith(begin)]


@pytest.fixture(scope="module")
def journey(bed: Bed) -> Iterator[Journey]:
    """Let targets go over and back, once for all tests."""
    world, file = bed.world, bed.world.folder / "all.targets.yaml"
    scaled_objects = workloads.free_definition("keda.sh", "ScaledObject", "v1alpha1")
    workloads.serve(world.api, scaled_objects)
    for name, replicas in REPLICAS.items():
        bed.want(name, LOADS[name])
        world.deploy(name, replicas=replicas if name in SPECS else min(replicas, 1))
        if name not in SCALED_OBJECTS:
            others.create(world.api, world.namespace, autoscaler(f"hpa-of-{name}", name))
    for app, name in SCALED_OBJECTS.items():
        metadata = {"name": name, "labels": {"app.kubernetes.io/managed-by": "Helm"}}
        keda = {"scaleTargetRef": {"name": app}, "triggers": []}
        kind = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject"}
        world.api.create(bed.scaled_objects, {**kind, "metadata": metadata, "spec": keda})

    def active(instant: str) -> None:
        status = {"status": {"lastActiveTime": instant}}
        world.api.patch(f"{bed.scaled_objects}/jobs/status", status)

    active(LATER)
    targets = [world.target(name, **spec(name)) for name in REPLICAS]
    targets[-1]["idle"] = {"after": "1m"}
    file.write_text(json.dumps({"targets": targets}))
    with Keda(bed):
        wait_until("all have scaled", lambda: world.all_replicas() == REPLICAS)
        for name in REPLICAS:
            bed.daemon.first_sync(world.key(name))
        bed.want("held", 2)
        bed.want("tolerated", 5)
        reason = "ScaleDownStabilized"
        wait_until("the HPA's hold", lambda: reason in bed.conditions("hpa-of-held"))
        wait_until("KEDA's are there", lambda: len(bed.specs()) == len(REPLICAS))
        keys = [f"{world.namespace}/{name}" for name in REPLICAS]
        autoscalers, states = [bed.specs()], []
        with Counts(world.api, world.namespace) as counts:
            reviewed = bed.adopt(*keys).stdout
            assert bed.specs() == autoscalers[0]
            steps: list[list[str]] = []
            for direction in ([], ["--back"]):
                steps.append(bed.adopt(*keys, "--execute", *direction).stdout.splitlines())
                autoscalers.append(bed.specs())
                states.append({name: bed.state(name) for name in REPLICAS})
                if not direction:
                    active(LONG_AGO)
            wait_until("the HPAs sync", lambda: all(map(bed.conditions, bed.specs())))
        yield Journey(
            world.namespace,
            {name: [count for _, count in counts.seen[name]] for name in REPLICAS},
            reviewed,
            steps[0],
            steps[1],
            autoscalers,
            states,
            world.api.get(f"{bed.scaled_objects}/jobs"),
        )


def test_no_count_moves_over_an_adoption_and_back(journey: Journey) -> None:
    assert journey.counts == {name: [count] for name, count in REPLICAS.items()}
    over, back = journey.states
    own = {"held": "stabilizing", "most": "atMaximum", "disabled": "limited", "asleep": "idle"}
    assert over == dict.fromkeys(REPLICAS, "ok") | own
    assert back == dict.fromkeys(REPLICAS, "controlled")


def test_the_other_autoscalers_are_taken_away_and_come_back(journey: Journey) -> None:
    before, between, after = journey.autoscalers
    by_hand = {f"hpa-of-{name}" for name in REPLICAS if name not in SCALED_OBJECTS}
    assert before.keys() == by_hand | {"keda-hpa-jobs", "keda-hpa-naps"}
    assert between == {}
    assert after == before
    assert "annotations" not in journey.scaled_object["metadata"]


def test_each_step_is_a_line_in_its_order(journey: Journey) -> None:
    first, *cautions, saved, deleted, done = journey.lines_of("held", journey.over)
    assert first.startswith(HPA)
    assert first.count(HPA) == 2
    assert_parts(first, "stabilizing at 5")
    assert cautions
    assert [line.partition(" ")[0] for line in (saved, deleted)] == ["saved", "deleted"]
    assert all(HPA in line for line in (saved, deleted))
    assert done.startswith("done: ")
    assert_parts(done, "stabilizing at 5")
    made, back = journey.lines_of("held", journey.back)
    assert made == f"made {HPA}"
    assert back.startswith(f"done: {HPA}")
    assert_parts("".join(journey.lines_of("queue", journey.over)), 'paused ScaledObject "jobs"')


def test_a_review_shows_the_steps_as_commands(journey: Journey) -> None:
    lines = [line.strip() for line in journey.reviewed.splitlines()]
    commands = [shlex.split(line) for line in lines if line.startswith("kubectl ")]
    delete = ["kubectl", "delete", "hpa", "hpa-of-held", "-n", "adopting"]
    assert delete in commands
    pause = ["--overwrite", "autoscaling.keda.sh/paused=true"]
    annotate = ["kubectl", "annotate", "scaledobject", "jobs", "-n", "adopting", *pause]
    assert annotate in commands
    assert any('Helm manages ScaledObject "jobs"' in line for line in lines)


@pytest.mark.parametrize(("name", "first", "last"), [("rising", 2, 7), ("falling", 7, 2)])
def test_a_count_continues_to_change_at_the_same_rate_over_an_adoption(
    bed: Bed, name: str, first: int, last: int
) -> None:
    """One pod in four seconds over and back; none is skipped, and none taken back."""
    world = bed.world
    bed.deploy_with_hpa(name, first)
    with Counts(world.api, world.namespace) as counts:
        bed.want(name, last)
        counts.wait_for_other(name, first)
        bed.adopt(f"{world.namespace}/{name}", "--execute", "--force")
        over = counts.last(name)
        assert over != last
        counts.wait_for_other(name, over)
        own = len(counts.seen[name])
        bed.adopt(f"{world.namespace}/{name}", "--back", "--execute")
        assert counts.last(name) != last
        counts.wait_for(name, last)
    seen = counts.seen[name]
    step = 1 if last > first else -1
    assert [count for _, count in seen] == [*range(first, last, step), last]
    # A change by the HPA counts from the sync before the one that found it; an HPA that was just
    # made knows no change before it.
    pauses = [after - before for (before, _), (after, _) in pairwise(seen[1:own])]
    assert min(pauses) >= STEP_SECONDS - 2 * SYNC_SECONDS


def test_a_target_at_zero_is_scaled_again_once_it_is_given_back(bed: Bed) -> None:
    """The real HPA acts: it was not at 0 when the HPA came."""
    world = bed.world
    world.deploy("zero", replicas=0)
    bed.want("zero", 3)
    entry = world.target("zero", metrics=[metric("zero")])
    file = world.folder / "zero.targets.yaml"
    file.write_text(json.dumps({"targets": [entry]}))
    bed.daemon.wait("the target", lambda: bed.has("zero"))
    bed.adopt(f"{world.namespace}/zero", "--back", "--execute", "--force")
    wait_until("3 replicas", lambda: world.replicas("zero") == 3, timeout=30)


@pytest.mark.parametrize("lines", [1, 2, 3], ids=["seen", "saved", "deleted"])
def test_a_command_that_was_killed_between_two_steps_is_run_again(bed: Bed, lines: int) -> None:
    world, name = bed.world, f"killed{lines}"
    bed.deploy_with_hpa(name, 3)
    with Counts(world.api, world.namespace) as counts:
        for direction, least in (([], lines), (["--back"], 1)):
            arguments = (f"{world.namespace}/{name}", "--execute", "--force", *direction)
            bed.kill_after(least, *arguments)
            bed.adopt(*arguments)
            assert (f"hpa-of-{name}" in bed.specs()) is bool(direction)
    assert [count for _, count in counts.seen[name]] == [3]
