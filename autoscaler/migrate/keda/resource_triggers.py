"""A trigger of type cpu or memory -> a metric of type Resource or ContainerResource."""

from autoscaler.core import numbers
from autoscaler.migrate.fields import Fields
from autoscaler.migrate.keda.metadata import parsed, text_of
from autoscaler.migrate.values import not_filled_in, placeholder

_BOTH = "KEDA refuses a type both here and beside the trigger: leave out one"
_OLD = "KEDA refuses it since 2.18, where it is `metricType` of the trigger"
_NEITHER = "KEDA refuses it without a metricType; a number is read as a percentage, Utilization"
_NO_PERCENTAGE = "must be a whole number of percent, 1 or more: KEDA or Kubernetes refuse it"
_NO_QUANTITY = "must be a quantity above 0, such as 500m or 1Gi: KEDA or Kubernetes refuse it"
_NO_TYPE = "must be Utilization or AverageValue, as KEDA refuses all others"


def metric_of(resource: str, trigger: Fields) -> dict[str, object]:
    """Convert a trigger; what is wrong with its value is refused, and its target left open."""
    metadata = trigger.within("metadata")
    container = text_of(metadata, "containerName")
    target = _target(resource, trigger)
    if container is None:
        return {"type": "Resource", "resource": {"name": resource, "target": target}}
    source = {"name": resource, "container": container, "target": target}
    return {"type": "ContainerResource", "containerResource": source}


def _target(resource: str, trigger: Fields) -> dict[str, object]:
    metadata = trigger.within("metadata")
    beside, within = trigger.get("metricType"), metadata.get("type")
    text = text_of(metadata, "value")
    if beside and within:
        metadata.refused("type", why=_BOTH, kind=resource)
    elif within:
        metadata.different("type", why=_OLD)
    kind = beside or within or "Utilization"
    problem, value = _value(kind, text)
    if problem:
        place = () if value is not None else ("value",)
        (trigger if value is not None else metadata).refused(*place, why=problem, kind=resource)
        return {"type": kind} if value is None else {"type": "Utilization"}
    if not beside and not within:
        metadata.different("value", why=_NEITHER)
    return {"type": kind, "averageUtilization" if kind == "Utilization" else "averageValue": value}


def _value(kind: object, text: str | None) -> tuple[str, object]:
    """Return what is wrong with a value, or nothing and the value."""
    if text is None:
        return "is required: KEDA fails without it", None
    if found := placeholder(text):
        return not_filled_in(found), None
    if kind == "Utilization":
        number = parsed(text)
        right = isinstance(number, int) and number > 0
        return ("", number) if right else (_NO_PERCENTAGE, None)
    if kind == "AverageValue":
        return ("", text) if _is_positive(text) else (_NO_QUANTITY, None)
    return _NO_TYPE, text


def _is_positive(text: str) -> bool:
    try:
        return numbers.parse_quantity(text) > 0
    except ValueError:
        return False
