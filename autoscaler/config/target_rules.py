"""The rules between fields of targets, of their metrics and queries."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from pydantic import JsonValue

from autoscaler.config import rule_forms as form
from autoscaler.config import spec_model as model
from autoscaler.config.documents import child, entries
from autoscaler.config.error_messages import suggestion
from autoscaler.config.models import Model
from autoscaler.config.promql import is_condition
from autoscaler.config.rule_forms import Context, Fields, Rule
from autoscaler.config.settings import DEFAULT_SERVER
from autoscaler.core.observation import HOLD_QUERY
from autoscaler.core.spec import SOURCES

_MOST_CLUSTERS_NAMED = 8
_ZERO = (
    "0 needs at least one metric of type Object or External: without pods there is nothing else "
    "to measure; right is 1, or such a metric"
)


def _too_few(spec: Fields) -> int | None:
    low, high = form.integer(spec, "minReplicas", 1), form.integer(spec, "maxReplicas")
    return low if low is not None and high is not None and 1 <= high < low else None


def _idle_replicas(target: Fields) -> int | None:
    idle = child(target, "idle")
    return form.integer(idle, "replicas", 0) if isinstance(idle, Mapping) else None


def _too_few_awake(idle: Fields, context: Context) -> int | None:
    """Return minReplicas if idle.replicas is not less; 0 has a sentence of its own."""
    count, low = form.integer(idle, "replicas", 0), form.integer(context.target, "minReplicas", 1)
    return low if count is not None and low is not None and 1 <= low <= count else None


def _too_large_multiple(replicas: Fields, context: Context) -> int | None:
    of, high = form.integer(replicas, "multipleOf"), form.integer(context.target, "maxReplicas")
    return high if of is not None and high is not None and 1 <= high < of else None


def _is_stateful_set(target: Fields) -> bool:
    ref = child(target, "scaleTargetRef")
    return isinstance(ref, Mapping) and _kind(ref) == "StatefulSet" and group_of(ref) == "apps"


def _wakes_no_window(schedule: Fields, context: Context) -> tuple[int] | None:
    count, low = _idle_replicas(context.target), form.integer(schedule, "minReplicas")
    return (count,) if count is not None and low is not None and 0 <= low <= count else None


def _window_without_pods(schedule: Fields, context: Context) -> bool:
    zero = form.integer(schedule, "minReplicas") == 0
    return (
        zero
        and _idle_replicas(context.target) is None
        and not form.accepts(form.WITHOUT_PODS, context.target)
    )


def _window_upside_down(key: str, schedule: Fields, context: Context) -> tuple[str, int] | None:
    """Return the bound that contradicts the one at ``key`` of a window, and its owner.

    If a window has both bounds, the fault is at maxReplicas.
    """
    other, default = ("minReplicas", 1) if key == "maxReplicas" else ("maxReplicas", None)
    own, bound = form.integer(schedule, key), form.integer(schedule, other)
    whose = "its"
    if schedule.get(other) is None:
        whose, bound = "the target's", form.integer(context.target, other, default)
    elif key == "minReplicas":
        return None
    if own is None or bound is None:
        return None
    wrong = own < bound if key == "maxReplicas" else own > bound
    return (whose, bound) if wrong else None


def _left(fields: Fields, _: Context) -> tuple[str, str]:
    of_type = f" (type {kind})" if (kind := fields.get("type")) else ""
    return f"{fields.get('field') or 'something'}{of_type}", str(fields.get("why") or "something")


def _never_opens(schedule: Fields) -> bool:
    start, end = schedule.get("start"), schedule.get("end")
    return isinstance(start, str) and isinstance(end, str) and start.split() == end.split()


def _useless_activation(target: Fields) -> str:
    """Return the metrics with an activation if the target has no idle."""
    with_one = [
        f"metrics[{index}]"
        for index, metric in entries(target, "metrics")
        if child(metric, "activation") is not None and child(metric, "type") not in form.PER_POD
    ]
    return "" if form.given(target, "idle") else ", ".join(with_one[:3])


APPS = {"Deployment": "deploy", "StatefulSet": "sts", "ReplicaSet": "rs"}
"""The kinds of the group apps that have a scale subresource, with kubectl's short names."""
KINDS = {
    name: kind
    for kind, short in {**APPS, "ReplicationController": "rc"}.items()
    for name in (kind.lower(), f"{kind.lower()}s", short)
}
WITHOUT_SCALE = {"DaemonSet": "apps", "Job": "batch", "CronJob": "batch", "Pod": ""}
NO_SCALE = (
    "has no scale subresource, so that nothing can set its replicas; right is a Deployment, a "
    "StatefulSet or another kind that has one"
)
_SLIPS = {"", "app", "extensions"}
"""Groups that are often written for apps, which has had Deployments since Kubernetes 1.16."""


