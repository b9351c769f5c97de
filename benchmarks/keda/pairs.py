"""The same queues under ScaledObjects and under targets of ours, field for field."""

from collections.abc import Iterable
from pathlib import Path

from benchmarks import daemon, fleet
from benchmarks.bed import Bed
from benchmarks.daemon import Settings
from tests.worlds.controlplane.api import Json

SCALED_OBJECTS = f"/apis/keda.sh/v1alpha1/namespaces/{fleet.NAMESPACE}/scaledobjects"

PERIOD = 15
"""Seconds: the HPA's own period, and our `syncPeriod`; KEDA polls as often."""

COOLDOWN = 300
"""Seconds until a queue without messages has no workers."""


def name_of(number: int) -> str:
    """Return the name of KEDA's Deployment, which is also that of its ScaledObject."""
    return f"keda-{fleet.name(number)}"


def scaled_object(number: int, prometheus: str) -> Json:
    """Return the ScaledObject of a queue."""
    trigger = {
        "serverAddress": prometheus,
        "query": f'sum({fleet.METRIC}{{queue="{fleet.queue(number)}"}})',
        "threshold": str(fleet.PER_REPLICA),
    }
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": name_of(number), "namespace": fleet.NAMESPACE},
        "spec": {
            "scaleTargetRef": {"name": name_of(number)},
            "pollingInterval": PERIOD,
            "cooldownPeriod": COOLDOWN,
            "minReplicaCount": 0,
            "maxReplicaCount": 100,
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": fleet.UNLIMITED_DOWN}},
            "triggers": [{"type": "prometheus", "metadata": trigger}],
        },
    }


def config(bed: Bed, numbers: Iterable[int]) -> Path:
    """Write our configuration: one query serves all targets."""
    idle = {"idle": {"replicas": 0, "after": f"{COOLDOWN}s"}}
    queries = {fleet.METRIC: fleet.QUERY}
    specs = (fleet.queue_spec(number) | idle for number in numbers)
    return daemon.write_targets(bed, Settings(PERIOD), queries, specs)
