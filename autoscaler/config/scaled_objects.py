"""A ScaledObject of KEDA -> the target that it would be here, as far as it has a counterpart."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from autoscaler.config.document import Value, child, one_line
from autoscaler.config.manifest_targets import TargetDraft, namespace_of, utilization

_MOST_REPLICAS = 100
"""KEDA's default of maxReplicaCount; that of minReplicaCount is 0."""

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_IDLE = {"cooldownPeriod": "after", "initialCooldownPeriod": "initially"}
_FALLBACK = ("failureThreshold", "replicas", "behavior")
_PAUSED = "autoscaling.keda.sh/paused"


@dataclass
class _Counterparts:
    """What was found of one ScaledObject."""

    name: str
    metrics: list[object] = field(default_factory=list)
    queries: dict[str, object] = field(default_factory=dict)
    schedules: list[object] = field(default_factory=list)
    servers: dict[str, str] = field(default_factory=dict)
    """The names of servers by address; that of the first is empty, since it is the default."""

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
    triggers = child(spec, "triggers")
    for index, trigger in enumerate(triggers if isinstance(triggers, list) else []):
        _trigger(index, trigger, found)
    target = _target(manifest, found)
    found.none |= {f"advanced.{key}": "" for key in _advanced(spec)}
    return TargetDraft(
        target if found.metrics else {},
        tuple(_notes(found)),
        found.queries,
        _prometheus_of(found.servers),
    )


def _prometheus_of(servers: Mapping[str, str]) -> dict[str, object]:
    if not servers:
        return {}
    first, *others = servers
    named = {"servers": {servers[url]: {"url": url} for url in others}} if others else {}
    return {"url": first, **named}


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
            "an empty answer is 0 to KEDA: leave out `empty: zero` where it may be an outage too"
        )


def _target(manifest: Mapping[str, Value], found: _Counterparts) -> dict[str, object]:
    spec = manifest.get("spec")
    reference, high = child(spec, "scaleTargetRef"), child(spec, "maxReplicaCount")
    target: dict[str, object] = {
        "namespace": namespace_of(manifest),
        "scaleTargetRef": {
            "apiVersion": child(reference, "apiVersion") or "apps/v1",
            "kind": child(reference, "kind") or "Deployment",
            "name": child(reference, "name"),
        },
        "minReplicas": child(spec, "minReplicaCount") or 1,
        "maxReplicas": _MOST_REPLICAS if high is None else high,
    }
    found.here.append("maxReplicaCount -> maxReplicas")
    period = child(spec, "pollingInterval")
    if isinstance(period, int):
        target["syncPeriod"] = f"{period}s"
        found.here.append("pollingInterval -> syncPeriod")
    target |= _idle(spec, found) | _fallback(spec, found) | _paused(manifest, found)
    if found.schedules:
        target["schedules"] = found.schedules
    if found.metrics:
        target["metrics"] = found.metrics
    behavior = child(spec, "advanced", "horizontalPodAutoscalerConfig", "behavior")
    if isinstance(behavior, dict):
        target["behavior"] = behavior
        found.here.append("advanced.horizontalPodAutoscalerConfig.behavior -> behavior")
    return target


def _idle(spec: Value, found: _Counterparts) -> dict[str, object]:
    """Return `idle`, where a ScaledObject goes to zero or to an idle count."""
    idle, low = child(spec, "idleReplicaCount"), child(spec, "minReplicaCount")
    # Without pods there is no usage of cpu or memory either, and KEDA keeps one as well.
    if not found.external or (idle is None and low):
        found.here.append("minReplicaCount -> minReplicas")
        unused = [key for key in ("idleReplicaCount", *_IDLE) if child(spec, key) is not None]
        metrics = (metric for metric in found.metrics if isinstance(metric, dict))
        if [metric for metric in metrics if metric.pop("activation", None) is not None]:
            unused.append("activationThreshold")
        found.none |= dict.fromkeys(unused, "it has no use where nothing goes to zero")
        return {}
    if low:
        found.here.append("minReplicaCount -> minReplicas")
        found.here.append("idleReplicaCount -> idle.replicas")
    else:
        found.here.append("minReplicaCount 0 -> idle, and minReplicas 1")
    result: dict[str, object] = {"replicas": idle or 0}
    for key, ours in _IDLE.items():
        seconds = child(spec, key)
        if isinstance(seconds, int):
            result[ours] = f"{seconds}s"
            found.here.append(f"{key} -> idle.{ours}")
    if any(child(metric, "activation") is not None for metric in found.metrics):
        found.here.append("activationThreshold -> activation of the metric")
    return {"idle": result}


