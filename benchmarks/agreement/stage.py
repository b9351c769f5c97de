"""All servers, the HPA at work, and the daemon in shadow beside it."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import requests
import urllib3

from benchmarks import daemon, fleet, hpa, measures
from benchmarks.agreement import signals
from benchmarks.agreement.page import LoadPage
from benchmarks.agreement.planted import STALE, UNSERVED, StaleAnswers
from benchmarks.agreement.recording import HpaLog, save
from benchmarks.agreement.signals import USUAL, Family, Ranges
from benchmarks.agreement.workloads import KEDA, Workload
from benchmarks.bed import Bed
from benchmarks.bulk import Request
from benchmarks.command import Report
from benchmarks.daemon import Daemon, Settings
from benchmarks.hpa import EXTERNAL_API, Adapter, HpaController
from benchmarks.keda.pairs import SCALED_OBJECTS
from benchmarks.keda.programs import Keda
from tests.worlds.controlplane import workloads as manifests
from tests.worlds.controlplane.api import Api, ApiError, Json
from tests.worlds.controlplane.kubelet import FakeKubelet
from tests.worlds.proxies.http import FaultProxy
from tests.worlds.waiting import wait_until

_APIS = ("metrics.k8s.io", "custom.metrics.k8s.io", EXTERNAL_API)
_CONTROLLERS = ("deployment-controller", "replicaset-controller")
_FIRST_REPLICAS = 3


@dataclass(frozen=True)
class Pace:
    """Seconds between syncs of both, and between scrapes; the ranges of rates."""

    period: int = 15
    scrape: int = 5
    ranges: Ranges = USUAL


@dataclass(frozen=True)
class Stand:
    """Where a workload stands at this moment: what its HPA and the daemon would have."""

    name: str
    hpa: int | None
    ours: int | None

    @property
    def agrees(self) -> bool:
        """Whether both want the same count."""
        return self.hpa == self.ours


@dataclass
class Stage:
    """What runs."""

    bed: Bed
    api: Api
    workloads: Sequence[Workload]
    daemon: Daemon
    controller: HpaController
    stale: StaleAnswers

    def check(self) -> None:
        """Raise ServerFailedError if either autoscaler has ended."""
        self.controller.check()
        self.daemon.check()

    def agreement(self, since: float) -> Json:
        """Return what the daemon tells of how both agree since a Unix time."""
        at = datetime.fromtimestamp(since, UTC).isoformat().replace("+00:00", "Z")
        answer = requests.get(
            f"http://{self.daemon.address()}/api/v1/agreement", params={"since": at}, timeout=30
        )
        answer.raise_for_status()
        told: Json = answer.json()
        return told

    def stands(self) -> list[Stand]:
        """Return where each workload stands."""
        theirs = {
            one["spec"]["scaleTargetRef"]["name"]: one.get("status", {}).get("desiredReplicas")
            for one in self.api.get(fleet.HPAS)["items"]
        }
        url = f"http://{self.daemon.address()}/api/v1/targets"
        answer = urllib3.request("GET", url, timeout=10).json()
        ours = {one["name"]: one["desiredReplicas"] for one in answer["targets"]}
        return [Stand(one.name, theirs.get(one.name), ours.get(one.name)) for one in self.workloads]


@contextmanager
def at_work(
    report: Report,
    workloads: Sequence[Workload],
    pace: Pace,
    out: Path,
    *,
    planted: bool = False,
    keda: bool = False,
    flags: Sequence[str] = (),
) -> Iterator[Stage]:
    """Start everything; each HPA and each target has decided when the body begins.

    As where the daemon is tried, the HPAs are at work before it. What both do is recorded in the
    folder `out`. With `keda` KEDA runs, makes the HPAs that are its own, and serves all External
    metrics. The `flags` are of kube-controller-manager.
    """
    page = LoadPage()
    with ExitStack() as opening:
        bed = opening.enter_context(
            Bed(report, f"{pace.scrape}s", controllers=_CONTROLLERS, pages=[page])
        )
        api = opening.enter_context(bed.plane.api())
        _deploy(bed, api, workloads, opening)
        page.serve(api, workloads)
        _wait_for_series(bed, pace, workloads)
        proxy = opening.enter_context(FaultProxy(bed.prometheus.url))
        stale = StaleAnswers(STALE)
        opening.enter_context(proxy.playing(stale.play, stale.concerns))
        apis = _APIS[:-1] if keda else _APIS
        without = UNSERVED if planted else ()
        opening.enter_context(_adapter(bed, pace, proxy.url, apis, without))
        if keda:
            opening.enter_context(Keda(bed))
        opening.enter_context(HpaLog(api, out / "hpa.jsonl"))
        period = f"--horizontal-pod-autoscaler-sync-period={pace.period}s"
        controller = opening.enter_context(HpaController(bed.plane, bed.folder, [period, *flags]))
        _create_hpas(bed, pace, workloads, keda=keda)
        # Until it has read its metrics once, an HPA asks for nothing: cpu of a pod that has just
        # started does not count for as long as the range of its query.
        names = {one.name for one in workloads if not one.reads(without)}
        wait_until("every HPA has decided", lambda: names <= _decided(api), timeout=240)
        config = _config(bed, pace, workloads)
        opening.callback(save, bed, out)
        process = opening.enter_context(Daemon(bed, config, len(workloads), "debug", "--shadow"))
        process.wait_first_sync(timeout=2 * pace.period + 60)
        yield Stage(bed, api, workloads, process, controller, stale)


def _deploy(bed: Bed, api: Api, workloads: Sequence[Workload], opening: ExitStack) -> None:
    plane = bed.plane
    opening.enter_context(FakeKubelet(plane.url, plane.admin_token, plane.ca_file))
    for workload in workloads:
        manifest = manifests.deployment(
            workload.name, _FIRST_REPLICAS, containers=signals.CONTAINERS
        )
        api.create(fleet.DEPLOYMENTS, manifest)

    def ready() -> bool:
        found = api.get(fleet.DEPLOYMENTS)["items"]
        return all(one["status"].get("readyReplicas") == _FIRST_REPLICAS for one in found)

    wait_until("all pods are ready", ready)


def _wait_for_series(bed: Bed, pace: Pace, workloads: Sequence[Workload]) -> None:
    """Wait until rates of the counters can be read."""
    pods = len(workloads) * _FIRST_REPLICAS
    series = f"rate({signals.CPU.series}[{pace.ranges.cpu}])"
    measures.wait_for_count(bed, series, pods * len(signals.CONTAINERS))


def _adapter(
    bed: Bed, pace: Pace, prometheus_url: str, apis: Sequence[str], without: Sequence[Family]
) -> Adapter:
    rules = signals.adapter_rules(pace.ranges, [KEDA], without)

    def ready(api: Api) -> bool:
        """Whether it serves all APIs; pods have metrics as soon as it has listed them."""
        try:
            pods = api.get(hpa.metrics_path(_APIS[0], "pods"))["items"]
        except ApiError:
            return False
        return bool(pods) and all(api.healthy(f"/apis/{one}/v1beta1") for one in apis)

    return Adapter(
        bed,
        rules,
        apis=apis,
        ready=ready,
        prometheus_url=prometheus_url,
        flags=["--metrics-relist-interval=1m"],
    )


def _config(bed: Bed, pace: Pace, workloads: Sequence[Workload]) -> Path:
    targets: list[Json] = [workload.target for workload in workloads]
    named, of_resources = signals.named_queries(pace.ranges), signals.resource_queries(pace.ranges)
    return daemon.write_targets(bed, Settings(pace.period), named, targets, of_resources)


def _create_hpas(bed: Bed, pace: Pace, workloads: Sequence[Workload], *, keda: bool) -> None:
    """Create the HPAs one by one: each is synced at the phase at which it was created."""
    for workload in workloads:
        if keda and workload.by_keda:
            scaled_object = workload.scaled_object(bed.prometheus.url)
            bed.bulk.send([Request("POST", SCALED_OBJECTS, scaled_object)])
        else:
            bed.bulk.send([Request("POST", fleet.HPAS, workload.hpa)])
        time.sleep(pace.period / len(workloads))


def _decided(api: Api) -> set[str]:
    """Return the workloads for which an HPA has asked for a count."""
    return {
        one["spec"]["scaleTargetRef"]["name"]
        for one in api.get(fleet.HPAS)["items"]
        if one.get("status", {}).get("desiredReplicas")
    }
