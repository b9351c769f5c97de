"""`autoscaler adopt` beside the real HPA controller: over and back, and no count ever moves."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.hpa import HpaController
from tests.worlds.cluster import others
from tests.worlds.controlplane.api import Api, Json
from tests.worlds.controlplane.kubelet import FakeKubelet
from tests.worlds.controlplane.metrics_api import MetricsApi
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.counts import Counts
from tests.worlds.daemon import DaemonProcess, Document, command, external, write_config
from tests.worlds.prometheus.exporter import Exporter
from tests.worlds.prometheus.server import PrometheusServer
from tests.worlds.service_account import service_account
from tests.worlds.waiting import Background, wait_until
from tests.worlds.world import World

PERIOD_SECONDS = 1
FLAGS = (
    f"--horizontal-pod-autoscaler-sync-period={PERIOD_SECONDS}s",
    "--kube-api-qps=1000",
    "--kube-api-burst=2000",
)


def metric(app: str) -> Document:
    """Return the metric of a workload, which the HPA and a daemon read alike."""
    return external("adopted", "1", app=app)


@dataclass(frozen=True)
class Bed:
    """A namespace with real HPAs, and a daemon that has their workloads in shadow."""

    world: World
    daemon: DaemonProcess
    user: Mapping[str, str]
    """The environment of an operator."""

    @property
    def autoscalers(self) -> str:
        """The path of the HPAs."""
        return others.path_of(self.world.namespace)

    @property
    def scaled_objects(self) -> str:
        """The path of the ScaledObjects."""
        return f"/apis/keda.sh/v1alpha1/namespaces/{self.world.namespace}/scaledobjects"

    def adopt(self, *arguments: object, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run the command for the daemon's file."""
        url = f"http://{self.daemon.address}"
        argv = ("adopt", "-c", self.daemon.file, "--url", url, *arguments)
        return command(*argv, environment=self.user, code=code)

    def want(self, app: str, replicas: int) -> None:
        """Have a workload need so many replicas."""
        labels = {"namespace": self.world.namespace, "app": app}
        self.world.exporter.set("adopted", labels, replicas)

    def conditions(self, name: str) -> str:
        """Return the conditions of an HPA; empty before its first sync."""
        status = self.world.api.get(f"{self.autoscalers}/{name}").get("status") or {}
        return json.dumps(status["conditions"]) if "conditions" in status else ""

    def specs(self) -> dict[str, Json]:
        """Return the specs of the HPAs by their names."""
        items = self.world.api.get(self.autoscalers)["items"]
        return {one["metadata"]["name"]: one["spec"] for one in items}

    def state(self, name: str) -> str:
        """Return the state of a target."""
        text = self.daemon.page(f"/api/v1/targets/{self.world.key(name)}")
        state: str = json.loads(text)["state"]["state"]
        return state


@pytest.fixture(scope="module")
def bed(
    control_plane: ControlPlane,
    admin_api: Api,
    kubelet: FakeKubelet,  # noqa: ARG001 - the HPA counts pods
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Bed]:
    """Start it."""
    folder, namespace = tmp_path_factory.mktemp("adopt"), "adopting"
    admin_api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    prometheus = PrometheusServer(folder / "prometheus", scrape_interval="200ms")
    with ExitStack() as stack:
        exporter = stack.enter_context(Exporter())
        stack.enter_context(prometheus.start([exporter.target]))
        stack.enter_context(MetricsApi(admin_api, prometheus.samples, folder))
        token = stack.enter_context(service_account(admin_api, namespace))
        stack.enter_context(HpaController(control_plane, folder, FLAGS))
        kubeconfig = control_plane.write_kubeconfig(folder / "kubeconfig", token)
        environment = {"KUBECONFIG": str(kubeconfig)}
        world = World(
            control_plane, admin_api, namespace, environment, prometheus, exporter, folder
        )
        file = write_config(folder / "autoscaler.yaml", document(world))
        daemon = stack.enter_context(DaemonProcess(file, environment))
        daemon.wait_event("started")
        yield Bed(world, daemon, {"KUBECONFIG": str(control_plane.kubeconfig)})
        assert daemon.stop() == 0
    admin_api.delete(f"/api/v1/namespaces/{namespace}")


def document(world: World, **more: object) -> Document:
    """Return a configuration without a target; those of the tests are in files beside it."""
    (world.folder / "none.yaml").write_text("targets: []\n")
    return {
        "prometheus": {"url": world.prometheus.url},
        "syncPeriod": f"{PERIOD_SECONDS}s",
        "listen": "127.0.0.1:0",
        "queries": {"adopted": f'adopted{{namespace="{world.namespace}"}}'},
        "include": ["*.targets.yaml", "none.yaml"],
        **more,
    }


