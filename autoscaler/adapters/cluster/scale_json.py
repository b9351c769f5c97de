"""A core Scale from JSON: of the scale subresource, or of the scaled object itself.

A scale that is read from the object equals what GET scale answers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from sys import intern
from typing import TypedDict, cast

from autoscaler.adapters.cluster.failures import Failure, malformed
from autoscaler.adapters.cluster.objects import MALFORMED, JsonObject, MetadataJson, metadata_of
from autoscaler.core.observation import Scale
from autoscaler.core.text import printable

ScaleOf = Callable[[JsonObject, Scale | None], Scale]
"""Reads the scale of an object, given the last one that was read of it, if any.

Raises one of `failures.MALFORMED` for an object without one.
"""

FieldPath = tuple[str, ...]
"""The steps to a field, such as ``("spec", "replicas")``."""

_REPLICAS = ("spec", "replicas")
_LONGEST_MANAGER = 128
"""As the API server allows."""
_ANNOTATION_PREFIX = "autoscaler/"
_MOST_ANNOTATIONS, _LONGEST_ANNOTATION = 16, 100


class _RequirementJson(TypedDict, total=False):
    key: str
    operator: str
    values: list[str]


class LabelSelectorJson(TypedDict, total=False):
    """`LabelSelector`."""

    matchLabels: dict[str, str]
    matchExpressions: list[_RequirementJson]


class _SpecJson(TypedDict, total=False):
    replicas: int
    selector: LabelSelectorJson | dict[str, str]


class _StatusJson(TypedDict, total=False):
    replicas: int
    selector: object
    targetSelector: str


class _ObjectJson(TypedDict, total=False):
    metadata: MetadataJson
    spec: _SpecJson
    status: _StatusJson


# -- the scale subresource -----------------------------------------------------------------


def scale_of(document: JsonObject, server: str) -> Scale | Failure:
    """Read `autoscaling/v1` Scale; an absent count is 0, as the API omits zeros.

    `extensions/v1beta1`, which OpenShift's DeploymentConfig still answers with, has the
    selector's string form in `targetSelector`.
    """
    scale = cast("_ObjectJson", document)
    try:
        metadata, spec, status = (
            scale["metadata"],
            scale.get("spec") or {},
            scale.get("status") or {},
        )
        selector = status.get("selector", "")
        return Scale(
            spec_replicas=int(spec.get("replicas", 0)),
            status_replicas=int(status.get("replicas", 0)),
            selector=selector if isinstance(selector, str) else status.get("targetSelector", ""),
            resource_version=metadata.get("resourceVersion", ""),
            uid=metadata.get("uid", ""),
        )
    except MALFORMED:
        return malformed(server, "something that is not a Scale")


# -- workloads that every API server has ---------------------------------------------------


def _of_label_selector(obj: JsonObject, known: Scale | None) -> Scale:
    selector = cast("_ObjectJson", obj)["spec"].get("selector")
    return _of_workload(obj, selector_text(cast("LabelSelectorJson | None", selector)), known)


def _of_replication_controller(obj: JsonObject, known: Scale | None) -> Scale:
    selector = cast("_ObjectJson", obj)["spec"].get("selector")
    return _of_workload(obj, labels_text(cast("dict[str, str] | None", selector)), known)


def _of_workload(obj: JsonObject, selector: str, known: Scale | None) -> Scale:
    """Read the counts; the API's defaulting makes an absent `spec.replicas` 1."""
    workload = cast("_ObjectJson", obj)
    counts = (
        int(workload["spec"].get("replicas", 1)),
        int((workload.get("status") or {}).get("replicas", 0)),
    )
    return _make_scale(obj, counts, intern(selector), known, _REPLICAS)


BUILT_IN: Mapping[tuple[str, str], ScaleOf] = {
    ("apps", "deployments"): _of_label_selector,
    ("apps", "statefulsets"): _of_label_selector,
    ("apps", "replicasets"): _of_label_selector,
    ("", "replicationcontrollers"): _of_replication_controller,
}
"""By group and plural."""


