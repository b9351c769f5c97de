"""Results to show, and the page read back by the library's own parsers."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from autoscaler.core.decide import decide
from autoscaler.core.decision import Saturation
from autoscaler.core.extensions import NO_EXTENSIONS, Extensions, Fallback, Idle, Mode
from autoscaler.core.history import Contention, History, ScaleEvent
from autoscaler.core.observation import (
    Gap,
    GapKind,
    HoldReading,
    Hpa,
    Observation,
    OpenWindow,
    Pod,
    ReadFailure,
    Reading,
    Scale,
)
from autoscaler.core.spec import (
    Behavior,
    ExternalMetric,
    Flags,
    HorizontalPodAutoscalerSpec,
    MetricIdentifier,
    MetricSpec,
    ScaleTargetRef,
)
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import Query, Target
from autoscaler.core.writes import AcceptedWrite, WriteOutcome
from autoscaler.daemon.announcements import Announcements
from autoscaler.daemon.service_manager import Notifier
from autoscaler.persistence.record import Status
from autoscaler.sync.breakers import BreakerStatus
from autoscaler.telemetry.health import Component, Health
from autoscaler.telemetry.metrics import Metrics
from tests.core.builders import average, behavior, external, pods_policy, rules, values

NOW = 1_800_000_000.25
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
FORMATS = ("", OPENMETRICS)

Labels = tuple[tuple[str, str], ...]


def target_of(
    name: str = "web",
    *metrics: MetricSpec,
    namespace: str = "shop",
    minimum: int = 1,
    maximum: int = 20,
    behavior: Behavior | None = None,
    extensions: Extensions = NO_EXTENSIONS,
) -> Target:
    """Return a target, of one External metric unless told."""
    ref = ScaleTargetRef("apps/v1", "Deployment", name)
    chosen = metrics or (external(average("30")),)
    spec = HorizontalPodAutoscalerSpec(ref, minimum, maximum, chosen, behavior)
    queries = tuple(Query(f"q{index}") for index in range(len(chosen)))
    return Target(namespace, spec, queries, extensions=extensions)


def result_of(
    target: Target,
    *readings: Reading,
    scale: Scale | ReadFailure | None = None,
    history: History | None = None,
    controller: str | None = None,
    write: WriteOutcome | None = None,
    now: float = NOW,
    ranges: tuple[float, ...] | None = None,
    pods: tuple[Pod, ...] | None = None,
    windows: tuple[OpenWindow, ...] = (),
    hold: HoldReading | None = None,
    hpa: Hpa | None = None,
) -> SyncResult:
    """Decide a target as a sync would: from 3 replicas and 90 of each metric unless told."""
    observation = Observation(
        scale or Scale(3, 3, "app=web"),
        pods,
        readings or (values(90),) * len(target.spec.metrics),
        controller=controller,
        ranges=ranges,
        windows=windows,
        hold=hold,
        hpa=hpa,
    )
    decision, _ = decide(
        target.spec, Flags(), observation, history or History(), now, extensions=target.extensions
    )
    return SyncResult(target, decision, write)


def rate_limited(name: str = "limited") -> SyncResult:
    """Return the result of a target that a policy holds for the next 15 seconds."""
    up = ScaleEvent(2, NOW, outdated=False)
    return result_of(
        target_of(name, behavior=behavior(up=rules(pods_policy(2), window=0))),
        values(6000),
        history=History(scale_ups=(up,)),
    )


def saturated(name: str = "saturated") -> SyncResult:
    """Return the result of a target that has lacked three replicas for long."""
    result = result_of(target_of(name), values(600))
    lasting = Saturation(3, NOW - 1000, "TooManyReplicas")
    return replace(result, decision=replace(result.decision, saturation=lasting))


EMPTY = Gap(GapKind.EMPTY, "no series")
FAILED = Gap(GapKind.ERROR, "no answer")
ASLEEP = Extensions(idle=Idle(0, 60.0))
FALLBACK = Extensions(fallback=Fallback(6, 1))


def extended() -> tuple[SyncResult, ...]:
    """Return results of targets that are paused, idle, off, in shadow and on a fallback."""
    paused = Scale(3, 3, "app=web", annotations=(("autoscaler/paused", "scale-down"),))
    return (
        result_of(target_of("paused"), scale=paused),
        result_of(target_of("idle", extensions=ASLEEP), values(0), scale=Scale(0, 0, "app=web")),
        result_of(target_of("off"), scale=Scale(0, 0, "app=web", replicas_by="kubectl")),
        result_of(target_of("fallback", extensions=FALLBACK), FAILED),
        result_of(target_of("asked"), hold=HoldReading(1, '{job="orders"}')),
        result_of(target_of("seen", extensions=Extensions(mode=Mode.SHADOW)), values(600)),
    )


def metrics_of(*results: SyncResult, health: Health | None = None) -> Metrics:
    """Return metrics that were told of results, whose targets are all there is."""
    metrics = Metrics(health or Health())
    metrics.states.set_targets([result.target for result in results])
    for result in results:
        metrics.report(result)
    return metrics


def busy(health: Health) -> Metrics:
    """Return the metrics of a daemon to which all sorts of things have happened."""
    held = History(contention=Contention(3, 0, (1.0, 2.0, 3.0)))
    metrics = metrics_of(
        result_of(target_of("ok"), values(600), write=AcceptedWrite(Scale(6, 6, "app=web"))),
        result_of(target_of("blocked"), EMPTY),
        result_of(target_of("at-max", maximum=4), values(6000)),
        result_of(target_of("held"), values(600), history=held, now=4.0),
        result_of(target_of("returned"), ranges=(120.0,)),
        result_of(target_of("stabilized"), values(30)),
        *extended(),
        rate_limited(),
        saturated(),
        health=health,
    )
    metrics.record = lambda: Status(size=2**20, dropped=0, oldest=NOW - 3600)
    metrics.breakers = lambda: [BreakerStatus("", NOW + 1e9, 380, 500)]
    metrics.instruments.leads(leading=True)
    for name in Component:
        health.report(name, ok=True, message="well")
    observer = Announcements(health, metrics.instruments, Notifier({}))
    observer.prometheus_request("", "503", 0.2)
    observer.of_cluster("").kubernetes_request("PUT", "409", 0.2)
    return metrics


def families_of(metrics: Metrics, accept: str = "") -> dict[str, Metric]:
    """Read the page back, by the name of each metric without the ending of a counter."""
    content_type, parts = metrics.page(accept)
    read = read_openmetrics if content_type.startswith("application/openmetrics") else read_text
    return {family.name: family for family in read(b"".join(parts).decode())}


def series_of(
    metrics: Metrics, name: str, accept: str = "", *, without: Iterable[str] = ("target",)
) -> dict[Labels, float]:
    """Return the samples of one name by their labels, some of which are left out."""
    return {
        tuple(sorted((key, value) for key, value in sample.labels.items() if key not in without)): (
            sample.value
        )
        for family in families_of(metrics, accept).values()
        for sample in family.samples
        if sample.name == name
    }


def many(count: int) -> Sequence[SyncResult]:
    """Return results of targets of two metrics each."""
    results = []
    for number in range(count):
        metrics = tuple(
            ExternalMetric(MetricIdentifier(name), average("30"))
            for name in ("rabbitmq_queue_messages_ready", "http_requests_per_second")
        )
        target = target_of(f"worker-{number:05d}", *metrics, namespace=f"shop-{number % 50}")
        results.append(result_of(target, values(90 + number), values(30)))
    return results
