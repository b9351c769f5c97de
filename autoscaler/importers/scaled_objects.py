"""A ScaledObject of KEDA -> the target that it would be here, and as `undecided` what is left."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from autoscaler.core.text import printable
from autoscaler.documents import Value, child, one_line
from autoscaler.importers.horizontal_pod_autoscalers import (
    TargetDraft,
    namespace_of,
    undecided,
)
from autoscaler.schedules import alternate

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
    "cortexOrgID": "the header X-Scope-OrgID in `headers`",
    "cortexOrgId": "the header X-Scope-OrgID in `headers`",
    "awsRegion": "`sigv4`",
    "queryParameters": "`queryParameters`",
    "timeout": "`timeout` with a unit",
    "unsafeSsl": "`tls: {insecureSkipVerify: true}`, or better `tls: {caFile: FILE}`",
}
"""What stands in the settings of a server here, and is not copied: it may be secret or unsafe."""

_WHOSE_DATA = {"customHeaders", "queryParameters", "cortexOrgID", "cortexOrgId"} | {
    *("authModes", "awsRegion")
}
"""What decides whose data a query reads: without it an answer may be of somebody else, or empty."""

_SIGN_IN = {
    "bearer": "`bearerTokenFile`",
    "basic": "`basicAuth`",
    "tls": "`tls`",
    "custom": "`headersFiles`",
}
"""What stands there instead of each of `authModes`, whose secrets are not in the object."""

_IDLE = {"cooldownPeriod": "after", "initialCooldownPeriod": "initially"}
_FALLBACK = ("failureThreshold", "replicas", "behavior")
_INSTEAD = {
    "authenticationRef": "credentials stand in `prometheus`",
    "authModes": "credentials stand in `prometheus`",
    "useCachedMetrics": "each query is sent once per sync",
}
_ANNOTATIONS = "metadata.annotations."
_PAUSED = "autoscaling.keda.sh/paused"
_FORCED = "autoscaling.keda.sh/force-activation"
_TRUE = {"1", "t", "T", "TRUE", "true", "True"}
_FALSE = {"0", "f", "F", "FALSE", "false", "False"}
"""The booleans of annotations, as Go reads them; KEDA takes any other text for a pause, too."""

_MOST_TRIGGERS = 100

RESTORES = "restoreToOriginalReplicaCount"
_RESTORED = (
    "while this is true, deleting the ScaledObject sets the replicas of the time before KEDA, "
    "under load too: set it to false in the ScaledObject before you delete that"
)
_LONGEST_FORMULA = 500
_FORMULA = (
    "its formula combines the triggers, none of whose thresholds means anything by itself: write "
    "it as one query in PromQL, and a metric of type External on it"
)
_PLACEHOLDERS = ("${", "{{")
_NOT_FILLED_IN = (
    "it has a placeholder that nothing fills in here, so that it would find nothing: convert the "
    "manifest as your tool renders it, or write the query out"
)
_NO_METRICS = (
    "none of them has a counterpart, and without `metrics` a target scales on cpu at 80 percent: "
    "write the metrics"
)
_NOT_ALTERNATING = (
    "its starts and ends do not come in turn, or are too many to tell, and KEDA has it open while "
    "the next end comes before the next start: write `schedules` that are open when you want it"
)


@dataclass
class Comparisons:
    """Of how many more cron triggers starts and ends are compared, which takes up to 50 ms each."""

    left: int = 20


@dataclass
class Shared:
    """What the ScaledObjects of one file have in common here."""

    comparisons: Comparisons = field(default_factory=Comparisons)
    """Those of all files of a configuration."""

    queries: dict[str, object] = field(default_factory=dict)
    servers: dict[tuple[str, str], str] = field(default_factory=dict)
    """Their names by address and namespace; that of the first is empty, since it is the default."""

    counts: Counter[str] = field(default_factory=Counter)
    """How many more queries wanted a name that another one has."""


@dataclass
class _Draft:
    """What one ScaledObject becomes, as far as it was read."""

    name: str
    shared: Shared
    queries: dict[str, object] = field(default_factory=dict)
    servers: dict[tuple[str, str], str] = field(default_factory=dict)
    metrics: list[dict[str, object]] = field(default_factory=list)
    schedules: list[dict[str, object]] = field(default_factory=list)
    here: list[str] = field(default_factory=list)
    none: dict[str, str] = field(default_factory=dict)
    """What has no counterpart, and what to do instead, if that is known."""

    undecided: list[dict[str, object]] = field(default_factory=list)
    formula: bool = False
    """Whether a formula stands for all triggers but those of cpu and memory."""
    external: bool = False
    others: bool = False
    """Whether a trigger has no counterpart."""
    nulls: bool = False

    def leave(self, place: str, why: str, kind: object = None, within: str = "spec.") -> None:
        self.undecided.append(undecided(f"{within}{place}", why, kind))


def draft_of(manifest: Mapping[str, Value], shared: Shared) -> TargetDraft:
    """Convert a ScaledObject as far as it can be, to a target beside those of the same file."""
    spec, name = manifest.get("spec"), child(manifest, "metadata", "name")
    draft = _Draft(_plain(name, "query"), shared)
    _advanced(spec, draft)
    draft.here.append("scaleTargetRef -> scaleTargetRef, with apiVersion and kind")
    triggers = child(spec, "triggers")
    listed = triggers if isinstance(triggers, list) else []
    for index, trigger in enumerate(listed[:_MOST_TRIGGERS]):
        _trigger(index, trigger, draft)
    if len(listed) > _MOST_TRIGGERS:
        draft.others = True
        draft.leave("triggers", f"only the first {_MOST_TRIGGERS} of them were converted")
    if child(manifest, "metadata", "annotations", _FORCED) in (*_TRUE, True):
        draft.leave(_FORCED, "it keeps the target awake: use a schedule", within=_ANNOTATIONS)
        draft.none["its annotation force-activation"] = "use a schedule"
    _windows_alone(spec, draft)
    if not draft.metrics and not draft.formula:
        draft.leave("triggers", _NO_METRICS)
    target = _target(manifest, draft)
    return TargetDraft(target, tuple(_notes(draft)), draft.queries, draft.servers)


def prometheus_of(servers: Mapping[tuple[str, str], str]) -> dict[str, object]:
    """Write servers, by address and namespace, as `prometheus`; the default one has no name."""
    named: dict[str, dict[str, object]] = {
        name: {"url": url, **({"queryParameters": {"namespace": namespace}} if namespace else {})}
        for (url, namespace), name in servers.items()
    }
    default = named.pop("", {})
    return {**default, **({"servers": named} if named else {})}


def _windows_alone(spec: Value, draft: _Draft) -> None:
    """Give a target whose cron triggers alone are ever active a metric that never is."""
    to_zero = child(spec, "idleReplicaCount") is not None or not child(spec, "minReplicaCount")
    if not draft.schedules or draft.external or draft.others or (draft.metrics and not to_zero):
        return
    name = _query_name(f"{draft.name}-idle", _ALWAYS_ZERO, draft)
    draft.metrics.append(_external(name, {"type": "AverageValue", "averageValue": 1}))
    draft.external = True
    draft.here.append(
        f"its windows alone set the count: the metric {name} is `{_ALWAYS_ZERO}`, which is always 0"
    )


def _external(name: str, target: object) -> dict[str, object]:
    return {"type": "External", "external": {"metric": {"name": name}, "target": target}}


def _query_name(wanted: str, query: object, draft: _Draft) -> str:
    """Add a query to those of the file, under a name that no other one has; return the name."""
    shared, name = draft.shared, wanted
    while shared.queries.get(name, query) != query:
        shared.counts[wanted] += 1
        name = f"{wanted}-{shared.counts[wanted] + 1}"
    shared.queries[name] = draft.queries[name] = query
    return name


def _advanced(spec: Value, draft: _Draft) -> None:
    """Note what is dangerous of `advanced`, before anything else."""
    advanced = child(spec, "advanced")
    if str(child(advanced, RESTORES)).lower() not in ("none", "false"):
        draft.here.append(
            f"first set advanced.{RESTORES} to false in the ScaledObject: deleting it sets a count"
        )
        draft.leave(f"advanced.{RESTORES}", _RESTORED)
    modifiers = child(advanced, "scalingModifiers")
    if modifiers:
        draft.formula = True
        draft.none["advanced.scalingModifiers"] = "write it as one query in PromQL"
        # Its numbers stand nowhere else once the ScaledObject is gone.
        keys = ("formula", "target", "activationTarget", "metricType")
        given = {key: child(modifiers, key) for key in keys}
        said = ", ".join(f"{key} {value}" for key, value in given.items() if value is not None)
        said = f"{printable(said, _LONGEST_FORMULA)}; " if said else ""
        draft.leave("advanced.scalingModifiers", f"{said}{_FORMULA}")


def _notes(draft: _Draft) -> Iterator[str]:
    yield from draft.here
    for name, instead in draft.none.items():
        yield f"{name}: no counterpart here" + (f"; {instead}" if instead else "")
    if not draft.metrics and not draft.formula:
        yield f"triggers: {_NO_METRICS}"
    if draft.queries and not draft.servers:
        yield "`prometheus` with the `url` of yours is missing: no trigger has one that is copied"
    if draft.nulls:
        yield "an empty answer is 0 to KEDA: leave out `empty: zero` where it may be an outage too"
    if draft.undecided:
        yield "what is `undecided` in the target makes it invalid until somebody has decided"


def _target(manifest: Mapping[str, Value], draft: _Draft) -> dict[str, object]:
    spec = manifest.get("spec")
    reference, high = child(spec, "scaleTargetRef"), child(spec, "maxReplicaCount")
    target: dict[str, object] = {
        "namespace": namespace_of(manifest),
        "scaleTargetRef": {
            "apiVersion": child(reference, "apiVersion") or "apps/v1",
            "kind": child(reference, "kind") or "Deployment",
            "name": child(reference, "name"),
        },
        **({"undecided": draft.undecided} if draft.undecided else {}),
        "minReplicas": child(spec, "minReplicaCount") or 1,
        "maxReplicas": _MOST_REPLICAS if high is None else high,
    }
    draft.here.append("maxReplicaCount -> maxReplicas")
    period = child(spec, "pollingInterval")
    if isinstance(period, int):
        target["syncPeriod"] = f"{period}s"
        draft.here.append("pollingInterval -> syncPeriod")
    target |= _idle(spec, draft)
    fallback = child(spec, "fallback")
    if isinstance(fallback, dict):
        target["fallback"] = {key: fallback[key] for key in _FALLBACK if key in fallback}
        draft.here.append("fallback -> fallback")
    target |= _paused(manifest, draft)
    if draft.schedules:
        _within(draft, target["minReplicas"], target["maxReplicas"])
        target["schedules"] = draft.schedules
    if draft.metrics:
        target["metrics"] = draft.metrics
    behavior = child(spec, "advanced", "horizontalPodAutoscalerConfig", "behavior")
    if isinstance(behavior, dict):
        target["behavior"] = behavior
        draft.here.append("advanced.horizontalPodAutoscalerConfig.behavior -> behavior")
    return target


def _within(draft: _Draft, low: object, high: object) -> None:
    """Hold the counts of cron triggers to the bounds, as the HPA of a ScaledObject does."""
    for window in draft.schedules:
        count = window["minReplicas"]
        if not (isinstance(count, int) and isinstance(low, int) and isinstance(high, int)):
            continue
        window["minReplicas"] = held = min(max(count, low), high)
        if held != count:
            draft.here.append(
                f"desiredReplicas {count} of {window['name']} -> minReplicas {held}, since it is "
                "held to the bounds of the target"
            )


def _idle(spec: Value, draft: _Draft) -> dict[str, object]:
    """Return `idle`, where a ScaledObject goes to zero or to an idle count."""
    idle, low = child(spec, "idleReplicaCount"), child(spec, "minReplicaCount")
    # Without pods there is no usage of cpu or memory either, and KEDA keeps one as well.
    awakened = draft.external or draft.others or draft.formula
    if not awakened or (idle is None and low):
        draft.here.append("minReplicaCount -> minReplicas")
        unused = [key for key in ("idleReplicaCount", *_IDLE) if child(spec, key) is not None]
        if [one for one in draft.metrics if one.pop("activation", None) is not None]:
            unused.append("activationThreshold")
        draft.none |= dict.fromkeys(unused, "it has no use where nothing goes to zero")
        return {}
    if low:
        draft.here += ["minReplicaCount -> minReplicas", "idleReplicaCount -> idle.replicas"]
    else:
        draft.here.append("minReplicaCount 0 -> idle, and minReplicas 1")
    result: dict[str, object] = {"replicas": idle or 0}
    for key, ours in _IDLE.items():
        seconds = child(spec, key)
        if isinstance(seconds, int):
            result[ours] = f"{seconds}s"
            draft.here.append(f"{key} -> idle.{ours}")
    if any(child(metric, "activation") is not None for metric in draft.metrics):
        draft.here.append("activationThreshold -> activation of the metric")
    return {"idle": result}


def _paused(manifest: Mapping[str, Value], draft: _Draft) -> dict[str, object]:
    annotations = child(manifest, "metadata", "annotations")
    count = str(child(annotations, f"{_PAUSED}-replicas"))
    down, up = (str(child(annotations, f"{_PAUSED}-scale-{way}")) in _TRUE for way in ("in", "out"))
    paused: object = True
    if count.isdecimal() and count.isascii():
        paused = {"replicas": int(count[:9])}
    elif str(child(annotations, _PAUSED)) in {*_FALSE, "None"} and not (down and up):
        if not down and not up:
            return {}
        paused = "scaleDown" if down else "scaleUp"
    draft.here.append("its annotation that pauses it -> paused")
    return {"paused": paused}


def _trigger(index: int, trigger: object, draft: _Draft) -> None:
    kind, metadata = child(trigger, "type"), child(trigger, "metadata")
    place = f"triggers[{index}]"
    for key in ("authenticationRef", "useCachedMetrics"):
        if child(trigger, key) and kind in _CONVERTED:
            draft.none[f"{place}.{key}"] = _INSTEAD[key]
    if child(trigger, "authenticationRef") and kind == "prometheus":
        why = "credentials are not copied: write those of its server in `prometheus`"
        draft.leave(f"{place}.authenticationRef", why, kind)
    if kind == "prometheus" and isinstance(child(metadata, "query"), str):
        metric = "" if draft.formula else " and a metric of type External"
        draft.here.append(f"{place} (prometheus) -> PromQL in `queries`{metric}")
        _prometheus(index, trigger, draft)
    elif kind in ("cpu", "memory"):
        draft.here.append(f"{place} ({kind}) -> a metric of type Resource")
        draft.metrics.append(_resource(kind, trigger))
    elif kind == "cron" and draft.formula:
        draft.none[f"{place} (cron)"] = "the formula has it, or nothing does"
    elif kind == "cron" and _alternates(metadata, draft.shared):
        draft.here.append(f"{place} (cron) -> schedules")
        draft.schedules.append(_schedule(index, trigger))
    else:
        plain = _plain(kind, "") or None
        why = short = "if Prometheus has its metric, write a query and a metric of type External"
        if kind == "cron":
            why, short = _NOT_ALTERNATING, "its starts and ends do not come in turn"
        draft.others = True
        draft.none[f"{place} ({plain})" if plain else place] = short
        draft.leave(place, f"it is left out: {why}", plain)


def _alternates(metadata: object, shared: Shared) -> bool:
    start, end = child(metadata, "start"), child(metadata, "end")
    if not isinstance(start, str) or not isinstance(end, str):
        return True  # what is wrong with it is told of the window
    shared.comparisons.left -= 1
    try:
        return shared.comparisons.left >= 0 and alternate(start, end)
    except ValueError:
        return True


def _plain(value: object, default: str) -> str:
    return value if isinstance(value, str) and _PLAIN.fullmatch(value) else default


def _prometheus(index: int, trigger: object, draft: _Draft) -> None:
    metadata = child(trigger, "metadata")
    _not_copied(index, metadata, draft)
    # The default is true.
    nulls = str(child(metadata, "ignoreNullValues")).lower() != "false"
    draft.nulls |= nulls
    promql = str(child(metadata, "query"))
    if any(begin in promql for begin in _PLACEHOLDERS):
        draft.leave(f"triggers[{index}].metadata.query", _NOT_FILLED_IN, "prometheus")
    empty = {"empty": "zero"} if nulls else {}
    query = {"query": promql, **empty, **_server(index, metadata, draft)}
    wanted = _plain(child(trigger, "name"), f"{draft.name}-{index}")
    own = _query_name(wanted, query if len(query) > 1 else promql, draft)
    draft.external = True
    if draft.formula:
        return
    kind = "Value" if child(trigger, "metricType") == "Value" else "AverageValue"
    key = "value" if kind == "Value" else "averageValue"
    metric = _external(own, {"type": kind, key: child(metadata, "threshold")})
    activation = child(metadata, "activationThreshold")
    if activation is not None:
        metric["activation"] = activation
    draft.metrics.append(metric)


def _not_copied(index: int, metadata: object, draft: _Draft) -> None:
    """Note the keys of a prometheus trigger that the target has not."""
    given = metadata if isinstance(metadata, Mapping) else {}
    for key in sorted(given.keys() - _OF_PROMETHEUS):
        if given[key] in (None, "", "false", False) or not _PLAIN.fullmatch(key):
            continue
        place = f"triggers[{index}].metadata.{key}"
        by_hand = _sign_in(given[key]) if key == "authModes" else _BY_HAND.get(key)
        written = _INSTEAD.get(key, "")
        if by_hand:
            written = f"write it as {by_hand} of its server in `prometheus`"
            draft.here.append(f"{place} is not copied: {written}")
        else:
            draft.none[place] = written
        if key in _WHOSE_DATA:
            draft.leave(place, f"it is not copied: {written}", "prometheus")


def _sign_in(modes: object) -> str:
    """Return what stands for `authModes`, such as "tls,custom", here."""
    given = [mode.strip() for mode in modes.split(",")] if isinstance(modes, str) else []
    return " and ".join(dict.fromkeys(_SIGN_IN[mode] for mode in given if mode in _SIGN_IN))


def _server(index: int, metadata: object, draft: _Draft) -> dict[str, str]:
    """Note the server of a trigger; returns `server`, where it is not the first."""
    address, namespace = child(metadata, "serverAddress"), child(metadata, "namespace")
    if not isinstance(address, str) or "@" in address or "?" in address:
        if address is not None:
            place = f"triggers[{index}].metadata.serverAddress"
            why = "it may be secret and is not copied: write its server in `prometheus`, and "
            draft.leave(place, f"{why}`server` of the query if others are asked, too", "prometheus")
        return {}
    if namespace:
        draft.here.append(f"triggers[{index}].metadata.namespace -> queryParameters of its server")
    servers = draft.shared.servers
    key = (one_line(address, 200), one_line(str(namespace or ""), 200))
    name = servers.setdefault(key, f"prometheus-{len(servers) + 1}" if servers else "")
    draft.servers[key] = name
    return {"server": name} if name else {}


def _resource(resource: str, trigger: object) -> dict[str, object]:
    """Convert a trigger of cpu or memory, whose value is a percentage unless it says otherwise."""
    metadata = child(trigger, "metadata")
    value, container = child(metadata, "value"), child(metadata, "containerName")
    kind = child(trigger, "metricType") or child(metadata, "type")
    target: dict[str, object] = {"type": "Utilization", "averageUtilization": _number(value)}
    if kind == "AverageValue":
        target = {"type": kind, "averageValue": value}
    source = {"name": resource, "target": target}
    if container is None:
        return {"type": "Resource", "resource": source}
    return {"type": "ContainerResource", "containerResource": {"container": container, **source}}


def _schedule(index: int, trigger: object) -> dict[str, object]:
    """Convert a trigger of cron: the count that it asks for while it is open is a minimum here."""
    metadata = child(trigger, "metadata")
    return {
        "name": _plain(child(trigger, "name"), f"cron-{index}"),
        **{key: child(metadata, key) for key in ("start", "end", "timezone")},
        "minReplicas": _number(child(metadata, "desiredReplicas")),
    }


def _number(value: object) -> object:
    return int(value) if isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value) else value
