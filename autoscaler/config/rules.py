"""The rules between fields, in one table: the findings and the JSON Schema are both made from it.

Rules read the plain document, not the models, so that they are reported in one go with mistakes of
shape: where a field has the wrong shape, a rule about it is silent.
"""

import functools
import importlib.util
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import combinations
from types import NoneType
from typing import NamedTuple, TypeAlias

from pydantic import BaseModel, JsonValue

from autoscaler.config import durations
from autoscaler.config import extension_models as extension
from autoscaler.config import spec_model as model
from autoscaler.config.document import Location, child
from autoscaler.config.error_messages import closest, suggestion
from autoscaler.config.fields import Address, listen_address
from autoscaler.config.model_base import Model
from autoscaler.config.settings import (
    DEFAULT_SERVER,
    LISTEN,
    AzureAdSettings,
    LeaderElection,
    MainFile,
    NamedServer,
    PrometheusSettings,
    SigV4Settings,
    Tls,
)
from autoscaler.config.spec_model import SOURCES
from autoscaler.config.web_settings import WebAuth, WebTls

Schema: TypeAlias = dict[str, JsonValue]
Fields: TypeAlias = Mapping[str, object]
"""A mapping of the document as it is written; null in it counts as absent."""


_PER_POD = ("Resource", "ContainerResource", "Pods")


class Context(NamedTuple):
    """What rules compare a mapping with."""

    pod_namespace: str | None = None
    """Of the pod that we run in; None outside a pod."""
    queries: Mapping[str, object] | None = None
    """`queries` of all files; None where they are not looked up."""
    resources: Mapping[str, AbstractSet[str]] | None = None
    """By the name of each Prometheus server the resources that have a query there.

    None where neither servers nor resources are looked up.
    """
    target: Fields | None = None
    """The target that the mapping is in, if it is in one."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the table."""

    of: type[Model]
    """What the mapping that is checked is validated against."""
    at: str
    """The key that the finding is at; empty for the mapping itself."""
    broken: Callable[[Fields, Context], object]
    """Returns what the sentence shows for ``{}``, two as a tuple; falsy where all is well."""
    sentence: str
    """With two braces for each that is shown."""
    schema: Schema = field(default_factory=dict)
    """The same for the mapping as JSON Schema, as far as that can say it."""
    fixed_by: tuple[Location, ...] = ()
    """Places in the mapping any of which would have fixed the fault."""
    shown: bool = False
    """Whether the finding shows the value at the place."""


def _with(key: str, value: Schema) -> Schema:
    """Require a key whose value fits a schema."""
    return {"required": [key], "properties": {key: value}}


def _has(key: str) -> Schema:
    return _with(key, {"not": {"type": "null"}})


def _where(key: str, *values: JsonValue) -> Schema:
    return _with(key, {"enum": [*values]})


def _integer(fields: Fields, key: str, default: int | None = None) -> int | None:
    value = fields.get(key)
    if value is None:
        return default
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _time_rules(longer: str, shorter: str, factor: float, at: Mapping[str, str]) -> Iterator[Rule]:
    """Yield the rules of two times, of which one is longer than ``factor`` times the other.

    ``at`` has a sentence for each; the finding is at the first of them that is written.
    """

    def late(key: str, election: Fields, _: Context) -> tuple[str, str] | None:
        long, short = _seconds(election, longer), _seconds(election, shorter)
        if long is None or short is None or long > factor * short:
            return None
        written = next((one for one in at if election.get(one) is not None), None)
        both = durations.format_seconds(long), durations.format_seconds(short)
        return both if written == key else None

    for key, sentence in at.items():
        yield Rule(LeaderElection, key, functools.partial(late, key), sentence, shown=True)


def _seconds(election: Fields, key: str) -> float | None:
    """Return a duration in seconds; None where it has the wrong form, which is reported as such."""
    value = election.get(key)
    if value is None:
        fields = LeaderElection.model_fields.values()
        return next(float(field.default) for field in fields if field.alias == key)
    try:
        return durations.of(value)
    except ValueError:
        return None


def _without_pods(spec: Fields) -> bool:
    """Return whether a spec has 0 for minReplicas and no metric that works without pods."""
    return _integer(spec, "minReplicas") == 0 and _only_per_pod(spec)


