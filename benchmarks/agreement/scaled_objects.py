"""KEDA's side of workloads: ScaledObjects, and the HPAs that KEDA makes of them."""

from collections.abc import Sequence

from benchmarks import fleet
from benchmarks.agreement.signals import KEDA_LABEL, Signal, keda_metric
from tests.worlds.controlplane.api import Json


def scaled_object(spec: Json, signals: Sequence[Signal], prometheus: str) -> Json:
    """Return the ScaledObject that says the same as an HPA's spec of External metrics."""
    name = spec["scaleTargetRef"]["name"]
    scaled: Json = {
        "scaleTargetRef": {"name": name},
        "minReplicaCount": spec["minReplicas"],
        "maxReplicaCount": spec["maxReplicas"],
        "triggers": [_trigger(name, signal, prometheus) for signal in signals],
    }
    if "behavior" in spec:
        config = {"behavior": spec["behavior"]}
        scaled["advanced"] = {"horizontalPodAutoscalerConfig": config}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": name, "namespace": fleet.NAMESPACE},
        "spec": scaled,
    }


def converted(name: str, signals: Sequence[Signal]) -> list[Json]:
    """Return the metrics of the daemon, as `validate` converts a ScaledObject."""
    return [_converted(name, number, signal) for number, signal in enumerate(signals)]


def as_of_keda(hpa: Json) -> Json:
    """Return an HPA with the name, the labels, the owner and the metrics that KEDA gives one."""
    name = hpa["metadata"]["name"]
    labels = {
        "app.kubernetes.io/managed-by": "keda-operator",
        "app.kubernetes.io/name": f"keda-hpa-{name}",
        "app.kubernetes.io/part-of": name,
        KEDA_LABEL: name,
    }
    owner = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "name": name,
        "uid": "00000000-0000-0000-0000-000000000001",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {"name": f"keda-hpa-{name}", "labels": labels, "ownerReferences": [owner]}
    metrics = [_as_of_keda(name, *one) for one in enumerate(hpa["spec"]["metrics"])]
    return {**hpa, "metadata": metadata, "spec": {**hpa["spec"], "metrics": metrics}}


def _as_of_keda(name: str, number: int, metric: Json) -> Json:
    selector = {"matchLabels": {KEDA_LABEL: name}}
    named = {"name": keda_metric(number), "selector": selector}
    return {**metric, "external": {**metric["external"], "metric": named}}


def _converted(name: str, number: int, signal: Signal) -> Json:
    metric = {"name": keda_metric(number), "query": _query(name, signal)}
    return {**signal.metric, "external": {**signal.metric["external"], "metric": metric}}


def _trigger(name: str, signal: Signal, prometheus: str) -> Json:
    metadata = {
        "serverAddress": prometheus,
        "query": _query(name, signal),
        "threshold": f"{signal.per_replica:g}",
    }
    kind = signal.metric["external"]["target"]["type"]
    return {"type": "prometheus", "metricType": kind, "metadata": metadata}


def _query(name: str, signal: Signal) -> str:
    return signal.family.query(f'{signal.family.key}="{name}"')
