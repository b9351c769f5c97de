"""Differences between the two sides that are made on purpose, and must be found and named."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from benchmarks.agreement import signals
from benchmarks.agreement.signals import DELAY, MESSAGES, Family
from benchmarks.agreement.workloads import Workload
from tests.worlds.controlplane.api import Json
from tests.worlds.proxies.http import Exchange
from tests.worlds.proxies.wire import Request, head_of

LONGER_RANGE = "5m"

UNSERVED: Sequence[Family] = (DELAY,)
"""Families for which prometheus-adapter then has no rule."""

STALE = "external-noise"
"""The workload of which the adapter reads for a while what Prometheus answered before."""

STALE_FROM, STALE_UNTIL = 0.3, 0.5
"""From when to when, in shares of the run."""

GAP_FROM, GAP_SECONDS = 0.7, 60.0
"""When Prometheus is stopped, and for how long."""

EVERYTHING = "*"

Differing = Callable[[Json], Json]
"""A spec -> the fields in which one side differs from it."""


def _nothing(_: Json) -> Json:
    return {}


@dataclass(frozen=True)
class Planted:
    """A difference of one workload, or of all of them; `what` says it in words."""

    workload: str
    what: str
    theirs: Differing = field(default=_nothing)
    ours: Differing = field(default=_nothing)


def _longer_range(spec: Json) -> Json:
    (metric,) = spec["metrics"]
    query = signals.cpu_query(LONGER_RANGE)
    return {"metrics": [{**metric, "resource": {**metric["resource"], "query": query}}]}


def _larger_target(spec: Json) -> Json:
    (metric,) = spec["metrics"]
    return {"metrics": [{**metric, "object": {**metric["object"], "target": _LARGER}}]}


def _tolerant(_: Json) -> Json:
    rules = {"tolerance": "0.4"}
    return {"behavior": {"scaleUp": rules, "scaleDown": rules}}


_LARGER = signals.average("18")

PLANTED: Sequence[Planted] = (
    Planted("cpu-average", f"our query has the range {LONGER_RANGE}", ours=_longer_range),
    Planted("cpu-utilization", "the HPA has the tolerance 0.4", theirs=_tolerant),
    Planted("at-its-bounds", "the HPA has the maxReplicas 6", theirs=lambda _: {"maxReplicas": 6}),
    Planted("memory-average", "the HPA has the minReplicas 9", theirs=lambda _: {"minReplicas": 9}),
    Planted("object-average", "the HPA has the averageValue 18", theirs=_larger_target),
    Planted(
        "external-average",
        "the HPA has the scale-down window 30 s",
        theirs=lambda _: {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 30}}},
    ),
    Planted("external-value", "prometheus-adapter has no rule for the metric"),
    Planted(STALE, "prometheus-adapter reads old answers for a while"),
    Planted(EVERYTHING, f"Prometheus is stopped for {GAP_SECONDS:g} s"),
)


def planted(workloads: Sequence[Workload]) -> list[Workload]:
    """Return the workloads with the differences in their specifications."""
    by_name = {one.workload: one for one in PLANTED}
    return [_changed(workload, by_name.get(workload.name)) for workload in workloads]


def _changed(workload: Workload, one: Planted | None) -> Workload:
    if one is None:
        return workload
    return replace(workload, theirs=one.theirs(workload.spec), ours=one.ours(workload.spec))


class StaleAnswers:
    """A fault of a proxy: while `stale`, queries of one queue get the answer that they had before.

    What is asked and not remembered, and everything else, is answered as usual.
    """

    def __init__(self, queue: str) -> None:
        self.stale = False
        self._queue = queue
        self._last: bytes | None = None

    def concerns(self, request: Request) -> bool:
        """Whether a request is such a query."""
        return MESSAGES.series in request.text and f'queue="{self._queue}"' in request.text

    async def play(self, exchange: Exchange) -> None:
        """Answer."""
        if not self.stale or self._last is None:
            _, self._last = await exchange.fetch()
        named = {"Content-Type": "application/json", "Content-Length": str(len(self._last))}
        exchange.client.write(head_of("200 OK", named) + self._last)
        await exchange.client.drain()
