"""An HPA of any version, or a ScaledObject of KEDA -> the target that it would be here."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from autoscaler.config.document import Value, child, one_line
from autoscaler.config.spec_model import SOURCES

PLACEHOLDER = "NAMESPACE"
"""Stands where a manifest names no namespace; no configuration with it is valid."""

_ANNOTATIONS = "autoscaling.alpha.kubernetes.io/"
_FIELDS = ("scaleTargetRef", "minReplicas", "maxReplicas", "metrics", "behavior")
_CPU = "targetCPUUtilizationPercentage"


class TargetDraft(NamedTuple):
    """What a manifest would be here; ``target`` is empty where that cannot be written down.

    ``notes`` are lines that say what is to be known of it.
    """

    target: dict[str, object]
    notes: tuple[str, ...] = ()
    queries: Mapping[str, str] = {}
    prometheus: str = ""


def target_of(manifest: Mapping[str, Value]) -> TargetDraft:
    """Convert a HorizontalPodAutoscaler."""
    spec = manifest.get("spec")
    notes = []
    version = manifest.get("apiVersion")
    if version in ("autoscaling/v1", "autoscaling/v2beta1"):
        notes.append(f"it is of {version}, and targets are as in autoscaling/v2")
    annotations = child(manifest, "metadata", "annotations")
    if isinstance(annotations, dict) and any(
        f"{_ANNOTATIONS}{name}" in annotations for name in ("metrics", "behavior")
    ):
        notes.append(
            "some of it is in its annotations: `kubectl get hpa.v2.autoscaling -o yaml` shows it"
        )
        return TargetDraft({}, tuple(notes))
    if not isinstance(spec, dict) or not isinstance(spec.get("scaleTargetRef"), dict):
        return TargetDraft({}, tuple(notes))
    target: dict[str, object] = {"namespace": namespace_of(manifest)}
    target |= {key: spec[key] for key in _FIELDS if spec.get(key) is not None}
    metrics = [_metric(metric) for metric in _list(spec.get("metrics"))]
    if spec.get(_CPU) is not None:
        metrics.append(utilization("cpu", spec[_CPU]))
    if metrics:
        target["metrics"] = metrics
    names = dict.fromkeys(name for metric in metrics if (name := _query_name(metric)) is not None)
    if names:
        listed = ", ".join(names)
        notes.append(f"`queries` needs the PromQL of each metric under its name: {listed}")
    return TargetDraft(target, tuple(notes))


def namespace_of(manifest: Mapping[str, Value]) -> object:
    """Return a manifest's namespace, or what stands for it."""
    return child(manifest, "metadata", "namespace") or PLACEHOLDER


def utilization(resource: str, percent: object) -> dict[str, object]:
    """Return a metric of type Resource."""
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": resource, "target": target}}


def _list(value: Value) -> list[Value]:
    return value if isinstance(value, list) else []


def _query_name(metric: object) -> str | None:
    """Return the name under which a metric's query is looked up; None for a resource's."""
    found = (child(metric, key, "metric", "name") for key in SOURCES.values())
    return next((name for name in found if isinstance(name, str)), None)


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


_MOST_REPLICAS = 100
"""KEDA's default of maxReplicaCount; that of minReplicaCount is 0."""

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_WITHOUT = {
    "cooldownPeriod": "nearest is behavior.scaleDown.stabilizationWindowSeconds",
    "initialCooldownPeriod": "",
    "idleReplicaCount": "",
    "fallback": "missing data never scales down",
}


@dataclass
class _Counterparts:
    """What was found of one ScaledObject."""

    name: str
    metrics: list[object] = field(default_factory=list)
    queries: dict[str, str] = field(default_factory=dict)
    servers: list[str] = field(default_factory=list)
    here: list[str] = field(default_factory=list)
    none: dict[str, str] = field(default_factory=dict)
    """What has no counterpart, and what to do instead, if that is known."""

    external: bool = False
    nulls: bool = False


def draft_of(manifest: Mapping[str, Value]) -> TargetDraft:
    """Convert a ScaledObject as far as it can be."""
    spec, name = manifest.get("spec"), child(manifest, "metadata", "name")
    found = _Counterparts(name if isinstance(name, str) and _PLAIN.fullmatch(name) else "query")
    found.here.append("scaleTargetRef -> scaleTargetRef, with apiVersion and kind")
    found.here.append("minReplicaCount -> minReplicas")
    found.here.append("maxReplicaCount -> maxReplicas")
    triggers = child(spec, "triggers")
    for index, trigger in enumerate(triggers if isinstance(triggers, list) else []):
        _trigger(index, trigger, found)
    target = _target(manifest, found)
    found.none |= {key: text for key, text in _WITHOUT.items() if child(spec, key) is not None}
    found.none |= {f"advanced.{key}": "" for key in _advanced(spec)}
    return TargetDraft(
        target if found.metrics else {},
        tuple(_notes(found)),
        found.queries,
        found.servers[0] if found.servers else "",
    )


