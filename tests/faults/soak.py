"""A soak: very many syncs with random faults on the way to real servers, and what they leave.

`python -m tests.faults.soak` runs 20,000 syncs of 200 targets and prints how memory, files and
threads went.  A sync comes as soon as the one before is done (`soaked`).
"""

import argparse
import asyncio
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import linear_regression

import urllib3

from benchmarks import fleet
from benchmarks.bulk import Bulk
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.daemon import external, target, write_config
from tests.worlds.process import free_port
from tests.worlds.prometheus.exporter import Exporter
from tests.worlds.prometheus.server import PrometheusServer
from tests.worlds.proxies import plays
from tests.worlds.proxies.http import Exchange, Fault, FaultProxy
from tests.worlds.proxies.wire import Request
from tests.worlds.service_account import service_account
from tests.worlds.waiting import beside

_QUERIES = 5
_PODS_EACH = 3
_REPLICAS = 5
_PER_POD_PART = 0.1
"""The part of the targets that is scaled on a metric of its pods."""
_ODDS = 0.02
"""How likely a request meets a fault."""
_HANG_SECONDS = 2.0
_CHANGE_SECONDS = 0.5
_CHANGED_PART = 0.1
"""The part of the loads that changes every `_CHANGE_SECONDS`."""
_WARM_UP = 0.25
"""The part of the syncs that is left out of the slopes: pools and windows fill."""

MEASURED = ("resident", "objects", "files", "sockets", "threads", "workers")
"""Bytes; objects that the garbage collector knows; threads of pools (workers) are not threads."""

Json = dict[str, object]


async def hang_for_a_while(exchange: Exchange) -> None:
    """Let the client lose timeouts, and reset the connection."""
    await asyncio.sleep(_HANG_SECONDS)
    exchange.reset()


COMMON: list[Fault] = [
    hang_for_a_while,
    plays.reset,
    plays.break_off,
    plays.truncate,
    plays.answer("200 OK", plays.HTML),
    plays.failure("401 Unauthorized", "Unauthorized", "a fault"),
    plays.failure("500 Internal Server Error", "InternalError", "a fault"),
    plays.failure("503 Service Unavailable", "ServiceUnavailable", "a fault"),
]
OF_PROMETHEUS = [*COMMON, plays.answer("400 Bad Request", b'{"status":"error"}')]
OF_API_SERVER = [
    *COMMON,
    plays.failure("404 Not Found", "NotFound", "a fault"),
    plays.failure("409 Conflict", "Conflict", "a fault"),
    plays.failure("429 Too Many Requests", "TooManyRequests", "a fault", Retry_After="0"),
]


def at_random(
    faults: list[Fault], chance: random.Random
) -> tuple[Fault, Callable[[Request], bool]]:
    """Return a fault that is another each time, and when it strikes: no watch, which is cut."""

    async def fault(exchange: Exchange) -> None:
        await chance.choice(faults)(exchange)

    return fault, lambda request: "watch=" not in request.target and chance.random() < _ODDS


@dataclass
class Report:
    """Regular measurements, and events and defects of the log."""

    measured: list[dict[str, int]] = field(default_factory=list)
    events: dict[str, int] = field(default_factory=dict)
    defects: list[str] = field(default_factory=list)
    met: int = 0
    """Requests that met a fault."""
    changes: int = 0
    """Times that a Deployment's replicas were changed."""

    @property
    def warm(self) -> list[dict[str, int]]:
        """The measurements after the warm-up."""
        last = self.measured[-1]["syncs"]
        return [sample for sample in self.measured if sample["syncs"] > last * _WARM_UP]

    def slope(self, what: str) -> float:
        """Return the growth per sync, by a linear fit after the warm-up."""
        warm = self.warm
        return linear_regression(
            [sample["syncs"] for sample in warm], [sample[what] for sample in warm]
        ).slope

    def lines(self) -> Iterator[str]:
        """Yield what there is to say, line by line."""
        yield f"{self.measured[-1]['syncs']} syncs, {self.met} faults, {self.changes} changes"
        for what in MEASURED:
            seen = [sample[what] for sample in self.warm]
            yield (
                f"{what:<9} {self.slope(what) * 1000:+.1f} per 1,000 syncs; "
                f"first {seen[0]}, least {min(seen)}, most {max(seen)}, last {seen[-1]}"
            )
        yield f"log events: {self.events}; defects: {len(self.defects)}"
        yield from self.defects[:5]


def of_number(number: int, *, per_pod: bool) -> Json:
    """Return a target that is scaled on its queue, or on its pods."""
    metric = external(f"load_{number % _QUERIES}", "10", queue=fleet.queue(number))
    if per_pod:
        average = metric["external"]["target"]
        metric = {"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": average}}
    return target(fleet.NAMESPACE, fleet.name(number), metric, maxReplicas=20)