def group_of(ref: Fields) -> str | None:
    """Return the group of `apiVersion` (the version does not matter, as for the HPA), or None."""
    version = ref.get("apiVersion")
    return version.rpartition("/")[0] if isinstance(version, str) else None


def _kind(ref: Fields) -> str:
    kind = ref.get("kind")
    if not isinstance(kind, str):
        return ""
    usual = KINDS.get(kind.lower(), kind)
    return usual if group_of(ref) in {*_SLIPS, "apps", None} else kind


def _is_scaled(ref: Fields) -> bool:
    return WITHOUT_SCALE.get(_kind(ref), "none") != group_of(ref)


def _kind_fault(ref: Fields) -> str | None:
    kind = _kind(ref)
    if kind and kind != ref["kind"]:
        return f"must be {kind}, as in `kind` of its manifest"
    if _is_scaled(ref):
        return None
    return NO_SCALE


def _kind_in_group(ref: Fields) -> str:
    kind = _kind(ref)
    return kind if _is_scaled(ref) and kind != "ReplicationController" else ""


def _missing_group(ref: Fields) -> str:
    kind = _kind_in_group(ref)
    if not kind or ref.get("apiVersion") is not None:
        return ""
    named = f"apps/v1 for a {kind}"
    return named if kind in APPS else f"the group and version of {kind}, such as apps/v1"


def _group_fault(ref: Fields) -> str | None:
    kind, group = _kind_in_group(ref), group_of(ref)
    if not kind or group is None:
        return None
    if str(ref["apiVersion"]).startswith("/"):
        return "must name a group before the /, such as apps/v1"
    right = "be apps/v1" if kind in APPS else f"name the group of {kind}, such as apps/v1"
    if group == "":
        return f"must {right}; only a ReplicationController is in the core group"
    return f"must be apps/v1 for a {kind}" if kind in APPS and group in _SLIPS else None


def _unknown_cluster(key: str, target: Fields, context: Context) -> tuple[str, str] | None:
    """Return the first unknown cluster at a key, and the correct form."""
    known = context.clusters
    if known is None or target.get(key) is None:
        return None
    names = form.clusters_named({key: target[key]})
    unknown = next((name for name in names if name not in known), None)
    if unknown is None:
        return None
    if not known:
        return unknown, "none; leave it out, or write `clusters` in the main file"
    return unknown, suggestion(unknown, known)


def _no_cluster(target: Fields, context: Context) -> str | None:
    known = context.clusters or ()
    if len(known) < 2 or form.given(target, "cluster") or form.given(target, "clusters"):
        return None
    first = [*known][:_MOST_CLUSTERS_NAMED]
    more = "" if len(known) == len(first) else f" and {len(known) - len(first)} more"
    return f"{', '.join(first)}{more}"


def _repeated_cluster(target: Fields) -> str | None:
    names = form.clusters_named({"clusters": target.get("clusters")})
    return next((name for name in names if names.count(name) > 1), None)


def _not_with_name(key: str, advice: str) -> Rule:
    return form.stated(key, form.not_both(key, "name"), f"does not go with `name`: {advice}")


def _unclear_hold(target: Fields, context: Context) -> bool:
    query = target.get(HOLD_QUERY)
    if isinstance(name := child(query, "name"), str):
        query = (context.queries or {}).get(name)
    promql = query if isinstance(query, str) else child(query, "query")
    return isinstance(promql, str) and is_condition(promql) is None


_LISTED, _UNLISTED = ("In", "NotIn"), ("Exists", "DoesNotExist")
"""The operators with values, and the others."""
_EMPTY = form.properties(values={"type": ["array", "null"], "maxItems": 0})


def _other_source(metric: Fields, key: str) -> object:
    """Return the type, and the key of its source, if a source belongs to another type."""
    kind = metric.get("type")
    own = SOURCES.get(kind) if isinstance(kind, str) else None
    return (kind, own) if form.given(metric, key) and own not in {None, key} else None


def _source_rules(kind: str, key: str) -> Iterator[Rule]:
    missing = f"is missing: type {kind} needs its source here"
    needed = form.implies(form.where("type", kind), form.has(key))
    yield form.stated(key, needed, missing, fixed_by=(key,))
    yield Rule(
        key,
        lambda metric, _: _other_source(metric, key),
        "does not belong to type {}: keep only `{}`, or change the type",
        form.implies(
            form.where("type", *(source for source in SOURCES if source != kind)), form.null(key)
        ),
    )


