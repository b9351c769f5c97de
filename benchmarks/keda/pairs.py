"""The same queue under a ScaledObject and under a target of ours, field for field."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import beside, daemon, fleet
from benchmarks.bed import Bed
from benchmarks.beside import OURS, Pair
from benchmarks.bulk import Request
from benchmarks.daemon import Settings
from tests.worlds.controlplane.api import Json

KEDA = "KEDA"
SIDES = (KEDA, OURS)

SCALED_OBJECTS = f"/apis/keda.sh/v1alpha1/namespaces/{fleet.NAMESPACE}/scaledobjects"


@dataclass(frozen=True)
class Times:
    """Seconds: KEDA's pollingInterval, the period of the HPA's syncs and ours, and the cooldown.

    The cooldown is also the window in which scaling down is stabilized.
    """

    poll: int
    period: int
    cooldown: int


def create(bed: Bed, pairs: Iterable[Pair], replicas: int) -> list[str]:
    """Create both Deployments of each pair, and return their names."""
    names = [pair.deployment(side) for pair in pairs for side in SIDES]
    fleet.create_named(bed.bulk, names, replicas)
    return names


def create_scaled_objects(bed: Bed, pairs: Iterable[Pair], times: Times) -> None:
    """Create KEDA's side."""
    url = bed.prometheus.url
    bed.bulk.send(
        Request("POST", SCALED_OBJECTS, scaled_object(pair, times, url)) for pair in pairs
    )


def scaled_object(pair: Pair, times: Times, prometheus: str) -> Json:
    """Return the ScaledObject of a pair."""
    trigger = {
        "serverAddress": prometheus,
        "query": f'sum({fleet.METRIC}{{queue="{pair.queue}"}})',
        "threshold": str(fleet.PER_REPLICA),
    }
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": pair.deployment(KEDA), "namespace": fleet.NAMESPACE},
        "spec": {
            "scaleTargetRef": {"name": pair.deployment(KEDA)},
            "pollingInterval": times.poll,
            "cooldownPeriod": times.cooldown,
            "minReplicaCount": 0,
            "maxReplicaCount": 100,
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": behavior(times)}},
            "triggers": [{"type": "prometheus", "metadata": trigger}],
        },
    }


def config(bed: Bed, pairs: Iterable[Pair], times: Times) -> Path:
    """Write our configuration: one query serves all targets."""
    idle = {"idle": {"replicas": 0, "after": f"{times.cooldown}s"}}
    targets = (
        fleet.spec(pair.deployment(OURS), fleet.METRIC, pair.queue, behavior(times)) | idle
        for pair in pairs
    )
    return daemon.write_targets(bed, Settings(times.period), {fleet.METRIC: fleet.QUERY}, targets)


def behavior(times: Times) -> Json:
    """Return what both sides are told."""
    return {
        "scaleUp": beside.default_policies(times.period),
        "scaleDown": {"stabilizationWindowSeconds": times.cooldown},
    }
