"""What a list or a watch asks for of a collection."""

from collections.abc import Mapping
from dataclasses import dataclass

from autoscaler.core import selectors
from autoscaler.core.spec import LabelSelector
from autoscaler.demo.apiserver.objects import KubeObject, key, labels
from autoscaler.demo.apiserver.refusals import bad_request


@dataclass(frozen=True, slots=True)
class Selection:
    """Objects of a namespace, of a name and with labels; an empty text stands for any."""

    namespace: str
    name: str
    selector: LabelSelector

    def has(self, obj: KubeObject | None) -> bool:
        """Return whether an object is asked for; None is not."""
        if obj is None:
            return False
        namespace, name = key(obj)
        return (
            self.namespace in {"", namespace}
            and self.name in {"", name}
            and self.selector.matches(labels(obj))
        )


def selection(namespace: str, query: Mapping[str, str]) -> Selection:
    """Read the selectors of a query.  Raises `Refused`."""
    try:
        selector = selectors.parse(query.get("labelSelector", ""))
    except ValueError as error:
        raise bad_request(f"unable to parse requirement: {error}") from None
    return Selection(namespace, _name_selected(query.get("fieldSelector", "")), selector)


def _name_selected(text: str) -> str:
    """Return the name that a field selector requires, empty for any; it can be no other field."""
    field_name, _, name = text.partition("=")
    if field_name not in {"", "metadata.name"}:
        raise bad_request(f"field label not supported: {field_name}")
    return name