class Soak:
    """The servers, the proxies before them, and loads that wander."""

    def __init__(self, targets: int, folder: Path, stack: ExitStack, seed: int) -> None:
        self._folder = folder
        self._chance = random.Random(seed)  # noqa: S311 - no secret
        self._per_pod = range(int(targets * _PER_POD_PART))
        self._queues = range(len(self._per_pod), targets)
        self._exporter = stack.enter_context(Exporter())
        self._prometheus = stack.enter_context(
            PrometheusServer(folder / "prometheus", scrape_interval="500ms")
        )
        for number in (*self._per_pod, *self._queues):
            self._load(number, 10.0 * _REPLICAS)
        self._prometheus.start([self._exporter.target])
        self._plane = stack.enter_context(ControlPlane(controllers=()))
        self._bulk = stack.enter_context(Bulk(self._plane))
        fleet.create_namespace(self._bulk)
        fleet.create_deployments(self._bulk, range(targets), _REPLICAS)
        fleet.create_pods(self._bulk, self._per_pod, _PODS_EACH)
        api = stack.enter_context(self._plane.api())
        self._token = stack.enter_context(service_account(api, fleet.NAMESPACE))
        self._to_prometheus = stack.enter_context(FaultProxy(self._prometheus.url))
        self._to_api = stack.enter_context(FaultProxy(self._plane.url, ca_file=self._plane.ca_file))

    def run(self, syncs: int, every: int, say: Callable[[str], None]) -> Report:
        """Run a number of syncs, with a measurement after each ``every`` of them."""
        report, page = Report(), f"127.0.0.1:{free_port()}"
        kubeconfig = self._to_api.write_kubeconfig(self._folder / "kubeconfig", token=self._token)
        file = write_config(self._folder / "autoscaler.yaml", self._config(page))
        before = self._changes()
        with (
            self._to_prometheus.playing(*at_random(OF_PROMETHEUS, self._chance)) as first,
            self._to_api.playing(*at_random(OF_API_SERVER, self._chance)) as second,
            self._wandering(),
            subprocess.Popen(
                [sys.executable, "-m", "tests.faults.soaked", str(file), str(syncs), str(every)],
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | {"KUBECONFIG": str(kubeconfig)},
            ) as process,
        ):
            assert process.stdout is not None
            for text in process.stdout:
                line = json.loads(text)
                if "syncs" in line:
                    report.measured.append(line)
                    say(text.strip())
                    # Somebody looks at the page, too.
                    urllib3.request("GET", f"http://{page}/metrics", timeout=30)
                else:
                    report.events, report.defects = line["events"], line["defects"]
            report.met = len(first.met) + len(second.met)
        if process.returncode != 0:
            report.defects.append(f"exit code {process.returncode}")
        report.changes = self._changes() - before
        return report

    def _config(self, page: str) -> Json:
        queries: Json = {
            f"load_{number}": {"query": f"sum by (queue) (load_{number})", "maxAge": "10000h"}
            for number in range(_QUERIES)
        }
        queries["rps"] = {"query": "sum by (namespace, pod) (rps)", "maxAge": "10000h"}
        return {
            "prometheus": {"url": self._to_prometheus.url},
            "syncPeriod": "15s",
            "stateDirectory": str(self._folder / "state"),
            "listen": page,
            "queries": queries,
            "targets": [
                *(of_number(number, per_pod=True) for number in self._per_pod),
                *(of_number(number, per_pod=False) for number in self._queues),
            ],
        }

    def _load(self, number: int, value: float | None) -> None:
        if number in self._per_pod:
            for pod in fleet.pod_names(number, _PODS_EACH):
                self._set("rps", {"namespace": fleet.NAMESPACE, "pod": pod}, value)
        else:
            self._set(f"load_{number % _QUERIES}", {"queue": fleet.queue(number)}, value)

    def _set(self, name: str, labels: dict[str, str], value: float | None) -> None:
        if value is None:
            self._exporter.remove(name, labels)
        else:
            self._exporter.set(name, labels, value)

    def _changes(self) -> int:
        items = json.loads(self._bulk.text(fleet.DEPLOYMENTS))["items"]
        return sum(item["metadata"]["generation"] for item in items)

    @contextmanager
    def _wandering(self) -> Iterator[None]:
        """Let loads change, and cut a watch now and then."""
        stop = threading.Event()
        numbers = [*self._per_pod, *self._queues]

        def wander() -> None:
            while not stop.wait(_CHANGE_SECONDS):
                for number in self._chance.sample(numbers, int(len(numbers) * _CHANGED_PART)):
                    odd = self._chance.choice([math.nan, math.inf, None])
                    value = self._chance.uniform(0, 200)
                    self._load(number, odd if self._chance.random() < _ODDS else value)
                if self._chance.random() < _ODDS * 5:
                    with suppress(TimeoutError):
                        self._to_api.cut(lambda request: "watch=" in request.target)

        with beside(wander, stop):
            yield


def soak(
    syncs: int,
    targets: int,
    *,
    every: int,
    seed: int = 1,
    say: Callable[[str], None] = lambda _: None,
) -> Report:
    """Run a soak with servers of its own."""
    with tempfile.TemporaryDirectory(prefix="soak-") as folder, ExitStack() as stack:
        return Soak(targets, Path(folder), stack, seed).run(syncs, every, say)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--syncs", type=int, default=20_000)
    parser.add_argument("--targets", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    done = soak(
        options.syncs,
        options.targets,
        every=max(1, options.syncs // 100),
        seed=options.seed,
        say=lambda text: print(text, flush=True),
    )
    print(*done.lines(), sep="\n")
