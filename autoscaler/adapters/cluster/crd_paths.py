"""Where a custom resource keeps what its scale shows, by its CustomResourceDefinition."""

import re
from dataclasses import dataclass
from typing import TypedDict, cast

from autoscaler.adapters.cluster.api import Api
from autoscaler.adapters.cluster.failures import Failure, JsonObject, malformed
from autoscaler.adapters.cluster.kinds import ScalableResource
from autoscaler.adapters.cluster.workload_scales import make_scale
from autoscaler.core.observation import Scale

_LONGEST_PATH = 200
_PATH = re.compile(r"(?:\.[A-Za-z0-9_$-]+)+")


class _ScaleJson(TypedDict, total=False):
    specReplicasPath: str
    statusReplicasPath: str
    labelSelectorPath: str


class _SubresourcesJson(TypedDict, total=False):
    scale: _ScaleJson


class _VersionJson(TypedDict, total=False):
    name: str
    subresources: _SubresourcesJson


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """`CustomResourceSubresourceScale`, each path as the names of its steps."""

    spec_replicas: tuple[str, ...]
    status_replicas: tuple[str, ...]
    selector: tuple[str, ...]
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
        return make_scale(obj, counts, selector or "", known, self.spec_replicas)


def read_paths(api: Api, resource: ScalableResource, deadline: float) -> ScalePaths | Failure:
    """Ask for the definition of a custom resource, and take the paths of its version."""
    name = f"{resource.plural}.{resource.group}"
    answer = api.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}", deadline)
    if isinstance(answer, Failure):
        return answer
    try:
        spec = cast("dict[str, list[_VersionJson]]", answer["spec"])
        version = next(each for each in spec["versions"] if each["name"] == resource.version)
        scale = version["subresources"]["scale"]
        paths = [
            scale["specReplicasPath"],
            scale["statusReplicasPath"],
            scale.get("labelSelectorPath") or "",
        ]
    except (KeyError, TypeError, AttributeError, StopIteration):
        return malformed(api.server, f"a definition of {name} without the paths of its scale")
    for path in filter(None, paths):
        if not _PATH.fullmatch(path):
            shown = api.said(str(path), _LONGEST_PATH)
            message = f"the definition of {name} has a path that cannot be followed: {shown}"
            return Failure(message, status=404)
    return ScalePaths(*(tuple(path.split(".")[1:]) for path in paths))


def _value(obj: JsonObject, path: tuple[str, ...]) -> object:
    value: object = obj
    for step in path:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise TypeError(f"{'.'.join(path)}: {step} is asked of something that is no object")
        if step not in value:
            return None
        value = value[step]
    if value is None:
        raise ValueError(f"{'.'.join(path)} is null")
    return value


def _count(obj: JsonObject, path: tuple[str, ...]) -> int | None:
    value = _value(obj, path)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} at {'.'.join(path)} is no count")
    return value
