"""Kubernetes manifests where a configuration or a target belongs: what they are."""

import re
from collections.abc import Iterator, Mapping

from autoscaler.config.documents import Location, Value, child

HPA, SCALED_OBJECT, SCALED_JOB = "HorizontalPodAutoscaler", "ScaledObject", "ScaledJob"
AUTHENTICATIONS = ("TriggerAuthentication", "ClusterTriggerAuthentication")
OF_KEDA = (SCALED_OBJECT, SCALED_JOB, *AUTHENTICATIONS)
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
_MOST_KINDS = 5


def kind_of(value: Mapping[str, Value]) -> str:
    """Return the kind of a manifest; empty for what is none."""
    kind, spec = value.get("kind"), value.get("spec")
    if isinstance(value.get("apiVersion"), str) and isinstance(kind, str):
        return kind if _KIND.fullmatch(kind) else ""
    # Those who copy a manifest leave out the first lines at times.
    if isinstance(child(spec, "scaleTargetRef"), dict) and "scaleTargetRef" not in value:
        return SCALED_OBJECT if child(spec, "triggers") is not None else HPA
    return ""


def within(value: Value, location: Location = ()) -> Iterator[tuple[Location, Value]]:
    """Yield the objects of a document: of a List its items, else itself."""
    items = value.get("items") if isinstance(value, dict) else None
    if isinstance(value, dict) and isinstance(items, list) and kind_of(value).endswith("List"):
        for index, item in enumerate(items):
            yield from within(item, (*location, "items", index))
    else:
        yield location, value


def described(value: Value, location: Location) -> tuple[Location, str] | None:
    """Say of manifests what they are and what converts them; None for what is no manifest.

    ``location`` is where the value stands among the targets, empty for a file.
    """
    instead_of = "a target" if location else "a configuration of autoscaler"
    found = [(at, one) for at, one in within(value, location) if isinstance(one, dict)]
    kinds = list(dict.fromkeys(kind for _, one in found if (kind := kind_of(one))))
    if not kinds:
        return None
    listed = ", ".join(kinds[:_MOST_KINDS]) + (" and others" if len(kinds) > _MOST_KINDS else "")
    message = f"this is a Kubernetes manifest ({listed}), not {instead_of}"
    if {HPA, *OF_KEDA} & set(kinds):
        message += "; `autoscaler import FILE` converts it"
    elif "ConfigMap" in kinds:
        message += "; a configuration in its `data` can be checked as a file of its own"
    return next((at, message) for at, one in found if kind_of(one))
