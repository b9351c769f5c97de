"""The objects of a list or a watch: by namespace, label selector and field selector."""

from collections.abc import Mapping
from dataclasses import dataclass

from autoscaler.core import selectors
from autoscaler.core.selectors import LabelSelector
from autoscaler.demo.apiserver import paths, status
from autoscaler.demo.apiserver.objects import KubeObject, labels, meta
from autoscaler.demo.apiserver.resources import PODS, Resource

_FIELDS = ("metadata.name", "metadata.namespace")
_POD_FIELDS = (*_FIELDS, "status.phase", "spec.nodeName", "spec.restartPolicy")


@dataclass(frozen=True, slots=True)
class Selection:
    """The conditions of one request; ``fields`` are (path, value, whether it must be equal)."""

    namespace: str
    labels: LabelSelector
    fields: tuple[tuple[str, str, bool], ...]

    @property
    def partial(self) -> bool:
        """Whether a selector narrows what the path names."""
        return bool(self.fields) or not self.labels.empty

    def matches(self, obj: KubeObject) -> bool:
        """Return whether the object is selected."""
        if self.namespace and meta(obj).get("namespace") != self.namespace:
            return False
        return self.labels.matches(labels(obj)) and all(
            ((paths.get(obj, f".{path}") or "") == value) is equal
            for path, value, equal in self.fields
        )


def of(resource: Resource, namespace: str, query: Mapping[str, str]) -> Selection:
    """Read the selectors of a query.  Raises 400 for one that cannot be read."""
    try:
        selector = selectors.parse(query.get("labelSelector", ""))
    except ValueError as error:
        raise status.bad_request(f"unable to parse requirement: {error}") from None
    return Selection(namespace, selector, _fields(resource, query.get("fieldSelector", "")))


def _fields(resource: Resource, text: str) -> tuple[tuple[str, str, bool], ...]:
    known = _POD_FIELDS if resource is PODS else _FIELDS
    found = []
    for term in text.split(",") if text else ():
        equal = "!=" not in term
        path, separator, value = term.replace("==", "=").partition("=" if equal else "!=")
        if not separator:
            raise status.bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        if path not in known:
            if resource is PODS:
                raise status.bad_request(f"field label not supported: {path}")
            raise status.bad_request(
                f'"{path}" is not a known field selector: only '
                + ", ".join(f'"{field}"' for field in known)
            )
        found.append((path, value, equal))
    return tuple(found)


def number(query: Mapping[str, str], name: str) -> int:
    """Return an integer of the query, 0 where it is absent.  Raises 400 for no integer."""
    text = query.get(name) or "0"
    try:
        return int(text)
    except ValueError:
        raise status.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