def _only_per_pod(spec: Fields) -> bool:
    """Return whether no metric of a spec works without pods."""
    metrics = spec.get("metrics")
    return isinstance(metrics, list | tuple | NoneType) and all(
        # A type that is misspelt is reported as such; it may have been meant for another one.
        child(metric, "type") in _PER_POD
        for metric in metrics or ()
    )


def _too_few(spec: Fields) -> int | None:
    """Return minReplicas where maxReplicas is less."""
    low, high = _integer(spec, "minReplicas", 1), _integer(spec, "maxReplicas")
    return low if low is not None and high is not None and 1 <= high < low else None


def _idle_replicas(target: Fields | None) -> int | None:
    """Return `idle.replicas`; None without idle."""
    idle = child(target, "idle")
    return _integer(idle, "replicas", 0) if isinstance(idle, Mapping) else None


def _too_few_awake(idle: Fields, context: Context) -> int | None:
    """Return minReplicas where idle.replicas is not less; 0 has a sentence of its own."""
    count, low = _integer(idle, "replicas", 0), _integer(context.target or {}, "minReplicas", 1)
    return low if count is not None and low is not None and 1 <= low <= count else None


def _wakes_no_window(schedule: Fields, context: Context) -> tuple[int] | None:
    """Return idle.replicas where minReplicas of a window is not more."""
    count, low = _idle_replicas(context.target), _integer(schedule, "minReplicas")
    return (count,) if count is not None and low is not None and 0 <= low <= count else None


def _window_without_pods(schedule: Fields, context: Context) -> bool:
    target = context.target or {}
    return (
        _integer(schedule, "minReplicas") == 0
        and _idle_replicas(target) is None
        and _only_per_pod(target)
    )


def _window_upside_down(schedule: Fields, key: str, context: Context) -> tuple[str, int] | None:
    """Return the bound, and whose, that contradicts the one at ``key``, of which a window has it.

    Where it has both, the fault is at maxReplicas.
    """
    other, default = ("minReplicas", 1) if key == "maxReplicas" else ("maxReplicas", None)
    own, bound = _integer(schedule, key), _integer(schedule, other)
    whose = "its"
    if schedule.get(other) is None:
        whose, bound = "the target's", _integer(context.target or {}, other, default)
    elif key == "minReplicas":
        return None
    if own is None or bound is None:
        return None
    wrong = own < bound if key == "maxReplicas" else own > bound
    return (whose, bound) if wrong else None


def _repeated_name(target: Fields) -> str | None:
    schedules = target.get("schedules")
    if not isinstance(schedules, list | tuple):
        return None
    names = [name for one in schedules if isinstance(name := child(one, "name"), str)]
    return next((name for name in names if names.count(name) > 1), None)


def _never_opens(schedule: Fields) -> bool:
    """Return whether both cron expressions of a window are the same."""
    start, end = schedule.get("start"), schedule.get("end")
    return isinstance(start, str) and isinstance(end, str) and start.split() == end.split()


def _useless_activation(target: Fields) -> str | None:
    """Return the metrics with an activation where the target has no idle."""
    metrics = target.get("metrics")
    if target.get("idle") is not None or not isinstance(metrics, list | tuple):
        return None
    with_one = [
        f"metrics[{index}]"
        for index, metric in enumerate(metrics)
        if child(metric, "activation") is not None and child(metric, "type") not in _PER_POD
    ]
    return ", ".join(with_one[:3])


_WITHOUT_PODS: Schema = _with(
    "metrics",
    {
        "type": "array",
        "contains": {"properties": {"type": {"enum": ["Object", "External"]}}},
    },
)
_ZERO = (
    "0 needs at least one metric of type Object or External: without pods there is nothing else "
    "to measure; right is 1, or such a metric"
)


_APPS = {"Deployment": "deploy", "StatefulSet": "sts", "ReplicaSet": "rs"}
"""The kinds of the group apps that have a scale subresource, with kubectl's short names."""

_KINDS = {
    name: kind
    for kind, short in {**_APPS, "ReplicationController": "rc"}.items()
    for name in (kind.lower(), f"{kind.lower()}s", short)
}
_WITHOUT_SCALE = {"DaemonSet": "apps", "Job": "batch", "CronJob": "batch", "Pod": ""}
_SLIPS = {"", "app", "extensions"}
"""Groups that people write who mean apps, the Deployments' since Kubernetes 1.16."""


