"""The resources that the stand-in serves, what all of their objects have, and its refusals."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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


# -- refusals ------------------------------------------------------------------------------------


class Refused(Exception):  # noqa: N818 - an answer of the server
    """A request that fails, with the `metav1.Status` to send, in the API server's own words."""

    def __init__(
        self, code: int, reason: str, message: str, details: KubeObject | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status: KubeObject = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code,
        }
        if details is not None:
            self.status["details"] = details


class NoSuchPath(Exception):  # noqa: N818 - the server's plain "404 page not found"
    """Nothing is served below this path; the answer is text, not a Status."""


def refused_object(
    code: int, reason: str, resource: ServedResource, name: str, message: str
) -> Refused:
    """Return the refusal of a request for one object, which stands for {} in the message."""
    parts = {"name": name, "group": resource.group, "kind": resource.plural}
    details = {field: value for field, value in parts.items() if value}
    return Refused(code, reason, message.format(f'{resource.qualified} "{name}"'), details)


def bad_request(message: str) -> Refused:
    """Return the refusal of a request that cannot be understood."""
    return Refused(400, "BadRequest", message)


@contextmanager
def if_there() -> Iterator[None]:
    """Suppress 404: a client has deleted the object meanwhile."""
    try:
        yield
    except Refused as refused:
        if refused.code != 404:
            raise
