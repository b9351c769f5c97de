"""The workloads of the demo besides the queue's workers, so that a fleet is there to look at."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

LOAD = "demo_load"
"""A metric with a series for each of the services, whose load it is."""
CPU = "demo_cpu_cores"
"""A metric with a series for each pod of `WEB`: the cores that it uses."""
WEB = "web"
WEB_REQUEST = "20m"
_WEB_CORES_AT_TARGET = 0.02 * 0.6
_WAVE_SECONDS = 50.0
_JOBS_EVERY, _JOBS_FOR = 45.0, 10.0
_NO_SERIES = "mailer"


@dataclass(frozen=True, slots=True)
class Service:
    """A workload: ``replicas`` at first, ``target`` is its entry in the configuration's targets.

    ``cpu`` is what each of its pods requests, ``annotations`` are those of the Deployment.
    """

    name: str
    replicas: int
    target: Mapping[str, object]
    cpu: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)


def services(now: float, labels: Mapping[str, str]) -> tuple[Service, ...]:
    """Return the services of a demo that begins at a Unix time; ``labels`` are of its series."""

    def of(name: str, average: int, *, maximum: int = 6, **more: object) -> dict[str, object]:
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
    return (
        Service(WEB, 4, web, cpu=WEB_REQUEST),
        Service("checkout", 2, of("checkout", 50, maximum=4)),
        Service("search", 1, of("search", 50, schedules=[_opened(now)])),
        Service("thumbnails", 0, of("thumbnails", 5, idle={"after": "10s"}, behavior=short)),
        Service("reports", 3, of("reports", 10), annotations={"autoscaler/paused": "true"}),
        Service(_NO_SERIES, 2, of(_NO_SERIES, 20)),
    )


def loads(elapsed: float) -> Mapping[str, float]:
    """Return the load of each service at an instant; that of one is missing at all times."""
    return {
        "checkout": 320 + 40 * _wave(elapsed),
        "search": 60 + 15 * _wave(elapsed),
        "thumbnails": 12.0 if elapsed % _JOBS_EVERY > _JOBS_EVERY - _JOBS_FOR else 0.0,
        "reports": 45.0,
    }


def web_cores(elapsed: float) -> float:
    """Return the cores that all pods of `WEB` use together: about what 2 to 7 of them should."""
    return _WEB_CORES_AT_TARGET * (4.5 + 2.4 * _wave(elapsed))


def _wave(elapsed: float) -> float:
    return math.sin(2 * math.pi * elapsed / _WAVE_SECONDS)


def external(
    name: str, labels: Mapping[str, str], average: int, *, maximum: int, **more: object
) -> dict[str, object]:
    """Return what a target of so much of an External metric a replica is besides its name.

    The metric is that of the series with these labels.
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