def group_of(ref: Fields) -> str | None:
    """Return the group of `apiVersion`; as for the HPA only it counts, so that a version is free.

    None where there is none that could be one.
    """
    version = ref.get("apiVersion")
    return version.rpartition("/")[0] if isinstance(version, str) else None


def _kind(ref: Fields) -> str:
    """Return the kind that is meant; empty for what is none."""
    kind = ref.get("kind")
    if not isinstance(kind, str):
        return ""
    usual = _KINDS.get(kind.lower(), kind)
    return usual if group_of(ref) in {*_SLIPS, "apps", None} else kind


def _kind_fault(ref: Fields) -> str | None:
    kind = _kind(ref)
    if kind and kind != ref["kind"]:
        return f"must be {kind}, as in `kind` of its manifest"
    if not _is_scaled(ref):
        return (
            "has no scale subresource, so that nothing can set its replicas; right is a "
            "Deployment, a StatefulSet or another kind that has one"
        )
    return None


def _is_scaled(ref: Fields) -> bool:
    return _WITHOUT_SCALE.get(_kind(ref), "none") != group_of(ref)


def _kind_in_group(ref: Fields) -> str:
    """Return the kind where it needs a group; empty otherwise."""
    kind = _kind(ref)
    return kind if _is_scaled(ref) and kind != "ReplicationController" else ""


def _missing_group(ref: Fields) -> str:
    kind = _kind_in_group(ref)
    if not kind or ref.get("apiVersion") is not None:
        return ""
    named = f"apps/v1 for a {kind}"
    return named if kind in _APPS else f"the group and version of {kind}, such as apps/v1"


def _group_fault(ref: Fields) -> str | None:
    kind, group = _kind_in_group(ref), group_of(ref)
    if not kind or group is None:
        return None
    if str(ref["apiVersion"]).startswith("/"):
        return "must name a group before the /, such as apps/v1"
    right = "be apps/v1" if kind in _APPS else f"name the group of {kind}, such as apps/v1"
    if group == "":
        return f"must {right}; only a ReplicationController is in the core group"
    return f"must be apps/v1 for a {kind}" if kind in _APPS and group in _SLIPS else None


def _other_source(metric: Fields, key: str) -> object:
    """Return the type, and the key of its source, where a source belongs to another type."""
    kind = metric.get("type")
    own = SOURCES.get(kind) if isinstance(kind, str) else None
    return None if metric.get(key) is None or own in {None, key} else (kind, own)


def _type_in(metric: Fields, kinds: tuple[str, ...]) -> object:
    return metric.get("type") if metric.get("type") in kinds else None


def _source_rules(kind: str, key: str) -> Iterator[Rule]:
    """Yield the rules of a source of a metric."""
    yield Rule(
        model.MetricSpec,
        key,
        lambda metric, _: metric.get("type") == kind and metric.get(key) is None,
        f"is missing: type {kind} needs its source here",
        {"if": _where("type", kind), "then": _has(key)},
        fixed_by=((key,),),
    )
    yield Rule(
        model.MetricSpec,
        key,
        lambda metric, _: _other_source(metric, key),
        "does not belong to type {}: keep only `{}`, or change the type",
        {
            "if": _where("type", *(other for other in SOURCES if other != kind)),
            "then": {"properties": {key: {"type": "null"}}},
        },
    )


def _target_rules(source: type[Model], *allowed: str, exclusive: bool = True) -> Iterator[Rule]:
    """Yield the rules of a target's values; its type is not compared with them, as in the API."""
    either = " or ".join(allowed)
    taken = " or ".join(
        f"{{type: {name[0].upper()}{name[1:]}, {name}: NUMBER}}" for name in allowed
    )

    def given(source: Fields) -> list[str] | None:
        target = source.get("target")
        if not isinstance(target, Mapping):
            return None
        return [name for name in allowed if target.get(name) is not None]

    def utilization(source: Fields) -> bool:
        kind, percent = (child(source, "target", key) for key in ("type", "averageUtilization"))
        return "averageUtilization" not in allowed and (
            kind == "Utilization" or percent is not None
        )

    one_of = "oneOf" if exclusive else "anyOf"
    yield Rule(
        source,
        "target",
        lambda source, _: given(source) == [] and utilization(source) and taken,
        "Utilization is for Resource and ContainerResource metrics only: write {}",
    )
    yield Rule(
        source,
        "target",
        lambda source, _: given(source) == [],
        f"{either} is missing: what to hold the metric at",
        {"properties": {"target": {one_of: [_has(name) for name in allowed]}}},
        fixed_by=tuple(("target", name) for name in allowed),
    )
    yield Rule(
        source,
        "target",
        lambda source, _: exclusive and len(given(source) or ()) > 1,
        f"takes one of {either}, not both",
    )


