"""The story of the demo: when messages arrive, how the target is configured, and the options."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, NamedTuple

import typer

QUEUE = "orders"
DEPLOYMENT = "order-worker"
METRIC = "demo_queue_messages_ready"


class Phase(NamedTuple):
    """A period in which messages arrive at one rate (messages per second)."""

    name: str
    seconds: float
    rate: float


@dataclass(frozen=True, slots=True)
class Story:
    """The phases, which begin again after the last one, and the settings.

    A worker consumes ``worker_rate`` messages per second and should have no more than
    ``messages_per_worker`` waiting for it.  Durations are in seconds.
    """

    phases: tuple[Phase, ...]
    worker_rate: float = 2.0
    messages_per_worker: int = 20
    max_workers: int = 10
    scale_down_window: int = 12
    sync_period: int = 1
    pod_start: float = 2.0
    longest: float = 150.0
    """When the demo fails if the workers are not back to one; no second round begins before."""

    def phase_at(self, elapsed: float) -> Phase:
        """Return the phase at an instant of the story."""
        elapsed %= self._round
        for phase in self.phases[:-1]:
            if elapsed < phase.seconds:
                return phase
            elapsed -= phase.seconds
        return self.phases[-1]

    def published(self, elapsed: float) -> float:
        """Return how many messages have arrived by an instant of the story."""
        rounds, elapsed = divmod(elapsed, self._round)
        total = rounds * sum(phase.seconds * phase.rate for phase in self.phases) if rounds else 0.0
        for phase in self.phases:
            spent = min(elapsed, phase.seconds)
            total += spent * phase.rate
            elapsed -= spent
        return total

    def with_load(self, share: float) -> "Story":
        """Return the story of a queue to which this share of the messages comes."""
        phases = tuple(phase._replace(rate=phase.rate * share) for phase in self.phases)
        return replace(self, phases=phases)

    @property
    def _round(self) -> float:
        return sum(phase.seconds for phase in self.phases)

    @property
    def last_phase_at(self) -> float:
        """When the last phase begins."""
        return sum(phase.seconds for phase in self.phases[:-1])


STORY = Story((Phase("calm", 6, 1.0), Phase("burst", 22, 16.0), Phase("drain", 122, 1.0)))


@dataclass(frozen=True, slots=True)
class Region:
    """A cluster of the demo, which has this share of the load; the only one has no name."""

    name: str = ""
    share: float = 1.0

    @property
    def labels(self) -> dict[str, str]:
        """What its series carry in the Prometheus of all clusters."""
        return {"cluster": self.name} if self.name else {}


_REGIONS = tuple(
    Region(*values) for values in (("eu", 1.0), ("us", 0.7), ("ap", 0.5), ("sa", 0.8), ("af", 0.6))
)
MOST_CLUSTERS = len(_REGIONS)


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The options; the simulated API server is the demo's own cluster."""

    context: Annotated[
        str | None,
        typer.Option(help="Use this context's cluster instead of a simulated API server."),
    ] = None
    namespace: Annotated[
        str, typer.Option(help="With --context: the namespace to create and remove.")
    ] = "autoscaler-demo"
    clusters: Annotated[
        int,
        typer.Option(min=1, help="Number of simulated clusters, served by one daemon."),
    ] = 1
    keep: Annotated[
        bool | None,
        typer.Option(
            "--keep/--no-keep",
            help="Continue until Ctrl-C; default: on a terminal.",
            show_default=False,
        ),
    ] = None
    story: Story = STORY

    @property
    def regions(self) -> Sequence[Region]:
        """The clusters."""
        return (Region(),) if self.clusters == 1 else _REGIONS[: self.clusters]


# -- the other workloads ---------------------------------------------------------------------------


LOAD = "demo_load"
"""A metric with a series for each of the services, whose load it is."""
CPU = "demo_cpu_cores"
"""A metric with a series for each pod of `WEB`: the cores that it uses."""
WEB = "web"
WEB_REQUEST = "20m"
_WEB_CORES_AT_TARGET = 0.02 * 0.6
VLLM = "qwen"
"""A model server; its requests have the names of vLLM's metrics."""
RUNNING, WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
_FULL_BATCH = 16
_WAVE_SECONDS = 50.0
_JOBS_EVERY, _JOBS_FOR = 45.0, 10.0
_NO_SERIES = "mailer"


