"""Whether the daemon in shadow agrees with real HPAs, while their loads change.

    python -m benchmarks.agreement --minutes 30

starts a real control plane with kube-controller-manager, Prometheus and prometheus-adapter, and the
daemon as a process with `--shadow`. Ten Deployments have an HPA each, of all types of metrics; the
daemon has the same specifications, and queries of the same series. With `--planted` some HPAs
differ on purpose. At the end it prints how each target agreed.
"""

import secrets
import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import requests

from benchmarks import daemon, fleet, hpa, measures
from benchmarks.agreement.page import LoadPage
from benchmarks.agreement.workloads import (
    CONTAINERS,
    CPU,
    CPU_RANGE,
    PLANTED,
    Workload,
    adapter_rules,
    queries,
    workloads,
)
from benchmarks.bed import Bed
from benchmarks.bulk import Request
from benchmarks.command import Report, exit_code, parser_of
from benchmarks.daemon import Daemon, Settings
from benchmarks.hpa import EXTERNAL_API, Adapter, HpaController
from tests.worlds.controlplane import workloads as manifests
from tests.worlds.controlplane.api import Api, ApiError, Json
from tests.worlds.controlplane.kubelet import FakeKubelet
from tests.worlds.waiting import wait_until

WARM_UP = 6.0
"""Minutes: longer than the first window of the daemon, in which nothing is compared."""
_APIS = ("metrics.k8s.io", "custom.metrics.k8s.io", EXTERNAL_API)
_CONTROLLERS = ("deployment-controller", "replicaset-controller")
_FIRST_REPLICAS = 3
_PERIOD = 15


@dataclass
class Stage:
    """What runs."""

    daemon: Daemon
    controller: HpaController

    def check(self) -> None:
        """Raise ServerFailedError if either autoscaler has ended."""
        self.controller.check()
        self.daemon.check()

    def agreement(self, since: float) -> Json:
        """Return what the daemon tells of how both agree since a Unix time."""
        at = datetime.fromtimestamp(since, UTC).isoformat().replace("+00:00", "Z")
        url = f"http://{self.daemon.address()}/api/v1/agreement"
        answer = requests.get(url, params={"since": at}, timeout=30)
        answer.raise_for_status()
        told: Json = answer.json()
        return told


@contextmanager
def at_work(report: Report, chosen: Sequence[Workload], settings: Settings) -> Iterator[Stage]:
    """Start everything; each HPA and each target has decided when the body begins."""
    page = LoadPage()
    with ExitStack() as opening:
        enter = opening.enter_context
        scrape = f"{settings.period // 3 or 1:g}s"
        bed = enter(Bed(report, scrape, controllers=_CONTROLLERS, pages=[page]))
        api = enter(bed.plane.api())
        enter(FakeKubelet(bed.plane.url, bed.plane.admin_token, bed.plane.ca_file))
        _deploy(api, chosen)
        page.serve(api, chosen)
        measures.wait_for_count(
            bed, f"rate({CPU.series}[{CPU_RANGE}])", len(chosen) * _FIRST_REPLICAS
        )
        relist = ["--metrics-relist-interval=1m"]
        enter(Adapter(bed, adapter_rules(), apis=_APIS, ready=_serves_pods, flags=relist))
        flags = {"sync": f"{settings.period:g}s", "cpu-initialization": settings.cpu_initialization}
        given = [f"--horizontal-pod-autoscaler-{of}-period={value}" for of, value in flags.items()]
        controller = enter(HpaController(bed.plane, bed.folder, given))
        # One by one: each is synced at the phase at which it was created.
        for workload in chosen:
            bed.bulk.send([Request("POST", fleet.HPAS, workload.hpa)])
            time.sleep(settings.period / len(chosen))
        wait_until("every HPA has decided", lambda: _all_decided(api), timeout=240)
        targets = [workload.target for workload in chosen]
        config = daemon.write_targets(bed, settings, queries(), targets)
        process = enter(Daemon(bed, config, len(chosen), "debug", "--shadow"))
        process.wait_first_sync(timeout=2 * settings.period + 60)
        yield Stage(process, controller)


def _deploy(api: Api, chosen: Sequence[Workload]) -> None:
    for workload in chosen:
        made = manifests.deployment(workload.name, _FIRST_REPLICAS, containers=CONTAINERS)
        api.create(fleet.DEPLOYMENTS, made)

    def ready() -> bool:
        found = api.get(fleet.DEPLOYMENTS)["items"]
        return all(
            deployment["status"].get("readyReplicas") == _FIRST_REPLICAS for deployment in found
        )

    wait_until("all pods are ready", ready)


def _serves_pods(api: Api) -> bool:
    """Return whether all APIs are served; pods have metrics as soon as the adapter listed them."""
    try:
        pods = api.get(hpa.metrics_path(_APIS[0], "pods"))["items"]
    except ApiError:
        return False
    return bool(pods) and all(api.healthy(f"/apis/{name}/v1beta1") for name in _APIS)


def _all_decided(api: Api) -> bool:
    return all(hpa.get("status", {}).get("desiredReplicas") for hpa in api.get(fleet.HPAS)["items"])


def summary(told: Json) -> Iterator[str]:
    """Yield what the daemon tells of each target, and of all in sums."""
    total: Counter[str] = Counter()
    for target in sorted(told["targets"], key=lambda target: target["agreement"] or 0):
        for each in target.get("times", ()):
            total[each["kind"]] += each["seconds"]
        yield f"{target['target']}: {target['message']}"
        for stretch in target.get("disagreements", ())[:5]:
            counts = f"{stretch['ours']} here, {stretch['theirs']} there"
            yield f"    {stretch['begin']} to {stretch['end']}, {counts}: {stretch['message']}"
    compared = (sum(total.values()) - total["notCompared"]) or 1.0
    for kind, seconds in total.most_common():
        yield f"{kind}: {seconds:.0f} s, {seconds / compared:.2%} of the compared time of all"
    yield f"agreement: {(total['equal'] + total['withinPeriod']) / compared:.2%}"


def parse(arguments: Sequence[str]) -> Namespace:
    """Return what the command line asks for, with a new seed unless it names one."""
    parser = parser_of("agreement", __doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="how long (30)")
    parser.add_argument("--warm-up", type=float, default=WARM_UP, help="minutes before that (6)")
    parser.add_argument("--planted", action="store_true", help="with differences made on purpose")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="of the loads")
    return parser.parse_args(arguments)


def chosen_by(options: Namespace) -> list[Workload]:
    """Return the workloads of a run."""
    planted = PLANTED if options.planted else {}
    found = workloads(options.seed)
    return [replace(workload, theirs=planted.get(workload.name, {})) for workload in found]


def main(arguments: Sequence[str]) -> int:
    """Run, and return the exit code."""
    options = parse(arguments)

    def work(report: Report) -> int:
        report(f"seed {options.seed}")
        with at_work(report, chosen_by(options), Settings(_PERIOD)) as stage:
            measures.let_pass(60 * options.warm_up, stage.check)
            began = time.time()
            measures.let_pass(60 * options.minutes, stage.check)
            for line in summary(stage.agreement(began)):
                report(line)
        return 0

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