def _needs(of: type[Model], key: str, other: str) -> Rule:
    return Rule(
        of,
        key,
        lambda fields, _: fields.get(key) and not fields.get(other),
        f"needs {other} beside it (the same file, if it holds both)",
        {"if": _has(key), "then": _has(other)},
    )


def _operator(requirement: Fields, *words: str) -> object:
    operator = requirement.get("operator")
    return operator if operator in words else None


def _unknown(source: Fields, names: Collection[str] | None) -> str | None:
    """Return which names there are, where that of a source without a query of its own is none."""
    name = source.get("name")
    if names is None or not isinstance(name, str) or source.get("query") is not None:
        return None
    return None if name in names else suggestion(name, names)


def _unknown_server(fields: Fields, context: Context) -> str | None:
    """Return which servers there are, where the one that is named is none."""
    name, servers = fields.get("server"), context.resources
    if servers is None or not isinstance(name, str) or not name.strip() or name in servers:
        return None
    if len(servers) > 1 or closest(name, servers) is not None:
        return suggestion(name, servers)
    return f"there is none; {DEFAULT_SERVER} is the server at the top of `prometheus`"


def _resources(context: Context) -> AbstractSet[str] | None:
    """Return the resources that have a query at the target's server, if it names one rightly."""
    server = child(context.target, "server") or DEFAULT_SERVER
    return None if context.resources is None else context.resources.get(str(server))


def _is_zero(query: object) -> bool:
    """Return whether a query says that an empty answer is a value of 0."""
    return child(query, "empty") == "zero"


def _zero_of_pods(source: Fields, context: Context) -> bool:
    """Return whether the query of a Pods metric, its own or by name, says so."""
    own, name = (child(source, "metric", key) for key in ("query", "name"))
    named = context.queries.get(name) if context.queries and isinstance(name, str) else None
    return _is_zero(named if own is None else own)


def _zero_resources(settings: Fields) -> str:
    """Return the resources whose queries say so."""
    queries = settings.get("resourceQueries")
    named = queries.items() if isinstance(queries, Mapping) else ()
    return ", ".join(str(name) for name, query in named if _is_zero(query))


_NO_ZERO_OF_PODS = (
    "`empty: zero` is for values, and this one gives samples of pods, of which none is made up: "
    "leave it out"
)
_NO_RESOURCE = (
    "is a resource without a query: {}; add it to `resourceQueries`, or give the metric its own "
    "`query`"
)
_STOPS = ": a leader stops before another may start"
_ENDS = ": else one late try ends the leadership"
JITTER = 1.2
"""By so much a try to renew may come later than `retryPeriod` (client-go's JitterFactor)."""

SIGN_IN = ("bearerTokenFile", "basicAuth", "oauth2", "sigv4", "googleIam", "azuread")
"""The ways to sign in to a Prometheus, of which a connection has one."""

EXTRAS = (
    ("sigv4", "aws", "botocore"),
    ("googleIam", "google", "google.auth"),
    ("azuread", "azure", "azure.identity"),
)
"""The ways that need an extra: its name, and a module of it."""

_IDENTITIES = ("managedIdentity", "workloadIdentity", "oauth")


def _several(fields: Fields, keys: Sequence[str]) -> str | None:
    """Return the keys that are set, where more than one is."""
    given = [key for key in keys if fields.get(key) is not None]
    return f"{', '.join(given[:-1])} and {given[-1]}" if len(given) > 1 else None


def _needs_extra(key: str, extra: str, module: str) -> Rule:
    return Rule(
        PrometheusSettings,
        key,
        lambda prometheus, _: prometheus.get(key) is not None and not _is_installed(module),
        f"needs a library that is not installed: pip install '.[{extra}]' in the checkout of this "
        "project",
    )


