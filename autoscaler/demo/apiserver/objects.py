"""The resources that the stand-in serves, and what all of their objects have."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

KubeObject = dict[str, Any]
"""A JSON object; `Any` because its shape is its kind's, and a client may send any."""

ObjectKey = tuple[str, str]
"""Namespace (empty for a cluster-wide object) and name."""


@dataclass(frozen=True, slots=True)
class ServedResource:
    """One resource of a group and version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def group_version(self) -> str:
        """The `apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """The name in error messages, and under which its objects are stored."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


DEPLOYMENTS = ServedResource("apps", "v1", "deployments", "Deployment")
PODS = ServedResource("", "v1", "pods", "Pod")
EVENTS = ServedResource("", "v1", "events", "Event")
LEASES = ServedResource("coordination.k8s.io", "v1", "leases", "Lease")
NAMESPACES = ServedResource("", "v1", "namespaces", "Namespace", namespaced=False)
AUTOSCALERS = ServedResource(
    "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"
)
"""There are none; the autoscaler looks for them."""
RESOURCES = (DEPLOYMENTS, PODS, EVENTS, LEASES, NAMESPACES, AUTOSCALERS)


def timestamp(wall: float) -> str:
    """Write Unix seconds as `metav1.Time` does, to the second."""
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def meta(obj: Mapping[str, Any]) -> KubeObject:
    """Return the metadata, empty when there is none."""
    metadata = obj.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def labels(obj: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels."""
    return meta(obj).get("labels") or {}


def key(obj: Mapping[str, Any]) -> ObjectKey:
    """Return namespace and name."""
    return meta(obj).get("namespace", ""), meta(obj).get("name", "")


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Return whether the pod's Ready condition is true."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def typed(resource: ServedResource, obj: KubeObject) -> KubeObject:
    """Return the object with its kind and apiVersion."""
    return {**obj, "kind": resource.kind, "apiVersion": resource.group_version}


def deployment(name: str, replicas: int) -> KubeObject:
    """Return a Deployment of pause pods, labelled `app: <name>`."""
    container = {"name": "pause", "image": "registry.k8s.io/pause:3.10"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
            },
        },
    }