def _target_rules(*allowed: str, exclusive: bool = True) -> Sequence[Rule]:
    """Return the rules of a target's values; its type is not compared with them, as in the API."""
    either = " or ".join(allowed)
    forms = (f"{{type: {name[0].upper()}{name[1:]}, {name}: NUMBER}}" for name in allowed)
    taken = " or ".join(forms)

    def utilization(source: Fields) -> bool:
        kind, percent = (child(source, "target", key) for key in ("type", "averageUtilization"))
        other = "averageUtilization" not in allowed
        return other and (kind == "Utilization" or percent is not None)

    each: JsonValue = [form.has(name) for name in allowed]
    some = form.properties(target={"anyOf": each})
    right = form.properties(target={"oneOf": each}) if exclusive else some
    return (
        Rule(
            "target",
            lambda source, _: not form.accepts(some, source) and utilization(source) and taken,
            "Utilization is for Resource and ContainerResource metrics only: write {}",
        ),
        Rule(
            "target",
            lambda source, _: not form.accepts(some, source),
            f"{either} is missing: what to hold the metric at",
            right,
            fixed_by=[f"target.{name}" for name in allowed],
        ),
        Rule(
            "target",
            lambda source, _: form.accepts(some, source) and not form.accepts(right, source),
            f"takes one of {either}, not both",
        ),
    )


def _resources(context: Context) -> AbstractSet[str] | None:
    """Return the resources with a query at each valid server of the target."""
    of_cluster = context.clusters or {}
    names = form.clusters_named(context.target) or of_cluster
    servers = [of_cluster.get(name) for name in names] or [None]
    if (own := child(context.target, "server")) is not None:
        servers = [str(own)]
    found = [(context.resources or {}).get(server or DEFAULT_SERVER) for server in servers]
    known = [resources for resources in found if resources is not None]
    return frozenset.intersection(*map(frozenset, known)) if known else None


def _zero_of_pods(source: Fields, context: Context) -> bool:
    """Return whether a Pods metric's query, own or by name, takes NaN or no series as 0."""
    own, name = (child(source, "metric", key) for key in ("query", "name"))
    named = context.queries.get(name) if context.queries and isinstance(name, str) else None
    return form.is_zero(named if own is None else own)


