"""What Prometheus scrapes: the series of all workloads, made of their loads and of their pods."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from benchmarks import fleet
from benchmarks.agreement.loads import constant
from benchmarks.agreement.signals import APP, CONTAINERS, CPU, MEMORY, PROXY_SHARE, Signal, Spread
from benchmarks.agreement.workloads import Workload
from tests.worlds.controlplane import kubelet
from tests.worlds.controlplane.api import Api, Json
from tests.worlds.prometheus.exporter import Exporter, series_of

Series = tuple[str, tuple[tuple[str, str], ...]]

_LITTLE_CPU, _LITTLE_MEMORY = 0.050, 64.0 * 1024 * 1024


class LoadPage(Exporter):
    """Serves the loads as they are at the moment of a scrape.

    What a pod uses is the load divided by the pods that are ready. A counter goes on by the load
    of the moment for as long as the last scrape is ago. One server scrapes it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._api: Api | None = None
        self._workloads: Sequence[Workload] = ()
        self._began = self._last = 0.0
        self._counters: dict[Series, float] = {}

    def serve(self, api: Api, workloads: Sequence[Workload]) -> None:
        """Begin with the loads of these workloads, whose pods the API server knows."""
        self._began = self._last = time.monotonic()
        self._workloads = workloads
        self._api = api

    def page(self) -> bytes:
        """Return the page as it is at this moment."""
        if self._api is None:
            return b""
        pods = _pods_by_app(self._api)
        now = time.monotonic()
        elapsed, self._last = now - self._last, now
        counters: dict[Series, float] = {}
        lines = []
        for workload in self._workloads:
            for signal in _with_all_resources(workload):
                for series, amount in _series(workload.name, signal, pods, now - self._began):
                    value = amount
                    if signal.family.counter:
                        value = self._counters.get(series, 0.0) + amount * elapsed
                        counters[series] = value
                    lines.append(f"{series_of(series[0], dict(series[1]))} {value!r}\n")
        # Pods that are gone are forgotten.
        self._counters = counters
        return "".join(lines).encode()


def _pods_by_app(api: Api) -> Mapping[str, Sequence[Json]]:
    """Return the pods, from the API server's cache."""
    found: dict[str, list[Json]] = defaultdict(list)
    for pod in api.get(fleet.PODS, resourceVersion="0")["items"]:
        if "deletionTimestamp" not in pod["metadata"]:
            found[pod["metadata"]["labels"]["app"]].append(pod)
    return found


def _with_all_resources(workload: Workload) -> Iterator[Signal]:
    """Give its signals, and a little cpu and memory: prometheus-adapter wants both of each pod."""
    yield from workload.signals
    families = [signal.family for signal in workload.signals]
    for family, amount in ((CPU, _LITTLE_CPU), (MEMORY, _LITTLE_MEMORY)):
        if family not in families:
            yield Signal(family, amount, constant(1.0), {})


def _series(
    name: str, signal: Signal, pods: Mapping[str, Sequence[Json]], at: float
) -> Iterator[tuple[Series, float]]:
    """Give each series of a signal with its amount, of a counter per second."""
    family, own = signal.family, pods.get(name, ())
    total = signal.load(at) * signal.per_replica
    share = total / max(1, sum(map(kubelet.is_ready, own)))
    namespace = ("namespace", fleet.NAMESPACE)
    if family.spread in {Spread.SHARE, Spread.TOTAL}:
        labels = (namespace, (family.key, name))
        yield (family.series, labels), share if family.spread is Spread.SHARE else total
        return
    for pod in own:
        labels = (namespace, ("pod", pod["metadata"]["name"]))
        if family.spread is Spread.PODS:
            yield (family.series, labels), share
            continue
        for container in CONTAINERS:
            part = 1.0 if container == APP else PROXY_SHARE
            yield (family.series, (*labels, ("container", container))), share * part