def _fallback(spec: Value, found: _Counterparts) -> dict[str, object]:
    fallback = child(spec, "fallback")
    if not isinstance(fallback, dict):
        return {}
    found.here.append("fallback -> fallback")
    return {"fallback": {key: fallback[key] for key in _FALLBACK if key in fallback}}


def _paused(manifest: Mapping[str, Value], found: _Counterparts) -> dict[str, object]:
    annotations = child(manifest, "metadata", "annotations")
    count = str(child(annotations, f"{_PAUSED}-replicas"))
    if count.isdecimal() and count.isascii():
        paused: object = {"replicas": int(count[:9])}
    else:
        forms = {"": True, "-scale-in": "scaleDown", "-scale-out": "scaleUp"}
        given = (form for end, form in forms.items() if child(annotations, _PAUSED + end) == "true")
        paused = next(given, None)
    if paused is None:
        return {}
    found.here.append("its annotation that pauses it -> paused")
    return {"paused": paused}


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
    elif kind == "cron":
        found.here.append(f"{place} (cron) -> schedules")
        found.schedules.append(_schedule(index, trigger))
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
    # The default is true.
    nulls = str(child(metadata, "ignoreNullValues")).lower() != "false"
    found.nulls |= nulls
    query = {
        "query": str(child(metadata, "query")),
        **({"empty": "zero"} if nulls else {}),
        **_server(index, metadata, found),
    }
    found.queries[own] = query if len(query) > 1 else query["query"]
    value = child(metadata, "threshold")
    target = {"type": "AverageValue", "averageValue": value}
    if child(trigger, "metricType") == "Value":
        target = {"type": "Value", "value": value}
    external = {"metric": {"name": own}, "target": target}
    metric: dict[str, object] = {"type": "External", "external": external}
    activation = child(metadata, "activationThreshold")
    if activation is not None:
        metric["activation"] = activation
    found.metrics.append(metric)
    found.external = True
    if child(trigger, "authenticationRef") is not None:
        found.none[f"triggers[{index}].authenticationRef"] = "credentials stand in `prometheus`"


def _server(index: int, metadata: object, found: _Counterparts) -> dict[str, str]:
    """Note the server of a trigger; returns `server`, where it is not the first."""
    for key, ours in {"customHeaders": "headers", "queryParameters": "queryParameters"}.items():
        if child(metadata, key) is not None:
            instead = f"`{ours}` of its server in `prometheus`"
            found.none[f"triggers[{index}].metadata.{key}"] = instead
    address = child(metadata, "serverAddress")
    if not isinstance(address, str) or "@" in address or "?" in address:
        return {}
    count = len(found.servers)
    name = found.servers.setdefault(
        one_line(address, 200), f"prometheus-{count + 1}" if count else ""
    )
    return {"server": name} if name else {}


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


def _schedule(index: int, trigger: object) -> dict[str, object]:
    """Convert a trigger of cron: the count that it asks for while it is open is a minimum here."""
    metadata, name = child(trigger, "metadata"), child(trigger, "name")
    count = child(metadata, "desiredReplicas")
    whole = isinstance(count, str) and re.fullmatch("[0-9]{1,9}", count)
    return {
        "name": name if isinstance(name, str) and _PLAIN.fullmatch(name) else f"cron-{index}",
        **{key: child(metadata, key) for key in ("start", "end", "timezone")},
        "minReplicas": int(whole[0]) if whole else count,
    }