def autoscaler(name: str, of: str) -> Json:
    """Return an HPA of the metric that a workload has, as its owner writes it."""
    hpa = others.autoscaler(name, of=of)
    hpa["spec"] |= {"maxReplicas": 10, "metrics": [metric(of)]}
    return hpa


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
            for one in api.get(bed.scaled_objects)["items"]:
                name = one["metadata"]["name"]
                paused = "autoscaling.keda.sh/paused" in one["metadata"].get("annotations", {})
                made = f"keda-hpa-{name}" in bed.specs()
                if paused and made:
                    api.delete(f"{bed.autoscalers}/keda-hpa-{name}")
                elif not paused and not made:
                    hpa = autoscaler(f"keda-hpa-{name}", one["spec"]["scaleTargetRef"]["name"])
                    hpa["metadata"]["labels"] = {"scaledobject.keda.sh/name": name}
                    others.create(api, bed.world.namespace, hpa)
                if not paused and one["status"]["lastActiveTime"] < LONG_AGO_AND_MORE:
                    bed.world.set_by_hand(one["spec"]["scaleTargetRef"]["name"], 0)


LONG_AGO, LONG_AGO_AND_MORE = "2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z"


def define_scaled_objects(api: Api) -> None:
    """Define KEDA's resource as far as it is needed."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version: Json = {"name": "v1alpha1", "served": True, "storage": True}
    version["subresources"] = {"status": {}}
    names = {"plural": "scaledobjects", "singular": "scaledobject", "kind": "ScaledObject"}
    spec: Json = {"group": "keda.sh", "names": names, "scope": "Namespaced"}
    spec["versions"] = [{**version, "schema": {"openAPIV3Schema": schema}}]
    definition = {"metadata": {"name": "scaledobjects.keda.sh"}, "spec": spec}
    api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    path = "/apis/keda.sh/v1alpha1/namespaces/default/scaledobjects"
    wait_until("KEDA's resource is served", lambda: api.healthy(path))


HPA = 'HorizontalPodAutoscaler "hpa-of-held"'
REPLICAS = {"steady": 3, "held": 5, "queue": 2}
"""The load of `steady` is as its count, `held` is held by its HPA, `queue` is KEDA's."""


@dataclass(frozen=True)
class Journey:
    """What was seen of three targets that went over and back."""

    namespace: str
    counts: dict[str, list[int]]
    file: Path
    reviewed: str
    over: list[str]
    back: list[str]
    autoscalers: list[dict[str, Json]]
    """The specs before, in between and after."""
    files: list[str]
    states: list[list[str]]
    scaled_object: Json
    """At the end."""

    def of(self, name: str, lines: list[str]) -> list[str]:
        """Return what was told of a target."""
        begin = f"{self.namespace}/Deployment/{name}: "
        return [line.removeprefix(begin) for line in lines if line.startswith(begin)]


@pytest.fixture(scope="module")
def journey(bed: Bed) -> Iterator[Journey]:
    """Let three targets go over and back, once for all tests."""
    world, file = bed.world, bed.world.folder / "all.targets.yaml"
    define_scaled_objects(world.api)
    for name, replicas in REPLICAS.items():
        bed.want(name, replicas)
        world.deploy(name)
        if name != "queue":
            others.create(world.api, world.namespace, autoscaler(f"hpa-of-{name}", name))
    metadata = {"name": "jobs", "labels": {"app.kubernetes.io/managed-by": "Helm"}}
    spec = {"scaleTargetRef": {"name": "queue"}, "triggers": []}
    kind = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject"}
    world.api.create(bed.scaled_objects, {**kind, "metadata": metadata, "spec": spec})

    def active(instant: str) -> None:
        status = {"status": {"lastActiveTime": instant}}
        world.api.patch(f"{bed.scaled_objects}/jobs/status", status)

    active("2100-01-01T00:00:00Z")
    # As people write it.
    entries = (
        f"# {name}\n- namespace: {world.namespace}\n"
        f"  scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: {name}}}\n"
        f"  mode: shadow  # until it is trusted\n  maxReplicas: 10\n"
        f"  metrics: {json.dumps([metric(name)])}\n"
        for name in REPLICAS
    )
    file.write_text("targets:\n" + "".join(entries))
    with Keda(bed):
        wait_until("all have scaled", lambda: world.all_replicas() == REPLICAS)
        for name in REPLICAS:
            bed.daemon.first_sync(world.key(name))
        bed.want("held", 2)
        held = "ScaleDownStabilized"
        wait_until("the HPA holds it", lambda: held in bed.conditions("hpa-of-held"))
        keys = [f"{world.namespace}/{name}" for name in REPLICAS]
        autoscalers, files, states = [bed.specs()], [file.read_text()], []
        with Counts(world.api, world.namespace) as counts:
            reviewed = bed.adopt(*keys).stdout
            assert (bed.specs(), file.read_text()) == (autoscalers[0], files[0])
            told: list[list[str]] = []
            for direction in ([], ["--back"]):
                told.append(bed.adopt(*keys, "--execute", *direction).stdout.splitlines())
                autoscalers.append(bed.specs())
                files.append(file.read_text())
                states.append([bed.state(name) for name in REPLICAS])
                if not direction:
                    active(LONG_AGO)
            wait_until("the HPAs sync", lambda: all(map(bed.conditions, bed.specs())))
        yield Journey(
            world.namespace,
            {name: [count for _, count in seen] for name, seen in counts.seen.items()},
            file,
            reviewed,
            told[0],
            told[1],
            autoscalers,
            files,
            states,
            world.api.get(f"{bed.scaled_objects}/jobs"),
        )


