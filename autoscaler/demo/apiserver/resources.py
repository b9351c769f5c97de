"""The resources that the stand-in serves: the built-in ones, and those that CRDs declare."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ALL_VERBS = ("create", "delete", "get", "list", "patch", "update", "watch")
SUBRESOURCE_VERBS = ("get", "patch", "update")


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """`CustomResourceSubresourceScale`: where a custom resource keeps its counts."""

    spec_replicas: str = ".spec.replicas"
    status_replicas: str = ".status.replicas"
    label_selector: str | None = None


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource of a group and version, with its names in discovery."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    scale: ScalePaths | None = None
    status: bool = True
    custom: bool = False

    @property
    def group_version(self) -> str:
        """The `apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """The name in error messages, and under which its objects are stored."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def subresources(self) -> tuple[str, ...]:
        """Return the subresources that are served."""
        return (("status",) if self.status else ()) + (("scale",) if self.scale else ())


def _scaled(group: str, plural: str, kind: str, short: str) -> Resource:
    return Resource(group, "v1", plural, kind, short_names=(short,), scale=ScalePaths())


DEPLOYMENTS = _scaled("apps", "deployments", "Deployment", "deploy")
REPLICA_SETS = _scaled("apps", "replicasets", "ReplicaSet", "rs")
STATEFUL_SETS = _scaled("apps", "statefulsets", "StatefulSet", "sts")
REPLICATION_CONTROLLERS = _scaled("", "replicationcontrollers", "ReplicationController", "rc")
PODS = Resource("", "v1", "pods", "Pod", short_names=("po",))
EVENTS = Resource("", "v1", "events", "Event", short_names=("ev",), status=False)
AUTOSCALERS = Resource(
    "autoscaling",
    "v2",
    "horizontalpodautoscalers",
    "HorizontalPodAutoscaler",
    short_names=("hpa",),
)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", status=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False, short_names=("ns",))
CRDS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
    short_names=("crd", "crds"),
)
WORKLOADS = (DEPLOYMENTS, STATEFUL_SETS, REPLICA_SETS, REPLICATION_CONTROLLERS)
BUILT_IN = (*WORKLOADS, PODS, EVENTS, AUTOSCALERS, LEASES, NAMESPACES, CRDS)


def of_definition(crd: Mapping[str, Any]) -> list[Resource]:
    """Return the resource of each served version of a CustomResourceDefinition."""
    spec = crd["spec"]
    names = spec["names"]
    found = []
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        subresources = version.get("subresources") or {}
        scale = subresources.get("scale")
        found.append(
            Resource(
                spec["group"],
                version["name"],
                names["plural"],
                names["kind"],
                namespaced=spec.get("scope") == "Namespaced",
                short_names=tuple(names.get("shortNames") or ()),
                scale=None
                if scale is None
                else ScalePaths(
                    scale["specReplicasPath"],
                    scale["statusReplicasPath"],
                    scale.get("labelSelectorPath"),
                ),
                status="status" in subresources,
                custom=True,
            )
        )
    return found
