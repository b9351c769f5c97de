"""The rules of a target that tie fields together, in the API server's sense (semantics 5.2).

They read the plain document, not the models, so that they are reported in one go with
mistakes of shape: where a field has the wrong shape, a rule about it is silent.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import NoneType

from autoscaler.config.document import child
from autoscaler.config.error_messages import suggestion
from autoscaler.config.problems import Finding, Location
from autoscaler.config.reference_rules import reference_findings

SOURCES = {
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "Pods": "pods",
    "Object": "object",
    "External": "external",
}
"""`metrics[].type` -> the key of its source."""


def spec_findings(spec: object, location: Location = ()) -> Iterator[Finding]:
    """Check one spec."""
    yield from _replicas(spec, location)
    yield from reference_findings(child(spec, "scaleTargetRef"), (*location, "scaleTargetRef"))
    for index, metric in entries(spec, "metrics"):
        yield from _metric(metric, (*location, "metrics", index))


def entries(value: object, *keys: str) -> Iterator[tuple[int, object]]:
    """Enumerate the list at a place; nothing where there is no list."""
    found = child(value, *keys)
    if isinstance(found, list | tuple):
        yield from enumerate(found)


def _present(mapping: object, key: str) -> bool:
    return child(mapping, key) is not None


def _integer(mapping: object, key: str, default: int | None = None) -> int | None:
    value = child(mapping, key)
    if value is None:
        return default
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _replicas(spec: object, location: Location) -> Iterator[Finding]:
    low, high = _integer(spec, "minReplicas", 1), _integer(spec, "maxReplicas")
    if low is not None and high is not None and 1 <= high < low:
        yield Finding((*location, "maxReplicas"), f"must be at least minReplicas, which is {low}")
    if low == 0 and isinstance(child(spec, "metrics"), list | tuple | NoneType):
        per_pod = ("Resource", "ContainerResource", "Pods")
        # A type that is misspelt is reported as such; it may have been meant for another one.
        if all(child(metric, "type") in per_pod for _, metric in entries(spec, "metrics")):
            yield Finding(
                (*location, "minReplicas"),
                "0 needs at least one metric of type Object or External: without pods there is "
                "nothing else to measure; right is 1, or such a metric",
            )


def _metric(metric: object, location: Location) -> Iterator[Finding]:
    kind = child(metric, "type")
    own = SOURCES.get(kind) if isinstance(kind, str) else None
    if own is None:
        return
    if not _present(metric, own):
        message = f"is missing: type {kind} needs its source here"
        yield Finding((*location, own), message, show_value=False, missing=((*location, own),))
    for key in SOURCES.values():
        if key != own and _present(metric, key):
            yield Finding(
                (*location, key),
                f"does not belong to type {kind}: keep only `{own}`, or change the type",
                show_value=False,
            )
        elif key == own:
            yield from _source(key, child(metric, key), (*location, key))


def _source(key: str, source: object, location: Location) -> Iterator[Finding]:
    if isinstance(child(source, "target"), Mapping):
        yield from _target(key, child(source, "target"), (*location, "target"))
    selector = (*location, "metric", "selector", "matchExpressions")
    for index, requirement in entries(source, "metric", "selector", "matchExpressions"):
        yield from _requirement(requirement, (*selector, index))


def _target(key: str, target: object, location: Location) -> Iterator[Finding]:
    """Check which values are set; the type is not compared with them, as in the API."""
    allowed = {
        "resource": ("averageUtilization", "averageValue"),
        "containerResource": ("averageUtilization", "averageValue"),
        "pods": ("averageValue",),
        "object": ("value", "averageValue"),
        "external": ("value", "averageValue"),
    }[key]
    given = [name for name in allowed if _present(target, name)]
    either = " or ".join(allowed)
    utilization = child(target, "type") == "Utilization" or _present(target, "averageUtilization")
    if not given and utilization and "averageUtilization" not in allowed:
        yield Finding(location, _no_utilization(allowed), show_value=False)
    elif not given:
        yield Finding(
            location,
            f"{either} is missing: what to hold the metric at",
            show_value=False,
            missing=tuple((*location, name) for name in allowed),
        )
    elif len(given) > 1 and key != "object":
        yield Finding(location, f"takes one of {either}, not both", show_value=False)


def _no_utilization(allowed: Iterable[str]) -> str:
    types = {"value": "Value", "averageValue": "AverageValue"}
    taken = " or ".join(f"{{type: {types[name]}, {name}: NUMBER}}" for name in allowed)
    return f"Utilization is for Resource and ContainerResource metrics only: write {taken}"


def _requirement(requirement: object, location: Location) -> Iterator[Finding]:
    operator, values = child(requirement, "operator"), child(requirement, "values")
    if operator in ("In", "NotIn") and (values is None or values == []):
        place = (*location, "values")
        message = f"{operator} needs at least one value"
        yield Finding(place, message, show_value=False, missing=(place,))
    if operator in ("Exists", "DoesNotExist") and isinstance(values, list) and values:
        yield Finding((*location, "values"), f"{operator} takes no values; leave them out")


def query_findings(
    spec: object, location: Location, names: Iterable[str], resources: Iterable[str]
) -> Iterator[Finding]:
    """Check that every metric has a query: its own, or one that its name leads to."""
    for index, metric in entries(spec, "metrics"):
        for key in SOURCES.values():
            source = child(metric, key)
            place = (*location, "metrics", index, key)
            if key in {"resource", "containerResource"}:
                yield from _resource_query(source, place, resources)
            else:
                yield from _named_query(child(source, "metric"), (*place, "metric"), names)


def _named_query(metric: object, location: Location, names: Iterable[str]) -> Iterator[Finding]:
    name = child(metric, "name")
    if not isinstance(name, str) or _present(metric, "query") or name in names:
        return
    yield Finding(
        (*location, "name"),
        f"is no key of `queries`: {suggestion(name, names)}; or give the metric its own `query`",
    )


def _resource_query(source: object, location: Location, names: Iterable[str]) -> Iterator[Finding]:
    name = child(source, "name")
    if not isinstance(name, str) or _present(source, "query") or name in names:
        return
    yield Finding(
        (*location, "name"),
        f"is a resource without a query: {suggestion(name, names)}; add it to `resourceQueries`, "
        "or give the metric its own `query`",
    )