def _is_installed(module: str) -> bool:
    """Return whether a module can be imported, without doing so."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it is in
        return False


_CERTIFICATES = ("VerifyClientCertIfGiven", "RequireAndVerifyClientCert")
_WAYS_IN = ("bearerTokenFile", "basicAuthUsersFile")


def _asks_for_certificates(tls: Fields) -> bool:
    return tls.get("clientAuthType") in _CERTIFICATES


def _web_fault(top: Fields) -> str | None:
    """Say what of `web` does not go with the address, which may be that of `listen`."""
    web, listen = top.get("web"), _address(top.get("listen", str(LISTEN)))
    if not isinstance(web, Mapping):
        return None
    own = _address(web.get("listen"))
    secured = [key for key in ("tls", "auth") if web.get(key) is not None]
    if web.get("listen") is None:
        if top.get("listen", LISTEN) is None and secured:
            return f"needs a listen of its own for {secured[0]}, since `listen` is null"
        own = listen
    elif own is not None and own == listen and own.port:
        return (
            f"listen is {own}, as the document's `listen` is: leave it out to serve the pages "
            "there, or give it another port"
        )
    if secured == ["auth"] and own is not None and not own.is_loopback:
        return (
            f"auth needs tls beside it: at {own} passwords and tokens would cross the network "
            "unencrypted; or listen on a loopback address such as 127.0.0.1:9443"
        )
    return None


def _address(value: object) -> Address | None:
    """Return an address; None of what is none, which is reported as such."""
    try:
        return None if value is None else listen_address(value)
    except ValueError:
        return None


_TABLE: tuple[Rule, ...] = (
    Rule(
        MainFile,
        "targets",
        lambda top, _: top.get("targets") is None and not top.get("include"),
        "is missing: the workloads to scale; or `include` the files that hold them",
        {"anyOf": [_has("targets"), _has("include")]},
        fixed_by=(("targets",), ("include",)),
    ),
    Rule(
        PrometheusSettings,
        "",
        lambda prometheus, _: _several(prometheus, SIGN_IN),
        "{} cannot be used together: a request carries one Authorization; keep one of them",
        {"allOf": [{"not": {"allOf": [_has(a), _has(b)]}} for a, b in combinations(SIGN_IN, 2)]},
    ),
    *(_needs_extra(*row) for row in EXTRAS),
    _needs(SigV4Settings, "accessKey", "secretKeyFile"),
    _needs(SigV4Settings, "secretKeyFile", "accessKey"),
    _needs(SigV4Settings, "externalId", "roleArn"),
    Rule(
        AzureAdSettings,
        "",
        lambda azure, _: not any(azure.get(key) is not None for key in _IDENTITIES),
        "needs one of managedIdentity, workloadIdentity and oauth: who signs in",
        {"anyOf": [_has(key) for key in _IDENTITIES]},
        fixed_by=tuple((key,) for key in _IDENTITIES),
    ),
    Rule(
        AzureAdSettings,
        "",
        lambda azure, _: _several(azure, _IDENTITIES),
        "{} cannot be used together: keep one of them",
        {
            "allOf": [
                {"not": {"allOf": [_has(a), _has(b)]}} for a, b in combinations(_IDENTITIES, 2)
            ]
        },
    ),
    _needs(Tls, "certFile", "keyFile"),
    _needs(Tls, "keyFile", "certFile"),
    Rule(
        WebTls,
        "clientAuthType",
        lambda tls, _: _asks_for_certificates(tls) and tls.get("clientCAFile") is None,
        "needs clientCAFile beside it: the authorities that vouch for clients",
        {
            "if": _where("clientAuthType", *_CERTIFICATES),
            "then": _has("clientCAFile"),
        },
    ),
    Rule(
        WebTls,
        "clientCAFile",
        lambda tls, _: (
            tls.get("clientCAFile") is not None
            and tls.get("clientAuthType") in {None, "NoClientCert"}
        ),
        f"has no use without clientAuthType {' or '.join(_CERTIFICATES)}",
        {"if": _has("clientCAFile"), "then": _where("clientAuthType", *_CERTIFICATES)},
    ),
    Rule(
        WebAuth,
        "",
        lambda auth, _: not any(auth.get(key) is not None for key in _WAYS_IN),
        "needs bearerTokenFile, basicAuthUsersFile or both: how clients sign in",
        {"anyOf": [_has(key) for key in _WAYS_IN]},
        fixed_by=tuple((key,) for key in _WAYS_IN),
    ),
    Rule(MainFile, "web", lambda top, _: _web_fault(top), "{}"),
    *_time_rules(
        *("leaseDuration", "renewDeadline", 1.0),
        {
            "leaseDuration": "must be longer than renewDeadline, which is {1}" + _STOPS,
            "renewDeadline": "must be shorter than leaseDuration, which is {0}" + _STOPS,
        },
    ),
    *_time_rules(
        *("renewDeadline", "retryPeriod", JITTER),
        {
            "retryPeriod": "1.2 times this must be shorter than renewDeadline, which is {0}"
            + _ENDS,
            "renewDeadline": "must be longer than 1.2 times retryPeriod, which is {1}" + _ENDS,
        },
    ),
    Rule(
        LeaderElection,
        "namespace",
        lambda election, context: (
            election.get("enabled") is True
            and not (election.get("namespace") or context.pod_namespace)
        ),
        "is missing: the namespace of the Lease, which is known by itself only in a pod",
    ),
    Rule(
        model.HorizontalPodAutoscalerSpec,
        "maxReplicas",
        lambda spec, _: _too_few(spec),
        "must be at least minReplicas, which is {}",
        shown=True,
    ),
    Rule(
        model.HorizontalPodAutoscalerSpec,
        "minReplicas",
        lambda spec, _: _without_pods(spec),
        _ZERO,
        {"if": _where("minReplicas", 0), "then": _WITHOUT_PODS},
        shown=True,
    ),
    Rule(
        model.TargetModel,
        "minReplicas",
        lambda target, _: target.get("idle") is not None and _integer(target, "minReplicas") == 0,
        "must be at least 1 beside `idle`, which goes to idle.replicas and back by itself",
        {
            "if": _has("idle"),
            "then": {"properties": {"minReplicas": {"not": {"const": 0}}}},
        },
        shown=True,
    ),
    Rule(
        model.TargetModel,
        "idle",
        lambda target, _: target.get("idle") is not None and _only_per_pod(target),
        "needs at least one metric of type External or Object: only these can be active",
        {"if": _has("idle"), "then": _WITHOUT_PODS},
    ),
    Rule(
        model.TargetModel,
        "idle",
        lambda target, _: _useless_activation(target),
        "is missing: the activation of {} says from which value on a target is not idle; write "
        "idle: {{after: 5m}} here, or leave the activation out",
        {
            "if": {"not": _has("idle")},
            "then": {
                "properties": {
                    "metrics": {"items": {"properties": {"activation": {"type": "null"}}}}
                }
            },
        },
        fixed_by=(("idle",),),
    ),
    Rule(
        extension.IdleModel,
        "replicas",
        _too_few_awake,
        "must be less than minReplicas, which is {}",
        shown=True,
    ),
    Rule(
        extension.FallbackModel,
        "replicas",
        lambda fallback, _: (
            fallback.get("replicas") is None and fallback.get("behavior") != "currentReplicas"
        ),
        "is missing: the count that a metric proposes which fails; only behavior currentReplicas "
        "needs none",
        {"anyOf": [_has("replicas"), _where("behavior", "currentReplicas")]},
        fixed_by=(("replicas",),),
    ),
    Rule(
        model.TargetModel,
        "schedules",
        lambda target, _: _repeated_name(target),
        "two of them are called `{}`: give each a name of its own",
    ),
    Rule(
        extension.ScheduleModel,
        "end",
        lambda schedule, _: _never_opens(schedule),
        "is the same as start, so that the window would never open",
        shown=True,
    ),
    Rule(
        extension.ScheduleModel,
        "",
        lambda schedule, _: (
            schedule.get("minReplicas") is None and schedule.get("maxReplicas") is None
        ),
        "gives no bound: write minReplicas, maxReplicas or both",
        {"anyOf": [_has("minReplicas"), _has("maxReplicas")]},
        fixed_by=(("minReplicas",), ("maxReplicas",)),
    ),
    Rule(
        extension.ScheduleModel,
        "minReplicas",
        _wakes_no_window,
        "must be more than idle.replicas, which is {}",
        shown=True,
    ),
    Rule(
        extension.ScheduleModel,
        "minReplicas",
        _window_without_pods,
        _ZERO,
        shown=True,
    ),
    Rule(
        extension.ScheduleModel,
        "minReplicas",
        lambda schedule, context: _window_upside_down(schedule, "minReplicas", context),
        "must be at most {} maxReplicas, which is {}; or give the window a maxReplicas too",
        shown=True,
    ),
    Rule(
        extension.ScheduleModel,
        "maxReplicas",
        lambda schedule, context: _window_upside_down(schedule, "maxReplicas", context),
        "must be at least {} minReplicas, which is {}; or give the window a lower minReplicas too",
        shown=True,
    ),
    Rule(
        model.MetricSpec,
        "activation",
        lambda metric, _: metric.get("activation") is not None and _type_in(metric, _PER_POD),
        "belongs to metrics of type External and Object: those of type {} cannot wake a target",
        {
            "if": _where("type", *_PER_POD),
            "then": {"properties": {"activation": {"type": "null"}}},
        },
    ),
    Rule(model.ScaleTargetRef, "kind", lambda ref, _: _kind_fault(ref), "{}", shown=True),
    Rule(
        model.ScaleTargetRef,
        "",
        lambda ref, _: _missing_group(ref),
        "apiVersion is missing: {}",
        {
            "if": _with("kind", {"not": {"const": "ReplicationController"}}),
            "then": _with("apiVersion", {"type": "string", "pattern": "^[^/]+/"}),
        },
        fixed_by=(("apiVersion",),),
    ),
    Rule(model.ScaleTargetRef, "apiVersion", lambda ref, _: _group_fault(ref), "{}", shown=True),
    *(rule for kind, key in SOURCES.items() for rule in _source_rules(kind, key)),
    *_target_rules(model.ResourceMetricSource, "averageUtilization", "averageValue"),
    *_target_rules(model.ContainerResourceMetricSource, "averageUtilization", "averageValue"),
    *_target_rules(model.PodsMetricSource, "averageValue"),
    *_target_rules(model.ObjectMetricSource, "value", "averageValue", exclusive=False),
    *_target_rules(model.ExternalMetricSource, "value", "averageValue"),
    Rule(
        model.LabelSelectorRequirement,
        "values",
        lambda one, _: one.get("values") in (None, []) and _operator(one, "In", "NotIn"),
        "{} needs at least one value",
        {
            "if": _where("operator", "In", "NotIn"),
            "then": _with("values", {"type": "array", "minItems": 1}),
        },
        fixed_by=(("values",),),
    ),
    Rule(
        model.LabelSelectorRequirement,
        "values",
        lambda one, _: (
            isinstance(one.get("values"), list)
            and one["values"]
            and _operator(one, "Exists", "DoesNotExist")
        ),
        "{} takes no values; leave them out",
        {
            "if": _where("operator", "Exists", "DoesNotExist"),
            "then": {"properties": {"values": {"maxItems": 0}}},
        },
        shown=True,
    ),
    Rule(
        model.MetricIdentifier,
        "name",
        lambda metric, context: _unknown(metric, context.queries),
        "is no key of `queries`: {}; or give the metric its own `query`",
        shown=True,
    ),
    *(
        Rule(
            of,
            "name",
            lambda one, context: _unknown(one, _resources(context)),
            _NO_RESOURCE,
            shown=True,
        )
        for of in (model.ResourceMetricSource, model.ContainerResourceMetricSource)
    ),
    *(
        Rule(of, "server", _unknown_server, "is no key of `prometheus.servers`: {}", shown=True)
        for of in (model.BoundQueryModel, model.TargetModel)
    ),
    Rule(model.PodsMetricSource, "metric", _zero_of_pods, _NO_ZERO_OF_PODS),
    *(
        Rule(of, "query", lambda one, _: _is_zero(one.get("query")), _NO_ZERO_OF_PODS)
        for of in (model.ResourceMetricSource, model.ContainerResourceMetricSource)
    ),
    *(
        Rule(
            of, "resourceQueries", lambda top, _: _zero_resources(top), f"{{}}: {_NO_ZERO_OF_PODS}"
        )
        for of in (MainFile, NamedServer)
    ),
)


def rules_of(model: type[BaseModel]) -> tuple[Rule, ...]:
    """Return the rules of a model, in the order of the table."""
    return tuple(rule for rule in _TABLE if issubclass(model, rule.of))
