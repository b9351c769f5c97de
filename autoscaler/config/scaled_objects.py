"""A ScaledObject of KEDA -> the target that it would be here, as far as it has a counterpart."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from autoscaler.config.document import Value, child, one_line
from autoscaler.config.manifest_targets import TargetDraft, namespace_of, utilization

_MOST_REPLICAS = 100
"""KEDA's default of maxReplicaCount; that of minReplicaCount is 0."""

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_ALWAYS_ZERO = "vector(0)"
"""What a target scales on whose windows alone set the count."""

_CONVERTED = ("prometheus", "cpu", "memory", "cron")
_OF_PROMETHEUS = {"serverAddress", "query", "threshold", "activationThreshold"} | {
    *("ignoreNullValues", "namespace", "metricName")
}
_BY_HAND = {
    "customHeaders": "`headers`",
    "queryParameters": "`queryParameters`",
    "timeout": "`timeout` with a unit",
    "unsafeSsl": "`tls: {insecureSkipVerify: true}`, or better `tls: {caFile: FILE}`",
}
"""What stands in the settings of a server here, and is not copied: it may be secret or unsafe."""

_IDLE = {"cooldownPeriod": "after", "initialCooldownPeriod": "initially"}
_FALLBACK = ("failureThreshold", "replicas", "behavior")
_INSTEAD = {
    "authenticationRef": "credentials stand in `prometheus`",
    "authModes": "credentials stand in `prometheus`",
    "useCachedMetrics": "each query is sent once per sync",
}
_PAUSED = "autoscaling.keda.sh/paused"


@dataclass
class Shared:
    """What the ScaledObjects of one file have in common here."""

    queries: dict[str, object] = field(default_factory=dict)
    servers: dict[tuple[str, str], str] = field(default_factory=dict)
    """Their names by address and namespace; that of the first is empty, since it is the default."""

    counts: Counter[str] = field(default_factory=Counter)
    """How many more queries wanted a name that another one has."""


@dataclass
class _Counterparts:
    """What was found of one ScaledObject."""

    name: str
    shared: Shared
    queries: dict[str, object] = field(default_factory=dict)
    servers: dict[tuple[str, str], str] = field(default_factory=dict)
    metrics: list[object] = field(default_factory=list)
    schedules: list[dict[str, object]] = field(default_factory=list)
    here: list[str] = field(default_factory=list)
    none: dict[str, str] = field(default_factory=dict)
    """What has no counterpart, and what to do instead, if that is known."""

    external: bool = False
    others: bool = False
    """Whether a trigger has no counterpart."""
    nulls: bool = False


def draft_of(manifest: Mapping[str, Value], shared: Shared) -> TargetDraft:
    """Convert a ScaledObject as far as it can be, to a target beside those of the same file."""
    spec, name = manifest.get("spec"), child(manifest, "metadata", "name")
    plain = name if isinstance(name, str) and _PLAIN.fullmatch(name) else "query"
    found = _Counterparts(plain, shared)
    found.here.append("scaleTargetRef -> scaleTargetRef, with apiVersion and kind")
    triggers = child(spec, "triggers")
    for index, trigger in enumerate(triggers if isinstance(triggers, list) else []):
        _trigger(index, trigger, found)
    _windows_alone(spec, found)
    target = _target(manifest, found)
    found.none |= {f"advanced.{key}": "" for key in _advanced(spec)}
    return TargetDraft(
        target if found.metrics else {},
        tuple(_notes(found)),
        found.queries,
        found.servers,
    )


def prometheus_of(servers: Mapping[tuple[str, str], str]) -> dict[str, object]:
    """Write servers, by address and namespace, as `prometheus`; the default one has no name."""
    named: dict[str, dict[str, object]] = {
        name: {"url": url, **({"queryParameters": {"namespace": namespace}} if namespace else {})}
        for (url, namespace), name in servers.items()
    }
    default = named.pop("", {})
    return {**default, **({"servers": named} if named else {})}


def _windows_alone(spec: Value, found: _Counterparts) -> None:
    """Give a target whose cron triggers alone are ever active a metric that never is."""
    to_zero = child(spec, "idleReplicaCount") is not None or not child(spec, "minReplicaCount")
    if not found.schedules or found.external or found.others or (found.metrics and not to_zero):
        return
    name = _query_name(f"{found.name}-idle", _ALWAYS_ZERO, found)
    found.metrics.append(_external(name, {"type": "AverageValue", "averageValue": 1}))
    found.external = True
    found.here.append(
        f"its windows alone set the count: the metric {name} is `{_ALWAYS_ZERO}`, which is always 0"
    )


def _external(name: str, target: object) -> dict[str, object]:
    return {"type": "External", "external": {"metric": {"name": name}, "target": target}}