def test_no_count_moves(journey: Journey) -> None:
    """Over and back, also of one that the HPA holds by its stabilization window, and of KEDA's."""
    assert journey.counts == {name: [count] for name, count in REPLICAS.items()}
    assert journey.states == [["ok", "held", "ok"], ["shadow", "shadow", "shadow"]]


def test_the_other_autoscalers_are_taken_away_and_come_back(journey: Journey) -> None:
    """As they were, to the last field of their specs; of KEDA's own nothing is left."""
    before, between, after = journey.autoscalers
    assert before.keys() == {"hpa-of-steady", "hpa-of-held", "keda-hpa-jobs"}
    assert between == {}
    assert after == before
    assert "annotations" not in journey.scaled_object["metadata"]


def test_the_file_keeps_what_is_not_the_mode(journey: Journey) -> None:
    """Comments and all."""
    before, between, after = journey.files
    assert between == before.replace("mode: shadow  #", "#")
    assert after.replace("  mode: shadow\n", "") == between


def test_each_step_is_told(journey: Journey) -> None:
    """In the order in which it was done."""
    over = journey.of("held", journey.over)
    assert over[:1] + over[2:5] == [
        f"{HPA} wants 5 replicas, and found 5; adopted 400m of 1; here: {_stays(over[0])}",
        f"took `mode: shadow` out of {journey.file}",
        f"the daemon has it live, and leaves it alone while {HPA} is there",
        f"deleted {HPA}",
    ]
    assert over[1].startswith(f"saved {HPA} in ")
    assert over[5].startswith(
        "done: it is scaled from here, and was taken over at 5 replicas; stays at 5 replicas: "
        "the metrics ask for 2; held at 5 until "
    )
    assert journey.of("held", journey.back) == [
        f"made {HPA}",
        f"the daemon leaves it alone while {HPA} is there",
        f"wrote `mode: shadow` into {journey.file}",
        f"done: it is in shadow, beside {HPA}; replicas: 5",
    ]
    assert 'paused ScaledObject "jobs", and KEDA has deleted' in "".join(
        journey.of("queue", journey.over)
    )


def _stays(line: str) -> str:
    """Return what the daemon says in a line; when it ends is another time each time."""
    message = line.partition("; here: ")[2]
    assert message.startswith("in shadow: stays at 5 replicas: the metrics ask for 2; held at 5")
    return message


def test_the_steps_are_reviewed_as_commands(journey: Journey) -> None:
    """With the change of the file as a diff, and a warning where Helm would undo it."""
    lines = [line.strip() for line in journey.reviewed.splitlines()]
    assert "kubectl delete hpa hpa-of-held -n adopting" in lines
    assert "-  mode: shadow  # until it is trusted" in lines
    pause = "--overwrite autoscaling.keda.sh/paused=true"
    assert f"kubectl annotate scaledobject jobs -n adopting {pause}" in lines
    warned = 'note: Helm manages ScaledObject "jobs", and may undo the pause'
    assert f"{warned}; make the change there, too" in lines


def test_a_target_at_zero_is_scaled_again_once_it_is_given_back(bed: Bed) -> None:
    """The real HPA acts: it was not at 0 when the HPA came."""
    world = bed.world
    world.deploy("asleep", replicas=0)
    bed.want("asleep", 3)
    entry = world.target("asleep", metrics=[metric("asleep")])
    file = world.folder / "asleep.targets.yaml"
    file.write_text(json.dumps({"targets": [entry]}))
    key = world.key("asleep")
    bed.daemon.wait("the target", lambda: key in bed.daemon.page("/api/v1/targets"))
    bed.adopt(f"{world.namespace}/asleep", "--back", "--execute", "--anyway")
    wait_until("the HPA has scaled it", lambda: world.replicas("asleep") == 3, timeout=30)