def _advanced(spec: Value) -> Iterator[str]:
    advanced = child(spec, "advanced")
    known = ("scalingModifiers", "restoreToOriginalReplicaCount")
    yield from (key for key in known if child(advanced, key) is not None)


def _notes(found: _Counterparts) -> Iterator[str]:
    yield from found.here
    for name, instead in found.none.items():
        yield f"{name}: no counterpart here" + (f"; {instead}" if instead else "")
    if not found.metrics:
        yield (
            "no target is printed: no trigger has a counterpart, and a target without metrics "
            "would scale on cpu"
        )
    if found.nulls:
        yield (
            "an empty answer is 0 to KEDA and missing data here: end a query with `or vector(0)` "
            "where it means 0"
        )
    if len(set(found.servers)) > 1:
        yield "a daemon asks one Prometheus, and its triggers name several"


def _target(manifest: Mapping[str, Value], found: _Counterparts) -> dict[str, object]:
    spec = manifest.get("spec")
    reference = child(spec, "scaleTargetRef")
    low, high = child(spec, "minReplicaCount"), child(spec, "maxReplicaCount")
    target: dict[str, object] = {
        "namespace": namespace_of(manifest),
        "scaleTargetRef": {
            "apiVersion": child(reference, "apiVersion") or "apps/v1",
            "kind": child(reference, "kind") or "Deployment",
            "name": child(reference, "name"),
        },
        # Without pods there is no usage of cpu or memory either, and KEDA keeps one as well.
        "minReplicas": (low or 0) if found.external else (low or 1),
        "maxReplicas": _MOST_REPLICAS if high is None else high,
    }
    period = child(spec, "pollingInterval")
    if isinstance(period, int):
        target["syncPeriod"] = f"{period}s"
        found.here.append("pollingInterval -> syncPeriod")
    if found.metrics:
        target["metrics"] = found.metrics
    behavior = child(spec, "advanced", "horizontalPodAutoscalerConfig", "behavior")
    if isinstance(behavior, dict):
        target["behavior"] = behavior
        found.here.append("advanced.horizontalPodAutoscalerConfig.behavior -> behavior")
    return target


def _trigger(index: int, trigger: object, found: _Counterparts) -> None:
    kind, metadata = child(trigger, "type"), child(trigger, "metadata")
    place = f"triggers[{index}]"
    if kind == "prometheus" and isinstance(child(metadata, "query"), str):
        found.here.append(
            f"{place} (prometheus) -> PromQL in `queries` and a metric of type External"
        )
        _prometheus(index, trigger, found)
    elif kind in ("cpu", "memory"):
        found.here.append(f"{place} ({kind}) -> a metric of type Resource")
        found.metrics.append(_resource(kind, trigger))
    else:
        told = f" ({kind})" if isinstance(kind, str) and _PLAIN.fullmatch(kind) else ""
        found.none[f"{place}{told}"] = (
            "if Prometheus has its metric, write a query and a metric of type External"
        )


def _prometheus(index: int, trigger: object, found: _Counterparts) -> None:
    metadata = child(trigger, "metadata")
    given = child(trigger, "name")
    own = given if isinstance(given, str) and _PLAIN.fullmatch(given) else ""
    if not own or own in found.queries:
        own = f"{found.name}-{index}"
    found.queries[own] = str(child(metadata, "query"))
    value = child(metadata, "threshold")
    target = {"type": "AverageValue", "averageValue": value}
    if child(trigger, "metricType") == "Value":
        target = {"type": "Value", "value": value}
    external = {"metric": {"name": own}, "target": target}
    found.metrics.append({"type": "External", "external": external})
    found.external = True
    server = child(metadata, "serverAddress")
    if isinstance(server, str) and "@" not in server and "?" not in server:
        found.servers.append(one_line(server, 200))
    if str(child(metadata, "ignoreNullValues")).lower() != "false":  # the default is true
        found.nulls = True
    if child(metadata, "activationThreshold") is not None:
        found.none[f"triggers[{index}].metadata.activationThreshold"] = ""
    if child(trigger, "authenticationRef") is not None:
        found.none[f"triggers[{index}].authenticationRef"] = "credentials stand in `prometheus`"


def _resource(resource: str, trigger: object) -> dict[str, object]:
    """Convert a trigger of cpu or memory, whose value is a percentage unless it says otherwise."""
    metadata = child(trigger, "metadata")
    value, container = child(metadata, "value"), child(metadata, "containerName")
    kind = child(trigger, "metricType") or child(metadata, "type")
    percent = int(value) if isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value) else value
    metric = utilization(resource, percent)
    if kind == "AverageValue":
        target = {"type": "AverageValue", "averageValue": value}
        metric = {"type": "Resource", "resource": {"name": resource, "target": target}}
    if container is None:
        return metric
    source = metric["resource"]
    inner = source if isinstance(source, dict) else {}
    return {"type": "ContainerResource", "containerResource": {"container": container, **inner}}