def labels_text(labels: Mapping[str, str] | None) -> str:
    """Return the string form of the map that a ReplicationController selects by."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items()))


def selector_text(selector: LabelSelectorJson | None) -> str:
    """Return the string form of a LabelSelector; empty for one that is absent or empty.

    As Go's `labels.Selector.String()`, which the scale shows: the requirements are sorted by key,
    the values of one requirement among themselves.

    Raises KeyError, TypeError, AttributeError or ValueError for what is none.
    """
    if not selector:
        return ""
    terms = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    terms += [_term(requirement) for requirement in selector.get("matchExpressions") or ()]
    # Go's sort keeps the order of equal keys in lists as short as these.
    terms.sort(key=lambda term: term[0])
    return ",".join(text for _, text in terms)


def _term(requirement: _RequirementJson) -> tuple[str, str]:
    key, operator = requirement["key"], requirement["operator"]
    if operator == "Exists":
        return key, key
    if operator == "DoesNotExist":
        return key, f"!{key}"
    if operator not in {"In", "NotIn"}:
        raise ValueError(f"{operator!r} is no operator of a label selector")
    return key, f"{key} {operator.lower()} ({','.join(sorted(requirement['values']))})"


# -- custom resources ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """`CustomResourceSubresourceScale`, each path as the names of its steps."""

    spec_replicas: FieldPath
    status_replicas: FieldPath
    selector: FieldPath
    """Empty where the definition declares none."""

    def read(self, obj: JsonObject, known: Scale | None) -> Scale:
        """Read the scale as the API server makes it of the object; it is a `ScaleOf`.

        Raises one of `failures.MALFORMED` where the server would answer with an error instead.
        """
        spec = _count(obj, self.spec_replicas)
        if spec is None:
            raise ValueError(f"the spec replicas field {self.spec_replicas} does not exist")
        selector = _value(obj, self.selector) if self.selector else None
        if selector is not None and not isinstance(selector, str):
            raise ValueError(f"{selector!r} is no selector in string form")
        counts = (spec, _count(obj, self.status_replicas) or 0)
        return _make_scale(obj, counts, selector or "", known, self.spec_replicas)


def _value(obj: JsonObject, path: FieldPath) -> object:
    value: object = obj
    for step in path:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise TypeError(f"{'.'.join(path)}: the parent of {step} is no object")
        if step not in value:
            return None
        value = value[step]
    if value is None:
        raise ValueError(f"{'.'.join(path)} is null")
    return value


def _count(obj: JsonObject, path: FieldPath) -> int | None:
    value = _value(obj, path)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} at {'.'.join(path)} is no count")
    return value


# -- what all objects have -----------------------------------------------------------------


def _make_scale(
    obj: JsonObject,
    counts: tuple[int, int],
    selector: str,
    known: Scale | None,
    replicas_path: FieldPath,
) -> Scale:
    """Return the scale of an object whose spec and status replicas are ``counts``.

    While the count is the last known one, its field manager is as well: to set the same count
    again changes nothing, and a search of the managedFields at every event would be expensive.
    """
    metadata = metadata_of(obj)
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
        annotations_of(metadata),
    )


def annotations_of(metadata: MetadataJson) -> tuple[tuple[str, str], ...]:
    """Return the annotations that are ours, sorted, their values short and printable.

    Raises one of MALFORMED for what are none.  An object has up to 256 KiB of annotations, and each
    target's are kept.
    """
    every = metadata.get("annotations") or {}
    ours = sorted(key for key in every if key.startswith(_ANNOTATION_PREFIX))
    return tuple(
        [
            (intern(printable(key)), printable(every[key], _LONGEST_ANNOTATION))
            for key in ours[:_MOST_ANNOTATIONS]
        ]
    )


def manager_of(obj: JsonObject, path: FieldPath) -> str:
    """Return the field manager that owns a field; empty if none does, or none is shown.

    Several own a field that they applied with the same value; the latest of them is returned.
    Times are `metav1.Time` in UTC, so that their texts sort as the instants do; an entry for the
    scale subresource has no time, and its manager takes the field from all others.
    """
    owner, latest = "", ""
    try:
        for entry in metadata_of(obj).get("managedFields") or ():
            if entry.get("time", "") >= latest and _includes(entry.get("fieldsV1"), path):
                owner, latest = entry.get("manager", ""), entry.get("time", "")
        return intern(printable(owner, _LONGEST_MANAGER))
    except MALFORMED:
        return ""


def _includes(fields: object, path: FieldPath) -> bool:
    """Return whether a set of fields in the form of `fieldsV1` includes one."""
    for step in path:
        if not isinstance(fields, dict):
            return False
        fields = fields.get(f"f:{step}")
    return fields is not None
