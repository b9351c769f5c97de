"""The scale of a workload, read from the workload itself, equal to what GET scale answers."""

from collections.abc import Callable
from sys import intern
from typing import TypedDict, cast

from autoscaler.adapters.cluster import selector_json
from autoscaler.adapters.cluster.failures import JsonObject
from autoscaler.adapters.cluster.kinds import ScalableResource
from autoscaler.adapters.cluster.selector_json import LabelSelectorJson
from autoscaler.core.observation import Scale

ScaleOf = Callable[[JsonObject], Scale]
"""Reads a scale of an object.  Raises one of `pods.MALFORMED` for what has none."""


class _MetadataJson(TypedDict, total=False):
    resourceVersion: str


class _SpecJson(TypedDict, total=False):
    replicas: int
    selector: LabelSelectorJson | dict[str, str]


class _StatusJson(TypedDict, total=False):
    replicas: int


class _WorkloadJson(TypedDict, total=False):
    metadata: _MetadataJson
    spec: _SpecJson
    status: _StatusJson


def built_in(resource: ScalableResource) -> ScaleOf | None:
    """Return how to read a kind that every API server has; None for a custom resource."""
    return _BUILT_IN.get((resource.group, resource.plural))


def _of_label_selector(obj: JsonObject) -> Scale:
    selector = cast("_WorkloadJson", obj)["spec"].get("selector")
    return _scale(obj, selector_json.of_selector(cast("LabelSelectorJson | None", selector)))


def _of_replication_controller(obj: JsonObject) -> Scale:
    selector = cast("_WorkloadJson", obj)["spec"].get("selector")
    return _scale(obj, selector_json.of_labels(cast("dict[str, str] | None", selector)))


def _scale(obj: JsonObject, selector: str) -> Scale:
    """Read the counts; the API's defaulting makes an absent `spec.replicas` 1."""
    workload = cast("_WorkloadJson", obj)
    return Scale(
        spec_replicas=int(workload["spec"].get("replicas", 1)),
        status_replicas=int((workload.get("status") or {}).get("replicas", 0)),
        selector=intern(selector),
        resource_version=workload["metadata"]["resourceVersion"],
    )


_BUILT_IN: dict[tuple[str, str], ScaleOf] = {
    ("apps", "deployments"): _of_label_selector,
    ("apps", "statefulsets"): _of_label_selector,
    ("apps", "replicasets"): _of_label_selector,
    ("", "replicationcontrollers"): _of_replication_controller,
}
