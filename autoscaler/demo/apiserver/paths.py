"""The JSON paths of a CRD's scale subresource: `.spec.replicas`, dots and names only."""

from autoscaler.demo.apiserver.objects import KubeObject


def get(obj: KubeObject, path: str) -> object:
    """Return the value at the path, None where a step is missing."""
    value: object = obj
    for step in path.split(".")[1:]:
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


def put(obj: KubeObject, path: str, value: object) -> None:
    """Set the value at the path, making the objects on the way."""
    *parents, last = path.split(".")[1:]
    for step in parents:
        obj = obj.setdefault(step, {})
    obj[last] = value
