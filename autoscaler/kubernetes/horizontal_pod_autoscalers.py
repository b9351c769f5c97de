"""HorizontalPodAutoscalers of autoscaling/v2 as JSON -> `Hpa`; what is odd is left out.

The API server has checked and defaulted them; another program may have written the status.
"""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, TypeVar

from autoscaler.config import to_core
from autoscaler.config.models import without_unknown
from autoscaler.config.spec_model import HorizontalPodAutoscalerSpec as SpecModel
from autoscaler.core.observation import Hpa, HpaCondition, HpaStatus
from autoscaler.core.spec import SOURCES, HorizontalPodAutoscalerSpec
from autoscaler.core.status import SCALING_ACTIVE
from autoscaler.core.text import printable
from autoscaler.kubernetes.api import MALFORMED, JsonObject
from autoscaler.kubernetes.discovery import checked_count
from autoscaler.kubernetes.failures import typed
from autoscaler.quantities import parse_milli

KEDA_KIND = "ScaledObject"
_KEDA_LABEL = "scaledobject.keda.sh/name"
_LONGEST_NAME = 253
_LONGEST_REASON = 100
_MOST_ENTRIES, _MOST_CONDITIONS = 100, 10
"""As many of each list and mapping are read."""
_Read = TypeVar("_Read")


def hpa_of(obj: JsonObject, received: float = 0.0) -> Hpa:
    """Return an HPA, whose status was received at a Unix time."""
    metadata = obj["metadata"]
    spec = _or_none(lambda given: typed(_spec(given)), obj.get("spec"))
    metrics = obj["spec"].get("metrics")
    number = min(len(metrics), _MOST_ENTRIES) if isinstance(metrics, list) else 0
    status = _or_none(lambda given: typed(_status(given, number, received)), obj.get("status"))
    return Hpa(
        printable(metadata["name"], _LONGEST_NAME),
        printable(scaled_object_of(metadata), _LONGEST_NAME),
        spec,
        () if status is None else (status,),
        "" if status is not None else _or_none(_why_undecided, obj.get("status")) or "",
    )


def scaled_object_of(metadata: JsonObject) -> str:
    """Return the name of the ScaledObject for which KEDA made it; empty for none."""
    owners = metadata.get("ownerReferences") or ()
    labelled = (metadata.get("labels") or {}).get(_KEDA_LABEL, "")
    owned = (owner.get("name", "") for owner in owners if owner.get("kind") == KEDA_KIND)
    name: str = next(owned, labelled)
    return name


def _or_none(read: Callable[[Any], _Read], given: object) -> _Read | None:
    """Read what may be odd."""
    try:
        return read(given)
    except MALFORMED:
        return None


def _spec(given: Mapping[str, Any]) -> HorizontalPodAutoscalerSpec:
    """Read a spec as that of a target is read, with no more of its lists than is compared."""
    known = without_unknown(given, SpecModel)
    return to_core(SpecModel.model_validate(_shortened(known)))


def _shortened(part: object) -> object:
    if isinstance(part, Mapping):
        return {key: _shortened(inner) for key, inner in islice(part.items(), _MOST_ENTRIES)}
    return list(map(_shortened, part[:_MOST_ENTRIES])) if isinstance(part, list) else part


# -- the status ----------------------------------------------------------------------------------


def _why_undecided(given: Mapping[str, Any]) -> str:
    reasons = (
        printable(one.get("reason") or "", _LONGEST_REASON)
        for one in (given.get("conditions") or [])[:_MOST_CONDITIONS]
        if one["type"] == SCALING_ACTIVE and one["status"] != "True"
    )
    return next(reasons, "")


def _status(given: Mapping[str, Any], metrics: int, received: float) -> HpaStatus | None:
    """Return a status; None where nothing was decided yet: that is no count of 0."""
    conditions = tuple(
        HpaCondition(
            printable(one["type"], _LONGEST_REASON),
            one["status"] == "True",
            printable(one.get("reason") or "", _LONGEST_REASON),
        )
        for one in (given.get("conditions") or [])[:_MOST_CONDITIONS]
    )
    current, desired = (
        checked_count(given.get("currentReplicas", 0)),
        checked_count(given["desiredReplicas"]),
    )
    inactive = any(one.type == SCALING_ACTIVE and not one.true for one in conditions)
    if desired == 0 and (not conditions or (inactive and current > 0)):
        return None
    read = (given.get("currentMetrics") or [])[:metrics]
    values = [_or_none(_value, one) for one in read]
    return HpaStatus(
        received,
        current,
        desired,
        # They have the order of the spec; the entry of one that failed is empty.
        (*values, *(None,) * (metrics - len(values))),
        conditions,
    )


def _value(given: Mapping[str, Any]) -> int | None:
    current = given[SOURCES[given["type"]]]["current"]
    percent = current.get("averageUtilization")
    if percent is not None:
        return int(percent)
    value = current.get("averageValue", current.get("value"))
    return None if value is None else parse_milli(str(value))