def _query_name(wanted: str, query: object, found: _Counterparts) -> str:
    """Add a query to those of the file, under a name that no other one has; return the name."""
    shared, name = found.shared, wanted
    while shared.queries.get(name, query) != query:
        shared.counts[wanted] += 1
        name = f"{wanted}-{shared.counts[wanted] + 1}"
    shared.queries[name] = found.queries[name] = query
    return name


def _advanced(spec: Value) -> Iterator[str]:
    advanced = child(spec, "advanced")
    known = ("scalingModifiers", "restoreToOriginalReplicaCount")
    yield from (key for key in known if child(advanced, key) is not None)


def _notes(found: _Counterparts) -> Iterator[str]:
    yield from found.here
    for name, instead in found.none.items():
        yield f"{name}: no counterpart here" + (f"; {instead}" if instead else "")
    if not found.metrics:
        no_trigger = "no trigger but cron" if found.schedules else "no trigger"
        yield (
            f"no target is printed: {no_trigger} has a counterpart, and a target without metrics "
            "would scale on cpu"
        )
    elif found.queries and not found.servers:
        yield "`prometheus` with the `url` of yours is missing: no trigger names one"
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
        _within(found, target["minReplicas"], target["maxReplicas"])
        target["schedules"] = found.schedules
    if found.metrics:
        target["metrics"] = found.metrics
    behavior = child(spec, "advanced", "horizontalPodAutoscalerConfig", "behavior")
    if isinstance(behavior, dict):
        target["behavior"] = behavior
        found.here.append("advanced.horizontalPodAutoscalerConfig.behavior -> behavior")
    return target


def _within(found: _Counterparts, low: object, high: object) -> None:
    """Hold the counts of cron triggers to the bounds, as the HPA of a ScaledObject does."""
    for window in found.schedules:
        count = window["minReplicas"]
        if not (isinstance(count, int) and isinstance(low, int) and isinstance(high, int)):
            continue
        window["minReplicas"] = min(max(count, low), high)
        if window["minReplicas"] != count:
            found.here.append(
                f"desiredReplicas {count} of {window['name']} -> minReplicas "
                f"{window['minReplicas']}, since it is held to the bounds of the target"
            )


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
    for key in ("authenticationRef", "useCachedMetrics"):
        if child(trigger, key) and kind in _CONVERTED:
            found.none[f"{place}.{key}"] = _INSTEAD[key]
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
        found.others = True
        found.none[f"{place}{told}"] = (
            "if Prometheus has its metric, write a query and a metric of type External"
        )


def _prometheus(index: int, trigger: object, found: _Counterparts) -> None:
    metadata = child(trigger, "metadata")
    given = child(trigger, "name")
    _not_copied(index, metadata, found)
    wanted = given if isinstance(given, str) and _PLAIN.fullmatch(given) else ""
    # The default is true.
    nulls = str(child(metadata, "ignoreNullValues")).lower() != "false"
    found.nulls |= nulls
    query = {
        "query": str(child(metadata, "query")),
        **({"empty": "zero"} if nulls else {}),
        **_server(index, metadata, found),
    }
    own = _query_name(
        wanted or f"{found.name}-{index}", query if len(query) > 1 else query["query"], found
    )
    value = child(metadata, "threshold")
    target = {"type": "AverageValue", "averageValue": value}
    if child(trigger, "metricType") == "Value":
        target = {"type": "Value", "value": value}
    metric = _external(own, target)
    activation = child(metadata, "activationThreshold")
    if activation is not None:
        metric["activation"] = activation
    found.metrics.append(metric)
    found.external = True


def _not_copied(index: int, metadata: object, found: _Counterparts) -> None:
    """Note the keys of a prometheus trigger that the target has not."""
    given = metadata if isinstance(metadata, Mapping) else {}
    for key in sorted(given.keys() - _OF_PROMETHEUS):
        if given[key] in (None, "", "false", False) or not _PLAIN.fullmatch(key):
            continue
        place = f"triggers[{index}].metadata.{key}"
        if key in _BY_HAND:
            found.here.append(
                f"{place} is not copied: write it as {_BY_HAND[key]} of its server in `prometheus`"
            )
        else:
            found.none[place] = _INSTEAD.get(key, "")


def _server(index: int, metadata: object, found: _Counterparts) -> dict[str, str]:
    """Note the server of a trigger; returns `server`, where it is not the first."""
    address, namespace = child(metadata, "serverAddress"), child(metadata, "namespace")
    if not isinstance(address, str) or "@" in address or "?" in address:
        return {}
    if namespace:
        found.here.append(f"triggers[{index}].metadata.namespace -> queryParameters of its server")
    servers = found.shared.servers
    key_of = one_line(address, 200), one_line(str(namespace or ""), 200)
    name = servers.setdefault(key_of, f"prometheus-{len(servers) + 1}" if servers else "")
    found.servers[key_of] = name
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
