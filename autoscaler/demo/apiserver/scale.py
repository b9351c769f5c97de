"""The scale subresource: `autoscaling/v1` Scale objects, made from a workload and applied to it."""

from autoscaler.demo.apiserver import admission, paths, status
from autoscaler.demo.apiserver.objects import KubeObject, meta, selector_text, workload_selector
from autoscaler.demo.apiserver.resources import Resource, ScalePaths
from autoscaler.demo.apiserver.status import FieldError

GROUP_VERSION = "autoscaling/v1"
_IDENTITY = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def read(resource: Resource, obj: KubeObject, *, lenient: bool = False) -> KubeObject:
    """Return the Scale of an object.

    Raises a 500 for a custom resource without a count, as the server does for a read; a write
    (``lenient``) may give it one.
    """
    where = resource.scale or ScalePaths()
    replicas = paths.get(obj, where.spec_replicas)
    if replicas is None and not lenient:
        raise status.internal_error(
            f'the spec replicas field "{where.spec_replicas}" does not exist'
        )
    found: KubeObject = {"replicas": paths.get(obj, where.status_replicas) or 0}
    selector = _selector(resource, obj, where)
    if selector:
        found["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": GROUP_VERSION,
        "metadata": {field: meta(obj)[field] for field in _IDENTITY if field in meta(obj)},
        # A count of zero is left out, as Go's omitempty does.
        "spec": {"replicas": replicas} if replicas else {},
        "status": found,
    }


def _selector(resource: Resource, obj: KubeObject, where: ScalePaths) -> str:
    if not resource.custom:
        return selector_text(workload_selector(obj))
    found = paths.get(obj, where.label_selector) if where.label_selector else None
    return found if isinstance(found, str) else ""


def apply(resource: Resource, old: KubeObject, scale: KubeObject) -> KubeObject:
    """Return the object with the count of a Scale.  Raises Conflict and Invalid.

    An absent count is zero, as everywhere in that type.
    """
    where = resource.scale or ScalePaths()
    admission.check_version(resource, old, meta(scale))
    replicas = (scale.get("spec") or {}).get("replicas")
    replicas = 0 if replicas is None else replicas
    if replicas < 0:
        raise _negative(resource, meta(old)["name"], where, replicas)
    if paths.get(old, where.spec_replicas) == replicas:
        return old
    paths.put(old, where.spec_replicas, replicas)
    if "generation" in meta(old):
        meta(old)["generation"] += 1
    return old


def check_count(scale: KubeObject) -> str | None:
    """Return the sentence of Go's decoder if the count is no integer."""
    replicas = (scale.get("spec") or {}).get("replicas")
    if replicas is None or (isinstance(replicas, int) and not isinstance(replicas, bool)):
        return None
    return admission.not_a_count("Scale", "ScaleSpec", replicas)


def _negative(resource: Resource, name: str, where: ScalePaths, count: int) -> status.ApiError:
    if resource.custom:
        error = FieldError(
            where.spec_replicas, f"Invalid value: {count}: should be a non-negative integer"
        )
        return status.invalid(resource.kind, resource.group, name, [error])
    error = FieldError(
        "spec.replicas", f"Invalid value: {count}: must be greater than or equal to 0"
    )
    return status.invalid("Scale", "autoscaling", name, [error])
