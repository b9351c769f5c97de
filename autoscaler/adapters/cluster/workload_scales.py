"""The scale of a workload, read from the workload itself, equal to what GET scale answers."""

from collections.abc import Callable
from sys import intern
from typing import TypedDict, cast

from autoscaler.adapters.cluster import selector_json
from autoscaler.adapters.cluster.failures import JsonObject
from autoscaler.adapters.cluster.field_managers import FieldPath, manager_of
from autoscaler.adapters.cluster.kinds import ScalableResource
from autoscaler.adapters.cluster.selector_json import LabelSelectorJson
from autoscaler.core.observation import Scale

ScaleOf = Callable[[JsonObject, Scale | None], Scale]
"""Reads a scale of an object, given the scale that was known of it.

Raises one of `failures.MALFORMED` for what has none.
"""

_REPLICAS = ("spec", "replicas")


class _MetadataJson(TypedDict, total=False):
    resourceVersion: str
    uid: str
    generation: int


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


def make_scale(
    obj: JsonObject,
    counts: tuple[int, int],
    selector: str,
    known: Scale | None,
    replicas_path: FieldPath,
) -> Scale:
    """Make the scale of an object whose spec and status replicas are ``counts``.

    While the count is the known one, so is who set it: to set the same count again changes
    nothing, and not every event is worth a search of the managedFields.
    """
    metadata = cast("_WorkloadJson", obj)["metadata"]
    uid, manager = metadata.get("uid", ""), ""
    if known is not None:
        uid = known.uid if known.uid == uid else uid  # one copy of the text
        manager = known.replicas_by if known.spec_replicas == counts[0] else ""
    return Scale(
        *counts,
        selector,
        metadata["resourceVersion"],
        uid,
        manager or manager_of(obj, replicas_path),
        int(metadata.get("generation", 0)),
    )


def _of_label_selector(obj: JsonObject, known: Scale | None) -> Scale:
    selector = cast("_WorkloadJson", obj)["spec"].get("selector")
    text = selector_json.of_selector(cast("LabelSelectorJson | None", selector))
    return _of_workload(obj, text, known)


def _of_replication_controller(obj: JsonObject, known: Scale | None) -> Scale:
    selector = cast("_WorkloadJson", obj)["spec"].get("selector")
    text = selector_json.of_labels(cast("dict[str, str] | None", selector))
    return _of_workload(obj, text, known)


def _of_workload(obj: JsonObject, selector: str, known: Scale | None) -> Scale:
    """Read the counts; the API's defaulting makes an absent `spec.replicas` 1."""
    workload = cast("_WorkloadJson", obj)
    counts = (
        int(workload["spec"].get("replicas", 1)),
        int((workload.get("status") or {}).get("replicas", 0)),
    )
    return make_scale(obj, counts, intern(selector), known, _REPLICAS)


_BUILT_IN: dict[tuple[str, str], ScaleOf] = {
    ("apps", "deployments"): _of_label_selector,
    ("apps", "statefulsets"): _of_label_selector,
    ("apps", "replicasets"): _of_label_selector,
    ("", "replicationcontrollers"): _of_replication_controller,
}