TARGET_RULES: Mapping[type[Model], Sequence[Rule]] = {
    model.HorizontalPodAutoscalerSpec: (
        Rule(
            "maxReplicas",
            lambda spec, _: _too_few(spec),
            "must be at least minReplicas, which is {}",
            shown=True,
        ),
        form.stated(
            "minReplicas",
            form.implies(form.where("minReplicas", 0), form.WITHOUT_PODS),
            _ZERO,
            shown=True,
        ),
    ),
    model.ScalingModel: (
        form.stated(
            "minReplicas",
            form.implies(form.has("idle"), {"not": form.where("minReplicas", 0)}),
            "must be at least 1 with `idle`, which scales to idle.replicas and back",
            shown=True,
        ),
        form.stated(
            "idle",
            form.implies(form.has("idle"), form.WITHOUT_PODS),
            "needs at least one metric of type External or Object: only these can be active",
        ),
        Rule(
            "idle",
            lambda target, _: _useless_activation(target),
            "is missing: the activation of {} says from which value on a target is not idle; write "
            "idle: {{after: 5m}} here, or leave the activation out",
            form.implies(
                {"not": form.has("idle")},
                form.properties(metrics={"items": form.null("activation")}),
            ),
            fixed_by=("idle",),
        ),
        Rule(
            "schedules",
            lambda target, _: form.repeated_name(target, "schedules"),
            "two of them are called `{}`: give each a name of its own",
        ),
        Rule(
            HOLD_QUERY,
            _unclear_hold,
            "compares inside of something else, so that it is unclear what a 0 says: put the "
            "comparison last, as in `max by (job) (up) == 0`, or count, as in `count(up == 0)`",
        ),
        form.SERVER,
    ),
    model.TargetModel: (
        *(
            Rule(key, functools.partial(_unknown_cluster, key), "`{}` is not in `clusters`: {}")
            for key in ("cluster", "clusters")
        ),
        Rule(
            "",
            _no_cluster,
            "cluster is missing: which of `clusters` it is in: {}; or clusters, a list of several",
            fixed_by=("cluster", "clusters"),
        ),
        form.stated(
            "cluster",
            form.not_both("cluster", "clusters"),
            "does not go with `clusters`: keep one of them",
        ),
        Rule(
            "clusters",
            lambda target, _: _repeated_cluster(target),
            "names `{}` twice: a workload has one target in each cluster",
            form.properties(clusters={"uniqueItems": True}),
        ),
    ),
    model.IdleModel: (
        Rule("replicas", _too_few_awake, "must be less than minReplicas, which is {}", shown=True),
    ),
    model.ReplicasModel: (
        Rule(
            "multipleOf",
            _too_large_multiple,
            "must be at most maxReplicas, which is {}",
            shown=True,
        ),
    ),
    model.ScaleDownModel: (
        Rule(
            "podDeletionCost",
            lambda _, context: _is_stateful_set(context.target),
            "has no effect on a StatefulSet, which removes its pods in the order of their numbers",
        ),
    ),
    model.FallbackModel: (
        form.stated(
            "replicas",
            {"anyOf": [form.has("replicas"), form.where("behavior", "currentReplicas")]},
            "is missing: the count that a metric proposes which fails; only behavior "
            "currentReplicas needs none",
            fixed_by=("replicas",),
        ),
    ),
    model.UndecidedModel: (
        Rule(
            "",
            _left,
            "is left to decide: {}: {}; delete this entry once that is done, or not wanted",
        ),
    ),
    model.ScheduleModel: (
        Rule(
            "end",
            lambda schedule, _: _never_opens(schedule),
            "is the same as start, so that the window would never open",
            shown=True,
        ),
        form.any_of(
            ("minReplicas", "maxReplicas"), "gives no bound: write minReplicas, maxReplicas or both"
        ),
        Rule(
            "minReplicas",
            _wakes_no_window,
            "must be more than idle.replicas, which is {}",
            shown=True,
        ),
        Rule("minReplicas", _window_without_pods, _ZERO, shown=True),
        Rule(
            "minReplicas",
            functools.partial(_window_upside_down, "minReplicas"),
            "must be at most {} maxReplicas, which is {}; or give the window a maxReplicas too",
            shown=True,
        ),
        Rule(
            "maxReplicas",
            functools.partial(_window_upside_down, "maxReplicas"),
            "must be at least {} minReplicas, which is {}; or give the window a lower minReplicas "
            "too",
            shown=True,
        ),
    ),
    model.ScaleTargetRef: (
        Rule("kind", lambda ref, _: _kind_fault(ref), "{}", shown=True),
        Rule(
            "",
            lambda ref, _: _missing_group(ref),
            "apiVersion is missing: {}",
            form.implies(
                form.with_key("kind", {"not": {"const": "ReplicationController"}}),
                form.with_key("apiVersion", {"type": "string", "pattern": "^[^/]+/"}),
            ),
            fixed_by=("apiVersion",),
        ),
        Rule("apiVersion", lambda ref, _: _group_fault(ref), "{}", shown=True),
    ),
    model.SharedQueryModel: (form.SERVER,),
    model.HoldQueryModel: (
        form.any_of(
            ("query", "name"), "needs `query`, which is PromQL, or `name`, a key of `queries`"
        ),
        Rule(
            "name",
            lambda hold, context: form.unknown_name(hold, context.queries),
            "unknown key of `queries`: {}; or write the PromQL as `query`",
            shown=True,
        ),
        _not_with_name("query", "keep one of them"),
        *(
            _not_with_name(key, "write it at that query")
            for key in ("server", "maxAge", "nan", "partial")
        ),
    ),
    model.MetricSpec: (
        form.stated(
            "activation",
            form.implies(form.where("type", *form.PER_POD), form.null("activation")),
            "belongs to metrics of type External and Object: one of pods cannot wake a target",
        ),
        *(rule for kind, key in SOURCES.items() for rule in _source_rules(kind, key)),
    ),
    model.ResourceMetricSource: (
        *_target_rules("averageUtilization", "averageValue"),
        Rule(
            "name",
            lambda fields, context: form.unknown_name(fields, _resources(context)),
            "is a resource without a query: {}; add it to `resourceQueries`, or give the metric "
            "its own `query`",
            shown=True,
        ),
        Rule("query", lambda fields, _: form.is_zero(fields.get("query")), form.NO_ZERO_OF_PODS),
    ),
    model.PodsMetricSource: (
        *_target_rules("averageValue"),
        Rule("metric", _zero_of_pods, form.NO_ZERO_OF_PODS),
    ),
    model.ObjectMetricSource: _target_rules("value", "averageValue", exclusive=False),
    model.ExternalMetricSource: _target_rules("value", "averageValue"),
    model.LabelSelectorRequirement: (
        form.stated(
            "values",
            form.implies(form.where("operator", *_LISTED), {"not": _EMPTY}),
            "operator In or NotIn needs at least one value",
            fixed_by=("values",),
        ),
        form.stated(
            "values",
            form.implies(form.where("operator", *_UNLISTED), _EMPTY),
            "operator Exists or DoesNotExist takes no values; leave them out",
            shown=True,
        ),
    ),
    model.MetricIdentifier: (
        Rule(
            "name",
            lambda metric, context: form.unknown_name(metric, context.queries),
            "unknown key of `queries`: {}; or give the metric its own `query`",
            shown=True,
        ),
    ),
}
