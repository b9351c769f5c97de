"""A HorizontalPodAutoscaler of any version -> the target that it would be here."""

from collections.abc import Mapping
from typing import NamedTuple

from autoscaler.core.spec import SOURCES
from autoscaler.documents import Value, child

PLACEHOLDER = "NAMESPACE"
"""Stands where a manifest names no namespace; no configuration with it is valid."""

_ANNOTATIONS = "autoscaling.alpha.kubernetes.io/"
_AS_V2 = "`kubectl get hpa.v2.autoscaling -o yaml`"
_FIELDS = ("scaleTargetRef", "minReplicas", "maxReplicas", "metrics", "behavior")
_CPU = "targetCPUUtilizationPercentage"


class TargetDraft(NamedTuple):
    """What a manifest would be here, with notes; ``target`` is empty if it cannot be written."""

    target: dict[str, object]
    notes: tuple[str, ...] = ()
    queries: Mapping[str, object] = {}
    servers: Mapping[tuple[str, str], str] = {}
    """The names of Prometheus servers by address and namespace; that of the default is empty."""


def target_of(manifest: Mapping[str, Value]) -> TargetDraft:
    """Convert a HorizontalPodAutoscaler."""
    spec = manifest.get("spec")
    notes = []
    version = manifest.get("apiVersion")
    if version in ("autoscaling/v1", "autoscaling/v2beta1"):
        notes.append(f"it is of {version}, and targets are as in autoscaling/v2")
    if not isinstance(spec, dict) or not isinstance(spec.get("scaleTargetRef"), dict):
        return TargetDraft({}, tuple(notes))
    target: dict[str, object] = {"namespace": namespace_of(manifest)}
    annotations = child(manifest, "metadata", "annotations")
    if isinstance(annotations, dict) and any(
        f"{_ANNOTATIONS}{name}" in annotations for name in ("metrics", "behavior")
    ):
        notes.append(f"some of it is in its annotations: {_AS_V2} shows it")
        why = f"they have metrics or behavior that are not here: convert what {_AS_V2} prints"
        target["undecided"] = [undecided("metadata.annotations", why)]
    target |= {key: spec[key] for key in _FIELDS if spec.get(key) is not None}
    listed = spec.get("metrics")
    metrics = [_metric(metric) for metric in listed] if isinstance(listed, list) else []
    if spec.get(_CPU) is not None:
        usage = {"type": "Utilization", "averageUtilization": spec[_CPU]}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": usage}})
    if metrics:
        target["metrics"] = metrics
    names = dict.fromkeys(name for metric in metrics if (name := _query_name(metric)) is not None)
    if names:
        notes.append(
            f"`queries` needs the PromQL of each metric under its name: {', '.join(names)}"
        )
    return TargetDraft(target, tuple(notes))


def undecided(field: str, why: str, kind: object = None) -> dict[str, object]:
    """Return an entry of `undecided`: a field of the manifest, and what is to be done about it."""
    return {"field": field, **({} if kind is None else {"type": kind}), "why": why}


def namespace_of(manifest: Mapping[str, Value]) -> object:
    """Return a manifest's namespace, or what stands for it."""
    return child(manifest, "metadata", "namespace") or PLACEHOLDER


def _query_name(metric: object) -> str | None:
    """Return the name under which a metric's query is looked up; None for a resource's."""
    names = (child(metric, key, "metric", "name") for key in SOURCES.values())
    return next((name for name in names if isinstance(name, str)), None)


def _metric(metric: Value) -> object:
    """Write a metric of autoscaling/v2beta1 as v2 does; all others stay as they are."""
    key = SOURCES.get(str(child(metric, "type")))
    source = child(metric, key) if key else None
    if not isinstance(metric, dict) or not isinstance(source, dict) or key is None:
        return metric
    old = {"metricName", "targetAverageUtilization", "targetAverageValue", "targetValue"}
    return {**metric, key: _source(key, source)} if old & source.keys() else metric


def _source(key: str, old: Mapping[str, Value]) -> dict[str, object]:
    new: dict[str, object] = {name: old[name] for name in ("name", "container") if name in old}
    if key == "object":
        new["describedObject"] = old.get("target")
    if "metricName" in old:
        selector = old.get("metricSelector" if key == "external" else "selector")
        chosen = {} if selector is None else {"selector": selector}
        new["metric"] = {"name": old["metricName"], **chosen}
    average = old.get("averageValue") if key == "object" else old.get("targetAverageValue")
    if old.get("targetAverageUtilization") is not None:
        percent = old["targetAverageUtilization"]
        new["target"] = {"type": "Utilization", "averageUtilization": percent}
    elif average is not None:
        new["target"] = {"type": "AverageValue", "averageValue": average}
    else:
        new["target"] = {"type": "Value", "value": old.get("targetValue")}
    return new
