"""The same queue under a ScaledObject and under a target of ours, field for field."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import daemon, fleet, ramp
from benchmarks.bed import Bed
from benchmarks.bulk import Request
from benchmarks.daemon import Settings
from tests.worlds.controlplane.api import Json

KEDA, OURS = "KEDA", "autoscaler"
SIDES = (KEDA, OURS)

SCALED_OBJECTS = f"/apis/keda.sh/v1alpha1/namespaces/{fleet.NAMESPACE}/scaledobjects"
FALLBACK: Json = {"failureThreshold": 3, "replicas": 6, "behavior": "static"}


@dataclass(frozen=True)
class Times:
    """Seconds: KEDA's pollingInterval, the period of the HPA's syncs and ours, and the cooldown.

    The cooldown is also the window in which scaling down is stabilized.
    """

    poll: int
    period: int
    cooldown: int


@dataclass(frozen=True)
class Pair:
    """Two Deployments that follow one queue."""

    queue: str
    fallback: bool = False

    def deployment(self, side: str) -> str:
        """Return the name of the Deployment on that side, which is also the ScaledObject's."""
        return f"{side.lower()}-{self.queue}"


def create(bed: Bed, pairs: Sequence[Pair], replicas: int) -> None:
    """Create both Deployments of each pair."""
    names = [pair.deployment(side) for pair in pairs for side in SIDES]
    fleet.create_named(bed.bulk, names, replicas)


def create_scaled_objects(bed: Bed, pairs: Iterable[Pair], times: Times) -> None:
    """Create KEDA's side."""
    url = bed.prometheus.url
    bed.bulk.send(
        Request("POST", SCALED_OBJECTS, scaled_object(pair, times, url)) for pair in pairs
    )


def annotate(bed: Bed, pair: Pair, side: str, annotations: Json) -> None:
    """Set annotations where that side looks for them; None takes one away."""
    collection = SCALED_OBJECTS if side == KEDA else fleet.DEPLOYMENTS
    path = f"{collection}/{pair.deployment(side)}"
    bed.bulk.send([Request("PATCH", path, {"metadata": {"annotations": annotations}})])


def scaled_object(pair: Pair, times: Times, prometheus: str) -> Json:
    """Return the ScaledObject of a pair."""
    query = f'sum({fleet.METRIC}{{queue="{pair.queue}"}})'
    spec: Json = {
        "scaleTargetRef": {"name": pair.deployment(KEDA)},
        "pollingInterval": times.poll,
        "cooldownPeriod": times.cooldown,
        "minReplicaCount": 0,
        "maxReplicaCount": 100,
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": behavior(times)}},
        "triggers": [
            {
                "type": "prometheus",
                "metadata": {
                    "serverAddress": prometheus,
                    "query": query,
                    "threshold": str(fleet.PER_REPLICA),
                },
            }
        ],
    }
    if pair.fallback:
        spec["fallback"] = FALLBACK
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": pair.deployment(KEDA), "namespace": fleet.NAMESPACE},
        "spec": spec,
    }


def target(pair: Pair, times: Times) -> Json:
    """Return our target of a pair."""
    spec = fleet.spec(pair.deployment(OURS), fleet.METRIC, pair.queue, behavior(times))
    spec["idle"] = {"replicas": 0, "after": f"{times.cooldown}s"}
    if pair.fallback:
        spec["fallback"] = FALLBACK
    return spec


def config(bed: Bed, pairs: Iterable[Pair], times: Times) -> Path:
    """Write our configuration: one query serves all targets."""
    queries = {fleet.METRIC: fleet.QUERY}
    targets = (target(pair, times) for pair in pairs)
    return daemon.write_targets(bed, Settings(times.period), queries, targets)


def behavior(times: Times) -> Json:
    """Return the HPA's default policies for going up, per sync instead of per 15 s."""
    down = {"stabilizationWindowSeconds": times.cooldown}
    return {**ramp.behavior(times.period), "scaleDown": down}