@dataclass(frozen=True, slots=True)
class Service:
    """A workload: ``replicas`` at first, ``target`` is its entry in the configuration's targets.

    ``cpu`` is the request of each pod, ``annotations`` are the Deployment's.
    """

    name: str
    replicas: int
    target: Mapping[str, object]
    cpu: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)


def services(now: float, labels: Mapping[str, str]) -> tuple[Service, ...]:
    """Return the services of a demo that begins at a Unix time; ``labels`` are of its series."""

    def metric(name: str, average: int, *, maximum: int = 6, **more: object) -> dict[str, object]:
        selected = {"service": name, **labels}
        return external(LOAD, selected, average, maximum=maximum, **more)

    short = {"scaleDown": {"stabilizationWindowSeconds": 10}}
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}
    web = {
        "minReplicas": 2,
        "maxReplicas": 8,
        "metrics": [{"type": "Resource", "resource": cpu}],
        "behavior": short,
    }
    own = ", ".join([*labels, "namespace", "pod"])
    requests = {"name": "vllm_requests", "query": f"sum by ({own}) ({RUNNING} + {WAITING})"}
    average = {"type": "AverageValue", "averageValue": "20"}
    vllm = {
        "maxReplicas": 6,
        "metrics": [{"type": "Pods", "pods": {"metric": requests, "target": average}}],
        "behavior": short,
    }
    return (
        Service(WEB, 4, web, cpu=WEB_REQUEST),
        Service(VLLM, 2, vllm),
        Service("checkout", 2, metric("checkout", 50, maximum=4)),
        Service("search", 1, metric("search", 50, schedules=[_opened(now)])),
        Service("thumbnails", 0, metric("thumbnails", 5, idle={"after": "10s"}, behavior=short)),
        Service("reports", 3, metric("reports", 10), annotations={"autoscaler/paused": "true"}),
        Service(_NO_SERIES, 2, metric(_NO_SERIES, 20)),
    )


def loads(elapsed: float) -> Mapping[str, float]:
    """Return the load of each service at an instant; one service never has a load."""
    return {
        "checkout": 320 + 40 * _wave(elapsed),
        "search": 60 + 15 * _wave(elapsed),
        "thumbnails": 12.0 if elapsed % _JOBS_EVERY > _JOBS_EVERY - _JOBS_FOR else 0.0,
        "reports": 45.0,
    }


def web_cores(elapsed: float) -> float:
    """Return the cores that all pods of `WEB` use together: about what 2 to 7 of them should."""
    return _WEB_CORES_AT_TARGET * (4.5 + 2.4 * _wave(elapsed))


def vllm_requests(elapsed: float, pods: int, share: float) -> tuple[float, float]:
    """Return the running and the waiting requests of each pod of `VLLM` at an instant."""
    each = share * (55 + 40 * _wave(elapsed)) / max(pods, 1)
    return min(each, _FULL_BATCH), max(each - _FULL_BATCH, 0.0)


def _wave(elapsed: float) -> float:
    return math.sin(2 * math.pi * elapsed / _WAVE_SECONDS)


def external(
    name: str, labels: Mapping[str, str], average: int, *, maximum: int, **more: object
) -> dict[str, object]:
    """Return the spec of a target with an External metric, without its name.

    The metric has the series with these labels.
    """
    metric: dict[str, object] = {"name": name}
    if labels:
        metric["selector"] = {"matchLabels": dict(labels)}
    target = {"type": "AverageValue", "averageValue": str(average)}
    return {
        "minReplicas": 1,
        "maxReplicas": maximum,
        "metrics": [{"type": "External", "external": {"metric": metric, "target": target}}],
        **more,
    }


def _opened(now: float) -> dict[str, object]:
    """Return a window of each day that has been open for an hour."""
    begin = datetime.fromtimestamp(now, UTC) - timedelta(hours=1)
    end = begin + timedelta(hours=8)
    return {
        "name": "day-shift",
        "start": f"{begin.minute} {begin.hour} * * *",
        "end": f"{end.minute} {end.hour} * * *",
        "minReplicas": 3,
    }
