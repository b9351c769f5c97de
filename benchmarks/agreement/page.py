"""What Prometheus scrapes: the series of all workloads, made of their loads and of their pods."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from benchmarks import fleet
from benchmarks.agreement.workloads import CPU, MEMORY, RESOURCES, Family, Workload
from tests.worlds.controlplane import kubelet
from tests.worlds.controlplane.api import Api, Json
from tests.worlds.prometheus.exporter import Exporter, series_of

_LITTLE = {CPU: 0.050, MEMORY: 64.0 * 1024 * 1024}
"""prometheus-adapter wants both of each pod, whatever it is scaled on."""


class LoadPage(Exporter):
    """Serves the loads as they are at the moment of a scrape; one server scrapes it.

    What a pod uses is the load divided by the pods that are ready.  A counter goes on by the load
    of the moment for as long as the last scrape is ago.
    """

    def __init__(self) -> None:
        super().__init__()
        self._api: Api | None = None
        self._workloads: Sequence[Workload] = ()
        self._began = self._last = 0.0
        self._counters: dict[str, float] = {}

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
        counters: dict[str, float] = {}
        lines = []
        for workload in self._workloads:
            for family, series, amount in _series(workload, pods, now - self._began):
                value = amount
                if family.counter:
                    value = counters[series] = self._counters.get(series, 0.0) + amount * elapsed
                lines.append(f"{series} {value!r}\n")
        self._counters = counters  # pods that are gone are forgotten
        return "".join(lines).encode()


def _pods_by_app(api: Api) -> Mapping[str, Sequence[Json]]:
    """Return the pods, from the API server's cache."""
    found: dict[str, list[Json]] = defaultdict(list)
    for pod in api.get(fleet.PODS, resourceVersion="0")["items"]:
        if "deletionTimestamp" not in pod["metadata"]:
            found[pod["metadata"]["labels"]["app"]].append(pod)
    return found


def _series(
    workload: Workload, pods: Mapping[str, Sequence[Json]], at: float
) -> Iterator[tuple[Family, str, float]]:
    """Give each series with its amount, of a counter per second."""
    own, family = pods.get(workload.name, ()), workload.family
    total = workload.load(at) * workload.per_replica
    if family.key:
        yield family, _named(family, {family.key: workload.name}), total
    shares = dict(_LITTLE)
    if not family.key:
        shares[family] = total / max(1, sum(map(kubelet.is_ready, own)))
    for pod in own:
        for each, share in shares.items():
            container = {"container": "app"} if each in RESOURCES else {}
            yield each, _named(each, {"pod": pod["metadata"]["name"], **container}), share


def _named(family: Family, labels: Mapping[str, str]) -> str:
    return series_of(family.series, {"namespace": fleet.NAMESPACE, **labels})
